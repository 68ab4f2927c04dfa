/* One table of names and the steps that they stand for. Patterns are those by which the models were trained, as their
 * tokenizer.json files or the converters give them. */
#include "tokenizer/gguf_pre.h"

#include <string.h>

/* Cased scripts' letters, as DeepSeek LLM lists them. */
#define DEEPSEEK_LETTERS                                                                                               \
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼ"           \
    "\\x{1fbe}ῂ-ῄῆ-ῌῐ-\\x{1fd3}ῖ-\\x{1fdb}ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\\x{2126}ℨ\\x{212a}-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿ"    \
    "ﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
#define DEEPSEEK_IDEOGRAPHS "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"

/* Words that stand for a step without a pattern of its own. */
#define NUMBERS "numbers"         /* each \p{N} alone */
#define PUNCTUATION "punctuation" /* runs of punctuation */

enum { MOST_STEPS = 6 };

static const struct {
    const char *names; /* each between blanks */
    hsc__gguf_pre rules;
    const char *steps[MOST_STEPS];
} known[] = {
    {" gpt-2 gpt2 gpt-neox phi-2 mpt olmo jais trillion exaone4 ", {0}, {HSC__GPT2_PATTERN}},
    {" smollm starcoder refact command-r codeshell exaone minerva-7b ", {0}, {NUMBERS, HSC__GPT2_PATTERN}},
    {" llama-bpe llama3 llama-v3 falcon3 ", {.ignore_merges = true, .add_bos = true}, {HSC__LLAMA3_PATTERN}},
    {" smaug-bpe dbrx glm4 chatglm-bpe ", {0}, {HSC__LLAMA3_PATTERN}},
    {" qwen2 deepseek-r1-qwen stablelm2 megrez ", {0}, {HSC__QWEN2_PATTERN}},
    {" falcon ", {0}, {PUNCTUATION, HSC__GPT2_PATTERN, "[0-9][0-9][0-9]"}},
    {" default ", {0}, {"[\\p{P}$+<=>^~|]+", HSC__GPT2_PATTERN, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {" deepseek-llm ",
     {0},
     {"[\\r\\n]", "\\s?[" DEEPSEEK_LETTERS "]+",
      "\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+", "\\s+$",
      DEEPSEEK_IDEOGRAPHS, "\\p{N}+"}},
    {" deepseek-coder ", {0}, {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", DEEPSEEK_IDEOGRAPHS, "\\p{N}"}},
};

static bool has_name(const char *names, const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || strchr(name, ' ')) return false;
    for (const char *at = names; (at = strstr(at, name)); at += n)
        if (at[-1] == ' ' && at[n] == ' ') return true;
    return false;
}

static hsc_status add_step(hsc__splitter *splitter, const char *step, hsc_error *err)
{
    if (strcmp(step, NUMBERS) == 0)
        return hsc__splitter_add(splitter, (hsc__split_step){.kind = HSC__SPLIT_NUMBERS}, err);
    if (strcmp(step, PUNCTUATION) == 0)
        return hsc__splitter_add(
            splitter, (hsc__split_step){.kind = HSC__SPLIT_PUNCTUATION, .behavior = HSC__CONTIGUOUS}, err);
    return hsc__splitter_add_pattern(splitter, step, strlen(step), HSC__ISOLATED, false, err);
}

hsc_status hsc__gguf_pre_load(hsc__splitter *splitter, hsc__gguf_pre *out, const char *name, hsc_error *err)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!has_name(known[i].names, name)) continue;
        *out = known[i].rules;
        for (int k = 0; k < MOST_STEPS && known[i].steps[k]; k++) HSC_TRY(add_step(splitter, known[i].steps[k], err));
        return HSC_OK;
    }
    return hsc__fail(err, HSC_EUNSUPPORTED, 0, "tokenizer.ggml.pre \"%s\" is not supported", name);
}
