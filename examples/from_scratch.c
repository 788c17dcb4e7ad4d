/* "Training on Multiple GPUs", step by step: explicit parameters, a copy of them on each device, gradients summed by
 * hand. from_scratch [EPOCHS [IMAGES]]: 10 epochs over all images unless told otherwise. */
#include "arguments.h"
#include <lockstep.h>
#include <lockstep_nn.h>
#include <stdio.h>

enum { W1, b1, W2, b2, W3, b3, W4, b4, N }; /* Initialize model parameters */
typedef struct params {
    ls_tensor *at[N];
} params; /* one per device; a plain value */

static params init_params(ls_session *s)
{
    const double scale = 0.01;
    return (params){.at = {[W1] = ls_randn(s, "W1", scale, LS_SHAPE(20, 1, 3, 3)),
                           [b1] = ls_named(ls_zeros(s, LS_SHAPE(20)), "b1"),
                           [W2] = ls_randn(s, "W2", scale, LS_SHAPE(50, 20, 5, 5)),
                           [b2] = ls_named(ls_zeros(s, LS_SHAPE(50)), "b2"),
                           [W3] = ls_randn(s, "W3", scale, LS_SHAPE(800, 128)),
                           [b3] = ls_named(ls_zeros(s, LS_SHAPE(128)), "b3"),
                           [W4] = ls_randn(s, "W4", scale, LS_SHAPE(128, 10)),
                           [b4] = ls_named(ls_zeros(s, LS_SHAPE(10)), "b4")}};
}

static ls_tensor *lenet(ls_tensor *X, void *replica) /* Define the model */
{
    ls_tensor **p = ((params *)replica)->at;
    const ls_pool halve = {.kernel = 2, .stride = 2};
    ls_tensor *h1 = ls_avg_pool2d(ls_relu(ls_conv2d(X, p[W1], p[b1], NULL)), &halve);
    ls_tensor *h2 = ls_flatten(ls_avg_pool2d(ls_relu(ls_conv2d(h1, p[W2], p[b2], NULL)), &halve));
    ls_tensor *h3 = ls_relu(ls_add(ls_matmul(h2, p[W3]), p[b3]));
    return ls_add(ls_matmul(h3, p[W4]), p[b4]);
}

static params get_params(const params *from, ls_device device)
{
    params copy;
    for (int i = 0; i < N; i++)
        copy.at[i] = ls_track(ls_clone(from->at[i], device)); /* tracked: carries its own gradient */
    return copy;
}

static void allreduce(ls_tensor *data[], int n) /* sum in one fixed tree order, then broadcast */
{
    for (int gap = 1; gap < n; gap *= 2)
        for (int i = 0; i + gap < n; i += 2 * gap)
            ls_add_to(data[i], ls_to(data[i + gap], ls_device_of(data[i])));
    for (int i = 1; i < n; i++)
        ls_assign(data[i], data[0]);
}

static void split_batch(ls_batch b, ls_devices devices, ls_tensor *X[], ls_tensor *y[])
{
    if (ls_rows(b.X) != ls_rows(b.y))
        ls_fail(ls_session_of(b.X), LS_BAD_SHAPE, "split_batch: X has %lld rows, y %lld", (long long)ls_rows(b.X),
                (long long)ls_rows(b.y));
    ls_scatter(b.X, devices, X);
    ls_scatter(b.y, devices, y);
}

static void train_batch(ls_batch b, params device_params[], ls_devices devices, double lr)
{
    ls_tensor *X[LS_MAX_DEVICES], *y[LS_MAX_DEVICES], *l[LS_MAX_DEVICES], *g[LS_MAX_DEVICES];
    split_batch(b, devices, X, y);
    for (int d = 0; d < devices.n; d++) /* Loss is calculated separately on each device */
        l[d] = ls_sum(ls_cross_entropy(lenet(X[d], &device_params[d]), y[d]));
    for (int d = 0; d < devices.n; d++) /* Backpropagation is performed separately too; returns at once */
        ls_backward(l[d]);
    for (int i = 0; i < N; i++) { /* Sum all gradients and broadcast them to all devices */
        for (int d = 0; d < devices.n; d++)
            g[d] = ls_grad(device_params[d].at[i]);
        allreduce(g, devices.n);
    }
    for (int d = 0; d < devices.n; d++) /* Every replica is updated; here, we use the full batch's size */
        ls_sgd_step(device_params[d].at, N, lr, ls_rows(b.X));
}

