/*
 * A task is one block of query rows of one head, or, of a lone query, of some heads that share keys and values, so that
 * these are read once for all of them. What a row gives depends on the row alone: its scores are dot products
 * in rising d, its softmax starts at a boundary fixed by its own first key, and its output sums over its own keys in
 * rising position, cut into chunks at multiples of HSC__K_CHUNK. So neither the blocking, nor the neighbours, nor keys
 * that come later can change a bit of it.
 */
#include "tensor/attention.h"

#include "base/parallel.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { SOFTMAX_ALIGN = 64 }; /* a multiple of every table's lanes x accumulators and of its panel width */

static int round_up(int n, int step)
{
    return (n + step - 1) / step * step;
}

static int max_int(int a, int b)
{
    return a > b ? a : b;
}

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

/* Floats from one row of scores to the next: a cache line more than they take, so that the rows of a block do not meet
 * in the same few sets of the cache where their length is a power of two. */
static int score_stride(int n_key)
{
    enum { LINE = 64 / sizeof(float) };
    return round_up(n_key, SOFTMAX_ALIGN) + LINE;
}

size_t hsc__attention_scratch(const hsc__kernels *kernels, int max_key, int d_head)
{
    size_t d = (size_t)d_head, unpacked = (size_t)HSC__K_CHUNK * d; /* a chunk of values, or a panel of keys */
    return (size_t)kernels->mr * ((size_t)score_stride(max_key) + d) + unpacked;
}

typedef struct {
    const hsc__exec *exec;
    const hsc__attention *a;
    int n_blocks; /* blocks of rows, all sequences together */
    int n_shared; /* heads of a block; more than 1 only where every sequence has one query */
    atomic_int canceled;
} plan;

/* One block of a sequence, and the keys [low, high) that any of its rows sees: rows [query, query + n_rows) of one
 * head, or, by_head, those of heads [head, head + n_rows) of one query. */
typedef struct {
    const hsc__attention *a;
    const hsc__attention_seq *seq;
    const hsc__kernels *k;
    int seq_index, head, query, n_rows;
    bool by_head;
    float *s; /* scores, then weights: [n_rows][stride], column = key position */
    size_t stride;
    float *sum;      /* [n_rows][d_head], the chunk being summed */
    float *unpacked; /* keys or values of a cache that is not float32 */
    int worker;
} block;

static int query_of(const block *b, int row)
{
    return b->query + (b->by_head ? 0 : row);
}

static int head_of(const block *b, int row)
{
    return b->head + (b->by_head ? row : 0);
}

/* Where the block's first row begins in q or z, and how far apart its rows are. */
static size_t row_start(const block *b, size_t stride)
{
    return (size_t)(b->seq->row + b->query) * stride + (size_t)b->head * (size_t)b->a->d_head;
}

static size_t row_step(const block *b, size_t stride)
{
    return b->by_head ? (size_t)b->a->d_head : stride;
}

/* The keys that a query row sees: [*low, *high). */
static void row_keys(const block *b, int row, int *low, int *high)
{
    int position = b->seq->first + query_of(b, row);
    *high = b->a->causal ? position + 1 : b->seq->n_key;
    if (!b->a->causal && b->a->window > 0 && position < *high - b->a->window)
        *high = position + b->a->window < b->a->sinks ? b->a->sinks : position + b->a->window;
    if (*high > b->seq->n_key) *high = b->seq->n_key;
    *low = b->a->window > 0 && position - b->a->window + 1 > 0 && !b->a->sinks ? position - b->a->window + 1 : 0;
}

static int kv_head(const block *b)
{
    return b->head / (b->a->n_heads / b->a->n_kv_heads);
}

/* Whether the block list lets a query see a key. */
static bool allowed(const block *b, int query, int key)
{
    const hsc__attention *a = b->a;
    return !a->allowed || a->allowed[(size_t)(query / a->block) * (size_t)a->n_blocks + (size_t)(key / a->block)];
}

/* The end of the run of keys from `key` on, at most `to`, of which the block list says the same. */
static int listed_run(const hsc__attention *a, int key, int to)
{
    return a->allowed ? min_int((key / a->block + 1) * a->block, to) : to;
}

