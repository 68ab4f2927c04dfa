/* Row-wise layers: a task takes a block of rows, the kernel table does the row. */
#include "nn/rows.h"

#include "base/parallel.h"

#include <string.h>

enum { ROW_BLOCK = 16 }; /* rows that one task takes */

typedef struct job {
    void (*run)(const struct job *job, size_t row);
    const hsc__kernels *kernels;
    const hsc__nn_norm *norm;
    const hsc__nn_turn *turn;
    const hsc__weight *table;
    const int32_t *indices;
    const float *x, *other;
    float *y;
    hsc__act act;
    int n_rows, n, n_heads;
} job;

static void run_block(void *context, size_t task, int worker)
{
    (void)worker;
    const job *j = context;
    size_t from = task * ROW_BLOCK, to = from + ROW_BLOCK;
    if (to > (size_t)j->n_rows) to = (size_t)j->n_rows;
    for (size_t row = from; row < to; row++) j->run(j, row);
}

static void run_rows(const hsc__exec *exec, job j)
{
    j.kernels = exec->kernels;
    hsc__parallel_for(exec->n_threads, ((size_t)j.n_rows + ROW_BLOCK - 1) / ROW_BLOCK, run_block, &j);
}

static void norm_row(const job *j, size_t row)
{
    const hsc__nn_norm *norm = j->norm;
    size_t at = row * (size_t)norm->n;
    if (norm->kind == HSC__NN_LAYER_NORM)
        j->kernels->layer_norm(j->x + at, norm->gain, norm->bias, norm->eps, norm->n, j->y + at);
    else j->kernels->rms_norm(j->x + at, norm->gain, norm->eps, norm->n, j->y + at);
}

void hsc__nn_norm_rows(const hsc__exec *exec, const hsc__nn_norm *norm, const float *x, int n_rows, float *y)
{
    run_rows(exec, (job){.run = norm_row, .norm = norm, .x = x, .y = y, .n_rows = n_rows});
}

static void act_row(const job *j, size_t row)
{
    size_t at = row * (size_t)j->n;
    if (j->other) j->kernels->gate(j->act, j->x + at, j->other + at, j->n, j->y + at);
    else j->kernels->act(j->act, j->x + at, j->n, j->y + at);
}

void hsc__nn_act_rows(const hsc__exec *exec, hsc__act act, const float *x, const float *up, int n_rows, int n, float *y)
{
    run_rows(exec, (job){.run = act_row, .act = act, .x = x, .other = up, .y = y, .n_rows = n_rows, .n = n});
}

static void add_row(const job *j, size_t row)
{
    size_t at = row * (size_t)j->n;
    j->kernels->add(j->x + at, j->other + at, j->n, j->y + at);
}

void hsc__nn_add_rows(const hsc__exec *exec, const float *a, const float *b, int n_rows, int n, float *y)
{
    run_rows(exec, (job){.run = add_row, .x = a, .other = b, .y = y, .n_rows = n_rows, .n = n});
}

static void softmax_row(const job *j, size_t row)
{
    size_t at = row * (size_t)j->n;
    if (j->y != j->x) memcpy(j->y + at, j->x + at, (size_t)j->n * sizeof *j->y);
    j->kernels->softmax(j->y + at, j->n);
}

void hsc__nn_softmax_rows(const hsc__exec *exec, const float *x, int n_rows, int n, float *y)
{
    run_rows(exec, (job){.run = softmax_row, .x = x, .y = y, .n_rows = n_rows, .n = n});
}

static void turn_row(const job *j, size_t row)
{
    size_t d = (size_t)j->n, at = (j->indices ? (size_t)j->indices[row] : row) * (size_t)j->turn->half;
    float *x = j->y + row * (size_t)j->n_heads * d;
    for (int h = 0; h < j->n_heads; h++, x += d)
        j->kernels->rope(x, j->turn->cosine + at, j->turn->sine + at, j->turn->half, j->turn->interleaved);
}

void hsc__nn_turn_rows(const hsc__exec *exec, const hsc__nn_turn *turn, const int *positions, int n_rows, int n_heads,
                       int d_head, float *x)
{
    run_rows(exec, (job){.run = turn_row,
                         .turn = turn,
                         .indices = positions,
                         .y = x,
                         .n_rows = n_rows,
                         .n_heads = n_heads,
                         .n = d_head});
}

static void table_row(const job *j, size_t row)
{
    hsc__weight_row(j->kernels, j->table, j->indices[row], j->y + row * (size_t)j->table->n_in);
}

void hsc__nn_table_rows(const hsc__exec *exec, const hsc__weight *table, const int32_t *indices, int n_rows, float *y)
{
    run_rows(exec, (job){.run = table_row, .table = table, .indices = indices, .y = y, .n_rows = n_rows});
}
