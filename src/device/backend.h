/* One way to compute the operations: a table of kernels. The reference fills every slot; a fast backend overrides
 * some. */
#pragma once

#include "device/op.h"
#include "device/update.h"

enum { LS_CHAINS = 8 };

typedef struct ls_backend {
    const char *name;
    ls_kernel *kernel[LS_OP_COUNT]; /* NULL: this backend has no such operation, and no plan with it */
    int exact;                      /* 1: its numbers are op.h's, to the bit */
    int group;                      /* images are laid out in groups of so many, the last one padded */
    int place;                      /* values in a plan's memory begin at multiples of so many floats */
    int reorders;                   /* 1: an image's numbers are not in C order, so that reshaping has to move them */
    int shifts;                     /* 1: a bias in front of a BatchNorm is the BatchNorm's shift */
    int accumulates;                /* 1: the gradient of a convolution's input may be added to another one */
    int clamps;                     /* 1: a clamp behind a BatchNorm may be part of it */
    int launches;                   /* 1: the user's own operations are those for cards */
    /* Bytes of a number of the activation that an operation makes as output k, or reads as operand k. NULL: 4. */
    size_t (*made)(ls_op op, int k), (*read)(ls_op op, int k);
    /* Bytes of scratch that a call needs; data pointers are not read. NULL: none ever. */
    size_t (*scratch)(const ls_op_call *call);
    /* Into how many parts a call may be cut at most, so that each is still worth a core's while; data pointers are not
     * read. NULL: into one. */
    int (*parts)(const ls_op_call *call);
    /* Of backends that compute in the host's memory; others have their executor's. */
    void (*add)(float *out, const float *a, const float *b, size_t n); /* out may be a or b */
    int (*sgd)(float *out, const float *w, float *v, const float *g, size_t n, const ls_sgd *how);
    int (*adam)(float *out, const float *w, float *m, float *v, const float *g, size_t n, const ls_adam *how);
    int (*average)(float *average, const float *out, size_t n, const ls_averaging *how);
    /* `rounds` fused multiply-adds in each of LS_CHAINS independent vectors of `lanes` numbers, in registers and
     * nothing else: what a core can do at most. The number returned depends on all of them. NULL: not measured. */
    float (*chains)(long rounds);
    int lanes;
} ls_backend;

/* An update by its rule's kernel. `moments` are those of the run's first weight; NULL where none are kept. */
int ls_backend_update(const ls_backend *backend, float *out, const float *w, float *moments, const float *g, size_t n,
                      const ls_update *how);

/* The specification. Every slot is filled. */
const ls_backend *ls_backend_ref(void);
