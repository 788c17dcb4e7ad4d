#include "eager/device_run.h"

#include <string.h>

#include "model/replica.h"
#include "model/network.h"

/* ---- On the device ---- */

/* Finished subtrees, the largest first: subtree i of 2^level[i] shards is in partial[i]. */
typedef struct pile {
    int level[LS_TREE_LEVELS + 1], n;
} pile;

static void fold_top(ls_device_run *r, pile *p, size_t n, ls_executor *executor)
{
    float *left = r->partial[p->n - 2]->data;
    const ls_terms terms = {3, {left, r->partial[p->n - 1]->data, NULL}};
    executor->type->compute.sum(executor, &terms, left, n);
    p->n--;
    p->level[p->n - 1]++;
}

static void clear(const ls_array *partial, size_t n, ls_executor *executor)
{
    executor->type->memory.zero(executor, partial->data, n * sizeof(float));
}

/* Where an executor writes results that go into an array, from number `at` on: there, or, where it has another memory,
 * where it keeps them until it has finished. */
static float *room_in(const ls_array *array, size_t at, size_t n, ls_executor *executor)
{
    float *data = array->data + at;
    return ls_array_is_in(array, executor) ? data : executor->type->compute.stage_result(executor, data, n);
}

/* The places of shard j's results. */
static void bind_results(const ls_device_run *r, int j, ls_bindings *bindings, float *outputs[], ls_executor *executor)
{
    size_t first = (size_t)j * (size_t)r->feed->shard, images = (size_t)ls_feed_count(r->feed, j);
    size_t row = (size_t)r->feed->program->output_numbers;
    if (r->rows)
        outputs[0] = room_in(r->rows, first * row, images * row, executor);
    for (int k = 0; k < LS_MAX_INPUTS; k++) {
        row = r->feed->input_numbers[k];
        if (r->inputs[k].fresh)
            outputs[k] = room_in(r->inputs[k].fresh, first * row, images * row, executor);
    }
    if (r->metrics)
        bindings->base[LS_IN_METRICS] = room_in(r->metrics, (size_t)j * LS_METRICS, LS_METRICS, executor);
    if (r->statistics)
        bindings->base[LS_IN_STATISTICS] = room_in(r->statistics, 0, r->statistics->n, executor);
}

static void run_shards(ls_device_run *r, ls_turn *turn, ls_sharing *sharing)
{
    ls_executor *executor = turn->executor;
    const ls_program *program = r->feed->program;
    struct ls_network *network = program->network;
    size_t trainable = program->own_flat.trainable;
    ls_bindings bindings = {.passing = !network || r->rows || program->wanted == LS_WANT_INPUTS};
    if (network)
        ls_replica_bind(network, turn, &bindings);
    pile p = {.n = 0};
    for (int j = 0; j < r->feed->shards; j++) {
        float *outputs[LS_MAX_INPUTS] = {NULL};
        bind_results(r, j, &bindings, outputs, executor);
        if (r->n_partial) {
            p.level[p.n++] = 0;
            bindings.base[LS_IN_GRADIENTS] = r->partial[p.n - 1]->data;
            clear(r->partial[p.n - 1], trainable, executor);
        }
        bindings.outputs = outputs;
        bindings.helpers = ls_sharing_begin(sharing, NULL);
        ls_feed_run(r->feed, j, turn, &bindings, r->step, NULL, NULL);
        ls_sharing_end(sharing);
        while (p.n > 1 && p.level[p.n - 1] == p.level[p.n - 2])
            fold_top(r, &p, trainable, executor);
    }
    while (p.n > 1)
        fold_top(r, &p, trainable, executor);
    if (r->n_partial && !p.n) /* the sum over an empty part of a batch */
        clear(r->partial[0], trainable, executor);
}

/* The losses as doubles lie behind the metrics. */
static void sum_metrics(const ls_device_run *r)
{
    int shards = r->feed->shards;
    double *losses = (double *)(void *)(r->metrics->data + (size_t)shards * LS_METRICS), correct = 0;
    for (int j = 0; j < shards; j++) {
        losses[j] = r->metrics->data[(size_t)j * LS_METRICS + LS_METRIC_LOSS];
        correct += r->metrics->data[(size_t)j * LS_METRICS + LS_METRIC_CORRECT];
    }
    ls_tree_sum_doubles(losses, shards);
    double sum = shards ? losses[0] : 0;
    r->summary->data[0] = (float)(r->mean ? sum / (double)r->feed->rows : sum);
    r->summary->data[1] = (float)correct;
}

static void add_or_put(const ls_target *t, const float *from, size_t n, ls_executor *executor)
{
    float *to = t->gradient->data;
    const ls_terms sum = {3, {to, from, NULL}}, copy = {1, {from}};
    executor->type->compute.sum(executor, t->add ? &sum : &copy, to, n);
}

static void put_gradients(const ls_device_run *r, ls_executor *executor)
{
    const ls_flat *flat = &r->feed->program->own_flat;
    int view = 0;
    for (int k = 0; k < r->feed->n_arrays; k++)
        if (r->weights[k].gradient) {
            const ls_view *place = &flat->views[view++];
            add_or_put(&r->weights[k], r->partial[0]->data + place->offset, place->numbers, executor);
        }
    for (int k = 0; k < LS_MAX_INPUTS; k++)
        if (r->inputs[k].gradient)
            add_or_put(&r->inputs[k], r->inputs[k].fresh->data, r->inputs[k].gradient->n, executor);
}

