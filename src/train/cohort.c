#include "train/cohort.h"

#include <string.h>

#include "cluster/cluster.h"
#include "device/norm_sums.h"
#include "model/replica.h"
#include "train/attempts.h"

enum { MOST_SHARED = 2 /* cohorts of a rank that are other ranks' too */ };

/* ---- Before a step ---- */

static const ls_plan *plan_of(const ls_step_job *step, const ls_microbatch *microbatch)
{
    return ls_plan_for(microbatch->feed->plan, step->trainer->network->engine->backends[0]);
}

int ls_cohorts_rooms(const struct ls_trainer *trainer, const ls_plan *plan, int shards, int mine)
{
    const int most = ls_shards_together(trainer->session, shards) + trainer->network->engine->n_cores;
    return plan->n_meetings == 0 ? 0 : most < mine ? most : mine;
}

/* The passes from number i on that are one batch. */
typedef struct joined {
    int end; /* the number of the next one that is not */
    int shards;
} joined;

static joined joined_from(const ls_step_job *step, int i)
{
    const bool all = step->trainer->session->options.batch_norm == -2;
    joined passes = {.end = i};
    do
        passes.shards += step->microbatches[passes.end++].feed->shards;
    while (all && passes.end < step->trainer->network->n_pending);
    return passes;
}

static int count_cohorts(const ls_step_job *step)
{
    int n = 0;
    for (int i = 0; i < step->trainer->network->n_pending;) {
        const joined passes = joined_from(step, i);
        const int each = ls_shards_together(step->trainer->session, passes.shards);
        n += (passes.shards + each - 1) / each;
        i = passes.end;
    }
    return n;
}

static bool any_meets(const ls_step_job *step)
{
    bool any = false;
    for (int i = 0; i < step->trainer->network->n_pending; i++)
        any |= plan_of(step, &step->microbatches[i])->n_meetings > 0;
    return any;
}

static size_t most_floats(const ls_plan *plan)
{
    size_t most = 0;
    for (int m = 0; m < plan->n_meetings; m++)
        most = plan->meetings[m].floats > most ? plan->meetings[m].floats : most;
    return most;
}

/* The cohorts' memory, where it is there already; returns how many floats it takes. */
static size_t lay(ls_cohorts *cohorts)
{
    size_t at = 0;
    for (int i = 0; i < cohorts->n; i++) {
        ls_cohort *cohort = &cohorts->at[i];
        cohort->totals = cohorts->memory ? cohorts->memory + at : NULL;
        at += cohort->plan->sums_floats;
        cohort->rows = cohorts->memory ? cohorts->memory + at : NULL;
        at += (size_t)(cohort->end - cohort->first) * most_floats(cohort->plan);
    }
    return at;
}

static void name_cohorts(ls_step_job *step)
{
    ls_cohorts *cohorts = &step->cohorts;
    int first = 0;
    cohorts->n = 0;
    for (int i = 0; i < step->trainer->network->n_pending;) {
        const joined passes = joined_from(step, i);
        const int end = first + passes.shards, each = ls_shards_together(step->trainer->session, passes.shards);
        for (; first < end; first += each) {
            ls_cohort *cohort = &cohorts->at[cohorts->n];
            *cohort = (ls_cohort){.plan = plan_of(step, &step->microbatches[i]),
                                  .first = first,
                                  .end = first + each < end ? first + each : end};
            const int mine_end = step->first + step->mine;
            cohort->mine = cohort->first > step->first ? cohort->first : step->first;
            cohort->mine_end = cohort->end < mine_end ? cohort->end : mine_end;
            for (int j = cohort->first; j < cohort->end; j++)
                cohorts->shards[j].cohort = cohorts->n;
            cohorts->n++;
        }
        first = end;
        i = passes.end;
    }
}

/* The kinds of devices lay their arenas out each in its way, and passes that are one batch may have other losses, but
 * all meet at the same places. */
static ls_status compare_meetings(ls_context *context, const ls_plan *a, const ls_plan *b)
{
    bool equal = a->n_meetings == b->n_meetings && a->sums_floats == b->sums_floats;
    for (int m = 0; equal && m < a->n_meetings; m++)
        equal = a->meetings[m].offset == b->meetings[m].offset && a->meetings[m].slopes == b->meetings[m].slopes;
    return equal ? LS_OK
                 : ls_raise(
                       context, LS_UNSUPPORTED,
                       "passes that do not call the same BatchNorms in the same order cannot share their statistics");
}

