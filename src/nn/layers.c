#include "base/environment.h"
#include "nn/module.h"

ls_tensor *ls_module_parameter(ls_module *block, const char *name, ls_shape shape)
{
    LS_OWN_ENVIRONMENT;
    if (!block)
        return NULL;
    bool good = shape.rank >= 1 && shape.rank <= LS_MAX_RANK;
    for (int i = 0; good && i < shape.rank; i++)
        good = shape.dim[i] > 0 && shape.dim[i] <= INT32_MAX;
    if (!name || !*name || !good || !block->session->recording) {
        ls_raise(&block->session->context, LS_BAD_ARGUMENT,
                 "ls_module_parameter: needs a name, a shape of rank 1 to 4, and a forward under way");
        return NULL;
    }
    return ls_layer_parameter(block, name, shape);
}

/* NULL where the layer has none. */
static ls_tensor *own_bias(ls_module *self, bool none)
{
    return none ? NULL : ls_layer_parameter(self, "bias", LS_SHAPE(self->channels));
}

/* Channels in a group; where the groups do not divide them the convolution says so. */
static int64_t in_group(const ls_conv *conv, int64_t channels)
{
    const int groups = conv->groups > 1 ? conv->groups : 1;
    return channels > groups ? channels / groups : 1;
}

static int64_t kernel_w(const ls_module *self)
{
    return self->conv.kernel_w ? self->conv.kernel_w : self->kernel;
}

static ls_tensor *forward_conv2d(ls_module *self, ls_tensor *x)
{
    const ls_shape shape = LS_SHAPE(self->channels, in_group(&self->conv, ls_dim(x, 1)), self->kernel, kernel_w(self));
    ls_tensor *weight = ls_layer_parameter(self, "weight", shape);
    return ls_conv2d(x, weight, own_bias(self, self->conv.no_bias), &self->conv);
}

static ls_tensor *forward_conv_transpose2d(ls_module *self, ls_tensor *x)
{
    const ls_shape shape = LS_SHAPE(ls_dim(x, 1), in_group(&self->conv, self->channels), self->kernel, kernel_w(self));
    ls_tensor *weight = ls_layer_parameter(self, "weight", shape);
    return ls_conv_transpose2d(x, weight, own_bias(self, self->conv.no_bias), &self->conv);
}

static ls_module *convolution(ls_session *session, ls_forward *forward, int channels, int kernel,
                              const ls_conv *options, bool transposed)
{
    const char *function = transposed ? "ls_nn_conv_transpose2d" : "ls_nn_conv2d";
    const char *why = channels < 1 || kernel < 1 ? "channels and kernel must be at least 1"
                                                 : ls_wrong_conv(options, channels, transposed);
    if (why && session)
        ls_raise(&session->context, LS_BAD_ARGUMENT, "%s: %s", function, why);
    ls_module *module = why ? NULL : ls_module_new(session, forward);
    if (!module)
        return NULL;
    module->channels = channels;
    module->kernel = kernel;
    if (options)
        module->conv = *options;
    return module;
}

ls_module *ls_nn_conv2d(ls_session *session, int channels, int kernel, const ls_conv *options)
{
    LS_OWN_ENVIRONMENT;
    return convolution(session, forward_conv2d, channels, kernel, options, false);
}

ls_module *ls_nn_conv_transpose2d(ls_session *session, int channels, int kernel, const ls_conv *options)
{
    LS_OWN_ENVIRONMENT;
    return convolution(session, forward_conv_transpose2d, channels, kernel, options, true);
}

static ls_tensor *forward_linear(ls_module *self, ls_tensor *x)
{
    ls_tensor *weight =
        ls_layer_parameter(self, "weight", LS_SHAPE(self->channels, ls_dim(x, ls_rank(x) == 3 ? 2 : 1)));
    return ls_linear(x, weight, own_bias(self, self->linear.no_bias));
}

static ls_module *linear(ls_session *session, int features, const ls_linear_options *options, const char *wrong)
{
    if (features < 1)
        return ls_bad_layer(session, wrong);
    ls_module *module = ls_module_new(session, forward_linear);
    if (!module)
        return NULL;
    module->channels = features;
    if (options)
        module->linear = *options;
    return module;
}

