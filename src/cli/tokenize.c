/* headscope tokenize: text to ids and back. Bytes are taken as they are, NUL included, and nothing is stripped. Only
 * the tokenizer is opened, so a folder without weights will do. */
#include "cli/shared.h"

#include <string.h>

typedef struct values {
    const char *model, *file, *pair;
    hsc__ids decode;
    bool no_special, parse_special, json;
} values;

static const hsc__option options[] = {
    {"model", 'm', HSC__OPT_TEXT, "MODEL", offsetof(values, model), 0, 0,
     "A folder with tokenizer.json, vocab.txt, or vocab.json and merges.txt; a tokenizer.json, a .gguf file, or a name "
     "in the Hub cache. Default: HEADSCOPE_MODEL of the environment."},
    {"file", 'f', HSC__OPT_TEXT, "FILE", offsetof(values, file), 0, 0, "Read the text from a file, byte for byte."},
    {"pair", 'p', HSC__OPT_TEXT, "TEXT", offsetof(values, pair), 0, 0,
     "A second text, joined to the first as the tokenizer joins two: question and passage, premise and claim."},
    {"decode", 'd', HSC__OPT_IDS, "IDS", offsetof(values, decode), 0, 0,
     "Turn ids such as 464,5044 back into text; exactly the text's bytes are written."},
    HSC__OPTION_NO_SPECIAL(values, no_special),
    HSC__OPTION_PARSE_SPECIAL(values, parse_special),
    {"json", 0, HSC__OPT_FLAG, NULL, offsetof(values, json), 0, 0,
     "Print {\"ids\":[],\"tokens\":[]}; with tokens that are not whole UTF-8 also \"bytes\" in hexadecimal, with "
     "--pair also "
     "\"segments\"."},
};

static const hsc__command command = {
    .name = "tokenize",
    .usage = "-m MODEL TEXT [--pair TEXT]\n-m MODEL -            (standard input)\n-m MODEL --file FILE\n-m MODEL "
             "--decode IDS",
    .about =
        "Shows how a model cuts a text into tokens: position, id, bytes of the text, and the token itself. Blanks at "
        "the ends and line ends are made visible; a token that is not a whole character shows its bytes.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "headscope tokenize -m gpt2 \"The animal didn't cross\"\n"
                "    which word became which token\n"
                "printf 'a\\0b' | headscope tokenize -m gpt2 --json -\n"
                "    raw bytes from standard input\n"
                "headscope tokenize -m bert \"Who is tired?\" --pair \"The animal is tired.\"\n"
                "    two texts as one sequence, and the segment of each token\n"
                "headscope tokenize -m gpt2 --decode 464,5044\n"
                "    ids back to text",
    .max_args = 1,
};

static void add_row(hsc__string *cells, const hsc_tokenizer *tokenizer, const hsc__tokens *tokens, size_t i, bool pair)
{
    const hsc_encoding *e = &tokens->encoding;
    hsc__string_printf(cells, "%zu\t%d\t%zu\t%zu\t", i, e->ids[i], e->spans[i].start, e->spans[i].end);
    if (pair) hsc__string_printf(cells, "%c\t%d\t", e->texts[i] < 0 ? '-' : 'A' + e->texts[i], e->segments[i]);
    else hsc__string_text(cells, "\t\t");
    hsc__text_label(cells, tokens->texts[i].bytes, tokens->texts[i].n);
    hsc__string_text(cells, hsc_token_is_special(tokenizer, e->ids[i]) ? "  (special)\t" : "\t");
}

static int print_table(const hsc_tokenizer *tokenizer, const hsc__tokens *tokens, size_t n_bytes, bool pair)
{
    const hsc__column columns[] = {{.head = "pos", .right = true},
                                   {.head = "id", .right = true},
                                   {.head = "from", .right = true},
                                   {.head = "to", .right = true},
                                   {.head = pair ? "text" : "", .right = true},
                                   {.head = pair ? "segment" : "", .right = true},
                                   {.head = "token"}};
    hsc__table table = {columns, sizeof columns / sizeof *columns, 1, {0}};
    hsc__string out = {0};
    size_t n = tokens->encoding.n;
    hsc__string_printf(&out, "%zu token%s, %zu byte%s\n", n, HSC__PLURAL(n), n_bytes, HSC__PLURAL(n_bytes));
    for (size_t i = 0; i < n; i++) add_row(&table.cells, tokenizer, tokens, i, pair);
    if (n) hsc__cli_table(&out, &table);
    return hsc__cli_show(&out);
}

