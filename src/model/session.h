/* The session object: cache, scratch, records and observers; what the files session.c, watch.c and forward.c share. */
#ifndef HSC_MODEL_SESSION_H
#define HSC_MODEL_SESSION_H

#include "model/cache.h"
#include "model/model.h"
#include "tensor/attention.h"

/* A run of rows of one sequence inside the chunk that is going through the layers. */
typedef struct hsc__piece {
    int seq;
    int row; /* first row in the chunk */
    int n_rows;
    int position;    /* position of the first row in its sequence */
    int batch_row;   /* first row in the batch */
    int batch_query; /* the same, counted inside the batch's sequence */
} hsc__piece;

/* What the batch asks of one sequence. */
typedef struct hsc__batch_seq {
    int row, n_query; /* rows in the batch */
    int past;         /* tokens that the cache held before */
    size_t keys;      /* keys of the sequences before this one: what their last query may see, added up */
    size_t cells;     /* n_query x keys of the sequences before this one */
    int n_source;     /* tokens of the source that the sequence reads; 0: it reads none */
    size_t source_keys, source_cells; /* the same sums of what cross-attention sees */
} hsc__batch_seq;

/* The keys that the last query of a sequence may see. */
static inline int hsc__batch_n_key(const hsc__batch_seq *seq)
{
    return seq->past + seq->n_query;
}

/* A record and what the last pass left in it. Row sites: [n_tokens][row_size]; patterns: the sequences' blocks
 * [heads][queries][n_key] one after the other; narrowed to one query, every sequence has room for that one. */
typedef struct hsc__kept {
    hsc_record spec;
    float *data;
    size_t capacity; /* floats */
} hsc__kept;

typedef struct hsc__rope_table {
    const hsc__rope *rope;
    float *cosine, *sine; /* [max_tokens][half] */
} hsc__rope_table;

/* Statistics of one layer in the last pass. Sequence i's block of an array starts at n_heads * seqs[i].row times the
 * array's row size; received at n_heads times the keys of the sequences before. */
typedef struct hsc__stat_layer {
    float *floats; /* one allocation for all arrays but received */
    size_t capacity;
    float *arrays[HSC_N_STATS]; /* NULL: not collected */
    int32_t *topk_keys;
    size_t topk_capacity;
    int64_t *received; /* [n_heads][n_key] a sequence; turned into arrays[HSC_STAT_RECEIVED] at the end of the pass */
    size_t received_capacity;
} hsc__stat_layer;

typedef struct hsc__stats {
    hsc__stat_layer *layers; /* [n_layers]; NULL: nothing is collected */
    int layer;               /* -1: every layer */
    unsigned stats;
    int top_k, n_bins;
    int (*on_rows)(void *user, const hsc_stats_rows *rows); /* NULL: each layer keeps its own arrays */
    void *user;
    hsc__stat_layer passing; /* with on_rows: arrays of the chunk and layer that are running */
    int64_t *partial;        /* [n_threads][n_heads][n_key]: received weights of the layer that is running */
    size_t partial_capacity, partial_worker;
} hsc__stats;

enum { HSC__WATCH_RECORD = 1, HSC__WATCH_OBSERVE = 2 };

struct hsc_session {
    const hsc_model *model;
    const hsc__desc *desc;
    hsc__exec exec;

    /* An encoder-decoder has two sessions: the decoder's, which callers hold, and the encoder's, which that one owns.
     * What depends on the source alone is the encoder's: its own sites, cross_k and cross_v, and their cache. */
    hsc_session *encoder;    /* of a decoder */
    int *sources;            /* of a decoder: [max_seqs] the encoder's sequence that a sequence reads */
    const hsc__desc *reader; /* of an encoder: the decoder's description */
    hsc__cache cross;        /* of an encoder: what the reader's blocks make of its output; length 0: no source */
    int max_tokens, max_seqs;
    int max_rows; /* rows that go through a layer together */

    hsc__cache cache;
    hsc_mask mask;          /* of the user; zeros: the model's own */
    unsigned char *allowed; /* a copy of mask.allowed */

    hsc__rope_table ropes[4];
    int n_ropes;

    /* Activations of a chunk, [max_rows][...] each, in one allocation. */
    float *arena;
    float *resid, *x, *q, *k, *v, *z, *branch, *pre, *up;
    int32_t *positions, *segments; /* [max_rows] */

    hsc__piece *pieces; /* [max_seqs] */
    int n_pieces, n_rows;

