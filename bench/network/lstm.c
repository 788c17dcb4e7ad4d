/* One layer, one way, over series of equal length: what PyTorch has a fast path for. The example's goes both ways, and
 * its series have lengths. */
#include "network.h"

static ls_module *build(ls_session *s)
{
    return ls_sequential(s,
                         LS_LIST(ls_nn_lstm_with(s, 256, &(ls_recurrent_options){.last = true}), ls_nn_linear(s, 10)));
}

const bench_network bench_lstm_256 = {.name = "lstm-256",
                                      .build = build,
                                      .loss = bench_loss,
                                      .row = {2, {64, 256}},
                                      .classes = 10,
                                      .batch = 128,
                                      .shard = 64,
                                      .init = {.kind = LS_XAVIER},
                                      .trains = true};
