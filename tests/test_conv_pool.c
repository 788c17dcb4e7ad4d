/* A convolution that takes its relu and its pool in gives, number by number, what the operations give that it stands
 * for. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

#include "device/op.h"

typedef struct shape {
    int count, c, h, w, o, bias;
} shape;

static const shape shapes[] = {{37, 1, 28, 28, 20, 1}, {5, 3, 9, 6, 7, 0}, {16, 2, 4, 5, 1, 1}, {1, 1, 7, 16, 6, 1}};

enum { KERNEL = 3 };

static ls_operand empty(const shape *s, int c, int h, int w)
{
    ls_operand made = {NULL, c, h, w};
    made.data = test_floats(test_lane_numbers(&made, s->count));
    return made;
}

static void salt(test_random *random, ls_operand *t, size_t n)
{
    for (size_t i = 0; i < n; i++)
        t->data[i] = test_salt(random, t->data[i], 0);
}

static void run(const ls_backend *backend, const shape *s, ls_attributes attributes, ls_op_call call)
{
    const ls_samples samples = {.count = s->count};
    call.attributes = &attributes;
    call.samples = &samples;
    test_run(backend, &call);
}

static void assert_equal(const char *what, const ls_operand *want, const ls_operand *got, size_t n, int count)
{
    const size_t image = test_numbers(want);
    for (size_t i = 0; i < n; i++) {
        const int lane = count ? (int)(i / LS_LANES / image * LS_LANES + i % LS_LANES) : -1;
        if (lane < count && !test_same_bits(want->data[i], got->data[i]))
            fail_msg("%s, number %zu: %a, not %a", what, i, (double)got->data[i], (double)want->data[i]);
    }
}

static void check(const ls_backend *backend, const shape *s)
{
    const ls_backend *ref = ls_backend_ref();
    const int h = (s->h - KERNEL + 1) / 2,
              w = (s->w - KERNEL + 1) / 2; /* of y; the map between is cropped to twice that */
    const size_t taps = (size_t)s->o * s->c * KERNEL * KERNEL;
    test_random random = {.state = 7};
    const ls_attributes conv = {.op = LS_OP_CONV, .kernel = KERNEL, .stride = 1, .fused_relu = 1};
    const ls_attributes pool = {.op = LS_OP_AVG_POOL, .kernel = 2, .stride = 2};
    ls_attributes weight = conv, sum = conv, back = pool, joined = conv, joined_back = conv;
    weight.op = LS_OP_CONV_WEIGHT;
    sum.op = LS_OP_CHANNEL_SUM;
    back.op = LS_OP_AVG_POOL_BACKWARD;
    back.fused_relu = 1;
    joined.op = LS_OP_CONV_POOL;
    joined_back.op = LS_OP_CONV_POOL_WEIGHT;

    ls_operand x = test_activation(&random, s->c, s->h, s->w, s->count),
               dy = test_activation(&random, s->o, h, w, s->count);
    ls_operand weights = test_vector(&random, taps),
               bias = s->bias ? test_vector(&random, (size_t)s->o) : (ls_operand){0};
    salt(&random, &x, test_lane_numbers(&x, s->count));
    salt(&random, &dy, test_lane_numbers(&dy, s->count));
    test_pad(x.data, &x, s->count, &random);
    test_pad(dy.data, &dy, s->count, NULL);

    ls_operand map = empty(s, s->o, 2 * h, 2 * w), dmap = empty(s, s->o, 2 * h, 2 * w);
    ls_operand y = empty(s, s->o, h, w), y_joined = empty(s, s->o, h, w);
    ls_operand signs = empty(s, s->o, 1, ls_op_sign_places(2 * h, 2 * w));
    ls_operand dw[2] = {test_vector(&random, taps), test_vector(&random, taps)};
    ls_operand db[2] = {test_vector(&random, (size_t)s->o), test_vector(&random, (size_t)s->o)};
    run(ref, s, conv, (ls_op_call){.in = {x, weights, bias}, .out = {map}});
    run(ref, s, pool, (ls_op_call){.in = {map}, .out = {y}});
    run(ref, s, back, (ls_op_call){.in = {dy, map}, .out = {dmap}});
    run(ref, s, weight, (ls_op_call){.in = {x, dmap}, .out = {dw[0]}});
    run(ref, s, sum, (ls_op_call){.in = {dmap}, .out = {db[0]}});

    run(backend, s, joined, (ls_op_call){.in = {x, weights, bias}, .out = {y_joined}}); /* no signs wanted */
    assert_equal("y by itself", &y, &y_joined, test_lane_numbers(&y, s->count), s->count);
    run(backend, s, joined, (ls_op_call){.in = {x, weights, bias}, .out = {y_joined, signs}});
    run(backend, s, joined_back, (ls_op_call){.in = {x, dy, signs}, .out = {dw[1], db[1]}});
    assert_equal("y", &y, &y_joined, test_lane_numbers(&y, s->count), s->count);
    assert_equal("dw", &dw[0], &dw[1], taps, 0);
    assert_equal("db", &db[0], &db[1], (size_t)s->o, 0);
    memset(dw[1].data, 0, taps * sizeof(float));
    run(backend, s, joined_back, (ls_op_call){.in = {x, dy, signs}, .out = {dw[1]}}); /* either may be left out */
    assert_equal("dw alone", &dw[0], &dw[1], taps, 0);
    memset(db[1].data, 0, (size_t)s->o * sizeof(float));
    run(backend, s, joined_back, (ls_op_call){.in = {x, dy, signs}, .out = {{0}, db[1]}});
    assert_equal("db alone", &db[0], &db[1], (size_t)s->o, 0);

    ls_operand *all[] = {&x, &dy, &weights, &bias, &map, &dmap, &y, &y_joined, &signs, &dw[0], &dw[1], &db[0], &db[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->data);
}

static void equal_to_its_parts(void **state)
{
    (void)state;
    const ls_backend *backends[9] = {ls_backend_ref()};
    const int n = 1 + test_backends(backends + 1);
    for (int k = 0; k < n; k++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            check(backends[k], &shapes[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equal_to_its_parts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
