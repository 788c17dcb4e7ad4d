/* What changes shapes, and normalises, against PyTorch's figures in float64 (tests/reference/make_shapes.py, which says
 * of what numbers); layers of it in training, on any number of devices; frozen BatchNorm; what is refused. */
#include "reference_cases.h"
#include "training.h"

#include <lockstep_nn.h>

enum { MOST_ARGUMENTS = 4 };

/* ---- PyTorch's figures ---- */

static ls_tensor *join(ls_tensor *x, int dim)
{
    ls_tensor *parts[] = {x, ls_scale(x, 2), x, x, x, x, ls_scale(x, -1), x};
    return ls_concat_along(parts, 8, dim);
}

static ls_tensor *apply(const char *name, ls_tensor *x, const double a[MOST_ARGUMENTS], ls_tensor *w, ls_tensor *b)
{
    const int one = (int)a[0], two = (int)a[1];
    if (strcmp(name, "transpose") == 0)
        return ls_transpose(x, one, two);
    if (strcmp(name, "slice") == 0)
        return ls_slice(x, one, (int64_t)a[1], (int64_t)a[2]);
    if (strcmp(name, "pad2d") == 0)
        return ls_pad2d(x, (const int[]){one, two, (int)a[2], (int)a[3]}, 0.5);
    if (strcmp(name, "concat") == 0)
        return join(x, one);
    if (strcmp(name, "mean_over") == 0)
        return ls_mean_over(x, one);
    if (strcmp(name, "max_over") == 0)
        return ls_max_over(x, one);
    if (strcmp(name, "max_each") == 0)
        return ls_max_each(x);
    if (strcmp(name, "upsample2d") == 0)
        return ls_upsample2d(x, one, two ? LS_BILINEAR : LS_NEAREST);
    if (strcmp(name, "adaptive") == 0)
        return ls_adaptive_avg_pool2d(x, one, two);
    if (strcmp(name, "layer_norm") == 0)
        return ls_layer_norm(x, w, b, a[0]);
    if (strcmp(name, "group_norm") == 0)
        return ls_group_norm(x, two, w, b, a[0]);
    assert_string_equal(name, "rms_norm");
    return ls_rms_norm(x, w, a[0]);
}

static ls_tensor *numbered_as(ls_session *s, const json_t *one, const char *key, int by, int of, int less, int share)
{
    const size_t n = json_array_size(json_object_get(one, key));
    return n ? ls_track(numbers_by(s, LS_SHAPE((int64_t)n), by, 0, of, less, share)) : NULL;
}

static void run_figures(ls_session *s, const json_t *one)
{
    int n;
    double *recorded = recorded_numbers(one, "arguments", &n), arguments[MOST_ARGUMENTS] = {0};
    assert_true(n <= MOST_ARGUMENTS);
    memcpy(arguments, recorded, (size_t)n * sizeof *arguments);
    free(recorded);
    ls_tensor *x = ls_track(numbers_by(s, recorded_shape(one, "shape"), 37, 0, 101, 50, 16));
    ls_tensor *w = numbered_as(s, one, "dw", 5, 7, -1, 4), *b = numbered_as(s, one, "db", 3, 5, 2, 4);
    ls_tensor *y = apply(recorded_name(one), x, arguments, w, b);
    const ls_shape to = assert_recorded_shape(s, y, one);
    const double forward = off_by_recorded(y, one, "y");
    ls_backward_from(y, numbers_by(s, to, 7, 0, 11, 5, 4));
    double backward = off_by_recorded(ls_grad(x), one, "dx");
    backward = w ? fmax(backward, off_by_recorded(ls_grad(w), one, "dw")) : backward;
    backward = b ? fmax(backward, off_by_recorded(ls_grad(b), one, "db")) : backward;
    print_message("%-10s off by %.1e of the largest, the gradients by %.1e\n", recorded_name(one), forward, backward);
    assert_true(forward < 1e-6 && backward < 2e-6);
}

