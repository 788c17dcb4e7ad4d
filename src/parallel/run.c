/* Computations on one device: its shards one after another, and their gradients added in the order of the tree. */
#include <string.h>

#include "comm/tree.h"
#include "device/cpu/select.h"
#include "parallel/network.h"
#include "parallel/program.h"
#include "parallel/stream.h"
#include "parallel/values.h"

/* Where one gradient goes. */
typedef struct target {
    ls_array *gradient;
    bool add;        /* to what is there */
    ls_array *fresh; /* of an input that is added to: what this run gives */
} target;

typedef struct device_run {
    ls_feed *feed;
    ls_array *rows;    /* NULL: none are wanted */
    ls_array *summary; /* {loss, correct}; NULL without */
    ls_array *metrics; /* [shards][LS_METRICS] */
    bool mean;
    int n_partial;
    ls_array *partial[LS_TREE_LEVELS + 1];
    target inputs[LS_MAX_INPUTS];
    target *weights; /* one for each array of the feed; behind this struct */
} device_run;

/* ---- On the device ---- */

/* Finished subtrees, the largest first: subtree i of 2^level[i] shards is in partial[i]. */
typedef struct pile {
    int level[LS_TREE_LEVELS + 1], n;
} pile;

static void fold_top(device_run *r, pile *p, size_t n, const ls_backend *backend)
{
    float *left = r->partial[p->n - 2]->data;
    backend->add(left, left, r->partial[p->n - 1]->data, n);
    p->n--;
    p->level[p->n - 1]++;
}

static void run_shards(device_run *r, ls_core *core)
{
    const ls_program *program = r->feed->program;
    const ls_backend *backend = program->plan->backend;
    struct ls_network *network = program->network;
    size_t trainable = program->own_flat.trainable;
    ls_bindings bindings = {.scratch = NULL};
    if (network)
        ls_network_bind(network, &bindings);
    pile p = {.n = 0};
    if (r->n_partial && !r->feed->shards)
        memset(r->partial[0]->data, 0, trainable * sizeof(float)); /* the sum over an empty part of a batch */
    for (int j = 0; j < r->feed->shards; j++) {
        float *outputs[LS_MAX_INPUTS] = {NULL};
        size_t first = (size_t)j * (size_t)r->feed->shard;
        if (r->rows)
            outputs[0] = r->rows->data + first * (size_t)program->output_numbers;
        for (int k = 0; k < LS_MAX_INPUTS; k++)
            if (r->inputs[k].fresh)
                outputs[k] = r->inputs[k].fresh->data + first * r->feed->input_numbers[k];
        if (r->metrics)
            bindings.base[LS_IN_METRICS] = r->metrics->data + (size_t)j * LS_METRICS;
        if (r->n_partial) {
            p.level[p.n++] = 0;
            bindings.base[LS_IN_GRADIENTS] = r->partial[p.n - 1]->data;
            memset(r->partial[p.n - 1]->data, 0, trainable * sizeof(float));
        }
        bindings.outputs = outputs;
        ls_feed_run(r->feed, j, core, &bindings, 0, NULL, NULL);
        while (p.n > 1 && p.level[p.n - 1] == p.level[p.n - 2])
            fold_top(r, &p, trainable, backend);
    }
    while (p.n > 1)
        fold_top(r, &p, trainable, backend);
}

/* The losses as doubles lie behind the metrics. */
static void sum_metrics(const device_run *r)
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

static void settle(const target *t, const float *from, size_t n, const ls_backend *backend)
{
    if (t->add)
        backend->add(t->gradient->data, t->gradient->data, from, n);
    else if (from != t->gradient->data)
        memcpy(t->gradient->data, from, n * sizeof *from);
}

