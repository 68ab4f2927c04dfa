/* Processes that do one run together. The interface is hsc_team of headscope/inspect.h. */
#ifndef HSC_INSPECT_TEAM_H
#define HSC_INSPECT_TEAM_H

#include "headscope/inspect.h"

/* team->share with a message. */
hsc_status hsc__team_share(const hsc_team *team, void *bytes, const size_t *starts, hsc_error *err);

#endif
