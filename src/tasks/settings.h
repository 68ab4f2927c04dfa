/* What a model's files say besides weights and vocabulary. */
#ifndef HSC_TASKS_SETTINGS_H
#define HSC_TASKS_SETTINGS_H

#include "base/text.h"
#include "headscope/tasks.h"

#include <jansson.h>

/* folder/name as JSON; *out stays NULL where there is no such file. The path is left in `path` for messages. */
hsc_status hsc__settings_load(json_t **out, const char *folder, const char *name, hsc__string *path, hsc_error *err);

/* The chat template, and the special tokens that templates name. Empty where the files do not say. Zero it before use.
 */
typedef struct hsc__chat_settings {
    hsc__string text, bos, eos;
} hsc__chat_settings;

/* HSC_ENOTFOUND: there is no template. */
hsc_status hsc__chat_settings_read(hsc_model *model, hsc__chat_settings *out, hsc_error *err);
void hsc__chat_settings_free(hsc__chat_settings *settings);

/* The mask token that the files name; *out stays as it is where they name none that the tokenizer has. */
hsc_status hsc__settings_mask(hsc_model *model, const hsc_tokenizer *tokenizer, hsc_token *out, hsc_error *err);

#endif
