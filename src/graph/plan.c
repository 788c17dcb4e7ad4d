#include "graph/plan.h"

#include <string.h>

#include "base/timer.h"
#include "device/gpu_trace.h"

/* A value's life: from the step that makes it to the last that reads it. */
typedef struct life {
    size_t floats, offset;
    int from, to;
    size_t number; /* bytes of one */
    bool crosses;  /* it is there before a meeting, and read behind it */
} life;

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* Of output `k` of a node, in the layout of a backend. */
static size_t floats_of(const ls_node *node, int k, int capacity, const ls_backend *backend)
{
    const ls_value *value = node->out[k];
    size_t image = (size_t)value->tokens * (size_t)value->c * (size_t)value->h * (size_t)value->w;
    const size_t place = (size_t)backend->place;
    if (!value->per_image)
        return round_up(image, place);
    size_t bytes = backend->made ? backend->made(node->attributes.op, k) : sizeof(float);
    size_t images = round_up((size_t)capacity, (size_t)backend->group);
    return round_up((images * image * bytes + sizeof(float) - 1) / sizeof(float), place);
}

static void find_lives(const ls_graph *graph, life *lives, int capacity, const ls_backend *backend)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        const ls_node *node = &graph->nodes[i];
        for (int k = 0; k < LS_MAX_OUT; k++)
            if (node->out[k] && node->out[k]->place == LS_IN_ARENA) {
                life *l = &lives[ls_graph_root(node->out[k])->id];
                *l = (life){.floats = floats_of(node, k, capacity, backend),
                            .from = i,
                            .to = i,
                            .number = backend->made ? backend->made(node->attributes.op, k) : sizeof(float)};
            }
        for (int k = 0; k < LS_MAX_IN; k++)
            if (node->in[k])
                lives[ls_graph_root(node->in[k])->id].to = i;
    }
}

/* Lets the output of a step take the place of an operand that ends there, where the operation allows it; returns
 * through `heir` which value now lives on in which. */
static void join_lives(const ls_graph *graph, life *lives, int *heir)
{
    for (int i = 0; i < graph->n_values; i++)
        heir[i] = i;
    for (int i = 0; i < graph->n_nodes; i++) {
        const ls_node *node = &graph->nodes[i];
        const unsigned overwrites = ls_op_overwrites(node->attributes.op);
        if (!overwrites || node->out[0]->place != LS_IN_ARENA)
            continue;
        for (int k = 0; k < LS_MAX_IN; k++) {
            const ls_value *operand = node->in[k] ? ls_graph_root(node->in[k]) : NULL;
            int out = node->out[0]->id;
            if (!(overwrites >> k & 1) || !operand || operand->place != LS_IN_ARENA || !operand->per_image ||
                node->in[0] == node->in[1])
                continue;
            int root = heir[operand->id];
            if (lives[root].to != i || lives[root].floats != lives[out].floats)
                continue;
            lives[root].to = lives[out].to;
            heir[out] = root;
            lives[out].floats = 0;
            break;
        }
    }
}

static void find_crossing(const ls_plan *plan, life *lives, int n)
{
    for (int i = 0; i < n; i++)
        for (int m = 0; m < plan->n_meetings; m++)
            lives[i].crosses |= lives[i].from < plan->meetings[m].step && plan->meetings[m].step <= lives[i].to;
}

/* Of those that cross a meeting, or of the others: largest first, each at the lowest offset that no value alive at the
 * same time holds. Returns the length of what they lie in. */
static size_t place_lives(life *lives, int n, bool crossing, int *order)
{
    int count = 0;
    for (int i = 0; i < n; i++)
        if (lives[i].floats && lives[i].crosses == crossing)
            order[count++] = i;
    for (int i = 1; i < count; i++) /* insertion: a few hundred values at most */
        for (int j = i; j > 0 && lives[order[j]].floats > lives[order[j - 1]].floats; j--) {
            int swapped = order[j];
            order[j] = order[j - 1];
            order[j - 1] = swapped;
        }
    size_t length = 0;
    for (int i = 0; i < count; i++) {
        life *l = &lives[order[i]];
        bool moved = true;
        l->offset = 0;
        while (moved) {
            moved = false;
            for (int j = 0; j < i; j++) {
                const life *other = &lives[order[j]];
                bool same_time = l->from <= other->to && other->from <= l->to;
                bool same_place = l->offset < other->offset + other->floats && other->offset < l->offset + l->floats;
                if (same_time && same_place) {
                    l->offset = other->offset + other->floats;
                    moved = true;
                }
            }
        }
        if (l->offset + l->floats > length)
            length = l->offset + l->floats;
    }
    return length;
}

