/* Modules and parameters with several uses in one network: against PyTorch's figures in float64
 * (tests/reference/make_shared_weights.py), against a network without shared ones, on any number of devices and ranks;
 * names, draws of dropout; what is refused. */
#include "files.h"
#include "reference_cases.h"
#include "thread_wire.h"

#include <lockstep_nn.h>
#include <lockstep_train.h>
#include <lockstep_weights.h>

#include "io/safetensors.h"
#include "training.h"

enum { ROWS = 12, SIDE = 4, CLASSES = 3, BATCH = 6, MIDDLE = 5, FEATURES = 32, LONGEST = 512 };

static ls_data *open_images(ls_session *s)
{
    uint8_t pixels[ROWS * SIDE * SIDE], labels[ROWS];
    test_make_images(pixels, sizeof pixels, labels, ROWS, CLASSES);
    return ls_data_from_memory(s, pixels, labels, ROWS, 1, SIDE, SIDE, CLASSES, &(ls_loader){.batch = BATCH});
}

static void assert_done(ls_session *s)
{
    if (ls_wait(s) != LS_OK)
        fail_msg("%s", ls_message(s));
}

static void assert_ends(ls_session *s, ls_status status, const char *words)
{
    assert_int_equal(ls_status_of(s), status);
    if (!strstr(ls_message(s), words))
        fail_msg("%s", ls_message(s));
    ls_close(s);
}

/* ---- A network whose modules are used so often, shared or each use with values of its own ---- */

enum { MOST_USES = 4 };
typedef struct uses {
    int convolutions, norms, batch_norms;
    bool apart, drops;
} uses;

/* "again", or of the use k, from 0, "again.k" where they are apart. */
static const char *name_of(const uses *u, const char *name, int k)
{
    static _Thread_local char text[32];
    snprintf(text, sizeof text, u->apart && k ? "%s_%d" : "%s", name, k);
    return text;
}

static ls_tensor *forward(ls_module *self, ls_tensor *x)
{
    const uses *u = ls_module_user(self);
    x = ls_module_call(self, "in", x);
    for (int k = 0; k < u->convolutions; k++) {
        x = ls_tanh(ls_module_call(self, name_of(u, "again", k), x));
        if (k < u->norms)
            x = ls_module_call(self, name_of(u, "norm", k), x);
        if (k < u->batch_norms)
            x = ls_module_call(self, name_of(u, "bn", k), x);
        if (u->drops)
            x = ls_module_call(self, "drop", x);
    }
    ls_tensor *h = ls_flatten(x), *W = ls_module_parameter(self, "W", LS_SHAPE(MIDDLE, FEATURES));
    ls_tensor *back = u->apart ? ls_module_parameter(self, "W_1", LS_SHAPE(MIDDLE, FEATURES)) : W;
    ls_tensor *y = ls_add(ls_scale(h, 0.5), ls_matmul(ls_linear(h, W, NULL), back));
    return ls_module_call(self, "fc", y);
}

static ls_module *make_network(ls_session *s, const uses *u)
{
    const ls_conv same = {.padding = 1};
    ls_module *net = ls_block(s, forward, (void *)u);
    ls_module_append(net, "in", ls_nn_conv2d(s, 2, 3, &same));
    for (int k = 0; k < (u->apart ? u->convolutions : 1); k++)
        ls_module_append(net, name_of(u, "again", k), ls_nn_conv2d(s, 2, 3, &same));
    for (int k = 0; k < (u->apart ? u->norms : 1); k++)
        ls_module_append(net, name_of(u, "norm", k), ls_nn_layer_norm(s, &(ls_norm){.eps = 0.125}));
    for (int k = 0; k < (u->apart ? u->batch_norms : 1); k++)
        ls_module_append(net, name_of(u, "bn", k), ls_nn_batch_norm_with(s, &(ls_norm){.momentum = 0.25}));
    ls_module_append(net, "drop", ls_nn_dropout(s, 0.25));
    ls_module_append(net, "fc", ls_nn_linear(s, CLASSES));
    return net;
}

static const char *const names[] = {"in.weight", "in.bias",   "again.weight", "again.bias",      "norm.weight",
                                    "norm.bias", "bn.weight", "bn.bias",      "bn.running_mean", "bn.running_var",
                                    "W",         "fc.weight", "fc.bias"};
