/* Networks of several inputs, ids of an embedding among them, and metrics of one's own: the same bits on any devices
 * and ranks, as one input that is cut into them; and what they refuse. */
#include "files.h"
#include "not_run.h"
#include "tensors.h"
#include "thread_wire.h"

#include <math.h>
#include <stdio.h>
#include <lockstep_data.h>
#include <lockstep_nn.h>
#include <lockstep_train.h>

#include "data/data.h"

enum {
    ROWS = 22,
    SIDE = 4,
    WIDE = 5,
    TOKENS = 3,
    TABLE = 7,
    CLASSES = 300,
    MAP = SIDE * SIDE,
    ALL = MAP + WIDE + TOKENS
};

static float maps[ROWS * MAP], features[ROWS * WIDE], ids[ROWS * TOKENS], joined[ROWS * ALL];
static int32_t labels[ROWS];

static int make_numbers(void **state)
{
    uint32_t x = 1;
    for (int i = 0; i < ROWS * ALL; i++)
        joined[i] = (float)((x = x * 1664525u + 1013904223u) >> 8) / 0x1p24f - 0.5f;
    for (int i = 0; i < ROWS; i++) {
        float *all = joined + i * ALL;
        for (int k = 0; k < TOKENS; k++)
            all[MAP + WIDE + k] = (float)((i + 3 * k) % TABLE);
        memcpy(maps + i * MAP, all, MAP * sizeof *all);
        memcpy(features + i * WIDE, all + MAP, WIDE * sizeof *all);
        memcpy(ids + i * TOKENS, all + MAP + WIDE, TOKENS * sizeof *all);
        labels[i] = i * 37 % CLASSES;
    }
    return test_folder_make(state);
}

/* ---- A network of three inputs, and of one that is cut ---- */

static ls_tensor *meet(ls_module *self, ls_tensor *map, ls_tensor *wide, ls_tensor *tokens)
{
    ls_tensor *table = ls_module_parameter(self, "table", LS_SHAPE(TABLE, 2));
    ls_tensor *parts[] = {ls_flatten(ls_relu(ls_module_call(self, "conv", map))), ls_module_call(self, "wide", wide),
                          ls_flatten(ls_embedding(tokens, table))};
    return ls_module_call(self, "out", ls_concat(parts, 3));
}

static ls_tensor *of_three(ls_module *self, ls_tensor *x)
{
    return meet(self, x, ls_module_input(self, 1), ls_module_input(self, 2));
}

static ls_tensor *of_one(ls_module *self, ls_tensor *x)
{
    return meet(self, ls_reshape(ls_slice(x, 1, 0, MAP), 1, SIDE, SIDE), ls_slice(x, 1, MAP, MAP + WIDE),
                ls_slice(x, 1, MAP + WIDE, ALL));
}

static ls_module *network(ls_session *s, ls_forward *forward)
{
    ls_module *net = ls_block(s, forward, NULL);
    ls_module_append(net, "conv", ls_nn_conv2d(s, 4, 3, &(ls_conv){.padding = 1}));
    ls_module_append(net, "wide", ls_nn_linear(s, 6));
    ls_module_append(net, "out", ls_nn_linear(s, CLASSES));
    return net;
}

/* Of one input, or of three. */
static ls_data *data_of(ls_session *s, bool one, const ls_loader *loader)
{
    ls_data *data = one ? ls_data_from_floats(s, joined, LS_SHAPE(ROWS, ALL), loader)
                        : ls_data_from_floats(s, maps, LS_SHAPE(ROWS, 1, SIDE, SIDE), loader);
    assert_int_equal(ls_data_set_labels(data, labels, ROWS, CLASSES), LS_OK);
    if (!one) {
        assert_int_equal(ls_data_add_input(data, features, LS_SHAPE(ROWS, WIDE)), LS_OK);
        assert_int_equal(ls_data_add_input(data, ids, LS_SHAPE(ROWS, TOKENS)), LS_OK);
    }
    return data;
}

/* Two numbers for each image. */
static ls_tensor *two_metrics(ls_tensor *outputs, ls_tensor *y, void *user)
{
    (void)user;
    ls_tensor *parts[] = {ls_reshape(ls_cross_entropy(outputs, y), 1, 1, 1), ls_reshape(ls_sum_each(outputs), 1, 1, 1)};
    return ls_concat(parts, 2);
}

