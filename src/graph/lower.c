#include "graph/lower.h"

#include <stdio.h>
#include <string.h>

#include "device/recurrent.h"

_Static_assert(sizeof(ls_attributes) == LS_ATTRIBUTES_BYTES, "a gap between attributes would be in keys");

/* ---- Tracing ---- */

enum { LEAST_ROOM = 128, DEEPEST = 4096 };

/* The list with room for one more; the trace fails where there is no memory. */
static void *with_room(ls_trace *trace, void *items, int used, int *capacity, size_t size)
{
    void *list = ls_grow(&trace->session->context, items, used, capacity, LEAST_ROOM, size, "a trace");
    if (!list)
        trace->failure = "no memory";
    return list ? list : items;
}

static void put_word(ls_trace *trace, uint32_t word)
{
    trace->key = with_room(trace, trace->key, trace->key_length, &trace->key_capacity, sizeof word);
    if (!trace->failure)
        trace->key[trace->key_length++] = word;
}

static void put_bytes(ls_trace *trace, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i += sizeof(uint32_t)) {
        uint32_t word = 0;
        memcpy(&word, (const char *)bytes + i, size - i < sizeof word ? size - i : sizeof word);
        put_word(trace, word);
    }
}

static bool is_leaf(const ls_trace *trace, const ls_tensor *t, bool fresh)
{
    if (t->kind == LS_TENSOR_COMPUTED || t == trace->call)
        return !fresh && t->array != NULL;
    return true;
}

/* A leaf is described as such: numbers that were computed before are not the computation that they came from. */
static void put_tensor(ls_trace *trace, const ls_tensor *t, ls_role as, bool leaf)
{
    const bool detached = t->kind == LS_TENSOR_COMPUTED && t->computed.detached;
    put_word(trace, (uint32_t)detached << 17 | (uint32_t)leaf << 16 | (uint32_t)t->kind << 8 | (uint32_t)as << 4 |
                        (uint32_t)t->fold << 2 | (uint32_t)t->needs_gradient);
    put_word(trace, (uint32_t)t->shape.rank);
    for (int i = 1; i < t->shape.rank; i++)
        put_word(trace, (uint32_t)t->shape.dim[i]);
    if (as == LS_ROLE_WEIGHT && t->shape.rank)
        put_word(trace, (uint32_t)t->shape.dim[0]);
    put_word(trace, (uint32_t)t->view);
    if (t->kind == LS_TENSOR_CALL && !leaf) {
        put_bytes(trace, &t->network, sizeof t->network);
        put_bytes(trace, &t->forward.output, sizeof t->forward.output);
        for (int k = 0; k < LS_MAX_INPUTS; k++)
            if (t->in[k])
                put_word(trace, (uint32_t)t->in[k]->traced);
    }
    if (t->kind != LS_TENSOR_COMPUTED || leaf)
        return;
    put_bytes(trace, &t->computed.attributes, sizeof t->computed.attributes);
    put_word(trace, (uint32_t)t->computed.block);
    for (int k = 0; k < LS_MAX_IN; k++)
        if (t->in[k])
            put_word(trace, (uint32_t)t->in[k]->traced << 3 | (uint32_t)k);
}

static void add_weight(ls_trace *trace, ls_tensor *t)
{
    if (ls_shape_numbers(&t->shape) > LS_MOST_NUMBERS)
        trace->failure = "a weight has more than 2147483647 numbers";
    if (trace->failure)
        return;
    trace->arrays = with_room(trace, trace->arrays, trace->n_arrays, &trace->arrays_capacity, sizeof *trace->arrays);
    if (!trace->failure)
        trace->arrays[trace->n_arrays++] = t;
}

static void add_input(ls_trace *trace, ls_tensor *t)
{
    int c, h, w;
    if (ls_shape_image(&t->shape, &c, &h, &w) > LS_MOST_NUMBERS / LS_LANES)
        trace->failure = "an image has too many numbers";
    if (trace->n_inputs == LS_MAX_INPUTS)
        trace->failure = "it reads more arrays of images than can be handed in at once";
    else
        trace->inputs[trace->n_inputs++] = t;
}

/* Targets that were moved with their images: the host makes their numbers, as kernels move maps of images alone. */
static bool is_moved_target(const ls_tensor *t)
{
    return t->batch.list.changes && (t->shape.rank < LS_MAX_RANK || t->batch.list.edge != 0);
}

