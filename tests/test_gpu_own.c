/* Operations of one's own on cards, by kernels of the test's (own_kernels.cu): a core's bits in float32, refusals by
 * name, launches that fail, and ls_custom_check. Exit status 77 where there is no card. */
#include "device/cards.h"
#include "gpu_network.h"
#include "not_run.h"
#include "own_kernels.h"
#include "tensors.h"

#include <math.h>
#include <stdio.h>

enum { STEPS = 4, CHANNELS = 4, EACH = CHANNELS * SIZE * SIZE };

static void weigh(const ls_custom_call *call, const float *const in[], float *out)
{
    const int places = call->in[0][1] * call->in[0][2], channels = call->in[0][0];
    for (int i = 0; i < call->rows * channels * places; i++)
        out[i] = in[1][i / places % channels] * (in[0][i] * in[0][i]);
}

static void weigh_backward(const ls_custom_call *call, const float *const in[], const float *out, const float *dout,
                           float *const din[])
{
    const int places = call->in[0][1] * call->in[0][2], channels = call->in[0][0];
    (void)out;
    for (int i = 0; din[0] && i < call->rows * channels * places; i++)
        din[0][i] = 2 * in[1][i / places % channels] * in[0][i] * dout[i];
    for (int i = 0; din[1] && i < call->rows * channels * places; i++)
        din[1][i / places % channels] += dout[i] * (in[0][i] * in[0][i]);
}

static bool halved_backward(const ls_custom_call *call, const float *const in[], const float *out, const float *dout,
                            float *const din[], void *stream)
{
    float *const first[LS_CUSTOM_INPUTS] = {din[0]}; /* and nothing of the parameter's */
    return own_kernel_backward(call, in, out, dout, first, stream);
}

static bool failing(const ls_custom_call *call, const float *const in[], float *out, void *stream)
{
    (void)call, (void)in, (void)out, (void)stream;
    return false;
}

static const ls_custom weighing = {.name = "weigh",
                                   .inputs = 2,
                                   .parameters = 2,
                                   .forward = weigh,
                                   .backward = weigh_backward,
                                   .cuda_forward = own_kernel_forward,
                                   .cuda_backward = own_kernel_backward};

static ls_tensor *own_forward(ls_module *self, ls_tensor *x)
{
    const ls_custom *op = ls_module_user(self);
    ls_tensor *w = ls_module_parameter(self, "own", LS_SHAPE(ls_dim(x, 1)));
    return ls_add(x, ls_custom_op(op, (ls_tensor *[]){x, w}));
}

/* Over maps, and over features. */
static ls_module *with_own(ls_session *s, const ls_custom *op)
{
    ls_module *net = ls_sequential(s, LS_LIST(ls_nn_conv2d(s, CHANNELS, 3, &(ls_conv){.padding = 1})));
    ls_module_append(net, NULL, ls_block(s, own_forward, (void *)op));
    ls_module_append(net, NULL, ls_nn_fn(s, ls_flatten));
    ls_module_append(net, NULL, ls_nn_linear(s, 19));
    ls_module_append(net, NULL, ls_block(s, own_forward, (void *)op));
    ls_module_append(net, NULL, ls_nn_linear(s, CLASSES));
    return net;
}

/* The parameters of the operation begin at a half. */
static void set_weights(const ls_parameter_info *info, float *values, void *user)
{
    (void)user;
    for (int64_t i = 0; i < info->numbers && strstr(info->name, "own"); i++)
        values[i] = 0.5f + (float)(i % 4) / 8;
}

static void train(const char *devices, ls_dtype dtype, char fingerprint[65], double *loss)
{
    ls_session *s = ls_open(&(ls_options){.seed = 3, .shard = SHARD, .dtype = dtype});
    ls_data *data = images(s);
    ls_module *net = with_own(s, &weighing);
    ls_module_initialize(net, ls_parse_devices(s, devices), &(ls_init){.kind = LS_XAVIER, .like = data});
    assert_int_equal(ls_module_apply(net, set_weights, NULL), LS_OK);
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.05, .momentum = 0.9});
    ls_batch b;
    for (int k = 0; k < STEPS && test_next(data, &b); k++)
        test_step(net, trainer, &b);
    ls_wait(s);
    ls_report report;
    while (ls_trainer_next_report(trainer, &report))
        *loss = report.loss;
    ls_metrics metrics;
    assert_int_equal(ls_module_evaluate(net, data, &metrics), LS_OK);
    if (ls_module_fingerprint(net, fingerprint) != LS_OK)
        fail_msg("%s: %s", devices, ls_message(s));
    assert_int_equal(ls_close(s), LS_OK);
}

static void cores_and_cards_have_the_same_bits(void **state)
{
    (void)state;
    static const char *const lists[] = {"cuda:0", "cuda:0x2", "cpu:0,cuda:0"};
    char core[65], card[65];
    double wanted, loss;
    train("cpu:0", LS_F32, core, &wanted);
    assert_true(isfinite(wanted));
    for (int k = 0; k < 3; k++) {
        train(lists[k], LS_F32, card, &loss);
        assert_string_equal(core, card);
        assert_true(loss == wanted);
    }
}