typedef struct outcome {
    char fingerprint[65];
    ls_metrics metrics;
    double means[2];
    float logits[ROWS * CLASSES];
} outcome;

typedef struct how {
    bool one, arrays; /* one input; arrays of the program's in place of the data set */
    int devices;
} how;

static ls_tensor *call(ls_module *net, const ls_batch *b, bool training)
{
    return training ? ls_module_forward_all(net, b->inputs, b->n_inputs)
                    : ls_module_infer_all(net, b->inputs, b->n_inputs);
}

/* The batch again, as numbers that are no samples of a data set. */
static void copy_batch(ls_batch *b)
{
    for (int i = 0; i < b->n_inputs; i++)
        b->inputs[i] = ls_clone(b->inputs[i], ls_host());
    b->y = ls_clone(b->y, ls_host());
}

static void train(how h, ls_cluster *cluster, outcome *out)
{
    ls_session *s = ls_open(&(ls_options){.seed = 3, .shard = 3, .cluster = cluster});
    ls_data *data = data_of(s, h.one, &(ls_loader){.batch = 10, .shuffle = true});
    ls_module *net = network(s, h.one ? of_one : of_three);
    ls_module_initialize(net, test_cpus(h.devices), &(ls_init){.kind = LS_HE, .like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1, .momentum = 0.9});
    assert_int_equal(ls_trainer_check_batches(trainer, data), LS_OK);
    ls_batch b;
    for (int epoch = 0; epoch < 2; epoch++)
        while (ls_data_next(data, &b)) {
            if (h.arrays)
                copy_batch(&b);
            ls_backward(ls_cross_entropy(call(net, &b, true), b.y));
            ls_trainer_step(trainer);
        }
    memset(out, 0, sizeof *out);
    ls_module_evaluate(net, data, &out->metrics);
    ls_module_measure(net, data, two_metrics, NULL, out->means, 2);
    ls_module_predict(net, data, out->logits, CLASSES);
    ls_module_fingerprint(net, out->fingerprint);
    if (ls_close(s) != LS_OK)
        fail_msg("a run of %d devices has failed", h.devices);
}

static outcome alone;

typedef struct ranks_run {
    how how;
    outcome out[WIRE_RANKS];
} ranks_run;

static void train_rank(ls_cluster *cluster, int rank, void *user)
{
    ranks_run *all = user;
    train(all->how, cluster, &all->out[rank]);
}

static void same_bits_on_any_devices_and_ranks(void **state)
{
    (void)state;
    static outcome other;
    train((how){.devices = 1}, NULL, &alone);
    for (int devices = 2; devices <= 16; devices += devices == 3 ? 13 : 1) {
        train((how){.devices = devices}, NULL, &other);
        assert_memory_equal(&other, &alone, sizeof alone);
    }
    static ranks_run all;
    for (int ranks = 2; ranks <= 3; ranks++) {
        all.how = (how){.devices = 4 - ranks};
        wire_run(ranks, train_rank, &all);
        for (int r = 0; r < ranks; r++)
            assert_memory_equal(&all.out[r], &alone, sizeof alone);
    }
}

static void as_one_input_that_is_cut(void **state)
{
    (void)state;
    static outcome other;
    train((how){.devices = 2, .one = true}, NULL, &other);
    assert_memory_equal(&other, &alone, sizeof alone);
    train((how){.devices = 3, .arrays = true}, NULL, &other);
    assert_memory_equal(&other, &alone, sizeof alone);
}

/* What is measured is what the logits say. */
static void metrics_are_means_over_the_images(void **state)
{
    (void)state;
    double loss = 0, sum = 0;
    for (int i = 0; i < ROWS; i++) {
        const float *z = alone.logits + i * CLASSES;
        double all = 0;
        for (int c = 0; c < CLASSES; c++) {
            all += exp(z[c]);
            sum += z[c];
        }
        loss += log(all) - z[labels[i]];
    }
    assert_true(fabs(alone.means[0] - loss / ROWS) < 1e-5 * fabs(loss / ROWS));
    assert_true(fabs(alone.means[1] - sum / ROWS) < 1e-4);
    assert_true(fabs(alone.means[0] - alone.metrics.loss) < 1e-5 * alone.means[0]);
    assert_int_equal(alone.metrics.rows, ROWS);
}