static void add_leaf(ls_trace *trace, ls_tensor *t, ls_role as)
{
    if (t->kind == LS_TENSOR_INPUT || t->kind == LS_TENSOR_PARAMETER) {
        const ls_tensor *call = trace->call; /* of whose forward it must be */
        if (!call ||
            (t->kind == LS_TENSOR_INPUT ? t != call->forward.inputs[t->input] : t->layout != call->forward.flat))
            trace->failure = "it was recorded in a module's forward, which has no values";
        return;
    }
    if (as == LS_ROLE_WEIGHT)
        add_weight(trace, t);
    else if (as == LS_ROLE_LABELS)
        trace->labels = trace->labels && trace->labels != t ? (trace->failure = "it has labels twice", t) : t;
    else if (t->kind == LS_TENSOR_IMAGES && !is_moved_target(t) && (!trace->images || trace->images == t))
        trace->images = t;
    else
        add_input(trace, t);
}

/* An operand that was changed after the computation was recorded: its old numbers are gone. */
static void check_versions(ls_trace *trace, const ls_tensor *t)
{
    for (int k = 0; k < LS_MAX_IN; k++)
        if (t->in[k] && ls_version_of(t->in[k]) != t->computed.version[k]) {
            char name[96];
            ls_raise(&trace->session->context, LS_STALE,
                     "%s was changed after a computation with it was recorded; read or run that before the change",
                     ls_tensor_name(t->in[k], name));
            trace->failure = "stale";
        }
}

/* What a cross-entropy asks of the labels. */
static void note_labels(ls_trace *trace, const ls_tensor *t)
{
    int c, h, w;
    ls_shape_image(&t->in[0]->shape, &c, &h, &w);
    const ls_ignored *ignored = &t->computed.ignored;
    if (trace->classes && (ignored->there != trace->ignored.there || ignored->label != trace->ignored.label))
        trace->failure = "it ignores a label here and another one, or none, there";
    if (!trace->classes || c < trace->classes)
        trace->classes = c;
    trace->labels_each = h * w;
    trace->ignored = *ignored;
}

/* What an embedding asks of its ids where they are read, not computed. */
static void note_ids(ls_trace *trace, const ls_tensor *t)
{
    const int rows = (int)t->in[1]->shape.dim[0];
    const ls_tensor *ids = t->in[0];
    while (ids->kind == LS_TENSOR_INPUT || (!is_leaf(trace, ids, trace->fresh) && ids->kind == LS_TENSOR_COMPUTED &&
                                            ids->computed.attributes.op == LS_OP_COUNT))
        ids = ids->kind == LS_TENSOR_INPUT ? trace->call->in[ids->input] : ids->in[0];
    int *below = ids == trace->images ? &trace->image_ids : NULL;
    for (int k = 0; k < trace->n_inputs && !below; k++)
        below = ids == trace->inputs[k] ? &trace->input_ids[k] : NULL;
    if (below && (!*below || rows < *below))
        *below = rows;
}

static const char too_deep[] = "more than 4096 operations lead to it, one after another; read a number on the way";

static void visit(ls_trace *trace, ls_tensor *t, ls_role as, bool fresh)
{
    if (trace->failure)
        return;
    if (t->trace == trace->number) {
        if (is_leaf(trace, t, fresh) && as != (ls_role)t->trace_role)
            trace->failure = "it uses one array both as images and as a weight";
        return;
    }
    if (++trace->depth > DEEPEST)
        trace->failure = too_deep;
    if (trace->failure)
        return;
    if (is_leaf(trace, t, fresh)) {
        add_leaf(trace, t, as);
    } else if (t->kind == LS_TENSOR_CALL) {
        if (!ls_has_network(t, "a computation")) {
            trace->failure = "its network is gone";
            return;
        }
        for (int k = 0; k < LS_MAX_INPUTS; k++)
            if (t->in[k])
                visit(trace, t->in[k], LS_ROLE_IMAGES, fresh);
        visit(trace, t->forward.output, LS_ROLE_IMAGES, true);
    } else {
        check_versions(trace, t);
        if (t->computed.attributes.op == LS_OP_CROSS_ENTROPY && t->in[1])
            note_labels(trace, t);
        for (int k = 0; k < LS_MAX_IN; k++)
            if (t->in[k])
                visit(trace, t->in[k], ls_role_of(&t->computed.attributes, k), fresh);
        if (t->computed.attributes.op == LS_OP_EMBEDDING && !trace->failure)
            note_ids(trace, t);
    }
    trace->depth--;
    trace->order = with_room(trace, trace->order, trace->n, &trace->capacity, sizeof *trace->order);
    if (trace->failure)
        return;
    t->trace = trace->number;
    t->traced = trace->n;
    t->trace_role = (int)as;
    put_tensor(trace, t, as, is_leaf(trace, t, fresh));
    trace->order[trace->n++] = t;
}

