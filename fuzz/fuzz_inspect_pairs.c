/* Any bytes as a file of sentence pairs: refused with a reason, or else every span lies in its text, ids rise, and
 * pieces of any size make the same pairs. The last byte, of a file a line's end, is the size of the pieces. */
#include "fuzz.h"

#include "headscope/inspect.h"

#include <string.h>

typedef struct pieces {
    const uint8_t *data;
    size_t n, most;
} pieces;

static hsc_status read_piece(void *user, char *out, size_t n, size_t *n_read, hsc_error *err)
{
    (void)err;
    pieces *p = user;
    *n_read = p->n < n ? p->n : n;
    if (*n_read > p->most) *n_read = p->most;
    if (*n_read) memcpy(out, p->data, *n_read);
    p->data += *n_read;
    p->n -= *n_read;
    return HSC_OK;
}

static void check_wording(const hsc_wording *x, const hsc_wording *y)
{
    const hsc_span spans[] = {x->a, x->b, x->query, x->swap};
    size_t n = x->text ? x->n_text : (size_t)x->n_ids;
    for (size_t i = 0; i < 4; i++) CHECK(spans[i].start <= spans[i].end && spans[i].end <= n);
    CHECK(x->line == y->line && x->n_text == y->n_text && x->n_ids == y->n_ids && !x->text == !y->text);
    if (x->text) CHECK(strlen(x->text) == x->n_text && strcmp(x->text, y->text) == 0);
    else CHECK(memcmp(x->ids, y->ids, (size_t)x->n_ids * sizeof *x->ids) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hsc_pairs *whole, *again;
    hsc_error err = {0}, other = {0};
    if (!size) return 0;
    size_t n = size - 1;
    pieces p = {data, n, (size_t)data[n] + 1};
    hsc_status status = hsc_pairs_parse(&whole, "fuzz", (const char *)data, n, NULL, &err);
    CHECK(hsc_pairs_read(&again, "fuzz", &(hsc_reader){read_piece, &p}, NULL, &other) == status);
    CHECK(strcmp(err.message, other.message) == 0 && (status == HSC_OK) == !err.message[0]);
    if (status != HSC_OK) return 0;
    CHECK(hsc_pairs_count(whole) == hsc_pairs_count(again));
    for (int i = 0; i < hsc_pairs_count(whole); i++) {
        const hsc_pair *x = hsc_pairs_get(whole, i), *y = hsc_pairs_get(again, i);
        CHECK(i == 0 || strcmp(hsc_pairs_get(whole, i - 1)->id, x->id) < 0);
        CHECK(strcmp(x->id, y->id) == 0 && strcmp(x->cluster, y->cluster) == 0);
        for (int w = 0; w < 2; w++) check_wording(&x->wording[w], &y->wording[w]);
    }
    hsc_pairs_free(whole);
    hsc_pairs_free(again);
    return 0;
}
