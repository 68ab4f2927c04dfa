/*
 * Two runs of nearly the same text: paths from one head to what others read (path patching), and how much of the
 * difference a head carries (mediation). Both are sets of edits for the lab; no arithmetic of a pass is here.
 */
#include "base/alloc.h"
#include "base/status.h"
#include "inspect/lab.h"

#include <string.h>

static hsc_status check_labs(const hsc_lab *x, const hsc_lab *y, hsc_error *err)
{
    HSC_FAIL_IF(hsc_model_encoder(hsc__lab_model(x)), HSC_EUNSUPPORTED,
                "%s is an encoder-decoder: its heads of cross-attention would not be held",
                hsc_model_config(hsc__lab_model(x))->name);
    HSC_FAIL_IF(!hsc__lab_n_tokens(x) || !hsc__lab_n_tokens(y), HSC_EINVAL, "a lab has no text yet");
    return HSC_OK;
}

static hsc_status same_length(const hsc_lab *x, const hsc_lab *y, hsc_error *err)
{
    int n = hsc__lab_n_tokens(x), m = hsc__lab_n_tokens(y);
    HSC_TRY(check_labs(x, y, err));
    HSC_FAIL_IF(n != m, HSC_EINVAL, "the texts have %d and %d tokens: each position takes from its own", n, m);
    return HSC_OK;
}

/* The whole z of a layer becomes, from position `from` on, what it is in the lab's run as it is. */
static hsc_status hold_layer(hsc_edit *out, const hsc_lab *lab, int layer, int from, hsc_error *err)
{
    hsc_view z;
    size_t row = (size_t)hsc_site_row(hsc__lab_model(lab), HSC_Z);
    HSC_TRY(hsc_lab_clean(lab, HSC_Z, layer, &z, err));
    *out = (hsc_edit){.site = HSC_Z, .layer = layer, .first_pos = from, .values = z.data + (size_t)from * row};
    out->stride = row;
    return HSC_OK;
}

/* A head's z becomes, at rows->to, what it is at rows->from in another lab's run as it is. */
static hsc_status take_head(hsc_edit *out, const hsc_lab *other, int layer, int head, const hsc_rows *rows,
                            hsc_error *err)
{
    hsc_view z;
    HSC_TRY(hsc_lab_clean(other, HSC_Z, layer, &z, err));
    HSC_TRY(hsc_edit_head(out, hsc__lab_model(other), HSC_Z, layer, head, err));
    out->stride = (size_t)hsc_site_row(hsc__lab_model(other), HSC_Z);
    out->first_pos = rows->to;
    out->n_pos = rows->n;
    out->values = z.data + (size_t)rows->from * out->stride + out->first;
    return HSC_OK;
}

/* --------------------------------------------------------------------------------------------- path patching ---- */

typedef struct paths {
    hsc_lab *base;
    const hsc_lab *source;
    const hsc_config *config;
    const hsc_head_place *senders;
    int n_senders;
    const hsc_path_end *end;
    int from;              /* the first position that can differ */
    size_t n_rows, d_head; /* rows from there on */
    int last;              /* layer of the last receiver; n_layers for the end */
    hsc_edit *edits;       /* [n_senders][most] */
    hsc_variant *variants; /* [n_senders] */
    size_t most;           /* edits of a variant: a layer each, or a receiver each */
    float *arrived;        /* [n_senders][n_receivers][n_rows][d_head] */
} paths;

/* The receiver's head as the input counts it. */
static int input_head(const paths *p, int receiver)
{
    int head = p->end->receivers[receiver].head;
    return p->end->input == HSC_Q ? head : head / (p->config->n_heads / p->config->n_kv_heads);
}

static hsc_status check_place(const paths *p, const hsc_head_place *at, const char *what, hsc_error *err)
{
    HSC_FAIL_IF(at->layer < 0 || at->layer >= p->config->n_layers || at->head < 0 || at->head >= p->config->n_heads,
                HSC_EINVAL, "%s L%dH%d does not exist: the model has %d layers of %d heads", what, at->layer, at->head,
                p->config->n_layers, p->config->n_heads);
    return HSC_OK;
}

static hsc_status check_paths(paths *p, hsc_error *err)
{
    hsc_site input = p->end->input;
    bool heads = input == HSC_Q || input == HSC_K || input == HSC_V;
    HSC_TRY(same_length(p->base, p->source, err));
    HSC_FAIL_IF(!heads && input != HSC_RESID_POST, HSC_EINVAL,
                "a path leads to q, k or v of heads or to resid_post, not to site %d", (int)input);
    HSC_FAIL_IF(heads != (p->end->n_receivers > 0), HSC_EINVAL, "a path has %d receivers%s", p->end->n_receivers,
                heads ? ": name one at least" : ", but its end is the residual stream");
    p->last = heads ? 0 : p->config->n_layers;
    for (int i = 0; i < p->end->n_receivers; i++) {
        HSC_TRY(check_place(p, &p->end->receivers[i], "receiver", err));
        if (p->end->receivers[i].layer > p->last) p->last = p->end->receivers[i].layer;
    }
    for (int i = 0; i < p->n_senders; i++) HSC_TRY(check_place(p, &p->senders[i], "sender", err));
    return HSC_OK;
}

