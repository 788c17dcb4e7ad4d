/* Recurrent layers. */
#include <math.h>
#include <stdio.h>

#include "base/environment.h"
#include "nn/module.h"

typedef ls_tensor *operation(ls_tensor *x, ls_tensor *weight_ih, ls_tensor *weight_hh, ls_tensor *bias_ih,
                             ls_tensor *bias_hh, const ls_recurrent *options);

enum { MOST_LAYERS = 64 };

/* One as PyTorch calls it and as it begins there. */
static ls_tensor *parameter(ls_module *self, const char *what, int layer, bool back, ls_shape shape)
{
    char name[64];
    snprintf(name, sizeof name, "%s_l%d%s", what, layer, back ? "_reverse" : "");
    ls_tensor *made = ls_layer_parameter(self, name, shape);
    if (!made)
        return NULL;
    ls_view *view = &made->layout->views[made->view];
    view->drawn = true;
    view->bound = (float)(1 / sqrt(self->channels));
    return made;
}

/* A layer one way. */
static ls_tensor *one_way(ls_module *self, ls_tensor *x, operation *of, int gates, int layer, bool back)
{
    const ls_recurrent_options *how = &self->recurrent;
    const int64_t h = self->channels, rows = gates * h;
    ls_tensor *input = parameter(self, "weight_ih", layer, back, LS_SHAPE(rows, ls_dim(x, 2)));
    ls_tensor *state = parameter(self, "weight_hh", layer, back, LS_SHAPE(rows, h));
    ls_tensor *bias_ih = how->no_bias ? NULL : parameter(self, "bias_ih", layer, back, LS_SHAPE(rows));
    ls_tensor *bias_hh = how->no_bias ? NULL : parameter(self, "bias_hh", layer, back, LS_SHAPE(rows));
    const ls_recurrent options = {
        .lengths = self->lengths, .reverse = back, .last = how->last && layer + 1 == how->layers};
    return of(x, input, state, bias_ih, bias_hh, &options);
}

static ls_tensor *forward(ls_module *self, ls_tensor *x, operation *of, int gates, const char *wrong)
{
    const ls_recurrent_options *how = &self->recurrent;
    if (!ls_operands(&x, 1, "a recurrent layer"))
        return NULL;
    if (ls_rank(x) != 3)
        return ls_bad_shape(x, wrong, "x must be (images, tokens, features)");
    for (int layer = 0; layer < how->layers && x; layer++) {
        ls_tensor *ways[] = {how->reverse ? NULL : one_way(self, x, of, gates, layer, false),
                             how->reverse || how->bidirectional ? one_way(self, x, of, gates, layer, true) : NULL};
        if (ls_failed(self->session))
            return NULL;
        x = how->bidirectional ? ls_concat_along(ways, 2, how->last && layer + 1 == how->layers ? 1 : 2)
            : how->reverse     ? ways[1]
                               : ways[0];
    }
    return x;
}

static ls_tensor *forward_lstm(ls_module *self, ls_tensor *x)
{
    return forward(self, x, ls_lstm, 4, "ls_nn_lstm");
}

static ls_tensor *forward_gru(ls_module *self, ls_tensor *x)
{
    return forward(self, x, ls_gru, 3, "ls_nn_gru");
}

static ls_module *recurrent(ls_session *session, ls_forward *forward_of, int features,
                            const ls_recurrent_options *options, const char *function)
{
    const char *why = features < 1 ? "features must be at least 1"
                      : options && (options->layers < 0 || options->layers > MOST_LAYERS)
                          ? "layers must be from 1 to 64; 0 is 1"
                      : options && options->reverse && options->bidirectional
                          ? "a layer that goes both ways has no reverse of its own"
                          : NULL;
    if (why && session)
        ls_raise(&session->context, LS_BAD_ARGUMENT, "%s: %s", function, why);
    ls_module *module = why ? NULL : ls_module_new(session, forward_of);
    if (!module)
        return NULL;
    module->channels = features;
    module->takes_lengths = true;
    if (options)
        module->recurrent = *options;
    if (!module->recurrent.layers)
        module->recurrent.layers = 1;
    return module;
}

ls_module *ls_nn_lstm(ls_session *session, int features)
{
    LS_OWN_ENVIRONMENT;
    return recurrent(session, forward_lstm, features, NULL, "ls_nn_lstm");
}

ls_module *ls_nn_lstm_with(ls_session *session, int features, const ls_recurrent_options *options)
{
    LS_OWN_ENVIRONMENT;
    return recurrent(session, forward_lstm, features, options, "ls_nn_lstm_with");
}

ls_module *ls_nn_gru(ls_session *session, int features)
{
    LS_OWN_ENVIRONMENT;
    return recurrent(session, forward_gru, features, NULL, "ls_nn_gru");
}

ls_module *ls_nn_gru_with(ls_session *session, int features, const ls_recurrent_options *options)
{
    LS_OWN_ENVIRONMENT;
    return recurrent(session, forward_gru, features, options, "ls_nn_gru_with");
}
