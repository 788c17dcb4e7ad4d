/* Devices of unequal speed: one is made to wait before each shard it computes. Divided evenly, each step takes as long
 * as the slow one needs for its half; pulled, it takes what it can. And sixteen devices, whatever the cores: the same
 * bits. devices [STEPS [SECONDS]]: 12 steps, and 0.02 seconds of waiting, unless told otherwise. */
#include "arguments.h"
#include <lockstep.h>
#include <lockstep_nn.h>
#include <lockstep_trial.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = 512, SHARD = 32, SIZE = 28, CLASSES = 10, IMAGES = 4 * BATCH };
static uint8_t images[IMAGES][SIZE * SIZE], labels[IMAGES];

typedef struct outcome {
    double seconds; /* a step */
    char fingerprint[65];
} outcome;

/* Each device gets its part of the batch, and nobody else may compute it. */
static void divided(ls_module *net, ls_batch b, ls_devices devices)
{
    ls_tensor *X[LS_MAX_DEVICES], *y[LS_MAX_DEVICES];
    ls_scatter(b.X, devices, X);
    ls_scatter(b.y, devices, y);
    for (int d = 0; d < devices.n; d++)
        ls_backward(ls_cross_entropy(ls_module_forward(net, X[d]), y[d]));
}

/* The batch stays on the host; devices take its shards one by one. */
static void pulled(ls_module *net, ls_batch b, ls_devices devices)
{
    (void)devices;
    ls_backward(ls_cross_entropy(ls_module_forward(net, b.X), b.y));
}

typedef void hand_out(ls_module *net, ls_batch b, ls_devices devices);

static outcome train(const char *list, hand_out *how, int steps, double slow)
{
    outcome o = {0};
    ls_session *s = ls_open(&(ls_options){.shard = SHARD, .trial = &(ls_trial){.slow_cpu = 1, .slow_seconds = slow}});
    ls_devices devices = ls_parse_devices(s, list);
    ls_data *data = ls_data_from_memory(s, images[0], labels, IMAGES, 1, SIZE, SIZE, CLASSES,
                                        &(ls_loader){.batch = BATCH, .shuffle = true});
    ls_module *net = ls_lenet(s);
    ls_module_initialize(net, devices, &(ls_init){.kind = LS_XAVIER, .like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    ls_timer timer = {0};
    ls_batch b;
    for (int step = 0; step < steps && !ls_failed(s);) {
        if (!ls_data_next(data, &b))
            continue; /* the epoch is over, the next one begins */
        ls_timer_start(&timer);
        how(net, b, devices);
        ls_trainer_step(trainer);
        ls_wait(s);
        ls_timer_stop(&timer);
        step++;
    }
    o.seconds = ls_timer_avg(&timer);
    ls_module_fingerprint(net, o.fingerprint);
    if (ls_failed(s))
        fprintf(stderr, "devices: %s\n", ls_message(s));
    ls_close(s);
    return o;
}

int main(int argc, char **argv)
{
    int steps = 12;
    double slow = 0.02;
    read_arguments(argc, argv,
                   "Devices of unequal speed: STEPS (12), of which one waits SECONDS (0.02) a shard. It prints, and "
                   "writes no file.",
                   (argument[]){{"STEPS", .count = &steps}, {"SECONDS", .real = &slow}}, 2);
    for (int i = 0; i < IMAGES; i++) {
        labels[i] = (uint8_t)(i % CLASSES);
        for (int p = 0; p < SIZE * SIZE; p++)
            images[i][p] =
                (uint8_t)((unsigned)(i % 97 + 5) * (unsigned)(p + 11) * 2654435761U >> (24 + i % CLASSES % 3));
    }
    outcome alone = train("cpu:0", pulled, steps, 0);
    outcome evenly = train("cpu:0-1", divided, steps, slow), shared = train("cpu:0-1", pulled, steps, slow);
    outcome sixteen = train("cpu:0-15", pulled, steps, 0);
    printf("one device                        %7.1f ms a step\n", 1e3 * alone.seconds);
    printf("a slow one and a fast one, evenly %7.1f ms a step\n", 1e3 * evenly.seconds);
    printf("a slow one and a fast one, pulled %7.1f ms a step: %.1f times as fast\n", 1e3 * shared.seconds,
           evenly.seconds / shared.seconds);
    printf("sixteen devices                   %7.1f ms a step\n", 1e3 * sixteen.seconds);
    bool equal = *alone.fingerprint && strcmp(alone.fingerprint, evenly.fingerprint) == 0 &&
                 strcmp(alone.fingerprint, shared.fingerprint) == 0 &&
                 strcmp(alone.fingerprint, sixteen.fingerprint) == 0;
    printf("fingerprint %.16s: %s\n", alone.fingerprint, equal ? "the same each time" : "NOT the same each time");
    return equal ? 0 : 1;
}
