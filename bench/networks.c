/* Other networks than the book's, one figure a call: what bench/networks measures of Lockstep.
 *
 *     bench_networks list                         the networks, with what they take
 *     bench_networks train NAME [OPTIONS]         whole training steps
 *     bench_networks profile NAME [OPTIONS]       where their time goes, by operation, and the most that a core can do
 *     bench_networks infer NAME [OPTIONS]         logits of images that lie ready on the host
 *     bench_networks write NAME FOLDER            weights, an ONNX model, some inputs, and the outputs that it makes of
 *                                                 them, for PyTorch and onnxruntime
 *     OPTIONS: [--devices LIST] [--batch N] [--shard N] [--seconds S] [--isa avx2] [--conv direct]
 *
 * A network's batch lies ready some times over, as numbers that differ. --seconds is how long it is measured; 0 is one
 * step, or one pass. Prints one line of JSON. */
#include "network/network.h"

#include <lockstep_data.h>
#include <lockstep_profile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* PyTorch has as many batches, used in turn (peer_networks.py). WRITTEN rows are enough to compare outputs. */
enum { SLOTS = 2, WRITTEN = 2 };

static const bench_network *const networks[] = {&bench_mobilenet_96,    &bench_resnet18_224, &bench_resnet50_64,
                                                &bench_resnet50_224,    &bench_vgg11_32,     &bench_unet_128,
                                                &bench_transformer_256, &bench_lstm_256};
enum { NETWORKS = sizeof networks / sizeof *networks };

typedef struct options {
    const char *devices;
    int batch, shard;
    double seconds;
    ls_isa isa;
    ls_algorithm conv;
} options;

/* A network with values, and rows for it. */
typedef struct work {
    ls_session *session;
    ls_data *data;
    ls_module *net;
} work;

static void check(const ls_session *s)
{
    if (ls_failed(s)) {
        fprintf(stderr, "bench_networks: %s\n", ls_message(s));
        exit(1);
    }
}

static int64_t numbers_of(const ls_shape *shape)
{
    int64_t numbers = 1;
    for (int i = 0; i < shape->rank; i++)
        numbers *= shape->dim[i];
    return numbers;
}

static ls_shape rows_of(const ls_shape *shape, int rows)
{
    ls_shape all = {.rank = shape->rank + 1, .dim = {rows}};
    memcpy(all.dim + 1, shape->dim, (size_t)shape->rank * sizeof *shape->dim);
    return all;
}

/* A number that can be learned from a row's own: how bright it is, or which id its place has. */
static float target_of(const bench_network *n, float x)
{
    return (float)(n->symbols ? (int)(x * 7 + 3) % n->classes : (int)(x * (float)n->classes));
}

static ls_data *make_data(ls_session *s, const bench_network *n, int rows, int batch)
{
    enum { SHADES = 10 }; /* that labels differ by */
    const int64_t numbers = numbers_of(&n->row), targets = n->target.rank ? numbers_of(&n->target) : 0;
    float *x = malloc((size_t)(rows * numbers) * sizeof *x), *y = malloc((size_t)(rows * targets + 1) * sizeof *y);
    int32_t *labels = malloc((size_t)rows * sizeof *labels);
    uint32_t state = 1;
    for (int64_t i = 0; x && i < rows * numbers; i++) {
        state = state * 1664525u + 1013904223u;
        const float drawn = (float)(state >> 8) / 16777216, shade = (float)(i / numbers % SHADES) / SHADES;
        x[i] = n->symbols ? (float)(int)(drawn * (float)n->symbols) : targets ? drawn : (drawn + shade) / 2;
    }
    for (int64_t i = 0; x && y && i < rows * targets; i++)
        y[i] = target_of(n, x[i]);
    for (int i = 0; labels && i < rows; i++)
        labels[i] = i % SHADES;
    if (!x || !y || !labels)
        ls_fail(s, LS_OUT_OF_MEMORY, "no memory for %d rows", rows);
    ls_data *data = ls_data_from_floats(s, x, rows_of(&n->row, rows), &(ls_loader){.batch = batch});
    if (targets)
        ls_data_set_targets(data, y, rows_of(&n->target, rows));
    else
        ls_data_set_labels(data, labels, rows, n->classes);
    free(x);
    free(y);
    free(labels);
    return data;
}

