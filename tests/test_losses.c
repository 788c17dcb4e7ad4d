/* The losses against PyTorch's in float64 (tests/reference/make_losses.py), and what they refuse. */
#include "reference_cases.h"
#include "thread_wire.h"

#include <lockstep_data.h>
#include <lockstep_nn.h>
#include <lockstep_train.h>

static ls_tensor *record(const char *name, ls_tensor *x, ls_tensor *y, const ls_loss *options)
{
    if (strcmp(name, "mse") == 0)
        return ls_mse(x, y);
    if (strcmp(name, "l1") == 0)
        return ls_l1(x, y);
    if (strcmp(name, "huber") == 0)
        return ls_huber(x, y, options);
    if (strcmp(name, "bce") == 0)
        return ls_bce(x, y, options);
    assert_string_equal(name, "cross_entropy");
    return ls_cross_entropy_with(x, y, options);
}

/* A case of the file; of it x, y and the options' weights are to be freed. */
typedef struct figures {
    const json_t *one;
    ls_shape shape, y_shape;
    ls_loss options;
    double *x, *y;
    int n_x, images;
    bool y_has_gradient;
} figures;

static figures figures_of(const json_t *one)
{
    const json_t *ignore = json_object_get(one, "ignore");
    int n_y;
    figures f = {.one = one, .y_has_gradient = json_object_get(one, "dy")};
    f.x = recorded_numbers(one, "x", &f.n_x);
    f.y = recorded_numbers(one, "y", &n_y);
    f.options = (ls_loss){.smoothing = json_number_value(json_object_get(one, "smoothing")),
                          .delta = json_number_value(json_object_get(one, "delta")),
                          .has_ignore = ignore,
                          .ignore = json_integer_value(ignore),
                          .class_weights = recorded_numbers(one, "class_weights", &(int){0}),
                          .positive_weights = recorded_numbers(one, "positive_weights", &(int){0})};
    f.shape = f.y_shape = recorded_shape(one, "shape");
    f.images = (int)f.shape.dim[0];
    if (n_y < f.n_x) { /* labels: without the classes */
        f.y_shape.rank--;
        for (int i = 1; i < f.y_shape.rank; i++)
            f.y_shape.dim[i] = f.shape.dim[i + 1];
    }
    return f;
}

static void free_figures(figures *f)
{
    free(f->x);
    free(f->y);
    free((double *)f->options.class_weights);
    free((double *)f->options.positive_weights);
}

/* The gradient of the loss of image i counts i % 3 + 1 times. */
static ls_tensor *turns(ls_session *s, int images)
{
    float values[64];
    for (int i = 0; i < images; i++)
        values[i] = (float)(i % 3 + 1);
    return ls_clone(ls_values(s, values, LS_SHAPE(images)), ls_cpu(0));
}

static void run_figures(ls_session *s, const json_t *one)
{
    figures f = figures_of(one);
    ls_tensor *x = tracked_numbers(s, f.x, f.shape), *y = tracked_numbers(s, f.y, f.y_shape);
    ls_tensor *loss = record(recorded_name(one), x, f.y_has_gradient ? y : ls_clone(y, ls_cpu(0)), &f.options);
    if (ls_failed(s))
        fail_msg("%s: %s", recorded_name(one), ls_message(s));
    const double forward = off_by_recorded(loss, one, "each");
    assert_int_equal(ls_backward_from(loss, turns(s, f.images)), LS_OK);
    const double dx = off_by_recorded(ls_grad(x), one, "dx");
    const double dy = f.y_has_gradient ? off_by_recorded(ls_grad(y), one, "dy") : 0;
    print_message("%-13s off by %.1e of the largest, the gradients by %.1e and %.1e\n", recorded_name(one), forward, dx,
                  dy);
    assert_true(forward < 1e-6 && dx < 1e-6 && dy < 1e-6);
    free_figures(&f);
}

enum { CASES = 21 };

