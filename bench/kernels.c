/* Speed of the CPU kernels on the layers of both networks: bench_kernels [--isa NAME] [--images N] [--seconds S] [WORD]
 *
 * One thread, processor time, the best of several runs. For convolutions the figure is that of direct convolution's
 * multiplications and additions against the core's measured peak, so that Winograd may pass 100 %. For the others it is
 * the bytes that go in and out. WORD picks the lines that contain it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convolutions.h"
#include "device/cpu/select.h"
#include "device/cpu/speed.h"

static const struct {
    ls_op op;
    const char *name;
} directions[] = {
    {LS_OP_CONV, "forward"},
    {LS_OP_CONV_DATA, "data"},
    {LS_OP_CONV_WEIGHT, "weight"},
    {LS_OP_WINOGRAD, "winograd"},
    {LS_OP_WINOGRAD_DATA, "winograd data"},
    {LS_OP_WINOGRAD_WEIGHT, "winograd weight"},
};

/* Maps of one shape: `in` and `out` name what goes in and out: x a map, h one of half the size, c numbers by channel, C
 * two. */
static const struct {
    ls_op op;
    const char *name, *in, *out;
    int relu, add;
} map_operations[] = {
    {LS_OP_BATCH_NORM, "batch_norm+relu", "xcc ", "xCC", 1, 0},
    {LS_OP_BATCH_NORM, "batch_norm+add+relu", "xccx", "xCC", 1, 1},
    {LS_OP_BATCH_NORM_BACKWARD, "backward+relu", "xxcCx", "xC ", 1, 0},
    {LS_OP_BATCH_NORM_BACKWARD, "backward+add+relu", "xxcCx", "xCx", 1, 1},
    {LS_OP_CHANNEL_SUM, "channel_sum", "x", "c", 0, 0},
    {LS_OP_ADD, "add", "xx", "x", 0, 0},
    {LS_OP_RELU, "relu", "x", "x", 0, 0},
    {LS_OP_RELU_BACKWARD, "relu_backward", "xx", "x", 0, 0},
    {LS_OP_AVG_POOL, "avg_pool 2x2", "x", "h", 0, 0},
    {LS_OP_AVG_POOL_BACKWARD, "avg_pool_backward 2x2", "hx", "x", 1, 0},
    {LS_OP_MAX_POOL, "max_pool 2x2", "x", "h", 0, 0},
    {LS_OP_MAX_POOL_BACKWARD, "max_pool_backward 2x2", "hx", "x", 0, 0},
    {LS_OP_GLOBAL_AVG_POOL, "global_avg_pool", "x", "c", 0, 0},
};

static const layer maps[] = {
    {"lenet 20", 20, 26, 20, 2, 2, 0, 0},     {"resnet 64", 64, 28, 64, 2, 2, 0, 0},
    {"resnet 128", 128, 14, 128, 2, 2, 0, 0}, {"resnet 256", 256, 7, 256, 2, 2, 0, 0},
    {"resnet 512", 512, 4, 512, 2, 2, 0, 0},
};

typedef struct bench {
    const ls_backend *backend;
    const char *word;
    double seconds, peak;
    int images;
} bench;

/* The best time of a call, which it ends. */
static double best_time(const bench *b, bench_call *call)
{
    double best = INFINITY, spent = 0.0;
    for (int run = 0; run < 3 || spent < b->seconds; run++) {
        const double time = time_call(call);
        best = fmin(best, time);
        spent += time;
    }
    end_call(call);
    return best;
}

static int chosen(const bench *b, const char *line)
{
    return !b->word || strstr(line, b->word);
}

static void run_convolution(const bench *b, const layer *l, int direction)
{
    char line[80];
    const ls_op op = directions[direction].op;
    const int winograd = op == LS_OP_WINOGRAD || op == LS_OP_WINOGRAD_DATA || op == LS_OP_WINOGRAD_WEIGHT;
    snprintf(line, sizeof line, "%-20s %-15s", l->name, directions[direction].name);
    if (!chosen(b, line) || (winograd && !suits_winograd(l)))
        return;
    bench_call call;
    begin_convolution(&call, b->backend, l, op, b->images);
    const double work = ls_op_flops(&call.call) * b->images;
    const double time = best_time(b, &call);
    printf("%s %8.2f us/image %8.1f GFLOP/s %6.1f %%\n", line, time * 1e6 / b->images, work / time / 1e9,
           100.0 * work / time / b->peak);
    fflush(stdout);
}