static void as_in_pytorch(void **state)
{
    (void)state;
    run_reference_cases("shapes", 20, &(ls_options){.shard = 2}, run_figures);
}

/* ---- Layers in training ---- */

enum { IMAGES = 24, CHANNELS = 6, SIZE = 5, CLASSES = 4 };

static ls_tensor *tokens(ls_module *self, ls_tensor *x)
{
    ls_tensor *rows = ls_mean_over(ls_transpose(x, 1, 3), 2); /* (images, SIZE, CHANNELS) */
    return ls_flatten(ls_module_call(self, "rms", ls_module_call(self, "norm", rows)));
}

static ls_module *network(ls_session *s)
{
    ls_module *block = ls_block(s, tokens, NULL);
    ls_module_append(block, "norm", ls_nn_layer_norm(s, NULL));
    ls_module_append(block, "rms", ls_nn_rms_norm(s, &(ls_norm){.no_affine = true}));
    return ls_sequential(s, LS_LIST(ls_nn_conv2d(s, CHANNELS, 3, &(ls_conv){.padding = 1}),
                                    ls_nn_group_norm(s, 2, NULL), ls_nn_fn(s, ls_relu),
                                    ls_nn_layer_norm(s, &(ls_norm){.eps = 1e-3}), ls_nn_upsample2d(s, 2, LS_BILINEAR),
                                    ls_nn_adaptive_avg_pool2d(s, SIZE, SIZE), ls_nn_upsample2d(s, 2, LS_NEAREST),
                                    ls_nn_batch_norm_with(s, &(ls_norm){.eps = 1e-3, .momentum = 0.25}), block,
                                    ls_nn_linear(s, CLASSES)));
}

typedef ls_module *maker(ls_session *s, const ls_norm *how);

typedef struct setup {
    ls_session *s;
    ls_module *net;
    ls_trainer *trainer;
    ls_data *data;
} setup;

static ls_module *whole(ls_session *s, const ls_norm *how)
{
    (void)how;
    return network(s);
}

static setup open_setup(int devices, ls_isa isa, maker *make, const ls_norm *how)
{
    static uint8_t images[IMAGES * SIZE * SIZE], labels[IMAGES];
    test_make_images(images, sizeof images, labels, IMAGES, CLASSES);
    setup t = {.s = ls_open(&(ls_options){.shard = 8, .isa = isa, .seed = 5})};
    t.data = ls_data_from_memory(t.s, images, labels, IMAGES, 1, SIZE, SIZE, CLASSES, &(ls_loader){.batch = IMAGES});
    t.net = make(t.s, how);
    ls_module_initialize(t.net, test_cpus(devices), &(ls_init){.scale = 0.3, .like = t.data});
    t.trainer = ls_trainer_new(t.net, LS_SGD, &(ls_optim){.lr = 0.1});
    return t;
}

static void train(const setup *t, int steps)
{
    ls_batch batch;
    for (int i = 0; i < steps; i++) {
        assert_true(test_next(t->data, &batch));
        test_step(t->net, t->trainer, &batch);
    }
    if (ls_wait(t->s) != LS_OK)
        fail_msg("%s", ls_message(t->s));
}

static void bits_do_not_depend_on_devices(void **state)
{
    (void)state;
    static const struct {
        int devices;
        ls_isa isa;
    } runs[] = {{1, LS_ISA_REFERENCE}, {1, LS_ISA_PLAIN}, {2, LS_ISA_AVX2}, {3, LS_ISA_AUTO}};
    char first[65] = "", digits[65];
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        setup t = open_setup(runs[i].devices, runs[i].isa, whole, NULL);
        train(&t, 3);
        assert_int_equal(ls_module_fingerprint(t.net, digits), LS_OK);
        memcpy(first, *first ? first : digits, sizeof first);
        assert_string_equal(digits, first);
        assert_int_equal(ls_close(t.s), LS_OK);
    }
}

