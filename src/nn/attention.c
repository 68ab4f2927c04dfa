/*
 * softmax(q k^T scale) v by the engine's attention: the keys of a head are packed into the tiles of the engine's cache,
 * the values stay where they are if they can, and the queries are run over both.
 * Backward (docs/math/attention.md), with P the weights and dO the derivative of the output:
 *     dV = P^T dO,   dP = dO V^T,   dS = scale P (dP - rowsum(P dP)),   dQ = dS K,   dK = dS^T Q.
 */
#include "nn/attention.h"

#include "base/alloc.h"
#include "tensor/attention.h"

#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------------- one head ---- */

static int width(const hsc__nn_head *head)
{
    return hsc__nn_max(head->d_k, head->d_v);
}

/* Cells of the cache: whole chunks, as hsc__kv wants them. */
static int cells(const hsc__nn_head *head)
{
    return (head->n_key + HSC__K_CHUNK - 1) / HSC__K_CHUNK * HSC__K_CHUNK;
}

/* Whether the values can be read where they are. */
static bool dense_values(const hsc__nn_head *head)
{
    return head->v_stride == (size_t)width(head);
}

hsc_status hsc__nn_room_init(hsc__nn_room *room, const hsc__nn_head *head, hsc_error *err)
{
    size_t d = (size_t)width(head), n_query = (size_t)head->n_query, n_key = (size_t)head->n_key;
    *room = (hsc__nn_room){0};
    hsc_status status = hsc__nn_floats(&room->keys, d * (size_t)cells(head), err);
    if (status == HSC_OK && !dense_values(head)) status = hsc__nn_floats(&room->values, n_key * d, err);
    if (status == HSC_OK && head->d_k != head->d_v) {
        status = hsc__nn_floats(&room->q, n_query * d, err);
        if (status == HSC_OK) status = hsc__nn_floats(&room->rows, n_key * d, err);
        if (status == HSC_OK) status = hsc__nn_floats(&room->out, n_query * d, err);
    }
    if (status != HSC_OK) hsc__nn_room_free(room);
    return status;
}

void hsc__nn_room_free(hsc__nn_room *room)
{
    hsc__free_aligned(room->keys);
    hsc__free_aligned(room->values);
    hsc__free_aligned(room->q);
    hsc__free_aligned(room->rows);
    hsc__free_aligned(room->out);
    *room = (hsc__nn_room){0};
}

/* Rows of `from` columns as rows of d, filled up with zeros, which change no sum. Returns where they are. */
static const float *widen(const float *x, size_t *stride, int n_rows, int from, int d, float *copy)
{
    if (from == d) return x;
    for (int r = 0; r < n_rows; r++) {
        float *row = copy + (size_t)r * (size_t)d;
        memcpy(row, x + (size_t)r * *stride, (size_t)from * sizeof *row);
        memset(row + from, 0, (size_t)(d - from) * sizeof *row);
    }
    *stride = (size_t)d;
    return copy;
}

/* Keys as panels of the matrix kernel; what a tile has beyond the last key becomes 0. */
static void pack_keys(const hsc__kernels *kernels, const hsc__nn_head *head, hsc__nn_room *room)
{
    int d = width(head), nr = kernels->nr;
    size_t stride = head->k_stride;
    const float *k = widen(head->k, &stride, head->n_key, head->d_k, d, room->rows);
    for (int key = 0; key < head->n_key; key += nr) {
        int n = head->n_key - key < nr ? head->n_key - key : nr;
        float *tile = room->keys + (size_t)key * (size_t)d;
        for (int d0 = 0; d0 < d; d0 += HSC__K_CHUNK)
            kernels->pack(HSC_F32, k + (size_t)key * stride, stride * sizeof *k, n, d0,
                          d - d0 < HSC__K_CHUNK ? d - d0 : HSC__K_CHUNK, tile + (size_t)d0 * (size_t)nr);
    }
}

/* The values as rows one after the other. */
static const float *value_rows(const hsc__nn_head *head, hsc__nn_room *room)
{
    size_t d = (size_t)width(head), stride = head->v_stride;
    if (dense_values(head)) return head->v;
    const float *v = widen(head->v, &stride, head->n_key, head->d_v, (int)d, room->values);
    for (int r = 0; r < head->n_key && v != room->values; r++)
        memcpy(room->values + (size_t)r * d, v + (size_t)r * stride, d * sizeof *v);
    return room->values;
}

