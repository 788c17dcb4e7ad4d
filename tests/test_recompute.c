/* Modules whose results are computed again for the backward pass: no bit changes, and less memory is held. */
#include "tensors.h"
#include "training.h"

#include <lockstep_profile.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 40, SIDE = 4, CLASSES = 3, BATCH = 22, SHARD = 11, STEPS = 3, BLOCKS = 6 };

/* What a network holds, and which of its blocks are computed again. */
typedef struct kind {
    ls_module *(*block)(ls_session *);
    int twice;     /* a block that is called once more at the end; -1: none */
    bool within;   /* a module within each block, too */
    unsigned some; /* bit k: block k */
} kind;

static ls_tensor *add_up(ls_module *self, ls_tensor *x)
{
    return ls_relu(ls_add(x, ls_module_call(self, "0", x)));
}

static ls_tensor *attend(ls_module *self, ls_tensor *x)
{
    ls_tensor *tokens = ls_mean_over(ls_reshape(x, 1, SIDE, 4 * SIDE), 1);
    return ls_add(x, ls_reshape(ls_module_call(self, "0", tokens), 4, SIDE, SIDE));
}

static ls_module *around(ls_session *s, ls_tensor *forward(ls_module *, ls_tensor *), ls_module *inner)
{
    ls_module *block = ls_block(s, forward, NULL);
    ls_module_append(block, "0", inner);
    return block;
}

static ls_module *residual(ls_session *s)
{
    const ls_conv same = {.padding = 1};
    return around(s, add_up,
                  ls_sequential(s, LS_LIST(ls_nn_conv2d(s, 4, 3, &same), ls_nn_batch_norm(s), ls_nn_fn(s, ls_relu),
                                           ls_nn_dropout(s, 0.25), ls_nn_conv2d(s, 4, 3, &same), ls_nn_batch_norm(s))));
}

static ls_module *encoder(ls_session *s)
{
    return around(s, attend,
                  ls_sequential(s, LS_LIST(ls_nn_layer_norm(s, NULL), ls_nn_attention(s, 2, &(ls_attention_options){0}),
                                           ls_nn_fn(s, ls_gelu), ls_nn_lstm(s, 4 * SIDE))));
}

static ls_module *pooled(ls_session *s)
{
    return ls_sequential(s, LS_LIST(ls_nn_conv2d(s, 4, 3, &(ls_conv){.padding = 1}), ls_nn_fn(s, ls_tanh),
                                    ls_nn_group_norm(s, 2, NULL), ls_nn_fn(s, ls_silu)));
}

static ls_tensor *forward(ls_module *self, ls_tensor *x)
{
    const kind *k = ls_module_user(self);
    char name[16];
    x = ls_module_call(self, "stem", x);
    for (int i = 0; i < BLOCKS; i++) {
        snprintf(name, sizeof name, "b%d", i);
        x = ls_module_call(self, name, x);
    }
    snprintf(name, sizeof name, "b%d", k->twice);
    if (k->twice >= 0)
        x = ls_module_call(self, name, x);
    return ls_module_call(self, "head", ls_flatten(x));
}

static ls_module *make_network(ls_session *s, const kind *k)
{
    ls_module *net = ls_block(s, forward, (void *)k);
    ls_module_append(net, "stem", ls_nn_conv2d(s, 4, 3, &(ls_conv){.padding = 1}));
    for (int i = 0; i < BLOCKS; i++) {
        char name[16];
        snprintf(name, sizeof name, "b%d", i);
        ls_module *block = k->block(s);
        ls_module_append(net, name, block);
        assert_int_equal(ls_module_recompute(block, k->some >> i & 1), LS_OK);
        if (k->within)
            assert_int_equal(ls_module_recompute(ls_module_child(block, "0"), true), LS_OK);
    }
    ls_module_append(net, "head", ls_nn_linear(s, CLASSES));
    return net;
}

