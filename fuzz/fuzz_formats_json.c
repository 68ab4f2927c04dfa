/* Any bytes as JSON: refused with a place inside the text, or else written out and read again it is the same. */
#include "fuzz.h"

#include "formats/json.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *first, *second;
    hsc_error err = {0};
    hsc_status status = hsc__json_parse(&first, (const char *)data, size, "fuzz", &err);
    CHECK(status == err.code);
    if (status != HSC_OK) {
        CHECK(!first && err.message[0] && err.offset <= size);
        return 0;
    }
    char *text = json_dumps(first, JSON_COMPACT);
    CHECK(text);
    CHECK(hsc__json_parse(&second, text, strlen(text), "fuzz", &err) == HSC_OK);
    CHECK(json_equal(first, second));
    json_decref(first);
    json_decref(second);
    free(text);
    return 0;
}