/* ---- Layers by themselves ---- */

enum { FEATURES = 6 };

static ls_tensor *of_layer(ls_tensor *x, ls_tensor *w, ls_tensor *b, double eps)
{
    return ls_layer_norm(x, w, b, eps);
}

static ls_tensor *of_groups(ls_tensor *x, ls_tensor *w, ls_tensor *b, double eps)
{
    return ls_group_norm(x, 3, w, b, eps);
}

static ls_tensor *of_rms(ls_tensor *x, ls_tensor *w, ls_tensor *b, double eps)
{
    assert_null(b);
    return ls_rms_norm(x, w, eps);
}

static ls_module *three_groups(ls_session *s, const ls_norm *how)
{
    return ls_nn_group_norm(s, 3, how);
}

/* What a layer makes is what its function makes of its parameters, with the header's names, first values and eps. */
static const struct layer {
    ls_module *(*make)(ls_session *s, const ls_norm *how);
    ls_tensor *(*function)(ls_tensor *x, ls_tensor *w, ls_tensor *b, double eps);
    double eps;
    int parameters, rank;
    ls_norm how;
} layers[] = {
    {ls_nn_layer_norm, of_layer, 1e-5, 2, 2, {.eps = 0}},
    {ls_nn_layer_norm, of_layer, 1e-5, 2, 3, {.eps = 0}},
    {ls_nn_layer_norm, of_layer, 1, 2, 4, {.eps = 1}},
    {ls_nn_layer_norm, of_layer, 1e-3, 0, 2, {.eps = 1e-3, .no_affine = true}},
    {three_groups, of_groups, 1e-5, 2, 2, {.eps = 0}},
    {three_groups, of_groups, 1e-3, 2, 3, {.eps = 1e-3}},
    {three_groups, of_groups, 1e-5, 0, 4, {.no_affine = true}},
    {ls_nn_rms_norm, of_rms, 0x1p-23, 1, 2, {.eps = 0}},
    {ls_nn_rms_norm, of_rms, 0x1p-23, 1, 3, {.momentum = 1}},
    {ls_nn_rms_norm, of_rms, 1e-3, 1, 4, {.eps = 1e-3}},
    {ls_nn_rms_norm, of_rms, 0x1p-23, 0, 4, {.no_affine = true}},
};

/* Parameter k of the layer by its name: as it begins, and then with values, which are given back. */
static ls_tensor *give_values(ls_session *s, ls_module *net, int k)
{
    static const char *const names[] = {"0.weight", "0.bias"};
    float values[FEATURES];
    assert_int_equal(ls_module_read_parameter(net, names[k], values, FEATURES), LS_OK);
    for (int i = 0; i < FEATURES; i++) {
        assert_true(values[i] == (k == 0 ? 1 : 0));
        values[i] = (float)(i * 5 % 7 - k) / 4;
    }
    assert_int_equal(ls_module_write_parameter(net, names[k], values, FEATURES), LS_OK);
    return ls_clone(ls_values(s, values, LS_SHAPE(FEATURES)), ls_cpu(0));
}

static void layers_are_their_functions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        const struct layer *l = &layers[i];
        const ls_shape shape = {l->rank, {2, FEATURES, l->rank == 4 ? 3 : FEATURES, 4}};
        ls_session *s = ls_open(NULL);
        ls_tensor *x = numbers_by(s, shape, 37, 0, 101, 50, 1 << 15); /* so small that eps counts */
        ls_module *net = ls_sequential(s, LS_LIST(l->make(s, &l->how)));
        ls_module_initialize(net, test_cpus(1), NULL);
        ls_module_infer(net, x);
        assert_int_equal(ls_module_parameter_count(net), l->parameters);
        ls_tensor *vectors[2] = {NULL, NULL};
        for (int k = 0; k < l->parameters; k++)
            vectors[k] = give_values(s, net, k);
        assert_same_bits(ls_module_infer(net, x), l->function(x, vectors[0], vectors[1], l->eps));
        assert_int_equal(ls_close(s), LS_OK);
    }
}

