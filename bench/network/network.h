/* The networks that bench_networks measures: each at one size, with what it is trained on. */
#ifndef BENCH_NETWORK_H
#define BENCH_NETWORK_H

#include <lockstep_nn.h>

typedef struct bench_network {
    const char *name;
    ls_module *(*build)(ls_session *s);
    ls_tensor *(*loss)(ls_module *net, const ls_batch *b);
    ls_shape row;    /* what it takes: (channels, height, width), (tokens, features), or (tokens) of ids */
    int symbols;     /* ids are below; 0: the numbers are from 0 to 1 */
    ls_shape target; /* of a row: rank 0 is a single label, else there is one for each place */
    int classes;
    int batch, shard;
    ls_init init;
    bool trains, infers; /* what it is measured at */
} bench_network;

/* Of images, with a label each. */
ls_tensor *bench_loss(ls_module *net, const ls_batch *b);

extern const bench_network bench_mobilenet_96, bench_resnet50_64, bench_resnet50_224, bench_resnet18_224,
    bench_vgg11_32, bench_unet_128, bench_transformer_256, bench_lstm_256;

#endif
