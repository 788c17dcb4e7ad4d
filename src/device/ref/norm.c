/* BatchNorm. */
#include "device/ref/ref.h"

/* The operands of one channel's sums. */
typedef struct channel_sums {
    const float *x, *dy, *y; /* y is NULL unless a relu was fused */
    float mean;
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

/* The gradient behind the fused relu. */
static float slope(const channel_sums *of, size_t at)
{
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
            call->out[0].data[at] = how->fused_relu ? ls_ref_relu_of(y) : y;
        }
    }
}

void ls_ref_batch_norm(const ls_op_call *call)
{
    const ls_operand *x = &call->in[0];
    float n = images_and_places(call, x);
    float *saved = call->out[1].data, *statistics = call->out[2].data;
    const float *shift = call->in[5].data;
    for (int channel = 0; channel < x->c; channel++) {
        channel_sums of = {.x = x->data};
        of.mean = ls_ref_plane_sum(call, x, channel, number, &of) / n;
        float squares = ls_ref_plane_sum(call, x, channel, square, &of);
        float inv = 1 / sqrtf(squares / n + call->attributes->eps);
        saved[channel] = of.mean;
        statistics[channel] = shift ? of.mean + shift[channel] : of.mean;
        saved[x->c + channel] = inv;
        statistics[x->c + channel] = squares / (n - 1);
        normalize(call, channel, of.mean, inv);
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

/* dx (and dresidual) of one channel. */
static void differentiate(const ls_op_call *call, const channel_sums *of, int channel, float scale, float k1, float k2)
{
    const ls_operand *dx = &call->out[0];
    float *residual = call->attributes->fused_add ? call->out[2].data : NULL;
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

void ls_ref_batch_norm_backward(const ls_op_call *call)
{
    const ls_operand *x = &call->in[1];
    const float *gamma = call->in[2].data, *saved = call->in[3].data;
    float n = images_and_places(call, x), *dgb = call->out[1].data;
    for (int channel = 0; channel < x->c; channel++) {
        channel_sums of = {.x = x->data, .dy = call->in[0].data, .mean = saved[channel]};
        of.y = call->attributes->fused_relu ? call->in[4].data : NULL;
        float inv = saved[x->c + channel];
        float dbeta = ls_ref_plane_sum(call, x, channel, gradient, &of);
        float dgamma = ls_ref_plane_sum(call, x, channel, correlation, &of) * inv;
        differentiate(call, &of, channel, gamma[channel] * inv, dbeta / n, inv * (dgamma / n));
        dgb[channel] = dgamma;
        dgb[x->c + channel] = dbeta;
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
