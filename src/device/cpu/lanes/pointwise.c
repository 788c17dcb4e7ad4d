/* Operations that treat every number alone, and the way of images into the lanes. */
#include "device/cpu/lanes/cut.h"
#include "device/cpu/lanes/plane.h"

/* The numbers that are wanted, whole planes. */
typedef struct extent {
    ptrdiff_t from, to;
} extent;

static extent numbers_of(const ls_op_call *call)
{
    const ls_operand *x = &call->out[0];
    const range planes = range_of(call, call->groups * x->c);
    const ptrdiff_t size = (ptrdiff_t)x->h * x->w * LS_LANES;
    return (extent){planes.from * size, planes.to * size};
}

static void images(const ls_op_call *call)
{
    const ls_samples *samples = call->samples;
    const ls_operand *out = &call->out[0];
    const size_t places = (size_t)out->c * out->h * out->w;
    for (int group = 0; group < call->groups; group++) {
        const int lanes = lanes_of_group(samples->count, group);
        const uint8_t *from[LS_LANES];
        for (int lane = 0; lane < lanes; lane++)
            from[lane] = samples->images + samples->index[group * LS_LANES + lane] * places;
        float *to = out->data + group * places * LS_LANES;
        for (size_t place = 0; place < places; place++, to += LS_LANES) {
            uint8_t byte[LS_LANES] = {0};
            if (lanes == LS_LANES)
                for (int lane = 0; lane < LS_LANES; lane++)
                    byte[lane] = from[lane][place];
            else
                for (int lane = 0; lane < lanes; lane++)
                    byte[lane] = from[lane][place];
            for (int lane = 0; lane < LS_LANES; lane++)
                to[lane] = (float)byte[lane] / 255.0f;
        }
    }
}

static void ones(const ls_op_call *call)
{
    for (int group = 0; group < call->groups; group++)
        for (int lane = 0; lane < LS_LANES; lane++)
            call->out[0].data[group * LS_LANES + lane] =
                lane < lanes_of_group(call->samples->count, group) ? call->samples->one : 0.0f;
}

static void rows(const ls_op_call *call)
{
    const ls_operand *x = &call->in[0];
    const int numbers = x->c * x->h * x->w;
    for (int group = 0; group < call->groups; group++)
        lanes_turn(x->data + (ptrdiff_t)group * numbers * LS_LANES, LS_LANES, numbers,
                   lanes_of_group(call->samples->count, group),
                   call->out[0].data + (ptrdiff_t)group * LS_LANES * numbers, numbers);
}

static void add(const ls_op_call *call)
{
    const float *a = call->in[0].data, *b = call->in[1].data;
    float *out = call->out[0].data;
    const extent n = numbers_of(call);
    for (ptrdiff_t i = n.from; i < n.to; i += LS_VL)
        vf_store(out + i, vf_add(vf_load(a + i), vf_load(b + i)));
}

static void add_bias(const ls_op_call *call)
{
    const ls_operand *x = &call->out[0];
    const float *from = call->in[0].data;
    float *to = call->out[0].data;
    const ptrdiff_t plane_numbers = (ptrdiff_t)x->h * x->w * LS_LANES;
    for (int group = 0; group < call->groups; group++)
        for (int c = 0; c < x->c; c++, from += plane_numbers, to += plane_numbers) {
            const vf bias = vf_set(call->in[1].data[c]);
            for (ptrdiff_t i = 0; i < plane_numbers; i += LS_VL)
                vf_store(to + i, vf_add(vf_load(from + i), bias));
        }
}

static void relu(const ls_op_call *call)
{
    const float *x = call->in[0].data;
    float *out = call->out[0].data;
    const extent n = numbers_of(call);
    for (ptrdiff_t i = n.from; i < n.to; i += LS_VL)
        vf_store(out + i, vf_relu(vf_load(x + i)));
}

static void relu_backward(const ls_op_call *call)
{
    const float *dy = call->in[0].data, *y = call->in[1].data;
    float *out = call->out[0].data;
    const extent n = numbers_of(call);
    for (ptrdiff_t i = n.from; i < n.to; i += LS_VL)
        vf_store(out + i, vf_keep(vm_greater(vf_load(y + i), vf_zero()), vf_load(dy + i)));
}

void LANES(ls_lanes_add_pointwise)(ls_backend *backend)
{
    backend->kernel[LS_OP_IMAGES] = images;
    backend->kernel[LS_OP_ONES] = ones;
    backend->kernel[LS_OP_ROWS] = rows;
    backend->kernel[LS_OP_ADD] = add;
    backend->kernel[LS_OP_ADD_BIAS] = add_bias;
    backend->kernel[LS_OP_RELU] = relu;
    backend->kernel[LS_OP_RELU_BACKWARD] = relu_backward;
}