/* What a room for any shard of the step has to hold, and how many of them a memory has. */
static ls_status measure_rooms(const ls_step_job *step, ls_shard_rooms *needed)
{
    const struct ls_trainer *trainer = step->trainer;
    const ls_engine *engine = trainer->network->engine;
    for (int i = 0, begin = 0; i < trainer->network->n_pending; i++) {
        const ls_feed *feed = step->microbatches[i].feed;
        const joined passes = joined_from(step, begin);
        const ls_plan *first = plan_of(step, &step->microbatches[begin]);
        const int rooms = ls_cohorts_rooms(trainer, first, passes.shards, step->mine);
        begin = i + 1 == passes.end ? passes.end : begin;
        needed->each = rooms > needed->each ? rooms : needed->each;
        needed->sums_floats = first->sums_floats > needed->sums_floats ? first->sums_floats : needed->sums_floats;
        for (int k = 0; k < engine->n_backends; k++) {
            const ls_plan *plan = ls_plan_for(feed->plan, engine->backends[k]);
            needed->floats = plan->room_floats > needed->floats ? plan->room_floats : needed->floats;
            if (compare_meetings(&trainer->session->context, first, plan) != LS_OK)
                return LS_UNSUPPORTED;
        }
    }
    return LS_OK;
}

/* Grown here, and nowhere while steps are under way. Any shard may come to any memory, so that each has rooms for all
 * of a cohort. */
static ls_status reserve_rooms(ls_step_job *step)
{
    struct ls_trainer *trainer = step->trainer;
    const ls_shard_rooms *rooms = &trainer->rooms;
    ls_shard_rooms needed = {.each = rooms->each, .floats = rooms->floats, .sums_floats = rooms->sums_floats};
    if (measure_rooms(step, &needed) != LS_OK)
        return ls_status_of(trainer->session);
    needed.n = needed.each * (1 + trainer->network->n_replicas);
    if (needed.n == rooms->n && needed.floats == rooms->floats && needed.sums_floats == rooms->sums_floats)
        return LS_OK;
    ls_engine_wait(trainer->network->engine);
    return ls_attempts_make_rooms(trainer, &needed);
}

ls_status ls_cohorts_reserve(ls_step_job *step)
{
    ls_cohorts *cohorts = &step->cohorts;
    ls_context *context = &step->trainer->session->context;
    const int n = any_meets(step) ? count_cohorts(step) : 0;
    cohorts->n = 0;
    if (n == 0)
        return LS_OK;
    if (n > cohorts->capacity || step->shards > cohorts->shards_capacity) {
        ls_release(context, cohorts->at);
        ls_release(context, cohorts->shards);
        cohorts->capacity = cohorts->shards_capacity = 0;
        cohorts->at = ls_alloc(context, (size_t)n, sizeof *cohorts->at, "the shards that meet");
        cohorts->shards = ls_alloc(context, (size_t)step->shards, sizeof *cohorts->shards, "the shards that meet");
        if (!cohorts->at || !cohorts->shards)
            return LS_OUT_OF_MEMORY;
        cohorts->capacity = n;
        cohorts->shards_capacity = step->shards;
    }
    name_cohorts(step);
    const size_t floats = lay(cohorts);
    if (floats > cohorts->floats) {
        ls_release(context, cohorts->memory);
        cohorts->memory = ls_alloc(context, floats, sizeof *cohorts->memory, "the sums of shards that meet");
        cohorts->floats = cohorts->memory ? floats : 0;
    }
    lay(cohorts);
    return cohorts->memory ? reserve_rooms(step) : LS_OUT_OF_MEMORY;
}

void ls_cohorts_begin(ls_step_job *step)
{
    ls_cohorts *cohorts = &step->cohorts;
    cohorts->oldest = 0;
    atomic_store(&cohorts->ready, 0);
    for (int i = 0; i < cohorts->n; i++) {
        ls_cohort *cohort = &cohorts->at[i];
        cohort->met = cohort->arrived = cohort->finished = 0;
        atomic_store(&cohort->stage, LS_COHORT_ARRIVES);
    }
    for (int j = 0; j < step->shards && cohorts->n; j++)
        cohorts->shards[j] = (ls_cohort_shard){.cohort = cohorts->shards[j].cohort, .room = -1};
}

/* ---- Who goes on with what ---- */

/* The one that a worker computes in, by its number among the rooms'. */
static int memory_of(const ls_step_job *step, const ls_worker *worker)
{
    const ls_network *network = step->trainer->network;
    const ls_replica *copy = ls_replica_of(network, worker->turn);
    return copy ? 1 + (int)(copy - network->replicas) : 0;
}