enum { NAMES = sizeof names / sizeof *names };

/* ---- PyTorch's figures ---- */

static void run_figures(ls_session *s, const json_t *one)
{
    const uses u = {.convolutions = (int)json_integer_value(json_object_get(one, "convolutions")),
                    .norms = (int)json_integer_value(json_object_get(one, "norms")),
                    .batch_norms = (int)json_integer_value(json_object_get(one, "batch_norms"))};
    const int scope = ls_enter(s);
    ls_data *data = open_images(s);
    ls_module *net = make_network(s, &u);
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0-1"), &(ls_init){.like = data});
    assert_int_equal(ls_module_parameter_count(net), NAMES);
    write_recorded(net, json_object_get(one, "start"), names, NAMES);
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.0625, .momentum = 0.9});
    int done = 0, n;
    double *losses = recorded_numbers(one, "losses", &n), worst = 0;
    test_train(s, net, trainer, data, &done, n);
    assert_done(s);
    ls_report report;
    for (int k = 0; ls_trainer_next_report(trainer, &report); k++)
        worst = fmax(worst, fabs(report.loss / losses[k] - 1));
    for (int i = 0; i < NAMES; i++)
        worst = fmax(worst, off_by_recorded(ls_module_param(net, names[i], ls_host()), one, names[i]));
    if (worst > 1e-5)
        fail_msg("%s: off by %.2g", recorded_name(one), worst);
    free(losses);
    ls_leave(s, scope);
}

static void as_in_pytorch(void **state)
{
    (void)state;
    run_reference_cases("shared_weights", 3, &(ls_options){.shard = BATCH}, run_figures);
}

/* ---- Beside a network in which each use has values of its own ---- */

/* A parameter that has so many uses, or as many parameters in the network of which each use has its own. */
typedef struct shared {
    const char *name, *part;
    int of;
} shared;

static int64_t numbers_of(ls_module *net, const char *name)
{
    ls_parameter_info info;
    for (int i = 0; i < ls_module_parameter_count(net); i++)
        if (ls_module_parameter_at(net, i, &info) == LS_OK && strcmp(info.name, name) == 0)
            return info.numbers;
    fail_msg("no %s", name);
    return 0;
}

static void copy_values(ls_module *from, ls_module *to, const uses *u, const shared *p)
{
    float values[LONGEST];
    char name[48];
    snprintf(name, sizeof name, "%s%s", p->name, p->part);
    const int64_t n = numbers_of(from, name);
    assert_true(n <= LONGEST);
    assert_int_equal(ls_module_read_parameter(from, name, values, n), LS_OK);
    for (int k = 0; k < p->of; k++) {
        snprintf(name, sizeof name, "%s%s", name_of(u, p->name, k), p->part);
        assert_int_equal(ls_module_write_parameter(to, name, values, n), LS_OK);
    }
}

/* The gradient of a shared parameter, one shard's, is that of the last use, plus that of the use before it, and so on.
 */
static void assert_sum(ls_module *together, ls_module *apart, const uses *u, const shared *p)
{
    static float sum[LONGEST], more[LONGEST], got[LONGEST];
    char name[48];
    snprintf(name, sizeof name, "%s%s", p->name, p->part);
    const int64_t n = numbers_of(together, name);
    assert_true(n > 0 && n <= LONGEST);
    if (test_read_gradient(together, name, got, n) != LS_OK)
        fail_msg("%s", ls_message(ls_session_of(together)));
    for (int k = p->of - 1; k >= 0; k--) {
        snprintf(name, sizeof name, "%s%s", name_of(u, p->name, k), p->part);
        assert_int_equal(test_read_gradient(apart, name, more, n), LS_OK);
        for (int64_t i = 0; i < n; i++)
            sum[i] = k == p->of - 1 ? more[i] : sum[i] + more[i];
    }
    if (memcmp(got, sum, (size_t)n * sizeof *got) != 0)
        fail_msg("%s%s", p->name, p->part);
}

