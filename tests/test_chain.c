/* Networks that are called on each other's results, and gradients of inputs: PyTorch's figures in float64
 * (tests/reference/make_chains.py), finite differences; whose gradients a backward pass keeps; a GAN of two networks
 * and two trainers on any devices and ranks, and after a break; what is refused. */
#include "files.h"
#include "gan.h"
#include "not_run.h"
#include "reference_cases.h"
#include "thread_wire.h"

#include <lockstep_checkpoint.h>
#include <lockstep_profile.h>

enum { STEPS = 5 };

/* ---- PyTorch's figures ---- */

/* Parameter i of a network of a case, as it is recorded: "G.0.weight". False behind the last. */
static bool recorded_key(ls_module *net, char which, int i, char key[64], ls_parameter_info *info)
{
    if (i == ls_module_parameter_count(net))
        return false;
    assert_int_equal(ls_module_parameter_at(net, i, info), LS_OK);
    snprintf(key, 64, "%c.%s", which, info->name);
    return true;
}

static void start_as_recorded(ls_module *net, char which, const json_t *one)
{
    char key[64];
    ls_parameter_info info;
    for (int i = 0, n; recorded_key(net, which, i, key, &info); i++) {
        double *values = recorded_numbers(json_object_get(one, "start"), key, &n);
        float floats[PIXELS * 8];
        assert_int_equal(n, info.numbers);
        for (int k = 0; k < n; k++)
            floats[k] = (float)values[k];
        assert_int_equal(ls_module_write_parameter(net, info.name, floats, n), LS_OK);
        free(values);
    }
}

static double off_after(ls_module *net, char which, const json_t *one)
{
    char key[64];
    ls_parameter_info info;
    double worst = 0;
    for (int i = 0; recorded_key(net, which, i, key, &info); i++)
        worst = fmax(worst, off_by_recorded(ls_module_param(net, info.name, ls_host()), one, key));
    return worst;
}

static double off_losses(ls_trainer *trainer, const json_t *one, const char *key)
{
    int n, k = 0;
    double *losses = recorded_numbers(one, key, &n), worst = 0;
    ls_report report;
    for (; ls_trainer_next_report(trainer, &report); k++)
        worst = fmax(worst, fabs(report.loss / losses[k] - 1));
    assert_int_equal(k, n);
    free(losses);
    return worst;
}

static ls_trainer *recorded_trainer(ls_module *net, const json_t *one)
{
    const bool adam = strcmp(json_string_value(json_object_get(one, "optimizer")), "Adam") == 0;
    return ls_trainer_new(net, adam ? LS_ADAM : LS_SGD,
                          &(ls_optim){.lr = json_number_value(json_object_get(one, "lr")),
                                      .eps = json_number_value(json_object_get(one, "eps")),
                                      .momentum = json_number_value(json_object_get(one, "momentum")),
                                      .full_batch = BATCH});
}

static ls_tensor *noise_of(ls_session *s, int step)
{
    float z[BATCH * CODE];
    for (int i = 0; i < BATCH * CODE; i++)
        z[i] = (float)((17 * step + 29 * i) % 65 - 32) / 32;
    return ls_values(s, z, LS_SHAPE(BATCH, CODE));
}

/* A code's cost is the decoder's error and its own size: it is used twice. */
static void encode_and_decode(gan *n, ls_tensor *x)
{
    ls_tensor *code = ls_module_forward(n->G, ls_flatten(x));
    ls_tensor *error = ls_mse(ls_module_forward(n->D, code), ls_flatten(x));
    ls_backward(ls_add(ls_scale(ls_mean_each(ls_multiply(code, code)), 0.25), error));
    ls_trainer_step(n->d);
    ls_trainer_step(n->g);
}

static void make_recorded(gan *n, const char *name)
{
    ls_session *s = n->s;
    if (strcmp(name, "dcgan") == 0) {
        n->G = of_convolutions(s);
        n->D = ls_sequential(s, LS_LIST(ls_nn_conv2d(s, 3, 4, &halves), leaky(s), ls_nn_conv2d(s, 4, 4, &halves),
                                        leaky(s), ls_nn_fn(s, ls_flatten), ls_nn_linear(s, 1)));
    } else if (strcmp(name, "mlp") == 0) {
        n->G = ls_sequential(s, LS_LIST(ls_nn_linear(s, 8), ls_nn_fn(s, ls_tanh), ls_nn_linear(s, PIXELS),
                                        ls_nn_fn(s, ls_tanh), ls_nn_fn(s, to_image)));
        n->D = ls_sequential(s, LS_LIST(ls_nn_linear(s, 8), leaky(s), ls_nn_linear(s, 1)));
    } else {
        n->G = ls_sequential(s, LS_LIST(ls_nn_linear(s, 6), ls_nn_fn(s, ls_tanh)));
        n->D = ls_sequential(s, LS_LIST(ls_nn_linear(s, PIXELS)));
    }
    n->flat = strcmp(name, "mlp") == 0;
    ls_module_initialize(n->G, test_cpus(2), NULL);
    ls_module_initialize(n->D, test_cpus(2), NULL);
}

