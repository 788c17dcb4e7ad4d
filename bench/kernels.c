/* Speed of the CPU kernels on the layers of both networks: bench_kernels [--isa NAME] [--images N] [--seconds S] [WORD]
 *
 * One thread, processor time, the best of several runs. For convolutions the figure is that of direct convolution's
 * multiplications and additions against the core's measured peak, so that Winograd may pass 100 %. For the others it is
 * the bytes that go in and out. WORD picks the lines that contain it. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "device/cpu/select.h"
#include "device/winograd.h"

float bench_chains_plain(long), bench_chains_avx2(long), bench_chains_avx512(long), bench_chains_neon(long);

typedef struct layer {
    const char *name;
    int c, h, o, kernel, stride, padding, in_out;
} layer;

static const layer convolutions[] = {
    {"lenet conv1", 1, 28, 20, 3, 1, 0, 0},           {"lenet conv2", 20, 12, 50, 5, 1, 0, 0},
    {"lenet fc1", 800, 1, 128, 1, 1, 0, 1},           {"lenet fc2", 128, 1, 10, 1, 1, 0, 1},
    {"resnet stem", 1, 28, 64, 3, 1, 1, 0},           {"resnet 64", 64, 28, 64, 3, 1, 1, 0},
    {"resnet 64-128 s2", 64, 28, 128, 3, 2, 1, 0},    {"resnet 64-128 1x1", 64, 28, 128, 1, 2, 0, 0},
    {"resnet 128", 128, 14, 128, 3, 1, 1, 0},         {"resnet 128-256 s2", 128, 14, 256, 3, 2, 1, 0},
    {"resnet 128-256 1x1", 128, 14, 256, 1, 2, 0, 0}, {"resnet 256", 256, 7, 256, 3, 1, 1, 0},
    {"resnet 256-512 s2", 256, 7, 512, 3, 2, 1, 0},   {"resnet 256-512 1x1", 256, 7, 512, 1, 2, 0, 0},
    {"resnet 512", 512, 4, 512, 3, 1, 1, 0},          {"resnet fc", 512, 1, 10, 1, 1, 0, 0},
};

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
    ls_samples samples;
} bench;

static double processor_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *get(size_t bytes)
{
    const size_t huge = (size_t)2 << 20, alignment = bytes >= huge ? huge : 64;
    void *memory = aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
    if (!memory) {
        fprintf(stderr, "bench_kernels: out of memory\n");
        exit(1);
    }
    if (alignment == huge)
        madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

static float *numbers(size_t n)
{
    static uint32_t state = 1;
    float *x = get(n * sizeof(float));
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) / (float)(1 << 23) - 1.0f;
    }
    return x;
}

static ls_operand activation(const bench *b, int c, int h)
{
    return (ls_operand){numbers((size_t)(b->images + 15) / 16 * 16 * (size_t)(c * h * h)), c, h, h};
}

static ls_operand vector(size_t n)
{
    return (ls_operand){numbers(n), (int)n, 1, 1};
}

/* The best time of a call. */
static double best_time(const bench *b, ls_op_call *call)
{
    double best = INFINITY, spent = 0.0;
    call->samples = &b->samples;
    call->groups = (b->images + 15) / 16;
    call->scratch = get(b->backend->scratch ? b->backend->scratch(call) : 0);
    for (int run = 0; run < 3 || spent < b->seconds; run++) {
        const double begin = processor_time();
        b->backend->kernel[call->attributes->op](call);
        const double time = processor_time() - begin;
        best = time < best ? time : best;
        spent += time;
    }
    free(call->scratch);
    for (int i = 0; i < LS_MAX_IN; i++)
        free(call->in[i].data);
    for (int i = 0; i < LS_MAX_OUT; i++)
        free(call->out[i].data);
    return best;
}

