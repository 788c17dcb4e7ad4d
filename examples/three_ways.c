/* The three ways to split training over two devices: by layers, by channels of each layer, and by data. The same small
 * network each time, with explicit tensors, so that what moves between the devices stands in the text.
 * three_ways [EPOCHS [IMAGES]] */
#include "arguments.h"
#include <lockstep.h>
#include <lockstep_nn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { W1, b1, W2, b2, W3, b3, N, MAPS = 8, HIDDEN = 64, CLASSES = 10, FEATURES = MAPS * 6 * 6, BATCH = 128 };
static const double lr = 0.2;
typedef struct params {
    ls_tensor *at[N];
} params;

static ls_tensor *layer1(ls_tensor *X, const params *p) /* (images, channels of W1, 6, 6) */
{
    ls_tensor *maps = ls_relu(ls_conv2d(X, p->at[W1], p->at[b1], &(ls_conv){.stride = 2}));
    return ls_avg_pool2d(maps, &(ls_pool){.kernel = 2});
}

static ls_tensor *layer2(ls_tensor *h, const params *p)
{
    return ls_relu(ls_linear(ls_flatten(h), p->at[W2], p->at[b2]));
}

static ls_tensor *loss_of(ls_tensor *h, const params *p, ls_tensor *y)
{
    return ls_sum(ls_cross_entropy(ls_linear(h, p->at[W3], p->at[b3]), y));
}

/* What another layer made, on a device, as a start of its own: backward passes end there and leave their gradient. */
static ls_tensor *received(ls_tensor *h, ls_device device)
{
    return ls_track(ls_clone(h, device));
}

/* Each device has all parameters and a part of the batch; gradients are summed. Parameters cross. */
static void by_data(ls_batch b, params p[], ls_devices devices)
{
    ls_tensor *X[LS_MAX_DEVICES], *y[LS_MAX_DEVICES];
    ls_scatter(b.X, devices, X);
    ls_scatter(b.y, devices, y);
    for (int d = 0; d < devices.n; d++)
        ls_backward(loss_of(layer2(layer1(X[d], &p[d]), &p[d]), &p[d], y[d]));
    for (int i = 0; i < N && devices.n == 2; i++) {
        ls_add_to(ls_grad(p[0].at[i]), ls_to(ls_grad(p[1].at[i]), devices.at[0]));
        ls_assign(ls_grad(p[1].at[i]), ls_grad(p[0].at[i]));
    }
    for (int d = 0; d < devices.n; d++)
        ls_sgd_step(p[d].at, N, lr, ls_rows(b.X));
}

/* The first layer on one device, the others on the next. What it computes crosses, and its gradient crosses back. */
static void by_layers(ls_batch b, params p[], ls_devices devices)
{
    ls_tensor *h = layer1(ls_to(b.X, devices.at[0]), &p[0]);
    ls_tensor *there = received(h, devices.at[1]);
    ls_backward(loss_of(layer2(there, &p[0]), &p[0], ls_to(b.y, devices.at[1])));
    ls_backward_from(h, ls_to(ls_grad(there), devices.at[0]));
    ls_sgd_step(p[0].at, W2, lr, ls_rows(b.X));
    ls_sgd_step(p[0].at + W2, N - W2, lr, ls_rows(b.X));
}

/* Each device has half the channels of layers 1 and 2, and needs all that the layer before made. The last is on one
 * device. */
static void by_channels(ls_batch b, params p[], ls_devices devices)
{
    ls_tensor *half[2], *copy[2][2], *h[2], *top[2]; /* copy[d][e]: half e, on device d */
    for (int d = 0; d < 2; d++)
        half[d] = layer1(ls_to(b.X, devices.at[d]), &p[d]);
    for (int d = 0; d < 2; d++) {
        for (int e = 0; e < 2; e++)
            copy[d][e] = received(half[e], devices.at[d]);
        h[d] = layer2(ls_concat(copy[d], 2), &p[d]);
    }
    for (int e = 0; e < 2; e++)
        top[e] = received(h[e], devices.at[0]);
    ls_backward(loss_of(ls_concat(top, 2), &p[0], ls_to(b.y, devices.at[0])));
    for (int d = 0; d < 2; d++)
        ls_backward_from(h[d], ls_to(ls_grad(top[d]), devices.at[d]));
    for (int e = 0; e < 2; e++) { /* both devices used this half: their gradients add up */
        ls_tensor *dy = ls_clone(ls_grad(copy[0][e]), devices.at[e]);
        ls_add_to(dy, ls_to(ls_grad(copy[1][e]), devices.at[e]));
        ls_backward_from(half[e], dy);
    }
    ls_sgd_step(p[0].at, N, lr, ls_rows(b.X));
    ls_sgd_step(p[1].at, W3, lr, ls_rows(b.X));
}