/* Whether any row of the block may see a key of the tile that starts at `key`. */
static bool tile_allowed(const block *b, int key)
{
    const hsc__attention *a = b->a;
    int first = b->seq->first + b->query, end = min_int(key + b->k->nr, b->seq->n_key);
    if (a->sinks > 0 && a->window > 0 && key >= a->sinks && end <= first - a->window + 1) return false;
    if (!a->allowed) return true;
    for (int r = 0; r < b->n_rows; r++) {
        for (int k = key; k < end; k = listed_run(a, k, end)) {
            if (allowed(b, b->seq->first + query_of(b, r), k)) return true;
        }
    }
    return false;
}

/* s = q k^T for every tile of keys from `from` to `to`. */
static void scores(const block *b, int from, int to)
{
    const hsc__attention *a = b->a;
    int d = a->d_head, nr = b->k->nr;
    const float *q = a->q + row_start(b, a->q_stride);
    for (int key = from; key < to; key += nr) {
        if (!tile_allowed(b, key)) continue;
        const float *tile = hsc__kv_key_panel(b->k, &b->seq->kv, kv_head(b), key, b->unpacked);
        for (int d0 = 0; d0 < d; d0 += HSC__K_CHUNK) {
            int n = d - d0 < HSC__K_CHUNK ? d - d0 : HSC__K_CHUNK;
            b->k->gemm(d0 ? HSC__GEMM_ADD : HSC__GEMM_START, b->n_rows, nr, n, q + d0, row_step(b, a->q_stride),
                       tile + (size_t)d0 * (size_t)nr, (size_t)nr, b->s + key, b->stride, NULL);
        }
    }
}

static void fill(float *row, int from, int to, float value)
{
    for (int i = from; i < to; i++) row[i] = value;
}

static int align_down(int n)
{
    return n - n % SOFTMAX_ALIGN;
}

/* row[key] += what the key's distance gets; keys beyond the table's ends get what the ends have. */
static void add_bias(const block *b, int head, int query, int low, int high, float *row)
{
    int span = b->a->bias_span;
    const float *bias = b->a->bias + (size_t)head * (size_t)(2 * span + 1) + span; /* of distance 0 */
    int near = max_int(low, min_int(high, query - span)), far = max_int(near, min_int(high, query + span + 1));
    for (int k = low; k < near; k++) row[k] += bias[-span];
    b->k->add(row + near, bias + (near - query), far - near, row + near);
    for (int k = far; k < high; k++) row[k] += bias[span];
}

/* What a bias adds that depends on the distance. */
static void add_distance(const block *b, int r, int low, int high, float *row)
{
    const hsc__attention *a = b->a;
    int head = head_of(b, r), query = b->seq->first + query_of(b, r);
    if (a->bias) add_bias(b, head, query, low, high, row);
    if (a->alibi)
        for (int k = low; k < high; k++) row[k] += a->alibi[head] * (float)(k - query);
}

/* row[key] = value for the keys that a mask which is not an interval hides inside [low, high). */
static void hide(const block *b, int r, int low, int high, float value, float *row)
{
    const hsc__attention *a = b->a;
    int query = b->seq->first + query_of(b, r);
    if (a->sinks > 0 && a->window > 0) fill(row, a->sinks, min_int(query - a->window + 1, high), value);
    for (int k = low, end; a->allowed && k < high; k = end) {
        end = listed_run(a, k, high);
        if (!allowed(b, query, k)) fill(row, k, end, value);
    }
}

/* Softmax over [start, high), what lies below low being hidden. A score that is no number leaves none in the row, but
 * what the row does not see stays 0. */
static void soften(const block *b, int r, int start, int low, int high, float *row)
{
    b->k->softmax(row + start, high - start);
    if (!isnan(row[start])) return;
    fill(row, start, low, 0);
    hide(b, r, low, high, 0, row);
}

/* Shows the block to a watcher, head by head. */
static int show(const block *b, hsc__attention_fn fn)
{
    int stop = 0, n_rows = b->by_head ? 1 : b->n_rows;
    for (int r = 0; r < b->n_rows && !stop; r += n_rows)
        stop = fn(b->a->user, b->seq_index, head_of(b, r), b->query, n_rows, b->seq->n_key,
                  b->s + (size_t)r * b->stride, b->stride);
    return stop;
}