/* ---- BatchNorm with options ---- */

static ls_module *normed(ls_session *s, const ls_norm *how)
{
    return ls_sequential(s, LS_LIST(ls_nn_conv2d(s, 2, 3, NULL), ls_nn_batch_norm_with(s, how), ls_nn_fn(s, ls_relu),
                                    ls_nn_fn(s, ls_flatten), ls_nn_linear(s, CLASSES)));
}

static void read_two(const setup *t, const char *name, float two[2])
{
    assert_int_equal(ls_module_read_parameter(t->net, name, two, 2), LS_OK);
}

static ls_module *plain(ls_session *s, const ls_norm *how)
{
    (void)how;
    return ls_sequential(s, LS_LIST(ls_nn_conv2d(s, 2, 3, NULL), ls_nn_batch_norm(s), ls_nn_fn(s, ls_relu),
                                    ls_nn_fn(s, ls_flatten), ls_nn_linear(s, CLASSES)));
}

/* The usual values are those that are said, of the layer without options too. */
static void momentum_is_how_far_a_step_moves(void **state)
{
    (void)state;
    static const ls_norm none = {.eps = 0}, usual = {.eps = 1e-5, .momentum = 0.1}, far = {.momentum = 0.25},
                         all = {.momentum = 1};
    static const struct {
        maker *make;
        const ls_norm *how;
        float times;
    } runs[] = {{plain, NULL, 1},    {normed, NULL, 1},    {normed, &none, 1},
                {normed, &usual, 1}, {normed, &far, 2.5f}, {normed, &all, 10}};
    char first[65] = "", digits[65];
    float mean[2] = {0}, moved[2];
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        setup t = open_setup(1, LS_ISA_AUTO, runs[i].make, runs[i].how);
        train(&t, 1);
        read_two(&t, "1.running_mean", moved);
        assert_int_equal(ls_module_fingerprint(t.net, digits), LS_OK);
        assert_int_equal(ls_close(t.s), LS_OK);
        memcpy(first, *first ? first : digits, sizeof first);
        assert_true((strcmp(digits, first) == 0) == (runs[i].times == 1));
        for (int c = 0; c < 2; c++) {
            mean[c] = i ? mean[c] : moved[c];
            assert_true(mean[c] != 0 && fabsf(moved[c] / mean[c] - runs[i].times) < 1e-5f * runs[i].times);
        }
    }
}

/* The running statistics stay, what is trained moves; in the bias in front too, which statistics of the shard would
 * hide. */
static void a_frozen_norm_keeps_its_statistics(void **state)
{
    (void)state;
    char first[65] = "", digits[65];
    static const ls_isa isas[] = {LS_ISA_REFERENCE, LS_ISA_AUTO};
    for (size_t i = 0; i < 2; i++) {
        static const char *const trained[] = {"0.bias", "1.weight", "1.bias"};
        float two[2], before[3][2];
        setup t = open_setup(1 + (int)i, isas[i], normed, &(ls_norm){.frozen = true, .eps = 0.01});
        for (int k = 0; k < 3; k++)
            read_two(&t, trained[k], before[k]);
        train(&t, 2);
        read_two(&t, "1.running_mean", two);
        assert_true(two[0] == 0 && two[1] == 0);
        read_two(&t, "1.running_var", two);
        assert_true(two[0] == 1 && two[1] == 1);
        for (int k = 0; k < 3; k++) {
            read_two(&t, trained[k], two);
            assert_true(two[0] != before[k][0] && two[1] != before[k][1]);
        }
        assert_int_equal(ls_module_fingerprint(t.net, digits), LS_OK);
        memcpy(first, *first ? first : digits, sizeof first);
        assert_string_equal(digits, first);
        assert_int_equal(ls_close(t.s), LS_OK);
    }
}

