/* LSTM and GRU, image by image, and the token in front of a length. */
#include "device/recurrent.h"
#include "device/ref/ref.h"

/* How many tokens of a lane's image count. */
static int tokens_in(const ls_op_call *call, const ls_operand *lengths, int tokens, int group, int lane)
{
    const float *length = lengths->data ? ls_ref_at(lengths, group, 0, 0, 0) + lane : NULL;
    return ls_tokens_in(length, tokens, lane < ls_ref_lanes(call, group));
}

/* a of a gate's row. */
static float sum_of(const ls_op_call *call, int group, int lane, int before, int row)
{
    const ls_operand *y = &call->out[0], *b = &call->in[2];
    float a = b->data ? b->data[row] : 0;
    for (int k = 0; before >= 0 && k < y->h; k++)
        a = fmaf(call->in[1].data[(size_t)row * y->h + k], ls_ref_at(y, group, before, k, 0)[lane], a);
    return a;
}

static void step(const ls_op_call *call, int group, int lane, int token, int before)
{
    const ls_operand *p = &call->in[0], *y = &call->out[0], *saved = &call->out[1];
    const int lstm = call->attributes->op == LS_OP_LSTM, h = y->h, many = saved->h / h;
    const int end = tokens_in(call, &call->in[3], y->c, group, lane);
    for (int unit = 0; unit < h; unit++) {
        float x[LS_LSTM_GATES] = {0}, a[LS_LSTM_GATES] = {0}, kept[LS_LSTM_SAVED];
        for (int q = 0; q < p->h / h; q++) {
            x[q] = ls_ref_at(p, group, token, q * h + unit, 0)[lane];
            a[q] = sum_of(call, group, lane, before, q * h + unit);
        }
        const float last = before < 0 ? 0
                           : lstm     ? ls_ref_at(saved, group, before, 4 * h + unit, 0)[lane]
                                      : ls_ref_at(y, group, before, unit, 0)[lane];
        const float made = lstm ? ls_lstm_step(x, a, last, kept) : ls_gru_step(x, a, last, kept);
        ls_ref_at(y, group, token, unit, 0)[lane] = end < 0 ? NAN : token < end ? made : 0;
        for (int q = 0; q < many; q++)
            ls_ref_at(saved, group, token, q * h + unit, 0)[lane] = token < end ? kept[q] : 0;
    }
}

/* The token that a pass comes to after so many, and the one before in the forward pass, -1 for none. */
static int token_at(const ls_op_call *call, int tokens, int nth)
{
    return call->attributes->stride > 0 ? nth : tokens - 1 - nth;
}
static int token_before(const ls_op_call *call, int tokens, int nth)
{
    return nth ? token_at(call, tokens, nth - 1) : -1;
}

void ls_ref_recurrent(const ls_op_call *call)
{
    const int tokens = call->out[0].c;
    for (int group = 0; group < call->groups; group++)
        for (int lane = 0; lane < LS_LANES; lane++)
            for (int nth = 0; nth < tokens; nth++)
                step(call, group, lane, token_at(call, tokens, nth), token_before(call, tokens, nth));
}

/* d of a feature; `after`: the token after it in the forward pass, -1 for none. */
static float gradient_of(const ls_op_call *call, int group, int lane, int token, int after, int unit, float carry)
{
    const int lstm = call->attributes->op == LS_OP_LSTM_BACKWARD, h = call->in[0].h;
    const ls_operand *da = &call->out[lstm ? 0 : 1];
    const float dy = ls_ref_at(&call->in[0], group, token, unit, 0)[lane];
    float u = lstm ? 0 : carry;
    for (int row = 0; after >= 0 && row < da->h; row++)
        u = fmaf(call->in[2].data[(size_t)row * h + unit], ls_ref_at(da, group, after, row, 0)[lane], u);
    return after < 0 ? dy : dy + u;
}

static void step_back(const ls_op_call *call, int group, int lane, int token, int before, int after, float *carries)
{
    const ls_operand *saved = &call->in[1], *y = &call->in[4], *dp = &call->out[0], *da = &call->out[1];
    const int lstm = call->attributes->op == LS_OP_LSTM_BACKWARD, h = call->in[0].h, gates = dp->h / h;
    const int end = tokens_in(call, &call->in[3], call->in[0].c, group, lane);
    for (int unit = 0; unit < h; unit++) {
        float kept[LS_LSTM_SAVED], x[LS_LSTM_GATES], a[LS_LSTM_GATES] = {0}, carry = after < 0 ? 0 : carries[unit];
        for (int q = 0; q < saved->h / h; q++)
            kept[q] = ls_ref_at(saved, group, token, q * h + unit, 0)[lane];
        const float last = before < 0 ? 0
                           : lstm     ? ls_ref_at(saved, group, before, 4 * h + unit, 0)[lane]
                                      : ls_ref_at(y, group, before, unit, 0)[lane];
        const float d = gradient_of(call, group, lane, token, after, unit, carry);
        if (lstm)
            ls_lstm_slopes(d, kept, last, &carry, x);
        else
            ls_gru_slopes(d, kept, last, &carry, x, a);
        carries[unit] = token < end ? carry : 0;
        for (int q = 0; q < gates; q++) {
            ls_ref_at(dp, group, token, q * h + unit, 0)[lane] = token < end ? x[q] : 0;
            if (!lstm)
                ls_ref_at(da, group, token, q * h + unit, 0)[lane] = token < end ? a[q] : 0;
        }
    }
}

void ls_ref_recurrent_backward(const ls_op_call *call)
{
    const int tokens = call->in[0].c;
    for (int group = 0; group < call->groups; group++)
        for (int lane = 0; lane < LS_LANES; lane++)
            for (int nth = tokens - 1; nth >= 0; nth--)
                step_back(call, group, lane, token_at(call, tokens, nth), token_before(call, tokens, nth),
                          nth + 1 < tokens ? token_at(call, tokens, nth + 1) : -1, call->scratch);
}

size_t ls_ref_recurrent_scratch(const ls_op_call *call)
{
    return (size_t)call->in[0].h * sizeof(float);
}

void ls_ref_last_token(const ls_op_call *call, int group, int feature, int row, int column)
{
    const ls_operand *x = &call->in[0];
    for (int lane = 0; lane < LS_LANES; lane++) {
        const int end = tokens_in(call, &call->in[1], x->c, group, lane);
        ls_ref_at(&call->out[0], group, feature, row, column)[lane] =
            end < 0 ? NAN
            : end   ? ls_ref_at(x, group, end - 1, feature, 0)[lane]
                    : 0;
    }
}

void ls_ref_last_token_backward(const ls_op_call *call, int group, int token, int feature, int column)
{
    for (int lane = 0; lane < LS_LANES; lane++) {
        const int end = tokens_in(call, &call->in[1], call->out[0].c, group, lane);
        ls_ref_at(&call->out[0], group, token, feature, column)[lane] =
            end == token + 1 ? ls_ref_at(&call->in[0], group, feature, 0, 0)[lane] : 0;
    }
}
