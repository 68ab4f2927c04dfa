/* What a head reads of single words: the effective embedding and its q, k and v, by the engine itself. */
#ifndef HSC_INSPECT_CIRCUIT_H
#define HSC_INSPECT_CIRCUIT_H

#include "headscope/analysis.h"
#include "inspect/weights.h"

enum { HSC__CIRCUIT_ROWS = 256 }; /* words that go through together */

/* Passes over single words, of which only a few steps are wanted. Zero it before use. */
typedef struct hsc__words {
    const hsc_model *model;
    hsc_session *session;
    int *lengths; /* [HSC__CIRCUIT_ROWS], all 1 */
} hsc__words;
hsc_status hsc__words_init(hsc__words *words, const hsc_model *model, const hsc_circuit_options *options,
                           hsc_error *err);
void hsc__words_free(hsc__words *words);

/* x [n][d_model] of n <= HSC__CIRCUIT_ROWS words: effective embeddings, or the embeddings alone. */
hsc_status hsc__words_embed(hsc__words *words, const hsc_token *ids, int n, bool effective, float *x, hsc_error *err);

/* q, k and v of a layer: [n][n_heads * d_head], [n][n_kv_heads * d_head] twice; any may be NULL. */
hsc_status hsc__words_project(hsc__words *words, const hsc_token *ids, int n, int layer, const float *x, float *q,
                              float *k, float *v, hsc_error *err);

/* Logits [n][d_vocab] of rows x at the final norm. Valid until the next call. */
hsc_status hsc__words_unembed(hsc__words *words, const hsc_token *ids, int n, const float *x, const float **logits,
                              hsc_error *err);

/* HSC_EUNSUPPORTED unless one norm stands between the sum of all parts and the logits. */
hsc_status hsc__one_norm(const hsc_model *model, const char *what, hsc_error *err);

/* The k largest of x [n], or the smallest, ties to the lower index. */
void hsc__keep_top(const float *x, int n, int k, bool smallest, hsc_token *ids, float *values);

#endif