static void run_training(ls_session *s, const json_t *one, const ls_batch *first)
{
    gan n = {.s = s};
    const char *name = recorded_name(one);
    const bool autoencoder = strcmp(name, "autoencoder") == 0;
    make_recorded(&n, name);
    if (autoencoder)
        ls_module_infer(n.D, ls_module_infer(n.G, ls_flatten(first->X)));
    else
        judged(&n, ls_module_infer(n.G, noise_of(s, 0)), 1);
    start_as_recorded(n.G, 'G', one);
    start_as_recorded(n.D, 'D', one);
    n.g = recorded_trainer(n.G, one);
    n.d = recorded_trainer(n.D, one);
    n.data = images_of(s, BATCH, false);
    ls_batch b;
    for (int k = 0; k < STEPS && test_next(n.data, &b); k++)
        if (autoencoder)
            encode_and_decode(&n, b.X);
        else
            gan_step(&n, b.X, noise_of(s, k));
    if (ls_wait(s) != LS_OK)
        fail_msg("%s: %s", name, ls_message(s));
    double worst = off_losses(n.g, one, "g_losses");
    if (!autoencoder)
        worst = fmax(worst, off_losses(n.d, one, "d_losses"));
    worst = fmax(worst, fmax(off_after(n.G, 'G', one), off_after(n.D, 'D', one)));
    print_message("%s: off by %.2g\n", name, worst);
    assert_true(worst < 1e-5);
}

/* What two networks share is a third one, in front of both: they train it in turn, and together. */
static void run_heads(ls_session *s, const json_t *one)
{
    static const char names[] = "GDH";
    ls_data *data = images_of(s, BATCH, false);
    ls_module *nets[] = {ls_sequential(s, LS_LIST(ls_nn_linear(s, 6), ls_nn_fn(s, ls_tanh))),
                         ls_sequential(s, LS_LIST(ls_nn_linear(s, CLASSES))),
                         ls_sequential(s, LS_LIST(ls_nn_linear(s, 1)))};
    ls_trainer *trainers[3];
    ls_batch b;
    ls_tensor *x = ls_zeros(s, LS_SHAPE(1, PIXELS));
    for (int i = 0; i < 3; i++) {
        ls_module_initialize(nets[i], test_cpus(1 + i), NULL);
        ls_tensor *y = ls_module_infer(nets[i], x);
        x = i == 0 ? y : x;
        start_as_recorded(nets[i], names[i], one);
        trainers[i] = recorded_trainer(nets[i], one);
    }
    for (int k = 0; k < 3 * STEPS; k++) {
        const bool first = k % 3 != 1, second = k % 3 != 0;
        if (k % 3 == 0)
            assert_true(test_next(data, &b));
        float labels[BATCH], numbers[BATCH];
        assert_int_equal(ls_read(b.y, labels, BATCH), LS_OK);
        for (int i = 0; i < BATCH; i++)
            numbers[i] = labels[i] - 1;
        ls_tensor *code = ls_module_forward(nets[0], ls_flatten(b.X)), *of_first = NULL, *of_second = NULL;
        if (first)
            of_first = ls_cross_entropy(ls_module_forward(nets[1], code), b.y);
        if (second)
            of_second = ls_mse(ls_module_forward(nets[2], code), ls_values(s, numbers, LS_SHAPE(BATCH, 1)));
        ls_backward(first && second ? ls_add(of_first, of_second) : first ? of_first : of_second);
        ls_trainer_step(trainers[0]);
        if (first)
            ls_trainer_step(trainers[1]);
        if (second)
            ls_trainer_step(trainers[2]);
    }
    if (ls_wait(s) != LS_OK)
        fail_msg("heads: %s", ls_message(s));
    double worst = off_losses(trainers[0], one, "g_losses");
    for (int i = 0; i < 3; i++)
        worst = fmax(worst, off_after(nets[i], names[i], one));
    print_message("heads: off by %.2g\n", worst);
    assert_true(worst < 1e-5);
}