static void as_in_pytorch(void **state)
{
    (void)state;
    run_reference_cases("losses", CASES, &(ls_options){.shard = 20}, run_figures);
}

/* ---- A step ---- */

/* x and a parameter of an image's shape, whose gradient is the sum of the logits' over the images. */
static ls_tensor *shifted(ls_module *self, ls_tensor *x)
{
    const figures *f = ls_module_user(self);
    ls_shape shape = {f->shape.rank - 1, {0}};
    for (int i = 0; i < shape.rank; i++)
        shape.dim[i] = f->shape.dim[i + 1];
    return ls_add(x, ls_module_parameter(self, "shift", shape));
}

static ls_tensor *on_host(ls_session *s, const double *values, ls_shape shape)
{
    return ls_clone(tracked_numbers(s, values, shape), ls_host());
}

/* What a step of rate 1 from zero leaves: minus the gradient; also the report's loss. */
static void take_step(figures *f, ls_cluster *cluster, int devices, float *shift, double *loss)
{
    ls_session *s = ls_open(&(ls_options){.shard = 3, .cluster = cluster});
    const int64_t n = f->n_x / f->images;
    ls_module *net = ls_block(s, shifted, f);
    ls_module_initialize(net, test_cpus(devices), NULL);
    ls_tensor *x = on_host(s, f->x, f->shape);
    ls_module_infer(net, x);
    memset(shift, 0, (size_t)n * sizeof *shift);
    ls_module_write_parameter(net, "shift", shift, n);
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 1});
    ls_backward(record(recorded_name(f->one), ls_module_forward(net, x), on_host(s, f->y, f->y_shape), &f->options));
    ls_trainer_step(trainer);
    ls_report report = {.loss = NAN};
    if (ls_wait(s) != LS_OK || !ls_trainer_next_report(trainer, &report))
        fail_msg("%s: %s", recorded_name(f->one), ls_message(s));
    *loss = report.loss;
    assert_int_equal(ls_module_read_parameter(net, "shift", shift, n), LS_OK);
    assert_int_equal(ls_close(s), LS_OK);
}

enum { MOST = 64 };
typedef struct rank_step {
    figures *figures;
    float shift[3][MOST];
    double loss[3];
} rank_step;

static void step_of_rank(ls_cluster *cluster, int number, void *user)
{
    rank_step *all = user;
    take_step(all->figures, cluster, 2, all->shift[number], &all->loss[number]);
}

/* How far what a step takes away is from PyTorch's gradient of the mean, summed over the images. */
static double off_by_mean(const figures *f, const float *shift, int n)
{
    int n_x;
    double *slope = recorded_numbers(f->one, "mean_dx", &n_x), wanted[MOST] = {0};
    assert_int_equal(n_x, f->n_x);
    for (int i = 0; i < n_x; i++)
        wanted[i % n] -= slope[i];
    free(slope);
    return off_from(shift, wanted, n);
}

/* A step divides as PyTorch's mean does, and any devices and ranks give its bits. */
static void check_steps(figures *f)
{
    const int n = f->n_x / f->images;
    float alone[MOST], other[MOST];
    double loss, again, mean = json_number_value(json_array_get(json_object_get(f->one, "mean"), 0));
    assert_true(n <= MOST);
    take_step(f, NULL, 1, alone, &loss);
    const double off = off_by_mean(f, alone, n), loss_off = fabs(loss - mean) / mean;
    print_message("%-13s a step is off by %.1e of the largest, its loss by %.1e\n", recorded_name(f->one), off,
                  loss_off);
    assert_true(off < 1e-6 && loss_off < 1e-6);
    for (int devices = 2; devices <= 3; devices++) {
        take_step(f, NULL, devices, other, &again);
        assert_memory_equal(other, alone, (size_t)n * sizeof *alone);
        assert_true(again == loss);
    }
    for (int ranks = 2; ranks <= 3; ranks++) {
        static rank_step all;
        all.figures = f;
        wire_run(ranks, step_of_rank, &all);
        for (int r = 0; r < ranks; r++) {
            assert_memory_equal(all.shift[r], alone, (size_t)n * sizeof *alone);
            assert_true(all.loss[r] == loss);
        }
    }
}

