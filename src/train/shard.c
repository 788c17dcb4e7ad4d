#include "train/shard.h"

#include <math.h>
#include <string.h>

#include "base/timer.h"
#include "cluster/cluster.h"
#include "device/devices.h"
#include "model/replica.h"
#include "train/measure.h"
#include "train/pull.h"
#include "train/attempts.h"
#include "train/cohort.h"

/* ---- Buffers for partial gradients ---- */

static void free_buffer(void *user, int buffer)
{
    struct ls_trainer *trainer = user;
    trainer->free_buffers[trainer->n_free++] = buffer;
}

/* Sums a finished subtree into its first buffer, with the lock released meanwhile. */
static void fold(ls_step_job *step, int node, ls_executor *executor)
{
    struct ls_trainer *trainer = step->trainer;
    const size_t n = trainer->network->flat.trainable;
    int into = ls_tree_begin_fold(&step->gradients.tree, node);
    pthread_mutex_unlock(&step->lock);
    ls_partials from = {.buffers = trainer->pool};
    ls_terms terms = ls_tree_terms(&step->gradients.tree, node, &from, n, executor);
    int mark = ls_gpu_trace_mark(executor);
    executor->type->compute.sum(executor, &terms, trainer->pool[into], n);
    ls_gpu_trace_note(executor, mark, LS_SPAN_CARD_SUM, -1, NULL);
    pthread_mutex_lock(&step->lock);
    ls_tree_end_fold(&step->gradients.tree, node, into, free_buffer, trainer);
    pthread_cond_broadcast(&step->changed);
}

/* For something to change; whether a device is late changes by itself. */
static void await_change(ls_step_job *step)
{
    ls_timed_cond_wait(&step->changed, &step->lock, 0.1);
}

static bool stand_in(ls_step_job *step, ls_worker *worker, bool waiting, int *finished);

/* Begins an attempt at shard j, with the buffer that it has, or with a free one, which there is. */
static void begin(ls_step_job *step, int j, ls_attempt *t, int room)
{
    struct ls_trainer *trainer = step->trainer;
    ls_tree *tree = &step->gradients.tree;
    const int leaf = tree->size + j;
    if (tree->state[leaf] == LS_NODE_EMPTY) {
        tree->buffer[leaf] = trainer->free_buffers[--trainer->n_free];
        tree->state[leaf] = LS_NODE_RUNNING;
    }
    ls_attempt_begin(step, t, j, tree->buffer[leaf], room);
}

/* The same for a shard that was pulled. Pulling pauses here while too many partial gradients are alive. False where the
 * step was given up. */
static bool begin_pulled(ls_step_job *step, int j, ls_worker *worker, ls_attempt *t, int *finished)
{
    struct ls_trainer *trainer = step->trainer;
    pthread_mutex_lock(&step->lock);
    while (trainer->n_free == 0) {
        int node = ls_tree_foldable(&step->gradients.tree);
        ls_meter_go(&worker->meter, node ? LS_SPAN_FOLD : LS_SPAN_WAIT_BUFFER, -1);
        if (node) { /* where shards happen beside one another, all of it, so that many of them can */
            do
                fold(step, node, ls_network_adder(trainer->network, worker->turn));
            while (worker->turn->side_streams > 1 && !trainer->network->n_replicas &&
                   (node = ls_tree_foldable(&step->gradients.tree)));
        } else if (!stand_in(step, worker, true, finished))
            await_change(step);
        if (atomic_load(&step->ending.complete)) {
            pthread_mutex_unlock(&step->lock);
            return false;
        }
    }
    ls_meter_go(&worker->meter, LS_SPAN_SHARD, j);
    begin(step, j, t, -1);
    pthread_mutex_unlock(&step->lock);
    return true;
}

/* ---- Shards ---- */

/* An attempt while it runs. */
typedef struct running {
    ls_step_job *step;
    ls_worker *worker;
    ls_attempt *t;
    const ls_microbatch *microbatch;
    int local, images; /* the shard's number in the microbatch, and its images */
    ls_attempt_rows rows;
    const ls_plan *plan;
    const ls_replica *replica;
    /* Where a shard may be in several memories, or have other bits at another attempt, its buckets count when all of it
     * is in the master copy. */
    bool at_once;
    bool last;   /* it ran to the shard's end, and not just to its next meeting */
    bool failed; /* the device */
} running;