static void run_gradients(ls_session *s, const json_t *one, const ls_batch *b)
{
    ls_module *net = ls_sequential(s, LS_LIST(ls_nn_conv2d(s, 2, 3, NULL), ls_nn_batch_norm(s), ls_nn_fn(s, ls_relu),
                                              ls_nn_fn(s, ls_flatten), ls_nn_linear(s, CLASSES)));
    ls_module_initialize(net, test_cpus(2), &(ls_init){.like = images_of(s, BATCH, false)});
    start_as_recorded(net, 'G', one);
    ls_tensor *x = ls_track(ls_clone(b->X, ls_host()));
    for (int training = 0; training < 2; training++) {
        ls_tensor *y = training ? ls_module_forward(net, x) : ls_module_infer(net, x);
        assert_int_equal(ls_clear_grad(x), LS_OK);
        ls_backward_for(ls_cross_entropy(y, b->y), NULL, 0);
        const double off = off_by_recorded(ls_grad(x), one, training ? "dx_training" : "dx_inference");
        print_message("gradient of the input, %s: off by %.2g\n", training ? "training" : "inference", off);
        assert_true(off < 1e-5);
    }
}

static void run_figures(ls_session *s, const json_t *one)
{
    const int scope = ls_enter(s);
    ls_data *data = images_of(s, BATCH, false);
    ls_batch b;
    assert_true(ls_data_next(data, &b));
    if (strcmp(recorded_name(one), "input") == 0)
        run_gradients(s, one, &b);
    else if (strcmp(recorded_name(one), "heads") == 0)
        run_heads(s, one);
    else
        run_training(s, one, &b);
    ls_leave(s, scope);
}

static void as_in_pytorch(void **state)
{
    (void)state;
    run_reference_cases("chains", 5, &(ls_options){.shard = BATCH}, run_figures);
}

/* ---- Gradients of inputs ---- */

static ls_tensor *gelu(ls_tensor *x)
{
    return ls_gelu(x);
}

typedef struct setup {
    ls_session *s;
    ls_module *first, *second;
    ls_trainer *of_first, *of_second;
    ls_tensor *x; /* (10, 5), tracked */
} setup;

static ls_module *dense(ls_session *s, int outputs)
{
    return ls_sequential(s, LS_LIST(ls_nn_linear(s, 7), ls_nn_fn(s, gelu), ls_nn_linear(s, outputs)));
}

/* Two networks on lists of their own. */
static setup open_setup(const char *first, const char *second, int shard)
{
    setup t = {.s = ls_open(&(ls_options){.seed = 5, .shard = shard})};
    t.first = dense(t.s, 6);
    t.second = dense(t.s, 1);
    ls_module_initialize(t.first, ls_parse_devices(t.s, first), &(ls_init){.kind = LS_XAVIER});
    ls_module_initialize(t.second, ls_parse_devices(t.s, second), &(ls_init){.kind = LS_XAVIER});
    t.x = ls_track(ls_randn(t.s, "x", 1, LS_SHAPE(10, 5)));
    ls_module_infer(t.second, ls_module_infer(t.first, t.x));
    t.of_first = ls_trainer_new(t.first, LS_SGD, &(ls_optim){.lr = 0.1});
    t.of_second = ls_trainer_new(t.second, LS_SGD, &(ls_optim){.lr = 0.1});
    return t;
}

/* A loss through both, and past the second. */
static ls_tensor *loss_of(const setup *t, ls_tensor *x, bool training)
{
    ls_tensor *(*call)(ls_module *, ls_tensor *) = training ? ls_module_forward : ls_module_infer;
    ls_tensor *code = call(t->first, ls_scale(x, 2)), *y = call(t->second, ls_tanh(code));
    return ls_add(ls_sum_each(ls_multiply(y, y)), ls_mean_each(ls_exp(code)));
}

static void gradients_of_inputs_are_slopes(void **state)
{
    (void)state;
    setup t = open_setup("cpu:0-1", "cpu:0-2", 3);
    float dx[50], x[50];
    for (int training = 0; training < 2; training++) {
        ls_clear_grad(t.x);
        assert_int_equal(ls_backward_for(loss_of(&t, t.x, training), NULL, 0), LS_OK);
        assert_int_equal(ls_read(ls_grad(t.x), dx, 50), LS_OK);
        ls_read(t.x, x, 50);
        for (int i = 0; i < 50; i += 7) {
            const double h = 1.0 / 128;
            double at[2];
            for (int side = 0; side < 2; side++) {
                float moved[50];
                memcpy(moved, x, sizeof x);
                moved[i] = (float)(x[i] + (side ? h : -h));
                at[side] = ls_item(ls_sum(loss_of(&t, ls_values(t.s, moved, LS_SHAPE(10, 5)), training)));
            }
            const double slope = (at[1] - at[0]) / (2 * h);
            if (!(fabs(slope - dx[i]) < 2e-3 * (1 + fabs(slope))))
                fail_msg("input %d: %g, not %g", i, dx[i], slope);
        }
    }
    assert_int_equal(ls_close(t.s), LS_OK);
}