static void other_dtypes_come_close(void **state)
{
    (void)state;
    static const double most[] = {[LS_TF32] = 5e-3, [LS_BF16] = 5e-2};
    char core[65], one[65], two[65];
    double wanted, loss;
    train("cpu:0", LS_F32, core, &wanted);
    for (int dtype = LS_TF32; dtype <= LS_BF16; dtype++) {
        train("cuda:0", (ls_dtype)dtype, one, &loss);
        print_message("dtype %d: loss %.6f, in float32 %.6f\n", dtype, loss, wanted);
        assert_true(fabs(loss - wanted) < most[dtype] * fabs(wanted));
        train("cuda:0x2", (ls_dtype)dtype, two, &loss);
        assert_string_equal(one, two);
    }
}

/* Without a network: numbers and gradients on a card, of which the parameter's alone may be wanted. */
static void explicit_tensors_have_a_cores_numbers(void **state)
{
    (void)state;
    enum { N = 21 };
    float results[2][N * EACH], dx[2][N * EACH], dw[2][2 * CHANNELS];
    ls_session *s = ls_open(NULL);
    for (int there = 0; there < 2; there++) {
        const ls_device at = there ? ls_gpu(0) : ls_cpu(0);
        for (int tracked = 0; tracked < 2; tracked++) {
            ls_tensor *x = ls_randn(s, "x", 1, LS_SHAPE(N, CHANNELS, SIZE, SIZE));
            ls_tensor *w = ls_track(ls_clone(ls_randn(s, "w", 1, LS_SHAPE(CHANNELS)), at));
            x = tracked ? ls_track(ls_clone(x, at)) : ls_clone(x, at);
            ls_tensor *y = ls_custom_op(&weighing, (ls_tensor *[]){x, w});
            assert_int_equal(ls_backward(ls_sum_each(ls_tanh(y))), LS_OK);
            ls_read(y, results[there], N * EACH);
            ls_read(ls_grad(w), dw[there] + tracked * CHANNELS, CHANNELS);
            if (tracked)
                ls_read(ls_grad(x), dx[there], N * EACH);
        }
    }
    assert_int_equal(ls_close(s), LS_OK);
    assert_memory_equal(results[0], results[1], sizeof results[0]);
    assert_memory_equal(dx[0], dx[1], sizeof dx[0]);
    assert_memory_equal(dw[0], dw[1], sizeof dw[0]);
    assert_true(dx[0][0] != 0 && dw[0][0] != 0);
}

static ls_tensor *sum_of(ls_session *s, const ls_custom *op)
{
    ls_tensor *x = ls_track(ls_clone(ls_full(s, 2, LS_SHAPE(3, CHANNELS)), ls_gpu(0)));
    ls_tensor *w = ls_clone(ls_full(s, 3, LS_SHAPE(CHANNELS)), ls_gpu(0));
    return ls_sum_each(ls_custom_op(op, (ls_tensor *[]){x, w}));
}

static void what_is_missing_is_refused_by_name(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_custom op = weighing;
    op.cuda_backward = NULL;
    float sums[3] = {0};
    assert_int_equal(ls_read(sum_of(s, &op), sums, 3), LS_OK);
    assert_true(sums[0] == 12 * CHANNELS);
    ls_backward(sum_of(s, &op));
    assert_caught(s, LS_UNSUPPORTED, "the own operation weigh has no cuda_backward, which cuda f32 needs");
    op.cuda_forward = NULL;
    ls_read(sum_of(s, &op), sums, 3);
    assert_caught(s, LS_UNSUPPORTED, "the own operation weigh has no cuda_forward, which cuda f32 needs");
    assert_int_equal(ls_close(s), LS_OK);
}

static void a_launch_that_fails_ends_the_run(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_custom op = weighing;
    op.cuda_forward = failing;
    ls_read(sum_of(s, &op), (float[3]){0}, 3);
    assert_int_equal(ls_status_of(s), LS_IO);
    assert_non_null(strstr(ls_message(s), "the cuda_forward of an own operation failed: weigh"));
    ls_close(s);
}

static void the_check_looks_at_cards_too(void **state)
{
    (void)state;
    static const int shapes[][3] = {{3, 2, 5}, {3, 1, 1}};
    ls_session *s = ls_open(&(ls_options){.seed = 2});
    ls_custom op = weighing;
    assert_true(ls_custom_check(s, &op, shapes, 6) < 1e-4);
    assert_true(ls_custom_check(s, &op, (const int[][3]){{7, 1, 1}, {7, 1, 1}}, 5) < 1e-4);
    op.cuda_backward = halved_backward;
    assert_true(ls_custom_check(s, &op, shapes, 6) > 0.5);
    op.cuda_backward = NULL;
    assert_true(ls_custom_check(s, &op, shapes, 6) < 1e-4);
    assert_int_equal(ls_close(s), LS_OK);
}

int main(void)
{
    char why[256] = "";
    if (ls_card_count(why, sizeof why) == 0)
        return test_none_run("%s", why);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_and_cards_have_the_same_bits),    cmocka_unit_test(other_dtypes_come_close),
        cmocka_unit_test(explicit_tensors_have_a_cores_numbers), cmocka_unit_test(what_is_missing_is_refused_by_name),
        cmocka_unit_test(the_check_looks_at_cards_too),          cmocka_unit_test(a_launch_that_fails_ends_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
