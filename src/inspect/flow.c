/*
 * Attention flow: the maximum flow through a graph of layers (Dinic 1970). Node (level, i) is token i above layer
 * level - 1, level 0 the input; an edge leads from (level, q) to (level - 1, k) with capacity A'. What has flowed may
 * be taken back, so residual paths also climb. Flows to different inputs are independent and run side by side.
 */
#include "base/alloc.h"
#include "base/parallel.h"
#include "base/status.h"
#include "headscope/analysis.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static const double least = 1e-13; /* what is left of an edge below this has run out: rounding of sums of 1 */

/* One flow in the making. */
typedef struct graph {
    int n_layers, n;
    double *left; /* [n_layers][n][n] what an edge (layer + 1, q) -> (layer, k) can still take */
    double *flow; /* the same shape: what flows through it */
    int *height;  /* [n_layers + 1][n] steps from the source; -1: not reached */
    int *next;    /* [n_layers + 1][n] the edge that a node tries next */
    int *queue;
    int *path; /* nodes from the source on */
} graph;

typedef struct run {
    const float *means;
    int n_layers, n, query;
    graph *graphs; /* [n_threads] */
    double *out;
} run;

static double *edge(const graph *g, double *edges, int level, int q, int k)
{
    return edges + ((size_t)(level - 1) * (size_t)g->n + (size_t)q) * (size_t)g->n + (size_t)k;
}

/* Edge number e of a node: 0 .. n - 1 lead down, n .. 2n - 1 back up. Returns what it can take and where it leads. */
static double *follow(const graph *g, int node, int e, int *to)
{
    int level = node / g->n, i = node % g->n;
    if (e < g->n) {
        *to = node - i - g->n + e;
        return level > 0 ? edge(g, g->left, level, i, e) : NULL;
    }
    *to = node - i + g->n + (e - g->n);
    return level < g->n_layers ? edge(g, g->flow, level + 1, e - g->n, i) : NULL;
}

static bool measure_heights(const graph *g, int source, int sink)
{
    int head = 0, tail = 0, n_nodes = (g->n_layers + 1) * g->n, to;
    for (int i = 0; i < n_nodes; i++) g->height[i] = -1;
    g->height[source] = 0;
    g->queue[tail++] = source;
    while (head < tail) {
        int node = g->queue[head++];
        for (int e = 0; e < 2 * g->n; e++) {
            const double *room = follow(g, node, e, &to);
            if (!room || *room <= least || g->height[to] >= 0) continue;
            g->height[to] = g->height[node] + 1;
            g->queue[tail++] = to;
        }
    }
    return g->height[sink] >= 0;
}

/* The edge back along a path: what flows can be taken back, what is taken back can flow again. */
static double *opposite(const graph *g, int from, int e)
{
    int level = from / g->n, i = from % g->n;
    return e < g->n ? edge(g, g->flow, level, i, e) : edge(g, g->left, level + 1, e - g->n, i);
}

/* Pushes what fits along the path of n_steps edges; the node where it must go on from is the first whose edge is full.
 */
static double push(graph *g, int *n_steps)
{
    double most = -1;
    int to, first = 0;
    for (int s = 0; s < *n_steps; s++) {
        const double *room = follow(g, g->path[s], g->next[g->path[s]], &to);
        if (most < 0 || *room < most) most = *room;
    }
    for (int s = *n_steps; s-- > 0;) {
        int e = g->next[g->path[s]];
        double *room = follow(g, g->path[s], e, &to);
        *room -= most;
        *opposite(g, g->path[s], e) += most;
        if (*room <= least) first = s;
    }
    *n_steps = first;
    return most;
}

