/* Inference on all devices of a network: shards are pulled in order, every image once. Ranks compute a run of them
 * each, and all get everything. */
#include "eager/infer.h"

#include <string.h>

#include "cluster/cluster.h"
#include "eager/calls.h"
#include "exec/stream.h"
#include "model/replica.h"

typedef struct pass {
    ls_job job;
    ls_network *network;
    ls_feed *feed;
    float *rows[LS_MAX_INPUTS];  /* of the whole batch, of each output that is wanted; else NULL */
    size_t width[LS_MAX_INPUTS]; /* numbers of one of them */
    float *metrics;              /* [shards][LS_METRICS]; NULL when only rows are wanted */
    float *statistics; /* of one shard for each worker; a call in training mode writes them, nobody reads them */
    uint64_t step;
    int *shards; /* [n] of this rank's, to be computed */
    int *by;     /* [n] the worker that each was computed by */
    int n;
    atomic_int next, left; /* how many were begun, and are not finished */
    bool ends;             /* by ls_interrupt */
    atomic_bool skipped;   /* a shard, for that */
    ls_partition *partition;
    size_t *begin; /* [ranks + 1] of what is gathered */
} pass;

static void run_shard(pass *p, int j, ls_worker *worker)
{
    if (p->ends && atomic_load(&p->network->session->interrupted)) {
        atomic_store(&p->skipped, true);
        atomic_fetch_sub(&p->left, 1);
        return;
    }
    ls_network *network = p->network;
    ls_executor *executor = worker->turn->executor;
    float *outputs[LS_MAX_INPUTS] = {NULL};
    executor->side_stream = ls_turn_side_stream(worker->turn, ls_feed_plan(p->feed, worker->turn), j, p->feed->shards);
    for (int k = 0; k < LS_MAX_INPUTS; k++)
        if (p->rows[k])
            outputs[k] = executor->type->compute.stage_result(
                executor, p->rows[k] + (size_t)j * (size_t)p->feed->shard * p->width[k],
                (size_t)ls_feed_count(p->feed, j) * p->width[k]);
    float *statistics = p->statistics + (size_t)(worker - worker->engine->workers) * network->flat.state;
    ls_bindings bindings = {
        .base = {[LS_IN_STATISTICS] = executor->type->compute.stage_result(executor, statistics, network->flat.state)},
        .outputs = outputs,
        .passing = p->feed->program->wanted == LS_WANT_INPUTS};
    ls_replica_bind(network, worker->turn, &bindings);
    if (p->metrics)
        bindings.base[LS_IN_METRICS] =
            executor->type->compute.stage_result(executor, p->metrics + (size_t)j * LS_METRICS, LS_METRICS);
    double begun = ls_meter_begin_shard(&worker->meter, LS_SPAN_EVALUATE, j);
    bindings.helpers = ls_sharing_begin(&worker->sharing, NULL);
    ls_feed_run(p->feed, j, worker->turn, &bindings, p->step, NULL, NULL);
    ls_sharing_end(&worker->sharing);
    ls_meter_end_shard(&worker->meter, LS_SPAN_EVALUATE, j, ls_feed_count(p->feed, j), begun);
    atomic_fetch_sub(&p->left, 1);
    ls_count_work(&network->session->context);
}

static bool is_done(void *user)
{
    pass *p = user;
    return atomic_load(&p->left) == 0;
}

static void work(ls_job *job, ls_worker *worker)
{
    pass *p = (pass *)job;
    int i;
    ls_meter_enter(&worker->meter, 0);
    do {
        if (ls_turn_taken(worker->turn))
            ls_meter_go(&worker->meter, LS_SPAN_WAIT_CORE, -1);
        ls_turn_enter(worker->turn);
        i = atomic_fetch_add(&p->next, 1);
        if (i < p->n) {
            p->by[i] = (int)(worker - worker->engine->workers);
            run_shard(p, p->shards[i], worker);
        } else if (!ls_executor_await(worker->turn->executor, NULL) && !ls_network_loses(p->network, worker))
            ls_network_fail(p->network, worker->turn->executor);
        ls_turn_leave(worker->turn);
    } while (i < p->n);
    ls_sharing_enter(&worker->sharing);
    while (ls_sharing_await(&worker->sharing, LS_MOMENT, is_done, p) && !is_done(p)) {
        double begun = ls_meter_begin_shard(&worker->meter, LS_SPAN_EVALUATE, -1);
        ls_turn_enter(worker->turn);
        ls_sharing_take(&worker->sharing);
        ls_turn_leave(worker->turn);
        ls_meter_end_shard(&worker->meter, LS_SPAN_EVALUATE, -1, 0, begun);
    }
    ls_sharing_leave(&worker->sharing);
    ls_meter_go(&worker->meter, LS_SPAN_IDLE, -1);
}

