/* The card's own kernels, as C calls that put them into a stream. `half` chooses activations in bfloat16 over float;
 * parameters, gradients, statistics, losses and probabilities are float. Activations are
 * [image][row][column][channel]. */
#pragma once

#include <cuda_runtime_api.h>
#include <stdint.h>

#include "device/executor.h"
#include "device/view.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_cuda_shape {
    int images, c, h, w; /* of one image */
} ls_cuda_shape;

LS_EVERYWHERE size_t ls_cuda_rows(ls_cuda_shape s)
{
    return (size_t)s.images * (size_t)s.h * (size_t)s.w;
}

LS_EVERYWHERE size_t ls_cuda_numbers(ls_cuda_shape s)
{
    return ls_cuda_rows(s) * (size_t)s.c;
}

/* ---- pointwise.cu, function.cu, expand.cu, view.cu ---- */
typedef enum ls_cuda_pointwise {
    LS_CUDA_ADD,
    LS_CUDA_SUBTRACT,
    LS_CUDA_MULTIPLY,
    LS_CUDA_DIVIDE,
    LS_CUDA_SCALE, /* by `factor` */
    LS_CUDA_RELU,
    LS_CUDA_RELU_BACKWARD, /* a where b > 0 */
    LS_CUDA_TANH,
    LS_CUDA_TANH_BACKWARD, /* a the gradient, b the output */
    LS_CUDA_SIGMOID,
    LS_CUDA_SIGMOID_BACKWARD
} ls_cuda_pointwise;
/* out may be a or b; b may be NULL where it is not used. */
void ls_cuda_each(cudaStream_t stream, int half, ls_cuda_pointwise what, void *out, const void *a, const void *b,
                  size_t n, float factor);
/* y = function(x), as device/function.h defines it; with dy its gradient, where x is the operand that op.h says. */
void ls_cuda_function(cudaStream_t stream, int half, const ls_attributes *attributes, void *y, const void *dy,
                      const void *x, size_t n);
/* x, which has 1 for some of y's channels, rows and columns, repeated; `weight`: of a parameter, in C order. */
void ls_cuda_expand(cudaStream_t stream, int half, void *y, ls_cuda_shape shape, const void *x, ls_cuda_shape small,
                    int weight);
/* Its gradient: the sums over what was repeated, of a parameter over the images too. */
void ls_cuda_expand_backward(cudaStream_t stream, int half, void *dx, ls_cuda_shape small, int weight, const void *dy,
                             ls_cuda_shape shape);
/* x + bias of its channel, then relu where asked; out may be x. Of x's channels, x_c, the first are taken. */
void ls_cuda_bias(cudaStream_t stream, int half, void *out, const void *x, int x_c, const float *bias,
                  ls_cuda_shape shape, int relu);

/* The part, whose sizes are those of `whole` but along the axis, at place `at` of that. */
void ls_cuda_place(cudaStream_t stream, int half, void *whole, ls_cuda_shape shape, const void *part,
                   ls_cuda_shape small, int axis, int at);
/* y of VIEW. */
void ls_cuda_view(cudaStream_t stream, int half, void *y, ls_cuda_shape shape, const void *x, ls_cuda_shape has,
                  const ls_view_steps *steps, float border);

/* Of dropout; what the numbers are drawn from. */
typedef struct ls_cuda_drawn {
    uint64_t seed, key;
    const uint64_t *step;  /* the card's */
    const uint32_t *index; /* [images] sample numbers, the card's */
    float rate;
} ls_cuda_drawn;
void ls_cuda_dropout(cudaStream_t stream, int half, void *y, const void *x, const ls_cuda_drawn *drawn,
                     ls_cuda_shape shape);

