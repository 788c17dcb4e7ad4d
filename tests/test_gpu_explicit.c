/* Explicit parameters on cards: tensors of one's own in a card's memory, computed with there, copied between cards,
 * parts of a card and CPUs, and read. The bits of one card on its parts and on several; a core's bits.
 * Exit status 77 where there is no card; where there is one, several are not tested, which is said. */
#include "explicit_network.h"
#include "not_run.h"
#include "tensors.h"

#include <lockstep_data.h>
#include <math.h>
#include <stdio.h>

#include "device/cards.h"
#include "exec/turn.h"
#include "model/network.h"
#include "training.h"

enum { BATCH = 32, SHARD = 4, ROWS = 3 * BATCH - 16, SIZE = 8, MAPS = 4, POOLED = 9, EPOCHS = 2, PARTS = 4 };
enum { NUMBERS = MAPS * 9 + MAPS + MAPS * POOLED * HIDDEN + HIDDEN + CLASSES * HIDDEN };

static uint8_t pixels[ROWS * SIZE * SIZE], classes_of[ROWS];
static int cards;

/* ---- The book's loop ---- */

static void train_batch(ls_batch b, params replicas[], ls_devices devices)
{
    ls_tensor *X[PARTS], *y[PARTS], *loss[PARTS], *g[PARTS];
    ls_scatter(b.X, devices, X);
    ls_scatter(b.y, devices, y);
    for (int d = 0; d < devices.n; d++)
        loss[d] = loss_of(X[d], y[d], &replicas[d]);
    for (int d = 0; d < devices.n; d++)
        ls_backward(loss[d]);
    for (int i = 0; i < N; i++) {
        for (int d = 0; d < devices.n; d++)
            g[d] = ls_grad(replicas[d].at[i]);
        allreduce(g, devices.n);
    }
    for (int d = 0; d < devices.n; d++)
        ls_sgd_step(replicas[d].at, N, 0.5, ls_rows(b.X));
}

static ls_data *images(ls_session *s)
{
    return ls_data_from_memory(s, pixels, classes_of, ROWS, 1, SIZE, SIZE, CLASSES,
                               &(ls_loader){.batch = BATCH, .shuffle = true});
}

typedef struct result {
    float values[NUMBERS];
    double accuracy, loss;
} result;

static void read_all(const params *p, float *values)
{
    for (int i = 0; i < N; i++) {
        ls_read(p->at[i], values, test_numbers_of(p->at[i]));
        values += test_numbers_of(p->at[i]);
    }
}

/* Replicas must be equal at the end. The last batch of an epoch is smaller, and a whole number of shards for each
 * part. */
static result train(const char *list, ls_dtype dtype)
{
    result r, other;
    ls_session *s = ls_open(&(ls_options){.seed = 2, .shard = SHARD, .dtype = dtype, .conv = LS_CONV_DIRECT});
    ls_data *data = images(s);
    ls_devices devices = ls_parse_devices(s, list);
    params initial = draw(s, MAPS, POOLED), replicas[PARTS];
    void *replica[PARTS];
    for (int d = 0; d < devices.n; d++) {
        replicas[d] = replica_on(&initial, devices.at[d]);
        replica[d] = &replicas[d];
    }
    for (int epoch = 0; epoch < EPOCHS && !ls_failed(s); epoch++)
        for (ls_batch b; ls_data_next(data, &b);) {
            train_batch(b, replicas, devices);
            r.loss = ls_item(loss_of(ls_to(b.X, devices.at[0]), ls_to(b.y, devices.at[0]), &replicas[0]));
        }
    r.accuracy = ls_accuracy_fn(net, replica, data, devices);
    read_all(&replicas[0], r.values);
    for (int d = 1; d < devices.n; d++) {
        read_all(&replicas[d], other.values);
        assert_memory_equal(r.values, other.values, sizeof r.values);
    }
    if (ls_close(s) != LS_OK)
        fail_msg("%s", list);
    return r;
}

static void assert_same(const char *list, const result *a, const result *b)
{
    if (memcmp(a->values, b->values, sizeof a->values) != 0 || a->accuracy != b->accuracy || a->loss != b->loss)
        fail_msg("%s: other bits; losses %.9g and %.9g", list, a->loss, b->loss);
}

