/* What a step of either network must not do once it is in its stride: allocate, turn what lies in the lanes into
 * another layout, or run the reference's code where an instruction set has its own. Whoever breaks one of these loses
 * speed and no test of numbers would tell. Nothing is timed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <lockstep_profile.h>
#include <lockstep_train.h>

#include "device/cpu/select.h"
#include "model/program.h"
#include "tensors.h"
#include "training.h"

enum { SIZE = 28, BATCH = 4, SHARD = 3, ROWS = 2 * BATCH + 2, CLASSES = 10 };

static uint8_t pixels[ROWS * SIZE * SIZE], classes_of[ROWS];

static const char *const models[] = {"lenet", "resnet18"};

typedef struct setup {
    ls_session *s;
    ls_data *data;
    ls_module *net;
    ls_trainer *trainer;
} setup;

static setup open_setup(const char *model, const ls_options *options)
{
    setup t = {.s = ls_open(options)};
    t.data = ls_data_from_memory(t.s, pixels, classes_of, ROWS, 1, SIZE, SIZE, CLASSES, &(ls_loader){.batch = BATCH});
    t.net = ls_model(t.s, model);
    ls_module_initialize(t.net, ls_parse_devices(t.s, "cpu:0-1"), &(ls_init){.like = t.data});
    t.trainer = ls_trainer_new(t.net, LS_SGD, &(ls_optim){.lr = 0.01, .momentum = 0.9});
    assert_int_equal(ls_trainer_check_batches(t.trainer, t.data), LS_OK);
    return t;
}

static void take_epoch(setup *t)
{
    ls_batch batch;
    while (ls_data_next(t->data, &batch)) /* batches of both sizes, as many in flight as there can be */
        test_step(t->net, t->trainer, &batch);
}

/* With a profile and without: what measures must not allocate either. */
static void a_step_allocates_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        counted c = {.lock = PTHREAD_MUTEX_INITIALIZER};
        ls_allocator allocator = {count_allocate, count_release, &c};
        setup t = open_setup(models[i], &(ls_options){.shard = SHARD, .allocator = &allocator});
        take_epoch(&t);
        ls_wait(t.s);
        long before = test_made(&c);
        take_epoch(&t);
        assert_int_equal(ls_wait(t.s), LS_OK);
        assert_int_equal(test_made(&c), before);

        ls_profile *profile = ls_profile_start(t.trainer, 0);
        take_epoch(&t);
        ls_wait(t.s);
        before = test_made(&c);
        take_epoch(&t);
        assert_int_equal(ls_wait(t.s), LS_OK);
        assert_int_equal(test_made(&c), before);
        assert_int_equal(ls_profile_stop(profile), LS_OK);
        assert_int_equal(ls_close(t.s), LS_OK);
        assert_int_equal(c.alive, 0);
    }
}

/* ---- Plans ---- */

/* What a network's step consists of. Everything reads and writes lanes but the first, which brings the images there;
 * what else is found was added to the step: a layout turned, or neighbours that are joined no more. */
static const ls_op lenet_operations[] = {LS_OP_IMAGES,
                                         LS_OP_CONV,
                                         LS_OP_CONV_POOL,
                                         LS_OP_CONV_POOL_WEIGHT,
                                         LS_OP_CONV_DATA,
                                         LS_OP_CONV_WEIGHT,
                                         LS_OP_CHANNEL_SUM,
                                         LS_OP_WINOGRAD,
                                         LS_OP_WINOGRAD_DATA,
                                         LS_OP_WINOGRAD_WEIGHT,
                                         LS_OP_AVG_POOL,
                                         LS_OP_AVG_POOL_BACKWARD,
                                         LS_OP_RELU_BACKWARD,
                                         LS_OP_CROSS_ENTROPY,
                                         LS_OP_CROSS_ENTROPY_BACKWARD,
                                         LS_OP_ONES,
                                         LS_OP_SUM_IMAGES,
                                         LS_OP_COUNT_CORRECT,
                                         LS_OP_COUNT};
static const ls_op resnet18_operations[] = {LS_OP_IMAGES,
                                            LS_OP_CONV,
                                            LS_OP_CONV_DATA,
                                            LS_OP_CONV_WEIGHT,
                                            LS_OP_CHANNEL_SUM,
                                            LS_OP_WINOGRAD,
                                            LS_OP_WINOGRAD_DATA,
                                            LS_OP_WINOGRAD_WEIGHT,
                                            LS_OP_BATCH_NORM,
                                            LS_OP_BATCH_NORM_BACKWARD,
                                            LS_OP_ADD,
                                            LS_OP_GLOBAL_AVG_POOL,
                                            LS_OP_GLOBAL_AVG_POOL_BACKWARD,
                                            LS_OP_CROSS_ENTROPY,
                                            LS_OP_CROSS_ENTROPY_BACKWARD,
                                            LS_OP_ONES,
                                            LS_OP_SUM_IMAGES,
                                            LS_OP_COUNT_CORRECT,
                                            LS_OP_COUNT};
static const ls_op *const operations[] = {lenet_operations, resnet18_operations};

static bool is_one_of(ls_op op, const ls_op *list)
{
    while (*list != LS_OP_COUNT && *list != op)
        list++;
    return *list == op;
}

static void check_plan(const ls_plan *plan, const ls_backend *backend, const ls_op *expected)
{
    const ls_backend *reference = ls_backend_ref();
    assert_ptr_equal(plan->backend, backend);
    assert_true(plan->n_steps > 20);
    for (int i = 0; i < plan->n_steps; i++) {
        const ls_plan_step *step = &plan->steps[i];
        ls_op op = step->attributes.op;
        if (!is_one_of(op, expected))
            fail_msg("step %d (%s) is %s, which is no part of this network's step", i, step->layer, ls_op_name(op));
        if (step->kernel != backend->kernel[op] || step->kernel == reference->kernel[op])
            fail_msg("step %d (%s): %s runs the reference's code on %s", i, step->layer, ls_op_name(op), backend->name);
        if ((op == LS_OP_IMAGES) != (i == 0))
            fail_msg("step %d (%s): images are read once, at the begin", i, step->layer);
    }
    assert_ptr_not_equal(backend->add, reference->add);
    assert_ptr_not_equal(backend->sgd, reference->sgd);
}

/* The plan that the steps ran by; nothing is run on the instruction sets that would take long. */
static void a_plan_is_of_fast_kernels_alone(void **state)
{
    (void)state;
    static const ls_isa isas[] = {LS_ISA_AUTO, LS_ISA_PLAIN, LS_ISA_NEON, LS_ISA_AVX2, LS_ISA_AVX512};
    static const ls_algorithm algorithms[] = {LS_CONV_AUTO, LS_CONV_DIRECT};
    int checked = 0;
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        const ls_backend *backend = ls_cpu_backend(isas[i]);
        for (size_t k = 0; backend && k < 4; k++) {
            setup t =
                open_setup(models[k / 2], &(ls_options){.shard = SHARD, .isa = isas[i], .conv = algorithms[k % 2]});
            for (const ls_program *p = t.s->programs; p; p = p->next, checked++)
                check_plan(p->plan, backend, operations[k / 2]);
            assert_int_equal(ls_close(t.s), LS_OK);
        }
    }
    assert_true(checked >= 8); /* the widest and the plain one, at least */
}

int main(void)
{
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 37 + i / 7 * 11);
    for (int i = 0; i < ROWS; i++)
        classes_of[i] = (uint8_t)(i % CLASSES);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_allocates_nothing),
        cmocka_unit_test(a_plan_is_of_fast_kernels_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
