/* BatchNorm and the other sums over channels' planes. All passes over a channel run while its planes are in the cache.
 */
#include <math.h>
#include "device/cpu/lanes/cut.h"
#include "device/cpu/lanes/plane.h"
#include "device/norm_sums.h"

static plane plane_of(const ls_op_call *call, const ls_operand *x)
{
    return (plane){.x = x->data,
                   .channels = x->c,
                   .rows = x->h,
                   .columns = x->w,
                   .groups = call->groups,
                   .images = call->samples->count};
}

static float images_and_places(const ls_op_call *call, const ls_operand *x)
{
    return (float)((size_t)call->samples->count * (size_t)x->h * (size_t)x->w);
}

/* Large results do, but where they lie over an operand: its lines are in the caches. */
static int goes_past_caches(const ls_op_call *call)
{
    int over = 0;
    for (int k = 0; k < LS_MAX_IN; k++)
        over |= call->out[0].data == call->in[k].data;
    return !over && lanes_many(&call->out[0], call->groups);
}

/* What is behind a BatchNorm. */
enum behind { NOTHING, RELU, CLAMP };

LS_INLINE void normalize_plane(const int add, const int behind, const float *x, const float *residual, float *y,
                               ptrdiff_t numbers, vf mean, vf scale, vf beta, const ls_attributes *how, int many)
{
    const vf low = vf_set(how->low), high = vf_set(how->high);
    for (ptrdiff_t i = 0; i < numbers; i += LS_VL) {
        vf a = vf_fma(vf_load(x + i) - mean, scale, beta);
        if (add)
            a += vf_load(residual + i);
        if (behind == RELU)
            a = vf_relu(a);
        if (behind == CLAMP)
            a = vf_select(vm_greater(low, a), low, vf_select(vm_greater(a, high), high, a));
        vf_put(y + i, a, many);
    }
}

static void normalize(const ls_op_call *call, int channel, float mean, float inv)
{
    const ls_attributes *a = call->attributes;
    const ls_operand *x = &call->in[0];
    const float gamma = call->in[1].data[channel] * inv;
    const vf m = vf_set(mean), scale = vf_set(gamma), beta = vf_set(call->in[2].data[channel]);
    const ptrdiff_t numbers = (ptrdiff_t)x->h * x->w * LS_LANES;
    const int many = goes_past_caches(call);
    for (int group = 0; group < call->groups; group++) {
        const ptrdiff_t at = ((ptrdiff_t)group * x->c + channel) * numbers;
        const float *from = x->data + at, *residual = a->fused_add ? call->in[3].data + at : NULL;
        float *to = call->out[0].data + at;
        if (a->fused_add && a->fused_relu)
            normalize_plane(1, RELU, from, residual, to, numbers, m, scale, beta, a, many);
        else if (a->fused_add)
            normalize_plane(1, NOTHING, from, residual, to, numbers, m, scale, beta, a, many);
        else if (a->fused_relu)
            normalize_plane(0, RELU, from, residual, to, numbers, m, scale, beta, a, many);
        else if (a->fused_clamp)
            normalize_plane(0, CLAMP, from, residual, to, numbers, m, scale, beta, a, many);
        else
            normalize_plane(0, NOTHING, from, residual, to, numbers, m, scale, beta, a, many);
    }
}

/* S and Q of one channel. */
typedef struct moments {
    float sum, squares;
} moments;

static moments moments_of(const plane *p, int channel, float n)
{
    float first[2], second[2];
    plane_sum(PLANE_SUM, p, channel, 0.0f, first);
    plane_sum(PLANE_SQUARES, p, channel, first[0] / n, second);
    return (moments){first[0], second[0]};
}

/* y, saved and statistics of one channel, from sums over n numbers. */
static void apply(const ls_op_call *call, int channel, moments of, float n)
{
    const int channels = call->in[0].c;
    float *saved = call->out[1].data, *statistics = call->out[2].data;
    const float *shift = call->in[5].data;
    const float mean = of.sum / n, inv = 1.0f / sqrtf(of.squares / n + call->attributes->eps);
    saved[channel] = mean;
    statistics[channel] = shift ? mean + shift[channel] : mean;
    saved[channels + channel] = inv;
    statistics[channels + channel] = of.squares / (n - 1.0f);
    normalize(call, channel, mean, inv);
}