/* They add up until they are cleared, and are those of the batch's parts on devices. */
static void gradients_of_inputs_add_up(void **state)
{
    (void)state;
    setup t = open_setup("cpu:0-1", "cpu:0-1", 5);
    ls_tensor *part[2], *dx[2], *loss;
    ls_backward_for(ls_sum(loss = loss_of(&t, t.x, true)), NULL, 0);
    ls_tensor *once = ls_clone(ls_grad(t.x), ls_host());
    ls_backward_for(loss_of(&t, t.x, true), NULL, 0);
    assert_same_bits(ls_grad(t.x), ls_scale(once, 2));
    ls_clear_grad(t.x);
    assert_string_equal(ls_str(ls_grad(t.x)), "empty on the host");
    assert_int_equal(ls_backward(loss_of(&t, t.x, false)), LS_OK); /* of inference: nothing else is kept */
    assert_same_bits(ls_grad(t.x), once);
    ls_trainer_step(t.of_first);
    assert_caught(t.s, LS_STALE, "ls_trainer_step: there is no fresh gradient");
    /* One network on the parts' devices. */
    ls_clear_grad(t.x);
    ls_tensor *sum = ls_sum(ls_exp(ls_module_infer(t.first, t.x)));
    ls_backward(sum);
    ls_scatter(t.x, test_cpus(2), part);
    for (int d = 0; d < 2; d++) {
        part[d] = ls_track(ls_clone(part[d], ls_cpu(d)));
        for (int time = 0; time < 2; time++)
            ls_backward(ls_sum(ls_exp(ls_module_infer(t.first, part[d]))));
        dx[d] = ls_grad(part[d]);
    }
    assert_same_bits(ls_gather(dx, 2, ls_host()), ls_scale(ls_grad(t.x), 2));
    assert_int_equal(ls_close(t.s), LS_OK);
}

/* ---- Whose gradients are kept ---- */

/* Of the first layer's weight. */
static void read_gradient(ls_module *net, float values[42])
{
    ls_tensor *weight = ls_module_param(net, "0.weight", ls_host());
    memset(values, 0, 42 * sizeof *values);
    assert_int_equal(ls_read(ls_grad(weight), values, test_numbers_of(weight)), LS_OK);
}

static void clear(ls_module *net)
{
    assert_int_equal(ls_clear_grad(ls_module_param(net, "0.weight", ls_host())), LS_OK);
}

static void gradients_are_kept_or_dropped(void **state)
{
    (void)state;
    setup t = open_setup("cpu:0-1", "cpu:0-1", 3);
    float kept[42], other[42];
    ls_tensor *plain = ls_clone(t.x, ls_host()), *loss;
    ls_backward(loss_of(&t, plain, true));
    read_gradient(t.first, kept);
    clear(t.first);
    ls_trainer_step(t.of_first);
    assert_caught(t.s, LS_STALE, "ls_trainer_step: there is no fresh gradient");
    clear(t.second);
    /* The first one's alone: the second has nothing to step with, and its gradient is none of the step's. */
    ls_backward_for(loss = ls_sum(loss_of(&t, plain, true)), &t.first, 1);
    read_gradient(t.first, other);
    assert_memory_equal(kept, other, sizeof kept);
    assert_int_equal(ls_trainer_verify(t.of_first),
                     LS_OK); /* a pass that begins from a gradient has no loss of its own */
    ls_trainer_step(t.of_second);
    assert_caught(t.s, LS_STALE, "ls_trainer_step: there is no fresh gradient");
    assert_int_equal(ls_trainer_step(t.of_first), LS_OK);
    ls_report report;
    ls_wait(t.s);
    assert_true(ls_trainer_next_report(t.of_first, &report));
    assert_true(fabs(ls_item(loss) / 10 - report.loss) < 1e-5 && report.rows == 10);
    /* The second one's alone, and by inference or detached what the first one makes is a constant. */
    ls_backward_for(loss_of(&t, plain, true), &t.second, 1);
    ls_trainer_step(t.of_first);
    assert_caught(t.s, LS_STALE, "ls_trainer_step: there is no fresh gradient");
    ls_tensor *y = ls_module_forward(t.second, ls_module_infer(t.first, t.x));
    clear(t.second);
    ls_backward(ls_sum_each(y));
    read_gradient(t.second, kept);
    assert_true(ls_item(ls_sum(ls_abs(ls_grad(t.x)))) > 0); /* through inference to what it was called on */
    clear(t.second);
    ls_clear_grad(t.x);
    ls_backward(ls_sum_each(ls_module_forward(t.second, ls_detach(ls_module_forward(t.first, t.x)))));
    read_gradient(t.second, other);
    assert_memory_equal(kept, other, sizeof kept);
    assert_string_equal(ls_str(ls_grad(t.x)), "empty on the host");
    assert_int_equal(ls_close(t.s), LS_OK);
}

