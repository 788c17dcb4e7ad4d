/* Backward passes through networks, from the loss down, one call of a network at a time: the last one first. What the
 * other networks have made are inputs of such a pass, rows of numbers as the host has them, and so are the gradients of
 * these rows, from which the pass of the call before begins. So each pass is of one network, on its devices, by its
 * shards.
 *
 * A call has two passes at most. The gradient of the network's parameters is a microbatch, which waits for its
 * trainer's step. That of its inputs is computed at once: with the values that the call was recorded with, and in no
 * order that a program's steps could change. */
#include "eager/chain.h"

#include <string.h>

#include "eager/calls.h"
#include "eager/device_run.h"
#include "eager/infer.h"
#include "eager/realize.h"
#include "exec/copies.h"

enum { LEAST_PARTS = 4, FEW = 8 };

/* A call on the way. */
typedef struct link {
    ls_tensor *call;
    bool keeps, wanted; /* its network's gradient; that, or some below it */
    ls_array *dy;       /* the gradient of its rows, NULL before one has come */
    ls_microbatch part; /* made, and not among the network's own yet */
} link;

typedef struct chain {
    const char *function;
    ls_session *session;
    ls_tensor *loss;
    const ls_kept *kept;
    link *links; /* as ls_trace.calls */
    int n;
    ls_array *given; /* what the loss's shards gave; NULL before anybody has asked */
} chain;

/* ---- What is wanted ---- */

static bool keeps(const chain *c, const ls_tensor *call)
{
    const ls_network *network = call->network; /* NULL: it is gone, and what it has made is a constant */
    bool listed = network && c->kept->all;
    for (int k = 0; k < c->kept->n && network; k++)
        listed |= c->kept->nets[k] == network->root;
    return listed && call->forward.training && (network->flat.trainable || c->n == 1);
}

static link *link_of(const chain *c, const ls_tensor *call)
{
    for (int i = 0; i < c->n; i++)
        if (c->links[i].call == call)
            return &c->links[i];
    return NULL;
}

/* Whether a gradient is wanted of the tensor, or of what it was computed from, up to the calls that are known. */
static bool is_wanted(const chain *c, ls_tensor *t)
{
    if (t->kind == LS_TENSOR_CALL)
        return link_of(c, t)->wanted;
    if (t->kind != LS_TENSOR_COMPUTED || t->trace == c->session->tensors->traces)
        return ls_is_tracked(t);
    t->trace = c->session->tensors->traces;
    bool wanted = false;
    for (int k = 0; k < LS_MAX_IN && t->needs_gradient && !wanted; k++)
        wanted = t->in[k] && is_wanted(c, t->in[k]);
    return wanted;
}

static void find_wanted(chain *c)
{
    for (int i = 0; i < c->n; i++) {
        link *l = &c->links[i];
        l->keeps = l->wanted = keeps(c, l->call);
        c->session->tensors->traces++;
        for (int k = 0; k < LS_MAX_INPUTS && !l->wanted; k++)
            l->wanted = l->call->in[k] && is_wanted(c, l->call->in[k]);
    }
}

static ls_status check_loss(const chain *c)
{
    ls_context *context = &c->session->context;
    c->session->tensors->traces++;
    if (c->loss->fold == LS_FOLD_MEAN)
        return ls_raise(context, LS_BAD_ARGUMENT,
                        "%s: of a network's losses take the sum, or the losses as they are: ls_trainer_step divides by "
                        "the number of images, and a mean would be divided twice",
                        c->function);
    for (int k = 0; k < c->kept->n; k++) {
        bool called = false;
        for (int i = 0; i < c->n; i++)
            called |= c->links[i].call->forward.training && c->kept->nets[k] == c->links[i].call->network->root;
        if (!called)
            return ls_raise(context, LS_BAD_ARGUMENT,
                            "%s: network %d of the list was not called by ls_module_forward on the way to this loss",
                            c->function, k);
    }
    if (is_wanted(c, c->loss))
        return LS_OK;
    return ls_raise(context, LS_BAD_ARGUMENT,
                    "%s: nothing that trains or is tracked leads to this loss; call the network by ls_module_forward, "
                    "or track what it is called on",
                    c->function);
}

/* ---- The gradient of the parameters ---- */

/* What the loss counts is counted once for each network, by the first of its calls that is met. */
static ls_array *given_to(const chain *c, const link *l)
{
    const int shards = l->part.feed->shards;
    for (const link *other = l + 1; other < c->links + c->n; other++)
        if (other->part.feed && other->call->network == l->call->network) {
            ls_array *nothing = ls_array_on(c->session, ls_host(), ls_given_numbers(shards));
            if (nothing)
                memset(nothing->data, 0, nothing->n * sizeof *nothing->data);
            return nothing;
        }
    return ls_array_hold(c->given);
}

