/* Attention of a sequence to itself as a layer. */
#include "base/environment.h"
#include "base/number.h"
#include "nn/module.h"

/* The same numbers of each image under another shape. */
static ls_tensor *shaped(ls_tensor *x, ls_shape shape)
{
    shape.dim[0] = x->shape.dim[0];
    return ls_record_shaped(LS_OP_COUNT, &x, 1, &shape);
}

/* (images, tokens, heads * features) of one projection of x with weight and bias, whose names are given. */
static ls_tensor *project(ls_module *self, ls_tensor *x, int64_t features, const char *weight, const char *bias)
{
    ls_tensor *w = x ? ls_layer_parameter(self, weight, LS_SHAPE(features, ls_dim(x, 2))) : NULL;
    ls_tensor *b = w ? ls_layer_parameter(self, bias, LS_SHAPE(features)) : NULL;
    return b ? ls_linear(x, w, b) : NULL;
}

/* q, then k, then v lie along one dimension, head by head. */
static ls_tensor *forward_attention(ls_module *self, ls_tensor *x)
{
    const int heads = self->channels, shared = self->attention.kv_heads;
    if (ls_rank(x) != 3 || ls_dim(x, 2) % heads != 0)
        return ls_bad_shape(x, "ls_nn_attention",
                            "x must be (images, tokens, features), whose number the heads divide");
    const int64_t tokens = ls_dim(x, 1), features = ls_dim(x, 2), each = features / heads;
    const int64_t all = heads + 2 * shared;
    ls_tensor *y = project(self, x, all * each, "in_proj_weight", "in_proj_bias");
    y = y ? shaped(y, LS_SHAPE(0, tokens, all, each)) : NULL;
    y = y ? ls_transpose(y, 1, 2) : NULL;
    if (!y)
        return NULL;
    ls_tensor *q = ls_slice(y, 1, 0, heads), *k = ls_slice(y, 1, heads, heads + shared);
    ls_tensor *v = ls_slice(y, 1, heads + shared, all);
    ls_attention_options how = self->attention;
    how.lengths = self->lengths;
    y = v ? ls_attention(q, k, v, &how) : NULL;
    y = y ? ls_transpose(y, 1, 2) : NULL;
    y = y ? shaped(y, LS_SHAPE(0, tokens, features)) : NULL;
    return project(self, y, features, "out_proj.weight", "out_proj.bias");
}

ls_module *ls_nn_attention(ls_session *session, int heads, const ls_attention_options *options)
{
    LS_OWN_ENVIRONMENT;
    const ls_attention_options o = options ? *options : (ls_attention_options){0};
    if (heads < 1 || o.kv_heads < 0 || (o.kv_heads > 0 && heads % o.kv_heads != 0))
        return ls_bad_layer(session, "ls_nn_attention: heads must be at least 1, and kv_heads divide them");
    if (!(o.dropout >= 0 && o.dropout < 1))
        return ls_bad_layer(session, "ls_nn_attention: dropout must be at least 0 and below 1");
    if (!(ls_or_usual(o.scale, 1) >= 0))
        return ls_bad_layer(session, "ls_nn_attention: scale must be above 0, 0 for the usual one or -1 for none");
    if (o.lengths)
        return ls_bad_layer(session, "ls_nn_attention: lengths belong to a call: a block's forward calls the layer by "
                                     "ls_module_call_with_lengths");
    ls_module *module = ls_module_new(session, forward_attention);
    if (!module)
        return NULL;
    module->channels = heads;
    module->takes_lengths = true;
    module->attention = o;
    module->attention.kv_heads = o.kv_heads ? o.kv_heads : heads;
    return module;
}