static running running_of(ls_step_job *step, ls_worker *worker, ls_attempt *t)
{
    const ls_network *network = step->trainer->network;
    running r = {.step = step, .worker = worker, .t = t};
    r.microbatch = ls_step_microbatch(step, t->shard, &r.local);
    r.images = ls_feed_count(r.microbatch->feed, r.local);
    r.plan = ls_feed_plan(r.microbatch->feed, worker->turn);
    r.rows = ls_attempt_rows_of(step, t);
    r.replica = ls_replica_of(network, worker->turn);
    r.at_once = network->n_replicas > 0 || (network->connected && step->exchange.measured) ||
                (ls_cohorts_are_on(step) && worker->turn->executor->memory);
    return r;
}

/* One shard more has filled a bucket. The lock is held. */
static void fill(ls_step_job *step, int bucket)
{
    if (atomic_fetch_sub(&step->sums.shards_pending[bucket], 1) == 1) {
        atomic_store(&step->sums.stage[bucket], step->sums.filled);
        pthread_cond_broadcast(&step->changed);
    }
}

/* The master copy of a card learns of it too late. */
static void look_at_loss(const running *r)
{
    if (!ls_network_master_on_card(r->step->trainer->network) && !isfinite(r->rows.metrics[LS_METRIC_LOSS]))
        atomic_store(&r->step->ending.overflowed, 1);
}

static void bucket_is_whole(void *user, int bucket)
{
    running *r = user;
    pthread_mutex_lock(&r->step->lock);
    bool counts = ls_attempt_fills(r->step, r->t);
    if (counts) {
        look_at_loss(r);
        fill(r->step, bucket);
    }
    pthread_mutex_unlock(&r->step->lock);
    if (!counts)
        return;
    r->step->between(r->step, r->worker);
    ls_meter_go(&r->worker->meter, LS_SPAN_SHARD, r->t->shard);
}

static bool goes_on(void *user, int operation)
{
    const running *r = user;
    (void)operation;
    return !atomic_load(&r->t->over);
}

/* The attempt's device has failed. False where nothing goes on without it: the step then comes to its end as one that
 * has failed, of which the other ranks hear. */
static bool lose_device(ls_step_job *step, ls_attempt *t, ls_worker *worker)
{
    pthread_mutex_lock(&step->lock);
    const bool lost = ls_network_loses(step->trainer->network, worker);
    if (lost && ls_cohorts_are_on(step))
        ls_cohorts_lose(step, worker, t);
    else if (lost)
        ls_attempt_lose(step, t);
    pthread_cond_broadcast(&step->changed);
    pthread_mutex_unlock(&step->lock);
    return lost;
}

/* A shard that begins from a gradient has its metrics already. */
static void put_given(const running *r)
{
    const ls_array *given = r->microbatch->given;
    if (given)
        memcpy(r->rows.metrics, given->data + (size_t)r->local * LS_METRICS, LS_METRICS * sizeof(float));
}

static void bind_results(const running *r, ls_bindings *bindings)
{
    const ls_network *network = r->step->trainer->network;
    ls_executor *executor = r->worker->turn->executor;
    const ls_executor_compute *table = &executor->type->compute;
    bindings->base[LS_IN_GRADIENTS] = r->replica ? r->replica->gradient : r->step->trainer->pool[r->t->buffer];
    if (ls_cohorts_are_on(r->step))
        ls_cohorts_bind(r->step, r->t, r->plan, executor, bindings);
    if (!bindings->base[LS_IN_METRICS] && !r->microbatch->given)
        bindings->base[LS_IN_METRICS] = table->stage_result(executor, r->rows.metrics, LS_METRICS);
    if (!bindings->base[LS_IN_STATISTICS])
        bindings->base[LS_IN_STATISTICS] = table->stage_result(executor, r->rows.statistics, network->flat.state);
}