static void batch_norm(const ls_op_call *call)
{
    const ls_operand *x = &call->in[0];
    const plane p = plane_of(call, x);
    const float n = images_and_places(call, x);
    const range mine = range_of(call, x->c);
    for (int c = mine.from; c < mine.to; c++)
        apply(call, c, moments_of(&p, c, n), n);
    lanes_streamed();
}

/* By the first part of a call. */
static void begin_sums(const ls_op_call *call, const ls_operand *x, float *sums)
{
    if (call->part != 0)
        return;
    sums[LS_NORM_IMAGES] = (float)call->samples->count;
    sums[LS_NORM_PLACES] = (float)(x->h * x->w);
}

static void norm_sums(const ls_op_call *call)
{
    const ls_operand *x = &call->in[0];
    const plane p = plane_of(call, x);
    const float n = images_and_places(call, x);
    const range mine = range_of(call, x->c);
    float *sums = call->out[0].data;
    begin_sums(call, x, sums);
    for (int c = mine.from; c < mine.to; c++) {
        const moments of = moments_of(&p, c, n);
        sums[LS_NORM_FIRST + c] = of.sum;
        sums[LS_NORM_FIRST + x->c + c] = of.squares;
    }
}

static void norm_apply(const ls_op_call *call)
{
    const int channels = call->in[0].c;
    const float *totals = call->in[4].data, n = ls_norm_numbers(totals);
    const range mine = range_of(call, channels);
    for (int c = mine.from; c < mine.to; c++)
        apply(call, c, (moments){totals[LS_NORM_FIRST + c], totals[LS_NORM_FIRST + channels + c]}, n);
    lanes_streamed();
}

static void batch_norm_infer(const ls_op_call *call)
{
    const int channels = call->in[0].c;
    const float *running = call->in[4].data, *shift = call->in[5].data;
    const range mine = range_of(call, channels);
    for (int c = mine.from; c < mine.to; c++)
        normalize(call, c, shift ? running[c] - shift[c] : running[c],
                  1.0f / sqrtf(running[channels + c] + call->attributes->eps));
    lanes_streamed();
}

/* A group's dx (and dresidual) of one channel. */
typedef struct slope {
    const float *x, *dy, *y;
    float *dx, *residual;
    ptrdiff_t numbers;
    int lanes, many;
    float mean, scale, k1, k2;
    norm_clamp clamp;
} slope;

LS_INLINE void differentiate_plane(const int behind, const int add, const slope *s)
{
    const vf mean = vf_set(s->mean), scale = vf_set(s->scale), k1 = vf_set(s->k1), k2 = vf_set(s->k2);
    for (ptrdiff_t i = 0; i < s->numbers; i += LS_LANES)
        LS_UNROLL
    for (int v = 0; v < LS_NV; v++) {
        const ptrdiff_t at = i + v * LS_VL;
        vf d = vf_load(s->dy + at);
        if (behind == RELU)
            d = vf_keep(vm_greater(vf_load(s->y + at), vf_zero()), d);
        if (behind == CLAMP)
            d = clamped_slope(d, vf_load(s->x + at), mean, &s->clamp);
        const vf dx = scale * vf_fma(mean - vf_load(s->x + at), k2, d - k1);
        if (add)
            vf_put(s->residual + at, d, s->many);
        vf_put(s->dx + at, vf_keep(vm_first(s->lanes - v * LS_VL), dx), s->many);
    }
}

/* Of one channel, whose mean and sums `s` knows. `residual`: all of dresidual, NULL where it is not wanted. */
static void differentiate(const ls_op_call *call, int channel, slope s, float *residual)
{
    const ls_attributes *a = call->attributes;
    const ls_operand *x = &call->in[1];
    s.numbers = (ptrdiff_t)x->h * x->w * LS_LANES;
    s.many = goes_past_caches(call);
    for (int group = 0; group < call->groups; group++) {
        const ptrdiff_t at = ((ptrdiff_t)group * x->c + channel) * s.numbers;
        s.x = x->data + at;
        s.dy = call->in[0].data + at;
        s.y = a->fused_relu ? call->in[4].data + at : NULL;
        s.dx = call->out[0].data + at;
        s.residual = residual ? residual + at : NULL;
        s.lanes = lanes_of_group(call->samples->count, group);
        if (a->fused_relu && residual)
            differentiate_plane(RELU, 1, &s);
        else if (a->fused_relu)
            differentiate_plane(RELU, 0, &s);
        else if (a->fused_clamp)
            differentiate_plane(CLAMP, 0, &s);
        else if (residual)
            differentiate_plane(NOTHING, 1, &s);
        else
            differentiate_plane(NOTHING, 0, &s);
    }
}

