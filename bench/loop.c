/* A trainer's loop in C, for bench/python, which runs the same one in Python beside it: bench_loop MODEL STEPS
 *
 * Batches of 256 images from memory, on all cores. Two steps first, then an epoch of STEPS, which is timed. Prints
 * images per second and the fingerprint of what was trained. */
#define _POSIX_C_SOURCE 200809L
#include <lockstep_data.h>
#include <lockstep_nn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BATCH = 256, SIDE = 28, CLASSES = 10, WARM = 2, MOST_STEPS = 1000 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void train(ls_data *data, ls_module *net, ls_trainer *trainer, int steps)
{
    ls_batch batch;
    for (int i = 0; i < steps && ls_data_next(data, &batch); i++) {
        ls_backward(ls_cross_entropy(ls_module_forward(net, batch.X), batch.y));
        ls_trainer_step(trainer);
    }
}

int main(int argc, char **argv)
{
    const int steps = argc == 3 ? atoi(argv[2]) : 0;
    if (steps < WARM || steps > MOST_STEPS) {
        fprintf(stderr, "usage: bench_loop MODEL STEPS, %d to %d\n", WARM, MOST_STEPS);
        return 2;
    }
    const size_t rows = (size_t)steps * BATCH, bytes = rows * SIDE * SIDE;
    uint8_t *images = malloc(bytes + rows), *labels = images + bytes;
    if (!images)
        return 1;
    for (size_t i = 0; i < bytes; i++)
        images[i] = (uint8_t)((uint32_t)i * 2654435761u >> 24);
    for (size_t i = 0; i < rows; i++)
        labels[i] = (uint8_t)(i % CLASSES);
    ls_session *s = ls_open(NULL);
    ls_data *data = ls_data_from_memory(s, images, labels, (int64_t)rows, 1, SIDE, SIDE, CLASSES,
                                        &(ls_loader){.batch = BATCH, .shuffle = true});
    free(images);
    ls_module *net = ls_model(s, argv[1]);
    ls_module_initialize(net, ls_all_devices(s), &(ls_init){.kind = LS_XAVIER, .like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.01});
    train(data, net, trainer, WARM);
    ls_wait(s);
    ls_data_seek(data, 1, 0);
    const double began = now();
    train(data, net, trainer, steps);
    ls_wait(s);
    const double seconds = now() - began;
    char digits[65] = "";
    ls_module_fingerprint(net, digits);
    if (ls_failed(s))
        fprintf(stderr, "bench_loop: %s\n", ls_message(s));
    else
        printf("%.1f %s\n", (double)rows / seconds, digits);
    return ls_close(s) == LS_OK ? 0 : 1;
}
