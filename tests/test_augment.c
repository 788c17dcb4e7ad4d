/* Augmentation: the formulas of docs/data.md computed once more, by hand; and that nothing but seed, image and epoch
 * matters. */
#include "tensors.h"

#include <math.h>
#include <stdlib.h>
#include <lockstep_data.h>
#include <lockstep_trial.h>

#include "base/math.h"
#include "base/random.h"
#include "data/augment.h"
#include "data/data.h"
#include "training.h"

enum { ROWS = 70, CHANNELS = 3, HEIGHT = 17, WIDTH = 15, IMAGE = CHANNELS * HEIGHT * WIDTH, CLASSES = ROWS, SEED = 5 };

static uint8_t images[ROWS * IMAGE], labels[ROWS];
static const ls_augment everything = {.flip = true, .crop = 4, .erase = 0.6};

static int make_images(void **state)
{
    (void)state;
    test_make_images(images, sizeof images, labels, ROWS, CLASSES);
    for (int i = 0; i < ROWS; i++)
        labels[i] = (uint8_t)i; /* tells who an image is */
    return 0;
}

/* ---- By hand: onto a larger sheet, cut out, turned, blotted ---- */

static int pick(const ls_random_stream *stream, int i, int n)
{
    return (int)floor(ls_random_uniform(stream, (uint64_t)i) * n);
}

static int side(double length, int most)
{
    int rounded = (int)floor(length + 0.5);
    return rounded < 1 ? 1 : rounded > most ? most : rounded;
}

static void by_hand(const ls_augment *how, int sample, int64_t epoch, uint8_t out[IMAGE])
{
    enum { MOST = 3 * HEIGHT };
    const ls_random_stream stream = {SEED, LS_FOR_AUGMENT, (uint64_t)sample, (uint64_t)epoch};
    const int pad = how->crop;
    int top = 0, left = 0, rows = 0, columns = 0;
    if (ls_random_uniform(&stream, 3) < how->erase) {
        double area = (double)HEIGHT * WIDTH * (0.02 + 0.31 * ls_random_uniform(&stream, 4));
        double ratio = ls_expf((float)(log(0.3) + log(11) * ls_random_uniform(&stream, 5)));
        rows = side(sqrt(area * ratio), HEIGHT);
        columns = side(sqrt(area / ratio), WIDTH);
        top = pick(&stream, 6, HEIGHT - rows + 1);
        left = pick(&stream, 7, WIDTH - columns + 1);
    }
    for (int c = 0; c < CHANNELS; c++) {
        uint8_t sheet[MOST][MOST] = {{0}};
        for (int y = 0; y < HEIGHT; y++)
            for (int x = 0; x < WIDTH; x++)
                sheet[y + pad][x + pad] = images[((sample * CHANNELS + c) * HEIGHT + y) * WIDTH + x];
        const int from_y = pick(&stream, 0, 2 * pad + 1), from_x = pick(&stream, 1, 2 * pad + 1);
        for (int y = 0; y < HEIGHT; y++)
            for (int x = 0; x < WIDTH; x++) {
                bool mirrored = how->flip && ls_random_uniform(&stream, 2) < 0.5;
                bool blot = y >= top && y < top + rows && x >= left && x < left + columns;
                out[(c * HEIGHT + y) * WIDTH + x] =
                    blot ? 0 : sheet[y + from_y][(mirrored ? WIDTH - 1 - x : x) + from_x];
            }
    }
}

static ls_data *open_data(ls_session *s, const uint8_t *pixels, const ls_loader *loader)
{
    return ls_data_from_memory(s, pixels, labels, ROWS, CHANNELS, HEIGHT, WIDTH, CLASSES, loader);
}

/* ---- What a batch is ---- */

/* Every image of two epochs is what its number and the epoch make it, in any order and batches of any size, on any
 * device. */
static void images_are_as_drawn(void **state)
{
    (void)state;
    static const ls_augment kinds[] = {
        {.flip = true}, {.crop = 3}, {.erase = 1}, {.flip = true, .crop = 14, .erase = 0.5}};
    for (int k = 0; k < 8; k++) {
        const ls_augment how = kinds[k % 4];
        ls_session *s = ls_open(&(ls_options){.seed = SEED});
        ls_data *data = open_data(s, images, &(ls_loader){.batch = k % 4 ? 16 : 70, .shuffle = k >= 4, .augment = how});
        for (ls_batch batch; data->epoch < 2;)
            while (ls_data_next(data, &batch)) {
                static float pixels[ROWS * IMAGE], numbers[ROWS];
                const int64_t n = ls_rows(batch.X);
                ls_tensor *X = k % 2 ? ls_to(batch.X, ls_cpu(1)) : batch.X;
                ls_tensor *part = n > 2 ? ls_row(X, 1) : NULL;
                float second[IMAGE];
                assert_int_equal(ls_read(X, pixels, n * IMAGE), LS_OK);
                assert_int_equal(ls_read(batch.y, numbers, n), LS_OK);
                if (part)
                    assert_int_equal(ls_read(part, second, IMAGE), LS_OK);
                for (int64_t i = 0; i < n; i++) {
                    uint8_t wanted[IMAGE];
                    by_hand(&how, (int)numbers[i], batch.epoch, wanted);
                    for (int j = 0; j < IMAGE; j++) {
                        assert_true(pixels[i * IMAGE + j] == (float)wanted[j] / 255.0f);
                        assert_true(i != 1 || !part || second[j] == pixels[i * IMAGE + j]);
                    }
                }
            }
        assert_int_equal(ls_close(s), LS_OK);
    }
}

