/* PNG and JPEG: whatever the bytes are, a picture of the size that was announced or a failure. */
#include <stdlib.h>
#include <string.h>

#include "data/picture.h"
#include "fuzz.h"

enum { MOST = 1 << 16, MOST_ALLOCATED = 32 << 20, DECODED = 1 << 16 /* pixels: larger ones are only looked at */ };

/* The first byte chooses one plane or three. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > MOST)
        return 0;
    ls_context context;
    ls_picture picture = {.context = &context, .path = "picture", .bytes = data + 1, .count = size - 1};
    fuzz_begin(&context, MOST_ALLOCATED);
    ls_decoder *decoder = ls_decoder_of(&picture);
    ls_status status = decoder ? decoder(&picture, 0, NULL) : ls_context_status(&context);
    const int64_t pixels = status == LS_OK ? (int64_t)picture.height * picture.width : 0;
    must(status == ls_context_status(&context));
    must(status != LS_OK || (pixels > 0 && pixels <= LS_MOST_PIXELS));
    if (status == LS_OK && pixels <= DECODED) {
        const int planes = picture.colour || data[0] & 1 ? LS_COLOURS : 1;
        uint8_t *out = malloc((size_t)(pixels * planes)); /* the sanitizer sees a byte too many */
        must(out != NULL);
        status = decoder(&picture, planes, out);
        must(status == ls_context_status(&context));
        for (int64_t i = 0; status == LS_OK && planes == 3 && !picture.colour && i < pixels; i++)
            must(out[i] == out[pixels + i] && out[i] == out[2 * pixels + i]);
        free(out);
    }
    fuzz_end(&context);
    return 0;
}
