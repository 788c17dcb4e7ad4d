/* Images held out for validation, and weights that a trainer comes back to: by hand, and over a run that is broken
 * off. */
#include "checkpoint_run.h"

#include <stdlib.h>
#include <lockstep_data.h>

#include "base/random.h"
#include "data/data.h"

enum { ROWS = 70, SIDE = 6, PIXELS = SIDE * SIDE, SEED = 5 };

static uint8_t images[ROWS * PIXELS], labels[ROWS];

static ls_data *make_data(ls_session *s, int64_t limit)
{
    test_make_images(images, sizeof images, labels, ROWS, 3);
    return ls_data_from_memory(s, images, labels, ROWS, 1, SIDE, SIDE, 3,
                               &(ls_loader){.batch = 8, .shuffle = true, .limit = limit});
}

/* Fisher-Yates over numbers that the generator gives by their place, as docs/data.md has it. */
static void draw(int rows, int n, bool out[ROWS])
{
    const ls_random_stream stream = {SEED, 7, 0, 0};
    const ls_derived from = ls_random_derive(&stream);
    int order[ROWS];
    for (int i = 0; i < rows; i++) {
        order[i] = i;
        out[i] = false;
    }
    for (int i = rows; i > 1; i--) {
        int j = (int)((unsigned __int128)ls_derived_bits(&from, (uint64_t)i) * (unsigned)i >> 64), other = order[j];
        order[j] = order[i - 1];
        order[i - 1] = other;
    }
    for (int i = 0; i < n; i++)
        out[order[i]] = true;
}

static void assert_rows(const ls_data *data, const bool out[ROWS], int rows, bool held)
{
    int64_t place = 0;
    for (int i = 0; i < rows; i++)
        if (out[i] == held) {
            assert_memory_equal((uint8_t *)data->of.values + place * PIXELS, images + i * PIXELS, PIXELS);
            assert_int_equal(data->of.labels[place++], labels[i]);
        }
    assert_int_equal(ls_data_rows(data), place);
}

static void images_are_as_drawn(void **state)
{
    (void)state;
    static const int sizes[][2] = {{ROWS, 1}, {ROWS, 7}, {ROWS, ROWS - 1}, {31, 10}, {2, 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int rows = sizes[i][0], n = sizes[i][1];
        bool out[ROWS];
        ls_session *s = ls_open(&(ls_options){.seed = SEED});
        ls_data *data = make_data(s, rows), *held = ls_data_hold_out(data, n);
        draw(rows, n, out);
        assert_non_null(held);
        assert_rows(held, out, rows, true);
        assert_rows(data, out, rows, false);
        assert_int_equal(ls_data_batches(data), (rows - n + 7) / 8);
        int seen = 0;
        for (ls_batch batch; ls_data_next(data, &batch);)
            seen += (int)ls_rows(batch.X);
        assert_int_equal(seen, rows - n);
        assert_int_equal(ls_close(s), LS_OK);
    }
}

static void wrong_calls(void **state)
{
    (void)state;
    static const int64_t counts[] = {0, -1, ROWS, ROWS + 1, INT64_MAX};
    ls_batch batch;
    assert_null(ls_data_hold_out(NULL, 1));
    assert_int_equal(ls_trainer_remember(NULL), LS_BAD_ARGUMENT);
    assert_int_equal(ls_trainer_recall(NULL), LS_BAD_ARGUMENT);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        ls_session *s = ls_open(NULL);
        assert_null(ls_data_hold_out(make_data(s, 0), counts[i]));
        assert_non_null(strstr(ls_message(s), "of 70 images; needs at least 1, and as many left"));
        assert_int_equal(ls_close(s), LS_BAD_ARGUMENT);
    }
    ls_session *s = ls_open(NULL);
    ls_data *data = make_data(s, 0);
    ls_data_next(data, &batch);
    assert_null(ls_data_hold_out(data, 7));
    assert_non_null(
        strstr(ls_message(s), "ls_data_hold_out: the data are in use; hold images out before the first batch"));
    assert_int_equal(ls_close(s), LS_BAD_ARGUMENT);
}

static void without_memory(void **state)
{
    (void)state;
    for (int fail_at = 1, done = 0; !done; fail_at++) {
        ls_allocator allocator = test_allocator(0);
        ls_session *s = ls_open(&(ls_options){.allocator = &allocator});
        ls_data *data = make_data(s, 0);
        test_allocations.fail_at = test_allocations.count + fail_at;
        ls_data *held = ls_data_hold_out(data, 7);
        done = test_allocations.count < test_allocations.fail_at;
        test_allocations.fail_at = 0;
        assert_int_equal(held != NULL, done);
        assert_int_equal(ls_close(s), done ? LS_OK : LS_OUT_OF_MEMORY);
        assert_int_equal(test_allocations.live, 0);
    }
}

#if LOCKSTEP_HAVE_JANSSON && LOCKSTEP_HAVE_CRYPTO

static void values_come_back(void **state)
{
    (void)state;
    char then[65], back[65], whole[65], after[65];
    run r;
    begin(&r, &usual);
    train(&r, 3);
    ls_trainer_remember(r.trainer);
    ls_module_fingerprint(r.net, then);
    train(&r, 6);
    ls_module_fingerprint(r.net, whole);
    ls_trainer_recall(r.trainer);
    ls_module_fingerprint(r.net, back);
    assert_string_equal(back, then);
    assert_string_not_equal(whole, then);
    train(&r, 7); /* and it goes on from there */
    ls_module_fingerprint(r.net, after);
    assert_string_not_equal(after, then);
    assert_ok(&r);
    end(&r);
    begin(&r, &usual);
    ls_trainer_recall(r.trainer);
    assert_fails(&r, LS_STALE, "ls_trainer_recall: nothing was remembered; call ls_trainer_remember first");
}

