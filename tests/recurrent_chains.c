/* The steps of test_gradients' chains for recurrent layers: `o` says whether there are lengths. */
#include "gradient_chain.h"

#include <string.h>

#include "device/recurrent.h"

/* Lengths from 0 to all tokens. */
static void make_lengths(chain *t)
{
    t->middle = test_activation(&t->random, 1, 1, 1, t->count);
    for (size_t i = 0; i < test_lane_numbers(&t->middle, t->count); i++)
        t->middle.data[i] = (float)(test_u64(&t->random) % (unsigned)(t->c + 1));
}

static ls_operand lengths_of(const chain *t)
{
    return t->o ? t->middle : (ls_operand){NULL, 0, 0, 0};
}

static void prepare(chain *t, int gates, int saved)
{
    add_activation_of(t, t->c, gates * t->h, 1);
    add_vector(t, gates * t->h * t->h);
    add_vector(t, gates * t->h);
    make_lengths(t);
    set_output(t, t->c, t->h, 1);
    const ls_operand kept = {NULL, t->c, saved * t->h, 1}, slopes = {NULL, t->c, gates * t->h, 1};
    t->saved = like(t, &kept, 1);
    t->dmiddle = like(t, &slopes, 1);
    t->statistics = like(t, &t->y, 1);
}

/* The weights' and the bias' gradients from da: of a linear layer over tokens, each of them an image. */
static void backward_weights(chain *t, ls_operand da)
{
    const int tokens = t->c, stride = t->how.stride;
    const ls_attributes kept = t->how;
    t->how = (ls_attributes){.axes = {0, 1, 2}, .shift = {stride, 0, 0}};
    run(t, LS_OP_VIEW, IN(t->y), OUT(t->statistics));
    t->how = (ls_attributes){.op = LS_OP_CONV_WEIGHT, .kernel = 1, .stride = 1};
    ls_samples samples = t->batch.samples;
    samples.count = test_groups(t->count) * LS_LANES * tokens;
    ls_op_call call = {.attributes = &t->how, .samples = &samples};
    call.in[0] = (ls_operand){t->statistics.data, t->h, 1, 1};
    call.in[1] = (ls_operand){da.data, da.h, 1, 1};
    call.out[0] = t->gradient[1];
    test_run(ls_backend_ref(), &call);
    t->how.op = LS_OP_CHANNEL_SUM;
    call.in[0] = call.in[1];
    call.in[1] = (ls_operand){NULL, 0, 0, 0};
    call.out[0] = t->gradient[2];
    test_run(ls_backend_ref(), &call);
    t->how = kept;
}

void prepare_lstm(chain *t)
{
    prepare(t, LS_LSTM_GATES, LS_LSTM_SAVED);
}

void forward_lstm(chain *t)
{
    run(t, LS_OP_LSTM, IN(t->in[0], t->in[1], t->in[2], lengths_of(t)), OUT(t->y, t->saved));
}

void backward_lstm(chain *t)
{
    run(t, LS_OP_LSTM_BACKWARD, IN(t->dy, t->saved, t->in[1], lengths_of(t)), OUT(t->gradient[0]));
    backward_weights(t, t->gradient[0]);
}

void prepare_gru(chain *t)
{
    prepare(t, LS_GRU_GATES, LS_GRU_SAVED);
}

void forward_gru(chain *t)
{
    run(t, LS_OP_GRU, IN(t->in[0], t->in[1], t->in[2], lengths_of(t)), OUT(t->y, t->saved));
}

void backward_gru(chain *t)
{
    run(t, LS_OP_GRU_BACKWARD, IN(t->dy, t->saved, t->in[1], lengths_of(t), t->y), OUT(t->gradient[0], t->dmiddle));
    backward_weights(t, t->dmiddle);
}

void prepare_last_token(chain *t)
{
    add_activation(t);
    make_lengths(t);
    set_output(t, t->h, 1, 1);
}

void forward_last_token(chain *t)
{
    run(t, LS_OP_LAST_TOKEN, IN(t->in[0], t->middle), OUT(t->y));
}

void backward_last_token(chain *t)
{
    run(t, LS_OP_LAST_TOKEN_BACKWARD, IN(t->dy, t->middle), OUT(t->gradient[0]));
}