static hsc__kv cache_of(const hsc__kernels *kernels, hsc__nn_room *room, const hsc__nn_head *head)
{
    int d = width(head);
    hsc__kv kv = {.dtype = HSC_F32, .n_kv_heads = 1, .d_head = d, .n_cells = cells(head)};
    kv.head_bytes = hsc__kv_head_bytes(HSC_F32, d, kv.n_cells);
    pack_keys(kernels, head, room);
    kv.k = (char *)room->keys;
    kv.v = (char *)(uintptr_t)value_rows(head, room);
    return kv;
}

static int copy_weights(void *user, int seq, int head, int first_query, int n_rows, int n_key, float *data,
                        size_t stride)
{
    (void)seq;
    (void)head;
    float *weights = user;
    for (int r = 0; r < n_rows; r++)
        memcpy(weights + (size_t)(first_query + r) * (size_t)n_key, data + (size_t)r * stride,
               (size_t)n_key * sizeof *weights);
    return 0;
}

void hsc__nn_head_forward(const hsc__exec *exec, hsc__nn_room *room, const hsc__nn_head *head, float *out,
                          size_t out_stride, float *weights)
{
    int d = width(head);
    bool narrow = head->d_v < d;
    size_t q_stride = head->q_stride;
    hsc__kv kv = cache_of(exec->kernels, room, head);
    int first = head->causal || head->window > 0 ? head->n_key - head->n_query : 0;
    hsc__attention_seq seq = {0, head->n_query, first, head->n_key, kv};
    hsc__attention job = {.n_heads = 1,
                          .n_kv_heads = 1,
                          .d_head = d,
                          .causal = head->causal != 0,
                          .window = head->window,
                          .scale = head->scale,
                          .allowed = head->allowed,
                          .block = 1,
                          .n_blocks = head->n_key,
                          .seqs = &seq,
                          .n_seqs = 1,
                          .on_pattern = weights ? copy_weights : NULL,
                          .user = weights};
    job.q = widen(head->q, &q_stride, head->n_query, head->d_k, d, room->q);
    job.q_stride = q_stride;
    job.z = narrow ? room->out : out;
    job.z_stride = narrow ? (size_t)d : out_stride;
    hsc_status status = hsc__attention_forward(exec, &job);
    (void)status; /* nobody cancels */
    for (int r = 0; r < head->n_query && narrow; r++)
        memcpy(out + (size_t)r * out_stride, room->out + (size_t)r * (size_t)d, (size_t)head->d_v * sizeof *out);
}

/* dS from dP, in place: a masked key has weight 0, so nothing comes back through it. */
static void scores_gradient(const hsc__nn_head *head, const float *p, float *dp)
{
    size_t n = (size_t)head->n_key;
    for (int q = 0; q < head->n_query; q++, p += n, dp += n) {
        double mean = 0;
        for (size_t k = 0; k < n; k++) mean += (double)p[k] * dp[k];
        for (size_t k = 0; k < n; k++) dp[k] = (float)(head->scale * (p[k] * (dp[k] - mean)));
    }
}

void hsc__nn_head_backward(const hsc__exec *exec, const hsc__nn_head *head, const float *weights, const float *dout,
                           size_t dout_stride, float *tables, const hsc__nn_head_grad *grad)
{
    int n_query = head->n_query, n_key = head->n_key;
    size_t table = (size_t)n_query * (size_t)n_key;
    float *ds = tables, *turned = tables + table; /* [n_query][n_key]; [n_key][n_query] */
    if (grad->dv) {
        hsc__weight rows = hsc__nn_weight(dout, dout_stride, n_query, head->d_v, true);
        hsc__nn_transpose(weights, (size_t)n_key, n_query, n_key, turned);
        hsc__nn_product(exec, turned, (size_t)n_query, n_key, &rows, grad->dv, head->v_stride, true);
    }
    if (!grad->dq && !grad->dk) return;
    hsc__weight v = hsc__nn_weight(head->v, head->v_stride, head->d_v, n_key, false);
    hsc__nn_product(exec, dout, dout_stride, n_query, &v, ds, (size_t)n_key, false);
    scores_gradient(head, weights, ds);
    if (grad->dq) {
        hsc__weight k = hsc__nn_weight(head->k, head->k_stride, n_key, head->d_k, true);
        hsc__nn_product(exec, ds, (size_t)n_key, n_query, &k, grad->dq, head->q_stride, true);
    }
    if (grad->dk) {
        hsc__weight q = hsc__nn_weight(head->q, head->q_stride, n_query, head->d_k, true);
        hsc__nn_transpose(ds, (size_t)n_key, n_query, n_key, turned);
        hsc__nn_product(exec, turned, (size_t)n_query, n_key, &q, grad->dk, head->k_stride, true);
    }
}