static ls_argument argument(ls_op op, const ls_value *value, const life *lives, const int *heir)
{
    if (!value)
        return (ls_argument){.c = 0};
    const ls_value *root = ls_graph_root(value);
    const bool arena = root->place == LS_IN_ARENA;
    const bool moves = op == LS_OP_RESHAPE && value->tokens > 1; /* images that are rows of tokens */
    return (ls_argument){.place = arena && lives[heir[root->id]].crosses ? LS_IN_ROOM : root->place,
                         .offset = arena ? lives[heir[root->id]].offset : root->offset,
                         .c = moves ? 1 : value->c,
                         .h = moves ? value->tokens : value->h,
                         .w = moves ? value->c : value->w,
                         .per_image = value->per_image,
                         .number = (uint8_t)(arena ? lives[root->id].number : sizeof(float))};
}

/* Which buckets are whole after which step: a bucket is, after the last step that writes into it. A bucket that no step
 * writes (biases in front of BatchNorm alone) is whole after the last step. */
static void find_whole(ls_plan *plan, const ls_flat *flat)
{
    int n = 0;
    for (int i = 0; i < plan->n_steps; i++) {
        plan->steps[i].first_bucket = n;
        for (int b = 0; b < flat->n_buckets; b++) {
            int last = plan->n_steps - 1;
            for (int j = plan->n_steps - 1, found = 0; j >= 0 && !found; j--)
                for (int k = 0; k < LS_MAX_OUT; k++) {
                    const ls_argument *out = &plan->steps[j].out[k];
                    if (out->c && out->place == LS_IN_GRADIENTS && out->offset >= flat->buckets[b].begin &&
                        out->offset < flat->buckets[b].end && !found) {
                        last = j;
                        found = 1;
                    }
                }
            if (last == i)
                plan->whole[n++] = b;
        }
        plan->steps[i].buckets = n - plan->steps[i].first_bucket;
    }
}

static ls_operand operand(const ls_argument *a, const ls_bindings *bindings)
{
    float *data = NULL;
    if (a->c && a->place == LS_IN_ARRAYS)
        data = bindings->arrays[a->offset];
    else if (a->c && a->place == LS_IN_OUTPUTS)
        data = bindings->outputs[a->offset];
    else if (a->c)
        data = bindings->base[a->place] + a->offset;
    return (ls_operand){data, a->c, a->h, a->w};
}

static void set_call(ls_op_call *call, const ls_plan_step *step, const ls_bindings *bindings)
{
    call->attributes = &step->attributes;
    for (int k = 0; k < LS_MAX_IN; k++)
        call->in[k] = operand(&step->in[k], bindings);
    for (int k = 0; k < LS_MAX_OUT; k++)
        call->out[k] = operand(&step->out[k], bindings);
}

static int groups_of(int images)
{
    return (images + LS_LANES - 1) / LS_LANES;
}

/* Whose images the call is over: the shard's, or their tokens, with those of the lanes that hold no image. `tokens` is
 * room for that. */
static void set_images(ls_op_call *call, const ls_plan *plan, const ls_plan_step *step, const ls_samples *samples,
                       ls_samples *tokens)
{
    call->groups = groups_of(samples->count) * step->tokens;
    call->samples = samples;
    if (step->tokens == 1)
        return;
    *tokens = *samples;
    tokens->count = (int)round_up((size_t)samples->count, (size_t)plan->backend->group) * step->tokens;
    call->samples = tokens;
}

/* Kernels cut their work by its size, so that a smaller shard may need more scratch than the largest. */
static void measure_scratch(ls_plan *plan)
{
    static float somewhere[1]; /* the backend asks which operands are there, and reads none */
    float *const list[] = {somewhere};
    ls_bindings nowhere = {.arrays = list, .outputs = list};
    for (int i = 0; i < LS_PLACES; i++)
        nowhere.base[i] = somewhere;
    ls_samples samples = {.count = 0}, tokens;
    ls_op_call call = {.samples = &samples};
    for (int i = 0; i < plan->n_steps && plan->backend->scratch; i++) {
        ls_plan_step step = plan->steps[i];
        for (int k = 0; k < LS_MAX_IN; k++)
            step.in[k].offset = 0;
        for (int k = 0; k < LS_MAX_OUT; k++)
            step.out[k].offset = 0;
        set_call(&call, &step, &nowhere);
        for (int group = 1; group <= groups_of(plan->capacity); group++) {
            samples.count = group * LS_LANES < plan->capacity ? group * LS_LANES : plan->capacity;
            set_images(&call, plan, &step, &samples, &tokens);
            const size_t bytes = plan->backend->scratch(&call);
            if (bytes > plan->scratch_bytes)
                plan->scratch_bytes = bytes;
        }
    }
}

