/* The lab: what edit.c (checks and arithmetic of edits) and lab.c (running variants) share. */
#ifndef HSC_INSPECT_LAB_H
#define HSC_INSPECT_LAB_H

#include "headscope/intervene.h"

#include <stdbool.h>

/* The layer whose resid_pre a run with this edit may begin from: n_layers for the final norm and the logits, -1 for the
 * embedding. */
int hsc__edit_first_layer(const hsc_edit *edit, int n_layers);
/* The first position that an edit changes. */
int hsc__edit_first_pos(const hsc_edit *edit, int n_tokens);
/* HSC_EINVAL: the edit does not fit the model, a text of n_tokens or a source of n_source. */
hsc_status hsc__edit_check(const hsc_edit *edit, const hsc_model *model, int n_tokens, int n_source, hsc_error *err);
/* Tokens of the lab's text; 0: none yet. */
int hsc__lab_n_tokens(const hsc_lab *lab);
const hsc_model *hsc__lab_model(const hsc_lab *lab);
/* The first position at which the runs of two labs can differ: what a causal model reads before the first token that is
 * another gives the same bits. 0 in other models and for two sources; at most the shorter text's last position. */
int hsc__lab_first_difference(const hsc_lab *x, const hsc_lab *y);

/* Makes the edit where it meets the block. */
void hsc__edit_apply(const hsc_edit *edit, const hsc_block *block);

#endif