typedef void way(ls_batch b, params p[], ls_devices devices);
static const struct {
    const char *name;
    way *step;
    int devices;
} ways[] = {
    {"one device", by_data, 1}, {"by layers", by_layers, 2}, {"by channels", by_channels, 2}, {"by data", by_data, 2}};

/* The parameters where this way needs them. */
static void place(const params *initial, int w, ls_devices devices, params p[2])
{
    for (int i = 0; i < N; i++) {
        ls_tensor *parts[2] = {NULL, NULL}, *whole = initial->at[i];
        if (ways[w].step == by_layers)
            parts[0] = ls_clone(whole, devices.at[i >= W2]);
        else if (ways[w].step == by_channels && i < W3)
            ls_scatter(whole, devices, parts); /* rows of a weight are output channels */
        else
            for (int d = 0; d < devices.n; d++)
                parts[d] = ls_clone(whole, devices.at[d]);
        for (int d = 0; d < 2; d++)
            p[d].at[i] = parts[d] ? ls_track(parts[d]) : NULL;
    }
}

static double difference(ls_tensor *a, ls_tensor *b) /* the largest of their numbers */
{
    int64_t n = 1;
    for (int i = 0; i < ls_rank(a); i++)
        n *= ls_dim(a, i);
    float *x = malloc((size_t)n * sizeof *x), *y = malloc((size_t)n * sizeof *y);
    double largest = x && y && ls_read(a, x, n) == LS_OK && ls_read(b, y, n) == LS_OK ? 0 : INFINITY;
    for (int64_t i = 0; i < n && largest < INFINITY; i++)
        largest = fmax(largest, fabs((double)x[i] - (double)y[i]));
    free(x);
    free(y);
    return largest;
}

/* Trains in way w; the parameters come back whole, on the host. */
static params train(ls_session *s, int w, const params *initial, const ls_loader *loader, int epochs)
{
    ls_devices devices = ls_try_devices(s, ways[w].devices);
    ls_data *data = ls_data_fashion_mnist(s, LS_TRAIN, loader);
    params p[2], trained;
    place(initial, w, devices, p);
    ls_wait(s);
    uint64_t before = ls_bytes_moved(s);
    for (int epoch = 0; epoch < epochs; epoch++)
        for (ls_batch b; ls_data_next(data, &b);)
            ways[w].step(b, p, devices);
    double steps = (double)epochs * ls_data_batches(data);
    printf("%-12s %8.0f bytes moved a step\n", ways[w].name, (double)(ls_bytes_moved(s) - before) / steps);
    for (int i = 0; i < N; i++) {
        bool halves = ways[w].step == by_channels && i < W3;
        trained.at[i] =
            halves ? ls_gather((ls_tensor *[]){p[0].at[i], p[1].at[i]}, 2, ls_host()) : ls_clone(p[0].at[i], ls_host());
    }
    return trained;
}

int main(int argc, char **argv)
{
    int epochs = 1, images = 6000;
    read_arguments(argc, argv,
                   "Training split by data, layers and channels: EPOCHS (1) over the first IMAGES (6000). It prints, "
                   "and writes no file.",
                   (argument[]){{"EPOCHS", .count = &epochs}, {"IMAGES", .count = &images}}, 2);
    ls_loader loader = {.batch = BATCH, .shuffle = true, .limit = images};
    ls_session *s = ls_open(NULL);
    params initial = {.at = {[W1] = ls_randn(s, "W1", 0.1, LS_SHAPE(MAPS, 1, 5, 5)),
                             [b1] = ls_zeros(s, LS_SHAPE(MAPS)),
                             [W2] = ls_randn(s, "W2", 0.05, LS_SHAPE(HIDDEN, FEATURES)),
                             [b2] = ls_zeros(s, LS_SHAPE(HIDDEN)),
                             [W3] = ls_randn(s, "W3", 0.1, LS_SHAPE(CLASSES, HIDDEN)),
                             [b3] = ls_zeros(s, LS_SHAPE(CLASSES))}};
    params one = train(s, 0, &initial, &loader, epochs);
    double largest = 0, learnt = 0;
    for (int w = 1; w < 4; w++) {
        params other = train(s, w, &initial, &loader, epochs);
        for (int i = 0; i < N; i++) {
            largest = fmax(largest, difference(other.at[i], one.at[i]));
            learnt = fmax(learnt, difference(initial.at[i], one.at[i]));
        }
    }
    bool agree = largest < 1e-3 * learnt; /* the sums have another order: equal but for rounding */
    printf("the ways %s: largest difference %.1e, where training moved a parameter by %.1e\n",
           agree ? "agree" : "DISAGREE", largest, learnt);
    if (ls_failed(s))
        fprintf(stderr, "three_ways: %s\n", ls_message(s));
    return ls_close(s) == LS_OK && agree ? 0 : 1;
}
