/*
 * Where detectors look: a text cut into windows, and random tokens twice. The text is encoded a piece at a time, so
 * that its length does not show in memory. What the tokenizer adds to a text is put around every window.
 */
#include "base/status.h"
#include "inspect/detect.h"
#include "model/texts.h"

#include <string.h>

enum {
    PIECE = 16384,         /* bytes that are encoded together, and what is left of the line then */
    LONGEST_PIECE = 65536, /* of a line without an end */
    SHORTEST = 16,         /* tokens of a last window */
    LOW = 100,             /* random ids, as the literature draws them */
    HIGH = 20000,
    LENGTH = 50,
    SEQUENCES = 20,
    WINDOWS = 200,
    MOST = 4096, /* windows, sequences */
};

int hsc__detect_sequences(const hsc_detect_options *options)
{
    return options->n_sequences ? options->n_sequences : SEQUENCES;
}

int hsc__detect_windows(const hsc_detect_options *options)
{
    return options->max_windows ? options->max_windows : WINDOWS;
}

/* ------------------------------------------------------------------------------------------------------- opening ----
 */

/* What the tokenizer puts around a text, seen on a text of one letter. */
static hsc_status find_added(hsc__windows *w, const hsc_detect_options *o, hsc_error *err)
{
    hsc_encoding e = {0};
    bool own = false;
    if (w->tokenizer) {
        hsc_status status = hsc_encode(w->tokenizer, "a", 1, HSC_ENCODE_ADD_SPECIAL, &e, err);
        for (size_t i = 0; status == HSC_OK && i < e.n; i++) {
            if (e.texts[i] >= 0) own = true;
            else if (!own && w->n_before < 8) w->before[w->n_before++] = e.ids[i];
            else if (own && w->n_after < 8) w->after[w->n_after++] = e.ids[i];
        }
        hsc_encoding_free(&e);
        HSC_TRY(status);
    }
    if (!o->with_bos || (w->n_before && w->before[0] == o->bos)) return HSC_OK;
    HSC_FAIL_IF(o->bos < 0 || o->bos >= hsc__texts_config(w->model)->d_vocab, HSC_EINVAL,
                "bos is %d, the vocabulary has ids 0 to %d", o->bos, hsc__texts_config(w->model)->d_vocab - 1);
    HSC_FAIL_IF(w->n_before == 8, HSC_EINVAL,
                "the tokenizer adds %d tokens before a text, at most 7 leave room for bos", w->n_before);
    memmove(w->before + 1, w->before, (size_t)w->n_before * sizeof *w->before);
    w->before[0] = o->bos;
    w->n_before++;
    return HSC_OK;
}

static hsc_status choose_random(hsc__windows *w, const hsc_detect_options *o, hsc_error *err)
{
    int d_vocab = hsc__texts_config(w->model)->d_vocab, room = (w->most - w->n_before - w->n_after) / 2;
    w->length = o->length ? o->length : LENGTH < room ? LENGTH : room;
    HSC_FAIL_IF(w->length < 2 || w->length > room, HSC_EINVAL,
                "length is %d: a half of 2 to %d tokens fits a window twice", w->length, room);
    w->low = d_vocab >= LOW + w->length ? LOW : 0;
    w->high = d_vocab < HIGH ? d_vocab : HIGH;
    HSC_FAIL_IF(w->high - w->low < w->length, HSC_EINVAL,
                "length is %d: the vocabulary of %d ids is too small for halves without repeats", w->length, d_vocab);
    hsc_random_seed(&w->random, o->seed);
    return HSC_OK;
}

static hsc_status check_options(const hsc_detect_options *o, hsc_error *err)
{
    HSC_FAIL_IF(o->n_sequences < 0 || o->n_sequences > MOST, HSC_EINVAL, "n_sequences is %d, 0 to %d are possible",
                o->n_sequences, (int)MOST);
    HSC_FAIL_IF(o->max_windows < 0 || o->max_windows > MOST, HSC_EINVAL, "max_windows is %d, 0 to %d are possible",
                o->max_windows, (int)MOST);
    HSC_FAIL_IF(o->length < 0, HSC_EINVAL, "length is %d, it must not be negative", o->length);
    return HSC_OK;
}

