/* Data sets under test: opened from the test's folder, expected, refused. */
#ifndef TESTS_DATASETS_H
#define TESTS_DATASETS_H

#include "files.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <lockstep_data.h>

#include "data/dataset.h"

static inline ls_data *open_part(const char *name, ls_part part)
{
    return ls_dataset_open(test_context(), 0, name, part, &(ls_loader){.directory = test_folder});
}

/* Reading fails like this, and leaves nothing behind. */
static inline void refused(const char *name, ls_part part, ls_status status, const char *message_part)
{
    assert_null(open_part(name, part));
    test_expect(status, message_part);
    test_context_done();
}

static inline void expect_about(const ls_data *data, int64_t rows, int channels, int height, int width, int classes)
{
    ls_data_info info;
    assert_non_null(data);
    assert_int_equal(ls_data_about(data, &info), LS_OK);
    assert_int_equal(info.rows, rows);
    assert_int_equal(info.channels, channels);
    assert_int_equal(info.height, height);
    assert_int_equal(info.width, width);
    assert_int_equal(info.classes, classes);
}

static inline void done(ls_data *data)
{
    ls_data_free(data);
    test_context_done();
}

/* Every allocation on the way fails in turn; *least is how many there are at least. */
static inline void every_allocation(const char *name, ls_part part, int least)
{
    for (int n = 1; n < 1000; n++) {
        ls_context *context = test_context();
        test_allocations.fail_at = n;
        ls_data *data = ls_dataset_open(context, 0, name, part, &(ls_loader){.directory = test_folder});
        bool good = data != NULL;
        assert_int_equal(good ? LS_OK : LS_OUT_OF_MEMORY, context->status);
        assert_true(!good || ls_work_of(context) > 0); /* whoever watches sees that it goes on */
        done(data);
        if (good) {
            assert_true(n > least);
            return;
        }
    }
    fail();
}
#endif