/* ---- norm.cu ---- */
size_t ls_cuda_norm_scratch(ls_cuda_shape shape); /* bytes; of all functions here */
void ls_cuda_channel_sum(cudaStream_t stream, int half, float *out, const void *x, ls_cuda_shape shape, float *scratch);
typedef struct ls_cuda_norm {
    ls_cuda_shape shape;
    const void *x, *residual; /* residual NULL: none is added */
    const float *gamma, *beta;
    const float *shift;        /* NULL: none */
    float *saved, *statistics; /* [2c] mean and 1/sqrt(var + eps); mean and unbiased variance */
    const float *running;      /* of inference: [2c] mean and variance */
    void *y;
    int relu;
    float eps;
} ls_cuda_norm;
void ls_cuda_norm_train(cudaStream_t stream, int half, const ls_cuda_norm *norm, float *scratch);
void ls_cuda_norm_infer(cudaStream_t stream, int half, const ls_cuda_norm *norm);
typedef struct ls_cuda_norm_slope {
    ls_cuda_shape shape;
    const void *dy, *x, *y; /* y NULL: no relu was fused */
    const float *gamma, *beta,
        *saved;           /* beta NULL: y says where the relu let pass; else it is computed from x once more */
    void *dx, *dresidual; /* dresidual NULL: nothing was added */
    float *dgb;           /* [2c] */
} ls_cuda_norm_slope;
void ls_cuda_norm_backward(cudaStream_t stream, int half, const ls_cuda_norm_slope *norm, float *scratch);

/* ---- pool.cu ---- */
typedef struct ls_cuda_window {
    int kernel, stride, padding;
} ls_cuda_window;
void ls_cuda_pool(cudaStream_t stream, int half, int max, void *y, const void *x, ls_cuda_shape in, ls_cuda_shape out,
                  ls_cuda_window window);
/* x: the pool's input, for max pools, and where what is in front was a relu; else NULL. */
void ls_cuda_pool_backward(cudaStream_t stream, int half, int max, int relu, void *dx, const void *dy, const void *x,
                           ls_cuda_shape in, ls_cuda_shape out, ls_cuda_window window);
void ls_cuda_global_pool(cudaStream_t stream, int half, void *y, const void *x, ls_cuda_shape in);
void ls_cuda_global_pool_backward(cudaStream_t stream, int half, void *dx, const void *dy, ls_cuda_shape in);

/* ---- loss.cu ---- */
/* What the classes of each place are to be: a label, or as many targets. */
typedef struct ls_cuda_targets {
    size_t places; /* of all images */
    int classes;
    float smoothing;
    const int32_t *labels; /* -1: ignored */
    const float *weights;  /* [classes]; NULL: there are none */
    const void *targets;   /* NULL: the labels count */
} ls_cuda_targets;
void ls_cuda_cross_entropy(cudaStream_t stream, int half, float *loss, float *probabilities, const void *logits,
                           ls_cuda_targets targets);
void ls_cuda_cross_entropy_backward(cudaStream_t stream, int half, void *dlogits, const float *dloss,
                                    const float *probabilities, ls_cuda_targets targets);
void ls_cuda_softmax(cudaStream_t stream, int half, void *y, const void *x, int images, int classes);
void ls_cuda_softmax_backward(cudaStream_t stream, int half, void *dx, const void *dy, const void *y, int images,
                              int classes);
void ls_cuda_fill(cudaStream_t stream, float *out, const float *value, int images); /* *value is the card's */
void ls_cuda_sum_images(cudaStream_t stream, float *out, const float *x, int images);
void ls_cuda_count_correct(cudaStream_t stream, int half, float *out, const void *logits, const int32_t *labels,
                           int images, int classes);
/* One float an image: the sum of x, or of squares of a - b (b not NULL), times factor. */
void ls_cuda_sum_each(cudaStream_t stream, int half, float *y, const void *a, const void *b, ls_cuda_shape shape,
                      float factor);
/* Its gradient; b NULL: of the sum. */
void ls_cuda_sum_each_backward(cudaStream_t stream, int half, void *d, const float *dy, const void *a, const void *b,
                               ls_cuda_shape shape, float factor);