hsc_status hsc__windows_open(hsc__windows *out, const hsc_model *model, const char *text, size_t n,
                             const hsc_detect_options *options, hsc_error *err)
{
    const hsc_config *config = hsc__texts_config(model);
    *out = (hsc__windows){.model = model,
                          .tokenizer = hsc_model_tokenizer(model, text ? err : NULL),
                          .text = text,
                          .n_text = n,
                          .most = config->n_ctx < HSC_DETECT_WINDOW ? config->n_ctx : HSC_DETECT_WINDOW};
    HSC_TRY(check_options(options, err));
    if (text && !out->tokenizer) return HSC_ENOTFOUND;
    HSC_TRY(find_added(out, options, err));
    HSC_FAIL_IF(out->most < out->n_before + out->n_after + 4, HSC_EINVAL, "the context of %d tokens is too short",
                config->n_ctx);
    return choose_random(out, options, err);
}

void hsc__windows_close(hsc__windows *windows)
{
    hsc_encoding_free(&windows->piece);
}

/* --------------------------------------------------------------------------------------------------------- places ----
 */

/* ASCII punctuation alone, blanks around it left out. */
static bool is_punctuation(const hsc_tokenizer *tokenizer, hsc_token id)
{
    size_t n, n_marks = 0;
    const char *bytes = tokenizer ? hsc_token_bytes(tokenizer, id, &n) : NULL;
    for (size_t i = 0; bytes && i < n; i++) {
        if (bytes[i] == ' ' || bytes[i] == '\n' || bytes[i] == '\t') continue;
        if (!strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", bytes[i]) || !bytes[i]) return false;
        n_marks++;
    }
    return n_marks > 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* Whether the token goes on with the word of the one before it. A pre-tokenizer that leaves a whole text as one word,
 * as SentencePiece's does, needs the blanks looked at; a mark is never part of a word. */
static bool goes_on(const hsc__windows *w, const hsc__window *window, hsc_token id)
{
    size_t n = 0, n_before = 0;
    int last = window->n - 1;
    if (last < 0 || window->places[last].special || window->places[last].punctuation) return false;
    const char *bytes = hsc_token_bytes(w->tokenizer, id, &n);
    const char *before = hsc_token_bytes(w->tokenizer, window->ids[last], &n_before);
    if (!bytes || !before || !n || !n_before || is_punctuation(w->tokenizer, id)) return false;
    return !is_blank(bytes[0]) && !is_blank(before[n_before - 1]);
}

static void add(const hsc__windows *w, hsc__window *out, hsc_token id, bool special)
{
    hsc__place *place = &out->places[out->n];
    *place = (hsc__place){special, !special && is_punctuation(w->tokenizer, id), -1, -1};
    for (int k = out->n - 1; k >= 0 && place->same < 0; k--)
        if (out->ids[k] == id) place->same = k;
    out->ids[out->n++] = id;
    out->n_own += !special;
}

static void add_all(const hsc__windows *w, hsc__window *out, const hsc_token *ids, int n)
{
    for (int i = 0; i < n; i++) add(w, out, ids[i], true);
}

/* ----------------------------------------------------------------------------------------------------------- text ----
 */

/* Bytes of the text that are encoded next: whole lines where they are not endless. */
static size_t next_piece(const hsc__windows *w)
{
    size_t left = w->n_text - w->at;
    if (left <= PIECE) return left;
    size_t search = (left < LONGEST_PIECE ? left : LONGEST_PIECE) - PIECE;
    const char *from = w->text + w->at + PIECE, *end = memchr(from, '\n', search);
    if (end) return (size_t)(end - (w->text + w->at)) + 1;
    if (left <= LONGEST_PIECE) return left;
    size_t n = PIECE + search;
    while (n > PIECE && ((unsigned char)w->text[w->at + n] & 0xC0) == 0x80) n--;
    return n;
}

static hsc_status refill(hsc__windows *w, hsc_error *err)
{
    while (w->used == w->piece.n && w->at < w->n_text) {
        size_t n = next_piece(w);
        HSC_TRY(hsc_encode(w->tokenizer, w->text + w->at, n, HSC_ENCODE_DEFAULT, &w->piece, err));
        w->at += n;
        w->used = 0;
    }
    return HSC_OK;
}

bool hsc__windows_more(const hsc__windows *windows)
{
    return windows->used < windows->piece.n || windows->at < windows->n_text;
}

static hsc_status fill(hsc__windows *w, hsc__window *out, hsc_error *err)
{
    int room = w->most - w->n_after, first = -1, word = -1;
    while (out->n < room) {
        if (w->used == w->piece.n) {
            HSC_TRY(refill(w, err));
            first = word = -1;
        }
        if (w->used == w->piece.n) break;
        int here = w->piece.words[w->used];
        hsc_token id = w->piece.ids[w->used++];
        bool later = first >= 0 && here >= 0 && here == word && goes_on(w, out, id);
        if (!later) first = out->n;
        word = here;
        add(w, out, id, false);
        if (later) out->places[out->n - 1].first_piece = first;
    }
    return HSC_OK;
}

hsc_status hsc__windows_next(hsc__windows *windows, hsc__window *out, hsc_error *err)
{
    bool is_first = windows->at == 0;
    out->n = out->n_own = out->half = out->start = 0;
    add_all(windows, out, windows->before, windows->n_before);
    HSC_TRY(fill(windows, out, err));
    if (out->n_own < (is_first ? 1 : SHORTEST)) {
        out->n = 0;
        return HSC_OK;
    }
    add_all(windows, out, windows->after, windows->n_after);
    return HSC_OK;
}

/* --------------------------------------------------------------------------------------------------------- random ----
 */

hsc_status hsc__windows_random(hsc__windows *windows, hsc__window *out, hsc_error *err)
{
    out->n = out->n_own = 0;
    add_all(windows, out, windows->before, windows->n_before);
    out->start = out->n;
    out->half = windows->length;
    /* Ids are few beside what is drawn from, so many refusals mean that hardly any id is left. */
    for (int n_refused = 0; out->n_own < windows->length;) {
        int64_t id;
        HSC_TRY(hsc_random_integers(&windows->random, windows->low, windows->high, 1, &id, err));
        bool refused = windows->tokenizer && hsc_token_is_special(windows->tokenizer, (hsc_token)id);
        for (int i = out->start; i < out->n && !refused; i++) refused = out->ids[i] == id;
        if (!refused) add(windows, out, (hsc_token)id, false);
        HSC_FAIL_IF(refused && ++n_refused > 1000000, HSC_EINVAL, "the vocabulary has too few ids for halves of %d",
                    windows->length);
    }
    for (int i = 0; i < windows->length; i++) add(windows, out, out->ids[out->start + i], false);
    add_all(windows, out, windows->after, windows->n_after);
    return HSC_OK;
}

/* --------------------------------------------------------------------------------------------------------- running
 * ---- */

hsc_status hsc__windows_session(const hsc__windows *windows, const hsc_model *model, const hsc_detect_options *options,
                                hsc_session **out, hsc_error *err)
{
    hsc_session_options session = options->session;
    session.max_tokens = windows->most;
    session.max_seqs = 1;
    return hsc__texts_session(out, model, &session, err);
}

hsc_status hsc__window_forward(hsc_session *session, const hsc__window *window, hsc_error *err)
{
    hsc_session_reset(session);
    return hsc__texts_forward(session,
                              &(hsc_batch){.ids = window->ids, .n_tokens = window->n, .logits = HSC_LOGITS_NONE}, err);
}
