/* The metric that an answer is measured by, and the map of effects on it. */
#include "cli/answer.h"

#include <math.h>
#include <string.h>

/* ----------------------------------------------------------------------------------------------------- metric ---- */

bool hsc__metric_parse(const char *text, hsc__metric *out)
{
    out->text = text;
    if (strcmp(text, "loss") == 0) {
        out->kind = HSC__METRIC_LOSS;
        return true;
    }
    if (strncmp(text, "logit:", 6) != 0) return false;
    out->text = text + 6 + strspn(text + 6, " ");
    out->kind = strstr(out->text, " - ") ? HSC__METRIC_DIFF : HSC__METRIC_LOGIT;
    return *out->text != '\0';
}

/* A word of the metric without the blanks around it. */
static void trim(const char **word, size_t *n)
{
    while (*n && **word == ' ') ++*word, --*n;
    while (*n && (*word)[*n - 1] == ' ') --*n;
}

static bool one_token(const hsc_tokenizer *tokenizer, const char *text, size_t n, hsc_encoding *encoding,
                      hsc_token *out)
{
    if (hsc_encode(tokenizer, text, n, 0, encoding, NULL) != HSC_OK || encoding->n != 1) return false;
    *out = encoding->ids[0];
    return true;
}

/* The digits behind '#', of an id below n_vocab. */
static bool read_id(const char *digits, size_t n, int n_vocab, hsc_token *out)
{
    int64_t id = 0;
    for (size_t i = 0; i < n && id < n_vocab; i++) {
        if (digits[i] < '0' || digits[i] > '9') return false;
        id = 10 * id + (digits[i] - '0');
    }
    *out = (hsc_token)id;
    return n > 0 && id < n_vocab;
}

/* What was perhaps meant by a word that is several tokens: two words. */
static const char *hint_of(const char *option, const char *word, size_t n)
{
    bool metric = strcmp(option, "--metric") == 0;
    if (metric && memchr(word, '-', n)) return "; a difference has blanks around the minus, \"logit: A - B\"";
    return !metric && memchr(word, ',', n) ? "; several words want the option several times" : "";
}

hsc_status hsc__cli_word(const hsc__opened *opened, const char *option, const char *word, size_t n, hsc_token *out,
                         hsc_error *err)
{
    const hsc_tokenizer *tokenizer = NULL;
    hsc__string spaced = {0};
    hsc_encoding encoding = {0};
    trim(&word, &n);
    HSC_FAIL_IF(!n, HSC_EINVAL, "%s: a word is missing", option);
    if (*word == '#') {
        HSC_FAIL_IF(!read_id(word + 1, n - 1, opened->config->d_vocab, out), HSC_EINVAL,
                    "%s: '%.*s' is no token of this model, which has #0 to #%d", option, (int)n, word,
                    opened->config->d_vocab - 1);
        return HSC_OK;
    }
    HSC_TRY(hsc__cli_tokenizer(opened, &tokenizer, err));
    tokenizer = hsc_model_target_tokenizer(opened->model, err); /* an encoder-decoder writes in its target's words */
    if (!tokenizer) return HSC_ENOTFOUND;
    bool quoted = n > 2 && *word == '"' && word[n - 1] == '"';
    hsc__string_printf(&spaced, " %.*s", (int)n, word);
    bool found = quoted ? one_token(tokenizer, word + 1, n - 2, &encoding, out)
                        : (!spaced.failed && one_token(tokenizer, spaced.data, spaced.n, &encoding, out)) ||
                              one_token(tokenizer, word, n, &encoding, out);
    size_t pieces = encoding.n;
    hsc_encoding_free(&encoding);
    hsc__string_free(&spaced);
    HSC_FAIL_IF(!found, HSC_EINVAL,
                "%s: '%.*s' is %zu tokens of this model, a logit belongs to one: take another word, or its "
                "token by number (#123)%s",
                option, (int)n, word, pieces, hint_of(option, word, n));
    HSC_FAIL_IF(*out >= opened->config->d_vocab, HSC_EINVAL,
                "%s: '%.*s' is token #%d of the tokenizer, the model has #0 to #%d", option, (int)n, word, (int)*out,
                opened->config->d_vocab - 1);
    return HSC_OK;
}

hsc_status hsc__cli_has_logits(const hsc__opened *opened, hsc_error *err)
{
    HSC_FAIL_IF(!hsc_model_has_site(opened->model, HSC_LOGITS), HSC_EUNSUPPORTED,
                "%s (%s) has no output matrix, so it makes no logits, and there is no answer or loss to measure",
                opened->name, opened->config->arch);
    return HSC_OK;
}

hsc_status hsc__metric_tokens(const hsc__metric *metric, const hsc__opened *opened, hsc_token *a, hsc_token *b,
                              hsc_error *err)
{
    *a = *b = 0;
    HSC_TRY(hsc__cli_has_logits(opened, err));
    if (metric->kind == HSC__METRIC_LOSS) return HSC_OK;
    const char *minus = strstr(metric->text, " - ");
    size_t n = minus ? (size_t)(minus - metric->text) : strlen(metric->text);
    HSC_TRY(hsc__cli_word(opened, "--metric", metric->text, n, a, err));
    return minus ? hsc__cli_word(opened, "--metric", minus + 3, strlen(minus + 3), b, err) : HSC_OK;
}