/* The calls that lead to a tensor, those of whose results others are made first. */
static void list_calls(ls_trace *trace, ls_tensor *t, bool fresh)
{
    const bool call = t->kind == LS_TENSOR_CALL;
    if (trace->failure || t->trace == trace->number || (t->kind != LS_TENSOR_COMPUTED && !call) || (!fresh && t->array))
        return;
    t->trace = trace->number;
    if (++trace->depth > DEEPEST)
        trace->failure = too_deep;
    for (int k = 0; k < LS_MAX_IN; k++)
        if (t->in[k])
            list_calls(trace, t->in[k], fresh);
    trace->depth--;
    if (!call || trace->failure)
        return;
    trace->calls = with_room(trace, trace->calls, trace->n_calls, &trace->calls_capacity, sizeof *trace->calls);
    if (!trace->failure)
        trace->calls[trace->n_calls++] = trace->call = t;
}

ls_status ls_trace_run(ls_trace *trace, ls_tensor *root, bool fresh)
{
    ls_session *session = root->session;
    trace->session = session;
    trace->fresh = fresh;
    trace->number = ++session->tensors->traces;
    trace->n = trace->n_inputs = trace->n_arrays = trace->n_calls = 0;
    trace->key_length = trace->depth = 0;
    trace->images = trace->labels = trace->call = NULL;
    trace->image_ids = trace->classes = 0;
    memset(trace->input_ids, 0, sizeof trace->input_ids);
    trace->labels_each = 1;
    trace->ignored = (ls_ignored){.there = false};
    trace->failure = NULL;
    list_calls(trace, root, fresh);
    trace->number = ++session->tensors->traces;
    visit(trace, root, LS_ROLE_IMAGES, fresh);
    if (trace->failure && !ls_failed(session))
        ls_raise(&session->context, LS_UNSUPPORTED, "this computation cannot be run: %s", trace->failure);
    return ls_status_of(session);
}

void ls_trace_free(ls_trace *trace)
{
    if (!trace->session)
        return;
    ls_context *context = &trace->session->context;
    ls_release(context, trace->order);
    ls_release(context, trace->calls);
    ls_release(context, trace->arrays);
    ls_release(context, trace->key);
}

ls_trace *ls_session_trace(ls_session *session)
{
    if (!session->trace)
        session->trace = ls_alloc(&session->context, 1, sizeof *session->trace, "a trace");
    return session->trace;
}

/* ---- Lowering ---- */

typedef struct lowering {
    const ls_trace *trace;
    const ls_request *request;
    ls_graph *graph;
    ls_value *inputs[LS_MAX_INPUTS];
    int n_inputs;
    int arrays;
    bool failed;
} lowering;

static ls_value *keep(lowering *l, ls_value *value)
{
    l->failed |= !value;
    return value;
}

static ls_value *value_like(lowering *l, const ls_tensor *t)
{
    int c, h, w;
    ls_shape_image(&t->shape, &c, &h, &w);
    ls_value *value = keep(l, ls_graph_value(l->graph, LS_IN_ARENA, c, h, w, true));
    if (value)
        value->needs_gradient = t->needs_gradient;
    return value;
}

static ls_node *node_for(lowering *l, ls_op op, const char *layer, ls_value *x, ls_value *y)
{
    ls_node *node = l->failed ? NULL : ls_graph_node(l->graph, op, layer);
    l->failed |= !node;
    if (!node)
        return NULL;
    node->in[0] = x;
    node->out[0] = y;
    return node;
}