static bool suits(const ls_step_job *step, const ls_worker *worker, int shard)
{
    int local;
    const ls_device device = ls_step_microbatch(step, shard, &local)->device;
    return device.type == LS_HOST || ls_same_device(device, worker->device) || atomic_load(&worker->engine->n_lost);
}

static bool can_go_on(const ls_cohorts *cohorts, int shard)
{
    const ls_cohort_shard *s = &cohorts->shards[shard];
    return s->state == LS_SHARD_ASIDE && s->passed <= cohorts->at[s->cohort].met;
}

/* Shards of cohorts before this one that have lost their rooms, and for which that many are left free. */
static int without_room(const ls_cohorts *cohorts, int end)
{
    int n = 0;
    for (int i = cohorts->oldest; i < end; i++)
        for (int j = cohorts->at[i].mine; j < cohorts->at[i].mine_end; j++)
            n += cohorts->shards[j].state == LS_SHARD_ASIDE && cohorts->shards[j].room < 0;
    return n;
}

/* Whether the shard lies in this memory, or may have a room there. */
static bool has_place(const ls_step_job *step, int shard, int memory)
{
    const ls_shard_rooms *rooms = &step->trainer->rooms;
    const ls_cohort_shard *s = &step->cohorts.shards[shard];
    if (s->room >= 0)
        return ls_memory_of_room(rooms, s->room) == memory;
    return rooms->n_free[memory] > without_room(&step->cohorts, s->cohort);
}

/* Of the first cohort that has shards to begin. */
static int choose_new(const ls_step_job *step, const ls_worker *worker)
{
    const ls_cohorts *cohorts = &step->cohorts;
    const int memory = memory_of(step, worker);
    int cohort = -1;
    for (int i = 0; i < step->mine; i++) {
        const int j = step->pulls.order[i];
        const ls_cohort_shard *s = &cohorts->shards[j];
        if (s->state != LS_SHARD_NEW)
            continue;
        cohort = cohort < 0 ? s->cohort : cohort;
        if (s->cohort == cohort && suits(step, worker, j) && has_place(step, j, memory))
            return j;
    }
    return -1;
}

int ls_cohorts_choose(const ls_step_job *step, const ls_worker *worker)
{
    const ls_cohorts *cohorts = &step->cohorts;
    const int memory = memory_of(step, worker);
    for (int i = cohorts->oldest; i < cohorts->n && atomic_load(&cohorts->ready) > 0; i++)
        for (int j = cohorts->at[i].mine; j < cohorts->at[i].mine_end; j++)
            if (can_go_on(cohorts, j) && suits(step, worker, j) && has_place(step, j, memory))
                return j;
    return atomic_load(&step->pulls.next) < step->mine ? choose_new(step, worker) : -1;
}

int ls_cohorts_take(ls_step_job *step, const ls_worker *worker, int shard)
{
    ls_shard_rooms *rooms = &step->trainer->rooms;
    ls_cohort_shard *s = &step->cohorts.shards[shard];
    if (s->room < 0) {
        const int memory = memory_of(step, worker);
        s->room = rooms->free[memory * rooms->each + --rooms->n_free[memory]];
    }
    if (s->state == LS_SHARD_NEW)
        atomic_fetch_add(&step->pulls.next, 1);
    else
        atomic_fetch_sub(&step->cohorts.ready, 1);
    s->state = LS_SHARD_RUNS;
    return s->room;
}

static void give_back(ls_shard_rooms *rooms, ls_cohort_shard *s)
{
    const int memory = ls_memory_of_room(rooms, s->room);
    rooms->free[memory * rooms->each + rooms->n_free[memory]++] = s->room;
    s->room = -1;
}

/* Shards of younger cohorts that are put aside give their rooms up too: so there are rooms for all of the oldest one.
 */
void ls_cohorts_lose(ls_step_job *step, const ls_worker *worker, ls_attempt *t)
{
    ls_cohorts *cohorts = &step->cohorts;
    ls_shard_rooms *rooms = &step->trainer->rooms;
    const int lost = memory_of(step, worker);
    for (int j = step->first; j < step->first + step->mine; j++) {
        ls_cohort_shard *s = &cohorts->shards[j];
        if (s->state == LS_SHARD_ASIDE && s->room >= 0 &&
            (s->cohort > cohorts->oldest || ls_memory_of_room(rooms, s->room) == lost))
            give_back(rooms, s);
    }
    cohorts->shards[t->shard].state = LS_SHARD_ASIDE;
    cohorts->shards[t->shard].room = -1;
    atomic_fetch_add(&cohorts->ready, 1);
    rooms->n_free[lost] = 0;
    atomic_store(&t->step, NULL);
}