void hsc__metric_name(hsc__string *out, const hsc__metric *metric)
{
    const char *minus = strstr(metric->text, " - ");
    if (metric->kind == HSC__METRIC_LOSS) {
        hsc__string_text(out, "loss, mean over the predicted tokens");
        if (metric->first > 1 || metric->last >= 0) {
            hsc__string_printf(out, " at positions %d to ", metric->first);
            if (metric->last >= 0) hsc__string_printf(out, "%d", metric->last);
            else hsc__string_text(out, "the last");
        }
    } else if (minus) {
        hsc__string_printf(out, "logit of %.*s minus logit of %s", (int)(minus - metric->text), metric->text,
                           minus + 3);
    } else {
        hsc__string_printf(out, "logit of %s", metric->text);
    }
}

void hsc__metric_describe(hsc__string *out, const hsc__metric *metric)
{
    hsc__metric_name(out, metric);
    if (metric->kind != HSC__METRIC_LOSS) hsc__string_text(out, " at the last token");
}

const char *hsc__metric_unit(const hsc__metric *metric)
{
    return metric->kind == HSC__METRIC_LOSS ? "nats a token" : "logits";
}

hsc_logits_rows hsc__metric_rows(const hsc__metric *metric)
{
    return metric->kind == HSC__METRIC_LOSS ? HSC_LOGITS_ALL : HSC_LOGITS_LAST;
}

/* -log softmax(logits)[id] */
static double token_loss(const float *logits, int n, hsc_token id)
{
    float most = logits[0];
    for (int i = 1; i < n; i++) most = logits[i] > most ? logits[i] : most;
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)expf(logits[i] - most);
    return log(sum) + (double)most - (double)logits[id];
}

double hsc__metric_value(const hsc__metric *metric, const hsc__item *item, const float *logits, int d_vocab,
                         int first_row, int n_rows, const double *before, double *losses)
{
    const float *last = logits + (size_t)(n_rows - 1) * (size_t)d_vocab;
    if (metric->kind == HSC__METRIC_DIFF) return (double)last[item->a] - (double)last[item->b];
    if (metric->kind == HSC__METRIC_LOGIT) return (double)last[item->a];
    double sum = 0;
    int high = metric->last >= 0 && metric->last < item->n_tokens - 1 ? metric->last : item->n_tokens - 1, n = 0;
    for (int pos = metric->first > 1 ? metric->first : 1; pos <= high; pos++, n++) {
        int row = pos - 1 - first_row; /* the row that predicts the token at pos */
        double loss =
            row < 0 ? before[pos] : token_loss(logits + (size_t)row * (size_t)d_vocab, d_vocab, item->ids[pos]);
        if (losses) losses[pos] = loss;
        sum += loss;
    }
    return n ? sum / n : NAN;
}

/* -------------------------------------------------------------------------------------------------------- map ---- */

/* "L0", "L1" and so on, between the names of both ends where there are such. */
static bool letter_labels(hsc__arena *arena, hsc__label *labels, int n, char letter, const char *before,
                          const char *const after[2])
{
    int n_before = before != NULL, n_after = (after[0] != NULL) + (after[1] != NULL);
    for (int i = 0; i < n; i++) {
        char numbered[16];
        snprintf(numbered, sizeof numbered, "%c%d", letter, i - n_before);
        const char *name = i < n_before ? before : i >= n - n_after ? after[i - (n - n_after)] : numbered;
        labels[i].n = strlen(name);
        labels[i].bytes = hsc__arena_strndup(arena, name, labels[i].n);
        if (!labels[i].bytes) return false;
    }
    return true;
}

static hsc_status show(const hsc__heatmap *map, const char *path, hsc__string *out, hsc_error *err)
{
    if (!path) {
        hsc__terminal_mode mode =
            hsc__terminal_choose(hsc__cli_terminal(stdout), getenv("TERM"), getenv("COLORTERM"), getenv("NO_COLOR"));
        return hsc__terminal_heatmap(out, map, mode, hsc__cli_width(), err);
    }
    hsc__cli_hold_interrupt(true);
    hsc_status status = hsc__plot_heatmap(path, map, err);
    hsc__cli_hold_interrupt(false);
    if (status == HSC_OK) hsc__cli_note("wrote %s", path);
    return status;
}

hsc_status hsc__effect_map_show(hsc__effect_map *map, const char *path, hsc__string *out, hsc_error *err)
{
    static const char *const none[2];
    size_t rows = (size_t)map->n_rows, cols = (size_t)map->n_cols;
    hsc__arena arena = {0};
    float *values = hsc__calloc(rows * cols, sizeof *values);
    hsc__label *names = hsc__calloc(rows + cols, sizeof *names);
    hsc_status status = hsc__fail_memory(err, rows * cols * sizeof *values, "a map");
    if (values && names && !map->title.failed &&
        letter_labels(&arena, names, map->n_rows, map->row_letter, map->row_before, none) &&
        letter_labels(&arena, names + rows, map->n_cols, map->col_letter, NULL, map->col_after)) {
        hsc__error_clear(err);
        bool below = false;
        for (size_t i = 0; i < rows * cols; i++) {
            values[i] = (float)(map->values[i] - map->start);
            below |= map->values[i] < map->start;
        }
        hsc__heatmap heatmap = {.title = map->title.data,
                                .x_title = map->x_title,
                                .y_title = map->y_title,
                                .value_title = map->value_title,
                                .n_rows = map->n_rows,
                                .n_cols = map->n_cols,
                                .values = values,
                                .row_labels = map->row_labels ? map->row_labels : names,
                                .n_row_labels = rows,
                                .col_labels = map->col_labels ? map->col_labels : names + rows,
                                .n_col_labels = cols,
                                .scale = below ? HSC__SCALE_SIGNED : HSC__SCALE_MAX,
                                .causal = map->causal,
                                .blank_title = map->blank_title};
        status = show(&heatmap, path, out, err);
    }
    hsc__string_free(&map->title);
    hsc__free(values);
    hsc__free(names);
    hsc__arena_free(&arena);
    return status;
}
