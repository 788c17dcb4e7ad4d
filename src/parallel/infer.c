/* Inference over a whole data set: shards in file order, on all devices, every image once. */
#include <string.h>

#include "comm/tree.h"
#include "data/data.h"
#include "parallel/network.h"

typedef struct pass {
    ls_job job;
    ls_network *network;
    const ls_plan *plan;
    const ls_data *data;
    const uint32_t *index; /* [rows] 0, 1, 2 ... */
    float *metrics;        /* [shards][LS_METRICS] */
    float *logits;         /* [rows][classes] of the caller; NULL when only metrics are wanted */
    int64_t rows;
    int shards, shard;
    atomic_int next;
} pass;

static void run_shard(pass *p, int j, ls_core *core)
{
    ls_network *network = p->network;
    int current = atomic_load(&network->current);
    int64_t first = (int64_t)j * p->shard, left = p->rows - first;
    float *rows = p->logits ? p->logits + first * network->classes : NULL;
    ls_samples samples = {.images = p->data->images,
                          .labels = p->data->labels,
                          .index = p->index + first,
                          .count = left < p->shard ? (int)left : p->shard};
    ls_bindings bindings = {.base = {[LS_IN_ARENA] = core->arena,
                                     [LS_IN_WEIGHTS] = network->weights[current],
                                     [LS_IN_STATE] = network->state[current],
                                     [LS_IN_ROWS] = rows,
                                     [LS_IN_METRICS] = p->metrics + (size_t)j * LS_METRICS},
                            .scratch = core->scratch};
    ls_plan_run(p->plan, &bindings, &samples, NULL, NULL);
}

static void work(ls_job *job, ls_worker *worker)
{
    pass *p = (pass *)job;
    for (;;) {
        ls_core_enter(worker->core);
        int j = atomic_fetch_add(&p->next, 1);
        if (j < p->shards)
            run_shard(p, j, worker->core);
        ls_core_leave(worker->core);
        if (j >= p->shards)
            return;
    }
}

static ls_status infer(pass *p)
{
    ls_network *network = p->network;
    ls_context *context = &network->session->context;
    p->job.work = work;
    p->rows = p->data->rows;
    p->shard = p->plan->capacity;
    p->shards = (int)((p->rows + p->shard - 1) / p->shard);
    uint32_t *index = ls_alloc(context, (size_t)p->rows, sizeof *index, "the order of images");
    p->metrics = ls_alloc(context, (size_t)p->shards * LS_METRICS, sizeof *p->metrics, "the shards' metrics");
    for (int64_t i = 0; index && i < p->rows; i++)
        index[i] = (uint32_t)i;
    p->index = index;
    if (index && p->metrics) {
        ls_engine_submit(network->engine, &p->job);
        ls_engine_wait_job(network->engine, &p->job);
    }
    ls_release(context, index);
    return ls_network_settle(network);
}

ls_status ls_evaluate(ls_module *net, const ls_data *data, ls_metrics *metrics)
{
    ls_network *network = ls_network_of(net, "ls_evaluate");
    if (!network || !metrics || ls_network_takes(network, data, "ls_evaluate") != LS_OK ||
        ls_network_settle(network) != LS_OK)
        return net ? ls_status_of(net->session) != LS_OK ? ls_status_of(net->session) : LS_BAD_ARGUMENT
                   : LS_BAD_ARGUMENT;
    ls_context *context = &network->session->context;
    pass p = {.network = network, .plan = network->evaluate, .data = data};
    ls_status status = infer(&p);
    double *losses = status == LS_OK ? ls_alloc(context, (size_t)p.shards, sizeof *losses, "the shards' losses") : NULL;
    *metrics = (ls_metrics){.rows = p.rows};
    for (int j = 0; losses && j < p.shards; j++) {
        losses[j] = p.metrics[(size_t)j * LS_METRICS + LS_METRIC_LOSS];
        metrics->correct += (int64_t)p.metrics[(size_t)j * LS_METRICS + LS_METRIC_CORRECT];
    }
    if (losses) {
        ls_tree_sum_doubles(losses, p.shards);
        metrics->loss = losses[0] / (double)p.rows;
    }
    ls_release(context, losses);
    ls_release(context, p.metrics);
    return ls_status_of(network->session);
}

ls_status ls_predict(ls_module *net, const ls_data *data, float *logits, int classes)
{
    ls_network *network = ls_network_of(net, "ls_predict");
    if (!network || ls_network_takes(network, data, "ls_predict") != LS_OK || ls_network_settle(network) != LS_OK)
        return net ? ls_status_of(net->session) : LS_BAD_ARGUMENT;
    ls_context *context = &network->session->context;
    if (!logits || classes != network->classes)
        return ls_raise(context, LS_BAD_SHAPE, "ls_predict: the network has %d classes, the caller's rows %d",
                        network->classes, classes);
    pass p = {.network = network, .plan = network->predict, .data = data, .logits = logits};
    ls_status status = infer(&p);
    ls_release(context, p.metrics);
    return status;
}