static void gradients_are_the_sum_of_all_uses(void **state)
{
    (void)state;
    for (int norms = 1; norms <= 3; norms++) {
        const uses together = {.convolutions = MOST_USES, .norms = norms, .batch_norms = norms},
                   apart = {MOST_USES, norms, norms, .apart = true};
        const shared all[] = {{"in", ".weight", 1},
                              {"in", ".bias", 1},
                              {"fc", ".weight", 1},
                              {"fc", ".bias", 1},
                              {"again", ".weight", MOST_USES},
                              {"again", ".bias", MOST_USES},
                              {"norm", ".weight", norms},
                              {"norm", ".bias", norms},
                              {"bn", ".weight", norms},
                              {"bn", ".bias", norms},
                              {"W", "", 2}};
        ls_session *s = ls_open(&(ls_options){.shard = BATCH});
        ls_data *data = open_images(s);
        ls_module *nets[] = {make_network(s, &together), make_network(s, &apart)};
        ls_batch batch;
        for (int i = 0; i < 2; i++)
            ls_module_initialize(nets[i], ls_parse_devices(s, "cpu:0"), &(ls_init){.kind = LS_XAVIER, .like = data});
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            copy_values(nets[0], nets[1], &apart, &all[i]);
        assert_true(ls_data_next(data, &batch));
        for (int i = 0; i < 2; i++) {
            ls_trainer_new(nets[i], LS_SGD, &(ls_optim){.lr = 0.1});
            ls_backward(test_losses(nets[i], &batch));
        }
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            assert_sum(nets[0], nets[1], &apart, &all[i]);
        assert_int_equal(ls_close(s), LS_OK);
    }
}

/* ---- Devices and ranks ---- */

typedef struct way {
    int devices;
    const char *frozen;
    ls_cluster *cluster;
} way;

static void go(const way *w, char digits[65])
{
    const uses u = {.convolutions = 3, .norms = 2, .batch_norms = 3, .drops = true};
    ls_session *s = ls_open(&(ls_options){.shard = 2, .cluster = w->cluster});
    ls_data *data = open_images(s);
    ls_module *net = make_network(s, &u);
    ls_module_initialize(net, test_cpus(w->devices), &(ls_init){.kind = LS_XAVIER, .like = data});
    if (w->frozen)
        ls_module_freeze(net, w->frozen, true);
    ls_trainer *trainer = ls_trainer_new(net, LS_ADAM, &(ls_optim){.lr = 0.0625});
    int done = 0;
    test_train(s, net, trainer, data, &done, 5);
    assert_done(s);
    assert_int_equal(ls_module_fingerprint(net, digits), LS_OK);
    assert_int_equal(ls_close(s), LS_OK);
}

typedef struct over {
    way w;
    char digits[WIRE_RANKS][65];
} over;

static void run_rank(ls_cluster *cluster, int rank, void *user)
{
    over *o = user;
    way w = o->w;
    w.cluster = cluster;
    w.devices = 1 + rank % 2;
    go(&w, o->digits[rank]);
}

static void bits_do_not_depend_on_devices_or_ranks(void **state)
{
    (void)state;
    static const char *const frozen[] = {NULL, "again.*", "W", "bn.running_*"};
    char all[4][65];
    for (int k = 0; k < 4; k++) {
        static over o;
        char digits[65];
        go(&(way){.devices = 1, .frozen = frozen[k]}, all[k]);
        for (int devices = 2; devices <= 3; devices++) {
            go(&(way){.devices = devices, .frozen = frozen[k]}, digits);
            assert_string_equal(digits, all[k]);
        }
        o.w = (way){.frozen = frozen[k]};
        for (int ranks = 2; ranks <= 3; ranks++) {
            wire_run(ranks, run_rank, &o);
            for (int r = 0; r < ranks; r++)
                assert_string_equal(o.digits[r], all[k]);
        }
    }
    assert_string_not_equal(all[0], all[1]);
    assert_string_not_equal(all[0], all[2]);
    assert_string_not_equal(all[0], all[3]);
}

/* ---- Places and names ---- */

static ls_module *initialized(ls_session *s, ls_module *net, ls_data *data)
{
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.kind = LS_XAVIER, .like = data});
    return net;
}

