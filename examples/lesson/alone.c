/* The main of a lesson's program by itself, whose own main the build renames to LESSON: it runs the lesson and says so
 * when what the lesson printed could not be written, as on a full disk. `headscope lesson` looks after that itself. */
#include "lesson.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    int result = LESSON(argc, argv);
    errno = 0;
    bool failed = fflush(stdout) != 0;
    int reason = errno;
    if (!failed && !ferror(stdout)) return result;
    fprintf(stderr, "headscope: cannot write to standard output%s%s\n", reason ? ": " : "",
            reason ? strerror(reason) : "");
    return result ? result : 1;
}