static ls_status make_part(chain *c, link *l, ls_trace *trace, int64_t rows, ls_tensor *dy)
{
    ls_network *network = l->call->network;
    const int images = ls_shard_images(c->session, rows);
    ls_program *program = ls_network_program(trace, LS_WANT_PARAMETERS, dy != NULL, images);
    if (!program || ls_engine_reserve(network->engine, program->plan) != LS_OK ||
        ls_check_rows(network, program->plan, rows, c->function) != LS_OK)
        return ls_status_of(c->session);
    l->part = (ls_microbatch){.feed = ls_feed_new(program, trace, rows, dy, ls_host()), .device = l->call->device};
    l->part.summary = ls_array_on(c->session, ls_host(), 2);
    if (l->part.feed && dy)
        l->part.given = given_to(c, l);
    if (!l->part.feed || !l->part.summary || (dy && !l->part.given))
        return ls_status_of(c->session);
    if (!dy)
        l->part.loss = ls_tensor_hold(c->loss);
    ls_feed_changes(l->part.feed, false, &l->part.changes);
    return LS_OK;
}

/* ---- The gradients of the inputs ---- */

/* Adds the gradient of an input's rows to where it goes. */
static ls_status take_gradient(chain *c, ls_tensor *input, ls_array *rows)
{
    link *l = link_of(c, input);
    if (l && !l->dy) {
        l->dy = ls_array_hold(rows);
        return LS_OK;
    }
    ls_copying way = {.from = rows, .n = rows->n, .within = true};
    if (l) {
        way.to = l->dy;
        return ls_add_up(c->session, &way);
    }
    way.to = input->tracking.gradient;
    return ls_run_adds(input) ? ls_add_up(c->session, &way) : ls_copy(c->session, &way);
}

/* The loss, from what its shards gave. */
static ls_status show_loss(const chain *c, const ls_metrics *metrics)
{
    if (!c->loss->fold || c->loss->array)
        return LS_OK;
    c->loss->array = ls_array_on(c->session, ls_host(), 2);
    if (!c->loss->array)
        return ls_status_of(c->session);
    c->loss->array->data[0] = (float)metrics->loss;
    c->loss->array->data[1] = (float)metrics->correct;
    return LS_OK;
}

/* By all of the network's devices; see ls_run_pass. */
static ls_status run_inputs(chain *c, ls_trace *trace, ls_program *program, unsigned wanted, int64_t rows,
                            ls_tensor *dy)
{
    ls_array *made[LS_MAX_INPUTS] = {NULL};
    ls_tensor *inputs[LS_MAX_INPUTS];
    ls_metrics metrics;
    double counted;
    const int n = trace->n_inputs, shards = (int)((rows + c->session->options.shard - 1) / c->session->options.shard);
    ls_outcome outcome = {.dy = dy};
    memcpy(inputs, trace->inputs, sizeof inputs); /* the trace may be another's when they get their gradients */
    for (int k = 0; k < n; k++)
        if (wanted >> k & 1) {
            made[k] = ls_array_on(c->session, ls_host(), (size_t)ls_shape_numbers(&inputs[k]->shape));
            outcome.rows[k] = made[k] ? made[k]->data : NULL;
        }
    if (!dy) {
        c->given = ls_array_on(c->session, ls_host(), ls_given_numbers(shards));
        outcome.given = c->given ? c->given->data : NULL;
        outcome.metrics = &metrics;
        outcome.counted = &counted;
    }
    if (!ls_failed(c->session) && ls_run_pass(trace, program, rows, &outcome) == LS_OK && !dy)
        show_loss(c, &metrics);
    for (int k = 0; k < n; k++) {
        if (made[k] && !ls_failed(c->session))
            take_gradient(c, inputs[k], made[k]);
        ls_array_drop(made[k]);
    }
    return ls_status_of(c->session);
}

/* By the device that the call is on: its inputs lie there, and so do their gradients. */
static ls_status run_inputs_there(chain *c, ls_trace *trace, unsigned wanted, ls_tensor *root)
{
    ls_task *task = ls_run_task(trace, LS_WANT_INPUTS, root, NULL);
    if (!task)
        return ls_status_of(c->session);
    ls_device_run *r = task->payload;
    ls_run_summarize(r, task, root);
    for (int k = 0; k < trace->n_inputs; k++)
        if (wanted >> k & 1)
            ls_run_aim_input(r, task, k, trace->inputs[k]);
    ls_task_hand_in(task);
    ls_streams_wait(c->session); /* before a step makes other values */
    return ls_status_of(c->session);
}

