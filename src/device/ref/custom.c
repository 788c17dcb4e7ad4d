/* The user's own operations: lanes to rows, the user's function, rows to lanes. Every backend calls these. */
#include <lockstep.h>
#include <string.h>

#include "base/environment.h"
#include "device/ref/ref.h"

enum { OUT = 3, OUT_SLOPE = 4 }; /* operands of CUSTOM_BACKWARD behind the inputs */

_Static_assert((int)OUT == (int)LS_CUSTOM_INPUTS, "the output follows the inputs");

static int is_parameter(const ls_op_call *call, int input)
{
    return call->attributes->parameters >> input & 1;
}

/* Rows of scratch that an operand takes, in floats; the next begins at a multiple of 64 bytes. */
static size_t rows_of(const ls_op_call *call, const ls_operand *t)
{
    return t->data ? (call->samples->count * ls_ref_places(t) + LS_LANES - 1) / LS_LANES * LS_LANES : 0;
}

size_t ls_ref_custom_scratch(const ls_op_call *call)
{
    size_t floats = 0;
    for (int k = 0; k < LS_MAX_IN; k++)
        floats += k < LS_CUSTOM_INPUTS && is_parameter(call, k) ? 0 : rows_of(call, &call->in[k]);
    for (int k = 0; k < LS_MAX_OUT; k++) {
        int parameter = call->attributes->op == LS_OP_CUSTOM_BACKWARD && is_parameter(call, k);
        floats += parameter ? 0 : rows_of(call, &call->out[k]);
    }
    return floats * sizeof(float);
}

/* Scratch for the operand's rows, all zero. */
static float *take(const ls_op_call *call, const ls_operand *t, float **scratch)
{
    float *rows = *scratch;
    *scratch += rows_of(call, t);
    memset(rows, 0, rows_of(call, t) * sizeof(float));
    return rows;
}

static const float *unpack(const ls_op_call *call, const ls_operand *t, float **scratch)
{
    float *rows = take(call, t, scratch);
    ls_op_call turn = {.samples = call->samples, .groups = call->groups, .in = {*t}, .out = {{.data = rows}}};
    ls_ref_rows(&turn);
    return rows;
}

static void pack(const ls_op_call *call, const float *rows, const ls_operand *t)
{
    const ls_attributes how = {.input = 0};
    ls_samples samples = {.count = call->samples->count, .rows = {rows}};
    ls_op_call turn = {.attributes = &how, .samples = &samples, .groups = call->groups, .out = {*t}};
    ls_ref_input(&turn);
}

static void set_shape(int shape[3], const ls_operand *t)
{
    shape[0] = t->c;
    shape[1] = t->h;
    shape[2] = t->w;
}

/* What the user's functions are told, and the inputs as they see them. */
static ls_custom_call begin(const ls_op_call *call, const ls_operand *out, const float *in[LS_CUSTOM_INPUTS],
                            float **scratch)
{
    const ls_custom *op = call->attributes->custom;
    ls_custom_call told = {.rows = call->samples->count, .user = op->user};
    for (int k = 0; k < op->inputs; k++) {
        set_shape(told.in[k], &call->in[k]);
        in[k] = is_parameter(call, k) ? call->in[k].data : unpack(call, &call->in[k], scratch);
    }
    set_shape(told.out, out);
    return told;
}

void ls_ref_custom(const ls_op_call *call)
{
    float *scratch = call->scratch;
    const float *in[LS_CUSTOM_INPUTS] = {NULL};
    ls_custom_call told = begin(call, &call->out[0], in, &scratch);
    float *out = take(call, &call->out[0], &scratch);
    call->attributes->custom->forward(&told, in, out);
    ls_environment_renew();
    pack(call, out, &call->out[0]);
}

void ls_ref_custom_backward(const ls_op_call *call)
{
    const ls_custom *op = call->attributes->custom;
    float *scratch = call->scratch, *din[LS_CUSTOM_INPUTS] = {NULL};
    const float *in[LS_CUSTOM_INPUTS] = {NULL};
    ls_custom_call told = begin(call, &call->in[OUT], in, &scratch);
    const float *out = unpack(call, &call->in[OUT], &scratch), *dout = unpack(call, &call->in[OUT_SLOPE], &scratch);
    for (int k = 0; k < op->inputs; k++) {
        const ls_operand *slope = &call->out[k];
        if (slope->data && is_parameter(call, k)) {
            din[k] = memset(slope->data, 0, ls_ref_places(slope) * sizeof(float));
        } else if (slope->data) {
            din[k] = take(call, slope, &scratch);
        }
    }
    op->backward(&told, in, out, dout, din);
    ls_environment_renew();
    for (int k = 0; k < op->inputs; k++)
        if (din[k] && !is_parameter(call, k))
            pack(call, din[k], &call->out[k]);
}
