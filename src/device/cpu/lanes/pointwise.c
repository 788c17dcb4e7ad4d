/* Operations that treat every number alone, and the way of images into the lanes. */
#include <string.h>

#include "device/cpu/lanes/cut.h"
#include "device/cpu/lanes/plane.h"
#include "device/cpu/lanes/table.h"

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

/* ---- Images ---- */

static size_t places_of(const ls_operand *x)
{
    return (size_t)x->c * x->h * x->w;
}

/* A group's images as they are changed. */
size_t LANES(ls_lanes_images_scratch)(const ls_op_call *call)
{
    return LS_LANES * places_of(&call->out[0]) * sizeof(float);
}

/* n numbers in the opposite order, of 1 byte or 4. */
static void turn_around(const char *from, char *to, int n, size_t size)
{
    if (size == 1)
        for (int i = 0; i < n; i++)
            to[i] = from[n - 1 - i];
    else
        for (int i = 0; i < n; i++)
            ((float *)to)[i] = ((const float *)from)[n - 1 - i];
}

/* A row of a changed channel; numbers are of `size` bytes. */
static void change_row(const ls_change *change, const ls_operand *x, int row, const char *from, char *to, size_t size)
{
    const int from_row = row + change->down;
    const int first = change->right < 0 ? -change->right : 0; /* of the columns that the channel has a number for */
    const int behind = change->right > 0 ? x->w - change->right : x->w;
    memset(to, 0, x->w * size);
    if (from_row < 0 || from_row >= x->h || first >= behind)
        return;
    from += ((ptrdiff_t)from_row * x->w + first + change->right) * (ptrdiff_t)size;
    if (change->flip)
        turn_around(from, to + (size_t)(x->w - behind) * size, behind - first, size);
    else
        memcpy(to + first * size, from, (size_t)(behind - first) * size);
    if (row >= change->top && row < change->top + change->height)
        memset(to + change->left * size, 0, change->width * size);
}

static void change_image(const ls_change *change, const ls_operand *x, const char *from, char *to, size_t size)
{
    const size_t plane_bytes = (size_t)x->h * x->w * size;
    for (int c = 0; c < x->c; c++, from += plane_bytes, to += plane_bytes)
        for (int row = 0; row < x->h; row++)
            change_row(change, x, row, from, to + (size_t)row * x->w * size, size);
}

static void turn_bytes(const uint8_t *const from[], int lanes, size_t places, float *to)
{
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

static void turn_floats(const float *const from[], int lanes, size_t places, float *to)
{
    for (size_t place = 0; place < places; place++, to += LS_LANES)
        for (int lane = 0; lane < LS_LANES; lane++)
            to[lane] = lane < lanes ? from[lane][place] : 0.0f;
}

static void images(const ls_op_call *call)
{
    const ls_samples *samples = call->samples;
    const ls_operand *out = &call->out[0];
    const size_t places = places_of(out), size = samples->floats ? sizeof(float) : 1;
    for (int group = 0; group < call->groups; group++) {
        const int lanes = lanes_of_group(samples->count, group);
        const void *from[LS_LANES];
        for (int lane = 0; lane < lanes; lane++) {
            const int i = group * LS_LANES + lane;
            from[lane] = (const char *)samples->images + samples->index[i] * places * size;
            if (!samples->changes)
                continue;
            char *changed = (char *)call->scratch + lane * places * size;
            change_image(&samples->changes[i], out, from[lane], changed, size);
            from[lane] = changed;
        }
        float *to = out->data + group * places * LS_LANES;
        if (samples->floats)
            turn_floats((const float *const *)from, lanes, places, to);
        else
            turn_bytes((const uint8_t *const *)from, lanes, places, to);
    }
}

/* ---- Numbers alone ---- */

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
        vf_store(out + i, vf_load(a + i) + vf_load(b + i));
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
                vf_store(to + i, vf_load(from + i) + bias);
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