/* ---- Gradients and calls ---- */

/* The gradient of a parameter that the second input alone reaches, by two losses; on the devices of parts too. */
static void parts_on_devices_give_the_gradient(void **state)
{
    (void)state;
    float whole[6 * WIDE], parted[6 * WIDE];
    for (int parts = 0; parts < 2; parts++) {
        ls_session *s = ls_open(&(ls_options){.shard = 3});
        ls_data *data = data_of(s, false, &(ls_loader){.batch = 12});
        ls_module *net = network(s, of_three);
        ls_module_initialize(net, test_cpus(2), &(ls_init){.kind = LS_HE, .like = data});
        ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
        ls_batch b;
        assert_true(ls_data_next(data, &b));
        ls_tensor *at[3][2] = {{NULL}}, *y[2];
        for (int i = 0; i < 3; i++)
            assert_int_equal(ls_scatter(b.inputs[i], test_cpus(2), at[i]), LS_OK);
        assert_int_equal(ls_scatter(b.y, test_cpus(2), y), LS_OK);
        for (int d = 0; parts && d < 2; d++)
            ls_backward(
                ls_cross_entropy(ls_module_forward_all(net, (ls_tensor *[]){at[0][d], at[1][d], at[2][d]}, 3), y[d]));
        if (!parts)
            ls_backward(ls_cross_entropy(call(net, &b, true), b.y));
        ls_tensor *gradient = ls_grad(ls_module_param(net, "wide.weight", ls_host()));
        assert_int_equal(ls_read(gradient, parts ? parted : whole, 6 * WIDE), LS_OK);
        assert_int_equal(ls_close(s), LS_OK);
    }
    assert_memory_equal(parted, whole, sizeof whole);
    assert_true(whole[0] != 0);
}

static ls_tensor *twice(ls_module *self, ls_tensor *x)
{
    return ls_add(ls_scale(x, 2), ls_module_input(self, 1));
}

/* One tensor in two places, and other ones in the same places. */
static void a_tensor_may_be_two_inputs(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_module *net = ls_block(s, twice, NULL);
    ls_module_initialize(net, test_cpus(2), NULL);
    ls_tensor *a = ls_arange(s, 1, LS_SHAPE(2, 2)), *b = ls_full(s, 10, LS_SHAPE(2, 2));
    assert_values(ls_module_infer_all(net, (ls_tensor *[]){a, a}, 2), (float[]){3, 6, 9, 12});
    assert_values(ls_module_infer_all(net, (ls_tensor *[]){a, b}, 2), (float[]){12, 14, 16, 18});
    assert_values(ls_module_infer_all(net, (ls_tensor *[]){b, a}, 2), (float[]){21, 22, 23, 24});
    assert_int_equal(ls_close(s), LS_OK);
}

static void files_know_all_inputs(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_module *nets[2];
    for (int k = 0; k < 2; k++)
        ls_module_initialize(nets[k] = network(s, of_three), test_cpus(1), &(ls_init){.kind = LS_HE});
    ls_tensor *inputs[] = {ls_values(s, maps, LS_SHAPE(2, 1, SIDE, SIDE)), ls_values(s, features, LS_SHAPE(2, WIDE)),
                           ls_values(s, ids, LS_SHAPE(2, TOKENS))};
    ls_tensor *y = ls_module_infer_all(nets[0], inputs, 3);
    const ls_status saved = ls_module_save(nets[0], test_path("w"));
    if (ls_catch(s, LS_UNSUPPORTED)) {
        test_part_not_run("files_know_all_inputs", "this build writes no weights");
    } else {
        assert_int_equal(saved, LS_OK);
        assert_int_equal(ls_module_load(nets[1], test_path("w")), LS_OK);
        assert_int_equal(ls_rank(y), 2);
        assert_same_bits(ls_module_infer_all(nets[1], inputs, 3), y);
    }
    if (ls_module_export_onnx(nets[0], test_path("o")) == LS_UNSUPPORTED) {
        test_part_not_run("files_know_all_inputs", "%s", ls_message(s));
        ls_catch(s, LS_UNSUPPORTED);
    } else {
        size_t n;
        unsigned char *bytes = test_read_file("o", &n);
        int found = 0;
        for (size_t i = 0; i + 6 < n; i++)
            found += memcmp(bytes + i, "input2", 6) == 0;
        free(bytes);
        assert_true(found >= 2); /* as an input, and as an operand */
    }
    assert_int_equal(ls_close(s), LS_OK);
}