static double measure_peak(const bench *b)
{
    float (*chains)(long) = NULL;
    double lanes = 1.0, best = INFINITY;
    const char *name = b->backend->name;
#if LOCKSTEP_HAVE_AVX512
    if (!strcmp(name, "avx512"))
        chains = bench_chains_avx512, lanes = 16.0;
#endif
#if LOCKSTEP_HAVE_AVX2
    if (!strcmp(name, "avx2"))
        chains = bench_chains_avx2, lanes = 8.0;
#endif
#if LOCKSTEP_HAVE_NEON
    if (!strcmp(name, "neon"))
        chains = bench_chains_neon, lanes = 4.0;
#endif
    if (!chains)
        chains = bench_chains_plain;
    const long rounds = lanes > 1.0 ? 4000000 : 400000;
    volatile float keep = 0.0f;
    for (int run = 0; run < 9; run++) {
        const double begin = processor_time();
        keep = keep + chains(rounds);
        const double time = processor_time() - begin;
        best = time < best ? time : best;
    }
    return (double)rounds * 8.0 * 2.0 * lanes / best;
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
    if (!chosen(b, line) || (winograd && (!ls_winograd_defined(l->kernel, l->stride, l->padding) || l->c == 1)))
        return;
    const int y_h = (l->h + 2 * l->padding - l->kernel) / l->stride + 1;
    const ls_attributes a = {.op = op,
                             .kernel = l->kernel,
                             .stride = l->stride,
                             .padding = l->padding,
                             .weight_in_out = l->in_out,
                             .fused_relu = op == LS_OP_CONV};
    ls_operand x = activation(b, l->c, l->h), y = activation(b, l->o, y_h);
    ls_operand w = vector((size_t)l->o * l->c * l->kernel * l->kernel), bias = vector((size_t)l->o);
    ls_op_call call = {.attributes = &a};
    if (op == LS_OP_CONV || op == LS_OP_WINOGRAD)
        call.in[0] = x, call.in[1] = w, call.in[2] = bias, call.out[0] = y;
    else if (op == LS_OP_CONV_WEIGHT || op == LS_OP_WINOGRAD_WEIGHT)
        call.in[0] = x, call.in[1] = y, call.out[0] = w, call.in[2] = bias;
    else
        call.in[0] = y, call.in[1] = w, call.out[0] = x, call.in[2] = bias;
    const double time = best_time(b, &call);
    const double work = 2.0 * b->images * l->o * y_h * y_h * (double)l->c * l->kernel * l->kernel;
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
        return activation(b, l->c, l->h);
    case 'h':
        *bytes += map * (l->h / 2) * (l->h / 2);
        return activation(b, l->c, l->h / 2);
    case 'c':
        return activation(b, l->c, 1);
    case 'C':
        return activation(b, 2 * l->c, 1);
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
    const ls_attributes a = {.op = map_operations[k].op,
                             .kernel = 2,
                             .stride = 2,
                             .eps = 1e-5f,
                             .fused_relu = map_operations[k].relu,
                             .fused_add = map_operations[k].add};
    ls_op_call call = {.attributes = &a};
    double bytes = 0.0;
    for (int i = 0; map_operations[k].in[i]; i++)
        call.in[i] = operand(b, l, map_operations[k].in[i], &bytes);
    for (int i = 0; map_operations[k].out[i]; i++)
        call.out[i] = operand(b, l, map_operations[k].out[i], &bytes);
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
    b.samples = (ls_samples){.count = b.images};
    b.peak = measure_peak(&b);
    printf("%s, %d images, peak %.1f GFLOP/s\n", b.backend->name, b.images, b.peak / 1e9);
    for (size_t i = 0; i < sizeof convolutions / sizeof *convolutions; i++)
        for (size_t k = 0; k < sizeof directions / sizeof *directions; k++)
            run_convolution(&b, &convolutions[i], (int)k);
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        for (size_t k = 0; k < sizeof map_operations / sizeof *map_operations; k++)
            run_map(&b, &maps[i], (int)k);
    printf("peak %.1f GFLOP/s\n", measure_peak(&b) / 1e9);
    return 0;
}