/* ------------------------------------------------------------------------------------------------------- masks ---- */

hsc_status hsc__nn_mask_check(const hsc_nn_mask *mask, int n_query, int n_key, hsc_error *err)
{
    if (!mask) return HSC_OK;
    HSC_FAIL_IF(mask->window < 0, HSC_EINVAL, "window is %d, below 0", mask->window);
    bool moving = mask->causal || mask->window > 0;
    HSC_FAIL_IF(moving && n_query > n_key, HSC_EINVAL, "%d queries are the last of %d positions: too many", n_query,
                n_key);
    HSC_FAIL_IF(moving && mask->allowed && n_query != n_key, HSC_EINVAL,
                "a mask table together with causal or window needs as many queries as keys, not %d and %d", n_query,
                n_key);
    return HSC_OK;
}

void hsc__nn_mask_apply(const hsc_nn_mask *mask, int n_heads, int batch, int h, hsc__nn_head *head)
{
    if (!mask) return;
    size_t table = (size_t)head->n_query * (size_t)head->n_key, index = 0;
    if (mask->per_batch) index = (size_t)batch;
    if (mask->per_head) index = index * (size_t)n_heads + (size_t)h;
    if (mask->allowed) head->allowed = mask->allowed + index * table;
    head->causal = mask->causal;
    head->window = mask->window;
}

/* ----------------------------------------------------------------------------- batches and heads as dimensions ---- */

static hsc_nn_attention_shape with_defaults(hsc_nn_attention_shape s)
{
    if (s.n_batch == 0) s.n_batch = 1;
    if (s.n_heads == 0) s.n_heads = 1;
    if (s.n_kv_heads == 0) s.n_kv_heads = s.n_heads;
    if (s.scale == 0 && s.d_k > 0) s.scale = 1 / sqrtf((float)s.d_k);
    return s;
}

static hsc_status check(const hsc_nn_attention_shape *s, const hsc_nn_mask *mask, hsc_error *err)
{
    HSC__SIZE(s->n_batch, 1);
    HSC__SIZE(s->n_heads, 1);
    HSC__SIZE(s->n_kv_heads, 1);
    HSC__SIZE(s->n_query, 1);
    HSC__SIZE(s->n_key, 1);
    HSC__SIZE(s->d_k, 1);
    HSC__SIZE(s->d_v, 1);
    HSC_FAIL_IF(s->n_batch > HSC__NN_MOST / s->n_heads, HSC_EINVAL, "%d batches of %d heads are too many", s->n_batch,
                s->n_heads);
    HSC_FAIL_IF(s->n_heads % s->n_kv_heads, HSC_EINVAL, "n_kv_heads, %d, does not divide n_heads, %d", s->n_kv_heads,
                s->n_heads);
    return hsc__nn_mask_check(mask, s->n_query, s->n_key, err);
}

static double work_of(const hsc_nn_attention_shape *s)
{
    return (double)s->n_query * s->n_key * (s->d_k + s->d_v);
}

/* Where a head's rows begin: its own number counted over the batches, and that of the key head it reads. */
typedef struct place {
    size_t q, kv;
} place;

static place place_of(const hsc_nn_attention_shape *s, int index)
{
    int batch = index / s->n_heads, h = index % s->n_heads, group = s->n_heads / s->n_kv_heads;
    return (place){(size_t)index, (size_t)batch * (size_t)s->n_kv_heads + (size_t)(h / group)};
}

static hsc__nn_head head_of(const hsc_nn_attention_shape *s, const hsc_nn_mask *mask, int index, const float *q,
                            const float *k, const float *v)
{
    size_t n_query = (size_t)s->n_query, n_key = (size_t)s->n_key, d_k = (size_t)s->d_k, d_v = (size_t)s->d_v;
    place at = place_of(s, index);
    hsc__nn_head head = {.n_query = s->n_query,
                         .n_key = s->n_key,
                         .d_k = s->d_k,
                         .d_v = s->d_v,
                         .scale = s->scale,
                         .q = q + at.q * n_query * d_k,
                         .k = k + at.kv * n_key * d_k,
                         .v = v + at.kv * n_key * d_v,
                         .q_stride = d_k,
                         .k_stride = d_k,
                         .v_stride = d_v};
    hsc__nn_mask_apply(mask, s->n_heads, index / s->n_heads, index % s->n_heads, &head);
    return head;
}

