/* What the views of `headscope look` have in common: which heads and keys are asked for, and how they are written. */
#include "cli/look.h"

#include <string.h>

enum { LISTED_TOKENS = 200, LINE_CELLS = 76 };

static const char *const side_names[] = {"cross", "encoder", "decoder"};

/* ------------------------------------------------------------------------------------------------------ tokens ---- */

/* Shortens to what stands between blanks. */
static void trim(const char **text, size_t *n)
{
    while (*n && **text == ' ') (*text)++, (*n)--;
    while (*n && (*text)[*n - 1] == ' ') (*n)--;
}

/* Compares decoded text, so that U+FFFD stands for bytes that are not UTF-8 here as everywhere. `loosely`: blanks at
 * the ends do not count. */
static bool token_is(const hsc__label *token, const char *text, bool loosely)
{
    hsc__string decoded = {0};
    hsc__text_decode(&decoded, token->bytes, token->n);
    const char *have = decoded.data;
    size_t n_have = decoded.n, n = strlen(text);
    if (loosely && have) {
        trim(&have, &n_have);
        trim(&text, &n);
    }
    bool same = !decoded.failed && n_have == n && memcmp(have, text, n) == 0;
    hsc__string_free(&decoded);
    return same;
}

/* Appends the positions that match, "2, 5, 9", and returns how many; *first is the first of them. */
static int list_matches(const hsc__tokens *tokens, const char *text, bool loosely, hsc__string *list, int *first)
{
    int n = 0;
    for (int i = 0; i < (int)tokens->encoding.n; i++) {
        if (!token_is(&tokens->texts[i], text, loosely)) continue;
        if (n == 0) *first = i;
        hsc__string_printf(list, n++ ? ", %d" : "%d", i);
    }
    return n;
}

static hsc_status not_found(const hsc__tokens *tokens, const char *text, const char *repr, const char *option,
                            hsc_error *err)
{
    hsc__string list = {0}, near = {0};
    int at = 0, n = list_matches(tokens, text, true, &list, &at);
    if (n) hsc__look_repr(&near, tokens, at);
    if (n && !near.failed && !list.failed)
        hsc__fail(err, HSC_ENOTFOUND, 0, "%s %s: no token is exactly that; but for blanks, %s is, at position%s %s",
                  option, repr, near.data, n > 1 ? "s" : "", list.data);
    else hsc__fail(err, HSC_ENOTFOUND, 0, "%s %s: no token is exactly that", option, repr);
    hsc__string_free(&list);
    hsc__string_free(&near);
    return HSC_ENOTFOUND;
}

hsc_status hsc__look_find(const hsc__tokens *tokens, const char *text, const char *option, const char *other, int *pos,
                          hsc_error *err)
{
    hsc__string list = {0}, repr = {0};
    hsc_status status = HSC_OK;
    int n = list_matches(tokens, text, false, &list, pos);
    hsc__text_repr(&repr, text, strlen(text));
    if (list.failed || repr.failed) status = hsc__fail_memory(err, 64, "a list of tokens");
    else if (n == 0) status = not_found(tokens, text, repr.data, option, err);
    else if (n > 1)
        status = hsc__fail(err, HSC_EINVAL, 0, "%s %s: %d tokens are exactly that, at positions %s; %s N chooses one",
                           option, repr.data, n, list.data, other);
    hsc__string_free(&list);
    hsc__string_free(&repr);
    return status;
}

void hsc__look_list_tokens(const hsc__tokens *tokens)
{
    int n_tokens = (int)tokens->encoding.n;
    hsc__string line = {0};
    for (int i = 0; i < n_tokens && i < LISTED_TOKENS; i++) {
        hsc__string token = {0};
        hsc__string_printf(&token, "%s%d ", line.n ? "  " : "", i);
        hsc__look_repr(&token, tokens, i);
        if (line.n && line.n + token.n > LINE_CELLS) {
            hsc__cli_hint("%s", line.data);
            line.n = 0;
        }
        if (!token.failed) hsc__string_text(&line, token.data + (line.n ? 0 : strspn(token.data, " ")));
        hsc__string_free(&token);
    }
    if (line.n && !line.failed) hsc__cli_hint("%s", line.data);
    if (n_tokens > LISTED_TOKENS)
        hsc__cli_hint("and %d more; 'headscope tokenize' lists them all", n_tokens - LISTED_TOKENS);
    hsc__string_free(&line);
}

/* ------------------------------------------------------------------------------------------------------- heads ---- */

bool hsc__look_chosen(const hsc__look *look, int layer, int head)
{
    const hsc__head *one = &look->options->head;
    if (one->given && (layer != one->layer || head != one->head)) return false;
    return hsc__layers_have(&look->options->layers, layer);
}

float *hsc__look_weights(const hsc__look *look, const hsc__look_pass *pass, int layer, int head)
{
    size_t index = (size_t)layer * (size_t)look->n_heads + (size_t)head;
    return pass->weights + index * (size_t)(pass->n_tokens > pass->n_keys ? pass->n_tokens : pass->n_keys);
}

