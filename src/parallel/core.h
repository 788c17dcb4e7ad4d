/* The cores of the process's affinity mask as places to compute: devices that share a core take turns on it by whole pieces of
 * work, and share its arena, so that their number costs no memory. */
#ifndef LS_PARALLEL_CORE_H
#define LS_PARALLEL_CORE_H

#include "graph/plan.h"

typedef struct ls_core {
    ls_context *context;
    struct ls_core *next_core;
    int number; /* in the affinity mask */
    pthread_mutex_t lock;
    pthread_cond_t turn;
    unsigned next, serving; /* tickets: turns are taken in the order asked for */
    /* Room for one shard of the largest plan; used by whoever has the turn. */
    float *arena;
    void *scratch;
    uint32_t *index; /* sample numbers and labels of the shard */
    uint8_t *labels;
    float *sums; /* for ls_tree_sum */
    size_t arena_floats, scratch_bytes, shard_images;
} ls_core;

/* The core that `cpu:index` runs on, made at the first call; NULL when memory runs out. */
ls_core *ls_core_of(ls_session *session, int index);
void ls_cores_free(ls_session *session);

/* Waits for the core's turn, then gives it room for `plan`. */
ls_status ls_core_reserve(ls_core *core, const ls_plan *plan);

void ls_core_enter(ls_core *core);
void ls_core_leave(ls_core *core);

#endif