/* The sum of the shards' losses, in the order of the tree, and of their right images; also what the losses count. */
static ls_metrics sum_metrics(const pass *p, double *losses, double *counted)
{
    ls_metrics sum = {.rows = p->feed->rows};
    for (int j = 0; j < p->feed->shards; j++)
        losses[j] = ls_feed_counted(p->feed, j);
    ls_tree_sum_doubles(losses, p->feed->shards);
    *counted = p->feed->shards ? losses[0] : 0;
    for (int j = 0; j < p->feed->shards; j++) {
        losses[j] = p->metrics[(size_t)j * LS_METRICS + LS_METRIC_LOSS];
        sum.correct += (int64_t)p->metrics[(size_t)j * LS_METRICS + LS_METRIC_CORRECT];
    }
    ls_tree_sum_doubles(losses, p->feed->shards);
    sum.loss = p->feed->shards ? losses[0] : 0;
    return sum;
}

/* Room for the pass, and this rank's run of shards. */
static ls_status cut(pass *p, bool measures)
{
    if (ls_network_reserve_pass(p->network, p->feed->shards) != LS_OK)
        return ls_status_of(p->network->session);
    const ls_pass_room *room = &p->network->pass_room;
    const int rank = ls_cluster_rank(p->network->session->options.cluster);
    p->partition = &p->network->pass_room.partition;
    p->begin = room->begin;
    p->shards = room->shards;
    p->by = p->shards + p->feed->shards;
    p->statistics = room->statistics;
    p->metrics = measures ? room->metrics : NULL;
    ls_partition_cut(p->partition, p->feed->shards);
    for (int j = p->partition->begin[rank]; j < p->partition->begin[rank + 1]; j++)
        p->shards[p->n++] = j;
    return LS_OK;
}

/* Computes all of this rank's shards; those of a device that was lost once more. */
static void run_shards(pass *p)
{
    ls_engine *engine = p->network->engine;
    do {
        atomic_store(&p->next, 0);
        atomic_store(&p->left, p->n);
        ls_engine_submit(engine, &p->job);
        ls_engine_wait_job(engine, &p->job);
        int again = 0;
        for (int i = 0; i < p->n; i++)
            if (atomic_load(&engine->workers[p->by[i]].lost))
                p->shards[again++] = p->shards[i];
        p->n = again;
    } while (p->n && !atomic_load(&p->network->session->broken));
    if (p->ends)
        atomic_store(&p->network->session->interrupted, false);
    if (atomic_load(&p->skipped))
        ls_raise(&p->network->session->context, LS_INTERRUPTED, "ls_interrupt ended an inference over %lld images",
                 (long long)p->feed->rows);
}

/* Every rank gets the others' metrics and rows. */
static ls_status gather(pass *p, ls_context *context, ls_cluster *cluster)
{
    ls_status status = LS_OK;
    if (!cluster)
        return LS_OK;
    for (int r = 0; r <= p->partition->parts; r++)
        p->begin[r] = (size_t)p->partition->begin[r] * LS_METRICS * sizeof(float);
    if (p->metrics)
        status = ls_cluster_gather(cluster, context, p->metrics, p->begin);
    for (int k = 0; k < LS_MAX_INPUTS; k++) {
        for (int r = 0; r <= p->partition->parts; r++) {
            int64_t row = (int64_t)p->partition->begin[r] * p->feed->shard;
            row = row < p->feed->rows ? row : p->feed->rows;
            p->begin[r] = (size_t)row * p->width[k] * sizeof(float);
        }
        if (p->rows[k] && status == LS_OK)
            status = ls_cluster_gather(cluster, context, p->rows[k], p->begin);
    }
    return status;
}

