/* Linear layers behind an embedding's pooling, as sentence-transformers' Dense has them: y = act(W x + b), a folder
 * with config.json and safetensors each. A vector goes through in float64 and in one order, so that its bits depend on
 * nothing else. */
#include "tasks/dense.h"

#include "base/alloc.h"
#include "base/status.h"
#include "formats/json.h"
#include "formats/tensors.h"
#include "kernels/kernels.h"
#include "model/texts.h"

#include <math.h>
#include <string.h>

enum { MAX_LAYERS = 8, MAX_WIDTH = 1 << 20 };

static const char *const act_names[HSC_N_DENSE_ACTS] = {
#define ACT_NAME(id, name) [id] = name,
    HSC_DENSE_ACT_LIST(ACT_NAME)
#undef ACT_NAME
};

/* ------------------------------------------------------------------------------------------------------- files ---- */

/* "torch.nn.modules.activation.Tanh": the class is what counts. Absent: Tanh, as sentence-transformers has it. */
static hsc_status read_act(const json_t *config, const char *path, hsc_dense_act *out, hsc_error *err)
{
    const char *name;
    HSC_TRY(hsc__json_string(config, "activation_function", "Tanh", &name, path, err));
    const char *dot = strrchr(name, '.');
    for (int i = 0; i < HSC_N_DENSE_ACTS; i++) {
        if (strcmp(dot ? dot + 1 : name, act_names[i]) != 0) continue;
        *out = (hsc_dense_act)i;
        return HSC_OK;
    }
    return hsc__fail(err, HSC_EUNSUPPORTED, 0, "%s: field \"activation_function\": \"%s\" is not supported", path,
                     name);
}

/* The layer reads what the pooling left, and not single tokens. */
static hsc_status check_place(const json_t *config, const char *path, hsc_error *err)
{
    static const char *const fields[] = {"module_input_name", "module_output_name"};
    for (int i = 0; i < 2; i++) {
        const char *name;
        HSC_TRY(hsc__json_string(config, fields[i], "sentence_embedding", &name, path, err));
        HSC_FAIL_IF(strcmp(name, "sentence_embedding") != 0, HSC_EUNSUPPORTED,
                    "%s: field \"%s\": \"%s\" is not supported, sentence_embedding is", path, fields[i], name);
    }
    return HSC_OK;
}

static hsc_status read_sizes(const json_t *config, const char *path, hsc_dense *out, bool *bias, hsc_error *err)
{
    int64_t n_in, n_out;
    HSC_TRY(hsc__json_int(config, "in_features", 0, 0, MAX_WIDTH, &n_in, path, err));
    HSC_TRY(hsc__json_int(config, "out_features", 0, 0, MAX_WIDTH, &n_out, path, err));
    HSC_FAIL_IF(!n_in || !n_out, HSC_EFORMAT, "%s: field \"%s\" is missing or 0", path,
                n_in ? "out_features" : "in_features");
    HSC_TRY(hsc__json_bool(config, "bias", true, bias, path, err));
    *out = (hsc_dense){.n_in = (int)n_in, .n_out = (int)n_out};
    HSC_TRY(check_place(config, path, err));
    return read_act(config, path, &out->act, err);
}

static hsc_status copy_tensor(const hsc__tensors *set, const char *folder, const char *name, int64_t n_rows,
                              int64_t n_cols, const float **out, hsc_error *err)
{
    const hsc__tensor *t = hsc__tensors_find(set, name);
    HSC_FAIL_IF(!t, HSC_EFORMAT, "%s: tensor %s is missing", folder, name);
    bool fits = n_cols ? t->n_dims == 2 && t->shape[0] == n_rows && t->shape[1] == n_cols
                       : t->n_dims == 1 && t->shape[0] == n_rows;
    HSC_FAIL_IF(!fits, HSC_EFORMAT, "%s: tensor %s has another shape than config.json says", t->path, name);
    HSC_FAIL_IF(!hsc__kernels_can_read(t->dtype), HSC_EUNSUPPORTED,
                "%s: tensor %s has type %s, which cannot be computed with", t->path, name, t->dtype_name);
    float *copy = hsc__malloc((size_t)t->n_elements * sizeof *copy);
    if (!copy) return hsc__fail_memory(err, (size_t)t->n_elements * sizeof *copy, "a layer of the embedding");
    hsc__kernels_ref()->dequantise(t->dtype, t->data, (int64_t)t->n_elements, copy);
    *out = copy;
    return HSC_OK;
}