static work begin(const bench_network *n, const options *o, int rows, int batch)
{
    work w = {.session = ls_open(&(ls_options){.shard = o->shard, .isa = o->isa, .conv = o->conv})};
    w.data = make_data(w.session, n, rows, batch);
    w.net = n->build(w.session);
    ls_init init = n->init;
    init.like = w.data;
    ls_module_initialize(w.net, ls_parse_devices(w.session, o->devices), &init);
    check(w.session);
    return w;
}

static int64_t trainable(ls_module *net)
{
    int64_t numbers = 0;
    ls_parameter_info info;
    for (int i = 0; i < ls_module_parameter_count(net); i++)
        if (ls_module_parameter_at(net, i, &info) == LS_OK && info.trainable)
            numbers += info.numbers;
    return numbers;
}

/* ---- Training ---- */

typedef struct training {
    const bench_network *network;
    work work;
    ls_trainer *trainer;
    double loss; /* of the last step, before its update */
} training;

/* Seconds. */
static double take_steps(training *t, int64_t steps)
{
    ls_batch batch;
    ls_report report;
    ls_timer timer = {0};
    ls_timer_start(&timer);
    for (int64_t done = 0; done < steps && !ls_failed(t->work.session);)
        if (ls_data_next(t->work.data, &batch)) { /* false where an epoch is over; the next begins */
            ls_backward(t->network->loss(t->work.net, &batch));
            ls_trainer_step(t->trainer);
            done++;
        }
    ls_wait(t->work.session);
    ls_timer_stop(&timer);
    check(t->work.session);
    while (ls_trainer_next_report(t->trainer, &report))
        t->loss = report.loss;
    return timer.total;
}

/* The first step makes the plan; a second one says how many fit the time, at least one. */
static training begin_training(const bench_network *n, const options *o, int64_t *steps, double *first_loss)
{
    training t = {.network = n, .work = begin(n, o, SLOTS * o->batch, o->batch)};
    t.trainer = ls_trainer_new(t.work.net, LS_SGD, &(ls_optim){.lr = 0.01});
    take_steps(&t, 1);
    *first_loss = t.loss;
    const double step = take_steps(&t, 1);
    *steps = step < o->seconds ? (int64_t)(o->seconds / step) + 1 : 1;
    return t;
}