/* Two networks in a chain, whichever takes its step first and on whatever devices, are the one network of both. */
static void a_chain_is_the_network_of_both(void **state)
{
    (void)state;
    uint64_t first[4], second[4];
    float a[7 * 5], b[7 * 5];
    for (int way = 0; way < 4; way++) {
        setup t = open_setup(way < 2 ? "cpu:0-1" : "cpu:0", way < 3 ? "cpu:0-1" : "cpu:2-4", 3);
        for (int k = 0; k < 3; k++) {
            ls_backward(ls_sum_each(ls_module_forward(t.second, ls_module_forward(t.first, ls_detach(t.x)))));
            ls_trainer_step(way ? t.of_first : t.of_second);
            ls_trainer_step(way ? t.of_second : t.of_first);
        }
        first[way] = ls_module_checksum(t.first);
        second[way] = ls_module_checksum(t.second);
        assert_true(first[way] == first[0] && second[way] == second[0]);
        assert_int_equal(ls_module_read_parameter(t.first, "0.weight", a, 35), LS_OK);
        assert_int_equal(ls_close(t.s), LS_OK);
    }
    setup t = open_setup("cpu:0-1", "cpu:0-1", 3);
    ls_module *both = ls_sequential(t.s, LS_LIST(dense(t.s, 6), dense(t.s, 1)));
    ls_module_initialize(both, test_cpus(2), NULL);
    ls_module_infer(both, t.x);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < ls_module_parameter_count(t.first); i++) {
            ls_parameter_info info;
            char name[64];
            float values[64];
            ls_module_parameter_at(k ? t.second : t.first, i, &info);
            snprintf(name, sizeof name, "%d.%s", k, info.name);
            ls_module_read_parameter(k ? t.second : t.first, info.name, values, info.numbers);
            assert_int_equal(ls_module_write_parameter(both, name, values, info.numbers), LS_OK);
        }
    ls_trainer *trainer = ls_trainer_new(both, LS_SGD, &(ls_optim){.lr = 0.1});
    for (int k = 0; k < 3; k++) {
        ls_backward(ls_sum_each(ls_module_forward(both, ls_detach(t.x))));
        ls_trainer_step(trainer);
    }
    assert_int_equal(ls_module_read_parameter(both, "0.0.weight", b, 35), LS_OK);
    assert_memory_equal(a, b, sizeof a);
    assert_int_equal(ls_close(t.s), LS_OK);
}

/* Labels that count differently count so in the steps of all networks; and a network may have two calls in a loss. */
static void what_a_loss_counts(void **state)
{
    (void)state;
    setup t = open_setup("cpu:0-1", "cpu:0-1", 3);
    ls_module *head = dense(t.s, 3);
    ls_module_initialize(head, test_cpus(2), &(ls_init){.kind = LS_XAVIER});
    ls_tensor *y = ls_values(t.s, (float[]){0, 1, 2, 1, 1, 0, 2, 2, 1, 0}, LS_SHAPE(10)), *x = ls_detach(t.x);
    const double weights[] = {1, 2, 0.5};
    const ls_loss options = {.has_ignore = true, .ignore = 1, .class_weights = weights};
    ls_module_infer(head, ls_module_infer(t.first, x));
    ls_trainer *trainer = ls_trainer_new(head, LS_SGD, &(ls_optim){.lr = 0.1});
    ls_backward(ls_cross_entropy_with(ls_module_forward(head, ls_module_forward(t.first, x)), y, &options));
    ls_trainer_step(t.of_first);
    ls_trainer_step(trainer);
    ls_wait(t.s);
    ls_report r[2];
    assert_true(ls_trainer_next_report(t.of_first, &r[0]) && ls_trainer_next_report(trainer, &r[1]));
    assert_true(r[0].loss == r[1].loss && r[0].correct == r[1].correct && r[0].rows == r[1].rows);
    float two[42], one[42];
    for (int way = 0; way < 2; way++) {
        ls_tensor *a = ls_sum_each(ls_module_forward(t.first, x)), *b = ls_module_forward(t.first, ls_scale(x, 0.5));
        b = ls_sum_each(ls_module_forward(t.second, ls_exp(b)));
        if (way) {
            ls_backward(a);
            ls_backward_for(b, &t.first, 1);
        } else {
            ls_backward_for(ls_add(a, b), &t.first, 1);
        }
        read_gradient(t.first, way ? two : one);
        if (way == 0)
            clear(t.first);
    }
    for (int i = 0; i < 42; i++)
        assert_true(fabsf(one[i] - two[i]) < 1e-5f * (1 + fabsf(one[i])));
    clear(t.first);
    ls_tensor *loss = ls_sum(
        ls_add(ls_sum_each(ls_module_forward(t.first, x)), ls_sum_each(ls_module_forward(t.first, ls_scale(x, 0.5)))));
    ls_backward(loss);
    ls_trainer_step(t.of_first);
    ls_wait(t.s);
    assert_true(ls_trainer_next_report(t.of_first, &r[0])); /* divided by the images once */
    assert_true(fabs(r[0].loss - ls_item(loss) / 10) < 1e-5 * fabs(r[0].loss));
    assert_int_equal(ls_close(t.s), LS_OK);
}

