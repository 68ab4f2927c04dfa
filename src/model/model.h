/* The model object: mapped files, description, tokenizer. */
#ifndef HSC_MODEL_MODEL_H
#define HSC_MODEL_MODEL_H

#include "base/alloc.h"
#include "formats/gguf.h"
#include "model/recast.h"

#include <pthread.h>

struct hsc_model {
    hsc__desc desc;
    hsc__arena arena;     /* description, vectors, names, warnings */
    char *path;           /* of the checkpoint */
    char *outer;          /* what was asked for, where the checkpoint lies in a folder below it; else NULL */
    hsc__tensors *folder; /* one of the two owns the tensors */
    hsc__gguf *gguf;
    const hsc__tensors *tensors;
    const char *warnings[16];
    size_t n_warnings;
    hsc__recast recast;   /* weights that were converted when the model was opened */
    pthread_mutex_t lock; /* guards the tokenizers, which are made on first use */
    bool no_tokenizer;    /* the container has no place for one */
    struct {
        bool tried;
        hsc_tokenizer *made;
        hsc_error error;
    } tokenizers[2]; /* the model's, and that of its targets where they have one of their own */
};

/* Where modules.json of sentence-transformers lies, if there is one. */
static inline const char *hsc__model_home(const hsc_model *model)
{
    return model->outer ? model->outer : model->path;
}

/* Of a model and its weights: the same wherever it lies and whatever it is called, another for other weights. */
uint64_t hsc__model_mark(const hsc_model *model);

#endif
