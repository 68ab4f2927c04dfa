/* Chat templates: what a model carries, and a conversation as its template writes it. */
#include "headscope/tasks.h"
#include "tasks/jinja.h"
#include "tasks/settings.h"

#include <string.h>

struct hsc_chat_template {
    hsc__chat_settings settings;
};

static hsc_status check(hsc_chat_template *t, hsc_error *err)
{
    hsc__arena arena = {0};
    hsc__jnode *root;
    hsc_status status = hsc__jparse(&arena, t->settings.text.data, t->settings.text.n, &root, err);
    hsc__arena_free(&arena);
    return status == HSC_OK ? HSC_OK : hsc__fail_prefix(err, status, "chat template");
}

static hsc_status finish(hsc_chat_template *t, hsc_status status, hsc_chat_template **out, hsc_error *err)
{
    if (status == HSC_OK) status = check(t, err);
    if (status != HSC_OK) {
        hsc_chat_template_free(t);
        return status;
    }
    *out = t;
    return HSC_OK;
}

hsc_status hsc_chat_template_open(hsc_chat_template **out, const hsc_model *model, hsc_error *err)
{
    hsc__error_clear(err);
    *out = NULL;
    hsc_chat_template *t = hsc__calloc(1, sizeof *t);
    if (!t) return hsc__fail_memory(err, sizeof *t, "a chat template");
    hsc_model *m =
        (hsc_model *)(uintptr_t)model; /* the file's getters keep what they convert, under the model's lock */
    return finish(t, hsc__chat_settings_read(m, &t->settings, err), out, err);
}

hsc_status hsc_chat_template_new(hsc_chat_template **out, const char *text, size_t n, const char *bos_token,
                                 const char *eos_token, hsc_error *err)
{
    hsc__error_clear(err);
    *out = NULL;
    hsc_chat_template *t = hsc__calloc(1, sizeof *t);
    if (!t) return hsc__fail_memory(err, sizeof *t, "a chat template");
    hsc__string_add(&t->settings.text, text, n);
    if (bos_token) hsc__string_text(&t->settings.bos, bos_token);
    if (eos_token) hsc__string_text(&t->settings.eos, eos_token);
    bool failed = t->settings.text.failed || t->settings.bos.failed || t->settings.eos.failed;
    return finish(t, failed ? hsc__fail_memory(err, n, "a chat template") : HSC_OK, out, err);
}

void hsc_chat_template_free(hsc_chat_template *t)
{
    if (!t) return;
    hsc__chat_settings_free(&t->settings);
    hsc__free(t);
}

const char *hsc_chat_template_text(const hsc_chat_template *t)
{
    return t->settings.text.data;
}

/* ---------------------------------------------------------------------------------------------------- rendering ----
 */

static bool put(hsc__arena *arena, hsc__jdict *dict, const char *name, hsc__jvalue value)
{
    return hsc__jput(arena, dict, name, strlen(name), &value);
}

static bool put_messages(hsc__arena *arena, hsc__jdict *globals, const hsc_message *messages, size_t n)
{
    hsc__jvalue list = {.kind = HSC__J_LIST, .n = n, .items = hsc__arena_alloc(arena, (n + 1) * sizeof *list.items)};
    bool ok = list.items != NULL;
    for (size_t i = 0; i < n && ok; i++) {
        hsc__jdict *dict = hsc__arena_alloc(arena, sizeof *dict);
        if (!dict) return false;
        *dict = (hsc__jdict){0};
        list.items[i] = (hsc__jvalue){.kind = HSC__J_DICT, .dict = dict};
        ok = put(arena, dict, "role", hsc__jstring(messages[i].role, strlen(messages[i].role))) &&
             put(arena, dict, "content", hsc__jstring(messages[i].content, strlen(messages[i].content)));
    }
    return ok && put(arena, globals, "messages", list);
}

/* What transformers gives to every template: tools and documents are none, tokens only where the model has them. */
static bool put_globals(hsc__arena *arena, hsc__jdict *g, const hsc__chat_settings *s, bool add_reply)
{
    static const hsc__jvalue none = {.kind = HSC__J_NONE};
    return put(arena, g, "tools", none) && put(arena, g, "documents", none) &&
           put(arena, g, "add_generation_prompt", hsc__jbool(add_reply)) &&
           (!s->bos.n || put(arena, g, "bos_token", hsc__jstring(s->bos.data, s->bos.n))) &&
           (!s->eos.n || put(arena, g, "eos_token", hsc__jstring(s->eos.data, s->eos.n)));
}

int64_t hsc_chat_render(const hsc_chat_template *t, const hsc_message *messages, size_t n_messages, int add_reply,
                        char *out, size_t capacity, hsc_error *err)
{
    hsc__arena arena = {0};
    hsc__jdict globals = {0};
    hsc__string text = {0};
    hsc__error_clear(err);
    hsc_status status = HSC_OK;
    if (!put_messages(&arena, &globals, messages, n_messages) ||
        !put_globals(&arena, &globals, &t->settings, add_reply != 0))
        status = hsc__fail_memory(err, n_messages * sizeof *messages, "a conversation");
    if (status == HSC_OK)
        status = hsc__jrender(t->settings.text.data, t->settings.text.n, &arena, &globals, &text, err);
    if (status != HSC_OK) hsc__fail_prefix(err, status, "chat template");
    int64_t n = status == HSC_OK ? (int64_t)text.n : status;
    if (status == HSC_OK && text.n && capacity) memcpy(out, text.data, text.n < capacity ? text.n : capacity);
    hsc__string_free(&text);
    hsc__arena_free(&arena);
    return n;
}