static void free_layer(const hsc_dense *layer)
{
    hsc__free((void *)(uintptr_t)layer->weight);
    hsc__free((void *)(uintptr_t)layer->bias);
}

static hsc_status read_layer(const char *folder, const json_t *config, const char *path, hsc_dense *out, hsc_error *err)
{
    hsc__tensors *set = NULL;
    bool bias;
    HSC_TRY(read_sizes(config, path, out, &bias, err));
    HSC_TRY(hsc__safetensors_open_dir(&set, folder, err));
    hsc_status status = copy_tensor(set, folder, "linear.weight", out->n_out, out->n_in, &out->weight, err);
    if (status == HSC_OK && bias) status = copy_tensor(set, folder, "linear.bias", out->n_out, 0, &out->bias, err);
    hsc__tensors_close(set);
    if (status != HSC_OK) free_layer(out);
    return status;
}

hsc_status hsc__dense_read(hsc_embedding *e, const char *folder, const json_t *config, const char *path, hsc_error *err)
{
    hsc_dense *layers = (hsc_dense *)(uintptr_t)e->dense;
    HSC_FAIL_IF(e->n_dense == MAX_LAYERS, HSC_EUNSUPPORTED, "%s: more than %d layers behind the pooling", path,
                (int)MAX_LAYERS);
    layers = hsc__realloc(layers, ((size_t)e->n_dense + 1) * sizeof *layers);
    if (!layers) return hsc__fail_memory(err, sizeof *layers, "a layer of the embedding");
    e->dense = layers;
    HSC_TRY(read_layer(folder, config, path, &layers[e->n_dense], err));
    e->n_dense++;
    return HSC_OK;
}

void hsc_embedding_free(hsc_embedding *e)
{
    if (!e) return;
    for (int i = 0; i < e->n_dense; i++) free_layer(&e->dense[i]);
    hsc__free((void *)(uintptr_t)e->dense);
    e->dense = NULL;
    e->n_dense = 0;
}

int hsc_embedding_width(const hsc_model *model, const hsc_embedding *e)
{
    return e->n_dense ? e->dense[e->n_dense - 1].n_out : hsc__texts_config(model)->d_model;
}

/* -------------------------------------------------------------------------------------------------- arithmetic ---- */

hsc_status hsc__dense_check(const hsc_embedding *how, int d_model, hsc_error *err)
{
    int width = d_model;
    for (int i = 0; i < how->n_dense; i++) {
        HSC_FAIL_IF(how->dense[i].n_in != width, HSC_EINVAL,
                    "layer %d behind the pooling takes %d numbers, a vector has %d there", i, how->dense[i].n_in,
                    width);
        width = how->dense[i].n_out;
    }
    return HSC_OK;
}

size_t hsc__dense_scratch(const hsc_embedding *how)
{
    size_t n = 0;
    for (int i = 0; i < how->n_dense; i++) n += (size_t)how->dense[i].n_out;
    return n;
}

static double activate(hsc_dense_act act, double x)
{
    switch (act) {
    case HSC_DENSE_TANH: return tanh(x);
    case HSC_DENSE_RELU: return x < 0 ? 0 : x;
    case HSC_DENSE_GELU: return 0.5 * x * (1 + erf(x / sqrt(2.0)));
    case HSC_DENSE_SIGMOID: return 1 / (1 + exp(-x));
    case HSC_DENSE_SILU: return x / (1 + exp(-x));
    default: return x;
    }
}

const double *hsc__dense_apply(const hsc_embedding *how, const double *x, double *scratch)
{
    for (int i = 0; i < how->n_dense; i++) {
        const hsc_dense *layer = &how->dense[i];
        for (int out = 0; out < layer->n_out; out++) {
            const float *w = layer->weight + (size_t)out * (size_t)layer->n_in;
            double sum = layer->bias ? (double)layer->bias[out] : 0;
            for (int k = 0; k < layer->n_in; k++) sum += (double)w[k] * x[k];
            scratch[out] = activate(layer->act, sum);
        }
        x = scratch;
        scratch += layer->n_out;
    }
    return x;
}