static void run_steps(ls_session *unused, const json_t *one)
{
    (void)unused;
    figures f = figures_of(one);
    if (f.shape.rank > 1) /* of one number an image no network is made */
        check_steps(&f);
    free_figures(&f);
}

static void a_step_divides_as_pytorchs_mean(void **state)
{
    (void)state;
    run_reference_cases("losses", CASES, NULL, run_steps);
}

/* What a float holds of the loss does not drown beside a large logit, and nothing overflows on the way. */
static void bce_is_stable(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    const float logits[] = {100, -100, 3e38f, -3e38f, 30, 0}, targets[] = {1, 1, 1, 0, 0, 0.5f};
    const float losses[] = {(float)exp(-100), 100, 0, 0, 30, 0x1.62e43p-1f}, slopes[] = {0, -1, 0, 0, 1, 0};
    ls_tensor *x = ls_track(ls_clone(ls_values(s, logits, LS_SHAPE(6)), ls_cpu(0)));
    ls_tensor *loss = ls_bce(x, ls_clone(ls_values(s, targets, LS_SHAPE(6)), ls_cpu(0)), NULL);
    assert_int_equal(ls_backward(loss), LS_OK);
    float *got = test_read(loss), *slope = test_read(ls_grad(x));
    for (int i = 0; i < 6; i++) {
        assert_true(fabs(got[i] - losses[i]) <= 1e-6 * losses[i]);
        assert_true(fabs(slope[i] - slopes[i]) <= 1e-7);
    }
    free(got);
    free(slope);
    assert_int_equal(ls_close(s), LS_OK);
}

/* On labels of a batch of a data set, and on the first classes of it. */
static void labels_of_a_data_set(void **state)
{
    (void)state;
    enum { ROWS = 20, CLASSES = 4, LEFT_OUT = 3 };
    static const uint8_t images[ROWS * CLASSES] = {9, 3, 200, 17, 255, 31, 76};
    uint8_t labels[ROWS];
    for (int i = 0; i < ROWS; i++)
        labels[i] = (uint8_t)(i % CLASSES);
    ls_session *s = ls_open(&(ls_options){.shard = 8});
    ls_data *data = ls_data_from_memory(s, images, labels, ROWS, CLASSES, 1, 1, CLASSES, &(ls_loader){.batch = ROWS});
    ls_module *net = ls_sequential(s, LS_LIST(ls_nn_fn(s, ls_flatten), ls_nn_linear(s, LEFT_OUT)));
    ls_module_initialize(net, test_cpus(1), &(ls_init){.like = data}); /* of two either may be the first to find one */
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    ls_batch b;
    ls_report report;
    assert_true(ls_data_next(data, &b));
    ls_tensor *logits = ls_module_infer(net, b.X);
    const ls_loss ignoring = {.ignore = LEFT_OUT}, said = {.has_ignore = true, .ignore = LEFT_OUT};
    assert_same_bits(ls_cross_entropy_with(logits, b.y, &ignoring), ls_cross_entropy_with(logits, b.y, &said));
    assert_same_bits(ls_cross_entropy_with(logits, ls_values(s, (float[ROWS]){0}, LS_SHAPE(ROWS)), NULL),
                     ls_cross_entropy(logits, ls_values(s, (float[ROWS]){0}, LS_SHAPE(ROWS))));
    ls_backward(ls_cross_entropy(ls_module_forward(net, b.X), b.y));
    ls_trainer_step(trainer);
    ls_wait(s);
    assert_caught(s, LS_BAD_ARGUMENT, "the label of the data's image 3 is 3; the logits have the classes 0 to 2");
    ls_tensor *losses = ls_cross_entropy_with(ls_module_forward(net, b.X), b.y, &ignoring);
    double sum = ls_item(ls_sum(losses));
    ls_backward(losses);
    ls_trainer_step(trainer);
    ls_wait(s);
    assert_true(ls_trainer_next_report(trainer, &report));
    assert_int_equal(report.rows, ROWS);
    assert_true(fabs(report.loss - sum / 15) < 1e-6);
    assert_true(report.correct >= 1 && report.correct <= 15);
    assert_int_equal(ls_close(s), LS_OK);
}