static int print_json(const hsc__tokens *tokens, bool pair)
{
    json_t *ids = json_array(), *texts = json_array(), *bytes = json_array(), *segments = json_array();
    bool whole = true;
    for (size_t i = 0; i < tokens->encoding.n; i++) {
        const hsc__label *text = &tokens->texts[i];
        json_t *parts = hsc__json_set_text(json_object(), text->bytes, text->n);
        json_t *hex = json_object_get(parts, "bytes");
        json_array_append_new(ids, json_integer(tokens->encoding.ids[i]));
        json_array_append(texts, json_object_get(parts, "text"));
        json_array_append(bytes, hex ? hex : json_null());
        json_array_append_new(segments, json_integer(tokens->encoding.segments[i]));
        whole = whole && !hex;
        json_decref(parts);
    }
    json_t *root = json_pack("{s:o,s:o}", "ids", ids, "tokens", texts);
    if (!whole) json_object_set(root, "bytes", bytes);
    if (pair) json_object_set(root, "segments", segments);
    json_decref(bytes);
    json_decref(segments);
    return hsc__json_print(root);
}

static int encode(const values *v, const hsc_tokenizer *tokenizer, const hsc__string *text)
{
    hsc_error err = {0};
    hsc__tokens tokens = {0};
    unsigned flags = hsc__encode_flags(v->no_special, v->parse_special);
    size_t n_pair = v->pair ? strlen(v->pair) : 0;
    int result;
    hsc_status status =
        v->pair ? hsc__tokens_encode_pair(&tokens, tokenizer, text->data, text->n, v->pair, n_pair, flags, &err)
                : hsc__tokens_encode(&tokens, tokenizer, text->data, text->n, flags, &err);
    if (status != HSC_OK) result = hsc__cli_fail(&err);
    else if (v->json) result = print_json(&tokens, v->pair != NULL);
    else result = print_table(tokenizer, &tokens, text->n + n_pair, v->pair != NULL);
    hsc__tokens_free(&tokens);
    return result;
}

static int decode(const values *v, const hsc_tokenizer *tokenizer)
{
    for (size_t i = 0; i < v->decode.n; i++) {
        size_t n;
        if (hsc_token_bytes(tokenizer, v->decode.ids[i], &n)) continue;
        hsc__cli_error("id %d at place %zu is not in the vocabulary of %zu tokens", v->decode.ids[i], i,
                       hsc_tokenizer_size(tokenizer));
        return HSC__EXIT_FAILED;
    }
    int64_t n = hsc_decode(tokenizer, v->decode.ids, v->decode.n, NULL, 0);
    char *text = n < 0 ? NULL : hsc__malloc((size_t)n);
    if (!text) return hsc__cli_no_memory();
    hsc_decode(tokenizer, v->decode.ids, v->decode.n, text, (size_t)n);
    int result = HSC__EXIT_OK;
    if (v->json) {
        json_t *ids = hsc__json_ids(v->decode.ids, v->decode.n);
        result = hsc__json_print(hsc__json_set_text(json_pack("{s:o}", "ids", ids), text, (size_t)n));
    } else {
        hsc__cli_write(text, (size_t)n);
        if (hsc__cli_terminal(stdout)) hsc__cli_write("\n", 1); /* keeps the prompt on its own line */
    }
    hsc__free(text);
    return result;
}

static hsc_status read_text(const values *v, const char *text, hsc__string *bytes, hsc_error *err)
{
    if (v->file) return hsc__cli_read(v->file, bytes, err);
    if (text && strcmp(text, "-") == 0) return hsc__cli_read("-", bytes, err);
    hsc__string_text(bytes, text ? text : "");
    return HSC_OK;
}

/* The model's path comes first: that none was named shows before a file is read or standard input waited for. */
static int tokenize(const values *v, const char *text, hsc__string *bytes)
{
    hsc_error err = {0};
    char *path = NULL;
    hsc_tokenizer *tokenizer = NULL;
    int result = hsc__cli_model_path(&command, v->model, &path);
    if (result == HSC__CLI_GO_ON && read_text(v, text, bytes, &err) != HSC_OK) result = hsc__cli_fail(&err);
    if (result == HSC__CLI_GO_ON && hsc_tokenizer_open(&tokenizer, path, &err) != HSC_OK) result = hsc__cli_fail(&err);
    if (result == HSC__CLI_GO_ON) result = v->decode.ids ? decode(v, tokenizer) : encode(v, tokenizer, bytes);
    hsc_tokenizer_free(tokenizer);
    hsc__free(path);
    return result;
}

int hsc__cli_tokenize(int argc, char **argv)
{
    values v = {0};
    hsc__args args;
    hsc__string bytes = {0};
    int result = hsc__cli_parse(&command, argc, argv, &v, &args);
    if (result == HSC__CLI_GO_ON) {
        int sources = (args.n > 0) + (v.file != NULL) + (v.decode.ids != NULL);
        if (v.pair && v.decode.ids) result = hsc__cli_misuse(&command, "--pair and --decode do not go together");
        else if (sources == 1) result = tokenize(&v, args.n ? args.list[0] : NULL, &bytes);
        else if (sources == 0)
            result = hsc__cli_misuse(&command, "no text: give TEXT, - for standard input, --file or --decode");
        else result = hsc__cli_misuse(&command, "more than one of TEXT, --file and --decode");
    }
    hsc__string_free(&bytes);
    hsc__free(v.decode.ids);
    return result;
}
