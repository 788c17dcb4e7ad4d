/* The convolutions of both networks, and calls of them on numbers of no meaning. What fails ends the program. */
#ifndef BENCH_CONVOLUTIONS_H
#define BENCH_CONVOLUTIONS_H

#include <stdbool.h>

#include "device/backend.h"

typedef struct layer {
    const char *name;
    int c, h, o, kernel, stride, padding, in_out;
} layer;

enum { CONVOLUTIONS = 16 };
extern const layer convolutions[CONVOLUTIONS];

int rows_out(const layer *l); /* and columns */
bool suits_winograd(const layer *l);

void *bench_memory(size_t bytes); /* in huge pages where it is large */
float *bench_numbers(size_t n);   /* from -1 to 1 */
ls_operand bench_vector(size_t n);
ls_operand bench_activation(int c, int h, int images);

/* A call of a backend on `images` images; its operands and scratch are freed by end_call. */
typedef struct bench_call {
    const ls_backend *backend;
    ls_attributes attributes;
    ls_samples samples;
    ls_op_call call;
} bench_call;
void begin_convolution(bench_call *b, const ls_backend *backend, const layer *l, ls_op op, int images);
void begin_call(bench_call *b, const ls_backend *backend, int images); /* attributes and operands are set */
double time_call(bench_call *b);                                       /* of one run, in processor time */
void end_call(bench_call *b);

#endif