/* n: of all numbers that dgamma and dbeta are over. */
static slope slope_of(const ls_op_call *call, int channel, const float *saved, float dgamma, float dbeta, float n)
{
    const float inv = saved[call->in[1].c + channel];
    return (slope){
        .mean = saved[channel], .scale = call->in[2].data[channel] * inv, .k1 = dbeta / n, .k2 = inv * (dgamma / n)};
}

/* dgamma, then dbeta, of one channel. */
static void sum_slopes(const ls_attributes *how, const plane *p, int channel, const float *saved, float dgb[2])
{
    float sum[2];
    if (how->fused_relu)
        plane_sum(PLANE_GRADIENT_RELU, p, channel, saved[channel], sum);
    else if (how->fused_clamp)
        plane_sum(PLANE_GRADIENT_CLAMP, p, channel, saved[channel], sum);
    else
        plane_sum(PLANE_GRADIENT, p, channel, saved[channel], sum);
    dgb[0] = sum[1] * saved[p->channels + channel];
    dgb[1] = sum[0];
}

static void batch_norm_backward(const ls_op_call *call)
{
    const ls_operand *x = &call->in[1];
    const float *saved = call->in[3].data, n = images_and_places(call, x);
    const ls_attributes *how = call->attributes;
    float *residual = how->fused_add ? call->out[2].data : NULL;
    plane p = plane_of(call, x);
    p.dy = call->in[0].data;
    p.y = how->fused_relu ? call->in[4].data : NULL;
    const range mine = range_of(call, x->c);
    for (int c = mine.from; c < mine.to; c++) {
        float dgb[2];
        if (how->fused_clamp)
            p.clamp = (norm_clamp){.scale = call->in[2].data[c] * saved[x->c + c],
                                   .beta = call->in[5].data[c],
                                   .low = how->low,
                                   .high = how->high};
        sum_slopes(how, &p, c, saved, dgb);
        slope s = slope_of(call, c, saved, dgb[0], dgb[1], n);
        s.clamp = p.clamp;
        differentiate(call, c, s, residual);
        call->out[1].data[c] = dgb[0];
        call->out[1].data[x->c + c] = dgb[1];
    }
    lanes_streamed();
}

static void norm_slopes(const ls_op_call *call)
{
    const ls_operand *x = &call->in[1];
    const float *saved = call->in[2].data;
    float *sums = call->out[0].data, *both = call->out[1].data;
    plane p = plane_of(call, x);
    p.dy = call->in[0].data;
    p.y = call->attributes->fused_relu ? call->in[3].data : NULL;
    const range mine = range_of(call, x->c);
    begin_sums(call, x, sums);
    for (int c = mine.from; c < mine.to; c++) {
        float dgb[2];
        sum_slopes(call->attributes, &p, c, saved, dgb);
        both[c] = sums[LS_NORM_FIRST + c] = dgb[0];
        both[x->c + c] = sums[LS_NORM_FIRST + x->c + c] = dgb[1];
    }
}

static void norm_data(const ls_op_call *call)
{
    const ls_operand *x = &call->in[1];
    const float *saved = call->in[3].data, *totals = call->in[5].data, n = ls_norm_numbers(totals);
    float *residual = call->attributes->fused_add ? call->out[1].data : NULL;
    const range mine = range_of(call, x->c);
    for (int c = mine.from; c < mine.to; c++)
        differentiate(call, c, slope_of(call, c, saved, totals[LS_NORM_FIRST + c], totals[LS_NORM_FIRST + x->c + c], n),
                      residual);
    lanes_streamed();
}

/* A group's dx of one channel whose statistics are constants. */
LS_INLINE void scale_plane(const float *dy, float *dx, ptrdiff_t numbers, int lanes, float by)
{
    const vf scale = vf_set(by);
    for (ptrdiff_t i = 0; i < numbers; i += LS_LANES)
        for (int v = 0; v < LS_LANES; v += LS_VL)
            vf_store(dx + i + v, vf_keep(vm_first(lanes - v), scale * vf_load(dy + i + v)));
}