/* Hands the shard in, and waits for it where its buckets count at once. */
static void compute(running *r)
{
    ls_step_job *step = r->step;
    ls_network *network = step->trainer->network;
    ls_turn *turn = r->worker->turn;
    ls_executor *executor = turn->executor;
    if (!r->at_once) /* by its buffer, so that what is kept of runs has few forms */
        executor->side_stream = ls_turn_side_stream(turn, r->plan, r->t->buffer, step->mine);
    ls_bindings bindings = {.goes_on = executor->memory ? NULL : goes_on};
    put_given(r);
    bind_results(r, &bindings);
    const ls_measuring measuring = ls_measure_bind(step->profile, r->plan, r->worker, &bindings.probe);
    ls_replica_bind_training(network, turn, &bindings);
    r->last = bindings.to == 0;
    bindings.helpers = ls_sharing_begin(&r->worker->sharing, &measuring);
    ls_feed_run(r->microbatch->feed, r->local, turn, &bindings, (uint64_t)step->number,
                r->at_once ? NULL : bucket_is_whole, r);
    ls_sharing_end(&r->worker->sharing);
    bool finite = true;
    if (r->at_once && r->replica && r->last)
        ls_replica_bring_to_master(r->replica, network, bindings.base[LS_IN_GRADIENTS],
                                   step->trainer->pool[r->t->buffer]);
    if (ls_cohorts_are_on(step) && executor->memory)
        ls_cohorts_bring(step, r->t, executor,
                         r->last ? network->flat.state + (r->microbatch->given ? 0 : LS_METRICS) : 0);
    if (r->at_once)
        r->failed = !ls_executor_await(executor, r->replica ? NULL : &finite);
    if (!finite)
        atomic_store(&step->ending.broken, 1);
}

/* The shard's first n buckets are whole; those of them count that did not before. The lock is held. */
static void fill_up(const running *r, int n)
{
    ls_step_job *step = r->step;
    int *filled = &step->gradients.filled[r->t->shard];
    if (*filled < n)
        look_at_loss(r);
    for (; *filled < n; ++*filled)
        fill(step, r->plan->whole[*filled]);
}

/* Takes what was computed as the shard's; false where another attempt was there first. */
static bool take_whole(running *r)
{
    ls_step_job *step = r->step;
    pthread_mutex_lock(&step->lock);
    const bool first = ls_attempt_finish(step, r->t);
    if (first) {
        look_at_loss(r);
        fill_up(r, step->trainer->network->flat.n_buckets);
        if (ls_cohorts_are_on(step))
            ls_cohorts_finish(step, r->t);
        pthread_cond_broadcast(&step->changed);
    }
    pthread_mutex_unlock(&step->lock);
    return first;
}

/* Takes what was computed as the shard's up to its next meeting, unless another attempt was there first. */
static void take_stretch(running *r)
{
    ls_step_job *step = r->step;
    pthread_mutex_lock(&step->lock);
    if (ls_attempt_put_aside(step, r->t)) {
        if (!r->at_once)
            fill_up(r, r->plan->steps[r->plan->meetings[r->t->passed].step].first_bucket);
        ls_cohorts_arrive(step, r->t);
    }
    pthread_mutex_unlock(&step->lock);
}

/* Seconds that the attempt's run has taken, which ranks that are measured add up. */
static double note_computing(ls_step_job *step, const ls_attempt *t)
{
    const double taken = ls_seconds() - t->measured;
    if (step->trainer->throughputs)
        atomic_fetch_add(&step->exchange.computing, (long long)(taken * 1e9));
    return taken;
}

/* Runs the shard of an attempt that has begun: to its end, or to its next meeting. `waiting`: with another shard
 * pulled, which nobody else would compute. */
static void run_attempt(ls_step_job *step, ls_worker *worker, ls_attempt *t, bool waiting, int *finished)
{
    running r = running_of(step, worker, t);
    compute(&r);
    const bool lost = r.failed && !waiting && lose_device(step, t, worker);
    if (r.failed && !lost)
        ls_network_fail(step->trainer->network, worker->turn->executor);
    ls_meter_end_shard(&worker->meter, LS_SPAN_SHARD, t->shard, r.last && !r.failed ? r.images : 0, t->measured);
    if (lost)
        return;
    const double taken = note_computing(step, t);
    if (!ls_cohorts_are_on(step))
        ls_pull_note(worker, r.images, taken);
    if (r.last)
        *finished += take_whole(&r);
    else
        take_stretch(&r);
}

