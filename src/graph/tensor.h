/* What a program holds in its hand: an array on a device, images or labels of a batch, a network's output, or a
 * computation of such that was recorded and not run yet. Recording builds these one from the other; lowering
 * (graph/lower.h) turns what leads to one of them into a graph. A module's forward records them too, over an input
 * whose number of images is not known yet.
 *
 * Handles belong to the innermost open scope, and are counted: a computation holds its operands. */
#pragma once

#include "base/session.h"
#include "device/op.h"
#include "tensor/array.h"

typedef enum ls_tensor_kind {
    LS_TENSOR_INPUT,     /* the images, or another input, that a module's forward is recorded over */
    LS_TENSOR_PARAMETER, /* of the network being recorded: a view of its flat layout */
    LS_TENSOR_COMPUTED,  /* `attributes.op` of `in`; LS_OP_COUNT: in[0]'s numbers under another shape */
    LS_TENSOR_ARRAY,     /* numbers on a device */
    LS_TENSOR_GRADIENT,  /* the gradient of in[0] */
    LS_TENSOR_IMAGES,    /* of a batch of a data set; runs of its samples */
    LS_TENSOR_LABELS,
    LS_TENSOR_CALL,   /* what `network` makes of `in` */
    LS_TENSOR_NETWORK /* a parameter of `network` as it is on a device; or its gradient */
} ls_tensor_kind;

typedef enum ls_fold { LS_NOT_FOLDED, LS_FOLD_SUM, LS_FOLD_MEAN } ls_fold; /* of a computed scalar: over the images */
typedef enum ls_freshness { LS_EMPTY, LS_FRESH, LS_CONSUMED } ls_freshness;

/* A label that counts nothing. */
typedef struct ls_ignored {
    bool there;
    int64_t label;
} ls_ignored;

/* The samples of one batch, shared by the tensors made from it. */
typedef struct ls_sample_list {
    const void *images; /* as in ls_samples */
    bool floats;
    const uint8_t *labels; /* as bytes, or */
    const int32_t *wide_labels;
    size_t image_bytes; /* of all images there */
    ls_counted *owner;  /* of those */
    ls_array *index;    /* sample numbers, as bits */
    ls_array *changes;  /* an ls_change for each, as bits; NULL: the images come as they are */
    float edge;         /* what a change shifts in */
} ls_sample_list;

void ls_samples_hold(const ls_sample_list *list);
void ls_samples_drop(const ls_sample_list *list); /* from any thread; an empty list is fine */

/* The sample number at place i of a list; a list without an index is the data set in file order. */
uint32_t ls_sample_at(const ls_sample_list *list, int64_t i);
static inline bool ls_has_labels(const ls_sample_list *list)
{
    return list->labels || list->wide_labels;
}

static inline int32_t ls_label_at(const ls_sample_list *list, int64_t i)
{
    const uint32_t sample = ls_sample_at(list, i);
    return list->wide_labels ? list->wide_labels[sample] : list->labels[sample];
}
/* The change of the image at place i of a list that has changes. */
enum { LS_CHANGE_NUMBERS = sizeof(ls_change) / sizeof(float) };
ls_change ls_change_at(const ls_sample_list *list, int64_t i);

struct ls_tensor {
    ls_session *session; /* first in every object with a session: ls_session_of reads it */
    ls_tensor_kind kind; /* says which member of the union below there is */
    int holders;
    bool scoped; /* one of the holders is a scope */
    int held;    /* by the caller, who is one of the holders where this is above 0: ls_hold */
    struct ls_tensor *next;
    struct ls_tensor **held_at; /* what points to it in the list of those that are held */
    ls_shape shape;             /* dim[0] is -1 under a module's forward: any number of images */
    ls_device device;
    bool needs_gradient;
    ls_fold fold;
    const char *name; /* for messages; "" without one. Of base/names.h: dropped with the tensor */
    char *text;       /* of ls_str */

    ls_tensor *in[LS_MAX_IN];   /* operands; of a call its inputs; of a gradient what it is of */
    ls_array *array;            /* the numbers; of what is computed or read once that was done */
    size_t offset;              /* the first one's place in the array */
    struct ls_network *network; /* of a call, and of a network's parameter */
    int view; /* in a network's flat layout: a parameter's, of a BatchNorm that of its running mean; else -1 */

    uint64_t trace;         /* the tracing that saw this tensor last, and what became of it there */
    int traced, trace_role; /* its place in the order; how it is used */
    struct ls_value *value;

