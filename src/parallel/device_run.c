#include "parallel/device_run.h"

#include <string.h>

#include "parallel/trainer.h"

/* ---- On the device ---- */

/* Finished subtrees, the largest first: subtree i of 2^level[i] shards is in partial[i]. */
typedef struct pile {
    int level[LS_TREE_LEVELS + 1], n;
} pile;

static void fold_top(ls_device_run *r, pile *p, size_t n, const ls_backend *backend)
{
    float *left = r->partial[p->n - 2]->data;
    backend->add(left, left, r->partial[p->n - 1]->data, n);
    p->n--;
    p->level[p->n - 1]++;
}

static void run_shards(ls_device_run *r, ls_core *core, ls_offer *offer)
{
    ls_unit *unit = core->unit;
    const ls_program *program = r->feed->program;
    const ls_backend *backend = core->host->backend;
    struct ls_network *network = program->network;
    size_t trainable = program->own_flat.trainable;
    ls_bindings bindings = {.scratch = NULL};
    if (network)
        ls_network_bind(network, core, &bindings);
    pile p = {.n = 0};
    if (r->n_partial && !r->feed->shards)
        memset(r->partial[0]->data, 0, trainable * sizeof(float)); /* the sum over an empty part of a batch */
    for (int j = 0; j < r->feed->shards; j++) {
        float *outputs[LS_MAX_INPUTS] = {NULL};
        size_t first = (size_t)j * (size_t)r->feed->shard;
        size_t images = (size_t)ls_feed_count(r->feed, j), row = (size_t)program->output_numbers;
        if (r->rows)
            outputs[0] = unit->type->lend(unit, r->rows->data + first * row, images * row);
        for (int k = 0; k < LS_MAX_INPUTS; k++)
            if (r->inputs[k].fresh)
                outputs[k] = unit->type->lend(unit, r->inputs[k].fresh->data + first * r->feed->input_numbers[k],
                                              images * r->feed->input_numbers[k]);
        if (r->metrics)
            bindings.base[LS_IN_METRICS] =
                unit->type->lend(unit, r->metrics->data + (size_t)j * LS_METRICS, LS_METRICS);
        if (r->statistics)
            bindings.base[LS_IN_STATISTICS] = unit->type->lend(unit, r->statistics->data, r->statistics->n);
        if (r->n_partial) {
            p.level[p.n++] = 0;
            bindings.base[LS_IN_GRADIENTS] = r->partial[p.n - 1]->data;
            memset(r->partial[p.n - 1]->data, 0, trainable * sizeof(float));
        }
        bindings.outputs = outputs;
        bindings.helpers = ls_offer_begin(offer, NULL);
        ls_feed_run(r->feed, j, core, &bindings, r->step, NULL, NULL);
        ls_offer_end(offer);
        while (p.n > 1 && p.level[p.n - 1] == p.level[p.n - 2])
            fold_top(r, &p, trainable, backend);
    }
    while (p.n > 1)
        fold_top(r, &p, trainable, backend);
    if (r->n_partial && !p.n) /* an empty part of a batch */
        memset(r->partial[0]->data, 0, trainable * sizeof(float));
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

static void settle(const ls_target *t, const float *from, size_t n, const ls_backend *backend)
{
    if (t->add)
        backend->add(t->gradient->data, t->gradient->data, from, n);
    else if (from != t->gradient->data)
        memcpy(t->gradient->data, from, n * sizeof *from);
}

static void put_gradients(const ls_device_run *r, const ls_backend *backend)
{
    const ls_flat *flat = &r->feed->program->own_flat;
    int view = 0;
    for (int k = 0; k < r->feed->n_arrays; k++)
        if (r->weights[k].gradient) {
            const ls_view *place = &flat->views[view++];
            settle(&r->weights[k], r->partial[0]->data + place->offset, place->numbers, backend);
        }
    for (int k = 0; k < LS_MAX_INPUTS; k++)
        if (r->inputs[k].gradient)
            settle(&r->inputs[k], r->inputs[k].fresh->data, r->inputs[k].gradient->n, backend);
}

static void work(ls_task *task, ls_core *core)
{
    ls_device_run *r = task->payload;
    ls_feed_locate(r->feed);
    run_shards(r, core, &task->stream->offer);
    if (ls_unit_finish(core->unit, NULL) != LS_OK) {
        atomic_store(&task->session->broken, true);
        return;
    }
    if (r->summary)
        sum_metrics(r);
    put_gradients(r, core->host->backend);
}

/* ---- Handing in ---- */

static ls_array *new_array(ls_session *session, size_t n)
{
    return ls_array_new(&session->tensors->arrays, (ls_device){LS_HOST, 0}, n);
}

static ls_device place_of(const ls_tensor *tensor)
{
    return tensor->device.type == LS_HOST ? (ls_device){LS_CPU, 0} : tensor->device;
}

ls_array *ls_run_array(ls_session *session, ls_task *task, size_t n)
{
    ls_array *array = new_array(session, n);
    if (array) {
        ls_task_writes(task, array);
        ls_array_drop(array); /* the task holds it now */
    }
    return array;
}

static void finish(ls_task *task)
{
    ls_device_run *r = task->payload;
    ls_feed_give(r->feed);
}

ls_task *ls_run_task(ls_trace *trace, ls_program *program, ls_tensor *root, ls_tensor *dy)
{
    ls_session *session = trace->session;
    ls_device device = place_of(root);
    ls_stream *stream = ls_stream_for(session, device);
    const ls_plan *plan = stream ? ls_plan_for(program->plan, stream->core->unit->backend) : NULL;
    if (stream && !plan)
        ls_raise(&session->context, LS_UNSUPPORTED,
                 "%s runs networks; computations with tensors of one's own run on CPUs", stream->core->unit->name);
    if (!plan || ls_core_reserve(stream->core, plan) != LS_OK)
        return NULL;
    if (program->network)
        ls_network_publish(program->network);
    const ls_tensor *over = root->fold ? root->in[0] : root;
    ls_feed *feed = ls_feed_new(program, trace, over->shape.dim[0], dy);
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
    r->weights = (ls_target *)(r + 1);
    r->mean = root->fold == LS_FOLD_MEAN;
    r->step = program->network ? ls_network_step(program->network) : 0;
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
    if (program->network)
        r->statistics = ls_run_array(session, task, program->network->flat.state);
    return task;
}

void ls_run_summarize(ls_device_run *r, ls_task *task, ls_tensor *root)
{
    ls_session *session = task->session;
    r->metrics = ls_run_array(session, task, (size_t)r->feed->shards * (LS_METRICS + 2) + 1);
    r->summary = new_array(session, 2);
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

int ls_run_images(ls_session *session, const ls_tensor *root)
{
    const ls_tensor *over = root->fold ? root->in[0] : root;
    int64_t rows = over->shape.dim[0];
    return rows < session->options.shard ? (rows ? (int)rows : 1) : session->options.shard;
}
