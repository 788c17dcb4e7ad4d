/* Data sets of a program's own: floats of any shape, labels of many classes, and batches that a function makes. */
#include "files.h"
#include "not_run.h"
#include "tensors.h"
#include "thread_wire.h"

#include <math.h>
#include <stdio.h>
#include <lockstep_checkpoint.h>
#include <lockstep_data.h>
#include <lockstep_nn.h>
#include <lockstep_train.h>
#include <lockstep_weights.h>

enum { ROWS = 22, FEATURES = 6, CLASSES = 3, BATCH = 5, BATCHES = 5, STEPS = 12, MANY = 1 << 20 };

static float values[ROWS * FEATURES];
static int32_t labels[ROWS], wide[ROWS];

static int make_numbers(void **state)
{
    uint32_t x = 1;
    for (int i = 0; i < ROWS * FEATURES; i++)
        values[i] = (float)((x = x * 1664525u + 1013904223u) >> 8) / 0x1p24f - 0.5f;
    for (int i = 0; i < ROWS; i++) {
        labels[i] = i * 7 % CLASSES;
        wide[i] = MANY - 1 - i * 1001;
    }
    return test_folder_make(state);
}

/* ---- Floats ---- */

static void floats_of_any_shape(void **state)
{
    (void)state;
    static const ls_shape shapes[] = {{2, {ROWS, 6}}, {3, {ROWS, 3, 2}}, {4, {ROWS, 1, 2, 3}}};
    static const char *const summaries[] = {"22 images 6, values", "22 images 3x2, values", "22 images 1x2x3, values"};
    ls_session *s = ls_open(NULL);
    for (int k = 0; k < 3; k++) {
        ls_data *data = ls_data_from_floats(s, values, shapes[k], &(ls_loader){.batch = 20});
        ls_data_info info;
        ls_data_counts counts;
        ls_batch b;
        assert_int_equal(ls_data_about(data, &info), LS_OK);
        assert_int_equal(info.rank, shapes[k].rank);
        assert_int_equal(info.rows, ROWS);
        assert_int_equal(info.channels * info.height * info.width, FEATURES);
        assert_int_equal(info.classes, 0);
        assert_true(info.floats);
        assert_int_equal(ls_data_count(data, &counts), LS_OK);
        assert_int_equal(counts.largest, 0);
        assert_non_null(strstr(ls_data_summary(data), summaries[k]));
        assert_null(strstr(ls_data_summary(data), "class"));
        assert_true(ls_data_next(data, &b));
        assert_int_equal(ls_rank(b.X), shapes[k].rank);
        for (int i = 1; i < shapes[k].rank; i++)
            assert_int_equal(ls_dim(b.X, i), shapes[k].dim[i]);
        assert_null(b.y);
        assert_int_equal(b.n_inputs, 1);
        assert_ptr_equal(b.inputs[0], b.X);
        assert_values(b.X, values);
        ls_module *net = ls_sequential(s, LS_LIST(ls_nn_linear(s, 2)));
        if (k < 2) {
            ls_module_initialize(net, test_cpus(1), &(ls_init){.like = data});
            assert_int_equal(ls_module_images_shape(net).rank, shapes[k].rank);
        }
        assert_true(ls_data_next(data, &b));
        assert_values(b.X, values + 20 * FEATURES);
    }
    assert_int_equal(ls_close(s), LS_OK);
}

static bool fill_singles(ls_fill *batch, void *user)
{
    memcpy(batch->X, (const float *)user + batch->first, (size_t)batch->rows * sizeof *batch->X);
    memcpy(batch->inputs[1], (const float *)user + batch->first, (size_t)batch->rows * sizeof *batch->X);
    memcpy(batch->targets, (const float *)user + batch->first, (size_t)batch->rows * sizeof *batch->X);
    return true;
}