    /* The last batch. */
    hsc__batch_seq *seqs; /* [max_seqs + 1]; seqs[n_seqs] closes the list with the sums of all */
    int n_seqs, n_tokens;
    const float *start; /* resid_pre of first_layer, [n_tokens][d_model]; NULL: the pass begins with the embedding */
    int first_layer;
    bool valid; /* the last pass ended well: records and logits may be read */
    hsc_logits_rows logits_rows;
    float *logits;
    size_t logits_capacity;
    int n_logits;

    /* Who looks where. */
    unsigned char *watch; /* [HSC_N_SITES][n_watch_layers], HSC__WATCH_ bits; global sites use layer 0 */
    int n_watch_layers;
    hsc__kept *kept;
    size_t n_kept, kept_capacity;
    hsc_observer *observers;
    size_t n_observers, observers_capacity;
    hsc__stats stats;
};

/* session.c */

/* Floats of the activations of a chunk of max_rows rows; `reader` is of an encoder, or NULL. */
size_t hsc__arena_floats(const hsc__desc *desc, const hsc__desc *reader, int max_rows);
/* Rows that go through a layer together in a session of these options. */
int hsc__chunk_rows(const hsc_config *config, const hsc_session_options *options, int max_tokens, int max_seqs);
/* HSC_EINVAL: an id is outside the vocabulary. For ids that are looked up and not read; hsc_forward checks its own. */
hsc_status hsc__session_check_ids(const hsc_session *s, const hsc_token *ids, int n, hsc_error *err);

/* Floats of scratch that a worker needs, and the widest input of a product. */
size_t hsc__scratch_floats(const hsc_config *config, int max_rows, int max_tokens);
int hsc__widest_input(const hsc_config *config);

/* watch.c */

/* The bits of a site; layer is 0 for global sites. */
static inline int hsc__watched(const hsc_session *s, hsc_site site, int layer)
{
    return s->watch[(size_t)site * (size_t)s->n_watch_layers + (size_t)layer];
}

/* Makes room for everything that this batch (s->seqs) will record. */
hsc_status hsc__watch_prepare(hsc_session *s, hsc_error *err);

/* The chunk's rows [n_rows][row_size] pass a site: observers first (they may edit), then records. Call it only when the
 * site is watched. HSC_ECANCELED. */
hsc_status hsc__watch_rows(hsc_session *s, hsc_site site, int layer, float *data, int row_size, size_t stride,
                           hsc_error *err);

/* A block of attn_scores or pattern passes; called by several workers. Non-zero cancels. */
int hsc__watch_block(hsc_session *s, hsc_site site, int layer, int piece, int head, int first_query, int n_rows,
                     int n_key, float *data, size_t stride);

/* Floats a row of a row site has in this stack; 0 for scores and patterns. */
int hsc__site_row_size(const hsc__desc *desc, hsc_site site);

/* sites.c: a site enc_x of callers is x in the encoder's session. */

/* HSC_N_SITES: the site is not the encoder's own. */
hsc_site hsc__site_in_encoder(hsc_site site);
/* What callers know a site of this session as. */
hsc_site hsc__site_outside(const hsc_session *s, hsc_site site);
static inline bool hsc__site_is_cross(hsc_site site)
{
    return site >= HSC_CROSS_LN1 && site <= HSC_CROSS_RESID_MID;
}

/* stats.c */

static inline bool hsc__stats_wanted(const hsc_session *s, int layer)
{
    return s->stats.layers && (s->stats.layer < 0 || s->stats.layer == layer);
}

/* Room for this batch's statistics, and sums set to 0. */
hsc_status hsc__stats_prepare(hsc_session *s, hsc_error *err);
/* One row of weights of piece `piece`; the arguments are those of hsc__attention_row_fn. */
void hsc__stats_row(hsc_session *s, int layer, int worker, int piece, int head, int query, int start, int low, int high,
                    const float *row);
/* Before and after the attention of a layer: the workers' received weights come together, and on_rows gets the chunk's
 * rows. Only the keys of the chunk's sequences are touched, so that a batch of many costs no more than its parts.
 * HSC_ECANCELED. */
void hsc__stats_layer_begin(hsc_session *s);
hsc_status hsc__stats_layer_end(hsc_session *s, int layer, hsc_error *err);
/* After the pass. */
void hsc__stats_finish(hsc_session *s);
void hsc__stats_free(hsc_session *s);

/* forward.c */

/* Runs rows of the batch that s->pieces describe through all layers; ids belong to these rows. */
hsc_status hsc__forward_chunk(hsc_session *s, const hsc_token *ids, hsc_error *err);

#endif
