#include "convolutions.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/timer.h"
#include "device/winograd.h"

const layer convolutions[CONVOLUTIONS] = {
    {"lenet conv1", 1, 28, 20, 3, 1, 0, 0},           {"lenet conv2", 20, 12, 50, 5, 1, 0, 0},
    {"lenet fc1", 800, 1, 128, 1, 1, 0, 1},           {"lenet fc2", 128, 1, 10, 1, 1, 0, 1},
    {"resnet stem", 1, 28, 64, 3, 1, 1, 0},           {"resnet 64", 64, 28, 64, 3, 1, 1, 0},
    {"resnet 64-128 s2", 64, 28, 128, 3, 2, 1, 0},    {"resnet 64-128 1x1", 64, 28, 128, 1, 2, 0, 0},
    {"resnet 128", 128, 14, 128, 3, 1, 1, 0},         {"resnet 128-256 s2", 128, 14, 256, 3, 2, 1, 0},
    {"resnet 128-256 1x1", 128, 14, 256, 1, 2, 0, 0}, {"resnet 256", 256, 7, 256, 3, 1, 1, 0},
    {"resnet 256-512 s2", 256, 7, 512, 3, 2, 1, 0},   {"resnet 256-512 1x1", 256, 7, 512, 1, 2, 0, 0},
    {"resnet 512", 512, 4, 512, 3, 1, 1, 0},          {"resnet fc", 512, 1, 10, 1, 1, 0, 0},
};

int rows_out(const layer *l)
{
    return (l->h + 2 * l->padding - l->kernel) / l->stride + 1;
}

bool suits_winograd(const layer *l)
{
    return ls_winograd_defined(l->kernel, l->stride, l->padding) && l->c > 1;
}

void *bench_memory(size_t bytes)
{
    const size_t huge = (size_t)2 << 20, alignment = bytes >= huge ? huge : 64;
    void *memory = aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
    if (!memory) {
        fprintf(stderr, "bench: out of memory\n");
        exit(1);
    }
    if (alignment == huge)
        madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

float *bench_numbers(size_t n)
{
    static uint32_t state = 1;
    float *x = bench_memory(n * sizeof(float));
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) / (float)(1 << 23) - 1.0f;
    }
    return x;
}

ls_operand bench_vector(size_t n)
{
    return (ls_operand){bench_numbers(n), (int)n, 1, 1};
}

ls_operand bench_activation(int c, int h, int images)
{
    return (ls_operand){bench_numbers((size_t)(images + 15) / 16 * 16 * (size_t)(c * h * h)), c, h, h};
}

void begin_convolution(bench_call *b, const ls_backend *backend, const layer *l, ls_op op, int images)
{
    *b = (bench_call){.attributes = {.op = op,
                                     .kernel = l->kernel,
                                     .stride = l->stride,
                                     .padding = l->padding,
                                     .weight_in_out = l->in_out,
                                     .fused_relu = op == LS_OP_CONV}};
    ls_op_call *call = &b->call;
    ls_operand x = bench_activation(l->c, l->h, images), y = bench_activation(l->o, rows_out(l), images);
    ls_operand w = bench_vector((size_t)l->o * l->c * l->kernel * l->kernel), bias = bench_vector((size_t)l->o);
    if (op == LS_OP_CONV || op == LS_OP_WINOGRAD)
        call->in[0] = x, call->in[1] = w, call->in[2] = bias, call->out[0] = y;
    else if (op == LS_OP_CONV_WEIGHT || op == LS_OP_WINOGRAD_WEIGHT)
        call->in[0] = x, call->in[1] = y, call->out[0] = w, call->in[2] = bias;
    else
        call->in[0] = y, call->in[1] = w, call->out[0] = x, call->in[2] = bias;
    begin_call(b, backend, images);
}

void begin_call(bench_call *b, const ls_backend *backend, int images)
{
    b->backend = backend;
    b->samples = (ls_samples){.count = images};
    b->call.attributes = &b->attributes;
    b->call.samples = &b->samples;
    b->call.groups = (images + 15) / 16;
    b->call.scratch = bench_memory(backend->scratch ? backend->scratch(&b->call) : 0);
}

double time_call(bench_call *b)
{
    const double begin = ls_thread_seconds();
    b->backend->kernel[b->attributes.op](&b->call);
    return ls_thread_seconds() - begin;
}

void end_call(bench_call *b)
{
    free(b->call.scratch);
    for (int i = 0; i < LS_MAX_IN; i++)
        free(b->call.in[i].data);
    for (int i = 0; i < LS_MAX_OUT; i++)
        free(b->call.out[i].data);
}
