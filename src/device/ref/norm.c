/* BatchNorm. */
#include "device/function.h"
#include "device/norm_sums.h"
#include "device/ref/ref.h"

/* The operands of one channel's sums. */
typedef struct channel_sums {
    const float *x, *dy, *y; /* y is NULL unless a relu was fused */
    float mean;
    const ls_attributes *clamp; /* NULL unless one was fused; z = fma(x - mean, scale, beta) */
    float scale, beta;
} channel_sums;

static ls_ref_product number(const void *what, size_t at)
{
    const channel_sums *of = what;
    return (ls_ref_product){of->x[at], 1};
}

static ls_ref_product square(const void *what, size_t at)
{
    const channel_sums *of = what;
    float d = of->x[at] - of->mean;
    return (ls_ref_product){d, d};
}

/* The gradient behind the fused relu or clamp. */
static float slope(const channel_sums *of, size_t at)
{
    if (of->clamp)
        return ls_function_backward(LS_OP_CLAMP_BACKWARD, of->dy[at], fmaf(of->x[at] - of->mean, of->scale, of->beta),
                                    ls_function_how_of(of->clamp));
    return !of->y || of->y[at] > 0 ? of->dy[at] : 0;
}

static ls_ref_product gradient(const void *what, size_t at)
{
    return (ls_ref_product){slope(what, at), 1};
}

static ls_ref_product correlation(const void *what, size_t at)
{
    const channel_sums *of = what;
    return (ls_ref_product){slope(of, at), of->x[at] - of->mean};
}

static float images_and_places(const ls_op_call *call, const ls_operand *x)
{
    return (float)((size_t)call->samples->count * x->h * x->w);
}

/* y of one channel. in: x, gamma, beta, residual. */
static void normalize(const ls_op_call *call, int channel, float mean, float inv)
{
    const ls_attributes *how = call->attributes;
    const ls_operand *x = &call->in[0];
    float gamma = call->in[1].data[channel], beta = call->in[2].data[channel];
    for (int group = 0; group < call->groups; group++) {
        size_t begin = ls_ref_offset(x, group, channel, 0, 0), end = ls_ref_offset(x, group, channel + 1, 0, 0);
        for (size_t at = begin; at < end; at++) {
            float y = fmaf(x->data[at] - mean, gamma * inv, beta);
            y = how->fused_add ? y + call->in[3].data[at] : y;
            y = how->fused_clamp ? ls_function(LS_OP_CLAMP, y, ls_function_how_of(how)) : y;
            call->out[0].data[at] = how->fused_relu ? ls_ref_relu_of(y) : y;
        }
    }
}

/* S and Q of one channel. */
typedef struct moments {
    float sum, squares;
} moments;

static moments moments_of(const ls_op_call *call, int channel, float n)
{
    const ls_operand *x = &call->in[0];
    channel_sums of = {.x = x->data};
    moments made = {.sum = ls_ref_plane_sum(call, x, channel, number, &of)};
    of.mean = made.sum / n;
    made.squares = ls_ref_plane_sum(call, x, channel, square, &of);
    return made;
}

/* y, saved and statistics of one channel, from sums over n numbers. */
static void apply(const ls_op_call *call, int channel, moments of, float n)
{
    const int channels = call->in[0].c;
    const float mean = of.sum / n, inv = 1 / sqrtf(of.squares / n + call->attributes->eps);
    float *saved = call->out[1].data, *statistics = call->out[2].data;
    const float *shift = call->in[5].data;
    saved[channel] = mean;
    statistics[channel] = shift ? mean + shift[channel] : mean;
    saved[channels + channel] = inv;
    statistics[channels + channel] = of.squares / (n - 1);
    normalize(call, channel, mean, inv);
}

void ls_ref_batch_norm(const ls_op_call *call)
{
    const float n = images_and_places(call, &call->in[0]);
    for (int channel = 0; channel < call->in[0].c; channel++)
        apply(call, channel, moments_of(call, channel, n), n);
}

static void begin_sums(const ls_op_call *call, const ls_operand *x, float *sums)
{
    sums[LS_NORM_IMAGES] = (float)call->samples->count;
    sums[LS_NORM_PLACES] = (float)(x->h * x->w);
}

void ls_ref_norm_sums(const ls_op_call *call)
{
    const ls_operand *x = &call->in[0];
    const float n = images_and_places(call, x);
    float *sums = call->out[0].data;
    begin_sums(call, x, sums);
    for (int channel = 0; channel < x->c; channel++) {
        const moments of = moments_of(call, channel, n);
        sums[LS_NORM_FIRST + channel] = of.sum;
        sums[LS_NORM_FIRST + x->c + channel] = of.squares;
    }
}

void ls_ref_norm_apply(const ls_op_call *call)
{
    const int channels = call->in[0].c;
    const float *totals = call->in[4].data, n = ls_norm_numbers(totals);
    for (int channel = 0; channel < channels; channel++) {
        const moments of = {totals[LS_NORM_FIRST + channel], totals[LS_NORM_FIRST + channels + channel]};
        apply(call, channel, of, n);
    }
}

void ls_ref_batch_norm_infer(const ls_op_call *call)
{
    const ls_operand *x = &call->in[0];
    const float *running = call->in[4].data, *shift = call->in[5].data;
    for (int channel = 0; channel < x->c; channel++) {
        float inv = 1 / sqrtf(running[x->c + channel] + call->attributes->eps);
        normalize(call, channel, shift ? running[channel] - shift[channel] : running[channel], inv);
    }
}

