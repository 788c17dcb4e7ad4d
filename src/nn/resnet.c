/* The ResNet-18 of "Concise Implementation for Multiple GPUs": a first convolution of 3 x 3 and no max-pooling, four
 * stages of two residual blocks. */
#include "base/environment.h"
#include "nn/module.h"

#include <string.h>

static ls_tensor *residual(ls_module *self, ls_tensor *x)
{
    ls_tensor *y = ls_relu(ls_module_call(self, "bn1", ls_module_call(self, "conv1", x)));
    y = ls_module_call(self, "bn2", ls_module_call(self, "conv2", y));
    return ls_relu(ls_add(y, ls_module_child(self, "conv3") ? ls_module_call(self, "conv3", x) : x));
}

static ls_module *residual_block(ls_session *session, int channels, bool use_1x1conv, int strides)
{
    ls_module *block = ls_block(session, residual, NULL);
    ls_module_append(block, "conv1", ls_nn_conv2d(session, channels, 3, &(ls_conv){.padding = 1, .stride = strides}));
    ls_module_append(block, "bn1", ls_nn_batch_norm(session));
    ls_module_append(block, "conv2", ls_nn_conv2d(session, channels, 3, &(ls_conv){.padding = 1}));
    ls_module_append(block, "bn2", ls_nn_batch_norm(session));
    if (use_1x1conv)
        ls_module_append(block, "conv3", ls_nn_conv2d(session, channels, 1, &(ls_conv){.stride = strides}));
    return block;
}

ls_module *ls_resnet18(ls_session *session, int classes)
{
    LS_OWN_ENVIRONMENT;
    static const char *const names[] = {"resnet_block1", "resnet_block2", "resnet_block3", "resnet_block4"};
    ls_module *net = ls_sequential(session, LS_LIST(ls_nn_conv2d(session, 64, 3, &(ls_conv){.padding = 1}),
                                                    ls_nn_batch_norm(session), ls_nn_fn(session, ls_relu)));
    for (int i = 0; i < 4; i++) /* 64, 128, 256, 512 channels */
        ls_module_append(net, names[i],
                         ls_sequential(session, LS_LIST(residual_block(session, 64 << i, i > 0, i > 0 ? 2 : 1),
                                                        residual_block(session, 64 << i, false, 1))));
    ls_module_append(net, "global_avg_pool", ls_nn_fn(session, ls_global_avg_pool2d));
    ls_module_append(net, "fc",
                     ls_sequential(session, LS_LIST(ls_nn_fn(session, ls_flatten), ls_nn_linear(session, classes))));
    if (net)
        net->model = "resnet18";
    return ls_failed(session) ? NULL : net;
}

static const struct model {
    const char *name, *last_bias;
    ls_module *(*make)(ls_session *session, int classes);
} models[] = {{"lenet", "b4", ls_lenet_for}, {"resnet18", "fc.1.bias", ls_resnet18}};

static const struct model *find_model(const char *name)
{
    for (size_t i = 0; name && i < sizeof models / sizeof *models; i++)
        if (strcmp(name, models[i].name) == 0)
            return &models[i];
    return NULL;
}

const char *ls_model_last_bias(const char *model)
{
    const struct model *found = find_model(model);
    return found ? found->last_bias : NULL;
}

ls_module *ls_model_for(ls_session *session, const char *name, int classes)
{
    LS_OWN_ENVIRONMENT;
    if (!session || ls_failed(session))
        return NULL;
    const struct model *model = find_model(name);
    if (classes < 1) {
        ls_raise(&session->context, LS_BAD_ARGUMENT, "ls_model_for: %d classes; needs at least 1", classes);
        return NULL;
    }
    if (model)
        return model->make(session, classes);
    ls_raise(&session->context, LS_BAD_ARGUMENT, "model \"%s\" is not known; there are lenet and resnet18",
             name ? name : "(null)");
    return NULL;
}

ls_module *ls_model(ls_session *session, const char *name)
{
    LS_OWN_ENVIRONMENT;
    return ls_model_for(session, name, 10);
}