static int64_t train(const kind *k, int devices, ls_isa isa, char digits[65])
{
    uint8_t images[ROWS * SIDE * SIDE], labels[ROWS];
    test_make_images(images, sizeof images, labels, ROWS, CLASSES);
    ls_session *s = ls_open(&(ls_options){.shard = SHARD, .isa = isa, .seed = 3});
    ls_data *data = ls_data_from_memory(s, images, labels, ROWS, 1, SIDE, SIDE, CLASSES,
                                        &(ls_loader){.batch = BATCH, .shuffle = true});
    ls_module *net = make_network(s, k);
    ls_module_initialize(net, test_cpus(devices), &(ls_init){.kind = LS_HE, .like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.02, .momentum = 0.9});
    int64_t bytes = 0;
    ls_trainer_memory_needed(trainer, data, &bytes);
    int done = 0;
    test_train(s, net, trainer, data, &done, STEPS);
    if (ls_module_fingerprint(net, digits) != LS_OK)
        fail_msg("%s", ls_message(s));
    assert_int_equal(ls_close(s), LS_OK);
    return bytes;
}

/* Beside the network that keeps all; returns by how much less the first run needs. */
static int64_t check(kind k)
{
    static const struct {
        int devices;
        ls_isa isa;
    } runs[] = {{1, LS_ISA_AUTO}, {3, LS_ISA_AUTO}, {2, LS_ISA_PLAIN}, {1, LS_ISA_REFERENCE}};
    kind keeps = k;
    keeps.some = 0;
    keeps.within = false;
    char whole[65], digits[65];
    const int64_t all = train(&keeps, 1, LS_ISA_AUTO, whole);
    int64_t least = 0;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const int64_t bytes = train(&k, runs[i].devices, runs[i].isa, digits);
        assert_string_equal(digits, whole);
        least = i ? least : all - bytes;
    }
    return least;
}

static void the_bits_are_the_same(void **state)
{
    (void)state;
    const unsigned all = (1u << BLOCKS) - 1;
    ls_module *(*const blocks[])(ls_session *) = {residual, encoder, pooled};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        /* Of six blocks the results of one at a time: of three maps of 4 x 4 x 4 in each other one, at the least. */
        const int64_t less = check((kind){.block = blocks[i], .twice = -1, .some = all});
        print_message("kind %d: %lld bytes less\n", (int)i, (long long)less);
        assert_true(less >= (BLOCKS - 2) * 3 * 16 * 4 * SIDE * SIDE * (int64_t)sizeof(float));
        assert_true(check((kind){.block = blocks[i], .twice = -1, .some = 0x1a}) < less);
    }
    check((kind){.block = residual, .twice = 1, .some = all});
    check((kind){.block = residual, .twice = 5, .some = 0x21});
    check((kind){.block = residual, .twice = 2, .within = true, .some = 0x0c});
}

/* A module within another one is part of it; the network as a whole holds what it holds anyway. */
static void around_one_another(void **state)
{
    (void)state;
    const unsigned all = (1u << BLOCKS) - 1;
    const kind k = {.block = residual, .twice = -1, .some = all}, both = {residual, -1, true, all};
    char a[65], b[65];
    assert_int_equal(train(&k, 1, LS_ISA_AUTO, a), train(&both, 1, LS_ISA_AUTO, b));
    assert_string_equal(a, b);
}

static void it_has_to_come_first(void **state)
{
    (void)state;
    uint8_t images[ROWS * SIDE * SIDE], labels[ROWS];
    test_make_images(images, sizeof images, labels, ROWS, CLASSES);
    ls_session *s = ls_open(&(ls_options){.shard = SHARD});
    ls_data *data = ls_data_from_memory(s, images, labels, ROWS, 1, SIDE, SIDE, CLASSES, &(ls_loader){.batch = BATCH});
    ls_module *net = make_network(s, &(kind){.block = pooled, .twice = -1});
    ls_module_initialize(net, test_cpus(1), NULL);
    assert_int_equal(ls_module_recompute(ls_module_child(net, "b1"), true), LS_OK);
    assert_int_equal(ls_module_recompute(NULL, true), LS_BAD_ARGUMENT);
    ls_batch batch;
    ls_data_next(data, &batch);
    assert_non_null(ls_module_forward(net, batch.X));
    assert_int_equal(ls_module_recompute(ls_module_child(net, "b2"), true), LS_BAD_ARGUMENT);
    assert_non_null(strstr(ls_message(s), "ls_module_recompute: it comes too late to b2: "));
    ls_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_are_the_same),
        cmocka_unit_test(around_one_another),
        cmocka_unit_test(it_has_to_come_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
