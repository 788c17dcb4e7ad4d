/* The table of one instruction set: the reference's kernels, and over them those of this folder. */
#include <pthread.h>
#include "device/cpu/lanes/table.h"

static ls_backend backend;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static size_t scratch(const ls_op_call *call)
{
    switch (call->attributes->op) {
    case LS_OP_CONV:
    case LS_OP_CONV_DATA:
        return LANES(ls_lanes_conv_scratch)(call);
    case LS_OP_CONV_WEIGHT:
        return LANES(ls_lanes_weight_scratch)(call);
    case LS_OP_WINOGRAD:
    case LS_OP_WINOGRAD_DATA:
        return LANES(ls_lanes_winograd_scratch)(call);
    case LS_OP_WINOGRAD_WEIGHT:
        return LANES(ls_lanes_winograd_weight_scratch)(call);
    default:
        return ls_backend_ref()->scratch ? ls_backend_ref()->scratch(call) : 0;
    }
}

static void fill(void)
{
    backend = *ls_backend_ref();
    backend.name = LANES_QUOTE(LANES_ISA);
    backend.scratch = scratch;
    LANES(ls_lanes_add_conv)(&backend);
    LANES(ls_lanes_add_weight)(&backend);
    LANES(ls_lanes_add_winograd)(&backend);
    LANES(ls_lanes_add_winograd_weight)(&backend);
    LANES(ls_lanes_add_norm)(&backend);
    LANES(ls_lanes_add_pool)(&backend);
    LANES(ls_lanes_add_pointwise)(&backend);
    LANES(ls_lanes_add_elementwise)(&backend);
    LANES(ls_lanes_add_features)(&backend);
    LANES(ls_lanes_add_dropout)(&backend);
    LANES(ls_lanes_add_loss)(&backend);
    LANES(ls_lanes_add_flat)(&backend);
    LANES(ls_lanes_add_peak)(&backend);
}

const ls_backend *LANES(ls_lanes)(void)
{
    pthread_once(&once, fill);
    return &backend;
}