/* Rows of floats, which the caller hands in shard by shard. */
static ls_value *lower_input(lowering *l, const ls_tensor *t)
{
    ls_value *value = value_like(l, t);
    ls_node *node = value ? node_for(l, LS_OP_INPUT, "input", NULL, value) : NULL;
    if (!node)
        return NULL;
    node->attributes.input = l->n_inputs;
    value->needs_gradient &= l->request->wanted != LS_WANT_PARAMETERS;
    return l->inputs[l->n_inputs++] = value;
}

/* A weight that is an array: what is tracked gets a place in the flat gradient. */
static ls_value *lower_array(lowering *l, const ls_tensor *t)
{
    ls_value *value = keep(l, ls_graph_value(l->graph, LS_IN_ARRAYS, (int)ls_shape_numbers(&t->shape), 1, 1, false));
    if (!value)
        return NULL;
    value->offset = (size_t)l->arrays;
    value->needs_gradient = ls_is_tracked(t);
    if (ls_is_tracked(t)) {
        char name[16]; /* not the tensor's own: another one may stand in its place next time */
        snprintf(name, sizeof name, "%d", l->arrays);
        value->view = ls_flat_find(l->request->flat, name);
        if (value->view < 0)
            value->view = ls_flat_add(l->request->flat, name, t->shape.rank, t->shape.dim, true, false);
        l->failed |= value->view < 0;
    }
    l->arrays++;
    return value;
}

static ls_value *lower_parameter(lowering *l, const ls_tensor *t)
{
    ls_value *value = keep(l, ls_graph_view(l->graph, t->view));
    if (value)
        value->needs_gradient &= l->request->wanted != LS_WANT_INPUTS;
    return value;
}

static ls_value *lower_leaf(lowering *l, const ls_tensor *t)
{
    if (t->kind == LS_TENSOR_PARAMETER)
        return lower_parameter(l, t);
    if (t->kind == LS_TENSOR_INPUT)
        return l->trace->call->in[t->input]->value;
    if (t->trace_role == LS_ROLE_WEIGHT)
        return lower_array(l, t);
    if (t->trace_role == LS_ROLE_LABELS)
        return NULL; /* they come with the samples */
    if (t != l->trace->images)
        return lower_input(l, t);
    ls_value *value = value_like(l, t);
    node_for(l, LS_OP_IMAGES, "images", NULL, value);
    return value;
}

static ls_value *reshaped(lowering *l, ls_value *value, const ls_shape *shape)
{
    int c, h, w;
    ls_shape_image(shape, &c, &h, &w);
    return keep(l, ls_graph_reshaped(l->graph, value, 1, c, h, w));
}

/* A BatchNorm whose running statistics are frozen takes those. */
static ls_op op_of(const lowering *l, const ls_tensor *t)
{
    const ls_op op = t->computed.attributes.op;
    return op == LS_OP_BATCH_NORM && l->graph->flat->views[t->view].frozen ? LS_OP_BATCH_NORM_INFER : op;
}

/* What a shard hands on as the statistics at that place; NULL: nothing so far. */
static ls_value *statistics_at(const ls_graph *graph, size_t offset)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        ls_value *made = graph->nodes[i].attributes.op == LS_OP_BATCH_NORM ? graph->nodes[i].out[2] : NULL;
        if (made && made->place == LS_IN_STATISTICS && made->offset == offset)
            return made;
    }
    return NULL;
}

/* Statistics of further uses of a BatchNorm lie in the arena, and know that place. What a shard hands on is as if the
 * running ones had moved at each use: S = fma(1 - momentum, S, those of the next use). */
static void add_up_statistics(lowering *l)
{
    const int forward = l->graph->n_nodes;
    for (int i = 0; i < forward && !l->failed; i++) {
        const ls_node *norm = &l->graph->nodes[i];
        ls_value *more = norm->attributes.op == LS_OP_BATCH_NORM ? norm->out[2] : NULL;
        if (!more || more->place != LS_IN_ARENA)
            continue;
        ls_value *sum = statistics_at(l->graph, more->offset);
        ls_node *add = node_for(l, LS_OP_ADD_SCALED, norm->layer, sum, sum);
        if (!add)
            return;
        add->in[1] = more;
        add->attributes.factor = (float)(1 - ls_flat_momentum_at(l->graph->flat, more->offset));
    }
}

