/* The networks of examples/networks, whose programs the tests take as they are: five steps against PyTorch's from the
 * same weights (tests/reference/make_networks.py), one fingerprint on any number of devices and ranks, after a kill and
 * on cards, and what other programs read (bench/agreement). */
#include "example_network.h"

#include "device/cards.h"
#include "files.h"
#include "killed.h"
#include "not_run.h"
#include "reference_cases.h"
#include "thread_wire.h"

#include <lockstep_checkpoint.h>
#include <lockstep_data.h>
#include <lockstep_train.h>

#include "training.h"

enum { BATCH = 8, STEPS = EXAMPLE_ROWS / BATCH, TRAINED = 3, KILLED = 1 /* behind this step */ };

static const example *of; /* whose test this is */

static void assert_done(ls_session *s)
{
    if (ls_wait(s) != LS_OK)
        fail_msg("%s", ls_message(s));
}

/* ---- The same start ---- */

static uint32_t number_of(const char *name) /* FNV-1a */
{
    uint32_t x = 2166136261u;
    for (; *name; name++)
        x = (x ^ (uint8_t)*name) * 16777619u;
    return x;
}

static bool ends_with(const char *text, const char *end)
{
    return strlen(text) >= strlen(end) && strcmp(text + strlen(text) - strlen(end), end) == 0;
}

/* Uniform around 0, as wide as the inputs of a row ask for; of vectors an eighth to either side, of 1 where they
 * multiply or divide. */
static void start(const ls_parameter_info *info, float *values, void *user)
{
    (void)user;
    const bool one = info->rank == 1 && (ends_with(info->name, "weight") || ends_with(info->name, "running_var"));
    const double wide = info->rank == 1 ? 0.25 : 3 / sqrt((double)info->numbers / (double)info->shape[0]);
    uint32_t x = number_of(info->name);
    for (int64_t i = 0; i < info->numbers; i++) {
        x = x * 1664525u + 1013904223u;
        values[i] = (float)(((x >> 8) / 16777216.0 - 0.5) * wide + one);
    }
}

static ls_module *started(ls_session *s, ls_devices devices, const ls_data *like)
{
    ls_module *net = of->network(s);
    ls_module_initialize(net, devices, &(ls_init){.like = like});
    if (ls_module_apply(net, start, NULL) != LS_OK)
        fail_msg("%s", ls_message(s));
    return net;
}

static ls_trainer *new_trainer(ls_module *net, ls_optimizer kind, const ls_optim *options)
{
    ls_trainer *trainer = ls_trainer_new(net, kind, options);
    if (of->groups)
        of->groups(trainer);
    return trainer;
}

/* Returns the last batch. */
static ls_batch take_steps(ls_module *net, ls_trainer *trainer, ls_data *data, int steps)
{
    ls_batch b = {.n_inputs = 0};
    for (int i = 0; i < steps && test_next(data, &b); i++) {
        ls_backward(of->loss(net, &b));
        ls_trainer_step(trainer);
    }
    return b;
}

/* ---- PyTorch's figures ---- */

/* How far parameters have come, as the norm of the difference. */
typedef struct way {
    const json_t *names;
    const double *moved;
    double worst;
} way;

static void compare_move(const ls_parameter_info *info, float *values, void *user)
{
    way *w = user;
    size_t k = 0;
    const char *name;
    while ((name = json_string_value(json_array_get(w->names, k))) && strcmp(name, info->name) != 0)
        k++;
    if (!name)
        fail_msg("%s: %s is not recorded", of->name, info->name);
    float *first = malloc((size_t)info->numbers * sizeof *first);
    double sum = 0;
    start(info, first, NULL);
    for (int64_t i = 0; i < info->numbers; i++)
        sum += ((double)values[i] - (double)first[i]) * ((double)values[i] - (double)first[i]);
    /* Some gradients are but rounding, such as those of biases before a BatchNorm. */
    w->worst = fmax(w->worst, fabs(sqrt(sum) - w->moved[k]) / fmax(w->moved[k], 1e-4));
    free(first);
}

