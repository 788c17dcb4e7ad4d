/* The example of this name, as it is: beside PyTorch's from the same weights (tests/reference/make_gan.py), and one
 * fingerprint of both networks on any devices and ranks, after a kill and on cards. */
#define main  gan_main
#define BATCH PROGRAMS_BATCH
int gan_main(int argc, char **argv);
#include "../examples/gan.c"
#undef main
#undef BATCH

#include "device/cards.h"
#include "files.h"
#include "killed.h"
#include "not_run.h"
#include "reference_cases.h"
#include "thread_wire.h"

#include <lockstep_checkpoint.h>
#include <lockstep_data.h>

#include "training.h"

enum { PLACES = SIDE * SIDE, BATCH = 32, PICTURES = 512, STEPS = 300, FIRST = 20, ROWS = 16, TRAINED = 4, KILLED = 2 };

/* ---- Beside PyTorch ---- */

static double next(uint32_t *x)
{
    *x = *x * 1664525u + 1013904223u;
    return (*x >> 8) / 16777216.0 - 0.5;
}

static void start(const ls_parameter_info *info, float *values, void *user)
{
    uint32_t x = 2166136261u;
    char name[64];
    snprintf(name, sizeof name, "%s.%s", (const char *)user, info->name);
    for (const char *c = name; *c; c++)
        x = (x ^ (uint8_t)*c) * 16777619u;
    for (int64_t i = 0; i < info->numbers; i++)
        values[i] = info->rank == 1 ? 0 : (float)(next(&x) * 0.07);
}

static ls_tensor *pictures(ls_session *s, int k)
{
    static float pixels[BATCH][PLACES];
    for (int i = 0; i < BATCH; i++) {
        const int n = (k * BATCH + i) % PICTURES, radius = 4 + n % 5;
        for (int p = 0; p < PLACES; p++) {
            const int x = p % SIDE - 9 - 5 * n % 11, y = p / SIDE - 9 - 3 * n % 11;
            pixels[i][p] = x * x + y * y <= radius * radius ? (float)(155 + 11 * n % 101) / 255 : 0;
        }
    }
    return ls_values(s, pixels[0], LS_SHAPE(BATCH, 1, SIDE, SIDE));
}

static ls_tensor *drawn(ls_session *s, int k)
{
    float z[BATCH * NOISE];
    uint32_t x = (uint32_t)k + 1;
    for (int i = 0; i < BATCH * NOISE; i++)
        z[i] = (float)(next(&x) * 3);
    return ls_values(s, z, LS_SHAPE(BATCH, NOISE));
}

typedef struct pair {
    ls_session *s;
    ls_module *G, *D;
    ls_trainer *g, *d;
} pair;

/* Both with values, of images of the program's size. */
static pair begin(ls_session *s, ls_devices devices)
{
    const ls_optim adam = {.lr = 0.001, .beta1 = 0.5};
    pair n = {.s = s, .G = generator(s), .D = discriminator(s)};
    ls_module_initialize(n.G, devices, NULL);
    ls_module_initialize(n.D, devices, NULL);
    ls_module_infer(n.D, ls_module_infer(n.G, ls_zeros(s, LS_SHAPE(1, NOISE))));
    ls_module_apply(n.G, start, "G");
    ls_module_apply(n.D, start, "D");
    n.g = ls_trainer_new(n.G, LS_ADAM, &adam);
    n.d = ls_trainer_new(n.D, LS_ADAM, &adam);
    return n;
}

static double off_by_losses(ls_trainer *trainer, const json_t *one, const char *key, double *first)
{
    int n;
    double *wanted = recorded_numbers(one, key, &n), worst = 0;
    assert_int_equal(n, STEPS);
    ls_report report;
    for (int k = 0; k < n; k++) {
        assert_true(ls_trainer_next_report(trainer, &report));
        worst = fmax(worst, fabs(report.loss / wanted[k] - 1));
        *first = k < FIRST ? fmax(*first, worst) : *first;
    }
    print_message("%s: %.4f to %.4f\n", key, wanted[0], wanted[n - 1]);
    free(wanted);
    return worst;
}

static void run_figures(ls_session *s, const json_t *one)
{
    pair n = begin(s, test_cpus(2));
    for (int k = 0; k < STEPS; k++) {
        const int scope = ls_enter(s);
        take_step(n.G, n.D, n.g, n.d, pictures(s, k), drawn(s, k));
        ls_leave(s, scope);
    }
    if (ls_wait(s) != LS_OK)
        fail_msg("%s", ls_message(s));
    double first = 0, worst = off_by_losses(n.d, one, "d_losses", &first);
    worst = fmax(worst, off_by_losses(n.g, one, "g_losses", &first));
    print_message("losses off by %.1e over %d steps, by %.1e over %d\n", first, FIRST, worst, STEPS);
    assert_true(first < 1e-3 && worst < 0.1);
}

static void as_in_pytorch(void **state)
{
    (void)state;
    run_reference_cases("gan", 1, &(ls_options){.shard = BATCH / 2}, run_figures);
}

/* ---- One fingerprint ---- */

typedef struct way {
    const char *G, *D; /* devices */
    ls_cluster *cluster;
    bool killed, resumed;
    bool small; /* what emulated cards take a moderate time for */
} way;

typedef struct outcome {
    char G[65], D[65];
} outcome;

static ls_data *images(ls_session *s, int batch)
{
    static uint8_t bytes[ROWS * PLACES];
    uint8_t labels[ROWS];
    test_make_images(bytes, sizeof bytes, labels, ROWS, 2);
    return ls_data_from_memory(s, bytes, labels, ROWS, 1, SIDE, SIDE, 2, &(ls_loader){.batch = batch, .shuffle = true});
}