static void parts_and_cards_have_the_bits_of_one(void **state)
{
    (void)state;
    const char *const lists[] = {"cuda:0x2", "cuda:0x4", "cuda:0-1", "cuda:1,cuda:0x3"};
    if (cards < 2)
        test_part_not_run("several cards", "there is one");
    for (int dtype = LS_F32; dtype <= LS_BF16; dtype += 2) {
        const result one = train("cuda:0", (ls_dtype)dtype);
        assert_true(one.loss > 0);
        for (int i = 0; i < (cards < 2 ? 2 : 4); i++) {
            const result many = train(lists[i], (ls_dtype)dtype);
            assert_same(lists[i], &one, &many);
        }
    }
}

static void a_core_and_a_card_have_the_same_bits(void **state)
{
    (void)state;
    const result card = train("cuda:0", LS_F32), core = train("cpu:0", LS_F32), both = train("cpu:0,cuda:0", LS_F32),
                 two = train("cpu:0-1", LS_F32);
    assert_same("cpu:0", &card, &core);
    assert_same("cpu:0,cuda:0", &two, &both);
}

/* ---- Numbers, there and back ---- */

typedef struct setup {
    ls_session *s;
    ls_data *data;
    ls_batch b;
    ls_device at, beside, away; /* a part of card 0, its other part, another card where there is one */
} setup;

static setup open_setup(void)
{
    setup t = {.s = ls_open(&(ls_options){.seed = 2, .shard = SHARD})};
    t.data = ls_data_from_memory(t.s, pixels, classes_of, ROWS, 1, SIZE, SIZE, CLASSES, &(ls_loader){.batch = BATCH});
    const ls_devices parts = ls_parse_devices(t.s, "cuda:0x2");
    t.at = parts.at[0];
    t.beside = parts.at[1];
    t.away = ls_gpu(cards > 1 ? 1 : 0);
    assert_true(ls_data_next(t.data, &t.b));
    return t;
}

static void numbers_go_everywhere(void **state)
{
    (void)state;
    setup t = open_setup();
    const ls_device places[] = {ls_host(), ls_cpu(0), ls_cpu(1), t.at, t.beside, t.away};
    enum { PLACES = sizeof places / sizeof *places };
    ls_tensor *first = ls_randn(t.s, "numbers", 1, LS_SHAPE(6, 3));
    for (int i = 0; i < PLACES; i++)
        for (int k = 0; k < PLACES; k++) {
            ls_tensor *from = ls_clone(first, places[i]), *to = ls_clone(from, places[k]);
            assert_same_bits(to, first);
            assert_same_bits(ls_row(to, 4), ls_row(first, 4));
            ls_assign(ls_row(to, 1), ls_row(from, 5)); /* a row in the midst */
            assert_same_bits(ls_row(to, 1), ls_row(first, 5));
            assert_same_bits(ls_row(to, 2), ls_row(first, 2));
            ls_add_to(ls_row(to, 0), ls_row(to, 5));
            ls_tensor *sum = ls_clone(ls_row(first, 0), ls_host());
            ls_add_to(sum, ls_row(first, 5));
            assert_same_bits(ls_row(to, 0), sum);
        }
    ls_tensor *parts[PLACES];
    assert_int_equal(
        ls_scatter(first, (ls_devices){PLACES, {places[0], places[1], places[2], places[3], places[4], places[5]}},
                   parts),
        LS_OK);
    for (int i = 0; i < PLACES; i++) {
        assert_same_bits(ls_gather(parts, PLACES, places[i]), first);
        assert_same_bits(parts[i], ls_row(first, i));
    }
    assert_int_equal(ls_close(t.s), LS_OK);
}