static void put_gradients(const device_run *r)
{
    const ls_flat *flat = &r->feed->program->own_flat;
    const ls_backend *backend = r->feed->program->plan->backend;
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
    device_run *r = task->payload;
    ls_feed_locate(r->feed);
    run_shards(r, core);
    if (r->summary)
        sum_metrics(r);
    put_gradients(r);
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

static ls_array *working_array(ls_session *session, ls_task *task, size_t n)
{
    ls_array *array = new_array(session, n);
    if (array) {
        ls_task_writes(task, array);
        ls_array_drop(array); /* the task holds it now */
    }
    return array;
}

static int ceil_log2(int n)
{
    int levels = 0;
    while ((1 << levels) < n)
        levels++;
    return levels;
}

static void finish(ls_task *task)
{
    device_run *r = task->payload;
    ls_feed_give(r->feed);
}

/* A task over the traced computation, reading what it reads; NULL after a failure. The payload is zero but for the feed. */
static ls_task *task_for(ls_trace *trace, const ls_program *program, ls_tensor *root, ls_tensor *dy)
{
    ls_session *session = trace->session;
    ls_device device = place_of(root);
    ls_stream *stream = ls_stream_for(session, device);
    if (!stream || ls_core_reserve(stream->core, program->plan) != LS_OK)
        return NULL;
    const ls_tensor *over = root->fold ? root->in[0] : root;
    ls_feed *feed = ls_feed_new(program, trace, over->shape.dim[0], dy);
    size_t payload = sizeof(device_run) + (size_t)trace->n_arrays * sizeof(target);
    ls_task *task = feed ? ls_task_new(session, device, work, payload) : NULL;
    if (!task) {
        if (feed)
            ls_feed_give(feed);
        return NULL;
    }
    device_run *r = task->payload;
    memset(r, 0, payload);
    r->feed = feed;
    r->weights = (target *)(r + 1);
    r->mean = root->fold == LS_FOLD_MEAN;
    task->finish = finish;
    for (int k = 0; k < feed->n_inputs; k++)
        ls_task_reads(task, feed->inputs[k]);
    for (int k = 0; k < feed->n_arrays; k++)
        ls_task_reads(task, feed->arrays[k]);
    if (feed->label_array)
        ls_task_reads(task, feed->label_array);
    if (feed->images.index)
        ls_task_reads(task, feed->images.index);
    if (feed->labels.index)
        ls_task_reads(task, feed->labels.index);
    return task;
}

static void add_summary(device_run *r, ls_task *task, ls_tensor *root)
{
    ls_session *session = task->session;
    r->metrics = working_array(session, task, (size_t)r->feed->shards * (LS_METRICS + 2) + 1);
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

static int images_of(ls_session *session, const ls_tensor *root)
{
    const ls_tensor *over = root->fold ? root->in[0] : root;
    int64_t rows = over->shape.dim[0];
    return rows < session->options.shard ? (rows ? (int)rows : 1) : session->options.shard;
}

ls_status ls_run_forward(ls_tensor *tensor)
{
    ls_session *session = tensor->session;
    ls_trace *trace = ls_session_trace(session);
    if (!trace || ls_trace_run(trace, tensor, false) != LS_OK || ls_trace_operands(trace) != LS_OK)
        return ls_status_of(session);
    if (trace->call && tensor->device.type == LS_HOST)
        return ls_run_spread(trace, tensor);
    if (trace->call && ls_network_read(trace->call) != LS_OK)
        return ls_status_of(session);
    bool scalar = tensor->fold != LS_NOT_FOLDED;
    ls_program *program = ls_program_of(trace, scalar ? LS_WANT_LOSS : LS_WANT_ROWS, false, images_of(session, tensor));
    ls_task *task = program ? task_for(trace, program, tensor, NULL) : NULL;
    if (!task)
        return ls_status_of(session);
    device_run *r = task->payload;
    if (scalar) {
        add_summary(r, task, tensor);
    } else {
        tensor->array =
            ls_array_new(&session->tensors->arrays, tensor->device, (size_t)ls_shape_numbers(&tensor->shape));
        r->rows = tensor->array;
        if (r->rows)
            ls_task_writes(task, r->rows);
    }
    ls_task_hand_in(task);
    return ls_status_of(session);
}

/* ---- Backward ---- */

/* Notes where the gradient of a tracked tensor goes. */
static target aim(ls_task *task, ls_tensor *tracked)
{
    target t = {.gradient = tracked->gradient, .add = tracked->freshness == LS_FRESH};
    ls_task_writes(task, t.gradient);
    tracked->freshness = LS_FRESH;
    return t;
}

static ls_status backward(ls_tensor *root, ls_tensor *dy, const char *function)
{
    ls_session *session = root->session;
    ls_trace *trace = ls_session_trace(session);
    if (!trace || ls_trace_run(trace, root, true) != LS_OK || ls_trace_operands(trace) != LS_OK)
        return ls_status_of(session);
    if (trace->call)
        return dy ? ls_raise(&session->context, LS_UNSUPPORTED,
                             "%s: a network's backward pass starts from a loss; use ls_backward", function)
                  : ls_network_backward(trace, root);
    if (!root->needs_gradient)
        return ls_raise(&session->context, LS_BAD_ARGUMENT,
                        "%s: nothing tracked leads to this tensor, so there is nothing to differentiate for; see "
                        "ls_track and ls_train",
                        function);
    ls_program *program = ls_program_of(trace, LS_WANT_GRADIENT, dy != NULL, images_of(session, root));
    ls_task *task = program ? task_for(trace, program, root, dy) : NULL;
    if (!task)
        return ls_status_of(session);
    device_run *r = task->payload;
    if (!dy)
        add_summary(r, task, root);
    if (root->fold == LS_FOLD_MEAN)
        r->feed->one = 1.0f / (float)r->feed->rows;
    r->n_partial = program->own_flat.n_views ? ceil_log2(r->feed->shards) + 2 : 0;
    for (int i = 0; i < r->n_partial; i++)
        r->partial[i] = working_array(session, task, program->own_flat.trainable);
    for (int k = 0; k < trace->n_arrays; k++)
        if (trace->arrays[k]->tracked)
            r->weights[k] = aim(task, trace->arrays[k]);
    for (int k = 0; k < trace->n_inputs; k++)
        if (trace->inputs[k]->tracked && (program->flowing >> k & 1)) {
            r->inputs[k] = aim(task, trace->inputs[k]);
            r->inputs[k].fresh =
                r->inputs[k].add ? working_array(session, task, r->inputs[k].gradient->n) : r->inputs[k].gradient;
        }
    ls_task_hand_in(task);
    return ls_status_of(session);
}

ls_status ls_backward(ls_tensor *loss)
{
    ls_session *session = ls_value_session(loss, "ls_backward");
    if (!session)
        return loss ? ls_status_of(loss->session) : LS_BAD_ARGUMENT;
    if (loss->kind != LS_TENSOR_COMPUTED || loss->shape.rank > 1) {
        ls_bad_shape(loss, "ls_backward", "the loss must be computed, one number or one for each image");
        return ls_status_of(session);
    }
    return backward(loss, NULL, "ls_backward");
}

ls_status ls_backward_from(ls_tensor *y, ls_tensor *dy)
{
    ls_session *session = ls_value_session(y, "ls_backward_from");
    if (!session)
        return y ? ls_status_of(y->session) : LS_BAD_ARGUMENT;
    if (!dy || dy->session != session || !ls_same_shape(&y->shape, &dy->shape) || y->kind != LS_TENSOR_COMPUTED ||
        y->fold)
        return ls_raise(&session->context, LS_BAD_SHAPE,
                        "ls_backward_from: y must be computed, and dy a tensor of its shape");
    char a[96], b[96];
    if (!ls_same_device(y->device, dy->device))
        return ls_raise(&session->context, LS_BAD_ARGUMENT, "ls_backward_from: y is %s, dy %s; copy dy with ls_to",
                        ls_tensor_name(y, a), ls_tensor_name(dy, b));
    return ls_realize(dy, "ls_backward_from") == LS_OK ? backward(y, dy, "ls_backward_from") : ls_status_of(session);
}