/* Scale, mask and softmax, with the watchers between. Returns non-zero when one of them cancels. */
static int weights(const block *b)
{
    const hsc__attention *a = b->a;
    int n_key = b->seq->n_key, stop = 0;
    for (int r = 0; r < b->n_rows; r++) {
        int low, high;
        float *row = b->s + (size_t)r * b->stride;
        row_keys(b, r, &low, &high);
        b->k->scale_cap(row + low, high - low, a->scale, a->cap);
        add_distance(b, r, low, high, row);
        hide(b, r, low, high, -INFINITY, row);
        fill(row, a->on_scores ? 0 : align_down(low), low, -INFINITY);
        if (a->on_scores) fill(row, high, n_key, -INFINITY);
    }
    if (a->on_scores) stop = show(b, a->on_scores);
    for (int r = 0; r < b->n_rows && !stop; r++) {
        int low, high;
        float *row = b->s + (size_t)r * b->stride;
        row_keys(b, r, &low, &high);
        int start = align_down(low);
        soften(b, r, start, low, high, row);
        if (a->on_pattern) {
            fill(row, 0, start, 0);
            fill(row, high, n_key, 0);
        }
    }
    if (a->on_pattern && !stop) stop = show(b, a->on_pattern);
    for (int r = 0; r < b->n_rows && a->on_row && !stop; r++) {
        int low, high;
        row_keys(b, r, &low, &high);
        a->on_row(a->user, b->worker, b->seq_index, head_of(b, r), query_of(b, r), align_down(low), low, high,
                  b->s + (size_t)r * b->stride);
    }
    return stop;
}

/* sum[row] (from 0 or going on) over the keys [from, to) for n_rows rows that all see them. */
static void sum_keys(const block *b, hsc__gemm_mode mode, int row, int n_rows, int from, int to)
{
    const hsc__attention *a = b->a;
    size_t d = (size_t)a->d_head;
    if (from >= to && mode == HSC__GEMM_START) fill(b->sum + (size_t)row * d, 0, n_rows * a->d_head, 0);
    while (from < to) {
        int end = hsc__kv_run(&b->seq->kv, from, to);
        const float *v = hsc__kv_value_rows(b->k, &b->seq->kv, kv_head(b), from, end, b->unpacked);
        b->k->gemm(mode, n_rows, a->d_head, end - from, b->s + (size_t)row * b->stride + from, b->stride, v, d,
                   b->sum + (size_t)row * d, d, NULL);
        mode = HSC__GEMM_CONTINUE;
        from = end;
    }
}

/* The end of the run of keys from `from` on, at most `to`, of which every row sees an interval. */
static int whole_run(const hsc__attention *a, int from, int to)
{
    if (a->window > 0 && from < a->sinks && a->sinks < to) to = a->sinks;
    return listed_run(a, from, to);
}

/* The keys [*low, *high) of such a run [from, to) that a row sees. A hidden key has the weight 0, but must not be
 * multiplied by it: its value may be no number. */
static void run_keys(const block *b, int row, int from, int to, int *low, int *high)
{
    const hsc__attention *a = b->a;
    int query = b->seq->first + query_of(b, row);
    row_keys(b, row, low, high);
    if (a->window > 0 && a->sinks > 0 && from >= a->sinks) *low = max_int(*low, query - a->window + 1);
    *low = max_int(*low, from);
    *high = allowed(b, query, from) ? min_int(*high, to) : *low;
}

/* Such a run of every row: what all rows see together, the ragged ends row by row, one chain a row. */
static void sum_run(const block *b, hsc__gemm_mode mode, int from, int to)
{
    int low, high, all_low = from, all_high = to;
    for (int r = 0; r < b->n_rows; r++) {
        run_keys(b, r, from, to, &low, &high);
        all_low = max_int(all_low, low);
        all_high = min_int(all_high, high);
    }
    bool common = all_low < all_high;
    for (int r = 0; r < b->n_rows; r++) {
        run_keys(b, r, from, to, &low, &high);
        sum_keys(b, mode, r, 1, low, common ? all_low : high);
    }
    if (!common) return;
    sum_keys(b, HSC__GEMM_CONTINUE, 0, b->n_rows, all_low, all_high);
    for (int r = 0; r < b->n_rows; r++) {
        run_keys(b, r, from, to, &low, &high);
        sum_keys(b, HSC__GEMM_CONTINUE, r, 1, all_high, high);
    }
}