/* ---- The same bits ---- */

typedef struct outcome {
    char G[65], D[65];
    double losses[2][2 * STEPS];
} outcome;

typedef struct how {
    int devices;
    ls_isa isa;
    int from, to; /* steps; 0: all. With a break there are checkpoints of both */
    const ls_allocator *allocator;
} how;

static gan begin_gan(how h, ls_cluster *cluster)
{
    gan n = {
        .s = ls_open(&(ls_options){.seed = 7, .shard = 2, .isa = h.isa, .allocator = h.allocator, .cluster = cluster})};
    ls_session *s = n.s;
    n.data = images_of(s, 5, true);
    n.G = of_convolutions(s);
    n.D = ls_sequential(s, LS_LIST(ls_nn_conv2d(s, 3, 4, &halves), ls_nn_batch_norm(s), leaky(s),
                                   ls_nn_dropout(s, 0.25), ls_nn_fn(s, ls_flatten), ls_nn_linear(s, 1)));
    ls_module_initialize(n.G, test_cpus(h.devices), &(ls_init){.kind = LS_HE});
    ls_module_initialize(n.D, test_cpus(h.devices), &(ls_init){.kind = LS_HE, .like = n.data});
    ls_module_infer(n.G, ls_zeros(s, LS_SHAPE(1, CODE)));
    n.g = ls_trainer_new(n.G, LS_ADAM, &(ls_optim){.lr = 0.01});
    n.d = ls_trainer_new(n.D, LS_ADAM, &(ls_optim){.lr = 0.01, .clip_norm = 1});
    return n;
}

static void train_gan(how h, ls_cluster *cluster, outcome *out)
{
    gan n = begin_gan(h, cluster);
    ls_checkpoints *kept[2] = {NULL};
    int step = h.from;
    const int to = h.to ? h.to : 2 * STEPS;
    if (h.from || h.to) {
        kept[0] = ls_checkpoints_open(n.g, NULL, test_path("g"), NULL);
        kept[1] = ls_checkpoints_open(n.d, n.data, test_path("d"), NULL);
    }
    for (int k = 0; h.from && k < 2; k++) {
        ls_checkpoint at;
        assert_true(ls_checkpoint_load(kept[k], &at));
        assert_int_equal(at.step, h.from);
    }
    while (step < to && !ls_failed(n.s)) {
        ls_batch b;
        if (!ls_data_next(n.data, &b))
            continue;
        char key[32];
        snprintf(key, sizeof key, "z %d", step++);
        gan_step(&n, b.X, ls_randn(n.s, key, 1, LS_SHAPE(ls_rows(b.X), CODE)));
    }
    for (int k = 0; h.to && k < 2; k++)
        ls_checkpoint_save(kept[k], NULL);
    ls_wait(n.s);
    ls_report report;
    for (int k = 0; k < 2; k++)
        while (ls_trainer_next_report(k ? n.d : n.g, &report))
            out->losses[k][report.step - 1] = report.loss;
    ls_module_fingerprint(n.G, out->G);
    ls_module_fingerprint(n.D, out->D);
    if (ls_close(n.s) != LS_OK)
        fail_msg("a run of %d devices has failed", h.devices);
}

static outcome alone;
static outcome of_rank[WIRE_RANKS];

static void train_rank(ls_cluster *cluster, int rank, void *user)
{
    const how *h = user;
    how own = *h;
    own.devices = 1 + (rank + h->devices) % 3;
    train_gan(own, cluster, &of_rank[rank]);
}