/* ---- samples.cu ---- */
/* As in ls_samples, but on the card. */
typedef struct ls_cuda_samples {
    const void *images;
    int floats;
    const uint32_t *index;
    const ls_change *changes;
} ls_cuda_samples;
void ls_cuda_images(cudaStream_t stream, int half, void *x, const ls_cuda_samples *from, ls_cuda_shape shape);
/* Between rows of floats in C order and activations. */
void ls_cuda_from_rows(cudaStream_t stream, int half, void *x, const float *rows, ls_cuda_shape shape);
void ls_cuda_to_rows(cudaStream_t stream, int half, float *rows, const void *x, ls_cuda_shape shape);
void ls_cuda_reshape(cudaStream_t stream, int half, void *to, const void *from, ls_cuda_shape is, ls_cuda_shape was);

typedef struct ls_cuda_conv {
    ls_cuda_shape x, y;
    ls_windows windows;
    int in_out; /* weights are [in][out] */
} ls_cuda_conv;

/* Taps of a window, and weights in all; an output sees the inputs of its group. */
LS_EVERYWHERE int ls_cuda_taps(const ls_cuda_conv *v)
{
    return v->windows.rows.kernel * v->windows.columns.kernel;
}
LS_EVERYWHERE size_t ls_cuda_weights(const ls_cuda_conv *v)
{
    return (size_t)v->y.c * (size_t)(v->x.c / v->windows.groups) * (size_t)ls_cuda_taps(v);
}

/* ---- weights.cu ---- */
/* Between weights as PyTorch orders them, [out][in][taps], and as cuDNN reads them, [out][taps][in], in the
 * activations' type; there are at most LS_CUDA_TILE taps. `fit` is the convolution with the channels that cuDNN sees;
 * what conv has not are zeros. */
void ls_cuda_pack(cudaStream_t stream, int half, void *packed, const float *w, const ls_cuda_conv *fit,
                  const ls_cuda_conv *conv);
void ls_cuda_unpack(cudaStream_t stream, int half, float *w, const void *packed, const ls_cuda_conv *fit,
                    const ls_cuda_conv *conv);
/* An activation in another shape: zeros in the places and channels that it had not, without those that are too many.
 * Added to `more`, which may be `to`, or NULL. */
void ls_cuda_fit(cudaStream_t stream, int half, void *to, ls_cuda_shape is, const void *from, ls_cuda_shape was,
                 const void *more);
void ls_cuda_round(cudaStream_t stream, void *half, const float *x, size_t n); /* to bfloat16 */

/* ---- direct.cu: convolutions that cuDNN has nothing for, or nothing good ---- */
/* bias NULL: none. */
void ls_cuda_direct(cudaStream_t stream, int half, void *y, const void *x, const float *w, const float *bias, int relu,
                    const ls_cuda_conv *conv);
/* Added to `more`, which may be dx, or NULL. */
void ls_cuda_direct_data(cudaStream_t stream, int half, void *dx, const void *dy, const float *w, const void *more,
                         const ls_cuda_conv *conv);
size_t ls_cuda_direct_scratch(const ls_cuda_conv *conv); /* bytes, of the next */
void ls_cuda_direct_weight(cudaStream_t stream, int half, float *dw, const void *x, const void *dy,
                           const ls_cuda_conv *conv, float *scratch);

/* ---- flat.cu ---- */
void ls_cuda_sum(cudaStream_t stream, const ls_terms *terms, float *out, size_t n);
/* Sums of the squares of LS_SQUARED floats each, see ls_executor_type; all of the card's. */
void ls_cuda_square(cudaStream_t stream, const float *x, size_t n, double *sums);
/* *broken, the card's, becomes 1 where a new number is not finite. */
void ls_cuda_update(cudaStream_t stream, const ls_terms *terms, float *out, const float *w, float *moments, size_t n,
                    const ls_update *how, int *broken);

#ifdef __cplusplus
}
#endif
