/* Recording of LSTM and GRU, and of the last tokens of sequences. */
#include "base/environment.h"
#include "device/recurrent.h"
#include "graph/record.h"

static bool fits(const ls_tensor *weight, int64_t rows, int64_t columns)
{
    const ls_shape *shape = ls_weight_shape(weight);
    return shape && shape->rank == 2 && shape->dim[0] == rows && shape->dim[1] == columns;
}

static ls_tensor *last_token(ls_tensor *x, ls_tensor *lengths)
{
    const ls_shape shape = {2, {x->shape.dim[0], x->shape.dim[2]}};
    if (lengths)
        return ls_record_shaped(LS_OP_LAST_TOKEN, (ls_tensor *[]){x, lengths}, 2, &shape);
    return ls_flatten(ls_slice(x, 1, x->shape.dim[1] - 1, x->shape.dim[1]));
}

ls_tensor *ls_last_token(ls_tensor *x, ls_tensor *lengths)
{
    LS_OWN_ENVIRONMENT;
    if (!ls_operands((ls_tensor *[]){x, lengths}, lengths ? 2 : 1, "ls_last_token"))
        return NULL;
    if (x->shape.rank != 3 || !ls_are_lengths(lengths, x))
        return ls_bad_shapes((ls_tensor *[]){x, lengths}, "x, lengths", "ls_last_token",
                             "x must be (images, tokens, features), and lengths (images) or (images, 1)");
    return last_token(x, lengths);
}

/* The weights: x's, the state's, and their biases. The product with x is a linear layer's over all tokens at once; what
 * has to go token after token is the rest. */
static ls_tensor *recurrent(ls_tensor *x, ls_tensor *const weights[4], const ls_recurrent *options, ls_op op,
                            const char *function)
{
    static const ls_recurrent none = {.reverse = false};
    const ls_recurrent *how = options ? options : &none;
    ls_tensor *all[6] = {x, weights[0], weights[1]};
    int n = 3;
    if (weights[2])
        all[n++] = weights[2];
    if (weights[3])
        all[n++] = weights[3];
    if (how->lengths)
        all[n++] = how->lengths;
    if (!ls_operands(all, n, function))
        return NULL;
    static const char *const names = "x, weight_ih, weight_hh, bias_ih, bias_hh, lengths";
    ls_tensor *given[] = {x, weights[0], weights[1], weights[2], weights[3], how->lengths};
    const ls_shape *state = ls_weight_shape(weights[1]);
    const int64_t h = state && state->rank == 2 ? state->dim[1] : 0;
    const int64_t rows = h * (op == LS_OP_LSTM ? LS_LSTM_GATES : LS_GRU_GATES);
    if (x->shape.rank != 3 || !fits(weights[0], rows, x->shape.dim[2]) || !fits(weights[1], rows, h))
        return ls_bad_shapes(given, names, function,
                             op == LS_OP_LSTM ? "x must be (images, tokens, features), and the weights parameters (4 * "
                                                "hidden, features) and (4 * hidden, hidden)"
                                              : "x must be (images, tokens, features), and the weights parameters (3 * "
                                                "hidden, features) and (3 * hidden, hidden)");
    if ((weights[2] && !ls_fits_bias(weights[2], rows)) || (weights[3] && !ls_fits_bias(weights[3], rows)))
        return ls_bad_shapes(given, names, function,
                             "a bias must be a parameter with as many numbers as the weights have rows");
    if (!ls_are_lengths(how->lengths, x))
        return ls_bad_shapes((ls_tensor *[]){x, how->lengths}, "x, lengths", function,
                             "lengths must be (images) or (images, 1), for x's images");
    ls_tensor *in[] = {ls_linear(x, weights[0], weights[2]), weights[1], weights[3], how->lengths};
    const ls_shape shape = {3, {x->shape.dim[0], x->shape.dim[1], h}};
    ls_tensor *y = in[0] ? ls_record_shaped(op, in, 4, &shape) : NULL;
    if (!y)
        return NULL;
    y->computed.attributes.stride = how->reverse ? -1 : 1;
    if (!how->last)
        return y;
    return how->reverse ? ls_flatten(ls_slice(y, 1, 0, 1)) : last_token(y, how->lengths);
}

ls_tensor *ls_lstm(ls_tensor *x, ls_tensor *weight_ih, ls_tensor *weight_hh, ls_tensor *bias_ih, ls_tensor *bias_hh,
                   const ls_recurrent *options)
{
    LS_OWN_ENVIRONMENT;
    return recurrent(x, (ls_tensor *[]){weight_ih, weight_hh, bias_ih, bias_hh}, options, LS_OP_LSTM, "ls_lstm");
}

ls_tensor *ls_gru(ls_tensor *x, ls_tensor *weight_ih, ls_tensor *weight_hh, ls_tensor *bias_ih, ls_tensor *bias_hh,
                  const ls_recurrent *options)
{
    LS_OWN_ENVIRONMENT;
    return recurrent(x, (ls_tensor *[]){weight_ih, weight_hh, bias_ih, bias_hh}, options, LS_OP_GRU, "ls_gru");
}
