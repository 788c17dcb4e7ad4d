/* What ls_module_recompute saves and costs: bench_recompute [SIDE [BATCH [SHARD [ROUNDS]]]], 224, 32, 16 and 3.
 *
 * ResNet-50 on images from memory, on two cores: one network keeps what its blocks make, the other computes it again.
 * They take a step in turn, so that a machine which changes its speed changes it for both. Prints what each needs, the
 * median over the rounds of how much longer a step takes, and whether the losses have the same bits. */
#include "../examples/arguments.h"
#include "../examples/torchvision.h"

#include <lockstep_profile.h>
#include <lockstep_train.h>

enum { CLASSES = 10, COLOURS = 3, MOST_ROUNDS = 99 };

typedef struct training {
    ls_session *session;
    ls_data *data;
    ls_module *net;
    ls_trainer *trainer;
    int64_t bytes;
    double loss;
} training;

static void check(const training *t)
{
    if (ls_failed(t->session)) {
        fprintf(stderr, "bench_recompute: %s\n", ls_message(t->session));
        exit(1);
    }
}

static training begin(const uint8_t *images, const uint8_t *labels, int side, int batch, int shard, bool again)
{
    training t = {.session = ls_open(&(ls_options){.shard = shard})};
    t.data = ls_data_from_memory(t.session, images, labels, batch, COLOURS, side, side, CLASSES,
                                 &(ls_loader){.batch = batch});
    t.net = resnet(t.session, (int[]){3, 4, 6, 3}, true, CLASSES);
    for (int i = 0; i < 4; i++) {
        ls_module *layer = ls_module_child(t.net, resnet_layers[i]), *block;
        char name[12] = "0";
        for (int k = 0; (block = ls_module_child(layer, name)); snprintf(name, sizeof name, "%d", ++k))
            ls_module_recompute(block, again);
    }
    ls_module_initialize(t.net, ls_try_devices(t.session, 2), &(ls_init){.kind = LS_HE, .like = t.data});
    t.trainer = ls_trainer_new(t.net, LS_SGD, &(ls_optim){.lr = 0.01});
    ls_trainer_memory_needed(t.trainer, t.data, &t.bytes);
    check(&t);
    return t;
}

/* Seconds. */
static double step(training *t)
{
    ls_batch batch;
    ls_report report;
    ls_timer timer = {0};
    ls_timer_start(&timer);
    while (!ls_data_next(t->data, &batch) && !ls_failed(t->session))
        ; /* an epoch is over; the next begins */
    ls_backward(ls_cross_entropy(ls_module_forward(t->net, batch.X), batch.y));
    ls_trainer_step(t->trainer);
    ls_wait(t->session);
    check(t);
    ls_timer_stop(&timer);
    while (ls_trainer_next_report(t->trainer, &report))
        t->loss = report.loss;
    return timer.total;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int side = 224, batch = 32, shard = 16, rounds = 3;
    read_arguments(argc, argv, "ResNet-50 with and without ls_module_recompute. It writes no file.",
                   (argument[]){{"SIDE", .count = &side},
                                {"BATCH", .count = &batch},
                                {"SHARD", .count = &shard},
                                {"ROUNDS", .count = &rounds}},
                   4);
    rounds = rounds < MOST_ROUNDS ? rounds : MOST_ROUNDS;
    const size_t numbers = (size_t)batch * COLOURS * (size_t)side * (size_t)side;
    uint8_t *images = malloc(numbers), *labels = malloc((size_t)batch);
    uint32_t x = 1;
    for (size_t i = 0; images && labels && i < numbers; i++)
        images[i] = (uint8_t)((x = x * 1664525u + 1013904223u) >> 24);
    for (int i = 0; images && labels && i < batch; i++)
        labels[i] = (uint8_t)(i % CLASSES);
    training keeps = begin(images, labels, side, batch, shard, false),
             again = begin(images, labels, side, batch, shard, true);
    double ratio[MOST_ROUNDS];
    bool equal = true;
    for (int i = -1; i < rounds; i++) { /* the first step makes the plan */
        const double kept = step(&keeps), took = step(&again);
        equal = equal && keeps.loss == again.loss;
        if (i >= 0)
            ratio[i] = took / kept;
        printf("%s: %.2f s, and again %.2f s\n", i < 0 ? "first step" : "a step", kept, took);
    }
    qsort(ratio, (size_t)rounds, sizeof *ratio, compare);
    printf("memory: %.0f and %.0f MB, %.2f times as much; time: %.2f times as much; losses %s\n",
           (double)keeps.bytes / 1e6, (double)again.bytes / 1e6, (double)again.bytes / (double)keeps.bytes,
           ratio[rounds / 2], equal ? "equal" : "DIFFER");
    ls_close(keeps.session);
    ls_close(again.session);
    free(images);
    free(labels);
    return !equal;
}