/* An epoch that was reached by ls_data_seek has the images of one that was walked to. */
static void an_epoch_by_itself(void **state)
{
    (void)state;
    static float walked[20 * IMAGE], sought[20 * IMAGE];
    ls_session *s = ls_open(&(ls_options){.seed = SEED});
    ls_data *data = open_data(s, images, &(ls_loader){.batch = 20, .shuffle = true, .augment = everything});
    ls_batch batch;
    while (data->epoch < 3)
        ls_data_next(data, &batch);
    assert_true(ls_data_next(data, &batch) && ls_data_next(data, &batch));
    assert_int_equal(ls_read(batch.X, walked, 20 * IMAGE), LS_OK);
    assert_int_equal(ls_data_seek(data, 3, 1), LS_OK);
    assert_true(ls_data_next(data, &batch));
    assert_int_equal(ls_read(batch.X, sought, 20 * IMAGE), LS_OK);
    assert_memory_equal(walked, sought, sizeof walked);
    assert_int_equal(ls_close(s), LS_OK);
}

/* ---- Training ---- */

typedef struct how {
    const char *devices;
    ls_isa isa;
    uint64_t shuffle_pulls;
    ls_augment augment;
    const uint8_t *pixels; /* NULL: the images */

    ls_metrics *metrics;
} how;

static void train(const how *h, int epochs, char fingerprint[65])
{
    ls_session *s = ls_open(&(ls_options){
        .seed = SEED, .shard = 6, .isa = h->isa, .trial = &(ls_trial){.shuffle_pulls = h->shuffle_pulls}});
    ls_data *data = open_data(s, h->pixels ? h->pixels : images, &(ls_loader){.batch = 32, .augment = h->augment});
    ls_module *net = ls_sequential(s, LS_LIST(ls_nn_conv2d(s, 3, 3, &(ls_conv){.stride = 2}), ls_nn_fn(s, ls_relu),
                                              ls_nn_fn(s, ls_flatten), ls_nn_linear(s, CLASSES)));
    ls_module_initialize(net, ls_parse_devices(s, h->devices), &(ls_init){.kind = LS_HE, .like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.05, .momentum = 0.9});
    for (ls_batch batch; epochs > 0; epochs--)
        while (ls_data_next(data, &batch))
            test_step(net, trainer, &batch);
    if (h->metrics)
        ls_module_evaluate(net, data, h->metrics);
    if (ls_module_fingerprint(net, fingerprint) != LS_OK)
        fail_msg("%s", ls_message(s));
    assert_int_equal(ls_close(s), LS_OK);
}

/* The step's images are those that one would have made before. */
static void a_step_sees_the_same(void **state)
{
    (void)state;
    static uint8_t changed[ROWS * IMAGE];
    char before[65], on_the_way[65], plain[65];
    for (int i = 0; i < ROWS; i++)
        by_hand(&everything, i, 0, changed + i * IMAGE);
    train(&(how){.devices = "cpu:0", .pixels = changed}, 1, before);
    train(&(how){.devices = "cpu:0", .augment = everything}, 1, on_the_way);
    train(&(how){.devices = "cpu:0"}, 1, plain);
    assert_string_equal(before, on_the_way);
    assert_string_not_equal(plain, on_the_way);
}

static void same_bits_on_any_devices(void **state)
{
    (void)state;
    static const char *const lists[] = {"cpu:0", "cpu:0-1", "cpu:0-2", "cpu:2,cpu:0", "cpu:0-15"};
    static const ls_isa isas[] = {LS_ISA_AUTO, LS_ISA_PLAIN, LS_ISA_AVX2, LS_ISA_REFERENCE, LS_ISA_AUTO};
    char one[65], other[65];
    train(&(how){.devices = "cpu:0", .augment = everything}, 2, one);
    for (int i = 0; i < 5; i++) {
        train(&(how){.devices = lists[i], .isa = isas[i], .shuffle_pulls = (uint64_t)i, .augment = everything}, 2,
              other);
        assert_string_equal(one, other);
    }
}

