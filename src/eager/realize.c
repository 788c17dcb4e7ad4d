#include "eager/realize.h"

#include <string.h>

#include "eager/calls.h"
#include "eager/device_run.h"
#include "eager/infer.h"
#include "exec/copies.h"

/* One image of a batch as rows of floats: what LS_OP_IMAGES makes of it. Targets are moved likewise. */
static void unpack_image(const ls_sample_list *list, uint32_t sample, int64_t place, int c, int h, int w, float *to)
{
    const size_t plane = (size_t)h * (size_t)w, first = sample * (size_t)c * plane;
    ls_change change = {0};
    if (list->changes)
        change = ls_change_at(list, place);
    for (int channel = 0; channel < c; channel++)
        for (int i = 0; i < h * w; i++) {
            int32_t from = ls_change_source(&change, h, w, i / w, i % w);
            size_t number = first + (size_t)channel * plane + (size_t)(from < 0 ? 0 : from);
            *to++ = from < 0       ? list->edge
                    : list->floats ? ((const float *)list->images)[number]
                                   : (float)((const uint8_t *)list->images)[number] / 255.0f;
        }
}

/* A batch as floats. */
static void unpack(ls_task *task, ls_turn *turn)
{
    (void)turn;
    const ls_tensor *t = task->payload; /* a copy of the tensor's fields, not a tensor to be held */
    int c, h, w;
    size_t numbers = (size_t)ls_shape_image(&t->shape, &c, &h, &w);
    if (t->batch.list.changes && t->shape.rank == 3) { /* targets (rows, height, width) that are moved */
        w = h;
        h = c;
        c = 1;
    }
    for (int64_t row = 0; row < t->shape.dim[0]; row++) {
        uint32_t sample = ls_sample_at(&t->batch.list, t->batch.first + row);
        if (t->kind == LS_TENSOR_LABELS)
            t->array->data[row] = (float)ls_label_at(&t->batch.list, t->batch.first + row);
        else
            unpack_image(&t->batch.list, sample, t->batch.first + row, c, h, w, t->array->data + (size_t)row * numbers);
    }
}

/* An array of a tensor's numbers, for its device, that the host makes. */
static ls_array *made_by_host(const ls_tensor *t)
{
    return ls_array_new(&t->session->tensors->arrays, t->device, (size_t)ls_shape_numbers(&t->shape));
}

/* Gives the tensor what the host made, where its device computes. Takes over the caller's hold. */
static ls_status bring(ls_tensor *t, ls_array *made)
{
    size_t offset = 0;
    t->array = ls_numbers_at(t->session, made, &offset, made->n, t->device);
    ls_array_drop(made);
    return ls_status_of(t->session);
}

static ls_status realize_samples(ls_tensor *t)
{
    ls_session *session = t->session;
    ls_array *made = made_by_host(t);
    ls_task *task = made ? ls_task_new(session, t->device, unpack, sizeof *t) : NULL;
    if (!task) {
        ls_array_drop(made);
        return ls_status_of(session);
    }
    ls_tensor *copied = memcpy(task->payload, t, sizeof *t);
    copied->array = made;
    if (t->batch.list.index)
        ls_task_reads(task, t->batch.list.index);
    if (t->batch.list.changes)
        ls_task_reads(task, t->batch.list.changes);
    ls_task_writes(task, made);
    ls_task_hand_in(task);
    return bring(t, made);
}

/* The values of a parameter's tensor, or its gradient; waits. NULL after a failure. */
static const float *network_tensor(const ls_tensor *tensor)
{
    ls_network *network = tensor->network;
    const ls_view *view = &network->flat.views[tensor->view];
    if (tensor->changes)
        return ls_network_wait(network) == LS_OK ? ls_network_values(network, view) : NULL;
    if (view->frozen) {
        ls_raise(&network->session->context, LS_STALE, "ls_grad: %s was frozen meanwhile and has no gradient",
                 view->name);
        return NULL;
    }
    if (!network->trainer) {
        ls_raise(&network->session->context, LS_NOT_INITIALIZED,
                 "ls_grad: the network has no trainer yet; see ls_trainer_new");
        return NULL;
    }
    const float *gradient = network->gradient(network->trainer);
    return gradient ? gradient + view->offset : NULL;
}

static ls_status realize_parameter(ls_tensor *t)
{
    ls_session *session = t->session;
    const float *values = network_tensor(t);
    if (!values)
        return ls_status_of(session);
    ls_array_drop(t->array);
    t->array = NULL;
    ls_array *made = made_by_host(t);
    if (!made)
        return ls_status_of(session);
    memcpy(made->data, values, made->n * sizeof *values);
    return bring(t, made);
}