/* Listed in one list, and in two lists that are joined later: the first place names it. */
static void the_first_place_names_a_module(void **state)
{
    (void)state;
    for (int joined = 0; joined < 2; joined++) {
        ls_session *s = ls_open(NULL);
        ls_data *data = open_images(s);
        ls_module *layer = ls_nn_linear(s, SIDE * SIDE), *flat = ls_nn_fn(s, ls_flatten),
                  *end = ls_nn_linear(s, CLASSES);
        ls_module *net;
        if (joined) {
            ls_module *front = ls_sequential(s, LS_LIST(flat, layer)), *back = ls_sequential(s, LS_LIST(layer, end));
            net = ls_sequential(s, LS_LIST(front, back, end));
            assert_non_null(net);
        } else {
            net = ls_sequential(s, LS_LIST(flat, layer, ls_nn_fn(s, ls_relu), layer, end));
        }
        if (joined) {
            ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.like = data});
            assert_ends(s, LS_BAD_SHAPE, "parameter 1.1.weight: asked for as");
            continue;
        }
        initialized(s, net, data);
        static const char *const expected[] = {"1.weight", "1.bias", "4.weight", "4.bias"};
        assert_int_equal(ls_module_parameter_count(net), 4);
        for (int i = 0; i < 4; i++) {
            ls_parameter_info info;
            assert_int_equal(ls_module_parameter_at(net, i, &info), LS_OK);
            assert_string_equal(info.name, expected[i]);
        }
        assert_int_equal(ls_close(s), LS_OK);
    }
}

/* Writes the network's values to `w`: those of "1" under both of its places, or under the later one alone. */
static void save_both(ls_module *net, bool first_too, float change)
{
    static float values[4][LONGEST];
    static const char *const by[][2] = {
        {"1.weight", "3.weight"}, {"1.bias", "3.bias"}, {"4.weight", NULL}, {"4.bias", NULL}};
    ls_named_array arrays[6];
    ls_parameter_info info[4];
    int n = 0;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(ls_module_parameter_at(net, i, &info[i]), LS_OK);
        assert_string_equal(info[i].name, by[i][0]);
        assert_int_equal(ls_module_read_parameter(net, by[i][0], values[i], info[i].numbers), LS_OK);
        if (first_too || !by[i][1])
            arrays[n++] = (ls_named_array){by[i][0], info[i].rank, info[i].shape, values[i]};
    }
    static float others[2][LONGEST];
    for (int i = 0; i < 2; i++) {
        memcpy(others[i], values[i], sizeof others[i]);
        others[i][0] += change;
        arrays[n++] = (ls_named_array){by[i][1], info[i].rank, info[i].shape, others[i]};
    }
    assert_int_equal(ls_safetensors_save(test_context(), test_path("w"), arrays, n, NULL, 0), LS_OK);
    test_context_done();
}

/* PyTorch's state_dict has a shared module under each of its names, safetensors' save_model under one of them. */
static void files_by_any_of_its_names_are_read(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_data *data = open_images(s);
    ls_module *net[2];
    for (int i = 0; i < 2; i++) {
        ls_module *layer = ls_nn_linear(s, SIDE * SIDE);
        net[i] = ls_sequential(
            s, LS_LIST(ls_nn_fn(s, ls_flatten), layer, ls_nn_fn(s, ls_relu), layer, ls_nn_linear(s, CLASSES)));
        ls_module_initialize(net[i], ls_parse_devices(s, "cpu:0"),
                             &(ls_init){.kind = i ? LS_HE : LS_XAVIER, .like = data});
    }
    const uint64_t wanted = ls_module_checksum(net[0]), before = ls_module_checksum(net[1]);
    const char *report;
    assert_true(wanted != before);
    save_both(net[0], true, 1);
    assert_int_equal(ls_module_load(net[1], test_path("w")), LS_BAD_FILE);
    assert_non_null(strstr(ls_message(s), "1.bias and 3.bias differ, and are one parameter of the network; "
                                          "ls_load_options.skip leaves one out"));
    assert_true(ls_catch(s, LS_BAD_FILE));
    assert_true(ls_module_checksum(net[1]) == before);
    const char *const skipped[] = {"3.*", NULL};
    assert_int_equal(ls_module_load_with(net[1], test_path("w"), &(ls_load_options){.skip = skipped}, &report), LS_OK);
    assert_true(ls_module_checksum(net[1]) == wanted);
    for (int first_too = 0; first_too < 2; first_too++) {
        save_both(net[0], first_too, 0);
        ls_module_write_parameter(net[1], "1.bias", (float[SIDE * SIDE]){1}, SIDE * SIDE);
        assert_int_equal(ls_module_load_with(net[1], test_path("w"), NULL, &report), LS_OK);
        assert_string_equal(report, "read 4 of 4 parameters");
        assert_true(ls_module_checksum(net[1]) == wanted);
    }
    assert_int_equal(ls_close(s), LS_OK);
}