/* A number for each row, (rows): of X, of further inputs and of a source. */
static void single_numbers_are_rows_of_one(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    const ls_source source = {.fill = fill_singles,
                              .user = values,
                              .shape = LS_SHAPE(ROWS),
                              .more = {LS_SHAPE(ROWS)},
                              .n_more = 1,
                              .targets = LS_SHAPE(ROWS)};
    ls_data *floats = ls_data_from_floats(s, values, LS_SHAPE(ROWS), &(ls_loader){.batch = 8});
    assert_int_equal(ls_data_add_input(floats, values, LS_SHAPE(ROWS)), LS_OK);
    assert_int_equal(ls_data_set_targets(floats, values, LS_SHAPE(ROWS)), LS_OK);
    ls_data *const both[] = {floats, ls_data_from_function(s, &source, &(ls_loader){.batch = 8})};
    for (int k = 0; k < 2; k++) {
        ls_batch b;
        assert_true(ls_data_next(both[k], &b));
        for (int i = 0; i < 2; i++) {
            assert_int_equal(ls_rank(b.inputs[i]), 2);
            assert_int_equal(ls_dim(b.inputs[i], 1), 1);
            assert_values(b.inputs[i], values);
        }
        assert_int_equal(ls_rank(b.y), 1);
        assert_values(b.y, values);
    }
    assert_int_equal(ls_close(s), LS_OK);
}

/* Of more classes than a byte has, and of fewer; they and further inputs go along with images that are held out. */
static void labels_and_inputs_stay_with_their_rows(void **state)
{
    (void)state;
    for (int many = 0; many < 2; many++) {
        const int32_t *given = many ? wide : labels;
        ls_session *s = ls_open(NULL);
        ls_data *data =
            ls_data_from_floats(s, values, LS_SHAPE(ROWS, FEATURES), &(ls_loader){.batch = 8, .shuffle = true});
        uint64_t sums[3] = {ls_data_checksum(data)};
        assert_int_equal(ls_data_set_labels(data, labels, ROWS, CLASSES), LS_OK);
        assert_int_equal(ls_data_set_labels(data, given, ROWS, many ? MANY : CLASSES), LS_OK); /* in place of those */
        sums[1] = ls_data_checksum(data);
        assert_int_equal(ls_data_add_input(data, values, LS_SHAPE(ROWS, 2, 3)), LS_OK);
        sums[2] = ls_data_checksum(data);
        assert_true(sums[0] != sums[1] && sums[1] != sums[2] && sums[0] != sums[2]);
        assert_non_null(strstr(ls_data_summary(data), many ? "1048576 classes" : "3 classes, 7 to 8 each"));
        ls_data *held = ls_data_hold_out(data, 4);
        int rows = 0;
        for (int k = 0; k < 2; k++)
            for (ls_batch b; ls_data_next(k ? held : data, &b);) {
                float *x = test_read(b.X), *y = test_read(b.y), *again = test_read(b.inputs[1]);
                assert_int_equal(b.n_inputs, 2);
                assert_int_equal(ls_rank(b.inputs[1]), 3);
                assert_memory_equal(x, again, (size_t)ls_rows(b.X) * FEATURES * sizeof *x);
                for (int i = 0; i < ls_rows(b.X); i++, rows++) {
                    int row = 0;
                    while (memcmp(values + row * FEATURES, x + i * FEATURES, FEATURES * sizeof *x) != 0)
                        row++;
                    assert_true(y[i] == (float)given[row]);
                }
                free(x);
                free(y);
                free(again);
            }
        assert_int_equal(rows, ROWS);
        assert_int_equal(ls_close(s), LS_OK);
    }
}

/* Labels in place of those that bytes came with. */
static void bytes_get_other_labels(void **state)
{
    (void)state;
    static const uint8_t pixels[ROWS * 4], zeros[ROWS];
    ls_session *s = ls_open(NULL);
    ls_data *data = ls_data_from_memory(s, pixels, zeros, ROWS, 1, 2, 2, 1, &(ls_loader){.batch = ROWS});
    assert_int_equal(ls_data_set_labels(data, wide, ROWS, MANY), LS_OK);
    ls_batch b;
    assert_true(ls_data_next(data, &b));
    float *y = test_read(b.y);
    for (int i = 0; i < ROWS; i++)
        assert_true(y[i] == (float)wide[i]);
    free(y);
    assert_int_equal(ls_bytes_moved(s), 0);
    ls_to(b.y, ls_cpu(0));
    assert_int_equal(ls_bytes_moved(s), ROWS * 4);
    assert_int_equal(ls_close(s), LS_OK);
}

