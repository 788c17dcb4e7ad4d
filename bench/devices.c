/* What the second device is worth: bench_devices [--isa avx2] [--devices N] [--turns N] [--steps N] MODEL
 *
 * Whole training steps on Fashion-MNIST, batch 256, in one process that takes turns: some steps on one device, as many
 * on N, and as many on each of N single devices at once that know nothing of each other. A turn is a matter of seconds,
 * so that a host which changes its speed within minutes changes it for all three; whole runs after each other meet
 * another host each time. Prints the median over the turns of how many times as fast N devices are as one, and what the
 * machine itself allows, with the quarters around them; then one line of JSON. */
#define _POSIX_C_SOURCE 200809L
#include <lockstep.h>
#include <lockstep_nn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 256, MOST_DEVICES = 64, MOST_TURNS = 1000, WAYS = 3 };

static int devices = 2, turns = 20, steps;

/* One training, which goes on wherever it was left. */
typedef struct training {
    ls_session *session;
    ls_data *data;
    ls_module *net;
    ls_trainer *trainer;
} training;

static void check(const training *t)
{
    if (ls_failed(t->session)) {
        fprintf(stderr, "bench_devices: %s\n", ls_message(t->session));
        exit(1);
    }
}

static training begin(const char *model, const char *list, ls_isa isa)
{
    training t = {.session = ls_open(&(ls_options){.isa = isa})};
    t.data = ls_data_fashion_mnist(t.session, LS_TRAIN, &(ls_loader){.batch = BATCH, .shuffle = true});
    t.net = ls_model(t.session, model);
    ls_module_initialize(t.net, ls_parse_devices(t.session, list), &(ls_init){.kind = LS_XAVIER, .like = t.data});
    t.trainer = ls_trainer_new(t.net, LS_SGD, &(ls_optim){.lr = 0.01});
    check(&t);
    return t;
}

static void *go_on(void *argument)
{
    training *t = argument;
    ls_batch batch;
    for (int done = 0; done < steps && !ls_failed(t->session);)
        if (ls_data_next(t->data, &batch)) { /* false where an epoch is over; the next begins */
            ls_backward(ls_cross_entropy(ls_module_forward(t->net, batch.X), batch.y));
            ls_trainer_step(t->trainer);
            done++;
        }
    ls_wait(t->session);
    return NULL;
}

/* Seconds that `n` trainings take, each on a thread of its own. */
static double take(training t[], int n)
{
    pthread_t thread[MOST_DEVICES];
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < n; i++)
        if (pthread_create(&thread[i], NULL, go_on, &t[i])) {
            fprintf(stderr, "bench_devices: no thread to be had\n");
            exit(1);
        }
    for (int i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    for (int i = 0; i < n; i++)
        check(&t[i]);
    return (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
}

static int by_size(const void *a, const void *b)
{
    double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

/* Sorts. */
static double median(double *numbers)
{
    qsort(numbers, (size_t)turns, sizeof *numbers, by_size);
    return numbers[turns / 2];
}

static double print_ratio(const char *what, const double over[], const double under[])
{
    double ratio[MOST_TURNS];
    for (int i = 0; i < turns; i++)
        ratio[i] = over[i] / under[i];
    double middle = median(ratio);
    printf("%s: %.3f (quarters %.3f to %.3f)\n", what, middle, ratio[turns / 4], ratio[turns - 1 - turns / 4]);
    return middle;
}

static int number(const char *word, int most)
{
    int n = atoi(word);
    if (n < 1 || n > most) {
        fprintf(stderr, "bench_devices: %s is not 1 to %d\n", word, most);
        exit(2);
    }
    return n;
}

int main(int argc, char **argv)
{
    static double speed[WAYS][MOST_TURNS]; /* images per second */
    static training one[1], all[1], apart[MOST_DEVICES];
    ls_isa isa = LS_ISA_AUTO;
    const char *model = NULL;
    for (int i = 1; i < argc; i++) {
        const char *more = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--isa") && !strcmp(more, "avx2"))
            isa = LS_ISA_AVX2, i++;
        else if (!strcmp(argv[i], "--devices"))
            devices = number(more, MOST_DEVICES), i++;
        else if (!strcmp(argv[i], "--turns"))
            turns = number(more, MOST_TURNS), i++;
        else if (!strcmp(argv[i], "--steps"))
            steps = number(more, 100000), i++;
        else
            model = argv[i];
    }
    if (!model) {
        fprintf(stderr, "usage: bench_devices [--isa avx2] [--devices N] [--turns N] [--steps N] lenet|resnet18\n");
        return 2;
    }
    if (!steps)
        steps = strcmp(model, "lenet") ? 1 : 50;

    char list[32];
    one[0] = begin(model, "cpu:0", isa);
    snprintf(list, sizeof list, "cpu:0-%d", devices - 1);
    all[0] = begin(model, devices > 1 ? list : "cpu:0", isa);
    for (int i = 0; i < devices; i++) {
        snprintf(list, sizeof list, "cpu:%d", i);
        apart[i] = begin(model, list, isa);
    }
    training *way[WAYS] = {one, all, apart};
    const int trainings[WAYS] = {1, 1, devices};
    for (int turn = -1; turn < turns; turn++) /* the first warms up */
        for (int k = 0; k < WAYS; k++) {
            int w = (turn + 1 + k) % WAYS;
            double seconds = take(way[w], trainings[w]);
            if (turn >= 0)
                speed[w][turn] = (double)trainings[w] * steps * BATCH / seconds;
        }

    const char *isa_name = ls_isa_name(one[0].session);
    printf("%s, %s, batch %d, %d turns of %d step%s\n", model, isa_name, BATCH, turns, steps, steps == 1 ? "" : "s");
    char what[64];
    snprintf(what, sizeof what, "%d devices over one", devices);
    double together = print_ratio(what, speed[1], speed[0]);
    snprintf(what, sizeof what, "%d trainings apart over one", devices);
    double machine = print_ratio(what, speed[2], speed[0]);
    print_ratio("devices over trainings apart", speed[1], speed[2]);
    double middle[WAYS];
    for (int w = 0; w < WAYS; w++)
        middle[w] = median(speed[w]);
    printf("images per second: one %.1f, %d devices %.1f, apart %.1f\n", middle[0], devices, middle[1], middle[2]);
    printf("{\"model\": \"%s\", \"isa\": \"%s\", \"devices\": %d, \"turns\": %d, \"together\": %.4f, \"apart\": %.4f, "
           "\"img_per_s\": [%.1f, %.1f, %.1f]}\n",
           model, isa_name, devices, turns, together, machine, middle[0], middle[1], middle[2]);

    for (int w = 0; w < WAYS; w++)
        for (int i = 0; i < trainings[w]; i++)
            ls_close(way[w][i].session);
    return 0;
}