void ls_cohorts_finish(ls_step_job *step, const ls_attempt *t)
{
    ls_cohorts *cohorts = &step->cohorts;
    ls_cohort_shard *s = &cohorts->shards[t->shard];
    ls_shard_rooms *rooms = &step->trainer->rooms;
    s->room = t->room;
    give_back(rooms, s);
    s->state = LS_SHARD_DONE;
    cohorts->at[s->cohort].finished++;
    while (cohorts->oldest < cohorts->n &&
           cohorts->at[cohorts->oldest].finished >=
               cohorts->at[cohorts->oldest].mine_end - cohorts->at[cohorts->oldest].mine)
        cohorts->oldest++;
}

/* ---- Runs, and meetings ---- */

static ls_cohort *cohort_of(const ls_step_job *step, int shard)
{
    return &step->cohorts.at[step->cohorts.shards[shard].cohort];
}

/* One shard alone meets nobody: its sums are the totals. */
static bool is_alone(const ls_cohort *cohort)
{
    return cohort->end - cohort->first == 1;
}

void ls_cohorts_bind(const ls_step_job *step, const ls_attempt *t, const ls_plan *plan, ls_executor *executor,
                     ls_bindings *bindings)
{
    const ls_cohort *cohort = cohort_of(step, t->shard);
    const ls_shard_room *room = &step->trainer->rooms.at[t->room];
    const ls_meeting *meetings = plan->meetings;
    const int from = t->anew ? 0 : t->passed;
    const bool last = is_alone(cohort) || t->passed == plan->n_meetings;
    bindings->base[LS_IN_ROOM] = room->arena;
    bindings->base[LS_IN_SUMS] = room->sums;
    bindings->base[LS_IN_TOTALS] = is_alone(cohort) ? room->sums : room->totals ? room->totals : cohort->totals;
    bindings->from = from ? meetings[from - 1].step : 0;
    bindings->to = last ? 0 : meetings[t->passed].step;
    if (room->row_there) {
        bindings->base[LS_IN_STATISTICS] = room->row_there;
        bindings->base[LS_IN_METRICS] = room->row_there + step->trainer->network->flat.state;
    }
    if (room->gradient)
        bindings->base[LS_IN_GRADIENTS] = room->gradient;
    for (int m = t->anew ? 0 : from - 1; room->totals && m >= 0 && m < t->passed; m++)
        executor->type->memory.put(executor, room->totals + meetings[m].offset, cohort->totals + meetings[m].offset,
                                   meetings[m].floats * sizeof(float));
}

void ls_cohorts_bring(const ls_step_job *step, const ls_attempt *t, ls_executor *executor, size_t row)
{
    const ls_cohort *cohort = cohort_of(step, t->shard);
    const ls_shard_room *room = &step->trainer->rooms.at[t->room];
    const ls_meeting *meeting = &cohort->plan->meetings[t->passed];
    if (!row)
        executor->type->memory.get(executor, room->sums_here + meeting->offset, room->sums + meeting->offset,
                                   meeting->floats * sizeof(float));
    else
        executor->type->memory.get(executor, room->row, room->row_there, row * sizeof(float));
}

/* All sums are there. */
static void add_up(const ls_cohort *cohort)
{
    const ls_meeting *meeting = &cohort->plan->meetings[cohort->met];
    const int n = cohort->end - cohort->first;
    ls_partition_sum(0, n, n, NULL, cohort->rows, meeting->floats, meeting->slopes ? ls_norm_add : ls_norm_merge);
    memcpy(cohort->totals + meeting->offset, cohort->rows, meeting->floats * sizeof(float));
}

/* The totals are there. The step's lock is held. */
static void go_on(ls_step_job *step, ls_cohort *cohort)
{
    cohort->arrived = 0;
    cohort->met++;
    atomic_fetch_add(&step->cohorts.ready, cohort->mine_end - cohort->mine);
    pthread_cond_broadcast(&step->changed);
    ls_count_work(&step->trainer->session->context);
}

