/* A module: a forward that records, children with names, and its place in the tree while it records. */
#pragma once

#include "graph/record.h"

typedef struct ls_child_entry {
    char *name;
    ls_module *module;
} ls_child_entry;

struct ls_module {
    ls_session *session; /* first: ls_session_of reads it */
    ls_forward *forward;
    void *user;
    ls_module *parent; /* NULL: a root, so far */
    const char *name;  /* its parent's, for it; of several places those of the first */
    uint64_t recorded; /* the number of the recording, or walk, that came to it last, */
    int uses;          /* and how often that recording has called it */
    ls_child_entry *children;
    int n_children, capacity;
    bool calls_children;                /* its forward can; a layer's cannot */
    const struct ls_freezing *freezing; /* of a root: what is frozen (nn/freezing.h); NULL: nothing */
    bool recompute;                     /* its results are not kept for the backward pass */
    const char *model;                  /* "lenet", "resnet18": what a file's metadata names; NULL for own networks */
    int channels, kernel; /* a layer's own options; channels: of GroupNorm its groups, of upsampling its factor,
                             of attention its heads */
    ls_conv conv;
    ls_linear_options linear;
    ls_pool pool;
    ls_attention_options attention;
    ls_norm norm; /* its eps and momentum as they are */
    ls_recurrent_options recurrent;
    bool takes_lengths; /* its forward looks at them: a recurrent layer, attention */
    ls_tensor *lengths; /* while its forward is called with them */
    int height, width;  /* what an adaptive pool gives; height: of an embedding its rows */
    ls_upsample_mode mode;
    double rate;
    ls_tensor *(*fn)(ls_tensor *);
    ls_tensor *(*fn_with)(ls_tensor *, double);
    double argument;            /* of fn_with */
    struct ls_network *network; /* of a root that was initialized (model/network.h) */
    const bool *defined;        /* with it: whether the parameters of all below are made, which nothing can join then */
};

/* Where a module is: "block.0", or "the network" of a root. */
enum { LS_MODULE_PATH = 256 };
const char *ls_module_path(const ls_module *module, char text[LS_MODULE_PATH]);

/* The outermost module around it. */
ls_module *ls_module_root(ls_module *module);
/* A further rule of what is frozen (nn/freezing.h), for names below the module. The root has it. */
ls_status ls_module_add_freezing(ls_module *module, const char *pattern, bool frozen);

/* Allocates a module; NULL after a failure of the session. */
ls_module *ls_module_new(ls_session *session, ls_forward *forward);

ls_module *ls_lenet_for(ls_session *session, int classes);
/* The last bias of one of the book's networks: as many numbers as there are classes. NULL for other names. */
const char *ls_model_last_bias(const char *model);

/* For makers of layers: LS_BAD_ARGUMENT with the message, NULL; and a parameter under the path of the module that
 * records now. */
ls_module *ls_bad_layer(ls_session *session, const char *message);
ls_tensor *ls_layer_parameter(ls_module *self, const char *name, ls_shape shape);

/* The shapes of a network's inputs, the images first; dim[0] is -1. */
typedef struct ls_input_shapes {
    int n;
    ls_shape at[LS_MAX_INPUTS];
} ls_input_shapes;

/* A forward that was recorded over inputs of such shapes: held, until released. */
typedef struct ls_recorded {
    ls_tensor *inputs[LS_MAX_INPUTS], *output;
} ls_recorded;

/* Records the root's forward over inputs of the given shapes. */
ls_status ls_module_record(ls_module *root, ls_flat *flat, bool training, const ls_input_shapes *shapes,
                           ls_recorded *recorded);
void ls_recorded_release(ls_recorded *recorded);