/* Numbers of one width must not be read as numbers of another. */
static ls_status check_numbers(const ls_plan *plan, const ls_node *node, const life *lives)
{
    ls_op op = node->attributes.op;
    for (int k = 0; k < LS_MAX_IN && plan->backend->read; k++) {
        const ls_value *value = node->in[k] ? ls_graph_root(node->in[k]) : NULL;
        if (value && value->place == LS_IN_ARENA && value->per_image &&
            lives[value->id].number != plan->backend->read(op, k))
            return ls_raise(plan->context, LS_UNSUPPORTED, "%s: %s of such operands cannot be computed by %s",
                            node->layer, ls_op_name(op), plan->backend->name);
    }
    return LS_OK;
}

static void note_norm(ls_plan *plan, const ls_node *node)
{
    if (node->attributes.op != LS_OP_BATCH_NORM && node->attributes.op != LS_OP_NORM_SUMS)
        return;
    ls_fewest *fewest = node->attributes.op == LS_OP_BATCH_NORM ? &plan->by_shard : &plan->together;
    int places = node->in[0]->h * node->in[0]->w;
    if (!fewest->places || places < fewest->places)
        *fewest = (ls_fewest){places, node->layer};
}

static void note_labels(ls_plan *plan, const ls_node *node)
{
    if (node->attributes.op == LS_OP_CROSS_ENTROPY && !node->in[3] && node->in[0]->h * node->in[0]->w > 1)
        plan->labels_each = node->in[0]->h * node->in[0]->w;
}

/* A block's operations that are computed again find the totals of a meeting that was before. */
static ls_status find_meetings(ls_plan *plan, const ls_graph *graph)
{
    plan->sums_floats = graph->sums_floats;
    plan->meetings = ls_alloc(plan->context, (size_t)graph->n_nodes + 1, sizeof *plan->meetings, "a plan");
    if (!plan->meetings)
        return LS_OUT_OF_MEMORY;
    for (int i = 0; i < graph->n_nodes; i++) {
        const ls_op op = graph->nodes[i].attributes.op;
        if (op != LS_OP_NORM_APPLY && op != LS_OP_NORM_DATA)
            continue;
        const ls_value *totals = graph->nodes[i].in[op == LS_OP_NORM_APPLY ? 4 : 5];
        bool met = false;
        for (int m = 0; m < plan->n_meetings; m++)
            met |= plan->meetings[m].offset == totals->offset;
        if (!met)
            plan->meetings[plan->n_meetings++] = (ls_meeting){
                .step = i, .offset = totals->offset, .floats = (size_t)totals->c, .slopes = op == LS_OP_NORM_DATA};
    }
    return LS_OK;
}

/* The user's own operation without its function for cards, on one. */
static bool lacks_own(const ls_backend *backend, const ls_attributes *how)
{
    if (!backend->launches)
        return false;
    return (how->op == LS_OP_CUSTOM && !how->custom->cuda_forward) ||
           (how->op == LS_OP_CUSTOM_BACKWARD && !how->custom->cuda_backward);
}