/* ---- What is refused ---- */

static ls_tensor *of_four(ls_module *self, ls_tensor *x)
{
    for (int i = 1; i < LS_MAX_INPUTS; i++)
        x = ls_add(x, ls_module_input(self, i));
    return x;
}

static void wrong_inputs_are_refused(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_module *net = ls_block(s, twice, NULL), *four = ls_block(s, of_four, NULL);
    ls_module_initialize(net, test_cpus(2), NULL);
    ls_module_initialize(four, test_cpus(1), NULL);
    ls_tensor *a = ls_zeros(s, LS_SHAPE(4, 3)), *b = ls_zeros(s, LS_SHAPE(5, 3)), *c = ls_zeros(s, LS_SHAPE(4, 2));
    ls_tensor *on = ls_clone(a, ls_cpu(1)), *many[] = {a, a, a, a, a};
#define REFUSED(call, status, words)                                                                                   \
    do {                                                                                                               \
        assert_null(call);                                                                                             \
        assert_caught(s, status, words);                                                                               \
    } while (0)
    REFUSED(ls_module_infer(net, a), LS_BAD_ARGUMENT,
            "ls_module_input: there is no input 1; the network was called with 1");
    REFUSED(ls_module_input(net, 0), LS_BAD_ARGUMENT, "ls_module_input: input 0 asked for outside a forward");
    REFUSED(ls_module_forward_all(net, many, 0), LS_BAD_ARGUMENT,
            "ls_module_forward_all: 0 inputs; a network takes 1 to 4");
    REFUSED(ls_module_infer_all(net, many, 5), LS_BAD_ARGUMENT,
            "ls_module_infer_all: 5 inputs; a network takes 1 to 4");
    REFUSED(ls_module_infer_all(net, NULL, 2), LS_BAD_ARGUMENT, "ls_module_infer_all: 2 inputs; a network takes");
    REFUSED(ls_module_infer_all(net, (ls_tensor *[]){a, NULL}, 2), LS_BAD_ARGUMENT,
            "ls_module_infer_all: tensor 2 of 2 is NULL");
    REFUSED(ls_module_infer_all(net, (ls_tensor *[]){a, b}, 2), LS_BAD_SHAPE,
            "ls_module_infer_all: input 0 has 4 rows, input 1 5");
    REFUSED(
        ls_module_infer_all(net, (ls_tensor *[]){a, on}, 2), LS_BAD_ARGUMENT,
        "ls_module_infer_all: input 0 is a tensor on the host, input 1 a tensor on cpu(1); inputs lie together, on the "
        "host or on one device");
    REFUSED(ls_module_infer_all(net, (ls_tensor *[]){a, ls_zeros(s, LS_SHAPE(4))}, 2), LS_BAD_SHAPE,
            "ls_module_infer_all: an input must be (images, features), (images, tokens, features) or (images");
    assert_non_null(ls_module_infer_all(net, many, 2));
    REFUSED(ls_module_infer_all(net, (ls_tensor *[]){a, c}, 2), LS_BAD_SHAPE,
            "ls_module_infer_all: input 1 is (images, 2), the network takes (images, 3)");
    REFUSED(ls_module_infer_all(net, many, 3), LS_BAD_SHAPE,
            "ls_module_infer_all: called with 3 inputs, the network takes 2");
    REFUSED(ls_module_infer(net, a), LS_BAD_SHAPE, "ls_module_infer: called with 1 input, the network takes 2");
    ls_tensor *each[5];
    for (int i = 0; i < 5; i++)
        each[i] = ls_full(s, i, LS_SHAPE(4, 3));
    assert_true(ls_item(ls_sum(ls_module_infer_all(four, each, 4))) == 12 * 6);
    ls_item(ls_sum(ls_mse(ls_module_infer_all(four, each, 4), each[4])));
    assert_caught(s, LS_UNSUPPORTED, "it reads more arrays of images than can be handed in at once");
    assert_int_equal(ls_close(s), LS_OK);
}

static ls_tensor *one_number(ls_tensor *outputs, ls_tensor *y, void *user)
{
    (void)y;
    return user ? ls_sum_each(ls_log(ls_scale(outputs, 0))) : ls_sum(outputs);
}