static ls_operand operand(const bench *b, const layer *l, char kind, double *bytes)
{
    const double map = (double)b->images * l->c * sizeof(float);
    switch (kind) {
    case 'x':
        *bytes += map * l->h * l->h;
        return bench_activation(l->c, l->h, b->images);
    case 'h':
        *bytes += map * (l->h / 2) * (l->h / 2);
        return bench_activation(l->c, l->h / 2, b->images);
    case 'c':
        return bench_activation(l->c, 1, b->images);
    case 'C':
        return bench_activation(2 * l->c, 1, b->images);
    default:
        return (ls_operand){NULL, 0, 0, 0};
    }
}

static void run_map(const bench *b, const layer *l, int k)
{
    char line[80];
    snprintf(line, sizeof line, "%-20s %-22s", l->name, map_operations[k].name);
    if (!chosen(b, line))
        return;
    bench_call call = {.attributes = {.op = map_operations[k].op,
                                      .kernel = 2,
                                      .stride = 2,
                                      .eps = 1e-5f,
                                      .fused_relu = map_operations[k].relu,
                                      .fused_add = map_operations[k].add}};
    double bytes = 0.0;
    for (int i = 0; map_operations[k].in[i]; i++)
        call.call.in[i] = operand(b, l, map_operations[k].in[i], &bytes);
    for (int i = 0; map_operations[k].out[i]; i++)
        call.call.out[i] = operand(b, l, map_operations[k].out[i], &bytes);
    begin_call(&call, b->backend, b->images);
    const double time = best_time(b, &call);
    printf("%s %8.2f us/image %8.1f GB/s\n", line, time * 1e6 / b->images, bytes / time / 1e9);
    fflush(stdout);
}

static ls_isa isa_of(const char *name)
{
    static const struct {
        const char *name;
        ls_isa isa;
    } known[] = {
        {"auto", LS_ISA_AUTO}, {"plain", LS_ISA_PLAIN},   {"neon", LS_ISA_NEON},
        {"avx2", LS_ISA_AVX2}, {"avx512", LS_ISA_AVX512}, {"reference", LS_ISA_REFERENCE},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i].name))
            return known[i].isa;
    fprintf(stderr, "bench_kernels: no instruction set %s\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    bench b = {.seconds = 0.3, .images = 64};
    ls_isa isa = LS_ISA_AUTO;
    for (int i = 1; i < argc; i++) {
        const int more = i + 1 < argc;
        if (more && !strcmp(argv[i], "--isa"))
            isa = isa_of(argv[++i]);
        else if (more && !strcmp(argv[i], "--images"))
            b.images = atoi(argv[++i]);
        else if (more && !strcmp(argv[i], "--seconds"))
            b.seconds = atof(argv[++i]);
        else
            b.word = argv[i];
    }
    b.backend = ls_cpu_backend(isa);
    if (!b.backend || b.images < 1) {
        fprintf(stderr, "bench_kernels: %s\n",
                b.backend ? "at least one image" : "this machine lacks that instruction set");
        return 1;
    }
    b.peak = ls_cpu_peak(b.backend);
    printf("%s, %d images, peak %.1f GFLOP/s\n", b.backend->name, b.images, b.peak / 1e9);
    for (size_t i = 0; i < CONVOLUTIONS; i++)
        for (size_t k = 0; k < sizeof directions / sizeof *directions; k++)
            run_convolution(&b, &convolutions[i], (int)k);
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        for (size_t k = 0; k < sizeof map_operations / sizeof *map_operations; k++)
            run_map(&b, &maps[i], (int)k);
    printf("peak %.1f GFLOP/s\n", ls_cpu_peak(b.backend) / 1e9);
    return 0;
}
