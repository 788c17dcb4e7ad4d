/* The log of a run, as `report` reads and draws it, and as --resume cuts it back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/log.h"
#include "report/page.h"
#include "record/record.h"
#include "text/say.h"
#include "fuzz.h"

enum { MOST = 1 << 16 };

/* What a page and its pictures are made of; nothing in a log may end up there as markup, or as a place that is none. */
static void draw(record *of)
{
    record *twice[] = {of, of};
    for (int n = 1; n <= 2; n++) {
        char *text = NULL;
        size_t length = 0;
        FILE *file = open_memstream(&text, &length);
        figure *f = figure_new(twice, n);
        must(file && f);
        page_figure(file, f);
        must(fflush(file) == 0 && !strstr(text, "nan") && !strstr(text, "inf"));
        page_settings(file, of);
        page_epochs(file, of);
        page_count(file, record_speed(of));
        must(fclose(file) == 0 && !strstr(text, "<script"));
        figure_free(f);
        free(text);
    }
}

/* What stays is the beginning, in whole lines. */
static void cut_back(const uint8_t *data, size_t size, const char *path, int64_t step, int64_t epochs)
{
    static char left[MOST + 1];
    bool begun;
    run_log *log = log_open(path, true, step, epochs, &begun);
    bool good = log_close(log);
    FILE *file = fopen(path, "re");
    must(file && good);
    size_t n = fread(left, 1, sizeof left, file);
    fclose(file);
    must(n <= size && memcmp(left, data, n) == 0);
    must(log ? n == 0 || left[n - 1] == '\n' : n == size);
    must(!begun || n > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > MOST)
        return 0;
    say_at_once(false);
    const char *path = fuzz_file(data + 1, size - 1);
    record *read = record_read(path);
    if (read)
        draw(read);
    record_free(read);
    cut_back(data + 1, size - 1, path, data[0] % 16, data[0] / 64);
    return 0;
}
