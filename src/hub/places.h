/* What the environment says: where the cache is, which server, which token, whether the network may be used. */
#ifndef HSC_HUB_PLACES_H
#define HSC_HUB_PLACES_H

#include "base/status.h"

#include <stdbool.h>

typedef struct hsc__hub_places {
    char *cache;          /* HF_HUB_CACHE, else HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub, else ~/.cache/... */
    char *endpoint;       /* HF_ENDPOINT without a slash at its end */
    char *endpoint_shown; /* the same for messages: no name, no password */
    char *token;          /* HF_TOKEN, else the token file; NULL when there is none */
    bool offline;         /* HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE */
} hsc__hub_places;

/* HSC_EINVAL: HF_ENDPOINT is not an http or https address, or a token has characters that no header may hold.
 * HSC_EIO: a token file exists and cannot be read. */
hsc_status hsc__hub_places_read(hsc__hub_places *out, hsc_error *err);
void hsc__hub_places_free(hsc__hub_places *places);

/* Only the cache's folder; free with hsc__free. */
hsc_status hsc__hub_cache_dir(char **out, hsc_error *err);

#endif