hsc_status hsc_nn_attention_forward(const hsc_nn_attention_shape *shape, const hsc_nn_mask *mask, const float *q,
                                    const float *k, const float *v, float *out, float *weights, hsc_error *err)
{
    hsc__exec exec = {0};
    hsc__nn_room room = {0};
    HSC__NEED(shape);
    hsc_nn_attention_shape s = with_defaults(*shape);
    HSC_TRY(check(&s, mask, err));
    HSC__NEED(q);
    HSC__NEED(k);
    HSC__NEED(v);
    HSC__NEED(out);
    hsc__nn_head any = head_of(&s, mask, 0, q, k, v);
    hsc_status status = hsc__nn_exec_init(&exec, work_of(&s), 1, s.n_key, hsc__nn_max(s.d_k, s.d_v), err);
    if (status == HSC_OK) status = hsc__nn_room_init(&room, &any, err);
    for (int i = 0; i < s.n_batch * s.n_heads && status == HSC_OK; i++) {
        hsc__nn_head head = head_of(&s, mask, i, q, k, v);
        float *z = out + (size_t)i * (size_t)s.n_query * (size_t)s.d_v;
        hsc__nn_head_forward(&exec, &room, &head, z, (size_t)s.d_v,
                             weights ? weights + (size_t)i * (size_t)s.n_query * (size_t)s.n_key : NULL);
    }
    hsc__nn_room_free(&room);
    hsc__exec_free(&exec);
    return status;
}

/* Backward of every head. made: [n_query][n_key] and [n_query][d_v] where the weights have to be made again. */
static void backward_heads(const hsc__exec *exec, hsc__nn_room *room, const hsc_nn_attention_shape *s,
                           const hsc_nn_mask *mask, const float *q, const float *k, const float *v,
                           const float *weights, const float *dout, float *tables, const hsc__nn_head_grad *all)
{
    size_t n_query = (size_t)s->n_query, n_key = (size_t)s->n_key, d_k = (size_t)s->d_k, d_v = (size_t)s->d_v;
    float *made = tables + 2 * n_query * n_key, *z = made + n_query * n_key;
    for (int i = 0; i < s->n_batch * s->n_heads; i++) {
        place at = place_of(s, i);
        hsc__nn_head head = head_of(s, mask, i, q, k, v);
        hsc__nn_head_grad grad = {all->dq ? all->dq + at.q * n_query * d_k : NULL,
                                  all->dk ? all->dk + at.kv * n_key * d_k : NULL,
                                  all->dv ? all->dv + at.kv * n_key * d_v : NULL};
        if (!weights) hsc__nn_head_forward(exec, room, &head, z, d_v, made);
        hsc__nn_head_backward(exec, &head, weights ? weights + at.q * n_query * n_key : made,
                              dout + at.q * n_query * d_v, d_v, tables, &grad);
    }
}

hsc_status hsc_nn_attention_backward(const hsc_nn_attention_shape *shape, const hsc_nn_mask *mask, const float *q,
                                     const float *k, const float *v, const float *weights, const float *dout, float *dq,
                                     float *dk, float *dv, hsc_error *err)
{
    hsc__exec exec = {0};
    hsc__nn_room room = {0};
    float *tables = NULL;
    HSC__NEED(shape);
    hsc_nn_attention_shape s = with_defaults(*shape);
    HSC_TRY(check(&s, mask, err));
    HSC__NEED(q);
    HSC__NEED(k);
    HSC__NEED(v);
    HSC__NEED(dout);
    hsc__nn_head any = head_of(&s, mask, 0, q, k, v);
    size_t table = (size_t)s.n_query * (size_t)s.n_key;
    hsc_status status =
        hsc__nn_exec_init(&exec, work_of(&s), hsc__nn_max(s.n_query, s.n_key), s.n_key, hsc__nn_max(s.d_k, s.d_v), err);
    if (status == HSC_OK) status = hsc__nn_room_init(&room, &any, err);
    if (status == HSC_OK) status = hsc__nn_floats(&tables, 3 * table + (size_t)s.n_query * (size_t)s.d_v, err);
    if (status == HSC_OK)
        backward_heads(&exec, &room, &s, mask, q, k, v, weights, dout, tables, &(hsc__nn_head_grad){dq, dk, dv});
    hsc__free_aligned(tables);
    hsc__nn_room_free(&room);
    hsc__exec_free(&exec);
    return status;
}
