/* Layers on sequences. */
#include "base/environment.h"
#include "nn/module.h"

static ls_tensor *forward_embedding(ls_module *self, ls_tensor *x)
{
    return ls_embedding(x, ls_layer_parameter(self, "weight", LS_SHAPE(self->height, self->channels)));
}

ls_module *ls_nn_embedding(ls_session *session, int rows, int features)
{
    LS_OWN_ENVIRONMENT;
    if (rows < 1 || features < 1)
        return ls_bad_layer(session, "ls_nn_embedding: rows and features must be at least 1");
    ls_module *module = ls_module_new(session, forward_embedding);
    if (!module)
        return NULL;
    module->height = rows;
    module->channels = features;
    return module;
}
