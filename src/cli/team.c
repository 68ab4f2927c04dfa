/* The processes of mpirun as a team. Everything is one call: each holds a part of an array, and afterwards all hold all
 * of it. */
#include "cli/team.h"
#include "base/status.h"
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* How many processes mpirun, or another starter that speaks PMI, says there are; 1: none of them started this one. */
static int n_started(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        int n = value ? (int)strtol(value, NULL, 10) : 0;
        if (n > 0) return n;
    }
    return 1;
}

static bool splits_work(const char *command)
{
    return strcmp(command, "scan") == 0 || strcmp(command, "detect") == 0;
}

#ifdef HEADSCOPE_MPI
#include <limits.h>
#include <mpi.h>

static hsc_team team;
static bool joined;

/* In pieces that an int can count. */
static hsc_status share_part(unsigned char *bytes, size_t n, int from)
{
    for (size_t at = 0; at < n;) {
        size_t piece = n - at < (1u << 30) ? n - at : 1u << 30;
        if (MPI_Bcast(bytes + at, (int)piece, MPI_BYTE, from, MPI_COMM_WORLD) != MPI_SUCCESS) return HSC_EIO;
        at += piece;
    }
    return HSC_OK;
}

static hsc_status share_all(void *user, void *bytes, const size_t *starts)
{
    (void)user;
    for (int rank = 0; rank < team.n_ranks; rank++) {
        hsc_status status = share_part((unsigned char *)bytes + starts[rank], starts[rank + 1] - starts[rank], rank);
        if (status != HSC_OK) return status;
    }
    return HSC_OK;
}

static int join(void)
{
    int given;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given) != MPI_SUCCESS) {
        hsc__cli_error("MPI cannot be started");
        return HSC__EXIT_FAILED;
    }
    joined = true;
    MPI_Comm_rank(MPI_COMM_WORLD, &team.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &team.n_ranks);
    team.share = share_all;
    return HSC__CLI_GO_ON;
}

const hsc_team *hsc__team(void)
{
    return joined && team.n_ranks > 1 ? &team : NULL;
}

void hsc__team_end(int status)
{
    if (!joined) return;
    if (status != HSC__EXIT_OK) MPI_Abort(MPI_COMM_WORLD, status);
    MPI_Finalize();
}
#else
static int join(void)
{
    hsc__cli_error("this build has no MPI, so each of the %d processes would do all the work: configure with "
                   "-DHEADSCOPE_MPI=ON",
                   n_started());
    return HSC__EXIT_FAILED;
}

const hsc_team *hsc__team(void)
{
    return NULL;
}

void hsc__team_end(int status)
{
    (void)status;
}
#endif

int hsc__team_start(const char *command)
{
    int n = n_started();
    if (n < 2) return HSC__CLI_GO_ON;
    if (splits_work(command)) return join();
    hsc__cli_error("%s does not split its work over processes: run it without mpirun", command);
    return HSC__EXIT_USAGE;
}

bool hsc__team_speaks(void)
{
    return !hsc__team() || hsc__team()->rank == 0;
}

hsc_status hsc__team_can_read(const char *path, hsc_error *err)
{
    struct stat seen;
    if (!hsc__team()) return HSC_OK;
    HSC_FAIL_IF(strcmp(path, "-") == 0 || (stat(path, &seen) == 0 && !S_ISREG(seen.st_mode)), HSC_EINVAL,
                "%s: each of several processes reads the whole, so it must be a file, no pipe", path);
    return HSC_OK;
}