static void numbers_are_shown(void **state)
{
    (void)state;
    setup t = open_setup();
    ls_tensor *data[2] = {ls_clone(ls_full(t.s, 1, LS_SHAPE(1, 2)), t.at),
                          ls_clone(ls_full(t.s, 2, LS_SHAPE(1, 2)), t.beside)};
    assert_string_equal(ls_str(data[0]), "[[1, 1]] on gpu(0.0)");
    assert_string_equal(ls_str(data[1]), "[[2, 2]] on gpu(0.1)");
    allreduce(data, 2);
    assert_string_equal(ls_str(data[0]), "[[3, 3]] on gpu(0.0)");
    assert_string_equal(ls_str(data[1]), "[[3, 3]] on gpu(0.1)");
    ls_tensor *two[2] = {ls_clone(data[0], ls_gpu(0)), ls_clone(data[1], t.away)};
    allreduce(two, 2);
    assert_string_equal(ls_str(two[0]), "[[6, 6]] on gpu(0)");
    assert_string_equal(ls_str(two[1]), cards > 1 ? "[[6, 6]] on gpu(1)" : "[[6, 6]] on gpu(0)");
    ls_tensor *w = ls_track(ls_named(ls_clone(ls_zeros(t.s, LS_SHAPE(2)), t.at), "w"));
    assert_string_equal(ls_str(ls_grad(w)), "empty on gpu(0.0)");
    assert_true(ls_item(ls_to(ls_full(t.s, 7, LS_SHAPE(1)), t.away)) == 7);
    assert_true(ls_item(ls_sum(ls_sum_each(ls_to(ls_full(t.s, 7, LS_SHAPE(6, 2)), t.at)))) == 84);
    uint64_t before = ls_bytes_moved(t.s);
    free(test_read(data[0]));
    assert_true(ls_bytes_moved(t.s) == before); /* to be read is no move */
    ls_clone(data[0], t.away);
    assert_true(ls_bytes_moved(t.s) == before + 2 * sizeof(float));
    ls_add_to(data[0], data[1]);
    assert_caught(t.s, LS_BAD_ARGUMENT, "on gpu(0.0) and a tensor on gpu(0.1); copy one with ls_to");
    assert_int_equal(ls_close(t.s), LS_OK);
}

/* The images of a batch as numbers, and labels that are: as the host has them, wherever they are asked for. */
static void batches_become_numbers(void **state)
{
    (void)state;
    setup t = open_setup();
    ls_tensor *X = ls_to(t.b.X, t.at), *y = ls_to(t.b.y, t.away);
    assert_same_bits(X, t.b.X);
    assert_same_bits(y, t.b.y);
    assert_same_bits(ls_clone(X, t.away), t.b.X);
    params initial = draw(t.s, MAPS, POOLED), p = replica_on(&initial, t.at);
    const double loss = ls_item(loss_of(ls_to(t.b.X, t.at), ls_to(t.b.y, t.at), &p));
    assert_true(ls_item(loss_of(X, ls_clone(y, t.at), &p)) == loss); /* from numbers, the labels too */
    ls_tensor *wrong = ls_clone(ls_full(t.s, 7, LS_SHAPE(BATCH)), t.at);
    ls_item(loss_of(X, wrong, &p));
    assert_caught(t.s, LS_BAD_ARGUMENT, "the label of row 0 is 7");
    assert_int_equal(ls_close(t.s), LS_OK);
}

/* ---- Gradients ---- */

static void a_gradients_life(void **state)
{
    (void)state;
    setup t = open_setup();
    params initial = draw(t.s, MAPS, POOLED), p = replica_on(&initial, t.at);
    ls_tensor *X = ls_to(t.b.X, t.at), *y = ls_to(t.b.y, t.at), *w = p.at[W2], *g = ls_grad(w);
    ls_read(g, (float[1]){0}, 1);
    assert_true(ls_failed(t.s) && ls_catch(t.s, ls_status_of(t.s)));
    ls_tensor *loss = loss_of(X, y, &p);
    assert_int_equal(ls_backward(loss), LS_OK);
    ls_tensor *once = ls_clone(g, ls_host()), *twice = ls_clone(once, ls_host());
    assert_int_equal(ls_backward(loss_of(X, y, &p)), LS_OK); /* adds */
    ls_add_to(twice, once);
    assert_same_bits(g, twice);
    assert_int_equal(ls_clear_grad(w), LS_OK);
    assert_int_equal(ls_backward(loss), LS_OK);
    assert_same_bits(g, once);
    ls_tensor *before = ls_clone(w, ls_cpu(0));
    assert_int_equal(ls_sgd_step(&w, 1, 0.25, BATCH), LS_OK);
    float *old = test_read(before), *slope = test_read(once), *is = test_read(w);
    for (int i = 0; i < MAPS * POOLED * HIDDEN; i++) /* as a core updates, to the bit: the sums are the same */
        assert_true(is[i] == fmaf(-0.25F, slope[i] / BATCH, old[i]));
    free(old);
    free(slope);
    free(is);
    ls_sgd_step(&w, 1, 0.25, BATCH);
    assert_caught(t.s, LS_STALE, "on gpu(0.0) was used up by an update");
    ls_sgd_step((ls_tensor *[]){p.at[W1], w}, 2, 0.25, BATCH);
    assert_caught(t.s, LS_STALE, "used up");
    ls_assign(g, ls_clone(once, t.away)); /* a gradient from elsewhere is fresh */
    assert_int_equal(ls_sgd_step(&w, 1, 0.1, BATCH), LS_OK);
    assert_int_equal(ls_close(t.s), LS_OK);
}

