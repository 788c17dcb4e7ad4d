/* "Concise Implementation for Multiple GPUs": a module, one call that initializes it on a list of devices, a trainer,
 * and a loop that does not know how many devices there are.
 * concise [EPOCHS [IMAGES]]: 10 epochs over all images unless told otherwise. */
#include "arguments.h"
#include <lockstep.h>
#include <lockstep_nn.h>
#include <stdio.h>

static ls_tensor *residual_forward(ls_module *self, ls_tensor *X)
{
    ls_tensor *Y = ls_relu(ls_module_call(self, "bn1", ls_module_call(self, "conv1", X)));
    Y = ls_module_call(self, "bn2", ls_module_call(self, "conv2", Y));
    return ls_relu(ls_add(Y, ls_module_child(self, "conv3") ? ls_module_call(self, "conv3", X) : X));
}

static ls_module *residual(ls_session *s, int channels, bool use_1x1conv, int strides)
{
    ls_module *m = ls_block(s, residual_forward, NULL);
    ls_module_append(m, "conv1", ls_nn_conv2d(s, channels, 3, &(ls_conv){.padding = 1, .stride = strides}));
    ls_module_append(m, "bn1", ls_nn_batch_norm(s));
    ls_module_append(m, "conv2", ls_nn_conv2d(s, channels, 3, &(ls_conv){.padding = 1}));
    ls_module_append(m, "bn2", ls_nn_batch_norm(s));
    if (use_1x1conv)
        ls_module_append(m, "conv3", ls_nn_conv2d(s, channels, 1, &(ls_conv){.stride = strides}));
    return m;
}

static ls_module *resnet18(ls_session *s, int num_classes)
{
    static const char *const name[] = {"resnet_block1", "resnet_block2", "resnet_block3", "resnet_block4"};
    ls_module *net = ls_sequential(
        s, LS_LIST(ls_nn_conv2d(s, 64, 3, &(ls_conv){.padding = 1}), ls_nn_batch_norm(s), ls_nn_fn(s, ls_relu)));
    for (int i = 0; i < 4; i++) /* 64, 128, 256, 512 channels */
        ls_module_append(
            net, name[i],
            ls_sequential(s, LS_LIST(residual(s, 64 << i, i > 0, i > 0 ? 2 : 1), residual(s, 64 << i, false, 1))));
    ls_module_append(net, "global_avg_pool", ls_nn_fn(s, ls_global_avg_pool2d));
    ls_module_append(net, "fc", ls_sequential(s, LS_LIST(ls_nn_fn(s, ls_flatten), ls_nn_linear(s, num_classes))));
    return net;
}

static void print_fingerprint(ls_module *net)
{
    char digits[65];
    if (ls_module_fingerprint(net, digits) == LS_OK)
        printf("fingerprint: %s\n", digits);
    ls_catch(ls_session_of(net), LS_UNSUPPORTED); /* the library was built without libcrypto */
}

static void train(ls_module *net, int num_devices, ls_loader loader, double lr, int epochs)
{
    ls_session *s = ls_session_of(net);
    int scope = ls_enter(s);
    loader.shuffle = true;
    ls_data *train_iter = ls_data_fashion_mnist(s, LS_TRAIN, &loader);
    ls_data *test_iter = ls_data_fashion_mnist(s, LS_TEST, &(ls_loader){.batch = loader.batch, .limit = loader.limit});
    ls_devices devices = ls_try_devices(s, num_devices);
    fprintf(stderr, "%s%s", ls_notice(s), *ls_notice(s) ? "\n" : ""); /* where there are too few GPUs */
    ls_module_initialize(net, devices, &(ls_init){.kind = LS_NORMAL, .scale = 0.01, .force = true});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = lr, .full_batch = loader.batch});
    ls_timer timer = {0};
    double acc = 0;
    for (int epoch = 0; epoch < epochs && !ls_failed(s); epoch++) {
        ls_timer_start(&timer);
        for (ls_batch b; ls_data_next(train_iter, &b);) { /* nothing here knows the number of devices */
            ls_backward(ls_cross_entropy(ls_module_forward(net, b.X), b.y));
            ls_trainer_step(trainer);
        }
        ls_wait(s);
        ls_timer_stop(&timer);
        acc = ls_module_accuracy(net, test_iter);
        fprintf(stderr, "epoch %d, test acc %.4f\n", epoch + 1, acc);
    }
    printf("test acc: %.2f, %.1f sec/epoch on %s\n", acc, ls_timer_avg(&timer), ls_devices_str(s, devices));
    print_fingerprint(net);
    ls_leave(s, scope);
}