static hsc_status allocate(paths *p, hsc_error *err)
{
    size_t n = (size_t)p->n_senders, n_receivers = (size_t)p->end->n_receivers;
    size_t floats = n * n_receivers * p->n_rows * p->d_head;
    p->most = (size_t)p->config->n_layers > n_receivers ? (size_t)p->config->n_layers : n_receivers;
    p->edits = hsc__calloc(n * p->most + 1, sizeof *p->edits);
    p->variants = hsc__calloc(n + 1, sizeof *p->variants);
    p->arrived = hsc__calloc(floats + 1, sizeof *p->arrived);
    if (p->edits && p->variants && p->arrived) return HSC_OK;
    return hsc__fail_memory(err, floats * sizeof *p->arrived + n * p->most * sizeof *p->edits, "paths");
}

/* The sender from the other text, the heads behind it as they are. */
static hsc_status send(paths *p, int sender, hsc_error *err)
{
    const hsc_head_place *s = &p->senders[sender];
    hsc_edit *edits = p->edits + (size_t)sender * p->most;
    int n = 0;
    p->variants[sender] = (hsc_variant){edits, 0};
    if (s->layer >= p->last) return HSC_OK;
    hsc_rows rows = {p->from, p->from, (int)p->n_rows};
    HSC_TRY(take_head(&edits[n++], p->source, s->layer, s->head, &rows, err));
    for (int layer = s->layer + 1; layer < p->last; layer++)
        HSC_TRY(hold_layer(&edits[n++], p->base, layer, p->from, err));
    p->variants[sender].n_edits = n;
    return HSC_OK;
}

typedef struct receiving {
    paths *p;
    hsc_error *err;
    hsc_status status;
} receiving;

/* Keeps what arrives at the receivers behind the sender. */
static int receive(void *user, const hsc_trial *trial)
{
    receiving *r = user;
    paths *p = r->p;
    size_t row = (size_t)hsc_site_row(hsc__lab_model(p->base), p->end->input);
    for (int i = 0; i < p->end->n_receivers && r->status == HSC_OK; i++) {
        const hsc_head_place *to = &p->end->receivers[i];
        hsc_view view;
        if (to->layer <= p->senders[trial->variant].layer) continue;
        r->status = hsc_session_activation(trial->session, p->end->input, to->layer, trial->seq, &view, r->err);
        float *out =
            p->arrived + ((size_t)trial->variant * (size_t)p->end->n_receivers + (size_t)i) * p->n_rows * p->d_head;
        for (size_t t = 0; t < p->n_rows && r->status == HSC_OK; t++)
            memcpy(out + t * p->d_head, view.data + t * row + (size_t)input_head(p, i) * p->d_head,
                   p->d_head * sizeof *out);
    }
    return r->status != HSC_OK;
}

/* The second run: what arrived becomes the receivers' input. */
static hsc_status arrive(paths *p, int sender, hsc_error *err)
{
    hsc_edit *edits = p->edits + (size_t)sender * p->most;
    int n = 0;
    for (int i = 0; i < p->end->n_receivers; i++) {
        const hsc_head_place *to = &p->end->receivers[i];
        if (to->layer <= p->senders[sender].layer) continue;
        HSC_TRY(hsc_edit_head(&edits[n], hsc__lab_model(p->base), p->end->input, to->layer, input_head(p, i), err));
        edits[n].first_pos = p->from;
        edits[n].values =
            p->arrived + ((size_t)sender * (size_t)p->end->n_receivers + (size_t)i) * p->n_rows * p->d_head;
        edits[n++].stride = p->d_head;
    }
    p->variants[sender] = (hsc_variant){edits, n};
    return HSC_OK;
}

static hsc_status run_paths(paths *p, hsc_trial_fn fn, void *user, hsc_error *err)
{
    HSC_TRY(allocate(p, err));
    for (int i = 0; i < p->n_senders; i++) HSC_TRY(send(p, i, err));
    if (!p->end->n_receivers) return hsc_lab_run(p->base, p->variants, p->n_senders, fn, user, err);
    receiving r = {p, err, HSC_OK};
    hsc_view kept; /* a site that is not kept is said before anything runs */
    for (int i = 0; i < p->end->n_receivers; i++)
        HSC_TRY(hsc_lab_clean(p->base, p->end->input, p->end->receivers[i].layer, &kept, err));
    int n_sent = 0;
    for (int i = 0; i < p->n_senders; i++) n_sent += p->variants[i].n_edits > 0;
    hsc_status status = n_sent ? hsc_lab_run(p->base, p->variants, p->n_senders, receive, &r, err) : HSC_OK;
    if (r.status != HSC_OK) return r.status;
    HSC_TRY(status);
    for (int i = 0; i < p->n_senders; i++) HSC_TRY(arrive(p, i, err));
    return hsc_lab_run(p->base, p->variants, p->n_senders, fn, user, err);
}