static void add_norm_operands(lowering *l, const ls_tensor *t, bool training)
{
    int at = l->graph->n_nodes - 1, channels = (int)t->shape.dim[1];
    const size_t offset = l->graph->flat->views[t->view].offset;
    const bool again = training && statistics_at(l->graph, offset);
    ls_value *saved = training ? ls_graph_value(l->graph, LS_IN_ARENA, 2 * channels, 1, 1, false) : NULL;
    const ls_place place = again ? LS_IN_ARENA : training ? LS_IN_STATISTICS : LS_IN_STATE;
    ls_value *statistics = ls_graph_value(l->graph, place, 2 * channels, 1, 1, false);
    l->failed |= !statistics || (training && !saved);
    if (l->failed)
        return;
    statistics->offset = offset;
    ls_node *node = &l->graph->nodes[at];
    if (training) {
        node->out[1] = saved;
        node->out[2] = statistics;
    } else {
        node->in[4] = statistics;
    }
}

/* A product over the features of sequences, (images, tokens, features). The lanes of a group hold one token after
 * another, as they would hold one group of images after another: so each token is an image to its kernels. */
static ls_value *lower_by_tokens(lowering *l, const ls_tensor *t, ls_node *node)
{
    const int tokens = (int)t->shape.dim[1];
    ls_value *x = node->in[0], *y = node->out[0];
    node->in[0] = keep(l, ls_graph_reshaped(l->graph, x, tokens, (int)t->in[0]->shape.dim[2], 1, 1));
    y->tokens = tokens;
    y->c = (int)t->shape.dim[2];
    y->h = y->w = 1;
    return reshaped(l, y, &t->shape);
}

static ls_value *lower_computed(lowering *l, const ls_tensor *t)
{
    const ls_op op = op_of(l, t);
    if (op == LS_OP_COUNT) {
        ls_value *same = reshaped(l, t->in[0]->value, &t->shape);
        if (same)
            same->needs_gradient &= !t->computed.detached;
        return same;
    }
    if (t->fold) /* the graph goes as far as the images; the rest is a matter of the shards */
        return t->in[0]->value;
    ls_value *y = value_like(l, t);
    ls_node *node = y ? node_for(l, op, t->computed.layer, NULL, y) : NULL;
    if (!node)
        return NULL;
    node->attributes = t->computed.attributes;
    node->attributes.op = op;
    node->block = t->computed.block;
    y->needs_gradient = false;
    for (int k = 0; k < LS_MAX_IN; k++) {
        node->in[k] = t->in[k] ? t->in[k]->value : NULL;
        y->needs_gradient |= node->in[k] && node->in[k]->needs_gradient;
    }
    if (op == LS_OP_CONV && t->shape.rank == 3)
        return lower_by_tokens(l, t, node);
    if (op == LS_OP_SET_NORM || op == LS_OP_RMS_NORM) {
        ls_value *saved = keep(l, ls_graph_value(l->graph, LS_IN_ARENA, 2 * y->c, 1, y->w, true));
        l->graph->nodes[l->graph->n_nodes - 1].out[1] = saved;
    } else if (op == LS_OP_LSTM || op == LS_OP_GRU) {
        const int each = op == LS_OP_LSTM ? LS_LSTM_SAVED : LS_GRU_SAVED;
        ls_value *saved = keep(l, ls_graph_value(l->graph, LS_IN_ARENA, y->c, each * y->h, 1, true));
        l->graph->nodes[l->graph->n_nodes - 1].out[1] = saved;
    } else if (op == LS_OP_ATTENTION) {
        ls_value *saved = keep(l, ls_graph_value(l->graph, LS_IN_ARENA, 3 * y->c, y->h, 1, true));
        l->graph->nodes[l->graph->n_nodes - 1].out[1] = saved;
    } else if (op == LS_OP_CROSS_ENTROPY) {
        ls_value *probabilities = keep(l, ls_graph_like(l->graph, t->in[0]->value));
        l->graph->nodes[l->graph->n_nodes - 1].out[1] = probabilities;
    } else if (op == LS_OP_BATCH_NORM || op == LS_OP_BATCH_NORM_INFER) {
        add_norm_operands(l, t, op == LS_OP_BATCH_NORM);
    } else if (op == LS_OP_EXPAND_WEIGHT) {
        const ls_shape behind = ls_shape_behind_images(&t->in[0]->shape, t->shape.rank, t->computed.attributes.axis);
        ls_value *weight = reshaped(l, t->in[0]->value, &behind);
        l->graph->nodes[l->graph->n_nodes - 1].in[0] = weight;
    }
    return y;
}