static ls_tensor *twice_dropped(ls_module *self, ls_tensor *x)
{
    ls_tensor *a = ls_module_call(self, "drop", x), *b = ls_module_call(self, "drop", x);
    return ls_module_call(self, "fc", ls_flatten(ls_subtract(a, b)));
}

/* Where both uses drew the same, the difference would be zero, and the last layer's weight would have no gradient. */
static void each_use_of_dropout_draws_for_itself(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_data *data = open_images(s);
    ls_module *net = ls_block(s, twice_dropped, NULL);
    ls_module_append(net, "drop", ls_nn_dropout(s, 0.5));
    ls_module_append(net, "fc", ls_nn_linear(s, CLASSES));
    initialized(s, net, data);
    ls_batch batch;
    float gradient[CLASSES * SIDE * SIDE];
    int others = 0;
    assert_true(ls_data_next(data, &batch));
    ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    ls_backward(test_losses(net, &batch));
    assert_int_equal(test_read_gradient(net, "fc.weight", gradient, CLASSES * SIDE * SIDE), LS_OK);
    for (int i = 0; i < CLASSES * SIDE * SIDE; i++)
        others += gradient[i] != 0;
    assert_true(others > 0);
    assert_int_equal(ls_close(s), LS_OK);
}

/* ---- What is refused ---- */

static void two_networks_share_nothing(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_data *data = open_images(s);
    ls_module *layer = ls_nn_linear(s, CLASSES);
    initialized(s, ls_sequential(s, LS_LIST(ls_nn_fn(s, ls_flatten), layer)), data);
    ls_module_append(ls_sequential(s, NULL), "other", layer);
    assert_ends(s, LS_BAD_ARGUMENT,
                "ls_module_append: \"other\" is \"1\" of another network, which has values; two networks cannot share "
                "weights: initialize what they share as a network of its own, and call ls_module_forward of one on the "
                "other's result");
    s = ls_open(NULL);
    data = open_images(s);
    layer = ls_nn_linear(s, CLASSES);
    ls_sequential(s, LS_LIST(ls_nn_fn(s, ls_flatten), layer));
    initialized(s, ls_sequential(s, LS_LIST(ls_nn_fn(s, ls_flatten), layer)), data);
    assert_ends(
        s, LS_BAD_ARGUMENT,
        "ls_module_call: a module called at \"the network\" is \"1\" of another network; two networks cannot share "
        "weights: initialize what they share as a network of its own, and call ls_module_forward of one on the other's "
        "result");
}

static void a_child_is_of_the_same_session(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL), *other = ls_open(NULL);
    ls_module_append(ls_sequential(s, NULL), "child", ls_nn_linear(other, CLASSES));
    assert_ends(s, LS_BAD_ARGUMENT, "ls_module_append: \"child\" belongs to another session");
    assert_int_equal(ls_close(other), LS_OK);
}

/* Each of many levels lists the one below twice: a walk over all places would not end. */
static void deep_sharing_is_quick(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_module *level = ls_nn_fn(s, ls_relu);
    for (int i = 0; i < 64; i++)
        level = ls_sequential(s, LS_LIST(level, level));
    assert_non_null(level);
    assert_int_equal(ls_close(s), LS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_in_pytorch),
        cmocka_unit_test(gradients_are_the_sum_of_all_uses),
        cmocka_unit_test(bits_do_not_depend_on_devices_or_ranks),
        cmocka_unit_test(the_first_place_names_a_module),
        cmocka_unit_test_setup_teardown(files_by_any_of_its_names_are_read, test_folder_make, test_folder_remove),
        cmocka_unit_test(each_use_of_dropout_draws_for_itself),
        cmocka_unit_test(two_networks_share_nothing),
        cmocka_unit_test(a_child_is_of_the_same_session),
        cmocka_unit_test(deep_sharing_is_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