static ls_tensor *no_outputs(ls_tensor *outputs, ls_tensor *y, void *user)
{
    (void)outputs;
    (void)user;
    return ls_sum_each(y);
}

static void wrong_metrics_are_refused(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_data *data = data_of(s, true, NULL), *plain = ls_data_from_floats(s, joined, LS_SHAPE(ROWS, ALL), NULL);
    ls_module *net = network(s, of_one);
    ls_module_initialize(net, test_cpus(1), &(ls_init){.kind = LS_HE, .like = data});
    double means[2];
    ls_metrics metrics;
    assert_int_equal(ls_module_measure(NULL, data, two_metrics, NULL, means, 2), LS_BAD_ARGUMENT);
    ls_module_measure(net, data, NULL, NULL, means, 2);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_module_measure: an argument is NULL");
    ls_module_measure(net, data, two_metrics, NULL, means, 1);
    assert_caught(s, LS_BAD_SHAPE,
                  "ls_module_measure: the metric makes (22, 2, 1, 1); for each image its numbers must be 1");
    ls_module_measure(net, data, one_number, NULL, means, 1);
    assert_caught(s, LS_BAD_SHAPE, "ls_module_measure: the metric makes (); for each image its numbers must be 1");
    ls_module_measure(net, data, one_number, means, means, 1);
    assert_caught(s, LS_NOT_FINITE, "ls_module_measure: a metric of image 0 is not finite");
    ls_module_measure(net, data, no_outputs, NULL, means, 1);
    assert_true(ls_failed(s));
    ls_catch(s, ls_status_of(s));
    ls_module_evaluate(net, plain, &metrics);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_module_evaluate: the data have neither labels nor targets");
    ls_module_accuracy(net, plain);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_module_accuracy: the data have neither labels nor targets");
    assert_int_equal(ls_close(s), LS_OK);
}

/* ---- Ids that are data ---- */

/* Of the data set's images, of a further input, and of an array: also under another shape. */
static ls_tensor *looked_up(ls_module *self, ls_tensor *x)
{
    ls_tensor *table = ls_module_parameter(self, "table", LS_SHAPE(TABLE, 2));
    return ls_flatten(ls_embedding(ls_flatten(ls_module_user(self) ? ls_module_input(self, 1) : x), table));
}

static void ids_are_checked(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        float wrong[ROWS * TOKENS];
        memcpy(wrong, ids, sizeof wrong);
        ls_session *s = ls_open(&(ls_options){.shard = 3});
        wrong[17 * TOKENS + 2] = TABLE;
        const bool first = kind != 1;
        ls_data *data =
            ls_data_from_floats(s, first ? wrong : ids, LS_SHAPE(ROWS, TOKENS, 1), &(ls_loader){.batch = 8});
        if (!first)
            ls_data_add_input(data, wrong, LS_SHAPE(ROWS, 1, TOKENS));
        ls_data_set_labels(data, labels, ROWS, CLASSES);
        ls_module *net =
            ls_sequential(s, LS_LIST(ls_block(s, looked_up, first ? NULL : wrong), ls_nn_linear(s, CLASSES)));
        ls_module_initialize(net, test_cpus(2), &(ls_init){.kind = LS_HE, .like = data});
        ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
        ls_batch b;
        while (!ls_failed(s) && ls_data_next(data, &b)) {
            if (kind == 2)
                copy_batch(&b);
            ls_backward(ls_cross_entropy(call(net, &b, true), b.y));
            ls_trainer_step(trainer);
            ls_wait(s);
        }
        /* An image's number is that in the data set, or among the rows that were handed in. */
        assert_caught(s, LS_BAD_ARGUMENT,
                      kind ? "ls_embedding: number 2 of image 1 is 7; the table has the rows 0 to 6"
                           : "ls_embedding: number 2 of image 17 is 7; the table has the rows 0 to 6");
        ls_metrics metrics;
        ls_module_evaluate(net, data, &metrics);
        assert_caught(s, LS_BAD_ARGUMENT, "ls_embedding: number 2 of image 17 is 7");
        assert_int_equal(ls_close(s), LS_OK);
    }
}

/* ---- Sums ---- */