bool hsc__look_in_window(const hsc__look *look, int query, int key)
{
    const hsc__pass_options *pass = &look->options->pass;
    bool masked = look->side == HSC__LOOK_OWN || look->side == HSC__LOOK_DECODER;
    return !masked || pass->window == 0 || key > query - pass->window || key < pass->sinks;
}

int hsc__look_n_visible(const hsc__look *look, int query)
{
    const hsc__pass_options *pass = &look->options->pass;
    int n = look->causal ? query + 1 : look->first.n_keys;
    if (look->side == HSC__LOOK_CROSS || look->side == HSC__LOOK_ENCODER) return n;
    int hidden = pass->window && query >= pass->window ? query - pass->window + 1 : 0;
    return n - hidden + (pass->sinks < hidden ? pass->sinks : hidden);
}

int hsc__look_first_key(const hsc__look *look, int query)
{
    return look->options->include_first || look->side == HSC__LOOK_CROSS || query == 0 ? 0 : 1;
}

int hsc__look_best_in_row(const hsc__look *look, const float *row, int query, int k, hsc_key_weight *out)
{
    int n_key = look->causal ? query + 1 : look->first.n_keys, n_kept = 0;
    int n = hsc_top_keys(row, n_key, hsc__look_first_key(look, query), k, out);
    for (int i = 0; i < n; i++) {
        if (hsc__look_in_window(look, query, out[i].key)) out[n_kept++] = out[i];
    }
    return n_kept;
}

int hsc__look_best(const hsc__look *look, int layer, int head, int k, hsc_key_weight *out)
{
    const hsc__look_pass *pass = &look->first;
    const float *weights = hsc__look_weights(look, pass, layer, head);
    if (pass->query >= 0) return hsc__look_best_in_row(look, weights, pass->query, k, out);
    int n = hsc_top_keys(weights, pass->n_tokens, look->causal ? pass->key : 0, k, out), n_kept = 0;
    for (int i = 0; i < n; i++) { /* these are queries */
        if (hsc__look_in_window(look, out[i].key, pass->key)) out[n_kept++] = out[i];
    }
    return n_kept;
}

int hsc__look_top(const hsc__look *look, int standard)
{
    return look->options->top ? look->options->top : standard;
}

/* ----------------------------------------------------------------------------------------------------- writing ---- */

void hsc__look_name_head(hsc__string *out, int layer, int head)
{
    hsc__string_printf(out, "layer %d, head %d (L%dH%d)", layer + 1, head, layer, head);
}

void hsc__look_header(const hsc__look *look, hsc__string *out)
{
    static const char *const sides[] = {
        [HSC__LOOK_CROSS] = "cross-attention, what the target looks at in the source; ",
        [HSC__LOOK_ENCODER] = "encoder; ",
        [HSC__LOOK_DECODER] = "decoder; ",
        [HSC__LOOK_OWN] = "",
    };
    hsc__string_printf(out, "%s%d layers; %d heads per layer\n", sides[look->side], look->n_layers, look->n_heads);
}

void hsc__look_repr(hsc__string *out, const hsc__tokens *tokens, int pos)
{
    hsc__text_repr(out, tokens->texts[pos].bytes, tokens->texts[pos].n);
}

void hsc__look_csv_token(hsc__string *out, const hsc__tokens *tokens, int pos)
{
    hsc__string_printf(out, ",%d,", pos);
    hsc__csv_field(out, tokens->texts[pos].bytes, tokens->texts[pos].n);
}

void hsc__look_csv_number(hsc__string *out, float value)
{
    char text[40];
    hsc__format_double(text, sizeof text, 9, (double)value);
    hsc__string_printf(out, ",%s", text);
}

void hsc__look_csv_head(hsc__string *out, int layer, int head)
{
    hsc__string_printf(out, "%d,%d,L%dH%d", layer, head, layer, head);
}

hsc_status hsc__look_fail_number(int layer, int head, hsc_error *err)
{
    return hsc__fail(
        err, HSC_EINVAL, 0,
        "layer %d, head %d (L%dH%d): an attention weight is not finite (NaN): the file's weights are damaged "
        "or overflow",
        layer + 1, head, layer, head);
}

json_t *hsc__look_json_start(const hsc__look *look)
{
    json_t *root = json_pack("{s:o}", "model", hsc__json_model(&look->opened));
    hsc__json_set_pass(root, &look->options->pass, look->opened.model);
    if (look->side != HSC__LOOK_OWN) json_object_set_new(root, "side", json_string(side_names[look->side]));
    json_object_set_new(root, "tokens", hsc__json_tokens(&look->first.tokens));
    if (look->side == HSC__LOOK_CROSS) json_object_set_new(root, "source", hsc__json_tokens(look->first.keys));
    return root;
}

json_t *hsc__look_json_head(int layer, int head)
{
    char name[32];
    snprintf(name, sizeof name, "L%dH%d", layer, head);
    return json_pack("{s:i,s:i,s:s}", "layer", layer, "head", head, "name", name);
}