static ls_status build(ls_plan *plan, const ls_graph *graph)
{
    ls_context *context = plan->context;
    int n = graph->n_values > 0 ? graph->n_values : 1;
    life *lives = ls_alloc(context, (size_t)n, sizeof *lives, "a plan");
    int *heir = ls_alloc(context, (size_t)n, sizeof *heir, "a plan"),
        *order = ls_alloc(context, (size_t)n, sizeof *order, "a plan");
    plan->steps = ls_alloc(context, (size_t)graph->n_nodes + 1, sizeof *plan->steps, "a plan");
    plan->whole = ls_alloc(context, (size_t)graph->flat->n_buckets + 1, sizeof *plan->whole, "a plan");
    ls_status status = lives && heir && order && plan->steps && plan->whole ? LS_OK : LS_OUT_OF_MEMORY;
    if (status == LS_OK)
        status = find_meetings(plan, graph);
    if (status == LS_OK) {
        find_lives(graph, lives, plan->capacity, plan->backend);
        join_lives(graph, lives, heir);
        find_crossing(plan, lives, n);
        plan->arena_floats = place_lives(lives, n, false, order);
        plan->room_floats = place_lives(lives, n, true, order);
        plan->n_steps = graph->n_nodes;
        for (int i = 0; i < graph->n_nodes; i++) {
            const ls_node *node = &graph->nodes[i];
            ls_plan_step *step = &plan->steps[i];
            const bool by_tokens = node->in[0] && node->attributes.op != LS_OP_RESHAPE;
            *step = (ls_plan_step){.attributes = node->attributes, .layer = node->layer};
            step->tokens = by_tokens ? node->in[0]->tokens : 1;
            step->kernel = plan->backend->kernel[node->attributes.op];
            for (int k = 0; k < LS_MAX_IN; k++)
                step->in[k] = argument(node->attributes.op, node->in[k], lives, heir);
            for (int k = 0; k < LS_MAX_OUT; k++)
                step->out[k] = argument(node->attributes.op, node->out[k], lives, heir);
            note_norm(plan, node);
            note_labels(plan, node);
            if (check_numbers(plan, node, lives) != LS_OK)
                status = ls_status_of(graph->session);
            else if (!step->kernel)
                status = ls_raise(context, LS_UNSUPPORTED, "%s: there is no %s on %s", node->layer,
                                  ls_op_name(node->attributes.op), plan->backend->name);
            else if (lacks_own(plan->backend, &node->attributes))
                status = ls_raise(
                    context, LS_UNSUPPORTED, "the own operation %s%s%s%s has no %s, which %s needs",
                    node->attributes.custom->name, *node->layer ? " at \"" : "", node->layer, *node->layer ? "\"" : "",
                    node->attributes.op == LS_OP_CUSTOM ? "cuda_forward" : "cuda_backward", plan->backend->name);
        }
        find_whole(plan, graph->flat);
        measure_scratch(plan);
    }
    ls_release(context, lives);
    ls_release(context, heir);
    ls_release(context, order);
    return status;
}

ls_plan *ls_plan_new(const ls_graph *graph, int capacity)
{
    ls_context *context = &graph->session->context;
    ls_plan *plan = ls_alloc(context, 1, sizeof *plan, "a plan");
    if (!plan)
        return NULL;
    *plan = (ls_plan){.context = context,
                      .number = ++graph->session->plans,
                      .backend = graph->backend,
                      .capacity = capacity,
                      .labels_each = 1};
    if (build(plan, graph) == LS_OK)
        return plan;
    ls_plan_free(plan);
    return NULL;
}

const ls_plan *ls_plan_for(const ls_plan *newest, const ls_backend *backend)
{
    while (newest && newest->backend != backend)
        newest = newest->older;
    return newest;
}

void ls_plan_free(ls_plan *plan)
{
    if (!plan)
        return;
    ls_release(plan->context, plan->steps);
    ls_release(plan->context, plan->whole);
    ls_release(plan->context, plan->meetings);
    ls_release(plan->context, plan);
}

/* Tells of the buckets that a step completes. */
static void complete(const ls_plan *plan, const ls_plan_step *step, void (*whole)(void *user, int bucket), void *user)
{
    for (int b = 0; whole && b < step->buckets; b++)
        whole(user, plan->whole[step->first_bucket + b]);
}

static void count_call(ls_tally *tally, const ls_op_call *call)
{
    tally->calls++;
    tally->images += call->samples->count;
    tally->groups += call->groups;
}

void ls_plan_call(const ls_plan *plan, int step, const ls_op_call *call, const ls_probe *probe)
{
    ls_kernel *kernel = plan->steps[step].kernel;
    if (!probe->tally) {
        kernel(call);
        return;
    }
    ls_tally *tally = &probe->tally[step];
    double (*const clock)(void) = probe->spans ? ls_seconds : ls_thread_seconds, begin = clock();
    kernel(call);
    double end = clock();
    tally->seconds += end - begin;
    if (probe->spans)
        ls_spans_add(probe->spans, LS_SPAN_OPERATION, step, begin, end);
    if (call->part == 0) /* the first part counts the call */
        count_call(tally, call);
}

