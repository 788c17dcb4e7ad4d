/* BatchNorm and the other sums over channels' planes. All passes over a channel run while its planes are in the cache.
 */
#include <math.h>
#include "device/cpu/lanes/cut.h"
#include "device/cpu/lanes/plane.h"

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

LS_INLINE void normalize_plane(const int add, const int relu, const float *x, const float *residual, float *y,
                               ptrdiff_t numbers, vf mean, vf scale, vf beta, int many)
{
    for (ptrdiff_t i = 0; i < numbers; i += LS_VL) {
        vf a = vf_fma(vf_load(x + i) - mean, scale, beta);
        if (add)
            a += vf_load(residual + i);
        vf_put(y + i, relu ? vf_relu(a) : a, many);
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
            normalize_plane(1, 1, from, residual, to, numbers, m, scale, beta, many);
        else if (a->fused_add)
            normalize_plane(1, 0, from, residual, to, numbers, m, scale, beta, many);
        else if (a->fused_relu)
            normalize_plane(0, 1, from, residual, to, numbers, m, scale, beta, many);
        else
            normalize_plane(0, 0, from, residual, to, numbers, m, scale, beta, many);
    }
}

static void batch_norm(const ls_op_call *call)
{
    const ls_operand *x = &call->in[0];
    const plane p = plane_of(call, x);
    const float n = images_and_places(call, x);
    float *saved = call->out[1].data, *statistics = call->out[2].data;
    const float *shift = call->in[5].data;
    const range mine = range_of(call, x->c);
    for (int c = mine.from; c < mine.to; c++) {
        float sum[2];
        plane_sum(PLANE_SUM, &p, c, 0.0f, sum);
        const float mean = sum[0] / n;
        plane_sum(PLANE_SQUARES, &p, c, mean, sum);
        const float inv = 1.0f / sqrtf(sum[0] / n + call->attributes->eps);
        saved[c] = mean;
        statistics[c] = shift ? mean + shift[c] : mean;
        saved[x->c + c] = inv;
        statistics[x->c + c] = sum[0] / (n - 1.0f);
        normalize(call, c, mean, inv);
    }
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
} slope;

LS_INLINE void differentiate_plane(const int relu, const int add, const slope *s)
{
    const vf mean = vf_set(s->mean), scale = vf_set(s->scale), k1 = vf_set(s->k1), k2 = vf_set(s->k2);
    for (ptrdiff_t i = 0; i < s->numbers; i += LS_LANES)
        LS_UNROLL
    for (int v = 0; v < LS_NV; v++) {
        const ptrdiff_t at = i + v * LS_VL;
        vf d = vf_load(s->dy + at);
        if (relu)
            d = vf_keep(vm_greater(vf_load(s->y + at), vf_zero()), d);
        const vf dx = scale * vf_fma(mean - vf_load(s->x + at), k2, d - k1);
        if (add)
            vf_put(s->residual + at, d, s->many);
        vf_put(s->dx + at, vf_keep(vm_first(s->lanes - v * LS_VL), dx), s->many);
    }
}

static void differentiate(const ls_op_call *call, int channel, slope s)
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
        s.residual = a->fused_add ? call->out[2].data + at : NULL;
        s.lanes = lanes_of_group(call->samples->count, group);
        if (a->fused_relu && a->fused_add)
            differentiate_plane(1, 1, &s);
        else if (a->fused_relu)
            differentiate_plane(1, 0, &s);
        else if (a->fused_add)
            differentiate_plane(0, 1, &s);
        else
            differentiate_plane(0, 0, &s);
    }
}

static void batch_norm_backward(const ls_op_call *call)
{
    const ls_operand *x = &call->in[1];
    const float *gamma = call->in[2].data, *saved = call->in[3].data;
    const float n = images_and_places(call, x);
    plane p = plane_of(call, x);
    p.dy = call->in[0].data;
    p.y = call->attributes->fused_relu ? call->in[4].data : NULL;
    const range mine = range_of(call, x->c);
    for (int c = mine.from; c < mine.to; c++) {
        const float mean = saved[c], inv = saved[x->c + c];
        float sum[2];
        if (p.y)
            plane_sum(PLANE_GRADIENT_RELU, &p, c, mean, sum);
        else
            plane_sum(PLANE_GRADIENT, &p, c, mean, sum);
        const float dbeta = sum[0], dgamma = sum[1] * inv;
        differentiate(call, c,
                      (slope){.mean = mean, .scale = gamma[c] * inv, .k1 = dbeta / n, .k2 = inv * (dgamma / n)});
        call->out[1].data[c] = dgamma;
        call->out[1].data[x->c + c] = dbeta;
    }
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

static void channel_sum(const ls_op_call *call)
{
    const plane p = plane_of(call, &call->in[0]);
    const range mine = range_of(call, p.channels);
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
    backend->kernel[LS_OP_BATCH_NORM_FROZEN_BACKWARD] = batch_norm_frozen_backward;
    backend->kernel[LS_OP_CHANNEL_SUM] = channel_sum;
    backend->kernel[LS_OP_SUM_IMAGES] = sum_images;
}
