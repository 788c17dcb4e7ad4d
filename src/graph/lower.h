/* From a recorded tensor to a graph. Tracing lists what leads to the tensor, operands first, and describes it in a key:
 * equal keys are equal computations, whose plan can be replayed. Lowering writes that list down as a graph. */
#pragma once

#include "graph/graph.h"
#include "graph/record.h"

typedef struct ls_trace {
    ls_session *session;
    bool fresh;
    ls_tensor **order; /* operands before what they are operands of */
    int n, capacity, depth;
    uint64_t number;
    /* What the computation reads, in the order met: */
    ls_tensor *inputs[LS_MAX_INPUTS]; /* rows of floats; a batch's images that have no place in `images` */
    int n_inputs;
    ls_tensor **arrays; /* weights that are arrays */
    int n_arrays, arrays_capacity;
    ls_tensor *images; /* of a batch, as bytes */
    /* Those that are ids of an embedding, as they are or under another shape, are below the rows of its table; 0: they
     * are no ids. */
    int image_ids, input_ids[LS_MAX_INPUTS];
    ls_tensor *labels;
    int classes;        /* what the labels are below, */
    int labels_each;    /* how many an image has, */
    ls_ignored ignored; /* and which of them count nothing */
    ls_tensor *call;    /* of a network: the one that is computed. What others make is an input, as the host has it */
    ls_tensor **calls;  /* all that lead to the root, from those that no other leads to on; `call` is the last */
    int n_calls, calls_capacity;
    const char *failure; /* why it cannot be run, NULL when it can */
    uint32_t *key;
    int key_length, key_capacity; /* in words */
} ls_trace;

/* Lists what leads to `root`, but for what leads to other calls than the last one. With `fresh`, computations that were
 * run already are run again (a backward pass needs what was on the way); without, their numbers are an input. The trace
 * may be used again. */
ls_status ls_trace_run(ls_trace *trace, ls_tensor *root, bool fresh);
void ls_trace_free(ls_trace *trace);

/* The session's trace, made at the first call. */
ls_trace *ls_session_trace(ls_session *session);

typedef enum ls_wanted {
    LS_WANT_ROWS,     /* the root's numbers for each image: output 0 */
    LS_WANT_LOSS,     /* the root summed over the images; under a cross-entropy also how many images are right */
    LS_WANT_GRADIENT, /* and the gradients of what is tracked: of weights in the flat layout, of input k as output k */
    LS_WANT_PARAMETERS, /* those of weights alone */
    LS_WANT_INPUTS      /* those of inputs alone: the weights are constants */
} ls_wanted;

typedef struct ls_request {
    const ls_backend *backend;
    ls_wanted wanted;
    bool has_dy; /* the gradient of the root is the input after the trace's own; else it is that of a sum */
    ls_flat
        *flat; /* the network's; of a computation without one an empty one, which gets a view for each tracked array */
    bool training;
    bool together; /* BatchNorm's statistics are those of several shards, where no layer wants each shard's own */
} ls_request;

/* The graph, fused and where asked differentiated. Bit k of `flowing` is set where a gradient flows to input k. NULL
 * after a failure. */
ls_graph *ls_lower(const ls_trace *trace, const ls_request *request, unsigned *flowing);
