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

/* ---- Targets with places ---- */

enum { PLACES = HEIGHT * WIDTH, KINDS = 5, IGNORED = 9 };

/* Maps of one channel, whose targets are the same numbers: those of an image above 0. */
static ls_data *open_maps(ls_session *s, ls_shape targets, const ls_loader *loader)
{
    static float numbers[ROWS * PLACES];
    for (int i = 0; i < ROWS * PLACES; i++)
        numbers[i] = (float)(1 + i % 251);
    ls_data *data = ls_data_from_floats(s, numbers, LS_SHAPE(ROWS, 1, HEIGHT, WIDTH), loader);
    assert_int_equal(ls_data_set_targets(data, numbers, targets), LS_OK);
    return data;
}

/* Flip and crop move targets as their images; what comes in is the loader's to say, and nothing is erased. */
static void targets_move_with_their_images(void **state)
{
    (void)state;
    static const double edges[] = {0, 0, -1, 255};
    for (int k = 0; k < 8; k++) {
        const ls_augment by = {.flip = k != 1, .crop = k == 0 ? 0 : 5, .erase = k & 4 ? 0.7 : 0};
        const ls_shape shape = k & 1 ? LS_SHAPE(ROWS, HEIGHT, WIDTH) : LS_SHAPE(ROWS, 1, HEIGHT, WIDTH);
        ls_session *s = ls_open(&(ls_options){.seed = SEED});
        const ls_loader loader = {.batch = 16, .shuffle = k & 2, .augment = by, .edge_target = edges[k % 4]};
        ls_loader whole = loader;
        whole.augment.erase = 0;
        ls_data *data = open_maps(s, shape, &loader), *others = open_maps(s, shape, &whole);
        int moved = 0, erased = 0;
        for (ls_batch batch, other; data->epoch < 2;) {
            const bool more = ls_data_next(data, &batch);
            assert_true(ls_data_next(others, &other) == more);
            if (!more)
                continue;
            static float x[16 * PLACES], y[16 * PLACES], seen[16 * PLACES];
            const int64_t n = ls_rows(batch.X) * PLACES;
            ls_tensor *targets = k & 2 ? ls_to(batch.y, ls_cpu(1)) : batch.y;
            assert_int_equal(ls_rank(targets), shape.rank);
            assert_int_equal(ls_read(other.X, x, n), LS_OK);
            assert_int_equal(ls_read(batch.X, seen, n), LS_OK);
            assert_int_equal(ls_read(targets, y, n), LS_OK);
            for (int64_t i = 0; i < n; i++) {
                assert_true(y[i] == (x[i] > 0 ? x[i] : (float)loader.edge_target));
                moved += i > 0 && x[i] != x[i - 1] + 1;
                erased += seen[i] != x[i];
            }
        }
        assert_true(moved > ROWS && (erased > 0) == (by.erase > 0));
        assert_int_equal(ls_close(s), LS_OK);
    }
}

static ls_tensor *of_places(ls_module *net, const ls_batch *batch)
{
    return ls_cross_entropy_with(ls_module_forward(net, batch->X), batch->y, &(ls_loss){.ignore = IGNORED});
}

/* Trains on masks; `moved`: an epoch's images and targets that a program has moved itself, as another run saw them. */
static void train_on_masks(const char *devices, bool moved, char fingerprint[65])
{
    static float x[ROWS * PLACES], y[ROWS * PLACES];
    ls_session *s = ls_open(&(ls_options){.seed = SEED, .shard = 6});
    ls_loader loader = {.batch = moved ? ROWS : 16, .augment = {.flip = true, .crop = 3}, .edge_target = IGNORED};
    for (int i = 0; i < ROWS * PLACES; i++) {
        x[i] = (float)(i % 101) / 50 - 1;
        y[i] = (float)(i % 13 == 4 ? IGNORED : i * 7 % KINDS);
    }
    for (int again = moved; again >= 0; again--) {
        ls_data *data = ls_data_from_floats(s, x, LS_SHAPE(ROWS, 1, HEIGHT, WIDTH), &loader);
        ls_data_set_targets(data, y, LS_SHAPE(ROWS, HEIGHT, WIDTH));
        ls_batch batch;
        if (again) {
            assert_true(ls_data_next(data, &batch));
            assert_int_equal(ls_read(batch.X, x, ROWS * PLACES), LS_OK);
            assert_int_equal(ls_read(batch.y, y, ROWS * PLACES), LS_OK);
            loader = (ls_loader){.batch = 16};
            continue;
        }
        ls_module *net = ls_sequential(s, LS_LIST(ls_nn_conv2d(s, 4, 3, &(ls_conv){.padding = 1}), ls_nn_fn(s, ls_relu),
                                                  ls_nn_conv2d(s, KINDS, 1, NULL)));
        ls_module_initialize(net, ls_parse_devices(s, devices), &(ls_init){.kind = LS_HE, .like = data});
        ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1, .momentum = 0.9});
        while (ls_data_next(data, &batch)) {
            ls_backward(of_places(net, &batch));
            ls_trainer_step(trainer);
        }
        if (ls_module_fingerprint(net, fingerprint) != LS_OK)
            fail_msg("%s", ls_message(s));
    }
    assert_int_equal(ls_close(s), LS_OK);
}

static void masks_train_as_moved_by_hand(void **state)
{
    (void)state;
    char one[65], other[65];
    train_on_masks("cpu:0", false, one);
    train_on_masks("cpu:0", true, other);
    assert_string_equal(one, other);
    train_on_masks("cpu:0-2", false, other);
    assert_string_equal(one, other);
}

/* A computation of nothing but targets takes them as moved, too. */
static void moved_targets_compute(void **state)
{
    (void)state;
    ls_session *s = ls_open(&(ls_options){.seed = SEED});
    ls_data *data = open_maps(s, LS_SHAPE(ROWS, HEIGHT, WIDTH),
                              &(ls_loader){.batch = ROWS, .augment = {.flip = true, .crop = 5}, .edge_target = -3});
    ls_batch batch;
    assert_true(ls_data_next(data, &batch));
    ls_tensor *y = ls_to(batch.y, ls_cpu(0));
    float *given = test_read(batch.y), *twice = test_read(ls_scale(y, 2));
    for (int i = 0; i < ROWS * PLACES; i++)
        assert_true(twice[i] == 2 * given[i]);
    free(given);
    free(twice);
    assert_int_equal(ls_close(s), LS_OK);
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
    assert_null(open_data(s, images, &(ls_loader){.edge_target = NAN}));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_loader: edge_target is nan; it must be finite as a float");
    ls_data *half = open_data(s, images, &(ls_loader){.augment = {.crop = 1}});
    ls_data_set_targets(half, (const float[ROWS * 8 * 7]){0}, LS_SHAPE(ROWS, 8, 7));
    assert_caught(s, LS_BAD_SHAPE,
                  "ls_data_set_targets: flip and crop move images of 17 x 15 together with their targets, whose last "
                  "two sizes are 8 x 7; give targets");
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
        cmocka_unit_test(images_are_as_drawn),          cmocka_unit_test(an_epoch_by_itself),
        cmocka_unit_test(a_step_sees_the_same),         cmocka_unit_test(same_bits_on_any_devices),
        cmocka_unit_test(an_evaluation_does_not),       cmocka_unit_test(targets_move_with_their_images),
        cmocka_unit_test(masks_train_as_moved_by_hand), cmocka_unit_test(moved_targets_compute),
        cmocka_unit_test(draws_fill_their_ranges),      cmocka_unit_test(misuse),
    };
    return cmocka_run_group_tests(tests, make_images, NULL);
}
