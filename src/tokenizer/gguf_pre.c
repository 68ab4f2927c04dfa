/* One table of names and the steps that they stand for. Patterns are those by which the models were trained, as their
 * tokenizer.json files or the converters give them. */
#include "tokenizer/gguf_pre.h"

#include <string.h>

/* Cased scripts' letters, as DeepSeek LLM lists them. */
#define DEEPSEEK_LETTERS                                                                                               \
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}"                    \
    "\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}"     \
    "\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}"         \
    "\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}"                  \
    "\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}"                  \
    "\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}"          \
    "\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}"         \
    "\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}"          \
    "\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}"                    \
    "\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}"          \
    "\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}"                   \
    "\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}"                  \
    "\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}"            \
    "\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"
#define DEEPSEEK_V3_IDEOGRAPHS "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+"
#define DEEPSEEK_V3_WORDS                                                                                              \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"               \
    " ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
/* Words of o200k: capitals end at a small letter and the other way round. */
#define HEAD "[^\\r\\n\\p{L}\\p{N}]?"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define SHORT "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
#define LINES " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define O200K HEAD UPPER "*" LOWER "+" SHORT "|" HEAD UPPER "+" LOWER "*" SHORT "|\\p{N}{1,3}|" LINES
#define TEKKEN HEAD UPPER "*" LOWER "+|" HEAD UPPER "+" LOWER "*|\\p{N}|" LINES
#define BAILING                                                                                                        \
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]|"          \
    "\\s+(?!\\S)|\\s+"
#define SEED                                                                                                           \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|\\s*[\\r\\n]+|"  \
    "\\s+(?!\\S)|\\s+"
#define QWEN35                                                                                                         \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|"  \
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define BLOOM " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})]+"

#define DEEPSEEK_IDEOGRAPHS "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"

/* Words that stand for a step without a pattern of its own. */
#define NUMBERS "numbers"         /* each \p{N} alone */
#define PUNCTUATION "punctuation" /* runs of punctuation */
#define TRAILING "trailing"       /* "\\s+$" where no newline is left, without its quadratic search */

enum { MOST_STEPS = 6 };

static const struct {
    const char *names; /* each between blanks */
    hsc__gguf_pre rules;
    const char *steps[MOST_STEPS];
} known[] = {
    {" gpt-2 gpt2 gpt-neox phi-2 mpt olmo jais trillion exaone4 jina-es jina-de jina-v1-en jina-v2-es jina-v2-de "
     "jina-v2-code roberta-bpe gigachat a.x-4.0 mellum modern-bert ",
     {0},
     {HSC__GPT2_PATTERN}},
    {" smollm starcoder refact command-r codeshell exaone minerva-7b ", {0}, {NUMBERS, HSC__GPT2_PATTERN}},
    {" llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 ",
     {.ignore_merges = true, .add_bos = true},
     {HSC__LLAMA3_PATTERN}},
    {" smaug-bpe dbrx glm4 chatglm-bpe ", {0}, {HSC__LLAMA3_PATTERN}},
    {" qwen2 deepseek-r1-qwen stablelm2 megrez kormo hunyuan ", {0}, {HSC__QWEN2_PATTERN}},
    {" qwen35 ", {0}, {QWEN35}},
    {" gpt-4o llama4 ", {0}, {O200K}},
    {" tekken ", {.ignore_merges = true, .add_bos = true}, {TEKKEN}},
    {" deepseek-v3 hunyuan-dense ", {0}, {"\\p{N}{1,3}", DEEPSEEK_V3_IDEOGRAPHS, DEEPSEEK_V3_WORDS}},
    {" bailingmoe bailingmoe2 llada-moe ", {0}, {BAILING}},
    {" seed-coder ", {0}, {SEED}},
    {" bloom poro-chat gpt3-finnish ", {0}, {BLOOM}},
    {" viking ", {0}, {BLOOM, NUMBERS}},
    {" falcon ", {0}, {PUNCTUATION, HSC__GPT2_PATTERN, "[0-9][0-9][0-9]"}},
    {" default ", {0}, {"[\\p{P}$+<=>^~|]+", HSC__GPT2_PATTERN, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {" deepseek-llm ",
     {0},
     {"[\\r\\n]", "\\s?[" DEEPSEEK_LETTERS "]+",
      "\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+", TRAILING,
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
        return hsc__splitter_add(splitter,
                                 (hsc__split_step){.kind = HSC__SPLIT_PUNCTUATION, .behavior = HSC__CONTIGUOUS}, err);
    if (strcmp(step, TRAILING) == 0) {
        hsc__split_step trailing = {.kind = HSC__SPLIT_SCAN, .scan = hsc__scan_trailing_blanks};
        return hsc__splitter_add(splitter, trailing, err);
    }
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