/* The shards' own, for whom the loss goes on to; see ls_given. */
static void give_metrics(const pass *p, float *given)
{
    const int shards = p->feed->shards;
    memcpy(given, p->metrics, (size_t)shards * LS_METRICS * sizeof *given);
    for (int j = 0; j < shards; j++)
        ls_given_counted(given, shards)[j] = ls_feed_counted(p->feed, j);
}

ls_status ls_run_pass(ls_trace *trace, ls_program *program, int64_t images, const ls_outcome *wanted)
{
    ls_session *session = trace->session;
    ls_context *context = &session->context;
    ls_network *network = trace->call->network;
    ls_cluster *cluster = session->options.cluster;
    const bool measures = wanted->metrics || wanted->given;
    /* A step of another network may fail, and the ranks must know of it at the same place. */
    if (ls_cluster_ranks(cluster) > 1 && ls_wait(session) != LS_OK)
        return ls_status_of(session);
    if (ls_engine_reserve(network->engine, program->plan) != LS_OK)
        return ls_status_of(session);
    pass p = {.job = {.work = work}, .network = network, .step = (uint64_t)network->updates, .ends = wanted->ends};
    p.feed = ls_feed_new(program, trace, images, wanted->dy, ls_host());
    for (int k = 0; p.feed && k < LS_MAX_INPUTS; k++) {
        p.rows[k] = wanted->rows[k];
        p.width[k] = program->wanted == LS_WANT_ROWS ? (size_t)program->output_numbers : p.feed->input_numbers[k];
    }
    if (p.feed && cut(&p, measures) == LS_OK) {
        ls_streams_wait(session); /* operands that devices are still at */
        ls_network_publish(network);
        ls_feed_locate(p.feed);
        run_shards(&p);
        const bool good = ls_cluster_agree_error(session) == LS_OK && gather(&p, context, cluster) == LS_OK;
        if (good && wanted->given)
            give_metrics(&p, wanted->given);
        if (good && wanted->metrics)
            *wanted->metrics = sum_metrics(&p, network->pass_room.losses, wanted->counted);
    }
    if (p.feed)
        ls_feed_give(p.feed);
    return ls_status_of(session);
}

ls_status ls_run_all(ls_trace *trace, const ls_tensor *root, float *rows, ls_metrics *metrics, double *counted)
{
    const ls_tensor *over = root->fold ? root->in[0] : root;
    const int64_t images = over->shape.dim[0];
    const int shard = trace->call->network->shard;
    ls_program *program = ls_network_program(trace, rows ? LS_WANT_ROWS : LS_WANT_LOSS, false,
                                             images && images < shard ? (int)images : shard);
    if (!program)
        return ls_status_of(trace->session);
    return ls_run_pass(trace, program, images,
                       &(ls_outcome){.rows = {rows}, .metrics = metrics, .counted = counted, .ends = true});
}

ls_status ls_run_spread(ls_trace *trace, ls_tensor *tensor)
{
    ls_session *session = trace->session;
    bool scalar = tensor->fold != LS_NOT_FOLDED;
    size_t n = scalar ? 2 : (size_t)ls_shape_numbers(&tensor->shape);
    ls_metrics metrics = {0};
    if (ls_network_read(trace->call) != LS_OK)
        return ls_status_of(session);
    ls_array *array = ls_array_on(session, ls_host(), n);
    if (!array ||
        ls_run_all(trace, tensor, scalar ? NULL : array->data, scalar ? &metrics : NULL, &(double){0}) != LS_OK) {
        ls_array_drop(array);
        return ls_status_of(session);
    }
    if (scalar) {
        array->data[0] =
            (float)(tensor->fold == LS_FOLD_MEAN && metrics.rows ? metrics.loss / (double)metrics.rows : metrics.loss);
        array->data[1] = (float)metrics.correct;
    }
    tensor->array = array;
    return LS_OK;
}