/* The labels of a batch none of which counts, and one that is no class. */
static void labels_are_checked(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_module *net = ls_sequential(s, LS_LIST(ls_nn_linear(s, 2)));
    ls_module_initialize(net, test_cpus(1), NULL);
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    ls_tensor *x = ls_zeros(s, LS_SHAPE(3, 5));
    const double weights[] = {0, 1};
    const ls_loss some[] = {{.has_ignore = true}, {.class_weights = weights}};
    for (int k = 0; k < 2; k++) {
        ls_backward(ls_cross_entropy_with(ls_module_forward(net, x), ls_zeros(s, LS_SHAPE(3)), &some[k]));
        assert_int_equal(ls_trainer_step(trainer), LS_BAD_ARGUMENT);
        assert_caught(s, LS_BAD_ARGUMENT, "ls_trainer_step: no label of the batch counts");
        assert_int_equal(ls_clear_grad(ls_module_param(net, "0.weight", ls_host())), LS_OK);
    }
    ls_tensor *maps = ls_zeros(s, LS_SHAPE(2, 3, 1, 2)),
              *labels = ls_values(s, (float[]){2, -100, 3, 0}, LS_SHAPE(2, 1, 2));
    ls_item(ls_sum(ls_cross_entropy_with(maps, labels, &(ls_loss){.has_ignore = true, .ignore = -100})));
    assert_caught(s, LS_BAD_ARGUMENT,
                  "the label of row 1, place 0, is 3; the logits have the classes 0 to 2, and labels are whole");
    ls_item(ls_sum(ls_cross_entropy_with(maps, labels, &(ls_loss){.has_ignore = true, .ignore = 3})));
    assert_caught(s, LS_BAD_ARGUMENT, "the label of row 0, place 1, is -100; the logits have");
    ls_tensor *two = ls_add(ls_cross_entropy_with(maps, labels, &some[0]), ls_cross_entropy(maps, labels));
    ls_item(ls_sum(two));
    assert_caught(s, LS_UNSUPPORTED, "it ignores a label here and another one, or none, there");
    assert_int_equal(ls_close(s), LS_OK);
}

/* ---- Targets of a data set ---- */

enum { PICTURES = 22, KINDS = 3, SIDE = 2, PLACES = SIDE * SIDE };

/* Each image is its number in all pixels, and image i's targets are what is given for it. */
static ls_data *with_targets(ls_session *s, const float *targets, ls_shape shape, const ls_loader *loader)
{
    uint8_t images[PICTURES * PLACES], labels[PICTURES] = {0};
    for (int i = 0; i < PICTURES * PLACES; i++)
        images[i] = (uint8_t)(i / PLACES);
    ls_data *data = ls_data_from_memory(s, images, labels, PICTURES, 1, SIDE, SIDE, 1, loader);
    if (targets)
        assert_int_equal(ls_data_set_targets(data, targets, shape), LS_OK);
    return data;
}

/* Whether every row of a batch's y is its image's. */
static void check_batches(ls_data *data, int batches)
{
    ls_batch b;
    int rows = 0;
    for (int k = 0; k < batches; k++) {
        assert_true(ls_data_next(data, &b));
        float *images = test_read(b.X), *targets = test_read(b.y);
        for (int i = 0; i < ls_dim(b.X, 0); i++, rows++)
            for (int c = 0; c < KINDS; c++)
                assert_true(targets[i * KINDS + c] == (float)lrintf(images[i * PLACES] * 255) + (float)c / 4);
        free(images);
        free(targets);
    }
    assert_int_equal(rows, ls_data_rows(data));
    assert_false(ls_data_next(data, &b));
}

