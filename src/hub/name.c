/*
 * Repository, revision and file names. Everything that later becomes part of a path or a URL passes through here first,
 * so the rest of the folder may join names without asking again.
 */
#include "hub/name.h"

#include "base/alloc.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

/* Repositories that had no organisation once. Their old names still work on the Hub and in people's scripts. */
static const struct {
    const char *old_name, *new_name;
} renamed[] = {
    {"gpt2", "openai-community/gpt2"},
    {"gpt2-medium", "openai-community/gpt2-medium"},
    {"gpt2-large", "openai-community/gpt2-large"},
    {"gpt2-xl", "openai-community/gpt2-xl"},
    {"openai-gpt", "openai-community/openai-gpt"},
    {"distilgpt2", "distilbert/distilgpt2"},
    {"distilbert-base-uncased", "distilbert/distilbert-base-uncased"},
    {"distilbert-base-cased", "distilbert/distilbert-base-cased"},
    {"bert-base-uncased", "google-bert/bert-base-uncased"},
    {"bert-base-cased", "google-bert/bert-base-cased"},
    {"bert-large-uncased", "google-bert/bert-large-uncased"},
    {"bert-large-cased", "google-bert/bert-large-cased"},
    {"roberta-base", "FacebookAI/roberta-base"},
    {"roberta-large", "FacebookAI/roberta-large"},
    {"t5-small", "google-t5/t5-small"},
    {"t5-base", "google-t5/t5-base"},
    {"t5-large", "google-t5/t5-large"},
};

const char *hsc__hub_new_name(const char *repo)
{
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++)
        if (strcmp(repo, renamed[i].old_name) == 0) return renamed[i].new_name;
    return NULL;
}

const char *hsc__hub_old_name(const char *repo)
{
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++)
        if (strcmp(repo, renamed[i].new_name) == 0) return renamed[i].old_name;
    return NULL;
}

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* The Hub's rule for an organisation or a repository name. */
static bool is_repo_part(const char *part, size_t n)
{
    if (n < 1 || n > 96) return false;
    for (size_t i = 0; i < n; i++)
        if (!is_alnum(part[i]) && !strchr("-_.", part[i])) return false;
    return !strchr("-.", part[0]) && !strchr("-.", part[n - 1]);
}

static bool is_repo(const char *repo)
{
    size_t n = strlen(repo);
    const char *slash = strchr(repo, '/');
    bool parts = slash ? is_repo_part(repo, (size_t)(slash - repo)) && is_repo_part(slash + 1, strlen(slash + 1))
                       : is_repo_part(repo, n);
    /* "--" stands for "/" in the cache's folder names. */
    return parts && !strstr(repo, "--") && !strstr(repo, "..") && !(n > 4 && strcmp(repo + n - 4, ".git") == 0);
}

bool hsc__hub_is_hex(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!text[i] || !strchr("0123456789abcdef", text[i])) return false;
    return text[n] == '\0';
}

/* No control characters, the upper ones (U+0080 to U+009F) included: some terminals obey them. */
static bool is_clean_text(const char *text, size_t n)
{
    for (size_t at = 0; at < n;) {
        int32_t c;
        at += (size_t)hsc__utf8_read(text + at, n - at, &c);
        if (c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == '\\') return false;
    }
    return true;
}

bool hsc__hub_file_name_ok(const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || n > 1024 || !is_clean_text(name, n)) return false;
    for (const char *part = name;;) {
        size_t length = strcspn(part, "/");
        bool dots = (length == 1 && part[0] == '.') || (length == 2 && part[0] == '.' && part[1] == '.');
        if (length == 0 || length > HSC__NAME_MAX || dots) return false;
        if (!part[length]) return true;
        part += length + 1;
    }
}

/* A revision becomes a file below refs/, and git itself allows no ".." and no blanks in one. */
static bool is_revision(const char *revision)
{
    return hsc__hub_file_name_ok(revision) && strlen(revision) <= HSC__NAME_MAX && !strpbrk(revision, " ~^:?*[") &&
           !strstr(revision, "..");
}

hsc_status hsc__hub_name_parse(hsc__hub_name *out, const char *text, const char *revision, hsc_error *err)
{
    *out = (hsc__hub_name){.revision = "main"};
    size_t n_repo = strcspn(text, "@");
    HSC_FAIL_IF(n_repo > HSC__NAME_MAX, HSC_EINVAL, "a repository name has at most %d characters, this one has %zu",
                HSC__NAME_MAX, n_repo);
    memcpy(out->repo, text, n_repo);
    HSC_FAIL_IF(!is_repo(out->repo), HSC_EINVAL,
                "\"%s\" is not a repository name: NAME or ORG/NAME of letters, digits, '-', '_' and '.'", out->repo);
    const char *in_name = text[n_repo] ? text + n_repo + 1 : NULL;
    HSC_FAIL_IF(in_name && revision && strcmp(in_name, revision) != 0, HSC_EINVAL,
                "%s: the name asks for revision \"%s\" and the option for \"%s\"", out->repo, in_name, revision);
    if (in_name) revision = in_name;
    if (!revision) return HSC_OK;
    HSC_FAIL_IF(!is_revision(revision), HSC_EINVAL, "%s: \"%s\" is not a branch, tag or commit", out->repo, revision);
    memcpy(out->revision, revision, strlen(revision) + 1);
    out->has_revision = true;
    return HSC_OK;
}

char *hsc__hub_format(const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = n < 0 ? NULL : hsc__malloc((size_t)n + 1);
    if (text) vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    return text;
}
