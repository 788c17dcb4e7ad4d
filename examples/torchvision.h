/* torchvision's ResNets and VGG-11 with its names for all parts: layer1.0.conv1.weight, features.0.bias. So what
 * PyTorch saved of them loads by name. */
#ifndef EXAMPLES_TORCHVISION_H
#define EXAMPLES_TORCHVISION_H

#include <lockstep.h>
#include <lockstep_nn.h>

/* A block of two convolutions, or of three with a narrow one in the middle. */
static inline ls_tensor *residual_forward(ls_module *self, ls_tensor *x)
{
    ls_tensor *y = ls_relu(ls_module_call(self, "bn1", ls_module_call(self, "conv1", x)));
    y = ls_module_call(self, "bn2", ls_module_call(self, "conv2", y));
    if (ls_module_child(self, "conv3"))
        y = ls_module_call(self, "bn3", ls_module_call(self, "conv3", ls_relu(y)));
    return ls_relu(ls_add(y, ls_module_child(self, "downsample") ? ls_module_call(self, "downsample", x) : x));
}

static inline ls_module *convolution(ls_session *s, int channels, int kernel, int stride)
{
    return ls_nn_conv2d(s, channels, kernel, &(ls_conv){.stride = stride, .padding = kernel / 2, .no_bias = true});
}

static inline ls_module *residual(ls_session *s, int channels, int stride, bool narrow, bool downsample)
{
    const int out = narrow ? 4 * channels : channels;
    ls_module *block = ls_block(s, residual_forward, NULL);
    ls_module_append(block, "conv1", convolution(s, channels, narrow ? 1 : 3, narrow ? 1 : stride));
    ls_module_append(block, "bn1", ls_nn_batch_norm(s));
    ls_module_append(block, "conv2", convolution(s, channels, 3, narrow ? stride : 1));
    ls_module_append(block, "bn2", ls_nn_batch_norm(s));
    if (narrow) {
        ls_module_append(block, "conv3", convolution(s, out, 1, 1));
        ls_module_append(block, "bn3", ls_nn_batch_norm(s));
    }
    if (downsample)
        ls_module_append(block, "downsample",
                         ls_sequential(s, LS_LIST(convolution(s, out, 1, stride), ls_nn_batch_norm(s))));
    return block;
}

static const char *const resnet_layers[] = {"layer1", "layer2", "layer3", "layer4"};

static inline ls_tensor *resnet_forward(ls_module *self, ls_tensor *x)
{
    if (ls_dim(x, 1) == 1) /* a grey image has three equal colours */
        x = ls_concat((ls_tensor *[]){x, x, x}, 3);
    x = ls_relu(ls_module_call(self, "bn1", ls_module_call(self, "conv1", x)));
    x = ls_max_pool2d(x, &(ls_pool){.kernel = 3, .stride = 2, .padding = 1});
    for (int i = 0; i < 4; i++)
        x = ls_module_call(self, resnet_layers[i], x);
    return ls_module_call(self, "fc", ls_flatten(ls_global_avg_pool2d(x)));
}

/* ResNet-18 has {2, 2, 2, 2} blocks, ResNet-50 {3, 4, 6, 3} with a narrow middle. */
static inline ls_module *resnet(ls_session *s, const int blocks[4], bool narrow, int classes)
{
    ls_module *net = ls_block(s, resnet_forward, NULL);
    ls_module_append(net, "conv1", convolution(s, 64, 7, 2));
    ls_module_append(net, "bn1", ls_nn_batch_norm(s));
    for (int i = 0; i < 4; i++) { /* 64, 128, 256, 512 channels */
        ls_module *layer = ls_sequential(s, NULL);
        for (int k = 0; k < blocks[i]; k++)
            ls_module_append(layer, NULL,
                             residual(s, 64 << i, k == 0 && i > 0 ? 2 : 1, narrow, k == 0 && (i > 0 || narrow)));
        ls_module_append(net, resnet_layers[i], layer);
    }
    ls_module_append(net, "fc", ls_nn_linear(s, classes));
    return net;
}

static inline ls_tensor *vgg_forward(ls_module *self, ls_tensor *x)
{
    x = ls_adaptive_avg_pool2d(ls_module_call(self, "features", x), 7, 7);
    return ls_module_call(self, "classifier", ls_flatten(x));
}

/* torchvision's two layers before the last one are 4096 wide. */
static inline ls_module *vgg11(ls_session *s, int width, int classes)
{
    static const int channels[] = {64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0}; /* 0: a pool */
    ls_module *net = ls_block(s, vgg_forward, NULL), *features = ls_sequential(s, NULL);
    for (int i = 0; i < 13; i++) {
        ls_module_append(features, NULL,
                         channels[i] ? ls_nn_conv2d(s, channels[i], 3, &(ls_conv){.padding = 1})
                                     : ls_nn_max_pool2d(s, &(ls_pool){.kernel = 2}));
        if (channels[i])
            ls_module_append(features, NULL, ls_nn_fn(s, ls_relu));
    }
    ls_module_append(net, "features", features);
    ls_module_append(net, "classifier",
                     ls_sequential(s, LS_LIST(ls_nn_linear(s, width), ls_nn_fn(s, ls_relu), ls_nn_dropout(s, 0.5),
                                              ls_nn_linear(s, width), ls_nn_fn(s, ls_relu), ls_nn_dropout(s, 0.5),
                                              ls_nn_linear(s, classes))));
    return net;
}

#endif