/* Layers on a card and a core: what comes after a cut hands the cut's gradient back; an input's gradient is a row for
 * each image. */
static void backward_across_devices(void **state)
{
    (void)state;
    setup t = open_setup();
    params initial = draw(t.s, MAPS, POOLED), here = replica_on(&initial, t.at), cpu = replica_on(&initial, ls_cpu(0));
    ls_tensor *X = ls_track(ls_clone(t.b.X, t.at)), *seen = ls_track(ls_clone(t.b.X, ls_cpu(0)));
    assert_int_equal(ls_backward(loss_of(seen, ls_to(t.b.y, ls_cpu(0)), &cpu)), LS_OK);
    assert_int_equal(ls_backward(loss_of(X, ls_to(t.b.y, t.at), &here)), LS_OK);
    assert_true(test_difference(ls_grad(X), ls_grad(seen)) < 1e-4);
    ls_tensor *once = ls_clone(ls_grad(X), ls_host());
    assert_int_equal(ls_backward(loss_of(X, ls_to(t.b.y, t.at), &here)), LS_OK); /* adds to rows too */
    ls_add_to(once, once);
    assert_same_bits(ls_grad(X), once);
    const ls_device others[] = {ls_cpu(1), t.beside, t.away};
    for (int i = 0; i < 3; i++) {
        params there = replica_on(&initial, others[i]);
        ls_clear_grad(here.at[W1]);
        ls_tensor *cut = features(ls_to(t.b.X, t.at), &here), *x = ls_track(ls_clone(cut, others[i]));
        assert_int_equal(ls_backward(ls_sum(ls_cross_entropy(classify(x, &there), ls_to(t.b.y, others[i])))), LS_OK);
        assert_int_equal(ls_backward_from(cut, ls_to(ls_grad(x), t.at)), LS_OK);
        assert_true(test_difference(ls_grad(here.at[W1]), ls_grad(cpu.at[W1])) < 1e-4);
        assert_true(test_difference(ls_grad(there.at[W3]), ls_grad(cpu.at[W3])) < 1e-4);
    }
    assert_int_equal(ls_close(t.s), LS_OK);
}

/* More devices than images: an empty part adds nothing. */
static void an_empty_part_has_a_zero_gradient(void **state)
{
    (void)state;
    setup t = open_setup();
    params initial = draw(t.s, MAPS, POOLED), p = replica_on(&initial, t.at);
    ls_tensor *none[2], *labels[2];
    const ls_devices two = {2, {ls_host(), t.at}};
    ls_scatter(ls_arange(t.s, 0, LS_SHAPE(1, 1, SIZE, SIZE)), two, none);
    ls_scatter(ls_zeros(t.s, LS_SHAPE(1)), two, labels);
    assert_int_equal(ls_backward(loss_of(ls_to(t.b.X, t.at), ls_to(t.b.y, t.at), &p)), LS_OK); /* leaves its numbers */
    ls_clear_grad(p.at[W1]);
    ls_tensor *loss = loss_of(none[1], labels[1], &p);
    assert_int_equal(ls_backward(loss), LS_OK);
    assert_same_bits(ls_grad(p.at[W1]), ls_zeros(t.s, LS_SHAPE(MAPS, 1, 3, 3)));
    assert_true(ls_item(loss) == 0);
    assert_int_equal(ls_close(t.s), LS_OK);
}