static void run_figures(ls_session *s, const json_t *one)
{
    if (strcmp(recorded_name(one), of->name) != 0)
        return;
    const bool adam = strcmp(json_string_value(json_object_get(one, "optimizer")), "AdamW") == 0;
    const int scope = ls_enter(s);
    ls_data *data = of->rows(s, &(ls_loader){.batch = BATCH});
    ls_module *net = started(s, test_cpus(1), data);
    ls_trainer *trainer = adam ? new_trainer(net, LS_ADAMW, &(ls_optim){.lr = 0.003, .weight_decay = 0.01})
                               : new_trainer(net, LS_SGD, &(ls_optim){.lr = 0.03125, .momentum = 0.9});
    take_steps(net, trainer, data, STEPS);
    assert_done(s);
    int n;
    double *losses = recorded_numbers(one, "losses", &n), worst = 0;
    assert_int_equal(n, STEPS);
    ls_report report;
    for (int k = 0; k < n; k++) {
        assert_true(ls_trainer_next_report(trainer, &report));
        worst = fmax(worst, fabs(report.loss / losses[k] - 1));
    }
    double *moved = recorded_numbers(one, "moved", &n); /* of SGD: a step of Adam is as long where all is rounding */
    way w = {.names = json_object_get(one, "names"), .moved = moved};
    if (moved) {
        assert_int_equal(n, ls_module_parameter_count(net));
        assert_int_equal(ls_module_apply(net, compare_move, &w), LS_OK);
    }
    print_message("%s, %s: loss %.4f to %.4f, off by %.1e", of->name, adam ? "AdamW" : "SGD", losses[0],
                  losses[STEPS - 1], worst);
    print_message(moved ? "; what moved, by %.1e of its way\n" : "\n", w.worst);
    /* Where numbers meet, in ReLU or max pooling, float32 may go another way than float64: PyTorch's does so too. */
    assert_true(worst < 1e-4 && w.worst < 1e-2);
    free(losses);
    free(moved);
    ls_leave(s, scope);
}

static void as_in_pytorch(void **state)
{
    (void)state;
    run_reference_cases("networks", 18, &(ls_options){.shard = BATCH}, run_figures);
}

/* ---- One fingerprint ---- */

typedef struct how {
    const char *devices;
    ls_cluster *cluster;
    bool killed, resumed;
    bool small; /* what emulated cards take a moderate time for */
} how;

/* Is killed in the middle of a step, the last checkpoint behind it. */
static void end_by_a_kill(ls_module *net, ls_trainer *trainer, ls_data *data, ls_checkpoints *kept)
{
    ls_checkpoint_save(kept, NULL);
    assert_int_equal(ls_checkpoint_wait(kept), LS_OK);
    take_steps(net, trainer, data, 1);
    test_kill();
}

static ls_checkpoints *keep(ls_trainer *trainer, ls_data *data)
{
    return ls_checkpoints_open(trainer, data, test_path("kept"), NULL);
}

/* Returns the session's status at its end; where that is LS_UNSUPPORTED, the message has the words of what cards
 * refuse.
 */
static ls_status train(const how *h, char digits[65])
{
    ls_session *s = ls_open(&(ls_options){.shard = 2, .cluster = h->cluster});
    ls_data *data = of->rows(s, &(ls_loader){.batch = h->small ? 4 : 32, .shuffle = true});
    ls_module *net = started(s, ls_parse_devices(s, h->devices), data);
    ls_trainer *trainer = new_trainer(net, LS_ADAMW, &(ls_optim){.lr = 0.003, .clip_norm = 1});
    ls_checkpoints *kept = h->killed || h->resumed ? keep(trainer, data) : NULL;
    ls_checkpoint at = {.step = 0};
    if (h->resumed)
        assert_true(ls_checkpoint_load(kept, &at) && at.step == KILLED);
    take_steps(net, trainer, data, (h->killed ? KILLED : h->small ? 2 : TRAINED) - (int)at.step);
    if (h->killed)
        end_by_a_kill(net, trainer, data, kept);
    if (ls_wait(s) == LS_OK)
        assert_int_equal(ls_module_fingerprint(net, digits), LS_OK);
    else if (ls_status_of(s) != LS_UNSUPPORTED || !of->refused || !strstr(ls_message(s), of->refused))
        fail_msg("%s on %s: %s", of->name, h->devices, ls_message(s));
    return ls_close(s);
}

static char alone[65];

static void assert_trains(const how *h)
{
    char digits[65];
    assert_int_equal(train(h, digits), LS_OK);
    assert_string_equal(digits, alone);
}

typedef struct over {
    bool resumed;
    char digits[WIRE_RANKS][65];
} over;

static void train_rank(ls_cluster *cluster, int rank, void *user)
{
    over *o = user;
    const how h = {.devices = rank % 2 ? "cpu:0-1" : "cpu:0", .cluster = cluster, .resumed = o->resumed};
    train(&h, o->digits[rank]);
}

static void assert_ranks_train(int ranks, bool resumed)
{
    over o = {.resumed = resumed};
    wire_run(ranks, train_rank, &o);
    for (int r = 0; r < ranks; r++)
        assert_string_equal(o.digits[r], alone);
}

static void bits_do_not_depend_on_devices_or_ranks(void **state)
{
    (void)state;
    static const char *const lists[] = {"cpu:0-1", "cpu:0-2", "cpu:0-15"};
    assert_int_equal(train(&(how){.devices = "cpu:0"}, alone), LS_OK);
    for (int i = 0; i < 3; i++)
        assert_trains(&(how){.devices = lists[i]});
    for (int ranks = 1; ranks <= 3; ranks++)
        assert_ranks_train(ranks, false);
    print_message("%s: %.16s on 1, 2, 3 and 16 devices and 1, 2 and 3 ranks\n", of->name, alone);
}

