/* The reader of CIFAR's records: takes whole ones with labels that there are, and nothing else. */
#include <string.h>

#include "data/cifar.h"
#include "fuzz.h"

enum { PIXELS = 3072, MOST = 1 << 17 };

/* The format, told once more. */
static bool is_cifar(const uint8_t *content, size_t n, size_t labels)
{
    size_t record = labels + PIXELS;
    bool good = n > 0 && n % record == 0;
    for (size_t at = 0; good && at < n; at += record)
        good = labels == 1 ? content[at] < 10 : content[at] < 20 && content[at + 1] < 100;
    return good;
}

/* The first byte chooses the set. The second, where it is not 0, repeats the rest with other pixels up to so many
 * records, so that an input can be short. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t content[MOST];
    if (size < 2 || size > MOST)
        return 0;
    const size_t labels = 1 + (data[0] & 1), record = labels + PIXELS, wanted = data[1] % 4 * record;
    size_t n = size - 2;
    memcpy(content, data + 2, n);
    for (; n < wanted; n++)
        content[n] = n % record < labels && size > 2 ? data[2 + n / record % (size - 2)] : (uint8_t)(n * 7);
    const char *folder = fuzz_folder(labels == 1 ? "test_batch.bin" : "test.bin", content, n);
    ls_images images;
    ls_context context;
    fuzz_begin(&context, 2 * MOST + 64 * (2 + PIXELS));
    ls_status status = ls_cifar_read(&context, labels == 1 ? &ls_cifar_10 : &ls_cifar_100, folder, LS_TEST, &images);
    must((status == LS_OK) == is_cifar(content, n, labels));
    must(status == ls_context_status(&context));
    for (int64_t i = 0; status == LS_OK && i < images.rows; i++) {
        const uint8_t *one = content + (size_t)i * record;
        must(images.labels[i] == one[labels - 1]);
        must(memcmp((uint8_t *)images.values + (size_t)i * PIXELS, one + labels, PIXELS) == 0);
    }
    must(status != LS_OK || (size_t)images.rows * record == n);
    ls_images_release(&context, &images);
    fuzz_end(&context);
    return 0;
}
