/* Several processes of one program that mpirun started: who this one is, and how results come together. A build without
 * MPI (HEADSCOPE_MPI is off) is always alone. */
#ifndef HSC_CLI_TEAM_H
#define HSC_CLI_TEAM_H

#include "headscope/inspect.h"

#include <stdbool.h>

/* Called once by main with the command's name: joins the other processes where mpirun started several. Returns
 * HSC__CLI_GO_ON, or the exit status after a message: the command does not split its work, or the build has no MPI. */
int hsc__team_start(const char *command);
/* NULL: alone. */
const hsc_team *hsc__team(void);
/* Every process reads the input, so one that can be read once only, a pipe, would be shared out among them, and each
 * would work on another part. HSC_EINVAL names it where several would. */
hsc_status hsc__team_can_read(const char *path, hsc_error *err);
/* Whether this process writes the results: it is alone, or the first. */
bool hsc__team_speaks(void);
/* Called once by main at the end: a process that failed takes the others with it, since they would wait for it. */
void hsc__team_end(int status);

#endif