/* Bytes that come without labels: they get targets, have no y, or are not evaluated. */
static void bytes_need_no_labels(void **state)
{
    (void)state;
    static const uint8_t pixels[ROWS * 4];
    ls_session *s = ls_open(NULL);
    const ls_loader how = {.batch = ROWS};
    ls_data *data = ls_data_from_memory(s, pixels, NULL, ROWS, 1, 2, 2, 0, &how);
    ls_data *bare = ls_data_from_memory(s, pixels, NULL, ROWS, 1, 2, 2, 0, &how);
    assert_int_equal(ls_data_set_targets(data, values, LS_SHAPE(ROWS, FEATURES)), LS_OK);
    ls_batch b;
    assert_true(ls_data_next(data, &b));
    assert_values(b.y, values);
    assert_true(ls_data_next(bare, &b));
    assert_null(b.y);
    ls_module *net = ls_sequential(s, LS_LIST(ls_nn_fn(s, ls_flatten), ls_nn_linear(s, 2)));
    ls_module_initialize(net, test_cpus(1), &(ls_init){.like = bare});
    assert_true(isnan(ls_module_accuracy(net, bare)));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_module_accuracy: the data have neither labels nor targets");
    assert_null(ls_data_from_memory(s, pixels, NULL, ROWS, 1, 2, 2, 3, &how));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_data_from_memory: labels are NULL, and there are 3 classes; without labels");
    assert_null(ls_data_from_memory(s, pixels, pixels, ROWS, 1, 2, 2, 0, &how));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_data_from_memory: labels are given, and there are 0 classes");
    assert_int_equal(ls_close(s), LS_OK);
}

#define REFUSED(call, status, words)                                                                                   \
    do {                                                                                                               \
        (void)(call);                                                                                                  \
        assert_caught(s, status, words);                                                                               \
    } while (0)