/* As `lockstep train` tells it: the hash of the library's own LeNet, whose parameters have these names and shapes. */
static void print_fingerprint(ls_session *s, const params *trained, ls_devices devices, const ls_data *like)
{
    static const char *const name[N] = {"W1", "b1", "W2", "b2", "W3", "b3", "W4", "b4"};
    static float values[800 * 128];
    char digits[65];
    ls_module *net = ls_lenet(s);
    ls_module_initialize(net, devices, &(ls_init){.like = like});
    for (int i = 0; i < N; i++) {
        int64_t numbers = 1;
        for (int k = 0; k < ls_rank(trained->at[i]); k++)
            numbers *= ls_dim(trained->at[i], k);
        ls_read(trained->at[i], values, numbers);
        ls_module_write_parameter(net, name[i], values, numbers);
    }
    if (ls_module_fingerprint(net, digits) == LS_OK)
        printf("fingerprint: %s\n", digits);
    ls_catch(s, LS_UNSUPPORTED); /* the library was built without libcrypto */
}

static void train(ls_session *s, const params *initial, int num_devices, ls_loader loader, double lr, int epochs)
{
    int scope = ls_enter(s); /* what is made below goes with ls_leave */
    loader.shuffle = true;
    ls_data *train_iter = ls_data_fashion_mnist(s, LS_TRAIN, &loader);
    ls_data *test_iter = ls_data_fashion_mnist(s, LS_TEST, &(ls_loader){.batch = loader.batch, .limit = loader.limit});
    ls_devices devices = ls_try_devices(s, num_devices);
    fprintf(stderr, "%s%s", ls_notice(s), *ls_notice(s) ? "\n" : ""); /* where there are too few GPUs */
    params device_params[LS_MAX_DEVICES];
    void *replica[LS_MAX_DEVICES];
    for (int d = 0; d < devices.n; d++) { /* Copy model parameters to the devices */
        device_params[d] = get_params(initial, devices.at[d]);
        replica[d] = &device_params[d];
    }
    ls_timer timer = {0};
    double acc = 0;
    for (int epoch = 0; epoch < epochs && !ls_failed(s); epoch++) {
        ls_timer_start(&timer);
        for (ls_batch b; ls_data_next(train_iter, &b);) /* a batch's temporaries go with the batch */
            train_batch(b, device_params, devices, lr);
        ls_wait(s);
        ls_timer_stop(&timer);
        acc = ls_accuracy_fn(lenet, replica, test_iter, devices); /* on all devices */
        fprintf(stderr, "epoch %d, test acc %.4f\n", epoch + 1, acc);
    }
    printf("test acc: %.2f, %.1f sec/epoch on %s\n", acc, ls_timer_avg(&timer), ls_devices_str(s, devices));
    print_fingerprint(s, &device_params[0], devices, test_iter);
    ls_leave(s, scope);
}

static void show_parts(ls_session *s, const params *initial)
{
    ls_devices devices = ls_try_devices(s, 2);
    printf("devices: %s\n", ls_devices_str(s, devices));

    params new_params = get_params(initial, devices.at[0]);
    printf("b1 weight: %s\n", ls_str(new_params.at[b1]));
    printf("b1 grad: %s\n", ls_str(ls_grad(new_params.at[b1])));

    ls_tensor *data[2];
    for (int i = 0; i < 2; i++)
        data[i] = ls_clone(ls_full(s, i + 1, LS_SHAPE(1, 2)), devices.at[i]);
    printf("before allreduce:\n%s\n%s\n", ls_str(data[0]), ls_str(data[1]));
    allreduce(data, 2);
    printf("after allreduce:\n%s\n%s\n", ls_str(data[0]), ls_str(data[1]));

    ls_tensor *all = ls_arange(s, 0, LS_SHAPE(4, 5)), *split[2];
    ls_scatter(all, devices, split);
    printf("input:\n%s\n", ls_str(all));
    printf("load into %s\n", ls_devices_str(s, devices));
    printf("output:\n%s\n%s\n", ls_str(split[0]), ls_str(split[1]));
}

int main(int argc, char **argv)
{
    int epochs = 10, images = 0;
    read_arguments(
        argc, argv,
        "LeNet from explicit parameters: EPOCHS (10) over the first IMAGES (all). It prints, and writes no file.",
        (argument[]){{"EPOCHS", .count = &epochs}, {"IMAGES", .count = &images}}, 2);
    ls_loader loader = {.batch = 256, .limit = images};
    ls_session *s = ls_open(&(ls_options){.seed = 0});
    params initial = init_params(s);
    show_parts(s, &initial);
    train(s, &initial, 1, loader, 0.2, epochs);
    train(s, &initial, 2, loader, 0.2, epochs);
    if (ls_failed(s)) /* the first failure, wherever it was */
        fprintf(stderr, "from_scratch: %s\n", ls_message(s));
    return ls_close(s) == LS_OK ? 0 : 1;
}
