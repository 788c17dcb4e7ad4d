/* The reader of .npy files: what is taken is exactly the numbers that the header announces. */
#include <stdio.h>
#include <string.h>

#include "data/npy.h"
#include "fuzz.h"

enum { MOST = 1 << 16, SLACK = 1 << 18 };

/* An array of images, and labels enough for whatever it announces: as many as the first byte says. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > MOST)
        return 0;
    char labels[512];
    const int n = data[0];
    int length =
        snprintf(labels + 10, sizeof labels - 10, "{'descr': '|u1', 'fortran_order': False, 'shape': (%d,), }", n);
    memcpy(labels, "\x93NUMPY\1\0", 8);
    labels[8] = (char)length;
    labels[9] = 0;
    for (int i = 0; i < n && 10 + length + i < (int)sizeof labels; i++)
        labels[10 + length + i] = (char)(i % 7);
    fuzz_folder_too("y_test.npy", labels, 10 + (size_t)length + (size_t)n);
    const char *folder = fuzz_folder("X_test.npy", data + 1, size - 1);
    ls_images images;
    ls_context context;
    fuzz_begin(&context, MOST + SLACK);
    ls_status status = ls_npy_read(&context, folder, LS_TEST, &images);
    must(status == ls_context_status(&context));
    if (status == LS_OK) {
        size_t numbers = (size_t)images.rows * (size_t)images.channels * (size_t)images.height * (size_t)images.width;
        size_t bytes = numbers * (images.floats ? sizeof(float) : 1);
        must(images.rows == n && images.classes == (n < 7 ? n : 7));
        must(bytes < size && memcmp(images.values, data + size - bytes, bytes) == 0);
    }
    ls_images_release(&context, &images);
    fuzz_end(&context);
    return 0;
}
