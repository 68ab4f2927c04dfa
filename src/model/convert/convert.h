/*
 * Inside conversion: one conversion under way and the tensors that it writes. A plan names every tensor, its type and
 * how its values are rearranged; the data then stream through it a tensor at a time, so that memory does not grow with
 * the model.
 */
#ifndef HSC_MODEL_CONVERT_CONVERT_H
#define HSC_MODEL_CONVERT_CONVERT_H

#include "formats/gguf_writer.h"
#include "formats/json.h"
#include "model/model.h"

/* How the rows of a tensor lie in the other container. */
typedef enum {
    HSC__AS_STORED,
    HSC__TURNED, /* transposed: GPT-2's Conv1D [n_in][n_out] and GGUF's [n_out][n_in] */
    HSC__PAIRED, /* of each head, rows (i, i + half) come to lie at (2i, 2i + 1): llama's q and k on the way to GGUF */
    HSC__UNPAIRED, /* and back */
    HSC__PARTED,   /* GPT-NeoX's rows [n_heads][3][d_head] come to lie as [3][n_heads][d_head]: all of q, then k, then v
                    */
    HSC__JOINED,   /* and back */
    HSC__ONE_MORE, /* 1 is added to each value: Gemma's gains on the way to GGUF */
    HSC__ONE_LESS, /* and back */
    HSC__LAST_ROWS, /* the first rows are left out: RoBERTa's positions on the way to GGUF */
} hsc__how;

/* A tensor to be written. */
typedef struct hsc__item {
    const hsc__tensor *from;
    const char *name;
    hsc_dtype dtype;       /* HSC_OTHER: the bytes are copied, whatever they are */
    const char *type_name; /* as GGUF spells it */
    int n_dims;
    int64_t shape[HSC_MAX_DIMS];
    uint64_t n_bytes;
    hsc__how how;
    int n_heads;  /* that the rows belong to where heads are rearranged */
    int n_before; /* rows that are left out */
} hsc__item;

typedef struct hsc__convert {
    const char *in, *out;
    const hsc_convert_options *options;
    hsc_convert_report *report;
    bool to_gguf;
    hsc_model *model;                 /* what is read; NULL from GGUF to GGUF, which needs no model */
    hsc__gguf *gguf;                  /* the input from GGUF to GGUF, else the model's own or NULL */
    const struct hsc__family *family; /* NULL where nothing is renamed */
    json_t *config;                   /* config.json of a folder that is read, or NULL */
    const hsc__tensors *tensors;
    hsc__item *items;
    size_t n_items;
    hsc__arena arena;     /* names and texts */
    uint64_t done, total; /* bytes of tensors read so far, and in all */
} hsc__convert;

/* Something that one should know about the result. */
void hsc__convert_note(const hsc__convert *c, const char *format, ...) HSC_PRINTF(2, 3);
/* Tells how far it is; HSC_ECANCELED when the caller says stop. */
hsc_status hsc__convert_progress(const hsc__convert *c, const char *tensor, hsc_error *err);
/* A formatted text in the arena; NULL when memory is out. */
const char *hsc__convert_text(hsc__convert *c, const char *format, ...) HSC_PRINTF(2, 3);

/* names.c: the same tensor's name in a folder and in GGUF. */
typedef struct hsc__name_rule {
    const char *gguf, *folder; /* without .weight and .bias; %d is the layer */
    hsc__how how;              /* on the way to GGUF; HSC__TURNED holds for weights only */
    bool is_key;               /* HSC__PAIRED: its heads are those of keys */
} hsc__name_rule;
/* A family's names on either side, and what llama.cpp and headscope take for granted of it in GGUF. */
typedef struct hsc__family {
    const char *folder, *gguf; /* the architecture's name */
    const char *class;         /* of transformers */
    const char *prefix;        /* what names in a folder begin with; the output matrix has no such beginning */
    const hsc__name_rule *rules;
    size_t n_rules;
    hsc__act act;
    int windows; /* 0: no layer has a window; 1: every layer may have one, n: all have one but every nth */
} hsc__family;
/* Sets c->family; HSC_EUNSUPPORTED when the model's architecture has no rules. */
hsc_status hsc__convert_find_family(hsc__convert *c, hsc_error *err);
/* The name on the other side; NULL when no rule of the architecture knows it (or memory is out, with *out_of_memory
 * set). */
const char *hsc__convert_name(hsc__convert *c, const char *name, const hsc__name_rule **rule, bool *out_of_memory);

/* plan.c: fills c->items. */
hsc_status hsc__convert_plan(hsc__convert *c, hsc_error *err);

/* data.c: writes the data of one item and adds to the report. */
hsc_status hsc__convert_data(hsc__convert *c, const hsc__item *item, hsc__sink *sink, hsc_error *err);

/* metadata.c: the keys of GGUF from the model of a folder, and the other way round; HSC_EUNSUPPORTED when GGUF cannot
 * say what the model computes. */
hsc_status hsc__convert_put_metadata(hsc__convert *c, hsc__gguf_writer *writer, hsc_error *err);
/* The keys of a GGUF file that is written anew. */
void hsc__convert_copy_metadata(hsc__convert *c, hsc__gguf_writer *writer);
/* config.json for a folder; NULL when memory is out. */
hsc_status hsc__convert_config(hsc__convert *c, json_t **out, hsc_error *err);

/* How BLOOM's tokenizer.json cuts text, which GGUF calls "bloom". */
#define HSC__BLOOM_PATTERN                                                                                             \
    " ?[^(\\s|[.,!?\xe2\x80\xa6\xe3\x80\x82\xef\xbc\x8c\xe3\x80\x81\xe0\xa5\xa4\xdb\x94\xd8\x8c])]+"

/* vocabulary.c: the tokenizer of a folder as GGUF's keys. What GGUF cannot say is noted and left out. */
hsc_status hsc__convert_put_tokenizer(hsc__convert *c, hsc__gguf_writer *writer, hsc_error *err);
/* tokenizer_json.c: tokenizer.json and tokenizer_config.json from GGUF's keys, or NULLs with a note. */
hsc_status hsc__convert_tokenizer_json(hsc__convert *c, json_t **tokenizer, json_t **config, hsc_error *err);

/* files.c: the two kinds of output. */
hsc_status hsc__convert_to_gguf(hsc__convert *c, hsc_error *err);
hsc_status hsc__convert_to_folder(hsc__convert *c, hsc_error *err);

#endif
