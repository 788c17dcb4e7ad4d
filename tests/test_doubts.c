/* What a data set holds, counted, and what of it looks like a mistake. */
#include "files.h"

#include <lockstep.h>
#include <lockstep_data.h>
#include <string.h>

/* Its images are of one channel, one row high; pixels[i] is image i's first number, the others are zero. */
static ls_data *small_data(ls_session *s, int rows, int width, const uint8_t *pixels, const uint8_t *labels,
                           int classes, int limit)
{
    static uint8_t images[256];
    memset(images, 0, sizeof images);
    for (int i = 0; i < rows; i++)
        images[i * width] = pixels[i];
    return ls_data_from_memory(s, images, labels, rows, 1, 1, width, classes, &(ls_loader){.limit = limit});
}

static void doubted(ls_data *train, ls_data *test, const char *lines)
{
    char told[2048] = "";
    assert_int_equal(ls_data_doubts(train, test, test_keep_line, told), LS_OK);
    assert_string_equal(told, lines);
}

static void data_are_counted(void **state)
{
    (void)state;
    static const uint8_t pixels[] = {255, 51, 0, 255, 9, 9}, labels[] = {0, 1, 2, 0, 1, 2},
                         uneven[] = {0, 1, 1, 3, 1, 1};
    ls_data_counts counts;
    ls_session *s = ls_open(NULL);
    ls_data *data = small_data(s, 6, 4, pixels, labels, 3, 0);
    assert_int_equal(ls_data_count(data, &counts), LS_OK);
    assert_true(counts.least == 0 && counts.most == 1 && counts.plain == 1 && counts.first_plain == 2);
    assert_true(counts.fewest == 2 && counts.largest == 2 && counts.empty == 0);
    assert_string_equal(ls_data_summary(data), "6 images 1x1x4, values 0 to 1, 3 classes, 2 each");
    assert_ptr_equal(ls_data_summary(data), ls_data_summary(data));
    doubted(data, NULL, "1 of 6 images is of one value all over, the first is image 2: were they saved right?\n");
    ls_data *held = ls_data_hold_out(data, 2);
    assert_string_equal(ls_data_summary(held), "2 images 1x1x4, values 0 to 0.2, 3 classes, 0 to 2 each");
    assert_memory_equal(ls_data_summary(data), "4 images", 8);
    ls_data *other = small_data(s, 6, 4, pixels, uneven, 5, 5);
    assert_string_equal(ls_data_summary(other), "5 images 1x1x4, values 0 to 1, 5 classes, 0 to 3 each");
    doubted(NULL, other, "1 of 5 test images is of one value all over, the first is image 2: were they saved right?\n");
    static const float features[] = {1, 1, 1, 2, 5, 2}; /* whose rows may be even */
    ls_data *table = ls_data_from_floats(s, features, LS_SHAPE(2, 3), NULL);
    assert_int_equal(ls_data_count(table, &counts), LS_OK);
    assert_true(counts.least == 1 && counts.most == 5 && counts.plain == 0);
    assert_int_equal(ls_data_count(NULL, &counts), LS_BAD_ARGUMENT);
    assert_int_equal(ls_data_count(data, NULL), LS_BAD_ARGUMENT);
    assert_int_equal(ls_data_doubts(data, NULL, NULL, NULL), LS_BAD_ARGUMENT);
    assert_null(ls_data_summary(data)); /* of a session that failed */
    assert_int_equal(ls_close(s), LS_BAD_ARGUMENT);
}

/* Two images of so many channels, so high and wide: whether they look as if their last dimension were the channels. */
static void doubted_layout(ls_session *s, int channels, int height, int width, bool doubt)
{
    static uint8_t pixels[2 * 8 * 8 * 5];
    static const uint8_t of[2] = {0, 1};
    char words[256];
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 5);
    snprintf(words, sizeof words,
             "images of %d channels, %d high and %d wide: does the array lie as (N, H, W, C)? It is read as (N, C, H, "
             "W); save images.transpose(0, 3, 1, 2)\n",
             channels, height, width);
    doubted(ls_data_from_memory(s, pixels, of, 2, channels, height, width, 2, NULL), NULL, doubt ? words : "");
}

static void mistakes_are_doubted(void **state)
{
    (void)state;
    static const uint8_t pixels[] = {255, 51, 60, 255, 9, 9}, dim[] = {4, 4, 4, 4, 4, 4};
    static const uint8_t labels[] = {0, 1, 2, 0, 1, 2}, ones[] = {1, 1, 1, 1, 1, 1}, from_1[] = {1, 2, 3, 3, 2, 1};
    static const uint8_t gap[] = {0, 0, 2, 2, 0, 0};
    ls_session *s = ls_open(NULL);
    ls_data *good = small_data(s, 6, 4, pixels, labels, 3, 0);
    doubted(good, NULL, "");
    doubted(good, small_data(s, 5, 4, pixels, labels, 3, 0), "");
    doubted(good, small_data(s, 6, 4, pixels, labels, 3, 0),
            "the test images are the training images: the test accuracy says nothing of new ones\n");
    doubted(small_data(s, 6, 4, pixels, ones, 3, 0), NULL,
            "all images are of one class (1), so that a network is right without having learnt anything\n");
    doubted(small_data(s, 6, 4, pixels, from_1, 4, 0), NULL,
            "no image is of a class below 1: do the labels count from 1? They count from 0; subtract 1, or the network "
            "has answers that are never right\n");
    doubted(small_data(s, 6, 4, pixels, from_1, 4, 5), NULL,
            "no image is of a class below 1: do the labels count from 1? They count from 0; subtract 1, or the network "
            "has answers that are never right\n");
    doubted(small_data(s, 6, 4, pixels, labels, 3, 2), NULL, "1 of 3 classes has no image within the limit: 2\n");
    doubted(small_data(s, 6, 4, pixels, gap, 3, 0), small_data(s, 5, 4, pixels, labels, 3, 0),
            "1 of 3 classes has no image, but 2 test images: 1\n");
    doubted(good, small_data(s, 5, 4, pixels, gap, 3, 0), "1 class has training images, but no test image: 1\n");
    doubted(good, small_data(s, 5, 4, dim, labels, 3, 0),
            "the training images hold values from 0 to 1, the test images from 0 to 0.015686; prepare both alike\n");
    doubted(
        small_data(s, 6, 4, dim, labels, 3, 0), NULL,
        "all values lie between 0 and 0.015686, where networks learn from about 0 to 1: were they divided twice, or "
        "do they have fewer bits than their type?\n");
    doubted_layout(s, 8, 6, 3, true);
    doubted_layout(s, 8, 8, 5, true);
    doubted_layout(s, 5, 8, 8, false);
    assert_int_equal(ls_close(s), LS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_are_counted),
        cmocka_unit_test(mistakes_are_doubted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
