/* What a tokenizer is made of, in words: for people who want to know which one they have. */
#include "base/text.h"
#include "tokenizer/pipeline.h"

#include <string.h>

/* 'text', or 'text' -> 'other', as Python writes strings. */
static void add_quoted(hsc__string *out, const char *before, hsc__bytes text)
{
    hsc__string_text(out, before);
    hsc__text_repr(out, text.data, text.n);
}

static void add_item(hsc__string *out, const char *name)
{
    if (out->n) hsc__string_text(out, ", ");
    hsc__string_text(out, name);
}

static void add_op(hsc__string *out, const hsc__normalize_op *op)
{
    static const char *const names[] = {
        [HSC__NFC] = "NFC",
        [HSC__NFD] = "NFD",
        [HSC__NFKC] = "NFKC",
        [HSC__NFKD] = "NFKD",
        [HSC__PREPEND] = "put in front",
        [HSC__PREPEND_MISSING] = "put in front where missing",
        [HSC__PREPEND_FIRST] = "put in front of the text",
        [HSC__SPELL_BYTES] = "bytes",
        [HSC__REPLACE] = "replace",
        [HSC__CLEAN] = "no control characters",
        [HSC__IDEOGRAPHS] = "ideographs apart",
        [HSC__NO_NONSPACING] = "no accents",
        [HSC__NO_MARKS] = "no marks",
        [HSC__LOWERCASE] = "lower case",
        [HSC__NMT] = "NMT",
        [HSC__STRIP_LEFT] = "no blanks at the start",
        [HSC__STRIP_RIGHT] = "no blanks at the end",
        [HSC__SQUEEZE] = "runs of blanks",
        [HSC__TRIM] = "no blanks at the ends, single ones within",
        [HSC__REPLACE_PATTERN] = "replace the pattern",
        [HSC__CHARSMAP] = "SentencePiece's map",
        [HSC__CHARSMAP_LONGEST] = "SentencePiece's map",
    };
    bool replaces = op->kind == HSC__REPLACE || op->kind == HSC__REPLACE_PATTERN || op->kind == HSC__SQUEEZE;
    bool prepends = op->kind >= HSC__PREPEND && op->kind <= HSC__PREPEND_FIRST;
    add_item(out, names[op->kind]);
    if (prepends || (replaces && op->kind != HSC__SQUEEZE)) add_quoted(out, " ", op->text);
    if (replaces) add_quoted(out, " by ", op->with);
}

static void add_step(hsc__string *out, const hsc__split_step *step)
{
    static const struct {
        hsc__scan_fn scan;
        const char *name;
    } scans[] = {{hsc__scan_gpt2, "GPT-2's words"},
                 {hsc__scan_llama3, "Llama 3's words"},
                 {hsc__scan_qwen2, "Qwen 2's words"},
                 {hsc__scan_trailing_blanks, "blanks at the end"}};
    static const char *const names[] = {[HSC__SPLIT_SCAN] = "words",         [HSC__SPLIT_PATTERN] = "a pattern",
                                        [HSC__SPLIT_NUMBERS] = "digits",     [HSC__SPLIT_PUNCTUATION] = "punctuation",
                                        [HSC__SPLIT_SPACES] = "white space", [HSC__SPLIT_NO_WORD] = "what is no word"};
    const char *name = names[step->kind];
    for (size_t i = 0; step->scan && i < sizeof scans / sizeof *scans; i++)
        if (scans[i].scan == step->scan) name = scans[i].name;
    add_item(out, name);
}

static void add_model(hsc__string *out, const hsc_tokenizer *t)
{
    switch (t->kind) {
    case HSC__WORDPIECE: hsc__string_text(out, "WordPiece"); return;
    case HSC__WORDLEVEL: hsc__string_text(out, "WordLevel"); return;
    case HSC__UNIGRAM:
        hsc__string_text(out, "Unigram");
        if (t->unigram.byte_fallback) hsc__string_text(out, ", unknown characters as bytes");
        return;
    default: break;
    }
    hsc__string_text(out, t->bpe.byte_level ? "byte-level BPE" : t->bpe.scores ? "BPE by scores" : "BPE");
    if (!t->bpe.byte_level && t->bpe.byte_fallback) hsc__string_text(out, ", unknown characters as bytes");
    if (t->bpe.prefix.n) add_quoted(out, ", prefix ", t->bpe.prefix);
    if (t->bpe.suffix.n) add_quoted(out, ", suffix ", t->bpe.suffix);
}

static void add_stages(hsc__string *out, const hsc_tokenizer *t)
{
    for (size_t i = 0; i < t->n_stages; i++) {
        const hsc__stage *stage = &t->stage[i];
        for (size_t k = 0; k < stage->change.n_ops; k++) add_op(out, &stage->change.op[k]);
        for (size_t k = 0; k < stage->splitter.n_steps; k++) add_step(out, &stage->splitter.step[k]);
    }
}

static void add_template(hsc__string *out, const hsc_tokenizer *t, const hsc__template *template)
{
    for (size_t i = 0; i < template->n; i++) {
        hsc_token id = template->part[i].id;
        if (i) hsc__string_text(out, " ");
        if (id == HSC__FIRST_TEXT) hsc__string_text(out, "A");
        else if (id == HSC__SECOND_TEXT) hsc__string_text(out, "B");
        else hsc__text_label(out, t->vocab.text[id].data, t->vocab.text[id].n);
    }
}

int64_t hsc_tokenizer_describe(const hsc_tokenizer *tokenizer, hsc_tokenizer_part part, char *out, size_t capacity)
{
    hsc__string text = {0};
    switch (part) {
    case HSC_TOKENIZER_MODEL: add_model(&text, tokenizer); break;
    case HSC_TOKENIZER_NORMALIZER:
        for (size_t i = 0; i < tokenizer->normalizer.n_ops; i++) add_op(&text, &tokenizer->normalizer.op[i]);
        break;
    case HSC_TOKENIZER_PRE_TOKENIZER: add_stages(&text, tokenizer); break;
    case HSC_TOKENIZER_SINGLE: add_template(&text, tokenizer, &tokenizer->single); break;
    case HSC_TOKENIZER_PAIR: add_template(&text, tokenizer, &tokenizer->pair); break;
    default: return HSC_EINVAL;
    }
    int64_t result = text.failed ? (int64_t)HSC_ENOMEM : (int64_t)text.n;
    size_t n = text.n < capacity ? text.n : capacity;
    if (result > 0 && n) memcpy(out, text.data, n);
    hsc__string_free(&text);
    return result;
}