/* ---- What is refused ---- */

#define REFUSED(call, status, words)                                                                                   \
    do {                                                                                                               \
        assert_null(call);                                                                                             \
        assert_caught(s, status, words);                                                                               \
    } while (0)
#define TAKEN(call)                                                                                                    \
    do {                                                                                                               \
        if (!(call))                                                                                                   \
            fail_msg("%s", ls_message(s));                                                                             \
    } while (0)

static void wrong_shapes_are_refused(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_tensor *x = ls_zeros(s, LS_SHAPE(2, 3, 4, 5)), *flat = ls_zeros(s, LS_SHAPE(2, 6)), *none = NULL;
    ls_tensor *four = ls_zeros(s, LS_SHAPE(4));
    REFUSED(ls_transpose(x, 0, 2), LS_BAD_SHAPE, "ls_transpose: dimension 0 must be one of x's behind the images");
    REFUSED(ls_transpose(x, 1, 4), LS_BAD_SHAPE, "ls_transpose: dimension 4");
    REFUSED(ls_slice(x, 4, 0, 1), LS_BAD_SHAPE, "ls_slice: dimension ");
    REFUSED(ls_slice(x, 2, 0, 5), LS_BAD_SHAPE, "ls_slice: from must be at least 0");
    REFUSED(ls_slice(x, 2, -1, 2), LS_BAD_SHAPE, "ls_slice: from must");
    REFUSED(ls_slice(x, 2, 2, 2), LS_BAD_SHAPE, "ls_slice: from must");
    REFUSED(ls_pad2d(flat, (const int[]){1, 1, 1, 1}, 0), LS_BAD_SHAPE, "ls_pad2d: x must be (images, channels");
    REFUSED(ls_pad2d(x, NULL, 0), LS_BAD_SHAPE, "ls_pad2d: x must");
    REFUSED(ls_pad2d(x, (const int[]){0, 1, 0, 0}, NAN), LS_BAD_ARGUMENT, "ls_pad2d: the value must be a number");
    REFUSED(ls_concat((ls_tensor *[]){x, flat}, 2), LS_BAD_SHAPE, "ls_concat: all parts must");
    REFUSED(ls_concat_along((ls_tensor *[]){x, x}, 2, 4), LS_BAD_SHAPE, "ls_concat_along: dimension ");
    REFUSED(ls_concat((ls_tensor *[]){x, x, x, x, x, x, x, none}, 8), LS_BAD_ARGUMENT, "ls_concat: a tensor is NULL");
    REFUSED(ls_upsample2d(flat, 2, LS_NEAREST), LS_BAD_SHAPE, "ls_upsample2d: x must");
    REFUSED(ls_upsample2d(x, 0, LS_BILINEAR), LS_BAD_SHAPE, "ls_upsample2d: x must");
    REFUSED(ls_adaptive_avg_pool2d(x, 0, 1), LS_BAD_SHAPE, "ls_adaptive_avg_pool2d: x must");
    REFUSED(ls_mean_over(flat, 2), LS_BAD_SHAPE, "ls_mean_over: dimension ");
    REFUSED(ls_max_over(x, 0), LS_BAD_SHAPE, "ls_max_over: dimension ");
    REFUSED(ls_layer_norm(x, four, NULL, 1e-5), LS_BAD_SHAPE, "ls_layer_norm: x must");
    REFUSED(ls_layer_norm(x, NULL, NULL, -1), LS_BAD_ARGUMENT, "ls_layer_norm: eps must be from 0 to 1");
    REFUSED(ls_rms_norm(flat, four, 0), LS_BAD_SHAPE, "ls_rms_norm: x must");
    REFUSED(ls_group_norm(flat, 4, NULL, NULL, 0), LS_BAD_SHAPE, "ls_group_norm: x must be (images, channels, ...)");
    REFUSED(ls_nn_group_norm(s, 0, NULL), LS_BAD_ARGUMENT, "ls_nn_group_norm: groups must");
    REFUSED(ls_nn_layer_norm(s, &(ls_norm){.eps = -1}), LS_BAD_ARGUMENT, "ls_nn_layer_norm: eps must");
    REFUSED(ls_nn_rms_norm(s, &(ls_norm){.eps = 2}), LS_BAD_ARGUMENT, "ls_nn_rms_norm: eps must");
    REFUSED(ls_nn_batch_norm_with(s, &(ls_norm){.momentum = 2}), LS_BAD_ARGUMENT, "ls_nn_batch_norm_with: eps and");
    REFUSED(ls_nn_batch_norm_with(s, &(ls_norm){.no_affine = true}), LS_BAD_ARGUMENT, "BatchNorm has its weight");
    REFUSED(ls_nn_upsample2d(s, 0, LS_NEAREST), LS_BAD_ARGUMENT, "ls_nn_upsample2d: the factor");
    REFUSED(ls_nn_adaptive_avg_pool2d(s, 1, 0), LS_BAD_ARGUMENT, "ls_nn_adaptive_avg_pool2d: height");
    assert_null(ls_concat(NULL, 1)); /* whose session nobody knows */
    assert_null(ls_concat(&x, 0));
    assert_ptr_equal(ls_transpose(x, 2, 2), x);
    assert_ptr_equal(ls_max_each(four), four);
    assert_ptr_equal(ls_concat(&x, 1), x);
    assert_ptr_equal(ls_upsample2d(x, 1, LS_BILINEAR), x);
    assert_int_equal(ls_close(s), LS_OK);
}

