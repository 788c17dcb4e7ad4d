/* Operations over all numbers of an image: softmax, sums and squared errors. */
#include "base/math.h"
#include "device/ref/ref.h"

/* Number 0 of one image; its numbers lie LS_LANES apart. NULL of an absent operand. */
static float *image_of(const ls_operand *t, int group, int lane)
{
    return t->data ? t->data + group * ls_ref_places(t) * LS_LANES + lane : NULL;
}

void ls_ref_softmax(const float *x, int features, size_t step, float *y, float *m, float *s)
{
    *m = x[0];
    for (int c = 1; c < features; c++)
        *m = x[c * step] > *m ? x[c * step] : *m;
    for (int c = 0; c < features; c++) {
        y[c * step] = ls_expf(x[c * step] - *m);
        *s = c == 0 ? y[0] : *s + y[c * step];
    }
    for (int c = 0; c < features; c++)
        y[c * step] /= *s;
}

static void softmax(const ls_op_call *call, const float *const in[3], float *y)
{
    float m, s;
    ls_ref_softmax(in[0], call->in[0].c, LS_LANES, y, &m, &s);
}

static void softmax_backward(const ls_op_call *call, const float *const in[3], float *dx)
{
    const float *dy = in[0], *y = in[1];
    int features = call->in[0].c;
    float s = 0;
    for (int c = 0; c < features; c++)
        s = fmaf(dy[c * LS_LANES], y[c * LS_LANES], s);
    for (int c = 0; c < features; c++)
        dx[c * LS_LANES] = y[c * LS_LANES] * (dy[c * LS_LANES] - s);
}

/* The sum of SUM where b is NULL, else that of SQUARED_ERROR. */
static float total_of(const ls_operand *shape, const float *a, const float *b)
{
    float total = 0;
    size_t at = 0;
    for (int channel = 0; channel < shape->c; channel++) {
        float t = 0;
        for (int row = 0; row < shape->h; row++) {
            float r = 0;
            for (int column = 0; column < shape->w; column++, at += LS_LANES) {
                float d = b ? a[at] - b[at] : 0;
                r = b ? fmaf(d, d, r) : r + a[at];
            }
            t += r;
        }
        total += t;
    }
    return total;
}

static void sum(const ls_op_call *call, const float *const in[3], float *y)
{
    *y = total_of(&call->in[0], in[0], NULL) * call->attributes->factor;
}

static void sum_backward(const ls_op_call *call, const float *const in[3], float *dx)
{
    for (size_t i = 0; i < ls_ref_places(&call->out[0]); i++)
        dx[i * LS_LANES] = *in[0] * call->attributes->factor;
}

static void squared_error(const ls_op_call *call, const float *const in[3], float *y)
{
    *y = total_of(&call->in[0], in[0], in[1]) * call->attributes->factor;
}

static void squared_error_backward(const ls_op_call *call, const float *const in[3], float *da)
{
    const float *a = in[1], *b = in[2];
    for (size_t i = 0; i < ls_ref_places(&call->out[0]) * LS_LANES; i += LS_LANES)
        da[i] = (a[i] - b[i]) * (2 * call->attributes->factor) * *in[0];
}

/* What is made of one image, whose numbers in the operands these are. */
typedef void one_image(const ls_op_call *call, const float *const in[3], float *out);

/* Clears the output of lanes without an image. */
void ls_ref_each_image(const ls_op_call *call)
{
    static one_image *const kernels[LS_OP_COUNT] = {
        [LS_OP_SOFTMAX] = softmax,
        [LS_OP_SOFTMAX_BACKWARD] = softmax_backward,
        [LS_OP_SUM] = sum,
        [LS_OP_SUM_BACKWARD] = sum_backward,
        [LS_OP_SQUARED_ERROR] = squared_error,
        [LS_OP_SQUARED_ERROR_BACKWARD] = squared_error_backward,
    };
    one_image *kernel = kernels[call->attributes->op];
    for (int group = 0; group < call->groups; group++) {
        int lanes = ls_ref_lanes(call, group);
        for (int lane = 0; lane < LS_LANES; lane++) {
            const float *in[3];
            for (int k = 0; k < 3; k++)
                in[k] = image_of(&call->in[k], group, lane);
            float *out = image_of(&call->out[0], group, lane);
            if (lane < lanes) {
                kernel(call, in, out);
                continue;
            }
            for (size_t i = 0; i < ls_ref_places(&call->out[0]); i++)
                out[i * LS_LANES] = 0;
        }
    }
}