static void wrong_data_are_refused(void **state)
{
    (void)state;
    static const char *const floats =
        "ls_data_from_floats: the shape must be (rows), (rows, features), (rows, tokens, features) or (rows, channels, "
        "height, width), of at least 1 each";
    float bad[ROWS * FEATURES];
    memcpy(bad, values, sizeof bad);
    bad[3 * FEATURES + 1] = INFINITY;
    int32_t below[ROWS] = {0, -1};
    ls_session *s = ls_open(NULL);
    const ls_shape shape = LS_SHAPE(ROWS, FEATURES);
    REFUSED(ls_data_from_floats(s, NULL, shape, NULL), LS_BAD_ARGUMENT, "ls_data_from_floats: values is NULL");
    REFUSED(ls_data_from_floats(s, values, (ls_shape){0}, NULL), LS_BAD_SHAPE, floats);
    REFUSED(ls_data_from_floats(s, values, LS_SHAPE(0, 2), NULL), LS_BAD_SHAPE, floats);
    REFUSED(ls_data_from_floats(s, values, LS_SHAPE(2, MANY, 4), NULL), LS_BAD_SHAPE,
            "needs 1 to 2147483647 images of 1 to 1048576 values each");
    REFUSED(ls_data_from_floats(s, bad, shape, NULL), LS_BAD_ARGUMENT,
            "ls_data_from_floats: row 3 holds a number that is not finite");
    REFUSED(ls_data_from_floats(s, values, shape, &(ls_loader){.augment = {.flip = true}}), LS_BAD_ARGUMENT,
            "flip, crop and erase are for images (rows, channels, height, width); these have 2 sizes");
    ls_data *data = ls_data_from_floats(s, values, shape, NULL);
    REFUSED(ls_data_set_labels(data, NULL, ROWS, 3), LS_BAD_ARGUMENT, "ls_data_set_labels: labels is NULL");
    REFUSED(ls_data_set_labels(data, labels, ROWS, 0), LS_BAD_ARGUMENT,
            "ls_data_set_labels: 0 classes; 1 to 16777216 are possible");
    REFUSED(ls_data_set_labels(data, labels, ROWS - 1, 3), LS_BAD_SHAPE, "ls_data_set_labels: 21 labels for 22 images");
    REFUSED(ls_data_set_labels(data, labels, ROWS, 2), LS_BAD_ARGUMENT,
            "ls_data_set_labels: the label of row 2 is 2; of 2 classes labels are 0 to 1: count labels from 0");
    REFUSED(ls_data_set_labels(data, below, ROWS, 2), LS_BAD_ARGUMENT,
            "ls_data_set_labels: the label of row 1 is -1; of 2");
    REFUSED(ls_data_add_input(data, values, LS_SHAPE(ROWS - 1, 2)), LS_BAD_SHAPE,
            "ls_data_add_input: inputs must be (22, ...) for the images that there are, and of 1 to 1048576 numbers "
            "each; the "
            "shape is (21, 2)");
    REFUSED(ls_data_add_input(data, values, LS_SHAPE(ROWS - 1)), LS_BAD_SHAPE,
            "ls_data_add_input: inputs must be (22, ...)");
    REFUSED(ls_data_add_input(data, bad, shape), LS_BAD_ARGUMENT,
            "ls_data_add_input: row 3 holds a number that is not finite");
    for (int i = 1; i < LS_MAX_INPUTS; i++)
        assert_int_equal(ls_data_add_input(data, values, shape), LS_OK);
    REFUSED(ls_data_add_input(data, values, shape), LS_BAD_ARGUMENT,
            "ls_data_add_input: there are 4 inputs already, as many as a network takes");
    assert_int_equal(ls_data_set_targets(data, values, shape), LS_OK);
    REFUSED(ls_data_set_labels(data, labels, ROWS, 3), LS_BAD_ARGUMENT,
            "ls_data_set_labels: the data have targets (ls_data_set_targets); data have those or labels, not both");
    ls_batch b;
    assert_true(ls_data_next(data, &b));
    REFUSED(ls_data_add_input(data, values, shape), LS_BAD_ARGUMENT,
            "ls_data_add_input: the data are in use; give them values before the first batch (ls_data_next)");
    assert_int_equal(ls_close(s), LS_OK);
}

/* ---- From a function ---- */

typedef struct made {
    bool moves;   /* other numbers in each epoch */
    bool targets; /* in place of labels */
    bool more;    /* the numbers again, as a second input */
    bool wrong;   /* in batch `fails` of epoch 1, which fails unless it has this label, or */
    int fails, label;
    bool mute, nan;         /* it does not say why; it has a number that is not finite */
    int calls, first, last; /* batches that were asked for, and how many: epoch * BATCHES + batch */
} made;

static bool make(ls_fill *f, void *user)
{
    made *m = user;
    const int number = (int)f->epoch * BATCHES + f->batch;
    m->first = m->calls++ ? m->first : number;
    m->last = number;
    assert_int_equal(f->first, f->batch * BATCH);
    assert_int_equal(f->rows, f->batch == BATCHES - 1 ? ROWS % BATCH : BATCH);
    assert_true(m->targets ? f->targets && !f->labels : f->labels && !f->targets);
    for (int i = 0; i < f->rows * FEATURES; i++) {
        assert_true(f->X[i] == 0);
        f->X[i] = values[f->first * FEATURES + i] + (m->moves ? (float)f->epoch / 8 : 0);
    }
    assert_ptr_equal(f->inputs[0], f->X);
    assert_true(m->more == (f->inputs[1] != NULL));
    if (m->more)
        memcpy(f->inputs[1], f->X, (size_t)f->rows * FEATURES * sizeof *f->X);
    for (int i = 0; i < f->rows; i++)
        if (m->targets)
            f->targets[i] = (float)labels[f->first + i];
        else
            f->labels[i] = labels[f->first + i];
    if (!m->wrong || f->epoch == 0 || f->batch != m->fails)
        return true;
    if (m->nan)
        f->X[2 * FEATURES] = NAN;
    if (m->label)
        f->labels[1] = m->label;
    if (!m->mute)
        snprintf(f->message, sizeof f->message, "the disk with it is away");
    return m->nan || m->label;
}