void ls_cohorts_arrive(ls_step_job *step, const ls_attempt *t)
{
    ls_cohort *cohort = cohort_of(step, t->shard);
    const ls_meeting *meeting = &cohort->plan->meetings[t->passed];
    ls_cohort_shard *s = &step->cohorts.shards[t->shard];
    const ls_shard_room *room = &step->trainer->rooms.at[t->room];
    memcpy(cohort->rows + (size_t)(t->shard - cohort->first) * meeting->floats,
           (room->sums_here ? room->sums_here : room->sums) + meeting->offset, meeting->floats * sizeof(float));
    s->room = t->room;
    s->passed++;
    s->state = LS_SHARD_ASIDE;
    if (++cohort->arrived < cohort->mine_end - cohort->mine)
        return;
    if (cohort->mine_end - cohort->mine < cohort->end - cohort->first) {
        atomic_store(&cohort->stage, LS_COHORT_SENDS);
        return;
    }
    pthread_mutex_unlock(&step->lock);
    add_up(cohort);
    pthread_mutex_lock(&step->lock);
    go_on(step, cohort);
}

/* ---- Among ranks ---- */

int ls_cohorts_slots(const ls_step_job *step)
{
    return ls_cohorts_are_on(step) ? MOST_SHARED * 2 * step->partition.parts : 0;
}

/* The cohorts of this rank that are others' too: of its first shard, and of its last; -1 where there is none. */
static int shared(const ls_step_job *step, int which)
{
    const ls_cohorts *cohorts = &step->cohorts;
    if (!ls_cohorts_are_on(step) || !step->mine)
        return -1;
    const int first = cohorts->shards[step->first].cohort, last = cohorts->shards[step->first + step->mine - 1].cohort,
              number = which ? last : first;
    const ls_cohort *cohort = &cohorts->at[number];
    const bool whole = cohort->mine == cohort->first && cohort->mine_end == cohort->end;
    return whole || (which && first == last) ? -1 : number;
}

/* Each of these ranks tells all others. */
static bool exchange(const ls_step_job *step, const ls_cohort *cohort, const ls_wire *wire, int slot)
{
    const ls_groups *groups = &step->trainer->groups;
    const size_t floats = cohort->plan->meetings[cohort->met].floats;
    ls_posting posting = {
        .wire = wire, .slot = slot, .tag = LS_TAG_STEP + 2 * step->trainer->network->flat.n_buckets, .good = true};
    for (int p = 0; p < step->partition.parts; p++) {
        const int begin = step->partition.begin[p], end = step->partition.begin[p + 1];
        const int first = begin > cohort->first ? begin : cohort->first, last = end < cohort->end ? end : cohort->end;
        if (p == groups->place || first >= last)
            continue;
        ls_post_receive(&posting, groups->rank[p], cohort->rows + (size_t)(first - cohort->first) * floats,
                        (size_t)(last - first) * floats * sizeof(float));
        ls_post_send(&posting, groups->rank[p], cohort->rows + (size_t)(cohort->mine - cohort->first) * floats,
                     (size_t)(cohort->mine_end - cohort->mine) * floats * sizeof(float));
    }
    return posting.good;
}

int ls_cohorts_advance(ls_step_job *step, const ls_wire *wire, int first_slot)
{
    const int slots = 2 * step->partition.parts;
    int moved = 0;
    for (int which = 0; which < MOST_SHARED; which++) {
        const int number = shared(step, which), slot = first_slot + which * slots;
        ls_cohort *cohort = number < 0 ? NULL : &step->cohorts.at[number];
        if (cohort && atomic_load(&cohort->stage) == LS_COHORT_SENDS) {
            if (!exchange(step, cohort, wire, slot))
                return -1;
            atomic_store(&cohort->stage, LS_COHORT_WAITS);
            moved = 1;
        }
        const int there =
            cohort && atomic_load(&cohort->stage) == LS_COHORT_WAITS ? wire->test(wire->user, slot, slots) : 0;
        if (there < 0)
            return -1;
        if (there > 0) {
            atomic_store(&cohort->stage, LS_COHORT_ARRIVES);
            add_up(cohort);
            pthread_mutex_lock(&step->lock);
            go_on(step, cohort);
            pthread_mutex_unlock(&step->lock);
            moved = 1;
        }
    }
    return moved;
}

bool ls_cohorts_under_way(const ls_step_job *step)
{
    bool any = false;
    for (int which = 0; which < MOST_SHARED; which++) {
        const int number = shared(step, which);
        any |= number >= 0 && atomic_load(&step->cohorts.at[number].stage) != LS_COHORT_ARRIVES;
    }
    return any;
}