/* A blocking flow: paths along which the height rises by one, until there are no more. */
static double block(graph *g, int source, int sink)
{
    double sum = 0;
    int n_steps = 0, to = source;
    memset(g->next, 0, (size_t)((g->n_layers + 1) * g->n) * sizeof *g->next);
    g->path[0] = source;
    for (;;) {
        int node = g->path[n_steps];
        if (node == sink) {
            sum += push(g, &n_steps);
            continue;
        }
        int e = g->next[node];
        for (; e < 2 * g->n; e++) {
            const double *room = follow(g, node, e, &to);
            if (room && *room > least && g->height[to] == g->height[node] + 1) break;
        }
        g->next[node] = e;
        if (e < 2 * g->n) {
            g->path[++n_steps] = to;
        } else { /* a dead end: nobody comes here again */
            if (n_steps == 0) return sum;
            g->height[node] = -1;
            n_steps--;
        }
    }
}

static void run_input(void *context, size_t task, int worker)
{
    const run *r = context;
    graph *g = &r->graphs[worker];
    size_t n = (size_t)r->n, size = (size_t)r->n_layers * n * n;
    int source = r->n_layers * r->n + r->query, sink = (int)task;
    for (size_t i = 0; i < size; i++) {
        bool self = i / n % n == i % n;
        g->left[i] = 0.5 * (double)r->means[i] + (self ? 0.5 : 0);
        g->flow[i] = 0;
    }
    r->out[task] = 0;
    while (measure_heights(g, source, sink)) r->out[task] += block(g, source, sink);
}

static void free_graph(graph *g)
{
    hsc__free(g->left);
    hsc__free(g->flow);
    hsc__free(g->height);
    hsc__free(g->next);
    hsc__free(g->queue);
    hsc__free(g->path);
}

static bool make_graph(graph *g, int n_layers, int n)
{
    size_t size = (size_t)n_layers * (size_t)n * (size_t)n, nodes = (size_t)(n_layers + 1) * (size_t)n;
    *g = (graph){.n_layers = n_layers, .n = n};
    g->left = hsc__malloc(size * sizeof *g->left);
    g->flow = hsc__malloc(size * sizeof *g->flow);
    g->height = hsc__malloc(nodes * sizeof *g->height);
    g->next = hsc__malloc(nodes * sizeof *g->next);
    g->queue = hsc__malloc(nodes * sizeof *g->queue);
    g->path = hsc__malloc((nodes + 1) * sizeof *g->path);
    return g->left && g->flow && g->height && g->next && g->queue && g->path;
}

hsc_status hsc_flow(const float *means, int n_layers, int n, int query, int n_threads, double *out, hsc_error *err)
{
    run r = {.means = means, .n_layers = n_layers, .n = n, .query = query, .out = out};
    bool made = true;
    hsc__error_clear(err);
    HSC_FAIL_IF(n_layers < 1 || n < 1 || n > HSC_FLOW_TOKENS, HSC_EINVAL,
                "%d layers of %d tokens: a flow takes 1 to %d tokens", n_layers, n, (int)HSC_FLOW_TOKENS);
    HSC_FAIL_IF(query < 0 || query >= n, HSC_EINVAL, "token %d does not exist, there are %d", query, n);
    HSC_FAIL_IF(n_threads < 0, HSC_EINVAL, "%d threads", n_threads);
    for (size_t i = 0; i < (size_t)n_layers * (size_t)n * (size_t)n; i++) /* what is no number never runs out */
        HSC_FAIL_IF(!isfinite(means[i]) || means[i] < 0, HSC_EINVAL,
                    "the mean weight of token %zu on token %zu in layer %zu is not finite or below 0",
                    i / (size_t)n % (size_t)n, i % (size_t)n, i / ((size_t)n * (size_t)n));
    if (!n_threads) n_threads = hsc__default_threads();
    r.graphs = hsc__calloc((size_t)n_threads, sizeof *r.graphs);
    if (!r.graphs) return hsc__fail_memory(err, (size_t)n_threads * sizeof *r.graphs, "a flow");
    for (int i = 0; i < n_threads && made; i++) made = make_graph(&r.graphs[i], n_layers, n);
    if (made) hsc__parallel_for(n_threads, (size_t)n, run_input, &r);
    for (int i = 0; i < n_threads; i++) free_graph(&r.graphs[i]);
    hsc__free(r.graphs);
    return made ? HSC_OK : hsc__fail_memory(err, (size_t)n_layers * (size_t)(n * n) * sizeof(double), "a flow");
}