/* Evaluation and prediction take images as they are. */
static void an_evaluation_does_not(void **state)
{
    (void)state;
    ls_metrics with, without;
    char fingerprint[65];
    train(&(how){.devices = "cpu:0", .augment = everything, .metrics = &with}, 0, fingerprint);
    train(&(how){.devices = "cpu:0", .metrics = &without}, 0, fingerprint);
    assert_true(with.loss == without.loss && with.correct == without.correct && with.rows == ROWS);
}

/* ---- Draws, and what is refused ---- */

static void draws_fill_their_ranges(void **state)
{
    (void)state;
    enum { DRAWS = 4000, CROP = 2 };
    int flips = 0, erased = 0, at[2 * CROP + 1][2 * CROP + 1] = {{0}};
    double area = 0;
    for (int i = 0; i < DRAWS; i++) {
        ls_change c =
            ls_augment_draw(&(ls_augment){.flip = true, .crop = CROP, .erase = 0.25}, 1, (uint32_t)i, i % 7, 32, 32);
        flips += c.flip;
        at[c.down + CROP][c.right + CROP]++;
        if (c.height) {
            assert_true(c.width >= 1 && c.top >= 0 && c.left >= 0 && c.top + c.height <= 32 && c.left + c.width <= 32);
            double share = (double)c.height * c.width / 1024;
            assert_true(share > 0.01 && share < 0.36);
            area += share;
            erased++;
        }
    }
    assert_in_range(flips, DRAWS / 2 - 150, DRAWS / 2 + 150);
    assert_in_range(erased, DRAWS / 4 - 130, DRAWS / 4 + 130);
    assert_true(fabs(area / erased - 0.175) < 0.02);
    for (int y = 0; y <= 2 * CROP; y++)
        for (int x = 0; x <= 2 * CROP; x++)
            assert_in_range(at[y][x], DRAWS / 25 - 60, DRAWS / 25 + 60);
}

static void misuse(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_data_info info;
    static const double wrong[] = {-0.1, 1.1, NAN, INFINITY};
    assert_null(open_data(s, images, &(ls_loader){.augment = {.crop = WIDTH}}));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_loader: a crop of 15 pixels; images of 17 x 15 take 0 (none) to 14");
    assert_null(open_data(s, images, &(ls_loader){.augment = {.crop = -1}}));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_loader: a crop of -1 pixels; images of 17 x 15 take 0 (none) to 14");
    for (int i = 0; i < 4; i++) {
        assert_null(open_data(s, images, &(ls_loader){.augment = {.erase = wrong[i]}}));
        assert_caught(s, LS_BAD_ARGUMENT, "it is a probability, from 0 (never) to 1");
    }
    ls_data *data = open_data(s, images, NULL);
    assert_int_equal(ls_data_about(data, &info), LS_OK);
    assert_true(info.rows == ROWS && info.channels == CHANNELS && info.height == HEIGHT && info.width == WIDTH);
    assert_null(ls_data_class(data, 0));
    assert_null(ls_data_class(NULL, 0));
    assert_int_equal(ls_data_about(NULL, &info), LS_BAD_ARGUMENT);
    assert_int_equal(ls_data_about(data, NULL), LS_BAD_ARGUMENT);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_data_about: info is NULL");
    assert_null(ls_data_open(NULL, "cifar10", LS_TRAIN, NULL));
    assert_null(ls_data_open(s, "cifar11", LS_TRAIN, NULL));
    assert_caught(s, LS_BAD_ARGUMENT,
                  "ls_data_open: 'cifar11' is no data set's name; there are fashion-mnist, mnist, cifar10, cifar100, "
                  "npy, folder");
    assert_null(ls_data_open(s, "folder", LS_TRAIN, &(ls_loader){.directory = "/nowhere"}));
    assert_caught(
        s, LS_IO,
        "/nowhere/train: is no folder; a data set of images is train/CLASS/IMAGE and test/CLASS/IMAGE in /nowhere");
    assert_null(ls_model_for(NULL, "lenet", 10));
    assert_null(ls_model_for(s, "lenet", 0));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_model_for: 0 classes; needs at least 1");
    assert_null(ls_model_for(s, "vgg", 10));
    assert_caught(s, LS_BAD_ARGUMENT, "model \"vgg\" is not known; there are lenet and resnet18");
    assert_int_equal(ls_close(s), LS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_are_as_drawn),
        cmocka_unit_test(an_epoch_by_itself),
        cmocka_unit_test(a_step_sees_the_same),
        cmocka_unit_test(same_bits_on_any_devices),
        cmocka_unit_test(an_evaluation_does_not),
        cmocka_unit_test(draws_fill_their_ranges),
        cmocka_unit_test(misuse),
    };
    return cmocka_run_group_tests(tests, make_images, NULL);
}