/* dx, and where there is room for it dresidual, of one channel; n: of all numbers that dgamma and dbeta are over. */
static void differentiate(const ls_op_call *call, const channel_sums *of, int channel, const float *saved, float dgamma,
                          float dbeta, float n, float *residual)
{
    const ls_operand *dx = &call->out[0];
    const float inv = saved[dx->c + channel], scale = call->in[2].data[channel] * inv;
    const float k1 = dbeta / n, k2 = inv * (dgamma / n);
    for (int group = 0; group < call->groups; group++) {
        size_t begin = ls_ref_offset(dx, group, channel, 0, 0), end = ls_ref_offset(dx, group, channel + 1, 0, 0);
        int lanes = ls_ref_lanes(call, group);
        for (size_t at = begin; at < end; at++) {
            float d = slope(of, at);
            int image = (int)(at % LS_LANES) < lanes;
            dx->data[at] = image ? scale * fmaf(of->mean - of->x[at], k2, d - k1) : 0;
            if (residual)
                residual[at] = d;
        }
    }
}

/* dgamma and dbeta of one channel. */
static void sum_slopes(const ls_op_call *call, const channel_sums *of, int channel, const float *saved, float *dgamma,
                       float *dbeta)
{
    const ls_operand *x = &call->in[1];
    *dbeta = ls_ref_plane_sum(call, x, channel, gradient, of);
    *dgamma = ls_ref_plane_sum(call, x, channel, correlation, of) * saved[x->c + channel];
}

void ls_ref_batch_norm_backward(const ls_op_call *call)
{
    const ls_operand *x = &call->in[1];
    const float *saved = call->in[3].data, n = images_and_places(call, x);
    float *dgb = call->out[1].data;
    for (int channel = 0; channel < x->c; channel++) {
        channel_sums of = {.x = x->data, .dy = call->in[0].data, .mean = saved[channel]};
        of.y = call->attributes->fused_relu ? call->in[4].data : NULL;
        if (call->attributes->fused_clamp) {
            of.clamp = call->attributes;
            of.scale = call->in[2].data[channel] * saved[x->c + channel];
            of.beta = call->in[5].data[channel];
        }
        float dgamma, dbeta;
        sum_slopes(call, &of, channel, saved, &dgamma, &dbeta);
        differentiate(call, &of, channel, saved, dgamma, dbeta, n,
                      call->attributes->fused_add ? call->out[2].data : NULL);
        dgb[channel] = dgamma;
        dgb[x->c + channel] = dbeta;
    }
}

void ls_ref_norm_slopes(const ls_op_call *call)
{
    const ls_operand *x = &call->in[1];
    const float *saved = call->in[2].data;
    float *sums = call->out[0].data, *dgb = call->out[1].data;
    begin_sums(call, x, sums);
    for (int channel = 0; channel < x->c; channel++) {
        channel_sums of = {.x = x->data, .dy = call->in[0].data, .mean = saved[channel]};
        of.y = call->attributes->fused_relu ? call->in[3].data : NULL;
        sum_slopes(call, &of, channel, saved, &dgb[channel], &dgb[x->c + channel]);
        sums[LS_NORM_FIRST + channel] = dgb[channel];
        sums[LS_NORM_FIRST + x->c + channel] = dgb[x->c + channel];
    }
}

void ls_ref_norm_data(const ls_op_call *call)
{
    const ls_operand *x = &call->in[1];
    const float *saved = call->in[3].data, *totals = call->in[5].data, n = ls_norm_numbers(totals);
    for (int channel = 0; channel < x->c; channel++) {
        channel_sums of = {.x = x->data, .dy = call->in[0].data, .mean = saved[channel]};
        of.y = call->attributes->fused_relu ? call->in[4].data : NULL;
        differentiate(call, &of, channel, saved, totals[LS_NORM_FIRST + channel],
                      totals[LS_NORM_FIRST + x->c + channel], n,
                      call->attributes->fused_add ? call->out[1].data : NULL);
    }
}

void ls_ref_batch_norm_frozen_backward(const ls_op_call *call)
{
    const ls_operand *x = &call->in[1], *dx = &call->out[0];
    const float *gamma = call->in[2].data, *running = call->in[3].data;
    float *dgb = call->out[1].data;
    for (int channel = 0; channel < x->c; channel++) {
        channel_sums of = {.x = x->data, .dy = call->in[0].data, .mean = running[channel]};
        float inv = 1 / sqrtf(running[x->c + channel] + call->attributes->eps), scale = gamma[channel] * inv;
        dgb[channel] = ls_ref_plane_sum(call, x, channel, correlation, &of) * inv;
        dgb[x->c + channel] = ls_ref_plane_sum(call, x, channel, gradient, &of);
        for (int group = 0; group < call->groups; group++) {
            size_t begin = ls_ref_offset(dx, group, channel, 0, 0), end = ls_ref_offset(dx, group, channel + 1, 0, 0);
            for (size_t at = begin; at < end; at++)
                dx->data[at] = (int)(at % LS_LANES) < ls_ref_lanes(call, group) ? scale * of.dy[at] : 0;
        }
    }
}