static ls_source source_of(made *m)
{
    ls_source source = {.fill = make, .user = m, .shape = LS_SHAPE(ROWS, FEATURES), .name = "numbers"};
    source.n_more = m->more;
    if (m->more)
        source.more[0] = LS_SHAPE(ROWS, 2, 3);
    if (m->targets)
        source.targets = LS_SHAPE(ROWS, 1);
    else
        source.classes = CLASSES;
    return source;
}

typedef struct run {
    ls_session *s;
    ls_data *data;
    ls_module *net;
    ls_trainer *trainer;
    char fingerprint[65];
    ls_metrics metrics;
} run;

static void begin(run *r, made *m, int devices, ls_cluster *cluster)
{
    *r = (run){.s = ls_open(&(ls_options){.seed = 4, .shard = 2, .cluster = cluster})};
    const ls_loader loader = {.batch = BATCH};
    ls_source source = m ? source_of(m) : (ls_source){.fill = NULL};
    r->data = m ? ls_data_from_function(r->s, &source, &loader)
                : ls_data_from_floats(r->s, values, LS_SHAPE(ROWS, FEATURES), &loader);
    if (!m)
        ls_data_set_labels(r->data, labels, ROWS, CLASSES);
    const int outputs = m && m->targets ? 1 : CLASSES;
    r->net = ls_sequential(r->s, LS_LIST(ls_nn_linear(r->s, 8), ls_nn_fn(r->s, ls_tanh),
                                         ls_nn_dropout(r->s, m && m->moves ? 0.25 : 0), ls_nn_linear(r->s, outputs)));
    ls_module_initialize(r->net, test_cpus(devices), &(ls_init){.kind = LS_XAVIER, .like = r->data});
    r->trainer = ls_trainer_new(r->net, LS_SGD, &(ls_optim){.lr = 0.1, .momentum = 0.9});
    ls_trainer_check_batches(r->trainer, r->data);
}

static void train(run *r, const made *m, int steps)
{
    for (ls_batch b; steps > 0 && !ls_failed(r->s);)
        if (ls_data_next(r->data, &b)) {
            ls_tensor *outputs = ls_module_forward(r->net, b.X);
            ls_backward(m && m->targets ? ls_mse(outputs, b.y) : ls_cross_entropy(outputs, b.y));
            ls_trainer_step(r->trainer);
            steps--;
        }
    ls_wait(r->s);
}

static void end(run *r)
{
    ls_module_evaluate(r->net, r->data, &r->metrics);
    ls_module_fingerprint(r->net, r->fingerprint);
    if (ls_close(r->s) != LS_OK)
        fail_msg("a run has failed");
}

static void as_from_memory(void **state)
{
    (void)state;
    run memory, function;
    made m = {.moves = false};
    begin(&memory, NULL, 2, NULL);
    train(&memory, NULL, STEPS);
    end(&memory);
    begin(&function, &m, 3, NULL);
    assert_int_equal(m.calls, 0); /* what only asks for shapes asks for no batch */
    train(&function, &m, STEPS);
    assert_int_equal(m.calls, STEPS);
    assert_int_equal(m.last, STEPS - 1);
    end(&function);
    assert_int_equal(m.calls, STEPS + BATCHES); /* all of epoch 0, to evaluate */
    assert_string_equal(function.fingerprint, memory.fingerprint);
    assert_true(function.metrics.loss == memory.metrics.loss && function.metrics.correct == memory.metrics.correct);
}