/* z = weights v. */
static void values(const block *b, int block_low, int block_high)
{
    const hsc__attention *a = b->a;
    size_t d = (size_t)a->d_head;
    for (int from = block_low / HSC__K_CHUNK * HSC__K_CHUNK; from < block_high; from += HSC__K_CHUNK) {
        int to = min_int(from + HSC__K_CHUNK, block_high);
        for (int key = from, end; key < to; key = end) {
            end = whole_run(a, key, to);
            sum_run(b, key == from ? HSC__GEMM_START : HSC__GEMM_CONTINUE, key, end);
        }
        for (int r = 0; r < b->n_rows; r++) {
            int low, high;
            row_keys(b, r, &low, &high);
            if (high <= from || low >= from + HSC__K_CHUNK) continue;
            float *z = a->z + row_start(b, a->z_stride) + (size_t)r * row_step(b, a->z_stride);
            const float *sum = b->sum + (size_t)r * d;
            if (from <= low) memcpy(z, sum, d * sizeof *z);
            else b->k->add(z, sum, a->d_head, z);
        }
    }
}

/* Tasks that the heads of a block of rows make. */
static int tasks_of_block(const plan *job)
{
    int group = job->a->n_heads / job->a->n_kv_heads;
    return job->a->n_kv_heads * ((group + job->n_shared - 1) / job->n_shared);
}

static void run_block(void *context, size_t task, int worker)
{
    plan *job = context;
    if (atomic_load_explicit(&job->canceled, memory_order_relaxed)) return;
    const hsc__attention *a = job->a;
    const hsc__kernels *k = job->exec->kernels;
    block b = {.a = a, .k = k, .worker = worker, .by_head = job->n_shared > 1};
    int group = a->n_heads / a->n_kv_heads, n_tasks = tasks_of_block(job), per_kv = n_tasks / a->n_kv_heads;
    int part = (int)(task % (size_t)n_tasks);
    b.head = part / per_kv * group + part % per_kv * job->n_shared;
    int index = job->n_blocks - 1 - (int)(task / (size_t)n_tasks); /* the long rows of a causal model first */
    b.seq = a->seqs;
    while (index >= round_up(b.seq->n_query, k->mr) / k->mr) index -= round_up(b.seq++->n_query, k->mr) / k->mr;
    b.seq_index = (int)(b.seq - a->seqs);
    b.query = index * k->mr;
    b.n_rows = b.by_head ? min_int(job->n_shared, group - b.head % group) : min_int(k->mr, b.seq->n_query - b.query);
    b.s = hsc__exec_scratch(job->exec, worker);
    b.stride = (size_t)score_stride(b.seq->n_key);
    b.sum = b.s + (size_t)k->mr * b.stride;
    b.unpacked = b.sum + (size_t)k->mr * (size_t)a->d_head;
    int low, high, unused;
    row_keys(&b, 0, &low, &unused);
    row_keys(&b, b.n_rows - 1, &unused, &high);
    scores(&b, align_down(low), high);
    if (weights(&b)) {
        atomic_store_explicit(&job->canceled, 1, memory_order_relaxed);
        return;
    }
    values(&b, low, high);
}

/* How many heads a block takes: as many as share keys and leave every thread a task, where no sequence has a second
 * query. */
static int shared_heads(const hsc__exec *exec, const hsc__attention *a)
{
    for (int i = 0; i < a->n_seqs; i++) {
        if (a->seqs[i].n_query != 1) return 1;
    }
    int most = max_int(1, a->n_heads * a->n_seqs / exec->n_threads);
    return min_int(min_int(a->n_heads / a->n_kv_heads, exec->kernels->mr), most);
}

hsc_status hsc__attention_forward(const hsc__exec *exec, const hsc__attention *a)
{
    plan job = {.exec = exec, .a = a};
    for (int i = 0; i < a->n_seqs; i++)
        job.n_blocks += round_up(a->seqs[i].n_query, exec->kernels->mr) / exec->kernels->mr;
    job.n_shared = shared_heads(exec, a);
    atomic_init(&job.canceled, 0);
    hsc__parallel_for(exec->n_threads, (size_t)job.n_blocks * (size_t)tasks_of_block(&job), run_block, &job);
    return atomic_load(&job.canceled) ? HSC_ECANCELED : HSC_OK;
}