static void work(ls_task *task, ls_turn *turn)
{
    ls_device_run *r = task->payload;
    ls_feed_locate(r->feed);
    run_shards(r, turn, &task->stream->sharing);
    put_gradients(r, turn->executor);
}

static void check(ls_task *task, bool finite)
{
    (void)finite; /* a loss may be what it likes */
    const ls_device_run *r = task->payload;
    if (r->summary)
        sum_metrics(r);
}

/* ---- Handing in ---- */

static ls_device place_of(const ls_tensor *tensor)
{
    return tensor->device.type == LS_HOST ? (ls_device){LS_CPU, 0} : tensor->device;
}

ls_array *ls_run_array(ls_task *task, ls_device device, size_t n)
{
    ls_array *array = ls_array_on(task->session, device, n);
    if (array) {
        ls_task_writes(task, array);
        ls_array_drop(array); /* the task holds it now */
    }
    return array;
}

bool ls_run_adds(ls_tensor *tracked)
{
    ls_array *gradient = tracked->tracking.gradient;
    const bool adds = tracked->tracking.freshness == LS_FRESH && !atomic_load(&gradient->lost);
    if (!adds)
        atomic_store(&gradient->lost, false);
    tracked->tracking.freshness = LS_FRESH;
    return adds;
}

ls_target ls_run_aim(ls_task *task, ls_tensor *tracked)
{
    ls_target t = {.gradient = tracked->tracking.gradient, .add = ls_run_adds(tracked)};
    ls_task_writes(task, t.gradient);
    return t;
}

void ls_run_aim_input(ls_device_run *r, ls_task *task, int k, ls_tensor *tracked)
{
    ls_target *t = &r->inputs[k];
    *t = ls_run_aim(task, tracked);
    t->fresh = t->add ? ls_run_array(task, r->device, t->gradient->n) : t->gradient;
}

static void finish(ls_task *task)
{
    ls_device_run *r = task->payload;
    ls_feed_give(r->feed);
}

/* A feed for the traced computation on a stream's device, which has room for it. */
static ls_feed *feed_for(ls_trace *trace, ls_wanted wanted, const ls_tensor *root, ls_tensor *dy, ls_stream *stream)
{
    ls_session *session = trace->session;
    const ls_backend *backend = stream->turn->executor->backend;
    int64_t rows = (root->fold ? root->in[0] : root)->shape.dim[0];
    const int images = ls_shard_images(session, rows);
    ls_program *program = trace->call ? ls_network_program(trace, wanted, dy != NULL, images)
                                      : ls_program_of(trace, wanted, dy != NULL, images, &backend, 1);
    if (!program || ls_turn_reserve(stream->turn, ls_plan_for(program->plan, backend)) != LS_OK)
        return NULL;
    if (program->network)
        ls_network_publish(program->network);
    return ls_feed_new(program, trace, rows, dy, program->network ? ls_host() : stream->device);
}

ls_task *ls_run_task(ls_trace *trace, ls_wanted wanted, ls_tensor *root, ls_tensor *dy)
{
    ls_session *session = trace->session;
    ls_device device = place_of(root);
    ls_stream *stream = ls_stream_for(session, device);
    ls_feed *feed = stream ? feed_for(trace, wanted, root, dy, stream) : NULL;
    size_t payload = sizeof(ls_device_run) + (size_t)trace->n_arrays * sizeof(ls_target);
    ls_task *task = feed ? ls_task_new(session, device, work, payload) : NULL;
    if (!task) {
        if (feed)
            ls_feed_give(feed);
        return NULL;
    }
    ls_device_run *r = task->payload;
    memset(r, 0, payload);
    r->feed = feed;
    r->device = device;
    r->weights = (ls_target *)(r + 1);
    r->mean = root->fold == LS_FOLD_MEAN;
    r->step = feed->program->network ? (uint64_t)feed->program->network->updates : 0;
    task->check = check;
    task->finish = finish;
    for (int k = 0; k < feed->n_inputs; k++)
        ls_task_reads(task, feed->inputs[k]);
    for (int k = 0; k < feed->n_arrays; k++)
        ls_task_reads(task, feed->arrays[k]);
    if (feed->label_array)
        ls_task_reads(task, feed->label_array);
    if (feed->images.index)
        ls_task_reads(task, feed->images.index);
    if (feed->images.changes)
        ls_task_reads(task, feed->images.changes);
    if (feed->labels.index)
        ls_task_reads(task, feed->labels.index);
    if (feed->program->network)
        r->statistics = ls_run_array(task, ls_host(), feed->program->network->flat.state);
    return task;
}

void ls_run_summarize(ls_device_run *r, ls_task *task, ls_tensor *root)
{
    r->metrics = ls_run_array(task, ls_host(), (size_t)r->feed->shards * (LS_METRICS + 2) + 1);
    r->summary = ls_array_on(task->session, ls_host(), 2);
    if (!r->metrics || !r->summary) {
        ls_array_drop(r->summary);
        return;
    }
    memset(r->metrics->data, 0, (size_t)r->feed->shards * LS_METRICS * sizeof(float));
    ls_task_writes(task, r->summary);
    if (!root->fold || root->array)
        ls_array_drop(r->summary); /* a number for each image is no sum; one read before the backward pass stays */
    else
        root->array = r->summary;
}
