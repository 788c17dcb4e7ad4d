/* Named tensors as views on flat vectors: one vector of parameters, one of running statistics. Reduce and update are
 * then single passes, and a file or a fingerprint is a walk over the views.
 *
 * In the vector of parameters the trainable ones come first, and frozen ones behind them: gradients, moments and what
 * ranks exchange are as long as the trainable numbers. These are cut into buckets, contiguous runs whose gradient is
 * reduced as one; views never straddle two. */
#pragma once

#include "base/context.h"
#include "device/op.h"

enum { LS_BUCKET_FLOATS = 1 << 20 };

typedef struct ls_view {
    char *name;
    int rank;
    int64_t shape[LS_MAX_RANK];
    size_t offset, numbers; /* in floats, within its vector */
    bool trainable;         /* a parameter, else a running statistic, which is in the state vector */
    bool frozen;            /* neither trained nor moved: of a parameter, behind the trainable ones */
    bool joined;            /* directly behind the view before, without alignment */
    bool by_shard;          /* of a BatchNorm's weight: its statistics are each shard's own */
    double momentum;        /* of a running statistic: how far a use moves it; 0: it stays */
    int uses;               /* of a running statistic: how often a forward uses it, in training */
    uint64_t recorded;      /* the recording that counts its uses, and how many it has found (graph/record.c) */
    int found;
    bool by_another; /* no module has named it yet but others than its own */
    float fill;      /* the start of what is not drawn */
    bool drawn;      /* starts from the initialiser's distribution */
    float bound;     /* above 0: of a distribution of its own, uniform from -bound to bound */
    size_t fan_in, fan_out;
} ls_view;

/* What is called "first.*" may be called "other.*" too: a module with several places. */
typedef struct ls_alias {
    char *other, *first;
} ls_alias;

typedef struct ls_bucket {
    size_t begin, end;
} ls_bucket;

typedef struct ls_flat {
    ls_context *context;
    ls_view *views;
    int n_views, capacity;
    ls_alias *aliases;
    int n_aliases, aliases_capacity;
    size_t trainable, parameters; /* numbers that are trained; with the frozen ones behind them */
    size_t state;                 /* every block of either vector begins at a multiple of 16 */
    ls_bucket *buckets;
    int n_buckets;
    bool closed; /* no view can be added any more */
} ls_flat;

void ls_flat_init(ls_flat *flat, ls_context *context);
void ls_flat_destroy(ls_flat *flat);

/* Adds a view that is not frozen. Returns its number, -1 on failure. */
int ls_flat_add(ls_flat *flat, const char *name, int rank, const int64_t shape[], bool trainable, bool joined);
int ls_flat_find(const ls_flat *flat, const char *name); /* -1 where there is none */
/* The same by any of its names. */
ls_status ls_flat_alias(ls_flat *flat, const char *other, const char *first);
int ls_flat_find_by_any(const ls_flat *flat, const char *name);
/* Of the running statistics at that place of their vector. */
double ls_flat_momentum_at(const ls_flat *flat, size_t offset);

/* Ends the definition and lays the views out. */
ls_status ls_flat_close(ls_flat *flat);
/* Places every view anew, as what is frozen wants it, and cuts the buckets, in the order backward finishes them: from
 * the end of the trainable numbers. Of a closed one. Views that are joined are frozen together. */
void ls_flat_lay(ls_flat *flat);

/* Whether updates change it. */
static inline bool ls_is_trained(const ls_view *view)
{
    return view->trainable && !view->frozen;
}