static void on_any_devices_and_ranks(void **state)
{
    (void)state;
    static const how ways[] = {{.devices = 2}, {.devices = 3}, {.devices = 16}, {.devices = 2, .isa = LS_ISA_PLAIN}};
    train_gan((how){.devices = 1}, NULL, &alone);
    print_message("G %s\nD %s\n", alone.G, alone.D);
    assert_true(isfinite(alone.losses[0][2 * STEPS - 1]) && alone.losses[1][0] > 0);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        outcome other = {.G = ""};
        train_gan(ways[i], NULL, &other);
        assert_memory_equal(&other, &alone, sizeof alone);
    }
    for (int ranks = 2; ranks <= 3; ranks++) {
        how h = {.devices = ranks};
        memset(of_rank, 0, sizeof of_rank);
        wire_run(ranks, train_rank, &h);
        for (int r = 0; r < ranks; r++)
            assert_memory_equal(&of_rank[r], &alone, sizeof alone);
    }
}

/* Both networks have checkpoints of their own, and go on from them, on other devices and over ranks. */
static void after_a_break(void **state)
{
    (void)state;
    outcome other = {.G = ""};
    gan n = begin_gan((how){.devices = 1}, NULL);
    const bool keeps = ls_checkpoints_open(n.g, NULL, test_path("none"), NULL);
    ls_close(n.s);
    if (!keeps) {
        test_part_not_run("after_a_break", "this build writes no checkpoints");
        return;
    }
    train_gan((how){.devices = 2, .to = 4}, NULL, &other);
    train_gan((how){.devices = 3, .from = 4}, NULL, &other);
    assert_memory_equal(&other, &alone, sizeof alone);
    how h = {.devices = 1, .from = 4};
    wire_run(2, train_rank, &h);
    assert_string_equal(of_rank[1].G, alone.G);
    assert_string_equal(of_rank[1].D, alone.D);
}

static char failures[WIRE_RANKS][256];

static void overflow(ls_cluster *cluster, int rank, void *user)
{
    (void)user;
    gan n = begin_gan((how){.devices = 1 + rank}, cluster);
    ls_trainer_set_lr(n.d, 1e29);
    ls_batch b;
    for (int k = 0; k < 6 && test_next(n.data, &b); k++)
        gan_step(&n, b.X, ls_full(n.s, 0.5, LS_SHAPE(ls_rows(b.X), CODE)));
    ls_wait(n.s);
    snprintf(failures[rank], sizeof failures[rank], "%s", ls_message(n.s));
    assert_int_equal(ls_close(n.s), LS_NOT_FINITE);
}

/* What is not finite in one network is every rank's failure, and none waits for another. */
static void an_overflow_is_every_ranks(void **state)
{
    (void)state;
    wire_run(3, overflow, NULL);
    for (int r = 1; r < 3; r++)
        assert_string_equal(failures[r], failures[0]);
    assert_non_null(strstr(failures[0], "is not finite"));
    print_message("%s\n", failures[0]);
}

