/* A tiny training run on each core or card: a device that computes other numbers than its neighbours is found before
 * the work begins. */
#include "base/environment.h"
#include "base/random.h"
#include "base/session.h"
#include "device/open.h"
#include "exec/turn.h"

#include <lockstep_data.h>
#include <lockstep_profile.h>

enum { IMAGES = 32, CHANNELS = 3, SIDE = 12, CLASSES = 10 };

/* The operations that a network spends its time in: direct and Winograd convolution, BatchNorm, pooling, a linear
 * layer. */
static ls_module *network(ls_session *s)
{
    ls_module *net = ls_sequential(s, NULL);
    ls_module_append(net, "conv1", ls_nn_conv2d(s, 16, 5, &(ls_conv){.padding = 2}));
    ls_module_append(net, "norm", ls_nn_batch_norm(s));
    ls_module_append(net, "relu1", ls_nn_fn(s, ls_relu));
    ls_module_append(net, "conv2", ls_nn_conv2d(s, 16, 3, &(ls_conv){.padding = 1}));
    ls_module_append(net, "relu2", ls_nn_fn(s, ls_relu));
    ls_module_append(net, "pool", ls_nn_max_pool2d(s, &(ls_pool){.kernel = 2}));
    ls_module_append(net, "flat", ls_nn_fn(s, ls_flatten));
    ls_module_append(net, "linear", ls_nn_linear(s, CLASSES));
    return net;
}

/* What training comes to; where models of cards round differently also on which one, so that ranks differ too. */
static uint64_t train_on(ls_session *s, ls_data *data, ls_device device)
{
    ls_module *net = network(s);
    ls_module_initialize(net, (ls_devices){.n = 1, .at = {device}}, &(ls_init){.kind = LS_HE, .like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1, .momentum = 0.9});
    ls_data_seek(data, 0, 0);
    for (ls_batch b; ls_data_next(data, &b);) {
        ls_backward(ls_cross_entropy(ls_module_forward(net, b.X), b.y));
        ls_trainer_step(trainer);
    }
    const uint64_t sum = ls_module_checksum(net);
    const ls_turn *turn = ls_failed(s) ? NULL : ls_turn_of(s, device);
    return turn && !turn->executor->backend->exact ? sum ^ ls_hash_name(turn->executor->model) : sum;
}

static ls_data *images(ls_session *s)
{
    const size_t numbers = (size_t)IMAGES * CHANNELS * SIDE * SIDE;
    uint8_t *pixels = s ? ls_session_alloc(s, numbers + IMAGES, 1, "the self-test's images") : NULL;
    ls_random_stream stream = {.purpose = LS_FOR_SELF_TEST};
    if (!pixels)
        return NULL;
    uint8_t *labels = pixels + numbers;
    for (size_t i = 0; i < numbers; i++)
        pixels[i] = (uint8_t)ls_random_u32(&stream, i);
    for (int i = 0; i < IMAGES; i++)
        labels[i] = pixels[i] % CLASSES;
    return ls_data_from_memory(s, pixels, labels, IMAGES, CHANNELS, SIDE, SIDE, CLASSES, &(ls_loader){.batch = 16});
}

/* Devices may share a core, or a card. */
static bool is_tried(const int tried[], int n, int executor)
{
    for (int i = 0; i < n; i++)
        if (tried[i] == executor)
            return true;
    return false;
}

ls_status ls_self_test(ls_session *session, ls_devices devices, uint64_t *sum)
{
    LS_OWN_ENVIRONMENT;
    if (sum)
        *sum = 0;
    if (!session || ls_failed(session))
        return session ? ls_status_of(session) : LS_BAD_ARGUMENT;
    if (!sum || devices.n < 1 || devices.n > LS_MAX_DEVICES)
        return ls_raise(&session->context, LS_BAD_ARGUMENT,
                        "ls_self_test: sum is NULL or the list of devices is empty");
    ls_options options = {.shard = 8,
                          .isa = session->options.isa,
                          .conv = session->options.conv,
                          .dtype = session->options.dtype,
                          .in_flight = session->options.in_flight,
                          .allocator = session->options.allocator};
    ls_session *own = ls_open(&options);
    ls_data *data = images(own);
    int tried[LS_MAX_DEVICES], n_tried = 0;
    ls_device first = {0};
    for (int d = 0; d < devices.n && !ls_failed(own); d++) {
        const int executor = ls_executor_number(devices.at[d]);
        if (is_tried(tried, n_tried, executor))
            continue;
        tried[n_tried++] = executor;
        const uint64_t found = train_on(own, data, devices.at[d]);
        if (ls_failed(own)) /* also of a type that is none */
            break;
        if (n_tried == 1) {
            first = devices.at[d];
            *sum = found;
        }
        if (ls_executors_match(ls_turn_of(own, first)->executor, ls_turn_of(own, devices.at[d])->executor) != LS_OK)
            break;
        if (found != *sum)
            ls_raise(&session->context, LS_INTERNAL,
                     "%s and %s compute different numbers from the same operands; one of them is not to be trusted",
                     ls_device_str(session, first), ls_device_str(session, devices.at[d]));
    }
    if (ls_failed(own))
        ls_raise(&session->context, ls_status_of(own), "%s", ls_message(own));
    ls_close(own);
    return ls_status_of(session);
}