/* Every kind of operation that a core computes for explicit parameters. */
static ls_tensor *everything(ls_tensor *x, ls_tensor *kernel, ls_tensor *w)
{
    ls_tensor *y = ls_max_pool2d(ls_conv2d(x, kernel, NULL, &(ls_conv){.padding = 1}), &(ls_pool){.kernel = 2});
    ls_tensor *gate = ls_sigmoid(ls_scale(y, -1.5)), *product = ls_multiply(ls_tanh(y), gate);
    ls_tensor *turned = ls_reshape(ls_tanh(ls_reshape(gate, SIZE / 2, MAPS, SIZE / 2)), MAPS, SIZE / 2, SIZE / 2);
    ls_tensor *joined = ls_concat((ls_tensor *[]){product, ls_subtract(y, turned)}, 2);
    ls_tensor *scores = ls_linear(ls_flatten(joined), w, NULL);
    return ls_add(ls_sum_each(ls_multiply(scores, scores)), ls_mse(scores, ls_softmax(scores)));
}

static void operations_agree_with_the_cpus(void **state)
{
    (void)state;
    setup t = open_setup();
    const ls_device places[] = {ls_cpu(0), t.at};
    ls_tensor *value[2], *slopes[2][3];
    for (int i = 0; i < 2; i++) {
        ls_tensor *of[3] = {ls_randn(t.s, "x", 1, LS_SHAPE(10, 2, SIZE, SIZE)),
                            ls_randn(t.s, "k", 0.3, LS_SHAPE(MAPS, 2, 3, 3)),
                            ls_randn(t.s, "w", 0.3, LS_SHAPE(CLASSES, 2 * MAPS * SIZE * SIZE / 4))};
        for (int k = 0; k < 3; k++)
            of[k] = ls_track(ls_clone(of[k], places[i]));
        value[i] = everything(of[0], of[1], of[2]);
        ls_backward(value[i]);
        for (int k = 0; k < 3; k++)
            slopes[i][k] = ls_grad(of[k]);
    }
    assert_true(test_difference(value[1], value[0]) < 1e-4);
    for (int k = 0; k < 3; k++)
        assert_true(test_difference(slopes[1][k], slopes[0][k]) < 1e-4);
    assert_int_equal(ls_close(t.s), LS_OK);
}

/* ---- Failures ---- */

static void an_update_that_is_not_finite(void **state)
{
    (void)state;
    setup t = open_setup();
    params initial = draw(t.s, MAPS, POOLED), p = replica_on(&initial, t.at);
    ls_tensor *X = ls_to(t.b.X, t.at), *y = ls_to(t.b.y, t.at);
    ls_backward(loss_of(X, y, &p));
    ls_assign(ls_row(ls_grad(p.at[W3]), 0), ls_full(t.s, INFINITY, LS_SHAPE(HIDDEN)));
    ls_sgd_step(p.at, N, 0.1, BATCH);
    ls_wait(t.s);
    assert_caught(t.s, LS_NOT_FINITE, "ls_sgd_step: the update of W3 is not finite");
    for (int i = 0; i < N; i++)
        assert_same_bits(p.at[i], initial.at[i]);
    assert_int_equal(ls_backward(loss_of(X, y, &p)), LS_OK);
    assert_int_equal(ls_sgd_step(p.at, N, 0.1, BATCH), LS_OK);
    assert_true(test_difference(p.at[W3], initial.at[W3]) > 0);
    assert_int_equal(ls_close(t.s), LS_OK);
}

/* What a failed task should have written is lost by name, and can be made anew. */
static void numbers_are_lost_by_name(void **state)
{
    (void)state;
    setup t = open_setup();
    params initial = draw(t.s, MAPS, POOLED), p = replica_on(&initial, t.at);
    ls_tensor *X = ls_to(t.b.X, t.at), *wrong = ls_clone(ls_full(t.s, 7, LS_SHAPE(BATCH)), t.at);
    ls_backward(loss_of(X, wrong, &p));
    ls_wait(t.s);
    assert_caught(t.s, LS_BAD_ARGUMENT, "the label of row 0 is 7");
    ls_clone(ls_grad(p.at[W1]), ls_host());
    assert_caught(t.s, LS_STALE, "the numbers of the gradient of W1 on gpu(0.0) were lost");
    ls_clear_grad(p.at[W1]);
    assert_int_equal(ls_backward(loss_of(X, ls_to(t.b.y, t.at), &p)), LS_OK);
    free(test_read(ls_grad(p.at[W1])));
    assert_int_equal(ls_close(t.s), LS_OK);
}

static ls_executor *unit_of(ls_session *s, ls_device device)
{
    return ls_turn_of(s, device)->executor;
}