static ls_status run_forward(ls_tensor *tensor)
{
    ls_session *session = tensor->session;
    ls_trace *trace = ls_session_trace(session);
    if (!trace || ls_trace_ready(trace, tensor, false) != LS_OK)
        return ls_status_of(session);
    if (trace->call && tensor->device.type == LS_HOST)
        return ls_run_spread(trace, tensor);
    if (trace->call && ls_network_read(trace->call) != LS_OK)
        return ls_status_of(session);
    bool scalar = tensor->fold != LS_NOT_FOLDED;
    ls_task *task = ls_run_task(trace, scalar ? LS_WANT_LOSS : LS_WANT_ROWS, tensor, NULL);
    if (!task)
        return ls_status_of(session);
    ls_device_run *r = task->payload;
    if (scalar) {
        ls_run_summarize(r, task, tensor);
    } else {
        tensor->array = ls_array_on(session, tensor->device, (size_t)ls_shape_numbers(&tensor->shape));
        r->rows = tensor->array;
        if (r->rows)
            ls_task_writes(task, r->rows);
    }
    ls_task_hand_in(task);
    return ls_status_of(session);
}

/* Numbers that a failure may have kept from being written. */
static ls_status check_lost(const ls_tensor *t, const char *function)
{
    char name[96];
    if (!atomic_load(&ls_array_of(t)->lost))
        return LS_OK;
    return ls_raise(&t->session->context, LS_STALE,
                    "%s: the numbers of %s were lost with a failure that was taken back; make them anew", function,
                    ls_tensor_name(t, name));
}

/* What can be computed again is. */
static void forget_lost(ls_tensor *t)
{
    if (!t->array || !atomic_load(&t->array->lost))
        return;
    ls_array_drop(t->array);
    t->array = NULL;
}

ls_status ls_realize(ls_tensor *t, const char *function)
{
    switch (t->kind) {
    case LS_TENSOR_ARRAY:
        check_lost(t, function);
        break;
    case LS_TENSOR_GRADIENT:
        if (t->in[0]->tracking.freshness == LS_EMPTY) {
            char name[96];
            ls_raise(&t->session->context, LS_STALE, "%s: %s is empty; no backward pass has reached it", function,
                     ls_tensor_name(t, name));
        } else {
            check_lost(t, function);
        }
        break;
    case LS_TENSOR_IMAGES:
    case LS_TENSOR_LABELS:
        forget_lost(t);
        if (!t->array)
            realize_samples(t);
        break;
    case LS_TENSOR_NETWORK:
        if (ls_has_network(t, function))
            realize_parameter(t);
        break;
    case LS_TENSOR_COMPUTED:
    case LS_TENSOR_CALL:
        forget_lost(t);
        if (!t->array)
            run_forward(t);
        break;
    default:
        ls_raise(&t->session->context, LS_BAD_ARGUMENT, "%s: the tensor is of a forward and has no values", function);
    }
    return ls_status_of(t->session);
}

static ls_status realize_operands(const ls_trace *trace)
{
    for (int k = 0; k < trace->n_inputs; k++)
        if (ls_realize(trace->inputs[k], "a computation") != LS_OK)
            return ls_status_of(trace->session);
    for (int k = 0; k < trace->n_arrays; k++)
        if (check_lost(trace->arrays[k], "a computation") != LS_OK)
            return ls_status_of(trace->session);
    return trace->labels && trace->labels->kind != LS_TENSOR_LABELS ? ls_realize(trace->labels, "a computation")
                                                                    : LS_OK;
}

/* A call whose rows the traced computation reads, and nobody has made yet. */
static ls_tensor *call_to_make(const ls_trace *trace)
{
    for (int k = 0; k < trace->n_inputs; k++) {
        ls_tensor *t = trace->inputs[k];
        if (t->kind != LS_TENSOR_CALL)
            continue;
        forget_lost(t);
        if (!t->array)
            return t;
    }
    return NULL;
}

ls_status ls_trace_ready(ls_trace *trace, ls_tensor *root, bool fresh)
{
    ls_tensor *call;
    do {
        if (ls_trace_run(trace, root, fresh) != LS_OK)
            return ls_status_of(trace->session);
        call = call_to_make(trace);
        if (call && ls_realize(call, "a computation") != LS_OK) /* by this trace, which is then run again */
            return ls_status_of(trace->session);
    } while (call);
    return realize_operands(trace);
}