/* BatchNorm keeps a loss finite, and its statistics overflow first: `plain` is a network without. */
static void overflow(const how *h, bool plain)
{
    char was[STEPS + 1][65], back[65];
    int64_t step = -1;
    run r;
    begin(&r, h);
    if (plain) {
        r.net = ls_sequential(r.s, NULL);
        ls_module_append(r.net, NULL, ls_nn_fn(r.s, ls_flatten));
        ls_module_append(r.net, NULL, ls_nn_linear(r.s, 8));
        ls_module_append(r.net, NULL, ls_nn_fn(r.s, ls_relu));
        ls_module_append(r.net, NULL, ls_nn_linear(r.s, 3));
        ls_module_initialize(r.net, ls_parse_devices(r.s, h->devices), &(ls_init){.like = r.data});
        r.trainer =
            ls_trainer_new(r.net, LS_SGD, &(ls_optim){.lr = h->lr, .momentum = h->momentum, .clip_norm = h->clip});
    }
    do {
        ls_module_fingerprint(r.net, was[r.steps]);
    } while (train(&r, r.steps + 1) == LS_OK && ls_wait(r.s) == LS_OK && r.steps < STEPS);
    const char *what = plain ? "the loss of shard 0" : "the update of 1.running_var";
    char words[100];
    snprintf(words, sizeof words, "step 2: %s is not finite; a lower learning rate may help", what);
    assert_string_equal(ls_message(r.s), words);
    assert_true(ls_catch(r.s, LS_NOT_FINITE));
    assert_int_equal(ls_trainer_step_back(r.trainer, &step), LS_OK);
    assert_int_equal(step, plain ? 0 : 1);
    ls_module_fingerprint(r.net, back);
    assert_string_equal(back, was[step]);
    end(&r);
}

/* After a loss that is not finite the values before the last update are there; after such an update those it began
 * with. */
static void the_last_finite_values_are_there(void **state)
{
    (void)state;
    static const how huge[] = {{.lr = 1e29, .devices = "cpu:0"},
                               {.lr = 1e29, .devices = "cpu:0-3", .momentum = 0.9},
                               {.lr = 1e29, .devices = "cpu:0-1", .clip = 0.5}};
    for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
        overflow(&huge[i], true);
        overflow(&huge[i], false);
    }
}

/* After a step that is as it should be, once. */
static void one_step_back(void **state)
{
    (void)state;
    char then[65], back[65];
    int64_t step = -1;
    run r;
    assert_int_equal(ls_trainer_step_back(NULL, &step), LS_BAD_ARGUMENT);
    begin(&r, &usual);
    assert_int_equal(ls_trainer_step_back(r.trainer, NULL), LS_BAD_ARGUMENT);
    train(&r, 3);
    ls_module_fingerprint(r.net, then);
    train(&r, 4);
    assert_int_equal(ls_trainer_step_back(r.trainer, &step), LS_OK);
    assert_int_equal(step, 3);
    ls_module_fingerprint(r.net, back);
    assert_string_equal(back, then);
    ls_trainer_step_back(r.trainer, &step);
    assert_fails(&r, LS_STALE, "ls_trainer_step_back: the values before the last update are not there any more");
}

/* By each rule, remembered before a checkpoint, between two, or not at all. */
static void checkpoints_keep_them(void **state)
{
    (void)state;
    for (int rule = 0; rule < RULES; rule++)
        for (int at = 2; at <= 8; at += 3) {
            char then[65], back[65], last[65];
            run r;
            empty_folder();
            begin(&r, &rules[rule]);
            for (int k = 1; k <= 8; k++) {
                train(&r, k);
                if (k == at) {
                    ls_trainer_remember(r.trainer);
                    ls_module_fingerprint(r.net, then);
                }
                if (k == 4 || k == 6)
                    ls_checkpoint_save(r.kept, NULL);
            }
            ls_checkpoint_wait(r.kept);
            assert_ok(&r);
            end(&r);
            begin(&r, &rules[rule]);
            ls_trainer_remember(r.trainer); /* gives way to what the checkpoint has */
            assert_true(load(&r));
            assert_int_equal(r.steps, 6);
            train(&r, STEPS);
            ls_module_fingerprint(r.net, last);
            assert_string_equal(last, reference(&rules[rule]));
            if (at < 6) {
                assert_int_equal(ls_trainer_recall(r.trainer), LS_OK);
                ls_module_fingerprint(r.net, back);
                assert_string_equal(back, then);
                assert_ok(&r);
                end(&r);
            } else {
                ls_trainer_recall(r.trainer);
                assert_fails(&r, LS_STALE, "ls_trainer_recall: nothing was remembered; call ls_trainer_remember first");
            }
        }
}

#endif

int main(void)
{
#define test(name) cmocka_unit_test_setup_teardown(name, test_folder_make, test_folder_remove)
    const struct CMUnitTest tests[] = {
        test(images_are_as_drawn),
        test(wrong_calls),
        test(without_memory),
#if LOCKSTEP_HAVE_JANSSON && LOCKSTEP_HAVE_CRYPTO
        test(values_come_back),
        test(the_last_finite_values_are_there),
        test(one_step_back),
        test(checkpoints_keep_them),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
