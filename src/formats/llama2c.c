/* The reader of llama2.c's checkpoints. Sizes are bounded before they are multiplied, so that no sum can overflow. */
#include "formats/llama2c.h"

#include "formats/tensor_set.h"

#include <stdio.h>
#include <string.h>

enum { N_FIELDS = 7, HEADER_BYTES = 4 * N_FIELDS, MAX_WIDTH = 1 << 20, MAX_LAYERS = 4096 };

static bool in_range(int value, int high)
{
    return value >= 1 && value <= high;
}

/* The numbers in the order of the file; a negative vocabulary says that the output matrix is its own. */
static bool parse_header(const unsigned char *data, size_t n, hsc__llama2c *h)
{
    int32_t f[N_FIELDS];
    if (n < HEADER_BYTES) return false;
    memcpy(f, data, sizeof f);
    if (f[5] == INT32_MIN) return false;
    *h = (hsc__llama2c){f[0], f[1], f[2], f[3], f[4], f[5] < 0 ? -f[5] : f[5], f[6], f[5] > 0};
    return in_range(h->d_model, MAX_WIDTH) && in_range(h->d_mlp, MAX_WIDTH) && in_range(h->n_layers, MAX_LAYERS) &&
           in_range(h->n_heads, h->d_model) && in_range(h->n_kv_heads, h->n_heads) &&
           in_range(h->d_vocab, MAX_WIDTH * 16) && in_range(h->n_ctx, MAX_WIDTH * 16) && h->d_model % h->n_heads == 0 &&
           h->d_model / h->n_heads % 2 == 0 && h->n_heads % h->n_kv_heads == 0;
}

/* One kind of tensor: all layers' one after the other, or one of its own. */
typedef struct {
    const char *name;
    int per_layer;
    int64_t rows, columns; /* columns 0: a vector */
} part;

enum { N_PARTS = 13 };

/* In the order of the file. The two tables of cosines and sines are never read: they are made anew. */
static int list_parts(const hsc__llama2c *h, part out[N_PARTS])
{
    int64_t d = h->d_model, m = h->d_mlp, head = d / h->n_heads, kv = head * h->n_kv_heads;
    const part parts[N_PARTS] = {
        {"token_embd.weight", 0, h->d_vocab, d},
        {"attn_norm.weight", 1, d, 0},
        {"attn_q.weight", 1, d, d},
        {"attn_k.weight", 1, kv, d},
        {"attn_v.weight", 1, kv, d},
        {"attn_output.weight", 1, d, d},
        {"ffn_norm.weight", 1, d, 0},
        {"ffn_gate.weight", 1, m, d},
        {"ffn_down.weight", 1, d, m},
        {"ffn_up.weight", 1, m, d},
        {"output_norm.weight", 0, d, 0},
        {NULL, 0, h->n_ctx, head},
        {"output.weight", 0, h->d_vocab, d},
    };
    memcpy(out, parts, sizeof parts);
    return h->shared ? N_PARTS - 1 : N_PARTS;
}

static uint64_t values_of(const part *p)
{
    return (uint64_t)p->rows * (uint64_t)(p->columns ? p->columns : 1);
}

static uint64_t file_bytes(const hsc__llama2c *h)
{
    part parts[N_PARTS];
    uint64_t n = 0;
    int n_parts = list_parts(h, parts);
    for (int i = 0; i < n_parts; i++) n += values_of(&parts[i]) * (uint64_t)(parts[i].per_layer ? h->n_layers : 1);
    return HEADER_BYTES + 4 * n;
}

bool hsc__llama2c_is(const char *path)
{
    hsc__map map;
    hsc__llama2c header;
    if (hsc__map_open(&map, path, NULL) != HSC_OK) return false;
    bool is = parse_header(map.data, map.size, &header) && file_bytes(&header) == map.size;
    hsc__map_close(&map);
    return is;
}

static hsc_status add(hsc__tensors *set, const part *p, int layer, const unsigned char *data, const char *path,
                      hsc_error *err)
{
    char name[64];
    hsc__tensor t = {.dtype = HSC_F32,
                     .dtype_name = "F32",
                     .n_dims = p->columns ? 2 : 1,
                     .shape = {p->rows, p->columns},
                     .n_elements = values_of(p),
                     .n_bytes = 4 * values_of(p),
                     .data = data,
                     .path = path};
    if (p->per_layer) snprintf(name, sizeof name, "blk.%d.%s", layer, p->name);
    else snprintf(name, sizeof name, "%s", p->name);
    HSC_TRY(hsc__tensors_keep(set, name, strlen(name), &t.name, err));
    set->items[set->n++] = t;
    return HSC_OK;
}

static hsc_status fill(hsc__tensors *set, const unsigned char *data, size_t n, const char *path, hsc__llama2c *header,
                       hsc_error *err)
{
    part parts[N_PARTS];
    HSC_FAIL_IF(!parse_header(data, n, header) || file_bytes(header) != n, HSC_EFORMAT,
                "%s: is no llama2.c checkpoint: its first numbers ask for another length than %llu bytes", path,
                (unsigned long long)n);
    int n_parts = list_parts(header, parts);
    HSC_TRY(hsc__tensors_reserve(set, (size_t)header->n_layers * N_PARTS, err));
    const unsigned char *at = data + HEADER_BYTES;
    for (int i = 0; i < n_parts; i++) {
        for (int layer = 0; layer < (parts[i].per_layer ? header->n_layers : 1); layer++) {
            if (parts[i].name) HSC_TRY(add(set, &parts[i], layer, at, path, err));
            at += 4 * values_of(&parts[i]);
        }
    }
    return hsc__tensors_index(set, err);
}

hsc_status hsc__llama2c_parse(hsc__tensors **out, const void *data, size_t n, const char *path, hsc__llama2c *header,
                              hsc_error *err)
{
    hsc__tensors *set;
    const char *kept;
    *out = NULL;
    HSC_TRY(hsc__tensors_new(&set, err));
    hsc_status status = hsc__tensors_keep(set, path, strlen(path), &kept, err);
    if (status == HSC_OK) status = fill(set, data, n, kept, header, err);
    if (status == HSC_OK) *out = set;
    else hsc__tensors_close(set);
    return status;
}

hsc_status hsc__llama2c_open(hsc__tensors **out, const char *path, hsc__llama2c *header, hsc_error *err)
{
    hsc__tensors *set;
    hsc__map map;
    const char *kept;
    *out = NULL;
    HSC_TRY(hsc__tensors_new(&set, err));
    hsc_status status = hsc__tensors_map(set, path, &map, &kept, err);
    if (status == HSC_OK) status = fill(set, map.data, map.size, kept, header, err);
    if (status == HSC_OK) *out = set;
    else hsc__tensors_close(set);
    return status;
}
