/* An operation of one's own, forward and backward in plain C: checked against finite differences, then trained in a
 * network. own_operation [EPOCHS [IMAGES]] */
#include "arguments.h"
#include <lockstep.h>
#include <lockstep_nn.h>
#include <math.h>
#include <stdio.h>

/* "Bend": y = x / sqrt(1 + ((1 + a) x)^2), with one learnt number a for each channel. */
static bool bend_shape(ls_custom_call *call) /* the output comes as x's shape; a must have a number for each channel */
{
    return call->in[1][0] == call->in[0][0];
}

static void bend(const ls_custom_call *call, const float *const in[], float *out)
{
    int channels = call->in[0][0], map = call->in[0][1] * call->in[0][2];
    for (int i = 0; i < call->rows * channels * map; i++) {
        float x = in[0][i], s = 1 + in[1][i / map % channels];
        out[i] = x / sqrtf(1 + s * s * x * x);
    }
}

/* With r = 1 / sqrt(1 + s^2 x^2) and s = 1 + a: dy/dx = r^3, dy/da = -s x^3 r^3. */
static void bend_backward(const ls_custom_call *call, const float *const in[], const float *out, const float *dout,
                          float *const din[])
{
    (void)out;
    int channels = call->in[0][0], map = call->in[0][1] * call->in[0][2];
    for (int i = 0; i < call->rows * channels * map; i++) {
        int c = i / map % channels;
        float x = in[0][i], s = 1 + in[1][c], r = 1 / sqrtf(1 + s * s * x * x);
        if (din[0]) /* NULL where nobody wants it */
            din[0][i] = dout[i] * r * r * r;
        if (din[1])
            din[1][c] -= dout[i] * s * x * x * x * r * r * r; /* summed over the rows */
    }
}

static const ls_custom bending = {.name = "bend",
                                  .inputs = 2,
                                  .parameters = 1 << 1, /* input 1 is a parameter */
                                  .shape = bend_shape,
                                  .forward = bend,
                                  .backward = bend_backward};

static ls_tensor *bend_forward(ls_module *self, ls_tensor *x)
{
    ls_tensor *a = ls_module_parameter(self, "a", LS_SHAPE(ls_dim(x, 1)));
    return ls_custom_op(&bending, (ls_tensor *[]){x, a});
}

static ls_module *network(ls_session *s)
{
    return ls_sequential(s, LS_LIST(ls_nn_conv2d(s, 8, 5, &(ls_conv){.stride = 2}), ls_block(s, bend_forward, NULL),
                                    ls_nn_fn(s, ls_flatten), ls_nn_linear(s, 10)));
}

int main(int argc, char **argv)
{
    int epochs = 2, images = 10000;
    read_arguments(
        argc, argv,
        "An operation of one's own: EPOCHS (2) over the first IMAGES (10000). It prints, and writes no file.",
        (argument[]){{"EPOCHS", .count = &epochs}, {"IMAGES", .count = &images}}, 2);
    ls_session *s = ls_open(NULL);
    double error = ls_custom_check(s, &bending, (const int[][3]){{3, 4, 5}, {3, 1, 1}}, 7);
    printf("bend: backward against finite differences: %.1e\n", error);

    ls_data *train = ls_data_fashion_mnist(s, LS_TRAIN, &(ls_loader){.shuffle = true, .limit = images});
    ls_data *test = ls_data_fashion_mnist(s, LS_TEST, &(ls_loader){.limit = images});
    ls_module *net = network(s);
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0-1"), &(ls_init){.kind = LS_XAVIER});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    for (int epoch = 0; epoch < epochs; epoch++)
        for (ls_batch b; ls_data_next(train, &b);) {
            ls_backward(ls_cross_entropy(ls_module_forward(net, b.X), b.y));
            ls_trainer_step(trainer);
        }
    printf("test acc: %.2f\n", ls_module_accuracy(net, test));
    printf("a of each channel: %s\n", ls_str(ls_module_param(net, "1.a", ls_cpu(0))));
    if (ls_failed(s))
        fprintf(stderr, "own_operation: %s\n", ls_message(s));
    return ls_close(s) == LS_OK && error < 1e-3 ? 0 : 1;
}