ls_module *ls_nn_linear(ls_session *session, int features)
{
    LS_OWN_ENVIRONMENT;
    return linear(session, features, NULL, "ls_nn_linear: features must be at least 1");
}

ls_module *ls_nn_linear_with(ls_session *session, int features, const ls_linear_options *options)
{
    LS_OWN_ENVIRONMENT;
    return linear(session, features, options, "ls_nn_linear_with: features must be at least 1");
}

static ls_tensor *forward_dropout(ls_module *self, ls_tensor *x)
{
    return ls_record_dropout(x, self->session->recording->path, self->uses, self->rate);
}

ls_module *ls_nn_dropout(ls_session *session, double rate)
{
    LS_OWN_ENVIRONMENT;
    if (!(rate >= 0 && rate < 1))
        return ls_bad_layer(session, "ls_nn_dropout: rate must be at least 0 and below 1");
    ls_module *module = ls_module_new(session, forward_dropout);
    if (module)
        module->rate = rate;
    return module;
}

static ls_tensor *forward_avg_pool2d(ls_module *self, ls_tensor *x)
{
    return ls_avg_pool2d(x, &self->pool);
}

static ls_tensor *forward_max_pool2d(ls_module *self, ls_tensor *x)
{
    return ls_max_pool2d(x, &self->pool);
}

static ls_module *pool(ls_session *session, ls_forward *forward, const ls_pool *options)
{
    if (!options)
        return ls_bad_layer(session, "a pool needs options with a kernel");
    ls_module *module = ls_module_new(session, forward);
    if (module)
        module->pool = *options;
    return module;
}

ls_module *ls_nn_avg_pool2d(ls_session *session, const ls_pool *options)
{
    LS_OWN_ENVIRONMENT;
    return pool(session, forward_avg_pool2d, options);
}

ls_module *ls_nn_max_pool2d(ls_session *session, const ls_pool *options)
{
    LS_OWN_ENVIRONMENT;
    return pool(session, forward_max_pool2d, options);
}

static ls_tensor *forward_fn(ls_module *self, ls_tensor *x)
{
    return self->fn(x);
}

ls_module *ls_nn_fn(ls_session *session, ls_tensor *(*fn)(ls_tensor *))
{
    LS_OWN_ENVIRONMENT;
    if (!fn)
        return ls_bad_layer(session, "ls_nn_fn: fn is NULL");
    ls_module *module = ls_module_new(session, forward_fn);
    if (module)
        module->fn = fn;
    return module;
}

static ls_tensor *forward_fn_with(ls_module *self, ls_tensor *x)
{
    return self->fn_with(x, self->argument);
}

ls_module *ls_nn_fn_with(ls_session *session, ls_tensor *(*fn)(ls_tensor *, double), double argument)
{
    LS_OWN_ENVIRONMENT;
    if (!fn)
        return ls_bad_layer(session, "ls_nn_fn_with: fn is NULL");
    ls_module *module = ls_module_new(session, forward_fn_with);
    if (!module)
        return NULL;
    module->fn_with = fn;
    module->argument = argument;
    return module;
}

static ls_tensor *forward_adaptive_avg_pool2d(ls_module *self, ls_tensor *x)
{
    return ls_adaptive_avg_pool2d(x, self->height, self->width);
}

ls_module *ls_nn_adaptive_avg_pool2d(ls_session *session, int height, int width)
{
    LS_OWN_ENVIRONMENT;
    if (height < 1 || width < 1)
        return ls_bad_layer(session, "ls_nn_adaptive_avg_pool2d: height and width must be at least 1");
    ls_module *module = ls_module_new(session, forward_adaptive_avg_pool2d);
    if (!module)
        return NULL;
    module->height = height;
    module->width = width;
    return module;
}

static ls_tensor *forward_upsample2d(ls_module *self, ls_tensor *x)
{
    return ls_upsample2d(x, self->channels, self->mode);
}

ls_module *ls_nn_upsample2d(ls_session *session, int factor, ls_upsample_mode mode)
{
    LS_OWN_ENVIRONMENT;
    if (factor < 1)
        return ls_bad_layer(session, "ls_nn_upsample2d: the factor must be at least 1");
    ls_module *module = ls_module_new(session, forward_upsample2d);
    if (!module)
        return NULL;
    module->channels = factor;
    module->mode = mode;
    return module;
}