static void show_parts(ls_module *net)
{
    ls_session *s = ls_session_of(net);
    ls_devices devices = ls_try_devices(s, 2);
    ls_tensor *x[2];
    ls_module_initialize(net, devices, &(ls_init){.kind = LS_NORMAL, .scale = 0.01});
    ls_module_param(net, "0.weight", devices.at[0]);
    if (ls_catch(s, LS_SHAPE_UNKNOWN)) /* try: ... except */
        puts("0.weight: shape not known before the first forward");
    ls_scatter(ls_uniform(s, "x", LS_SHAPE(4, 1, 28, 28)), devices, x);
    printf("(%s,\n %s)\n", ls_str(ls_module_infer(net, x[0])), ls_str(ls_module_infer(net, x[1])));
    for (int d = 0; d < devices.n; d++)
        printf("%s\n", ls_str(ls_row(ls_module_param(net, "0.weight", devices.at[d]), 0)));
    ls_module_param(net, "0.weight", ls_cpu(7));
    if (ls_catch(s, LS_NOT_INITIALIZED))
        puts("not initialized on cpu(7)");
}

/* The minutes that so many epochs take on the network's devices, by the second of two steps: the first one also
 * prepares. */
static double minutes(ls_module *net, ls_loader loader, int epochs)
{
    ls_session *s = ls_session_of(net);
    int scope = ls_enter(s);
    ls_data *data = ls_data_fashion_mnist(s, LS_TRAIN, &loader);
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    ls_timer timer = {0};
    ls_batch b;
    for (int i = 0; i < 2 && ls_data_next(data, &b); i++) {
        timer = (ls_timer){0};
        ls_timer_start(&timer);
        ls_backward(ls_cross_entropy(ls_module_forward(net, b.X), b.y));
        ls_trainer_step(trainer);
        ls_wait(s);
        ls_timer_stop(&timer);
    }
    double seconds = epochs * ls_data_batches(data) * ls_timer_avg(&timer);
    ls_leave(s, scope);
    return seconds / 60;
}

int main(int argc, char **argv)
{
    int epochs = 10, images = 0;
    read_arguments(argc, argv,
                   "ResNet-18 by modules: EPOCHS (10) over the first IMAGES (all). It says first how long it will "
                   "take, and writes no file.",
                   (argument[]){{"EPOCHS", .count = &epochs}, {"IMAGES", .count = &images}}, 2);
    ls_session *s = ls_open(NULL);
    ls_module *net = resnet18(s, 10);
    show_parts(net);
    const ls_loader small = {.batch = 256, .limit = images}, large = {.batch = 512, .limit = images};
    double second = minutes(net, large, epochs); /* on the two devices of show_parts */
    ls_module_initialize(net, ls_try_devices(s, 1), &(ls_init){.kind = LS_NORMAL, .scale = 0.01, .force = true});
    double first = minutes(net, small, epochs);
    if (!ls_failed(s))
        fprintf(stderr, "two trainings: the first will take about %.1f minutes, the second %.1f\n", first, second);
    train(net, 1, small, 0.1, epochs);
    train(net, 2, large, 0.2, epochs); /* both grow with the devices */
    if (ls_failed(s))
        fprintf(stderr, "concise: %s\n", ls_message(s));
    return ls_close(s) == LS_OK ? 0 : 1;
}