static run of_ranks[WIRE_RANKS];

static void train_rank(ls_cluster *cluster, int rank, void *user)
{
    made m = *(const made *)user;
    begin(&of_ranks[rank], &m, 2, cluster);
    train(&of_ranks[rank], &m, STEPS);
    end(&of_ranks[rank]);
}

static void same_bits_on_any_devices_and_ranks(void **state)
{
    (void)state;
    made moving = {.moves = true};
    run one, other;
    begin(&one, &moving, 1, NULL);
    train(&one, &moving, STEPS);
    end(&one);
    for (int devices = 2; devices <= 16; devices += devices == 3 ? 13 : 1) {
        begin(&other, &moving, devices, NULL);
        train(&other, &moving, STEPS);
        end(&other);
        assert_string_equal(other.fingerprint, one.fingerprint);
        assert_true(other.metrics.loss == one.metrics.loss);
    }
    for (int ranks = 2; ranks <= 3; ranks++) {
        wire_run(ranks, train_rank, &moving);
        for (int r = 0; r < ranks; r++)
            assert_string_equal(of_ranks[r].fingerprint, one.fingerprint);
    }
}

/* The first input, and the second as features. */
static ls_tensor *sum_of_two(ls_module *self, ls_tensor *x)
{
    return ls_add(x, ls_scale(ls_flatten(ls_module_input(self, 1)), 2));
}

static void several_inputs_from_a_function(void **state)
{
    (void)state;
    made m = {.more = true};
    ls_session *s = ls_open(NULL);
    const ls_source source = source_of(&m);
    ls_data *data = ls_data_from_function(s, &source, &(ls_loader){.batch = BATCH});
    ls_module *net = ls_block(s, sum_of_two, NULL);
    ls_module_initialize(net, test_cpus(2), &(ls_init){.like = data});
    static float outputs[ROWS * FEATURES];
    assert_int_equal(ls_module_predict(net, data, outputs, FEATURES), LS_OK);
    for (int i = 0; i < ROWS * FEATURES; i++)
        assert_true(outputs[i] == values[i] + 2 * values[i]);
    ls_batch b;
    assert_true(ls_data_next(data, &b));
    assert_int_equal(b.n_inputs, 2);
    assert_int_equal(ls_rank(b.inputs[1]), 3);
    assert_values(b.inputs[1], values);
    assert_int_equal(ls_close(s), LS_OK);
}

static void targets_from_a_function(void **state)
{
    (void)state;
    made m = {.targets = true};
    run r;
    begin(&r, &m, 2, NULL);
    train(&r, &m, 3);
    ls_batch b;
    assert_true(ls_data_next(r.data, &b));
    assert_int_equal(ls_rank(b.y), 2);
    float *y = test_read(b.y);
    for (int i = 0; i < BATCH; i++)
        assert_true(y[i] == (float)labels[3 * BATCH + i]);
    free(y);
    assert_int_equal(ls_close(r.s), LS_OK);
}