/* ---- What is refused ---- */

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    setup t = open_setup("cpu:0-1", "cpu:0-1", 3);
    ls_session *other = ls_open(NULL);
    ls_module *net = dense(t.s, 2), *theirs = dense(other, 2);
    ls_module_initialize(net, test_cpus(1), NULL);
    ls_module_initialize(theirs, test_cpus(1), NULL);
    ls_tensor *x = ls_detach(t.x), *code = ls_module_forward(t.first, x);
    assert_null(ls_module_forward(theirs, code));
    assert_caught(t.s, LS_BAD_ARGUMENT, "the network and the images belong to different sessions");
    ls_backward_for(loss_of(&t, x, true), (ls_module *[]){t.first, net}, 2);
    assert_caught(t.s, LS_BAD_ARGUMENT,
                  "ls_backward_for: network 1 of the list was not called by ls_module_forward on the way to this loss");
    ls_backward_for(loss_of(&t, x, false), &t.first, 1);
    assert_caught(t.s, LS_BAD_ARGUMENT, "ls_backward_for: network 0 of the list was not called by ls_module_forward");
    ls_backward_for(loss_of(&t, x, true), NULL, 1);
    assert_caught(t.s, LS_BAD_ARGUMENT, "ls_backward_for: a list of 1 networks");
    ls_backward_for(loss_of(&t, x, true), NULL, 0);
    assert_caught(t.s, LS_BAD_ARGUMENT, "ls_backward_for: nothing that trains or is tracked leads to this loss");
    ls_backward_for(ls_sum_each(ls_exp(t.x)), &t.first, 1);
    assert_caught(t.s, LS_BAD_ARGUMENT, "ls_backward_for: no network leads to this loss; use ls_backward");
    assert_int_equal(ls_backward_for(NULL, NULL, 0), LS_BAD_ARGUMENT);
    assert_null(ls_detach(NULL));
    assert_null(ls_detach(ls_sum(t.x)));
    assert_caught(t.s, LS_BAD_SHAPE, "ls_detach: x must be (images, ...)");
    ls_backward(ls_mean(ls_module_infer(t.first, t.x)));
    assert_caught(t.s, LS_BAD_ARGUMENT, "ls_backward: of a network's losses take the sum");
    ls_tensor *w = ls_track(ls_randn(t.s, "w", 1, LS_SHAPE(6, 2)));
    ls_backward(ls_sum_each(ls_matmul(code, w)));
    assert_caught(t.s, LS_UNSUPPORTED, "ls_backward: a weight beside a network cannot be tracked");
    /* On a device networks do not chain; what the first one makes is an input of the second all the same. */
    ls_tensor *there = ls_clone(x, ls_cpu(1));
    ls_backward(ls_sum_each(ls_module_forward(t.second, ls_module_forward(t.first, there))));
    assert_caught(t.s, LS_UNSUPPORTED, "ls_backward: a gradient goes from one network to another on the host alone");
    ls_module_forward(net, ls_module_forward(t.first, there));
    assert_caught(t.s, LS_NOT_INITIALIZED, "ls_module_forward: the network was not initialized on cpu(1)");
    /* Nothing of all that is pending. */
    ls_trainer_step(t.of_second);
    assert_caught(t.s, LS_STALE, "ls_trainer_step: there is no fresh gradient");
    /* A network that was updated after it was called. */
    ls_tensor *late = ls_module_forward(t.second, code);
    ls_backward(ls_sum_each(ls_module_forward(t.first, x)));
    ls_trainer_step(t.of_first);
    ls_backward(ls_sum_each(late));
    assert_caught(t.s, LS_STALE, "the network was updated after this call of it was recorded");
    ls_trainer_step(t.of_second);
    assert_caught(t.s, LS_STALE, "ls_trainer_step: there is no fresh gradient");
    ls_close(other);
    assert_int_equal(ls_close(t.s), LS_OK);
}

static void nothing_is_allocated_while_running(void **state)
{
    (void)state;
    counted c = {.lock = PTHREAD_MUTEX_INITIALIZER};
    const ls_allocator allocator = {count_allocate, count_release, &c};
    gan n = begin_gan((how){.devices = 2, .allocator = &allocator}, NULL);
    long before = 0;
    for (int k = 0; k < 24; k++) {
        ls_batch b;
        assert_true(test_next(n.data, &b));
        if (k == 12 && ls_wait(n.s) == LS_OK)
            before = c.made;
        gan_step(&n, b.X, ls_full(n.s, 0.5, LS_SHAPE(ls_rows(b.X), CODE)));
    }
    assert_int_equal(ls_wait(n.s), LS_OK);
    assert_int_equal(c.made, before);
    assert_int_equal(ls_close(n.s), LS_OK);
}

/* A step of both and a gradient of the input, with an allocator that fails. */
static ls_status step_with(const ls_allocator *allocator)
{
    gan n = begin_gan((how){.devices = 2, .allocator = allocator}, NULL);
    ls_batch b;
    if (ls_data_next(n.data, &b)) {
        gan_step(&n, b.X, ls_full(n.s, 0.5, LS_SHAPE(5, CODE)));
        ls_tensor *x = ls_track(ls_clone(b.X, ls_host()));
        ls_backward_for(judged(&n, x, 1), NULL, 0);
        ls_str(ls_grad(x));
    }
    return ls_close(n.s);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    counted c = {.lock = PTHREAD_MUTEX_INITIALIZER};
    const ls_allocator allocator = {count_allocate, count_release, &c};
    assert_int_equal(step_with(&allocator), LS_OK);
    const long all = c.made;
    for (long n = 1; n <= all; n++) {
        c.made = 0;
        c.fail_at = n;
        assert_int_equal(step_with(&allocator), LS_OUT_OF_MEMORY);
        assert_int_equal(c.alive, 0);
    }
    print_message("%ld allocations failed in turn\n", all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_in_pytorch),
        cmocka_unit_test(gradients_of_inputs_are_slopes),
        cmocka_unit_test(gradients_of_inputs_add_up),
        cmocka_unit_test(gradients_are_kept_or_dropped),
        cmocka_unit_test(a_chain_is_the_network_of_both),
        cmocka_unit_test(what_a_loss_counts),
        cmocka_unit_test(on_any_devices_and_ranks),
        cmocka_unit_test(after_a_break),
        cmocka_unit_test(an_overflow_is_every_ranks),
        cmocka_unit_test(wrong_calls_are_refused),
        cmocka_unit_test(nothing_is_allocated_while_running),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, test_folder_make, test_folder_remove);
}
