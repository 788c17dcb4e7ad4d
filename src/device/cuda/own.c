/* The user's own operations: activations to rows, the user's function, rows to activations, all in the card's stream.
 */
#include <lockstep_nn.h>

#include "device/cuda/card.h"

enum { OUT = LS_CUSTOM_INPUTS, OUT_SLOPE }; /* operands of CUSTOM_BACKWARD behind the inputs */

static bool is_parameter(const ls_op_call *call, int input)
{
    return call->attributes->parameters >> input & 1;
}

static size_t bytes_of(const ls_op_call *call, const ls_operand *t)
{
    return (size_t)call->samples->count * (size_t)t->c * (size_t)t->h * (size_t)t->w * sizeof(float);
}

size_t ls_card_own_scratch(const ls_op_call *call)
{
    const bool backward = call->attributes->op == LS_OP_CUSTOM_BACKWARD;
    size_t bytes = 0;
    for (int k = 0; k < LS_MAX_IN; k++)
        if (call->in[k].data && !(k < LS_CUSTOM_INPUTS && is_parameter(call, k)))
            bytes += ls_cuda_aligned(bytes_of(call, &call->in[k]));
    for (int k = 0; k < LS_MAX_OUT; k++)
        if (call->out[k].data && !(backward && is_parameter(call, k)))
            bytes += ls_cuda_aligned(bytes_of(call, &call->out[k]));
    return bytes;
}

/* Scratch, from one operand to the next. */
typedef struct room {
    const ls_op_call *call;
    const ls_card_rows *rows;
    char *left;
} room;

static float *take(room *r, const ls_operand *t)
{
    float *rows = (float *)(void *)r->left;
    r->left += ls_cuda_aligned(bytes_of(r->call, t));
    return rows;
}

static const float *unpack(room *r, const ls_operand *t)
{
    float *rows = take(r, t);
    r->rows->from(r->call, t, rows);
    return rows;
}

static float *zeroed(const ls_op_call *call, float *at, size_t bytes)
{
    ls_card *card = (ls_card *)call->executor;
    return ls_card_good(card, cudaMemsetAsync(at, 0, bytes, card->stream), "zeros") ? at : NULL;
}

static void set_shape(int shape[3], const ls_operand *t)
{
    shape[0] = t->c;
    shape[1] = t->h;
    shape[2] = t->w;
}

/* What the user's functions are told, and the inputs as they see them. */
static ls_custom_call begin(room *r, const ls_operand *out, const float *in[LS_CUSTOM_INPUTS])
{
    const ls_op_call *call = r->call;
    const ls_custom *own = call->attributes->custom;
    ls_custom_call told = {.rows = call->samples->count, .user = own->user};
    for (int k = 0; k < own->inputs; k++) {
        set_shape(told.in[k], &call->in[k]);
        in[k] = is_parameter(call, k) ? call->in[k].data : unpack(r, &call->in[k]);
    }
    set_shape(told.out, out);
    return told;
}

static void check(const ls_op_call *call, bool good, const char *function)
{
    if (!good)
        ls_card_fail((ls_card *)call->executor, LS_IO, function, call->attributes->custom->name);
}

static void forward(room *r)
{
    const ls_op_call *call = r->call;
    const float *in[LS_CUSTOM_INPUTS] = {NULL};
    const ls_custom_call told = begin(r, &call->out[0], in);
    float *out = take(r, &call->out[0]);
    if (!zeroed(call, out, bytes_of(call, &call->out[0])))
        return;
    check(call, call->attributes->custom->cuda_forward(&told, in, out, ((ls_card *)call->executor)->stream),
          "the cuda_forward of an own operation");
    r->rows->to(call, out, &call->out[0]);
}

static void backward(room *r)
{
    const ls_op_call *call = r->call;
    const ls_custom *own = call->attributes->custom;
    const float *in[LS_CUSTOM_INPUTS] = {NULL};
    const ls_custom_call told = begin(r, &call->in[OUT], in);
    const float *out = unpack(r, &call->in[OUT]), *dout = unpack(r, &call->in[OUT_SLOPE]);
    float *din[LS_CUSTOM_INPUTS] = {NULL};
    for (int k = 0; k < own->inputs; k++) {
        const ls_operand *slope = &call->out[k];
        const size_t floats = (size_t)slope->c * (size_t)slope->h * (size_t)slope->w;
        if (slope->data && is_parameter(call, k))
            din[k] = zeroed(call, slope->data, floats * sizeof(float));
        else if (slope->data)
            din[k] = zeroed(call, take(r, slope), bytes_of(call, slope));
    }
    check(call, own->cuda_backward(&told, in, out, dout, din, ((ls_card *)call->executor)->stream),
          "the cuda_backward of an own operation");
    for (int k = 0; k < own->inputs; k++)
        if (din[k] && !is_parameter(call, k))
            r->rows->to(call, din[k], &call->out[k]);
}

void ls_card_own(const ls_op_call *call, const ls_card_rows *rows)
{
    room r = {call, rows, call->scratch};
    if (call->attributes->op == LS_OP_CUSTOM)
        forward(&r);
    else
        backward(&r);
}