/* A run that goes on asks for the batch that comes next, in whatever epoch it is, and ends with the same bits. */
static void a_resume_asks_for_the_next_batch(void **state)
{
    (void)state;
    made m = {.moves = true};
    run whole, first, again;
    begin(&whole, &m, 2, NULL);
    train(&whole, &m, STEPS);
    end(&whole);
    begin(&first, &m, 3, NULL);
    ls_checkpoints *kept = ls_checkpoints_open(first.trainer, first.data, test_path("kept"), NULL);
    if (ls_status_of(first.s) == LS_UNSUPPORTED) {
        char why[200];
        snprintf(why, sizeof why, "%s", ls_message(first.s));
        ls_close(first.s);
        test_not_run("%s", why);
    }
    train(&first, &m, 7);
    ls_checkpoint_save(kept, NULL);
    assert_int_equal(ls_checkpoint_wait(kept), LS_OK);
    assert_int_equal(ls_close(first.s), LS_OK);
    made later = {.moves = true};
    begin(&again, &later, 1, NULL);
    kept = ls_checkpoints_open(again.trainer, again.data, test_path("kept"), NULL);
    assert_true(ls_checkpoint_load(kept, NULL));
    assert_int_equal(later.calls, 0);
    train(&again, &later, STEPS - 7);
    assert_int_equal(later.first, 7);
    assert_int_equal(later.calls, STEPS - 7);
    end(&again);
    assert_string_equal(again.fingerprint, whole.fingerprint);
    /* Another function's name is another run's. */
    ls_session *s = ls_open(&(ls_options){.seed = 4, .shard = 2});
    ls_source renamed = source_of(&later);
    renamed.name = "other numbers";
    ls_data *data = ls_data_from_function(s, &renamed, &(ls_loader){.batch = BATCH});
    ls_module *net = ls_sequential(
        s, LS_LIST(ls_nn_linear(s, 8), ls_nn_fn(s, ls_tanh), ls_nn_dropout(s, 0.25), ls_nn_linear(s, CLASSES)));
    ls_module_initialize(net, test_cpus(1), &(ls_init){.kind = LS_XAVIER, .like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1, .momentum = 0.9});
    kept = ls_checkpoints_open(trainer, data, test_path("kept"), NULL);
    assert_false(ls_checkpoint_load(kept, NULL));
    assert_int_equal(ls_close(s), LS_CHANGED);
}