static void take_steps(const pair *n, ls_data *data, int from, int to)
{
    ls_batch b;
    for (int k = from; k < to && test_next(data, &b); k++)
        take_step(n->G, n->D, n->g, n->d, b.X, noise(n->s, k, ls_rows(b.X)));
}

static ls_status train(const way *w, outcome *out)
{
    ls_session *s = ls_open(&(ls_options){.shard = 2, .cluster = w->cluster});
    ls_data *data = images(s, w->small ? 4 : 6);
    pair n = begin(s, ls_parse_devices(s, w->G));
    if (w->D) { /* on devices of its own */
        n.D = discriminator(s);
        ls_module_initialize(n.D, ls_parse_devices(s, w->D), &(ls_init){.like = data});
        ls_module_apply(n.D, start, "D");
        n.d = ls_trainer_new(n.D, LS_ADAM, &(ls_optim){.lr = 0.001, .beta1 = 0.5});
    }
    ls_checkpoints *of_g = NULL, *of_d = NULL;
    ls_checkpoint at = {.step = 0};
    if (w->killed || w->resumed) {
        of_g = ls_checkpoints_open(n.g, NULL, test_path("G"), NULL);
        of_d = ls_checkpoints_open(n.d, data, test_path("D"), NULL);
    }
    if (w->resumed)
        assert_true(ls_checkpoint_load(of_g, NULL) && ls_checkpoint_load(of_d, &at) && at.step == KILLED);
    take_steps(&n, data, (int)at.step, w->killed || w->small ? KILLED : TRAINED);
    if (w->killed) {
        ls_checkpoint_save(of_g, NULL);
        ls_checkpoint_save(of_d, NULL);
        assert_true(ls_checkpoint_wait(of_g) == LS_OK && ls_checkpoint_wait(of_d) == LS_OK);
        take_steps(&n, data, KILLED, KILLED + 1);
        test_kill();
    }
    if (ls_module_fingerprint(n.G, out->G) != LS_OK || ls_module_fingerprint(n.D, out->D) != LS_OK)
        print_message("%s: %s\n", w->G, ls_message(s));
    return ls_close(s);
}

static outcome alone, of_rank[WIRE_RANKS];

static void assert_trains(const way *w)
{
    outcome other = {.G = ""};
    if (!*alone.G)
        assert_int_equal(train(&(way){.G = "cpu:0", .small = w->small}, &alone), LS_OK);
    assert_int_equal(train(w, &other), LS_OK);
    assert_memory_equal(&other, &alone, sizeof alone);
}

static void train_rank(ls_cluster *cluster, int rank, void *user)
{
    const way w = {.G = rank % 2 ? "cpu:0-1" : "cpu:0", .cluster = cluster, .resumed = *(bool *)user};
    train(&w, &of_rank[rank]);
}

static void assert_ranks_train(int ranks, bool resumed)
{
    memset(of_rank, 0, sizeof of_rank);
    wire_run(ranks, train_rank, &resumed);
    for (int r = 0; r < ranks; r++)
        assert_memory_equal(&of_rank[r], &alone, sizeof alone);
}

static void bits_do_not_depend_on_devices_or_ranks(void **state)
{
    (void)state;
    static const char *const lists[] = {"cpu:0-1", "cpu:0-2", "cpu:0-15"};
    for (int i = 0; i < 3; i++)
        assert_trains(&(way){.G = lists[i]});
    assert_trains(&(way){.G = "cpu:0-1", .D = "cpu:1-3"});
    for (int ranks = 1; ranks <= 3; ranks++)
        assert_ranks_train(ranks, false);
    print_message("gan: %.16s and %.16s on 1, 2, 3 and 16 devices and 1, 2 and 3 ranks\n", alone.G, alone.D);
}

static bool checkpoints_are_written(void)
{
    ls_session *s = ls_open(NULL);
    const bool written = ls_checkpoints_open(begin(s, test_cpus(1)).g, NULL, test_path("none"), NULL) != NULL;
    ls_close(s);
    return written;
}

static void train_until_killed(void)
{
    train(&(way){.G = "cpu:0", .killed = true}, &(outcome){.G = ""});
}

/* On one device; it goes on on three, and over two ranks. */
static void a_run_that_was_killed_goes_on(void **state)
{
    (void)state;
    if (!checkpoints_are_written())
        test_not_run("this build writes no checkpoints");
    test_killed(train_until_killed);
    assert_trains(&(way){.G = "cpu:0-2", .resumed = true});
    assert_ranks_train(2, true);
}

/* ---- Cards ---- */

static void cards_have_these_bits(void **state)
{
    (void)state;
    static const char *const lists[][2] = {{"cuda:0"}, {"cuda:0x2,cpu:0"}, {"cuda:0", "cpu:0-1"}};
    for (int i = 0; i < 3; i++)
        assert_trains(&(way){.G = lists[i][0], .D = lists[i][1], .small = true});
    print_message("gan: %.16s and %.16s on a card, on two parts of one, and beside cores\n", alone.G, alone.D);
}

static int main_on_cards(void)
{
    char why[256] = "";
    const struct CMUnitTest tests[] = {cmocka_unit_test(cards_have_these_bits)};
    return ls_card_count(why, sizeof why) ? cmocka_run_group_tests(tests, NULL, NULL) : test_none_run("%s", why);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_in_pytorch),
        cmocka_unit_test(bits_do_not_depend_on_devices_or_ranks),
        cmocka_unit_test_setup_teardown(a_run_that_was_killed_goes_on, test_folder_make, test_folder_remove),
    };
    if (argc > 1 && strcmp(argv[1], "cards") == 0)
        return main_on_cards();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
