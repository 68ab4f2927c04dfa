/*
 * Texts that are read by themselves, whatever the model: a stack of blocks runs them, of an encoder-decoder the
 * encoder. What reads such texts alone (scan, detect, drift, embeddings) asks here which blocks these are.
 */
#ifndef HSC_MODEL_TEXTS_H
#define HSC_MODEL_TEXTS_H

#include "model/model.h"

/* The stack that reads them. */
const hsc_config *hsc__texts_config(const hsc_model *model);
/* The site of its patterns. */
hsc_site hsc__texts_pattern(const hsc_model *model);

/* A session for texts of at most options->max_tokens. HSC_EINVAL: a mask, which an encoder-decoder has for its decoder
 * alone; as hsc_session_new besides. */
hsc_status hsc__texts_session(hsc_session **out, const hsc_model *model, const hsc_session_options *options,
                              hsc_error *err);
/* Runs a batch of texts. */
hsc_status hsc__texts_forward(hsc_session *session, const hsc_batch *batch, hsc_error *err);

#endif