static void targets_come_with_their_images(void **state)
{
    (void)state;
    float targets[PICTURES * KINDS];
    for (int i = 0; i < PICTURES * KINDS; i++)
        targets[i] = (float)(i / KINDS) + (float)(i % KINDS) / 4;
    ls_session *s = ls_open(NULL);
    ls_data *data = with_targets(s, targets, LS_SHAPE(PICTURES, KINDS), &(ls_loader){.batch = 8, .shuffle = true});
    ls_data *plain = with_targets(s, NULL, LS_SHAPE(1), NULL);
    assert_true(ls_data_checksum(data) != ls_data_checksum(plain));
    ls_data *held = ls_data_hold_out(data, 5);
    for (int epoch = 0; epoch < 2; epoch++) {
        check_batches(data, 3);
        check_batches(held, 1);
    }
    assert_int_equal(ls_data_set_targets(data, targets, LS_SHAPE(17, KINDS)), LS_BAD_ARGUMENT);
    assert_caught(s, LS_BAD_ARGUMENT,
                  "ls_data_set_targets: the data are in use; give them targets before the first batch (ls_data_next)");
    assert_int_equal(ls_data_set_targets(held, NULL, LS_SHAPE(5, KINDS)), LS_BAD_ARGUMENT);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_data_set_targets: targets is NULL");
    ls_data *twice = with_targets(s, targets, LS_SHAPE(PICTURES, KINDS), NULL);
    assert_int_equal(ls_data_set_targets(twice, targets, LS_SHAPE(PICTURES, KINDS)), LS_BAD_ARGUMENT);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_data_set_targets: the data have targets already; they are given once");
    assert_int_equal(ls_data_set_targets(plain, targets, LS_SHAPE(PICTURES - 1, KINDS)), LS_BAD_SHAPE);
    assert_caught(s, LS_BAD_SHAPE, "ls_data_set_targets: targets must be (22, ...)");
    ls_data *flipped = with_targets(s, NULL, LS_SHAPE(1), &(ls_loader){.augment = {.flip = true}});
    assert_int_equal(ls_data_set_targets(flipped, targets, LS_SHAPE(PICTURES, KINDS, 1)), LS_BAD_SHAPE);
    assert_caught(s, LS_BAD_SHAPE, "ls_data_set_targets: flip and crop move images of ");
    assert_int_equal(ls_close(s), LS_OK);
}

/* A network of maps, whose labels are masks; the kinds are more than a byte counts. */
enum { MANY = 300 };

static ls_tensor *masks(ls_tensor *outputs, ls_tensor *y, void *user)
{
    return ls_cross_entropy_with(outputs, y, user);
}