/* The checksum that ranks compare, and the data of the settings that a checkpoint compares. */
typedef struct sums {
    uint64_t quick;
    char described[64];
} sums;

/* What belongs to the images, besides X, and how it is seen. */
typedef struct belonging {
    ls_shape second, third, goal;
    int classes;
} belonging;

static sums sums_of(const belonging *b)
{
    sums of = {0};
    ls_session *s = ls_open(NULL);
    ls_data *data = ls_data_from_floats(s, maps, LS_SHAPE(ROWS, 1, SIDE, SIDE), NULL);
    if (b->classes)
        ls_data_set_labels(data, labels, ROWS, b->classes);
    ls_data_add_input(data, features, b->second);
    ls_data_add_input(data, ids, b->third);
    if (b->goal.rank)
        ls_data_set_targets(data, joined, b->goal);
    of.quick = ls_data_checksum(data);
#if LOCKSTEP_HAVE_CRYPTO
    assert_int_equal(ls_data_describe(data, of.described), LS_OK);
#endif
    assert_int_equal(ls_close(s), LS_OK);
    return of;
}

static void assert_counts(const belonging *b, const sums *before, bool counts, const char *what)
{
    const sums after = sums_of(b);
    if ((after.quick != before->quick) != counts)
        fail_msg("the checksum is %s after a change of %s", counts ? "the same" : "another", what);
#if LOCKSTEP_HAVE_CRYPTO
    if ((strcmp(after.described, before->described) != 0) != counts)
        fail_msg("the settings' sum is %s after a change of %s", counts ? "the same" : "another", what);
#endif
}

static void assert_numbers_count(const belonging *b, const sums *before, float *numbers, int n, const char *what)
{
    for (int i = 0; i < 3; i++) {
        float *number = &numbers[(n - 1) * i / 2], was = *number;
        *number += 1;
        assert_counts(b, before, true, what);
        *number = was;
    }
}

/* Each input counts, and so do labels of any number of classes, or targets in their place. */
static void all_that_belongs_to_the_images_is_in_their_sums(void **state)
{
    (void)state;
    const belonging labelled = {LS_SHAPE(ROWS, WIDE), LS_SHAPE(ROWS, TOKENS), {0}, CLASSES},
                    aimed = {labelled.second, labelled.third, LS_SHAPE(ROWS, 2, 3), 0};
    const sums of_labels = sums_of(&labelled), of_targets = sums_of(&aimed);
    assert_counts(&aimed, &of_labels, true, "labels to targets");
    assert_numbers_count(&labelled, &of_labels, maps, ROWS * MAP, "X");
    assert_numbers_count(&labelled, &of_labels, features, ROWS * WIDE, "the second input");
    assert_numbers_count(&labelled, &of_labels, ids, ROWS * TOKENS, "the third input");
    assert_numbers_count(&aimed, &of_targets, joined, ROWS * 2 * 3, "the targets");
    for (int i = 0; i < ROWS; i++) {
        labels[i] = (labels[i] + 256) % CLASSES; /* of some the low byte stays */
        assert_counts(&labelled, &of_labels, true, "a label");
        labels[i] = i * 37 % CLASSES;
    }
    belonging other = labelled;
    other.classes++;
    assert_counts(&other, &of_labels, true, "the number of classes");
    other = labelled;
    other.second.dim[LS_MAX_RANK - 1] = 7;
    other.third.dim[LS_MAX_RANK - 1] = 8;
    assert_counts(&other, &of_labels, false, "what lies behind a shape");
    other = aimed;
    other.goal = LS_SHAPE(ROWS, 3, 2);
    assert_true(sums_of(&other).quick != of_targets.quick);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_on_any_devices_and_ranks),
        cmocka_unit_test(as_one_input_that_is_cut),
        cmocka_unit_test(metrics_are_means_over_the_images),
        cmocka_unit_test(parts_on_devices_give_the_gradient),
        cmocka_unit_test(a_tensor_may_be_two_inputs),
        cmocka_unit_test(files_know_all_inputs),
        cmocka_unit_test(wrong_inputs_are_refused),
        cmocka_unit_test(wrong_metrics_are_refused),
        cmocka_unit_test(ids_are_checked),
        cmocka_unit_test(all_that_belongs_to_the_images_is_in_their_sums),
    };
    return cmocka_run_group_tests(tests, make_numbers, test_folder_remove);
}
