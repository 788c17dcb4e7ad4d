/* The LeNet of "Training on Multiple GPUs": explicit parameters W1, b1 .. W4, b4, two convolutions, two products. */
#include "base/environment.h"
#include "nn/module.h"

enum { LEAST = 14 /* high and wide; leaves one place of an image before the products */ };

static ls_tensor *lenet(ls_module *self, ls_tensor *x)
{
    if (ls_rank(x) == 4 && (ls_dim(x, 2) < LEAST || ls_dim(x, 3) < LEAST)) {
        ls_fail(ls_session_of(x), LS_BAD_SHAPE,
                "images of %lld x %lld are too small for lenet, which takes %d x %d and larger",
                (long long)ls_dim(x, 2), (long long)ls_dim(x, 3), LEAST, LEAST);
        return NULL;
    }
    const ls_pool halve = {.kernel = 2, .stride = 2};
    const int64_t classes = *(const int *)ls_module_user(self);
    ls_tensor *W1 = ls_module_parameter(self, "W1", LS_SHAPE(20, ls_dim(x, 1), 3, 3)),
              *b1 = ls_module_parameter(self, "b1", LS_SHAPE(20));
    ls_tensor *W2 = ls_module_parameter(self, "W2", LS_SHAPE(50, 20, 5, 5)),
              *b2 = ls_module_parameter(self, "b2", LS_SHAPE(50));
    ls_tensor *h1 = ls_avg_pool2d(ls_relu(ls_conv2d(x, W1, b1, NULL)), &halve);
    ls_tensor *h2 = ls_flatten(ls_avg_pool2d(ls_relu(ls_conv2d(h1, W2, b2, NULL)), &halve));
    const int64_t features = ls_dim(h2, 1); /* 800 of 28 x 28 places */
    ls_tensor *W3 = ls_module_parameter(self, "W3", LS_SHAPE(features, 128)),
              *b3 = ls_module_parameter(self, "b3", LS_SHAPE(128));
    ls_tensor *W4 = ls_module_parameter(self, "W4", LS_SHAPE(128, classes)),
              *b4 = ls_module_parameter(self, "b4", LS_SHAPE(classes));
    ls_tensor *h3 = ls_relu(ls_add(ls_matmul(h2, W3), b3));
    return ls_add(ls_matmul(h3, W4), b4);
}

ls_module *ls_lenet_for(ls_session *session, int classes)
{
    int *kept = ls_session_alloc(session, 1, sizeof *kept, "a network");
    if (!kept)
        return NULL;
    *kept = classes;
    ls_module *net = ls_block(session, lenet, kept);
    if (net) {
        net->model = "lenet";
        net->calls_children = false;
    }
    return net;
}

ls_module *ls_lenet(ls_session *session)
{
    LS_OWN_ENVIRONMENT;
    return session && !ls_failed(session) ? ls_lenet_for(session, 10) : NULL;
}