static ls_tensor *join_weights(ls_module *self, ls_tensor *x)
{
    (void)x;
    ls_tensor *three = ls_module_user(self);
    return ls_concat((ls_tensor *[]){three, ls_module_parameter(self, "weight", LS_SHAPE(2, 3))}, 2);
}

/* The last value that is taken, and the first that is not. */
static void bounds_are_where_they_are_said(void **state)
{
    (void)state;
    enum { WIDEST = 1 << 24, LARGEST = 1 << 15, TIMES = 1 << 12 };
    ls_session *s = ls_open(NULL);
    ls_tensor *x = ls_zeros(s, LS_SHAPE(2, 3, 4, 5)), *dot = ls_zeros(s, LS_SHAPE(1, 1, 1, 1));
    for (int side = 0; side < 4; side++) {
        int sides[4] = {0};
        sides[side] = WIDEST;
        TAKEN(ls_pad2d(dot, sides, 0));
        sides[side]++;
        REFUSED(ls_pad2d(dot, sides, 0), LS_BAD_SHAPE, "ls_pad2d: x must");
        sides[side] = -1;
        REFUSED(ls_pad2d(x, sides, 0), LS_BAD_SHAPE, "ls_pad2d: x must");
    }
    TAKEN(ls_pad2d(x, (const int[]){1, 0, 0, 0}, -INFINITY));
    TAKEN(ls_upsample2d(dot, TIMES, LS_BILINEAR));
    REFUSED(ls_upsample2d(dot, TIMES + 1, LS_BILINEAR), LS_BAD_SHAPE, "ls_upsample2d: x must");
    REFUSED(ls_upsample2d(dot, 2, (ls_upsample_mode)2), LS_BAD_SHAPE, "ls_upsample2d: x must");
    for (int side = 0; side < 2; side++) {
        const int large = side ? 2 : LARGEST, other = side ? LARGEST : 2;
        TAKEN(ls_adaptive_avg_pool2d(dot, large, other));
        REFUSED(ls_adaptive_avg_pool2d(dot, large + !side, other + side), LS_BAD_SHAPE, "ls_adaptive_avg_pool2d: x");
        REFUSED(ls_adaptive_avg_pool2d(dot, side, !side), LS_BAD_SHAPE, "ls_adaptive_avg_pool2d: x must");
    }
    ls_tensor *flat = ls_zeros(s, LS_SHAPE(2, 4)), *row = ls_zeros(s, LS_SHAPE(4)), *two = ls_zeros(s, LS_SHAPE(4, 1));
    REFUSED(ls_adaptive_avg_pool2d(flat, 2, 2), LS_BAD_SHAPE, "ls_adaptive_avg_pool2d: x must");
    ls_tensor *const unfit[] = {ls_zeros(s, LS_SHAPE(2)), two, ls_scale(ls_clone(row, ls_cpu(0)), 2)};
    ls_tensor *on_core = ls_clone(flat, ls_cpu(0));
    for (int i = 0; i < 3; i++) {
        ls_tensor *const of = i < 2 ? flat : on_core;
        REFUSED(ls_layer_norm(of, unfit[i], NULL, 0), LS_BAD_SHAPE, "ls_layer_norm: x must");
        REFUSED(ls_layer_norm(of, NULL, unfit[i], 0), LS_BAD_SHAPE, "ls_layer_norm: x must");
        REFUSED(ls_rms_norm(of, unfit[i], 0), LS_BAD_SHAPE, "ls_rms_norm: x must");
        REFUSED(ls_group_norm(of, 2, unfit[i], NULL, 0), LS_BAD_SHAPE, "ls_group_norm: x must");
        REFUSED(ls_group_norm(of, 2, NULL, unfit[i], 0), LS_BAD_SHAPE, "ls_group_norm: x must");
    }
    REFUSED(ls_layer_norm(row, NULL, NULL, 0), LS_BAD_SHAPE, "ls_layer_norm: x must");
    REFUSED(ls_rms_norm(row, NULL, 0), LS_BAD_SHAPE, "ls_rms_norm: x must");
    REFUSED(ls_group_norm(row, 1, NULL, NULL, 0), LS_BAD_SHAPE, "ls_group_norm: x must");
    REFUSED(ls_group_norm(flat, 0, NULL, NULL, 0), LS_BAD_SHAPE, "ls_group_norm: x must");
    REFUSED(ls_group_norm(flat, -2, NULL, NULL, 0), LS_BAD_SHAPE, "ls_group_norm: x must");
    TAKEN(ls_layer_norm(flat, row, NULL, 1));
    REFUSED(ls_layer_norm(flat, row, NULL, 1 + 1e-15), LS_BAD_ARGUMENT, "ls_layer_norm: eps must be from 0 to 1");
    REFUSED(ls_rms_norm(flat, row, NAN), LS_BAD_ARGUMENT, "ls_rms_norm: eps must be from 0 to 1");
    REFUSED(ls_group_norm(flat, 2, row, NULL, -1e-300), LS_BAD_ARGUMENT, "ls_group_norm: eps must be from 0 to 1");
    REFUSED(ls_nn_batch_norm_with(s, &(ls_norm){.momentum = -1e-300}), LS_BAD_ARGUMENT, "momentum must be above 0");
    ls_tensor *three = ls_clone(ls_zeros(s, LS_SHAPE(2, 3)), ls_cpu(0));
    ls_module *net = ls_block(s, join_weights, three);
    ls_module_initialize(net, test_cpus(1), NULL);
    REFUSED(ls_module_infer(net, three), LS_BAD_SHAPE, "ls_concat: all parts must");
    assert_int_equal(ls_close(s), LS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_in_pytorch),
        cmocka_unit_test(bits_do_not_depend_on_devices),
        cmocka_unit_test(layers_are_their_functions),
        cmocka_unit_test(momentum_is_how_far_a_step_moves),
        cmocka_unit_test(a_frozen_norm_keeps_its_statistics),
        cmocka_unit_test(wrong_shapes_are_refused),
        cmocka_unit_test(bounds_are_where_they_are_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
