/* Computations met before, and how one is run over images: cut into shards, each by the same plan, whoever computes
 * it. */
#pragma once

#include "exec/turn.h"
#include "graph/lower.h"

typedef struct ls_program {
    struct ls_program *next;
    ls_session *session;
    uint32_t *key;
    int key_length;
    struct ls_network *network; /* whose weights it reads; NULL: it reads arrays alone */
    ls_wanted wanted;
    bool has_dy;
    ls_flat own_flat;   /* of the tracked arrays' gradients, where there is no network */
    ls_plan *plan;      /* the newest; at least one for each backend that computed it */
    unsigned flowing;   /* bit k: output k is the gradient of input k */
    int output_numbers; /* of one image, where rows are wanted */
    atomic_int feeds;   /* that run it: as long it stays */
} ls_program;

/* The program of a trace, for shards of up to `images`, made where it was not met before, with a plan for each of the n
 * backends; where it calls a network those are its devices' (ls_network_program). It stays until the next call of this
 * function, or as long as a feed is made from it. NULL after a failure. */
ls_program *ls_program_of(ls_trace *trace, ls_wanted wanted, bool has_dy, int images,
                          const ls_backend *const backends[], int n);
void ls_programs_free(ls_session *session, const struct ls_network *network); /* NULL: all */

/* What one run of a program reads: the operands of the trace it was made from, held by count. */
typedef struct ls_feed {
    struct ls_feed *next_feed;
    ls_program *program;
    const ls_plan *plan; /* the newest when it was handed in: the cores have room for those */
    int64_t rows;
    int shard, shards;
    ls_sample_list images, labels; /* index NULL where not from a batch */
    int64_t first_image, first_label;
    ls_array *label_array;
    size_t label_offset;
    int classes, labels_each;
    ls_ignored ignored;
    int counts;         /* of an image, in what a step's sum is divided by, unless */
    bool counts_labels; /* its labels do, those that are not ignored, each as much as its class weighs: */
    int class_weights;  /* that array's number, or -1 */
    ls_array *inputs[LS_MAX_INPUTS];
    size_t input_offset[LS_MAX_INPUTS], input_numbers[LS_MAX_INPUTS];
    int n_inputs;
    int image_ids, input_ids[LS_MAX_INPUTS]; /* as in the trace */
    size_t image_numbers;                    /* of one, where they are ids */
    ls_array **arrays;
    size_t *array_offsets;
    float **pointers; /* of `arrays`, once they are written */
    int n_arrays, arrays_capacity;
    float one;
} ls_feed;

/* A feed for a program of that trace, over `rows` images. dy, the gradient of the root, may be NULL. Operands must have
 * been run (ls_trace_ready); those that do not lie where `device` computes are copied there. Of a network, whose
 * shards any of its devices may compute, that is the host. NULL after a failure. */
ls_feed *ls_feed_new(ls_program *program, const ls_trace *trace, int64_t rows, ls_tensor *dy, ls_device device);
void ls_feed_give(ls_feed *feed); /* from any thread, after its last use */
void ls_feeds_free(ls_session *session);

/* How often the arrays it reads were changed, and whether it reads any; marks them as read by a step where asked to. */
bool ls_feed_changes(ls_feed *feed, bool in_step, uint64_t *changes);

/* Once all operands are written, before the first shard. */
void ls_feed_locate(ls_feed *feed);

/* By which a core runs the feed's shards. */
static inline const ls_plan *ls_feed_plan(const ls_feed *feed, const ls_turn *turn)
{
    return ls_plan_for(feed->plan, turn->executor->backend);
}

static inline int ls_feed_count(const ls_feed *feed, int j)
{
    int64_t left = feed->rows - (int64_t)j * feed->shard;
    return left < feed->shard ? (int)left : feed->shard;
}

/* What shard j counts in the mean that a step makes. Its labels must be written. */
double ls_feed_counted(const ls_feed *feed, int j);

/* Hands shard j in at a core whose turn it is, as ls_plan_run. The caller sets the weights, state, gradients,
 * statistics, metrics and outputs of `bindings`. */
bool ls_feed_run(const ls_feed *feed, int j, ls_turn *turn, ls_bindings *bindings, uint64_t step,
                 void (*whole)(void *user, int bucket), void *user);