static ls_status make_inputs(chain *c, const link *l, ls_trace *trace, ls_tensor *root, int64_t rows, ls_tensor *dy)
{
    unsigned wanted = 0;
    bool calls = false;
    for (int k = 0; k < trace->n_inputs; k++) {
        const link *other = link_of(c, trace->inputs[k]);
        if (other ? other->wanted : ls_is_tracked(trace->inputs[k])) {
            wanted |= 1u << k;
            calls |= other != NULL;
        }
    }
    if (!wanted)
        return LS_OK;
    const int images = ls_shard_images(c->session, rows);
    ls_program *program = ls_network_program(trace, LS_WANT_INPUTS, dy != NULL, images);
    if (!program || !(wanted &= program->flowing) || ls_network_read(l->call) != LS_OK)
        return ls_status_of(c->session);
    if (l->call->device.type == LS_HOST)
        return run_inputs(c, trace, program, wanted, rows, dy);
    if (calls)
        return ls_raise(&c->session->context, LS_UNSUPPORTED,
                        "%s: a gradient goes from one network to another on the host alone; call them on images on the "
                        "host, which all of their devices compute",
                        c->function);
    return run_inputs_there(c, trace, wanted, root);
}

/* ---- From call to call ---- */

static ls_status pass(chain *c, link *l, ls_trace *trace, ls_tensor *root, ls_tensor *dy)
{
    const int64_t rows = (root->fold ? root->in[0] : root)->shape.dim[0];
    for (int k = 0; k < trace->n_arrays; k++)
        if (ls_is_tracked(trace->arrays[k]))
            return ls_raise(&c->session->context, LS_UNSUPPORTED,
                            "%s: a weight beside a network cannot be tracked; make it a parameter of the network",
                            c->function);
    if (ls_call_check(l->call) != LS_OK || rows < 1) /* an empty part of a batch */
        return ls_status_of(c->session);
    if (l->keeps && make_part(c, l, trace, rows, dy) != LS_OK)
        return ls_status_of(c->session);
    return make_inputs(c, l, trace, root, rows, dy);
}

/* The pass of a call that is not the last one, where a gradient has come to it. */
static ls_status pass_on(chain *c, link *l, ls_trace *trace)
{
    ls_tensor *dy = ls_tensor_of_array(c->session, ls_array_hold(l->dy), &l->call->shape);
    if (!dy || ls_trace_ready(trace, l->call, true) != LS_OK)
        return ls_status_of(c->session);
    return pass(c, l, trace, l->call, dy);
}

/* Once all parts are there: of a backward pass that has failed nothing is pending. */
static ls_status hand_over(chain *c)
{
    for (int i = c->n - 1; i >= 0; i--) {
        ls_network *network = c->links[i].call->network;
        if (!c->links[i].part.feed)
            continue;
        ls_microbatch *pending = ls_grow(&c->session->context, network->pending, network->n_pending,
                                         &network->pending_capacity, LEAST_PARTS, sizeof *pending, "a step's parts");
        if (!pending)
            return LS_OUT_OF_MEMORY;
        network->pending = pending;
        network->gradient_is_there = false;
        network->pending[network->n_pending++] = c->links[i].part;
        c->links[i].part = (ls_microbatch){.feed = NULL};
    }
    return LS_OK;
}

ls_status ls_chain_backward(ls_trace *trace, ls_tensor *loss, const ls_kept *kept, const char *function)
{
    ls_session *session = loss->session;
    chain c = {.function = function, .session = session, .loss = loss, .kept = kept, .n = trace->n_calls};
    link few[FEW] = {{.call = NULL}}; /* nothing in a usual training loop allocates */
    link *more = c.n > FEW ? ls_alloc(&session->context, (size_t)c.n, sizeof *more, "a backward pass") : NULL;
    c.links = more ? more : few;
    if (c.n > FEW && !more)
        return LS_OUT_OF_MEMORY;
    for (int i = 0; i < c.n; i++)
        c.links[i].call = trace->calls[i];
    find_wanted(&c);
    const int scope = ls_scope_open(session, NULL);
    link *last = &c.links[c.n - 1];
    if (scope >= 0 && check_loss(&c) == LS_OK && pass(&c, last, trace, loss, NULL) == LS_OK)
        for (link *l = last; l-- > c.links && !ls_failed(session);)
            if (l->dy)
                pass_on(&c, l, trace);
    if (!ls_failed(session))
        hand_over(&c);
    for (int i = 0; i < c.n; i++) {
        ls_microbatch_drop(&c.links[i].part);
        ls_array_drop(c.links[i].dy);
    }
    ls_array_drop(c.given);
    if (scope >= 0)
        ls_scope_close(session, scope);
    ls_release(&session->context, more);
    return ls_status_of(session);
}