static void record_metric(lowering *l, ls_value *x, ls_op op, size_t metric)
{
    ls_value *sum = l->failed ? NULL : keep(l, ls_graph_value(l->graph, LS_IN_METRICS, 1, 1, 1, false));
    if (!sum)
        return;
    sum->offset = metric;
    node_for(l, op, "metrics", x, sum);
}

static void record_output(lowering *l, ls_value *x, int output)
{
    ls_value *rows =
        l->failed ? NULL : keep(l, ls_graph_value(l->graph, LS_IN_OUTPUTS, x->c * x->h * x->w, 1, 1, false));
    if (!rows)
        return;
    rows->offset = (size_t)output;
    node_for(l, LS_OP_ROWS, "rows", x, rows);
}

static void record_wanted(lowering *l, const ls_tensor *root)
{
    if (l->request->wanted == LS_WANT_ROWS) {
        record_output(l, root->value, 0);
        return;
    }
    const ls_tensor *loss = root->fold ? root->in[0] : root;
    record_metric(l, loss->value, LS_OP_SUM_IMAGES, LS_METRIC_LOSS);
    const ls_tensor *counted = is_leaf(l->trace, loss, l->trace->fresh) ? NULL : ls_counted_loss(loss);
    if (counted == loss && loss->in[1]) /* labels of images; its logits are in this graph */
        record_metric(l, loss->in[0]->value, LS_OP_COUNT_CORRECT, LS_METRIC_CORRECT);
}

static void differentiate(lowering *l, const ls_tensor *root, unsigned *flowing)
{
    ls_value *dx[LS_MAX_INPUTS] = {NULL}, *dy = NULL;
    int inputs = l->n_inputs;
    if (l->request->has_dy) {
        dy = value_like(l, root);
        ls_node *node = dy ? node_for(l, LS_OP_INPUT, "input", NULL, dy) : NULL;
        if (node)
            node->attributes.input = inputs;
    }
    if (l->failed || ls_graph_differentiate(l->graph, root->value, dy, l->inputs, dx, inputs) != LS_OK)
        return;
    for (int k = 0; k < inputs; k++)
        if (dx[k]) {
            record_output(l, dx[k], k);
            *flowing |= 1u << k;
        }
}

ls_graph *ls_lower(const ls_trace *trace, const ls_request *request, unsigned *flowing)
{
    lowering l = {.trace = trace, .request = request};
    l.graph = ls_graph_new(trace->session, request->backend, request->flat, request->training);
    if (!l.graph)
        return NULL;
    for (int i = 0; i < trace->n && !l.failed; i++) {
        ls_tensor *t = trace->order[i];
        bool leaf = is_leaf(trace, t, trace->fresh);
        if (t->kind == LS_TENSOR_CALL && !leaf)
            t->value = t->forward.output->value;
        else
            t->value = leaf ? lower_leaf(&l, t) : lower_computed(&l, t);
    }
    add_up_statistics(&l);
    const ls_tensor *root = trace->order[trace->n - 1];
    *flowing = 0;
    if (!l.failed && !request->has_dy)
        record_wanted(&l, root);
    if (!l.failed && !request->flat->closed)
        l.failed = ls_flat_close(request->flat) != LS_OK;
    if (!l.failed)
        ls_graph_fuse(l.graph);
    if (!l.failed && request->wanted >= LS_WANT_GRADIENT)
        differentiate(&l, root, flowing);
    if (!l.failed)
        ls_graph_accumulate(l.graph);
    if (!l.failed && request->together)
        l.failed = ls_graph_split_norms(l.graph) != LS_OK;
    if (!l.failed)
        l.failed = ls_graph_recompute(l.graph) != LS_OK || ls_graph_reshape(l.graph) != LS_OK;
    if (!l.failed && !ls_failed(trace->session))
        return l.graph;
    ls_graph_free(l.graph);
    return NULL;
}
