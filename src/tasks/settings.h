/* The chat template of a model's files, and the special tokens that templates name. */
#ifndef HSC_TASKS_SETTINGS_H
#define HSC_TASKS_SETTINGS_H

#include "base/text.h"
#include "headscope/tasks.h"

/* Empty where the files do not say. Zero it before use. */
typedef struct hsc__chat_settings {
    hsc__string text, bos, eos;
} hsc__chat_settings;

/* HSC_ENOTFOUND: there is no template. */
hsc_status hsc__chat_settings_read(hsc_model *model, hsc__chat_settings *out, hsc_error *err);
void hsc__chat_settings_free(hsc__chat_settings *settings);

#endif
