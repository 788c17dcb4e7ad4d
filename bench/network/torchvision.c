/* torchvision's networks, as the examples have them. */
#include "../../examples/torchvision.h"

#include "network.h"

ls_tensor *bench_loss(ls_module *net, const ls_batch *b)
{
    return ls_cross_entropy(ls_module_forward(net, b->X), b->y);
}

static ls_module *resnet18(ls_session *s)
{
    return resnet(s, (const int[]){2, 2, 2, 2}, false, 1000);
}

static ls_module *resnet50(ls_session *s)
{
    return resnet(s, (const int[]){3, 4, 6, 3}, true, 1000);
}

/* torchvision's 4096 between the linear layers are for a thousand classes of large pictures. */
static ls_module *vgg11_narrow(ls_session *s)
{
    return vgg11(s, 512, 10);
}

const bench_network bench_resnet18_224 = {.name = "resnet18-224",
                                          .build = resnet18,
                                          .loss = bench_loss,
                                          .row = {3, {3, 224, 224}},
                                          .classes = 1000,
                                          .batch = 32,
                                          .shard = 16,
                                          .init = {.kind = LS_HE},
                                          .infers = true};
const bench_network bench_resnet50_224 = {.name = "resnet50-224",
                                          .build = resnet50,
                                          .loss = bench_loss,
                                          .row = {3, {3, 224, 224}},
                                          .classes = 1000,
                                          .batch = 32,
                                          .shard = 16,
                                          .init = {.kind = LS_HE},
                                          .trains = true,
                                          .infers = true};
const bench_network bench_resnet50_64 = {.name = "resnet50-64",
                                         .build = resnet50,
                                         .loss = bench_loss,
                                         .row = {3, {3, 64, 64}},
                                         .classes = 1000,
                                         .batch = 64,
                                         .shard = 32,
                                         .init = {.kind = LS_HE},
                                         .trains = true};
const bench_network bench_vgg11_32 = {.name = "vgg11-32",
                                      .build = vgg11_narrow,
                                      .loss = bench_loss,
                                      .row = {3, {3, 32, 32}},
                                      .classes = 10,
                                      .batch = 128,
                                      .shard = 64,
                                      .init = {.kind = LS_HE},
                                      .trains = true};