static double train_on_masks(int devices, char fingerprint[65])
{
    float targets[PICTURES * PLACES];
    const ls_loss options = {.has_ignore = true, .ignore = -1};
    for (int i = 0; i < PICTURES * PLACES; i++)
        targets[i] = (float)(i % 7 == 5 ? -1 : i * 37 % MANY);
    ls_session *s = ls_open(&(ls_options){.shard = 4});
    ls_data *data =
        with_targets(s, targets, LS_SHAPE(PICTURES, SIDE, SIDE), &(ls_loader){.batch = 10, .shuffle = true});
    ls_module *net = ls_sequential(s, LS_LIST(ls_nn_conv2d(s, MANY, 1, NULL)));
    ls_module_initialize(net, test_cpus(devices), &(ls_init){.like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    assert_int_equal(ls_trainer_check_batches(trainer, data), LS_OK);
    ls_batch b;
    ls_report report;
    ls_metrics metrics;
    while (ls_data_next(data, &b)) {
        ls_backward(masks(ls_module_forward(net, b.X), b.y, (void *)&options));
        assert_int_equal(ls_trainer_step(trainer), LS_OK);
    }
    assert_int_equal(ls_wait(s), LS_OK);
    assert_true(ls_trainer_next_report(trainer, &report));
    assert_true(fabs(report.loss - log(MANY)) < 0.02); /* as nothing is known at first */
    assert_int_equal(ls_module_evaluate_with(net, data, masks, (void *)&options, &metrics), LS_OK);
    const double loss = metrics.loss;
    assert_true(loss < report.loss && loss > 0.9 * report.loss);
    assert_int_equal(ls_module_fingerprint(net, fingerprint), LS_OK);
    assert_int_equal(ls_module_evaluate(net, data, &(ls_metrics){0}), LS_BAD_ARGUMENT); /* which ignores no label */
    assert_caught(s, LS_BAD_ARGUMENT, "the logits have the classes 0 to 299");
    assert_int_equal(ls_module_evaluate_with(net, data, NULL, NULL, &metrics), LS_BAD_ARGUMENT);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_module_evaluate_with: an argument is NULL");
    assert_true(isnan(metrics.loss));
    assert_int_equal(ls_close(s), LS_OK);
    return loss;
}

static void masks_are_trained_and_judged(void **state)
{
    (void)state;
    char alone[65], other[65];
    const double loss = train_on_masks(1, alone);
    for (int devices = 2; devices <= 3; devices++) {
        assert_true(train_on_masks(devices, other) == loss);
        assert_string_equal(other, alone);
    }
}

static void other_cross_entropies_are_refused(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_tensor *x = ls_clone(ls_zeros(s, LS_SHAPE(2, 3, 4)), ls_cpu(0)), *y = ls_clone(x, ls_cpu(0));
    ls_tensor *labels = ls_clone(ls_zeros(s, LS_SHAPE(2, 4)), ls_cpu(0));
    const double weights[] = {1, 1, NAN};
    assert_null(ls_cross_entropy_with(labels, ls_clone(x, ls_cpu(0)), NULL));
    assert_caught(s, LS_BAD_SHAPE, "ls_cross_entropy_with: y must be labels (images, ...)");
    assert_null(ls_cross_entropy(x, ls_clone(ls_zeros(s, LS_SHAPE(2, 3)), ls_cpu(0))));
    assert_caught(s, LS_BAD_SHAPE, "ls_cross_entropy: y must be labels (images, ...)");
    assert_null(ls_cross_entropy(x, ls_clone(ls_zeros(s, LS_SHAPE(2, 3, 5)), ls_cpu(0))));
    assert_caught(s, LS_BAD_SHAPE, "ls_cross_entropy: both operands must");
    assert_null(ls_cross_entropy(ls_clone(ls_zeros(s, LS_SHAPE(2)), ls_cpu(0)), labels));
    assert_caught(s, LS_BAD_SHAPE, "ls_cross_entropy: logits must be (images, classes, ...)");
    assert_null(ls_cross_entropy_with(x, ls_track(y), NULL));
    assert_caught(s, LS_UNSUPPORTED, "ls_cross_entropy_with: targets have no gradient; copy them with ls_clone");
    assert_null(ls_cross_entropy_with(x, ls_clone(x, ls_cpu(0)), &(ls_loss){.has_ignore = true}));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_cross_entropy_with: this loss has no option `ignore`");
    assert_null(ls_cross_entropy(NULL, labels));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_cross_entropy: a tensor is NULL");
    assert_null(ls_cross_entropy(x, NULL));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_cross_entropy: the second tensor is NULL; a batch has a y where");
    assert_null(ls_cross_entropy_with(x, labels, &(ls_loss){.delta = -1}));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_cross_entropy_with: this loss has no option `delta`");
    assert_null(ls_cross_entropy_with(x, labels, &(ls_loss){.positive_weights = weights}));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_cross_entropy_with: this loss has no option `positive_weights`");
    assert_null(ls_cross_entropy_with(x, labels, &(ls_loss){.class_weights = weights}));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_cross_entropy_with: the weight of class 2 must be finite and not below 0");
    assert_non_null(ls_cross_entropy_smooth(x, labels, 1));
    for (int k = 0; k < 3; k++) {
        const double smoothings[] = {-1e-300, 1 + 1e-15, NAN};
        assert_null(ls_cross_entropy_smooth(x, labels, smoothings[k]));
        assert_caught(s, LS_BAD_ARGUMENT, "ls_cross_entropy_smooth: smoothing must be from 0 to 1");
    }
    assert_int_equal(ls_close(s), LS_OK);
}

static void others_are_refused(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_tensor *x = ls_zeros(s, LS_SHAPE(2, 3)), *y = ls_zeros(s, LS_SHAPE(2, 3)), *z = ls_zeros(s, LS_SHAPE(2));
    const double weights[] = {1, -1, 1}, endless[] = {0, 3e38, 4e38}; /* of which the last is no float */
    assert_null(ls_l1(x, z));
    assert_caught(s, LS_BAD_SHAPE, "ls_l1: both operands must be (images, ...) of one shape");
    assert_null(ls_huber(x, z, NULL));
    assert_caught(s, LS_BAD_SHAPE, "ls_huber: both operands must");
    assert_null(ls_bce(x, z, NULL));
    assert_caught(s, LS_BAD_SHAPE, "ls_bce: both operands must");
    assert_null(ls_bce(NULL, y, NULL));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_bce: a tensor is NULL");
    for (int k = 0; k < 4; k++) {
        const double deltas[] = {-1, NAN, 1e39, 1e-46}; /* as a float 0 */
        assert_null(ls_huber(x, y, &(ls_loss){.delta = deltas[k]}));
        assert_caught(s, LS_BAD_ARGUMENT, "ls_huber: delta must be above 0 and finite");
    }
    assert_null(ls_huber(x, y, &(ls_loss){.smoothing = -0.1}));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_huber: this loss has no option `smoothing`");
    assert_null(ls_huber(x, y, &(ls_loss){.has_ignore = true}));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_huber: this loss has no option `ignore`");
    assert_null(ls_huber(x, y, &(ls_loss){.class_weights = weights}));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_huber: this loss has no option `class_weights`");
    assert_null(ls_huber(x, y, &(ls_loss){.positive_weights = weights}));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_huber: this loss has no option `positive_weights`");
    assert_null(ls_bce(x, y, &(ls_loss){.smoothing = 0.1}));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_bce: this loss has no option `smoothing`");
    assert_null(ls_bce(x, y, &(ls_loss){.delta = -1}));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_bce: this loss has no option `delta`");
    assert_null(ls_bce(x, y, &(ls_loss){.ignore = -1}));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_bce: this loss has no option `ignore`");
    assert_null(ls_bce(x, y, &(ls_loss){.class_weights = weights}));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_bce: the weight of class 1 must be finite and not below 0");
    assert_null(ls_bce(x, y, &(ls_loss){.positive_weights = endless}));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_bce: the weight of class 2 must be finite");
    assert_null(ls_bce(z, z, &(ls_loss){.class_weights = weights}));
    assert_caught(s, LS_BAD_SHAPE, "ls_bce: weights of classes need (images, classes, ...)");
    assert_int_equal(ls_close(s), LS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_in_pytorch),
        cmocka_unit_test(a_step_divides_as_pytorchs_mean),
        cmocka_unit_test(bce_is_stable),
        cmocka_unit_test(labels_of_a_data_set),
        cmocka_unit_test(labels_are_checked),
        cmocka_unit_test(targets_come_with_their_images),
        cmocka_unit_test(masks_are_trained_and_judged),
        cmocka_unit_test(other_cross_entropies_are_refused),
        cmocka_unit_test(others_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