static ls_attempt *attempt_of(const ls_step_job *step, const ls_worker *worker)
{
    return &step->trainer->attempts.at[worker - worker->engine->workers];
}

/* Computes the shard of a device that has failed or is late, where there is one. The lock is held, and let go
 * meanwhile. */
static bool stand_in(ls_step_job *step, ls_worker *worker, bool waiting, int *finished)
{
    ls_attempt *own = attempt_of(step, worker);
    if (!ls_attempt_stand_in(step, own))
        return false;
    pthread_mutex_unlock(&step->lock);
    if (!waiting)
        ls_sharing_leave(&worker->sharing);
    const double pulled = own->measured; /* of a shard that this one waits for a buffer for */
    own->measured = ls_meter_begin_shard(&worker->meter, LS_SPAN_SHARD, own->shard);
    run_attempt(step, worker, own, waiting, finished);
    own->measured = pulled;
    if (!waiting)
        ls_sharing_enter(&worker->sharing);
    pthread_mutex_lock(&step->lock);
    return true;
}

bool ls_shard_stand_in(ls_step_job *step, ls_worker *worker, int *finished)
{
    pthread_mutex_lock(&step->lock);
    const bool worked = stand_in(step, worker, false, finished);
    pthread_mutex_unlock(&step->lock);
    return worked;
}

static bool compute_pulled(ls_step_job *step, ls_worker *worker, int *finished)
{
    const int j = ls_pull(step, worker);
    ls_attempt *t = attempt_of(step, worker);
    if (j < 0)
        return false;
    t->measured = ls_meter_begin_shard(&worker->meter, LS_SPAN_SHARD, j);
    ls_slow_down(worker);
    if (begin_pulled(step, j, worker, t, finished))
        run_attempt(step, worker, t, false, finished);
    return true;
}

/* ---- Shards of cohorts ---- */

/* A shard that the worker can go on with, or begin; -1: none now. One that has no buffer yet can begin once *node is
 * folded, which else is 0. The lock is held. */
static int choose(const ls_step_job *step, const ls_worker *worker, int *node)
{
    const int j = ls_cohorts_choose(step, worker);
    const bool lacks = j >= 0 && step->cohorts.shards[j].state == LS_SHARD_NEW && step->trainer->n_free == 0;
    *node = lacks ? ls_tree_foldable(&step->gradients.tree) : 0;
    return lacks && !*node ? -1 : j;
}

static bool compute_of_cohort(ls_step_job *step, ls_worker *worker, int *finished)
{
    ls_attempt *t = attempt_of(step, worker);
    pthread_mutex_lock(&step->lock);
    int node;
    const int j = choose(step, worker, &node);
    const bool begins = j >= 0 && step->cohorts.shards[j].state == LS_SHARD_NEW, goes = j >= 0 && !node,
               anew = j >= 0 && ls_cohorts_begins_anew(step, j);
    if (node) {
        ls_meter_go(&worker->meter, LS_SPAN_FOLD, -1);
        fold(step, node, ls_network_adder(step->trainer->network, worker->turn));
    }
    if (goes) {
        begin(step, j, t, ls_cohorts_take(step, worker, j));
        t->anew = anew;
    }
    pthread_mutex_unlock(&step->lock);
    if (!goes)
        return node != 0;
    t->measured = ls_meter_begin_shard(&worker->meter, LS_SPAN_SHARD, j);
    if (begins)
        ls_slow_down(worker);
    run_attempt(step, worker, t, false, finished);
    return true;
}

/* ---- What a worker takes ---- */

bool ls_shard_compute(ls_step_job *step, ls_worker *worker, int *finished)
{
    return ls_cohorts_are_on(step) ? compute_of_cohort(step, worker, finished) : compute_pulled(step, worker, finished);
}

bool ls_shard_wait(ls_step_job *step, ls_worker *worker)
{
    int node;
    if (ls_attempt_late(step) ||
        (ls_cohorts_are_on(step) ? choose(step, worker, &node) >= 0 : ls_pull_again(step, worker)))
        return false;
    await_change(step);
    return true;
}
