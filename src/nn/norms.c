/* Layers that normalise. */
#include "base/environment.h"
#include "base/number.h"
#include "nn/module.h"

/* The options with the usual values in place of zeros; NULL after LS_BAD_ARGUMENT, as `what` says. */
static ls_module *norm(ls_session *session, ls_forward *forward, const ls_norm *options, double eps, const char *what)
{
    ls_norm how = options ? *options : (ls_norm){0};
    how.eps = how.eps != 0 ? how.eps : eps;
    how.momentum = ls_or_usual(how.momentum, 0.1);
    if (!(how.eps > 0 && how.eps <= 1 && how.momentum >= 0 && how.momentum <= 1))
        return ls_bad_layer(session, what);
    ls_module *module = ls_module_new(session, forward);
    if (module)
        module->norm = how;
    return module;
}

static ls_tensor *forward_batch_norm(ls_module *self, ls_tensor *x)
{
    return ls_record_batch_norm(x, self->session->recording->path, &self->norm);
}

ls_module *ls_nn_batch_norm(ls_session *session)
{
    LS_OWN_ENVIRONMENT;
    return norm(session, forward_batch_norm, NULL, 1e-5, "");
}

ls_module *ls_nn_batch_norm_with(ls_session *session, const ls_norm *options)
{
    LS_OWN_ENVIRONMENT;
    if (options && options->no_affine)
        return ls_bad_layer(session,
                            "ls_nn_batch_norm_with: BatchNorm has its weight and bias always; leave no_affine");
    return norm(
        session, forward_batch_norm, options, 1e-5,
        "ls_nn_batch_norm_with: eps and momentum must be above 0 and at most 1, or the momentum -1, which is none");
}

/* As many parameters as the numbers that LayerNorm and RMSNorm are over, or GroupNorm's channels. */
static ls_tensor *parameter(ls_module *self, const ls_tensor *x, const char *name, float fill, int dim)
{
    if (self->norm.no_affine || !x || x->shape.rank < 2)
        return NULL;
    ls_tensor *made = ls_layer_parameter(self, name, LS_SHAPE(x->shape.dim[dim ? dim : x->shape.rank == 3 ? 2 : 1]));
    if (made)
        made->layout->views[made->view].fill = fill;
    return made;
}

static ls_tensor *forward_layer_norm(ls_module *self, ls_tensor *x)
{
    ls_tensor *weight = parameter(self, x, "weight", 1, 0);
    return ls_layer_norm(x, weight, parameter(self, x, "bias", 0, 0), self->norm.eps);
}

ls_module *ls_nn_layer_norm(ls_session *session, const ls_norm *options)
{
    LS_OWN_ENVIRONMENT;
    return norm(session, forward_layer_norm, options, 1e-5, "ls_nn_layer_norm: eps must be above 0 and at most 1");
}

static ls_tensor *forward_group_norm(ls_module *self, ls_tensor *x)
{
    ls_tensor *weight = parameter(self, x, "weight", 1, 1);
    return ls_group_norm(x, self->channels, weight, parameter(self, x, "bias", 0, 1), self->norm.eps);
}

ls_module *ls_nn_group_norm(ls_session *session, int groups, const ls_norm *options)
{
    LS_OWN_ENVIRONMENT;
    if (groups < 1)
        return ls_bad_layer(session, "ls_nn_group_norm: groups must be at least 1");
    ls_module *module =
        norm(session, forward_group_norm, options, 1e-5, "ls_nn_group_norm: eps must be above 0 and at most 1");
    if (module)
        module->channels = groups;
    return module;
}

static ls_tensor *forward_rms_norm(ls_module *self, ls_tensor *x)
{
    return ls_rms_norm(x, parameter(self, x, "weight", 1, 0), self->norm.eps);
}

ls_module *ls_nn_rms_norm(ls_session *session, const ls_norm *options)
{
    LS_OWN_ENVIRONMENT;
    return norm(session, forward_rms_norm, options, 0x1p-23, "ls_nn_rms_norm: eps must be above 0 and at most 1");
}
