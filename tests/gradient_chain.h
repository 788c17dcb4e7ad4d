/* A chain of the reference's operations, with its inputs, their gradients and the numbers between. */
#ifndef LOCKSTEP_TESTS_GRADIENT_CHAIN_H
#define LOCKSTEP_TESTS_GRADIENT_CHAIN_H

#include "support.h"

enum { MAX_INPUTS = 4 };

typedef struct chain chain;
typedef void chain_step(chain *t);

struct chain {
    const char *name;
    int c, h, w, o, count;
    ls_attributes how;
    chain_step *prepare, *forward, *backward;
    double step, tolerance; /* relative to the gradient's length */
    int corners;            /* the last operation is a relu */

    test_random random;
    test_batch batch;
    int inputs, by_image[MAX_INPUTS];
    ls_operand in[MAX_INPUTS], gradient[MAX_INPUTS];
    ls_operand y, dy;
    ls_operand middle, dmiddle, saved, statistics; /* what a chain of operations keeps */
};

ls_operand like(const chain *t, const ls_operand *shape, int by_image);
void add_activation(chain *t);
void add_activation_of(chain *t, int c, int h, int w);
void add_vector(chain *t, int n);
void set_output(chain *t, int c, int h, int w);
void set_windows_output(chain *t, int channels);
void spread(chain *t, ls_operand *x);
void run(const chain *t, ls_op op, const ls_operand in[LS_MAX_IN], const ls_operand out[LS_MAX_OUT]);

chain_step prepare_same;

/* ---- window_chains.c ---- */
chain_step prepare_conv, prepare_transposed, forward_transposed, backward_transposed, forward_conv, backward_conv,
    forward_winograd, backward_winograd, prepare_pool, forward_avg_pool, backward_avg_pool, forward_max_pool,
    backward_max_pool;

/* ---- shape_chains.c ---- */
chain_step prepare_expand, backward_expand, prepare_expand_weight, backward_expand_weight, prepare_concat,
    forward_concat, backward_concat, prepare_view, forward_view, backward_view, backward_shape, prepare_set_norm,
    forward_set_norm, prepare_over, prepare_resize;

/* ---- sequence_chains.c ---- */
chain_step prepare_batch_matmul, backward_batch_matmul;
chain_step prepare_embedding, forward_embedding, backward_embedding;

/* ---- recurrent_chains.c ---- */
chain_step prepare_lstm, forward_lstm, backward_lstm, prepare_gru, forward_gru, backward_gru;
chain_step prepare_last_token, forward_last_token, backward_last_token;
/* ---- attention_chains.c ---- */
chain_step prepare_attention, forward_attention, backward_attention;

#define IN(...)  ((ls_operand[LS_MAX_IN]){__VA_ARGS__})
#define OUT(...) ((ls_operand[LS_MAX_OUT]){__VA_ARGS__})

#endif