static void what_a_function_does_wrong_ends_the_run(void **state)
{
    (void)state;
    static const struct {
        made how;
        ls_status status;
        const char *words;
    } cases[] = {
        {{.fails = 2}, LS_IO, "numbers: batch 2 of epoch 1: the disk with it is away"},
        {{.fails = 1, .mute = true}, LS_IO, "numbers: batch 1 of epoch 1: it has failed, and does not say why"},
        {{.fails = 3, .nan = true},
         LS_BAD_ARGUMENT,
         "numbers: batch 3 of epoch 1: row 2 holds a number that is not finite"},
        {{.fails = 0, .label = 3},
         LS_BAD_ARGUMENT,
         "numbers: batch 0 of epoch 1: the label of row 1 is 3; of 3 classes labels are 0 to 2"},
        {{.fails = 0, .label = -1}, LS_BAD_ARGUMENT, "the label of row 1 is -1; of 3 classes labels are 0 to 2"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        made m = cases[k].how;
        m.wrong = true;
        run r;
        begin(&r, &m, 2, NULL);
        train(&r, &m, STEPS);
        assert_caught(r.s, cases[k].status, cases[k].words);
        assert_int_equal(m.last, BATCHES + m.fails);
        assert_int_equal(ls_close(r.s), LS_OK);
    }
}

static void wrong_sources_are_refused(void **state)
{
    (void)state;
    made m = {.moves = false};
    ls_session *s = ls_open(NULL);
    ls_source none = source_of(&m), both = none, neither = none, fewer = none, flat = none;
    none.fill = NULL;
    both.targets = LS_SHAPE(ROWS, 1);
    neither.classes = fewer.classes = 0;
    fewer.targets = LS_SHAPE(ROWS - 1, 1);
    flat.shape = LS_SHAPE(ROWS, 0);
    static const char *const either =
        "ls_data_from_function: the source has either 1 to 16777216 classes, or targets (rows, ...) of as many rows as "
        "its shape and of 1 to 1048576 numbers each";
    REFUSED(ls_data_from_function(s, NULL, NULL), LS_BAD_ARGUMENT,
            "ls_data_from_function: the source, or its function, is NULL");
    REFUSED(ls_data_from_function(s, &none, NULL), LS_BAD_ARGUMENT,
            "ls_data_from_function: the source, or its function");
    REFUSED(ls_data_from_function(s, &both, NULL), LS_BAD_ARGUMENT, either);
    REFUSED(ls_data_from_function(s, &neither, NULL), LS_BAD_ARGUMENT, either);
    REFUSED(ls_data_from_function(s, &fewer, NULL), LS_BAD_ARGUMENT, either);
    REFUSED(ls_data_from_function(s, &flat, NULL), LS_BAD_SHAPE,
            "ls_data_from_function: the shape must be (rows), (rows, features)");
    const ls_source good = source_of(&m);
    ls_source many = good, less = good;
    many.n_more = LS_MAX_INPUTS;
    less.n_more = 1;
    less.more[0] = LS_SHAPE(ROWS - 1, 2);
    for (int k = 0; k < 2; k++)
        REFUSED(ls_data_from_function(s, k ? &many : &less, NULL), LS_BAD_ARGUMENT,
                "ls_data_from_function: the source has 0 to 3 inputs more, (rows, ...) of as many rows as its shape");
    REFUSED(ls_data_from_function(s, &good, &(ls_loader){.shuffle = true}), LS_BAD_ARGUMENT,
            "ls_data_from_function: the loader shuffles or changes images, which is the function's to do");
    REFUSED(ls_data_from_function(s, &good, &(ls_loader){.augment = {.erase = 0.5}}), LS_BAD_ARGUMENT,
            "ls_data_from_function: the loader shuffles or changes images");
    ls_data *data = ls_data_from_function(s, &good, NULL);
    static const char *const whole = "the data come from a function, batch by batch, and are never there as a whole";
    ls_data_counts counts;
    REFUSED(ls_data_count(data, &counts), LS_UNSUPPORTED, whole);
    REFUSED(ls_data_summary(data), LS_UNSUPPORTED, whole);
    REFUSED(ls_data_hold_out(data, 2), LS_UNSUPPORTED, whole);
    REFUSED(ls_data_set_labels(data, labels, ROWS, 3), LS_UNSUPPORTED, whole);
    REFUSED(ls_data_set_targets(data, values, LS_SHAPE(ROWS, 1)), LS_UNSUPPORTED, whole);
    REFUSED(ls_data_add_input(data, values, LS_SHAPE(ROWS, 1)), LS_UNSUPPORTED, whole);
    assert_true(ls_data_checksum(data) != 0);
    assert_int_equal(ls_close(s), LS_OK);
}

/* ---- Memory ---- */

static ls_status all_of_it(const ls_allocator *allocator)
{
    made m = {.moves = false};
    ls_session *s = ls_open(&(ls_options){.allocator = allocator});
    const ls_source source = source_of(&m);
    ls_data *data = ls_data_from_floats(s, values, LS_SHAPE(ROWS, FEATURES), &(ls_loader){.batch = BATCH});
    ls_data_set_labels(data, wide, ROWS, MANY);
    ls_data_add_input(data, values, LS_SHAPE(ROWS, 2, 3));
    ls_data *held = ls_data_hold_out(data, 6),
            *made_ones = ls_data_from_function(s, &source, &(ls_loader){.batch = BATCH});
    ls_batch b;
    ls_data_next(held, &b);
    ls_data_next(made_ones, &b);
    return ls_close(s);
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(all_of_it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_of_any_shape),
        cmocka_unit_test(single_numbers_are_rows_of_one),
        cmocka_unit_test(labels_and_inputs_stay_with_their_rows),
        cmocka_unit_test(bytes_get_other_labels),
        cmocka_unit_test(bytes_need_no_labels),
        cmocka_unit_test(wrong_data_are_refused),
        cmocka_unit_test(as_from_memory),
        cmocka_unit_test(same_bits_on_any_devices_and_ranks),
        cmocka_unit_test(several_inputs_from_a_function),
        cmocka_unit_test(targets_from_a_function),
        cmocka_unit_test(a_resume_asks_for_the_next_batch),
        cmocka_unit_test(what_a_function_does_wrong_ends_the_run),
        cmocka_unit_test(wrong_sources_are_refused),
        cmocka_unit_test(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_numbers, test_folder_remove);
}
