/* The linear layers behind an embedding's pooling: their files and their arithmetic. */
#ifndef HSC_TASKS_DENSE_H
#define HSC_TASKS_DENSE_H

#include "headscope/tasks.h"

#include <jansson.h>

/* Adds the layer that lies in `folder`, whose config.json is `config`; `path` names that for messages. */
hsc_status hsc__dense_read(hsc_embedding *embedding, const char *folder, const json_t *config, const char *path,
                           hsc_error *err);

/* HSC_EINVAL: a layer does not take as many numbers as the one before it gives, the first d_model. */
hsc_status hsc__dense_check(const hsc_embedding *how, int d_model, hsc_error *err);
/* Numbers of scratch that hsc__dense_apply wants. */
size_t hsc__dense_scratch(const hsc_embedding *how);
/* x [d_model] through all layers; returns x or a place in scratch. */
const double *hsc__dense_apply(const hsc_embedding *how, const double *x, double *scratch);

#endif