/* After a card has failed everything that it has to do fails by its name, for good; other devices go on. */
static void a_failed_card_is_named(void **state)
{
    (void)state;
    setup t = open_setup();
    params initial = draw(t.s, MAPS, POOLED), p = replica_on(&initial, t.at), cpu = replica_on(&initial, ls_cpu(0));
    ls_wait(t.s);
    ls_executor *executor = unit_of(t.s, t.at);
    executor->status = LS_NO_DEVICE;
    executor->message = "the card is lost";
    ls_backward(loss_of(ls_to(t.b.X, t.at), ls_to(t.b.y, t.at), &p));
    ls_wait(t.s);
    assert_caught(t.s, LS_NO_DEVICE, "cuda:0: the card is lost");
    float values[HIDDEN];
    ls_read(p.at[b2], values, HIDDEN); /* what lay there is out of reach */
    assert_caught(t.s, LS_NO_DEVICE, "cuda:0: the card is lost");
    assert_int_equal(ls_backward(loss_of(ls_to(t.b.X, ls_cpu(0)), ls_to(t.b.y, ls_cpu(0)), &cpu)), LS_OK);
    assert_int_equal(ls_sgd_step(cpu.at, N, 0.1, BATCH), LS_OK);
    assert_int_equal(ls_wait(t.s), LS_OK);
    executor->status = LS_OK; /* so that a real card lets go of its memory */
    assert_int_equal(ls_close(t.s), LS_OK);
}

static void doubled(const ls_custom_call *call, const float *const in[], float *out)
{
    for (int i = 0; i < call->rows * call->out[0]; i++)
        out[i] = 2 * in[0][i];
}

/* Without functions for cards. */
static void own_operations_are_refused(void **state)
{
    (void)state;
    static const ls_custom twice = {.name = "twice", .inputs = 1, .forward = doubled};
    setup t = open_setup();
    ls_tensor *y = ls_custom_op(&twice, (ls_tensor *[]){ls_to(ls_zeros(t.s, LS_SHAPE(4, 3)), t.at)});
    ls_read(y, (float[12]){0}, 12);
    assert_caught(t.s, LS_UNSUPPORTED, "the own operation twice has no cuda_forward, which cuda f32 needs");
    assert_int_equal(ls_close(t.s), LS_OK);
}

/* ---- Beside networks ---- */

/* A network's images may be numbers on a card: whichever device computes a shard of them gets them by the host. */
static void a_network_takes_numbers_from_a_card(void **state)
{
    (void)state;
    float rows[2][BATCH * CLASSES], weights[2][CLASSES];
    for (int there = 0; there < 2; there++) {
        ls_session *s = ls_open(&(ls_options){.shard = SHARD});
        ls_module *module =
            ls_sequential(s, LS_LIST(ls_nn_conv2d(s, 4, 3, NULL), ls_nn_fn(s, ls_relu), ls_nn_fn(s, ls_flatten)));
        ls_module_append(module, "fc", ls_nn_linear(s, CLASSES));
        ls_module_initialize(module, ls_parse_devices(s, "cuda:0x2"), &(ls_init){.kind = LS_XAVIER});
        const ls_device place = there ? ls_parse_devices(s, "cuda:0x2").at[1] : ls_host();
        ls_trainer *trainer = ls_trainer_new(module, LS_SGD, &(ls_optim){.lr = 0.1});
        ls_tensor *X = ls_to(ls_randn(s, "X", 1, LS_SHAPE(BATCH, 1, SIZE, SIZE)), place),
                  *y = ls_to(ls_full(s, 1, LS_SHAPE(BATCH)), place);
        ls_tensor *out = ls_module_infer(module, X);
        assert_true(ls_device_of(out).type == place.type);
        ls_read(out, rows[there], BATCH * CLASSES);
        ls_tensor *own =
            ls_relu(ls_add(out, ls_to(ls_full(s, 100, LS_SHAPE(CLASSES)), place))); /* goes on from there */
        assert_true(
            test_difference(own, ls_add(ls_clone(out, place), ls_to(ls_full(s, 100, LS_SHAPE(CLASSES)), place))) == 0);
        ls_backward(ls_cross_entropy(ls_module_forward(module, X), y));
        ls_trainer_step(trainer);
        ls_module_read_parameter(module, "fc.bias", weights[there], CLASSES);
        ls_tensor *bias = ls_module_param(module, "fc.bias", ls_parse_devices(s, "cuda:0x2").at[0]);
        assert_values(bias, weights[there]);
        if (ls_close(s) != LS_OK)
            fail_msg("a network's images on %s", there ? "a card" : "the host");
    }
    assert_memory_equal(rows[0], rows[1], sizeof rows[0]);
    assert_memory_equal(weights[0], weights[1], sizeof weights[0]);
}