/* How many cores are to share a call. */
static int parts_of(const ls_plan *plan, const ls_bindings *bindings, const ls_op_call *call)
{
    int ready = bindings->helpers && plan->backend->parts ? bindings->helpers->ready(bindings->helpers) : 0;
    if (ready == 0)
        return 1;
    int most = plan->backend->parts(call);
    return most < ready + 1 ? most : ready + 1;
}

_Static_assert((int)LS_FORM_PLACES == (int)LS_PLACES, "a form has room for every place");

static ls_form form_of(const ls_plan *plan, const ls_bindings *bindings, const ls_samples *samples)
{
    ls_form form = {.plan = plan->number,
                    .count = samples->count,
                    .passing = bindings->passing || bindings->from || bindings->to,
                    .scratch = bindings->scratch};
    for (int i = 0; i < LS_IN_ARRAYS; i++)
        form.at[i] = bindings->base[i];
    if (bindings->outputs)
        form.at[LS_IN_OUTPUTS] = bindings->outputs[0];
    return form;
}

/* Hands a call in to an executor that does it later; returns the mark behind it. */
static int call_between_marks(const ls_plan *plan, int step, const ls_op_call *call, const ls_bindings *bindings,
                              int mark)
{
    ls_tally *tally = &bindings->probe.tally[step];
    plan->steps[step].kernel(call);
    int behind = ls_gpu_trace_note(bindings->executor, mark, LS_SPAN_OPERATION, step, &tally->seconds);
    if (behind >= 0)
        count_call(tally, call);
    return behind;
}

bool ls_plan_run(const ls_plan *plan, const ls_bindings *bindings, const ls_samples *samples,
                 void (*whole)(void *user, int bucket), void *user)
{
    ls_executor *executor = bindings->executor;
    ls_samples there = *samples;
    bool kept = false;
    int mark = bindings->probe.tally ? ls_gpu_trace_mark(executor) : -1;
    if (executor->type->compute.begin) {
        ls_form form = form_of(plan, bindings, samples);
        kept = executor->type->compute.begin(executor, &form, samples, &there);
        mark = ls_gpu_trace_note(executor, mark, LS_SPAN_TO_CARD, -1, NULL);
    }
    ls_samples tokens;
    ls_op_call call = {.executor = executor, .scratch = bindings->scratch};
    const int end = bindings->to ? bindings->to : plan->n_steps;
    for (int i = bindings->from; i < end; i++) {
        const ls_plan_step *step = &plan->steps[i];
        if (bindings->goes_on && !bindings->goes_on(user, i))
            return false;
        if (!kept) {
            set_call(&call, step, bindings);
            set_images(&call, plan, step, &there, &tokens);
            call.parts = parts_of(plan, bindings, &call);
            if (call.parts > 1)
                bindings->helpers->share(bindings->helpers, plan, i, &call, &bindings->probe);
            else if (mark >= 0)
                mark = call_between_marks(plan, i, &call, bindings, mark);
            else
                ls_plan_call(plan, i, &call, &bindings->probe);
        }
        if (!executor->type->compute.begin)
            complete(plan, step, whole, user);
    }
    if (!executor->type->compute.begin)
        return true;
    executor->type->compute.end(executor);
    executor->side_stream = 0;
    ls_gpu_trace_note(executor, mark, LS_SPAN_FROM_CARD, -1, NULL);
    for (int i = bindings->from; i < end; i++)
        complete(plan, &plan->steps[i], whole, user);
    return true;
}

static void add_bytes(ls_cost *cost, const ls_argument *a)
{
    double bytes = (double)a->c * a->h * a->w * a->number;
    if (a->per_image)
        cost->group_bytes += LS_LANES * bytes;
    else
        cost->call_bytes += bytes;
}

ls_cost ls_plan_cost(const ls_plan_step *step)
{
    ls_cost cost = {.flops = 0};
    ls_op_call call = {.attributes = &step->attributes};
    for (int k = 0; k < LS_MAX_IN; k++) {
        const ls_argument *a = &step->in[k];
        call.in[k] = (ls_operand){NULL, a->c, a->h, a->w};
        add_bytes(&cost, a);
    }
    for (int k = 0; k < LS_MAX_OUT; k++) {
        const ls_argument *a = &step->out[k];
        call.out[k] = (ls_operand){NULL, a->c, a->h, a->w};
        add_bytes(&cost, a);
    }
    cost.flops = ls_op_flops(&call);
    return cost;
}