static bool checkpoints_are_written(void)
{
    ls_session *s = ls_open(NULL);
    ls_data *data = of->rows(s, NULL);
    ls_module *net = started(s, test_cpus(1), data);
    const bool written = keep(new_trainer(net, LS_SGD, &(ls_optim){.lr = 0.1}), data) != NULL;
    ls_close(s);
    return written;
}

static void train_until_killed(void)
{
    char digits[65];
    train(&(how){.devices = "cpu:0", .killed = true}, digits);
}

/* On one device; it goes on on three, and over two ranks. */
static void a_run_that_was_killed_goes_on(void **state)
{
    (void)state;
    if (!checkpoints_are_written())
        test_not_run("this build writes no checkpoints");
    test_killed(train_until_killed);
    assert_trains(&(how){.devices = "cpu:0-2", .resumed = true});
    assert_ranks_train(2, true);
}

/* ---- Cards ---- */

static void train_few_until_killed(void)
{
    char digits[65];
    train(&(how){.devices = "cpu:0", .killed = true, .small = true}, digits);
}

/* In float32 a card has a core's bits, alone, and as two beside a core, which go on where a core was killed. */
static void cards_have_these_bits(void **state)
{
    (void)state;
    char digits[65];
    assert_int_equal(train(&(how){.devices = "cpu:0", .small = true}, alone), LS_OK);
    if (of->refused) {
        assert_int_equal(train(&(how){.devices = "cuda:0", .small = true}, digits), LS_UNSUPPORTED);
        print_message("%s: cards refuse it\n", of->name);
        return;
    }
    const bool killed = checkpoints_are_written();
    if (killed)
        test_killed(train_few_until_killed);
    else
        test_part_not_run("a run that goes on on cards", "this build writes no checkpoints");
    assert_trains(&(how){.devices = "cuda:0", .small = true});
    assert_trains(&(how){.devices = "cuda:0x2,cpu:0", .small = true, .resumed = killed});
    print_message("%s: %.16s on a core, a card, and two parts of one beside a core\n", of->name, alone);
}

/* ---- For other programs ---- */

static const char *in_folder(const char *folder, const char *ending)
{
    static char path[4][512];
    static int turn;
    char *to = path[turn++ % 4];
    snprintf(to, sizeof *path, "%s/%s%s", folder, of->name, ending);
    return to;
}

static void save(ls_session *s, ls_tensor *tensor, const char *path)
{
    const int64_t rows = ls_rows(tensor), columns = test_numbers_of(tensor) / rows;
    float *values = malloc((size_t)(rows * columns) * sizeof *values);
    if (ls_read(tensor, values, rows * columns) == LS_OK)
        ls_save_npy(s, path, values, rows, columns);
    free(values);
}

/* After some steps, so that running statistics are real ones: the model, its weights, and its inputs and outputs as
 * rows of numbers. */
static int write_for_others(const char *folder)
{
    static const char *const inputs[LS_MAX_INPUTS] = {"_in.npy", "_in1.npy", "_in2.npy", "_in3.npy"};
    ls_session *s = ls_open(NULL);
    ls_data *data = of->rows(s, &(ls_loader){.batch = EXAMPLE_ROWS});
    ls_module *net = of->network(s);
    ls_module_initialize(net, test_cpus(1), &(ls_init){.kind = LS_XAVIER, .like = data});
    ls_trainer *trainer = new_trainer(net, LS_ADAMW, &(ls_optim){.lr = 0.003});
    const ls_batch b = take_steps(net, trainer, data, 5);
#if LOCKSTEP_HAVE_PROTOBUF_C
    ls_module_export_onnx(net, in_folder(folder, ".onnx"));
#endif
    ls_module_save(net, in_folder(folder, ".safetensors"));
    for (int i = 0; i < b.n_inputs; i++)
        save(s, b.inputs[i], in_folder(folder, inputs[i]));
    save(s, ls_module_infer_all(net, b.inputs, b.n_inputs), in_folder(folder, "_out.npy"));
    if (ls_failed(s))
        fprintf(stderr, "%s: %s\n", of->name, ls_message(s));
    return ls_close(s) != LS_OK;
}

static void it_is_written_for_others(void **state)
{
    (void)state;
    assert_int_equal(write_for_others(test_folder), 0);
#if !LOCKSTEP_HAVE_PROTOBUF_C
    test_not_run("this library was built without protobuf-c: no model");
#endif
}

static int main_on_cards(void)
{
    char why[256] = "";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(cards_have_these_bits, test_folder_make, test_folder_remove)};
    return ls_card_count(why, sizeof why) ? cmocka_run_group_tests(tests, NULL, NULL) : test_none_run("%s", why);
}

int example_main(const example *e, int argc, char **argv)
{
    of = e;
    if (argc > 1)
        return strcmp(argv[1], "cards") == 0 ? main_on_cards() : write_for_others(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_in_pytorch),
        cmocka_unit_test(bits_do_not_depend_on_devices_or_ranks),
        cmocka_unit_test_setup_teardown(a_run_that_was_killed_goes_on, test_folder_make, test_folder_remove),
        cmocka_unit_test_setup_teardown(it_is_written_for_others, test_folder_make, test_folder_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
