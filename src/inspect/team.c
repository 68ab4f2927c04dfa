/* Results of several processes come together: one call and its message. */
#include "inspect/team.h"

#include "base/status.h"

hsc_status hsc__team_share(const hsc_team *team, void *bytes, const size_t *starts, hsc_error *err)
{
    hsc_status status = team->share(team->user, bytes, starts);
    HSC_FAIL_IF(status != HSC_OK, status, "process %d of %d cannot reach the others", team->rank, team->n_ranks);
    return HSC_OK;
}