enum { TOKENS = 3, TABLE = 6, WORDS = 20 };

static ls_tensor *with_words(ls_module *self, ls_tensor *x)
{
    ls_tensor *table = ls_module_parameter(self, "table", LS_SHAPE(TABLE, 4));
    ls_tensor *parts[] = {x, ls_flatten(ls_embedding(ls_module_input(self, 1), table))};
    return ls_module_call(self, "fc", ls_concat(parts, 2));
}

/* Trains it for two epochs; `wrong` is an id of the last row. */
static ls_status train_words(const char *list, float wrong, float *weights, char message[256])
{
    float x[WORDS * 5], ids[WORDS * TOKENS];
    int32_t labels[WORDS];
    for (int i = 0; i < WORDS * 5; i++)
        x[i] = (float)(i * 29 % 31) / 31;
    for (int i = 0; i < WORDS * TOKENS; i++)
        ids[i] = (float)(i * 7 % TABLE);
    for (int i = 0; i < WORDS; i++)
        labels[i] = i % CLASSES;
    ids[WORDS * TOKENS - 1] = wrong;
    ls_session *s = ls_open(&(ls_options){.shard = SHARD});
    ls_data *data = ls_data_from_floats(s, x, LS_SHAPE(WORDS, 5), &(ls_loader){.batch = 12});
    ls_data_set_labels(data, labels, WORDS, CLASSES);
    ls_data_add_input(data, ids, LS_SHAPE(WORDS, TOKENS));
    ls_module *net = ls_block(s, with_words, NULL);
    ls_module_append(net, "fc", ls_nn_linear(s, CLASSES));
    ls_module_initialize(net, ls_parse_devices(s, list), &(ls_init){.kind = LS_XAVIER, .like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    ls_batch b;
    for (int epoch = 0; epoch < 2; epoch++)
        while (ls_data_next(data, &b)) {
            ls_backward(ls_cross_entropy(ls_module_forward_all(net, b.inputs, b.n_inputs), b.y));
            ls_trainer_step(trainer);
        }
    ls_module_read_parameter(net, "table", weights, TABLE * 4);
    snprintf(message, 256, "%s", ls_message(s));
    return ls_close(s);
}

/* Of several inputs a core and a card make the same bits, and an id outside the table ends the run on both. */
static void several_inputs_and_ids(void **state)
{
    (void)state;
    float core[TABLE * 4], card[TABLE * 4];
    char message[256];
    assert_int_equal(train_words("cpu:0", 2, core, message), LS_OK);
    assert_int_equal(train_words("cuda:0x2", 2, card, message), LS_OK);
    assert_memory_equal(core, card, sizeof core);
    assert_int_equal(train_words("cuda:0", TABLE, card, message), LS_BAD_ARGUMENT);
    assert_non_null(strstr(message, "ls_embedding: number 2 of image 7 is 6; the table has the rows 0 to 5"));
}

/* ---- Devices, memory ---- */

static void cards_are_taken_where_there_are_some(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    assert_ptr_equal(ls_device_str(s, ls_try_gpu(s, cards)), ls_device_str(s, ls_cpu(cards)));
    assert_non_null(strstr(ls_notice(s), "in its place"));
    assert_string_equal(ls_device_str(s, ls_try_gpu(s, 0)), "gpu(0)");
    assert_string_equal(ls_notice(s), "");
    assert_int_equal(ls_try_all_gpus(s).n, cards);
    assert_int_equal(ls_try_all_gpus(s).at[cards - 1].type, LS_CUDA);
    assert_int_equal(ls_try_devices(s, cards).at[cards - 1].type, LS_CUDA);
    assert_string_equal(ls_notice(s), "");
    const ls_devices more = ls_try_devices(s, cards + 1);
    assert_int_equal(more.n, cards + 1);
    for (int i = 0; i <= cards; i++)
        assert_int_equal(more.at[i].type, LS_CPU);
    assert_non_null(strstr(ls_notice(s), "in their place"));
    assert_int_equal(ls_close(s), LS_OK);
}

/* Arrays on cards go round as those on the host do. */
static void nothing_is_allocated_while_running(void **state)
{
    (void)state;
    counted c = {.lock = PTHREAD_MUTEX_INITIALIZER};
    ls_session *s =
        ls_open(&(ls_options){.shard = SHARD, .allocator = &(ls_allocator){count_allocate, count_release, &c}});
    ls_data *data = images(s);
    const ls_devices devices = ls_parse_devices(s, "cuda:0x2");
    params initial = draw(s, MAPS, POOLED),
           replicas[2] = {replica_on(&initial, devices.at[0]), replica_on(&initial, devices.at[1])};
    long before = 0;
    uint64_t arrays = 0;
    const ls_turn *core = ls_turn_of(s, devices.at[0]);
    for (int epoch = 0; epoch < 12; epoch++) {
        for (ls_batch b; ls_data_next(data, &b); ls_wait(s))
            train_batch(b, replicas, devices);
        before = epoch == 5 ? test_made(&c) : before;
        arrays = epoch == 5 ? atomic_load(&core->arrays.allocated) : arrays;
    }
    assert_int_equal(ls_wait(s), LS_OK);
    assert_true(arrays > 0);
    assert_in_range(atomic_load(&core->arrays.allocated), arrays,
                    arrays + 2); /* what is in flight is a matter of time */
    assert_in_range(test_made(&c), before, before + 8);
    assert_int_equal(ls_close(s), LS_OK);
    assert_int_equal(c.alive, 0);
}

/* A batch of the loop, numbers as images and labels, and what is read of them. */
static ls_status train_shortly(const ls_allocator *allocator)
{
    ls_session *s = ls_open(&(ls_options){.shard = SHARD, .allocator = allocator});
    ls_data *data = images(s);
    const ls_devices devices = {2, {ls_card_device(0, 0, 2), ls_card_device(0, 1, 2)}};
    params initial = draw(s, MAPS, POOLED),
           replicas[2] = {replica_on(&initial, devices.at[0]), replica_on(&initial, devices.at[1])};
    ls_batch b;
    if (ls_data_next(data, &b)) {
        train_batch(b, replicas, devices);
        ls_tensor *X = ls_clone(b.X, devices.at[1]), *y = ls_clone(b.y, devices.at[1]);
        ls_item(loss_of(X, y, &replicas[1]));
        ls_str(ls_gather((ls_tensor *[]){replicas[0].at[W1], replicas[1].at[W1]}, 2, devices.at[0]));
    }
    return ls_close(s);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    const bool emulated = strcmp(ls_device_about(s, ls_gpu(0)), "the host") == 0;
    assert_int_equal(ls_close(s), LS_OK);
    if (!emulated)
        test_not_run("hundreds of sessions, and a real card takes its time to begin");
    assert_every_allocation_may_fail(train_shortly);
}

int main(void)
{
    char why[256] = "";
    cards = ls_card_count(why, sizeof why);
    if (cards == 0)
        return test_none_run("%s", why);
    test_make_images(pixels, sizeof pixels, classes_of, ROWS, CLASSES);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_go_everywhere),
        cmocka_unit_test(numbers_are_shown),
        cmocka_unit_test(batches_become_numbers),
        cmocka_unit_test(a_gradients_life),
        cmocka_unit_test(backward_across_devices),
        cmocka_unit_test(an_empty_part_has_a_zero_gradient),
        cmocka_unit_test(operations_agree_with_the_cpus),
        cmocka_unit_test(parts_and_cards_have_the_bits_of_one),
        cmocka_unit_test(a_core_and_a_card_have_the_same_bits),
        cmocka_unit_test(an_update_that_is_not_finite),
        cmocka_unit_test(numbers_are_lost_by_name),
        cmocka_unit_test(a_failed_card_is_named),
        cmocka_unit_test(own_operations_are_refused),
        cmocka_unit_test(a_network_takes_numbers_from_a_card),
        cmocka_unit_test(several_inputs_and_ids),
        cmocka_unit_test(cards_are_taken_where_there_are_some),
        cmocka_unit_test(nothing_is_allocated_while_running),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