static int train(const bench_network *n, const options *o)
{
    int64_t steps;
    double first_loss;
    training t = begin_training(n, o, &steps, &first_loss);
    const double seconds = take_steps(&t, steps);
    ls_data_seek(t.work.data, 0, 0); /* to the batch of the first step */
    take_steps(&t, 1);
    printf(
        "{\"network\": \"%s\", \"isa\": \"%s\", \"batch\": %d, \"shard\": %d, \"steps\": %lld, \"parameters\": %lld, "
        "\"loss_first\": %.4f, \"loss_last\": %.4f, \"rows_per_s\": %.3f}\n",
        n->name, ls_isa_name(t.work.session), o->batch, o->shard, (long long)steps, (long long)trainable(t.work.net),
        first_loss, t.loss, (double)(steps * o->batch) / seconds);
    return ls_close(t.work.session) != LS_OK;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static void print_row(const ls_profile_row *row, const char *before)
{
    static const char *const directions[] = {"forward", "data", "weight"}; /* by ls_direction */
    printf("%s{\"layer\": \"%s\", \"operation\": \"%s\", \"direction\": \"%s\", \"in\": [%d, %d, %d], \"out\": [%d, "
           "%d, %d], "
           "\"kernel\": %d, \"stride\": %d, \"groups\": %d, \"seconds\": %.9f, \"flops\": %.0f, \"bytes\": %.0f}",
           before, row->layer, row->operation, directions[row->direction], row->in[0], row->in[1], row->in[2],
           row->out[0], row->out[1], row->out[2], row->kernel, row->stride, row->groups, row->seconds, row->flops,
           row->bytes);
}

/* What a core can do is measured before and after, for clocks change; the larger counts. */
static int profile(const bench_network *n, const options *o)
{
    int64_t steps;
    double first_loss;
    training t = begin_training(n, o, &steps, &first_loss);
    const ls_devices devices = ls_parse_devices(t.work.session, o->devices);
    ls_speed before = {0}, after = {0};
    ls_profile_sum sum = {0};
    ls_profile_row row;
    ls_measure_speed(t.work.session, devices, &before);
    ls_profile *profile = ls_profile_start(t.trainer, 0);
    take_steps(&t, steps);
    ls_profile_stop(profile);
    ls_measure_speed(t.work.session, devices, &after);
    ls_profile_total(profile, &sum);
    check(t.work.session);
    printf("{\"network\": \"%s\", \"isa\": \"%s\", \"cores\": %d, \"steps\": %lld, \"core_flops_per_second\": %.0f, "
           "\"core_bytes_per_second\": %.0f, \"seconds\": %.9f, \"operations_seconds\": %.9f, \"gathering_seconds\": "
           "%.9f, "
           "\"reducing_seconds\": %.9f, \"between_seconds\": %.9f, \"waiting_seconds\": %.9f, "
           "\"elsewhere_seconds\": %.9f, \"operations\": [",
           n->name, ls_isa_name(t.work.session), sum.cores, (long long)sum.steps, larger(before.flops, after.flops),
           larger(before.bytes, after.bytes), sum.seconds, sum.operations, sum.gathering, sum.reducing, sum.between,
           sum.waiting, sum.elsewhere);
    for (int i = 0; i < ls_profile_rows(profile) && ls_profile_at(profile, i, &row) == LS_OK; i++)
        print_row(&row, i ? ", " : "");
    printf("]}\n");
    return ls_close(t.work.session) != LS_OK;
}

/* ---- Inference ---- */

/* How long a pass over a batch takes, from the numbers on the host to the outputs there. */
static double pass(const work *w, ls_tensor *X, float *outputs, int64_t numbers)
{
    ls_timer timer = {0};
    ls_timer_start(&timer);
    const int scope = ls_enter(w->session);
    ls_read(ls_module_infer(w->net, X), outputs, numbers);
    ls_leave(w->session, scope);
    ls_timer_stop(&timer);
    return timer.total;
}

static int by_size(const void *a, const void *b)
{
    const double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

static int infer(const bench_network *n, const options *o)
{
    enum { MOST = 10000 };
    static double seconds[MOST];
    work w = begin(n, o, o->batch, o->batch);
    const int64_t numbers = (int64_t)o->batch * numbers_of(&n->row);
    float *x = malloc((size_t)numbers * sizeof *x),
          *outputs = malloc((size_t)(o->batch * n->classes) * sizeof *outputs);
    ls_batch batch;
    if (!x || !outputs || !ls_data_next(w.data, &batch) || ls_read(batch.X, x, numbers) != LS_OK) {
        ls_fail(w.session, LS_OUT_OF_MEMORY, "no memory for a batch of %d", o->batch);
        check(w.session);
    }
    ls_tensor *X = ls_values(w.session, x, rows_of(&n->row, o->batch));
    pass(&w, X, outputs, (int64_t)o->batch * n->classes); /* makes the plan */
    int passes = 0;
    for (double all = 0; passes < MOST && (!passes || all < o->seconds); all += seconds[passes++])
        seconds[passes] = pass(&w, X, outputs, (int64_t)o->batch * n->classes);
    check(w.session);
    qsort(seconds, (size_t)passes, sizeof *seconds, by_size);
    printf("{\"network\": \"%s\", \"isa\": \"%s\", \"batch\": %d, \"passes\": %d, \"parameters\": %lld, "
           "\"rows_per_s\": %.3f}\n",
           n->name, ls_isa_name(w.session), o->batch, passes, (long long)trainable(w.net),
           o->batch / seconds[passes / 2]);
    free(x);
    free(outputs);
    return ls_close(w.session) != LS_OK;
}

/* ---- For others ---- */

static const char *in_folder(const char *folder, const char *name, const char *ending)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s%s", folder, name, ending);
    return path;
}

static void save(ls_session *s, ls_tensor *tensor, const char *path)
{
    int64_t columns = 1;
    for (int i = 1; i < ls_rank(tensor); i++)
        columns *= ls_dim(tensor, i);
    float *values = malloc((size_t)(ls_rows(tensor) * columns) * sizeof *values);
    if (values && ls_read(tensor, values, ls_rows(tensor) * columns) == LS_OK)
        ls_save_npy(s, path, values, ls_rows(tensor), columns);
    free(values);
}

/* Outputs of inference, with statistics that a step of training has moved. */
static int write_for_others(const bench_network *n, const options *o, const char *folder)
{
    options few = *o;
    few.batch = few.shard = WRITTEN;
    int64_t steps;
    double first_loss;
    training t = begin_training(n, &few, &steps, &first_loss);
    ls_session *s = t.work.session;
    ls_batch batch;
    ls_data_seek(t.work.data, 0, 0);
    ls_data_next(t.work.data, &batch);
    save(s, batch.X, in_folder(folder, n->name, "_in.npy"));
    save(s, ls_module_infer(t.work.net, batch.X), in_folder(folder, n->name, "_out.npy"));
    ls_module_save(t.work.net, in_folder(folder, n->name, ".safetensors"));
    if (n->infers)
        ls_module_export_onnx(t.work.net, in_folder(folder, n->name, ".onnx"));
    check(s);
    printf("{\"network\": \"%s\", \"parameters\": %lld}\n", n->name, (long long)trainable(t.work.net));
    return ls_close(s) != LS_OK;
}

static void print_shape(const char *name, const ls_shape *shape)
{
    printf(", \"%s\": [", name);
    for (int i = 0; i < shape->rank; i++)
        printf("%s%lld", i ? ", " : "", (long long)shape->dim[i]);
    printf("]");
}

static const char *truth(bool is)
{
    return is ? "true" : "false";
}

static int list(void)
{
    for (int i = 0; i < NETWORKS; i++) {
        const bench_network *n = networks[i];
        printf("%s{\"name\": \"%s\"", i ? ", " : "[", n->name);
        print_shape("row", &n->row);
        print_shape("target", &n->target);
        printf(", \"symbols\": %d, \"classes\": %d, \"batch\": %d, \"shard\": %d, \"slots\": %d, \"trains\": %s, "
               "\"infers\": %s}",
               n->symbols, n->classes, n->batch, n->shard, SLOTS, truth(n->trains), truth(n->infers));
    }
    printf("]\n");
    return 0;
}

/* ---- The call ---- */

static int usage(void)
{
    fprintf(stderr, "usage: bench_networks list | train NAME | profile NAME | infer NAME | write NAME FOLDER\n"
                    "       [--devices LIST] [--batch N] [--shard N] [--seconds S] [--isa avx2] [--conv direct]\n");
    return 2;
}

static bool read_option(options *o, const char *name, const char *value)
{
    if (!strcmp(name, "--devices"))
        o->devices = value;
    else if (!strcmp(name, "--batch"))
        return (o->batch = atoi(value)) > 0;
    else if (!strcmp(name, "--shard"))
        return (o->shard = atoi(value)) > 0;
    else if (!strcmp(name, "--seconds"))
        o->seconds = atof(value);
    else if (!strcmp(name, "--isa") && !strcmp(value, "avx2"))
        o->isa = LS_ISA_AVX2;
    else if (!strcmp(name, "--conv") && !strcmp(value, "direct"))
        o->conv = LS_CONV_DIRECT;
    else
        return !strcmp(name, "--conv") && !strcmp(value, "auto");
    return true;
}

int main(int argc, char **argv)
{
    const char *words[3] = {NULL}; /* the command, the network, the folder */
    options o = {.devices = "cpu:0"};
    int n = 0;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) == 0) {
            if (i + 1 == argc || !read_option(&o, argv[i], argv[i + 1]))
                return usage();
            i++;
        } else if (n < 3) {
            words[n++] = argv[i];
        } else {
            return usage();
        }
    }
    if (n == 1 && !strcmp(words[0], "list"))
        return list();
    const bench_network *network = NULL;
    for (int i = 0; n > 1 && i < NETWORKS; i++)
        if (!strcmp(words[1], networks[i]->name))
            network = networks[i];
    if (!network)
        return usage();
    if (!o.batch)
        o.batch = network->batch;
    if (!o.shard && strcmp(words[0], "infer") != 0) /* which has the library's own */
        o.shard = network->shard;
    if (n == 3 && !strcmp(words[0], "write"))
        return write_for_others(network, &o, words[2]);
    if (n == 2 && !strcmp(words[0], "train"))
        return train(network, &o);
    if (n == 2 && !strcmp(words[0], "profile"))
        return profile(network, &o);
    if (n == 2 && !strcmp(words[0], "infer"))
        return infer(network, &o);
    return usage();
}
