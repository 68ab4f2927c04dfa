/* Pictures and terminal maps of `headscope look`: one head large with its tokens, several as a grid. */
#include "cli/look.h"

#include <stdlib.h>

static hsc_status pattern_of(const hsc__look *look, int layer, int head, const float **out, hsc_error *err)
{
    hsc_view view;
    bool narrowed = look->options->head.given; /* then only this head was recorded */
    HSC_TRY(hsc_session_activation(look->first.session, look->site, layer, 0, &view, err));
    *out = view.data + (narrowed ? 0 : (size_t)head * (size_t)view.shape[1] * (size_t)view.shape[2]);
    return HSC_OK;
}

static hsc__heatmap map_of(const hsc__look *look, const char *title, const float *pattern)
{
    const hsc__look_pass *pass = &look->first;
    bool cross = look->side == HSC__LOOK_CROSS;
    return (hsc__heatmap){.title = title,
                          .x_title = cross ? "attends to (source)" : NULL,
                          .y_title = cross ? "token (target)" : NULL,
                          .n_rows = pass->n_tokens,
                          .n_cols = pass->n_keys,
                          .values = pattern,
                          .row_labels = pass->tokens.texts,
                          .n_row_labels = (size_t)pass->n_tokens,
                          .col_labels = pass->keys->texts,
                          .n_col_labels = (size_t)pass->n_keys,
                          .scale = (hsc__scale)look->options->scale,
                          .causal = look->causal};
}

/* The model, and which of its attentions. */
static void add_name(const hsc__look *look, hsc__string *out)
{
    static const char *const sides[] = {" cross-attention", " encoder", " decoder", ""};
    hsc__string_printf(out, "%s%s", look->opened.name, sides[look->side]);
}

/* "GPT-2 layer 5, head 3 (L4H3)" */
static hsc_status make_title(const hsc__look *look, int layer, int head, hsc__string *title, hsc_error *err)
{
    add_name(look, title);
    hsc__string_text(title, " ");
    hsc__look_name_head(title, layer, head);
    return title->failed ? hsc__fail_memory(err, 64, "a title") : HSC_OK;
}

static hsc_status plot_head(const hsc__look *look, int layer, int head, hsc_error *err)
{
    const float *pattern;
    hsc__string title = {0};
    HSC_TRY(pattern_of(look, layer, head, &pattern, err));
    hsc_status status = make_title(look, layer, head, &title, err);
    hsc__heatmap map = map_of(look, title.data, pattern);
    if (status == HSC_OK) status = hsc__plot_heatmap(look->options->plot, &map, err);
    hsc__string_free(&title);
    return status;
}

/* The grid's maps in the order of layers and heads; names are of the arena. */
static hsc_status collect_maps(const hsc__look *look, hsc__heatmap *maps, size_t *n, hsc__arena *names, hsc_error *err)
{
    *n = 0;
    for (int layer = 0; layer < look->n_layers; layer++) {
        for (int head = 0; head < look->n_heads; head++) {
            if (!hsc__look_chosen(look, layer, head)) continue;
            char name[32];
            const float *pattern;
            int length = snprintf(name, sizeof name, "L%dH%d", layer, head);
            HSC_TRY(pattern_of(look, layer, head, &pattern, err));
            const char *title = hsc__arena_strndup(names, name, (size_t)length);
            if (!title) return hsc__fail_memory(err, (size_t)length + 1, "titles");
            maps[(*n)++] = map_of(look, title, pattern);
        }
    }
    return HSC_OK;
}

static hsc_status plot_grid(const hsc__look *look, hsc_error *err)
{
    size_t n = (size_t)look->n_layers * (size_t)look->n_heads;
    hsc__heatmap *maps = hsc__calloc(n, sizeof *maps);
    hsc__arena names = {0};
    hsc__string title = {0};
    if (!maps) return hsc__fail_memory(err, n * sizeof *maps, "a grid");
    hsc_status status = collect_maps(look, maps, &n, &names, err);
    int first = 0, n_layers = 0;
    for (int layer = look->n_layers - 1; layer >= 0; layer--) {
        if (!hsc__layers_have(&look->options->layers, layer)) continue;
        first = layer;
        n_layers++;
    }
    add_name(look, &title);
    if (n_layers == 1) hsc__string_printf(&title, " layer %d (L%d)", first + 1, first);
    if (title.failed) status = hsc__fail_memory(err, 64, "a title");
    if (status == HSC_OK)
        status = hsc__plot_grid(look->options->plot, maps, n, n_layers > 1 ? look->n_heads : 0, title.data, err);
    hsc__string_free(&title);
    hsc__arena_free(&names);
    hsc__free(maps);
    return status;
}

hsc_status hsc__look_plot(const hsc__look *look, hsc_error *err)
{
    const hsc__head *head = &look->options->head;
    hsc__cli_hold_interrupt(true);
    hsc_status status = head->given ? plot_head(look, head->layer, head->head, err) : plot_grid(look, err);
    hsc__cli_hold_interrupt(false);
    if (status == HSC_OK) hsc__cli_note("wrote %s", look->options->plot);
    return status;
}

static hsc_status add_heatmap(const hsc__look *look, hsc__string *out, int layer, int head, hsc_error *err)
{
    const float *pattern;
    hsc__string title = {0};
    hsc__terminal_mode mode =
        hsc__terminal_choose(hsc__cli_terminal(stdout), getenv("TERM"), getenv("COLORTERM"), getenv("NO_COLOR"));
    HSC_TRY(pattern_of(look, layer, head, &pattern, err));
    hsc_status status = make_title(look, layer, head, &title, err);
    hsc__heatmap map = map_of(look, title.data, pattern);
    if (status == HSC_OK) status = hsc__terminal_heatmap(out, &map, mode, hsc__cli_width(), err);
    hsc__string_free(&title);
    return status;
}

hsc_status hsc__look_heatmaps(const hsc__look *look, hsc__string *out, hsc_error *err)
{
    for (int layer = 0; layer < look->n_layers; layer++) {
        for (int head = 0; head < look->n_heads; head++) {
            if (!hsc__look_chosen(look, layer, head)) continue;
            if (out->n) hsc__string_text(out, "\n");
            HSC_TRY(add_heatmap(look, out, layer, head, err));
        }
    }
    return HSC_OK;
}