hsc_status hsc_path_patch(hsc_lab *base, const hsc_lab *source, const hsc_head_place *senders, int n_senders,
                          const hsc_path_end *end, hsc_trial_fn fn, void *user, hsc_error *err)
{
    hsc__error_clear(err);
    paths p = {.base = base, .source = source, .senders = senders, .n_senders = n_senders, .end = end};
    p.config = hsc_model_config(hsc__lab_model(base));
    HSC_TRY(check_paths(&p, err));
    p.from = hsc__lab_first_difference(base, source);
    p.n_rows = (size_t)(hsc__lab_n_tokens(base) - p.from);
    p.d_head = (size_t)p.config->d_head;
    hsc_status status = run_paths(&p, fn, user, err);
    hsc__free(p.edits);
    hsc__free(p.variants);
    hsc__free(p.arrived);
    return status;
}

/* ------------------------------------------------------------------------------------------------- mediation ---- */

typedef struct measuring {
    hsc_token right, wrong;
    size_t d_vocab;
    double *out, minus;
} measuring;

static double difference(const measuring *m, const float *logits, int n_rows)
{
    const float *last = logits + (size_t)(n_rows - 1) * m->d_vocab;
    return (double)last[m->right] - (double)last[m->wrong];
}

static int measure(void *user, const hsc_trial *trial)
{
    const measuring *m = user;
    m->out[trial->variant] = difference(m, trial->logits, trial->n_rows) - m->minus;
    return 0;
}

/* What the positions of `lab` take from `other`, without those before the first difference: there both runs are the
 * same bits. */
static int find_rows(const hsc_lab *lab, const hsc_lab *other, int seam, hsc_rows rows[2])
{
    int n = hsc_align_rows(hsc__lab_n_tokens(lab), hsc__lab_n_tokens(other), seam, rows);
    int same = hsc__lab_first_difference(lab, other);
    if (rows->to != rows->from) return n;
    if (same >= rows->n) { /* the stretch before the seam: the other begins behind it */
        rows[0] = rows[1];
        return n - 1;
    }
    *rows = (hsc_rows){same, same, rows->n - same};
    return n;
}

/* Every head of `lab` in turn as it is in `other`. */
static hsc_status mediate(hsc_lab *lab, const hsc_lab *other, int seam, measuring *m, hsc_error *err)
{
    const hsc_config *c = hsc_model_config(hsc__lab_model(lab));
    hsc_rows rows[2];
    int n = c->n_layers * c->n_heads, n_rows = find_rows(lab, other, seam, rows);
    if (!m->out) return HSC_OK;
    hsc_edit *edits = hsc__calloc((size_t)n * (size_t)n_rows, sizeof *edits);
    hsc_variant *variants = hsc__calloc((size_t)n, sizeof *variants);
    hsc_status status = edits && variants ? HSC_OK : hsc__fail_memory(err, (size_t)n * sizeof *edits, "patches");
    for (int i = 0; i < n && status == HSC_OK; i++) {
        variants[i] = (hsc_variant){edits + i * n_rows, n_rows};
        for (int k = 0; k < n_rows && status == HSC_OK; k++)
            status = take_head(&edits[i * n_rows + k], other, i / c->n_heads, i % c->n_heads, &rows[k], err);
    }
    if (status == HSC_OK) status = hsc_lab_run(lab, variants, n, measure, m, err);
    hsc__free(edits);
    hsc__free(variants);
    return status;
}

hsc_status hsc_mediate(hsc_lab *clean, hsc_lab *other, hsc_token right, hsc_token wrong, int seam, hsc_mediation *out,
                       hsc_error *err)
{
    const hsc_config *c = hsc_model_config(hsc__lab_model(clean));
    measuring m = {.right = right, .wrong = wrong, .d_vocab = (size_t)c->d_vocab};
    hsc_view logits;
    hsc__error_clear(err);
    HSC_TRY(check_labs(clean, other, err));
    int n = hsc__lab_n_tokens(clean), n_other = hsc__lab_n_tokens(other);
    HSC_FAIL_IF(n != n_other && (seam < 0 || seam >= n || seam >= n_other), HSC_EINVAL,
                "seam %d is not within texts of %d and %d tokens", seam, n, n_other);
    HSC_FAIL_IF(right < 0 || right >= c->d_vocab || wrong < 0 || wrong >= c->d_vocab, HSC_EINVAL,
                "tokens %d and %d: the vocabulary has %d", (int)right, (int)wrong, c->d_vocab);
    HSC_TRY(hsc_lab_logits(clean, &logits, err));
    out->clean = difference(&m, logits.data, (int)logits.shape[0]);
    HSC_TRY(hsc_lab_logits(other, &logits, err));
    out->other = difference(&m, logits.data, (int)logits.shape[0]);
    m.minus = out->clean;
    m.out = out->indirect;
    HSC_TRY(mediate(clean, other, seam, &m, err));
    m.out = out->direct;
    return mediate(other, clean, seam, &m, err);
}