    union {
        struct {
            ls_attributes attributes;
            uint64_t version[LS_MAX_IN]; /* of the operands' arrays when this was recorded */
            const char *layer;
            int block;          /* of the recording, whose results are not kept for the backward pass; 0: of none */
            ls_ignored ignored; /* of a cross-entropy of labels */
            bool detached;      /* no gradient goes through it */
        } computed;             /* LS_TENSOR_COMPUTED */
        struct ls_flat *layout; /* LS_TENSOR_PARAMETER: where its view is */
        int input;              /* LS_TENSOR_INPUT: its number */
        struct {
            ls_array *gradient; /* NULL unless it is tracked */
            ls_freshness freshness;
        } tracking; /* LS_TENSOR_ARRAY */
        struct {
            ls_sample_list list;
            int64_t first; /* of the tensor's samples in the list */
        } batch;           /* LS_TENSOR_IMAGES, LS_TENSOR_LABELS */
        struct ls_forward {
            ls_tensor *inputs[LS_MAX_INPUTS], *output; /* as the module's forward recorded them */
            struct ls_flat *flat;                      /* the layout of the network's parameters */
            uint64_t version;                          /* of the network's values */
            bool training;                             /* the mode */
        } forward;                                     /* LS_TENSOR_CALL */
        const uint64_t
            *changes; /* LS_TENSOR_NETWORK: how often the network's values were changed; NULL of a gradient */
    };
};

static inline bool ls_is_tracked(const ls_tensor *tensor)
{
    return tensor->kind == LS_TENSOR_ARRAY && tensor->tracking.gradient;
}

typedef struct ls_tensors {
    ls_session *session;
    ls_arrays arrays;
    ls_tensor *free;
    struct ls_scope {
        ls_tensor *members;
        const ls_owned *owned; /* what the session owned when the scope opened */
        const ls_data *batch;  /* whose batch it is: it holds tensors alone. NULL: one that was entered */
    } * scopes;
    int depth, capacity;
    ls_tensor *held;       /* by the caller, in no scope */
    struct ls_slab *slabs; /* all handles there are */
    uint64_t traces;
} ls_tensors;

ls_tensors *ls_tensors_of(ls_session *session); /* made at the first call; NULL when memory runs out */
void ls_tensors_free(ls_session *session);

/* A handle in the innermost scope, NULL after any failure of the session. */
ls_tensor *ls_tensor_new(ls_session *session, ls_tensor_kind kind, const ls_shape *shape, ls_device device);
ls_tensor *ls_tensor_hold(ls_tensor *tensor);
void ls_tensor_drop(ls_tensor *tensor); /* NULL is fine */
/* Gives it a name, for as long as it is there. */
void ls_tensor_call(ls_tensor *tensor, const char *name);

/* Takes the network from what was made with it and outlives it: such tensors are LS_STALE from now on. */
void ls_tensors_forget(ls_session *session, const struct ls_network *network);

/* Scopes by number: opening gives one, closing it closes those inside it too. */
int ls_scope_open(ls_session *session, const ls_data *batch);           /* -1 after a failure */
int ls_scope_of_batch(const ls_session *session, const ls_data *batch); /* -1 where none is open */
void ls_scope_close(ls_session *session, int scope);
/* Frees what the session owns before its scope is left, and ends the batch of data; false, and nothing is done, where
 * the session does not own it, or another object needs it. */
bool ls_end_owned(ls_session *session, const void *object);

/* False with LS_STALE for a tensor of a network that is gone. */
bool ls_has_network(const ls_tensor *tensor, const char *function);
/* NULL after a failure, unless the tensor is there, outside a forward, and its network still has values. */
ls_session *ls_value_session(const ls_tensor *tensor, const char *function);
/* The same for a list, none of which may be NULL. */
ls_session *ls_values_session(ls_tensor *const tensors[], int n, const char *function);
/* An array as a tensor in the innermost scope; takes over the caller's hold, also when it fails. */
ls_tensor *ls_tensor_of_array(ls_session *session, ls_array *array, const ls_shape *shape);
/* The array of a tensor that has numbers; its first one is at tensor->offset. Not to be dropped. */
ls_array *ls_array_of(const ls_tensor *tensor);

/* How a tensor's numbers look to an operation on images. */
int64_t ls_shape_numbers(const ls_shape *shape);
int64_t ls_shape_image(const ls_shape *shape, int *c, int *h, int *w); /* numbers of one image */
/* A weight's shape as it stands behind the images of a tensor of that rank: its last size meets the last one there,
 * what it lacks in front is 1; of rank 1 it meets the channels, or with an axis of 1 or 2 what is behind them. dim[0]
 * is 1. */
ls_shape ls_shape_behind_images(const ls_shape *weight, int rank, int axis);
bool ls_same_shape(const ls_shape *a, const ls_shape *b);

bool ls_same_device(ls_device a, ls_device b);
const char *ls_tensor_name(const ls_tensor *tensor, char text[96]); /* for messages: W1 on cpu(0) */
