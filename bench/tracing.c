/* What a timeline costs: bench_tracing [PAIRS]
 *
 * LeNet on all cores, batch 256, random images: 20 steps with spans written down and 20 without, in turn, in one
 * process, so that what the machine does meanwhile meets both. Prints the median over the pairs of what a step takes
 * more, by the clock and in the process's time on its processors, and the quarters around it. */
#define _POSIX_C_SOURCE 200809L
#include <lockstep_profile.h>
#include <lockstep_nn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BATCH = 256, ROWS = 20 * BATCH, SIDE = 28, CLASSES = 10, SPANS = 250000, MOST_PAIRS = 10000 };

typedef struct seconds {
    double clock, processor;
} seconds;

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* An epoch. */
static seconds take(ls_session *s, ls_data *data, ls_module *net, ls_trainer *trainer)
{
    ls_batch batch;
    seconds start = {now(CLOCK_MONOTONIC), now(CLOCK_PROCESS_CPUTIME_ID)};
    while (ls_data_next(data, &batch)) {
        ls_backward(ls_cross_entropy(ls_module_forward(net, batch.X), batch.y));
        ls_trainer_step(trainer);
    }
    ls_wait(s);
    return (seconds){now(CLOCK_MONOTONIC) - start.clock, now(CLOCK_PROCESS_CPUTIME_ID) - start.processor};
}

static int by_size(const void *a, const void *b)
{
    double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

static void print(const char *what, double *more, int pairs)
{
    qsort(more, (size_t)pairs, sizeof *more, by_size);
    printf("%s: a step takes %+.2f %% more with a timeline (quarters %+.2f to %+.2f)\n", what, 100 * more[pairs / 2],
           100 * more[pairs / 4], 100 * more[pairs - 1 - pairs / 4]);
}

int main(int argc, char **argv)
{
    static uint8_t images[ROWS * SIDE * SIDE], labels[ROWS];
    static double clock_more[MOST_PAIRS], processor_more[MOST_PAIRS];
    int pairs = argc > 1 ? atoi(argv[1]) : 100;
    if (pairs < 1 || pairs > MOST_PAIRS) {
        fprintf(stderr, "usage: bench_tracing [PAIRS, 1 to %d]\n", MOST_PAIRS);
        return 2;
    }
    uint32_t state = 1;
    for (int i = 0; i < ROWS * SIDE * SIDE; i++)
        images[i] = (uint8_t)((state = state * 1664525u + 1013904223u) >> 24);
    for (int i = 0; i < ROWS; i++)
        labels[i] = (uint8_t)(i % CLASSES);
    ls_session *s = ls_open(NULL);
    ls_data *data = ls_data_from_memory(s, images, labels, ROWS, 1, SIDE, SIDE, CLASSES, &(ls_loader){.batch = BATCH});
    ls_module *net = ls_model(s, "lenet");
    ls_module_initialize(net, ls_all_devices(s), &(ls_init){.kind = LS_XAVIER, .like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.01});
    take(s, data, net, trainer);
    for (int i = 0; i < pairs && !ls_failed(s); i++) {
        seconds taken[2]; /* without, with */
        for (int k = 0; k < 2; k++) {
            int with = (i + k) % 2, scope = ls_enter(s);
            ls_profile *profile = with ? ls_profile_start(trainer, SPANS) : NULL;
            taken[with] = take(s, data, net, trainer);
            if (with)
                ls_profile_stop(profile);
            ls_leave(s, scope);
        }
        clock_more[i] = taken[1].clock / taken[0].clock - 1;
        processor_more[i] = taken[1].processor / taken[0].processor - 1;
    }
    if (ls_failed(s)) {
        fprintf(stderr, "bench_tracing: %s\n", ls_message(s));
        ls_close(s);
        return 1;
    }
    print("by the clock", clock_more, pairs);
    print("processor time", processor_more, pairs);
    ls_close(s);
    return 0;
}
