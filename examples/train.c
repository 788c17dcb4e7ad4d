/* Trains a network of one's own on Fashion-MNIST, on all cores, in one page: cc train.c -llockstep */
#include "arguments.h"
#include <lockstep.h>
#include <lockstep_nn.h>
#include <stdio.h>

static ls_module *network(ls_session *s)
{
    ls_module *net = ls_sequential(s, NULL);
    ls_module_append(net, "conv1", ls_nn_conv2d(s, 16, 3, &(ls_conv){.padding = 1}));
    ls_module_append(net, "bn1", ls_nn_batch_norm(s));
    ls_module_append(net, "relu1", ls_nn_fn(s, ls_relu));
    ls_module_append(net, "pool1", ls_nn_max_pool2d(s, &(ls_pool){.kernel = 2}));
    ls_module_append(net, "conv2", ls_nn_conv2d(s, 32, 3, &(ls_conv){.padding = 1}));
    ls_module_append(net, "bn2", ls_nn_batch_norm(s));
    ls_module_append(net, "relu2", ls_nn_fn(s, ls_relu));
    ls_module_append(net, "pool2", ls_nn_fn(s, ls_global_avg_pool2d));
    ls_module_append(net, "flat", ls_nn_fn(s, ls_flatten));
    ls_module_append(net, "fc", ls_nn_linear(s, 10));
    return net;
}

int main(int argc, char **argv)
{
    read_arguments(argc, argv,
                   "A network of one's own, two epochs over 20,000 images. It writes the weights to own.safetensors.",
                   NULL, 0);
    ls_session *s = ls_open(NULL);
    ls_data *train = ls_data_fashion_mnist(s, LS_TRAIN, &(ls_loader){.batch = 256, .shuffle = true, .limit = 20000});
    ls_data *test = ls_data_fashion_mnist(s, LS_TEST, NULL);
    ls_module *net = network(s);
    ls_module_initialize(net, ls_all_devices(s), &(ls_init){.kind = LS_HE, .like = train});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1, .momentum = 0.9});
    for (int epoch = 0; epoch < 2 && !ls_failed(s); epoch++) {
        for (ls_batch b; ls_data_next(train, &b);) {
            ls_backward(ls_cross_entropy(ls_module_forward(net, b.X), b.y));
            ls_trainer_step(trainer); /* returns at once */
        }
        ls_metrics metrics = {0};
        if (ls_module_evaluate(net, test, &metrics) == LS_OK)
            printf("epoch %d: test acc %.3f\n", epoch + 1, (double)metrics.correct / (double)metrics.rows);
    }
    if (ls_module_save(net, "own.safetensors") == LS_OK)
        fprintf(stderr, "wrote own.safetensors: the weights\n");
    if (ls_failed(s)) /* the first failure, wherever it was */
        fprintf(stderr, "train: %s\n", ls_message(s));
    return ls_close(s) == LS_OK ? 0 : 1;
}