static void batch_norm_frozen_backward(const ls_op_call *call)
{
    const ls_operand *x = &call->in[1];
    const float *gamma = call->in[2].data, *running = call->in[3].data;
    plane p = plane_of(call, x);
    p.dy = call->in[0].data;
    const range mine = range_of(call, x->c);
    for (int c = mine.from; c < mine.to; c++) {
        const float inv = 1.0f / sqrtf(running[x->c + c] + call->attributes->eps);
        const ptrdiff_t numbers = (ptrdiff_t)x->h * x->w * LS_LANES;
        float sum[2];
        plane_sum(PLANE_GRADIENT, &p, c, running[c], sum);
        call->out[1].data[c] = sum[1] * inv;
        call->out[1].data[x->c + c] = sum[0];
        for (int group = 0; group < call->groups; group++) {
            const ptrdiff_t at = ((ptrdiff_t)group * x->c + c) * numbers;
            scale_plane(p.dy + at, call->out[0].data + at, numbers, lanes_of_group(call->samples->count, group),
                        gamma[c] * inv);
        }
    }
}

enum { CHANNELS = 64 }; /* whose totals are made at once: what a group has of them lies in one piece */

/* The sums of maps of one place, from a channel on: of tokens there are many groups, so each group is read in a row. */
static void sum_places(const plane *p, int channel, int channels, float *sums)
{
    const ptrdiff_t ahead = (ptrdiff_t)p->channels * LS_LANES;
    float total[CHANNELS][LS_LANES] = {{0.0f}};
    for (int group = 0; group < p->groups; group++) {
        const float *x = p->x + ((ptrdiff_t)group * p->channels + channel) * LS_LANES;
        const int lanes = lanes_of_group(p->images, group);
        for (int c = 0; c < channels; c++, x += LS_LANES) {
            __builtin_prefetch(x + ahead);
            LS_UNROLL
            for (int v = 0; v < LS_LANES; v += LS_VL)
                vf_store(total[c] + v, vf_load(total[c] + v) + vf_keep(vm_first(lanes - v), vf_load(x + v)));
        }
    }
    for (int c = 0; c < channels; c++)
        sums[c] = lanes_sum(total[c]);
}

static void channel_sum(const ls_op_call *call)
{
    const plane p = plane_of(call, &call->in[0]);
    const range mine = range_of(call, p.channels);
    if (p.rows == 1 && p.columns == 1) {
        for (int c = mine.from; c < mine.to; c += CHANNELS)
            sum_places(&p, c, mine.to - c < CHANNELS ? mine.to - c : CHANNELS, call->out[0].data + c);
        return;
    }
    for (int c = mine.from; c < mine.to; c++) {
        float sum[2];
        plane_sum(PLANE_SUM, &p, c, 0.0f, sum);
        call->out[0].data[c] = sum[0];
    }
}

static void sum_images(const ls_op_call *call)
{
    const plane p = plane_of(call, &call->in[0]);
    float sum[2];
    plane_sum(PLANE_SUM, &p, 0, 0.0f, sum);
    call->out[0].data[0] = sum[0];
}

void LANES(ls_lanes_add_norm)(ls_backend *backend)
{
    backend->kernel[LS_OP_BATCH_NORM] = batch_norm;
    backend->kernel[LS_OP_BATCH_NORM_INFER] = batch_norm_infer;
    backend->kernel[LS_OP_BATCH_NORM_BACKWARD] = batch_norm_backward;
    backend->kernel[LS_OP_NORM_SUMS] = norm_sums;
    backend->kernel[LS_OP_NORM_APPLY] = norm_apply;
    backend->kernel[LS_OP_NORM_SLOPES] = norm_slopes;
    backend->kernel[LS_OP_NORM_DATA] = norm_data;
    backend->kernel[LS_OP_BATCH_NORM_FROZEN_BACKWARD] = batch_norm_frozen_backward;
    backend->kernel[LS_OP_CHANNEL_SUM] = channel_sum;
    backend->kernel[LS_OP_SUM_IMAGES] = sum_images;
}
