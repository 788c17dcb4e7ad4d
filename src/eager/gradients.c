/* Explicit parameters: tensors that carry their own gradient, and their update. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/environment.h"
#include "data/data.h"
#include "eager/realize.h"
#include "exec/stream.h"
#include "model/network.h"

ls_tensor *ls_track(ls_tensor *tensor)
{
    LS_OWN_ENVIRONMENT;
    ls_session *session = ls_value_session(tensor, "ls_track");
    if (!session)
        return NULL;
    if (ls_is_tracked(tensor))
        return tensor;
    if (tensor->kind != LS_TENSOR_ARRAY || tensor->offset || ls_shape_numbers(&tensor->shape) < 1 ||
        (size_t)ls_shape_numbers(&tensor->shape) != tensor->array->n) {
        ls_raise(&session->context, LS_BAD_ARGUMENT,
                 "ls_track: only a tensor with numbers of its own can be tracked; make one with ls_clone");
        return NULL;
    }
    tensor->tracking.gradient = ls_array_on(session, tensor->device, tensor->array->n);
    tensor->needs_gradient = ls_is_tracked(tensor);
    return tensor->needs_gradient ? tensor : NULL;
}

ls_tensor *ls_grad(ls_tensor *tensor)
{
    LS_OWN_ENVIRONMENT;
    ls_session *session = ls_value_session(tensor, "ls_grad");
    if (!session)
        return NULL;
    bool trainable = tensor->kind == LS_TENSOR_NETWORK && ls_is_trained(&tensor->network->flat.views[tensor->view]) &&
                     tensor->changes;
    if (!ls_is_tracked(tensor) && !trainable) {
        char name[96];
        ls_raise(&session->context, LS_BAD_ARGUMENT, "ls_grad: %s has no gradient; see ls_track",
                 ls_tensor_name(tensor, name));
        return NULL;
    }
    ls_tensor_kind kind = trainable ? LS_TENSOR_NETWORK : LS_TENSOR_GRADIENT;
    ls_tensor *gradient = ls_tensor_new(session, kind, &tensor->shape, tensor->device);
    if (!gradient)
        return NULL;
    ls_tensor_call(gradient, tensor->name);
    if (!trainable) {
        gradient->in[0] = ls_tensor_hold(tensor);
        return gradient;
    }
    gradient->network = tensor->network;
    gradient->view = tensor->view; /* without `changes`: its gradient, not its value */
    return gradient;
}

ls_status ls_clear_grad(ls_tensor *tensor)
{
    LS_OWN_ENVIRONMENT;
    ls_session *session = ls_value_session(tensor, "ls_clear_grad");
    if (!session)
        return tensor ? ls_status_of(tensor->session) : LS_BAD_ARGUMENT;
    if (tensor->kind == LS_TENSOR_NETWORK)
        return ls_network_clear(tensor->network);
    char name[96];
    if (!ls_is_tracked(tensor))
        return ls_raise(&session->context, LS_BAD_ARGUMENT, "ls_clear_grad: %s has no gradient; see ls_track",
                        ls_tensor_name(tensor, name));
    tensor->tracking.freshness = LS_EMPTY;
    return LS_OK;
}

/* ---- Update ---- */

typedef struct updating {
    ls_update how;
    bool finite; /* as far as known when all was handed in */
    int n;
    struct {
        ls_array *weight, *gradient, *next;
        char name[64]; /* the tensor may be gone when it is asked for */
    } at[];
} updating;

/* Makes the new numbers of one parameter. False where one is not finite; it may be the executor's finish that tells. */
static bool update_one(const updating *u, int i, ls_executor *executor)
{
    const ls_array *w = u->at[i].weight;
    const ls_terms terms = {1, {u->at[i].gradient->data}};
    return executor->type->compute.update(executor, &terms, u->at[i].next->data, w->data, NULL, w->n, &u->how);
}

static void update(ls_task *task, ls_turn *turn)
{
    (void)turn;
    updating *u = task->payload;
    u->finite = true;
    for (int i = 0; i < u->n; i++)
        u->finite &= update_one(u, i, task->executor);
}

/* The first parameter whose new numbers are not finite: each is made once more, as the executor may know only that
 * there is one. */
static const char *not_finite(const updating *u, ls_executor *executor)
{
    const char *name = "";
    for (int i = 0, found = 0; i < u->n && !found; i++) {
        bool finite = update_one(u, i, executor);
        ls_executor_finish(executor, &finite);
        found = !finite;
        name = u->at[i].name;
    }
    return *name ? name : "a tensor";
}

/* All new numbers are made before the first takes an old one's place. */
static void check(ls_task *task, bool finite)
{
    updating *u = task->payload;
    if (!finite || !u->finite) {
        ls_raise(&task->session->context, LS_NOT_FINITE,
                 "ls_sgd_step: the update of %s is not finite; the parameters keep their values; a lower learning "
                 "rate may help",
                 not_finite(u, task->executor));
        atomic_store(&task->session->broken, true);
        return;
    }
    for (int i = 0; i < u->n; i++) {
        float *old = u->at[i].weight->data;
        u->at[i].weight->data = u->at[i].next->data;
        u->at[i].next->data = old;
    }
}

static ls_status check_parameters(ls_session *session, ls_tensor *const parameters[], int n)
{
    ls_context *context = &session->context;
    for (int i = 0; i < n; i++) {
        const ls_tensor *p = parameters[i];
        char name[96], other[96];
        if (p->session != session || !ls_is_tracked(p))
            return ls_raise(context, LS_BAD_ARGUMENT, "ls_sgd_step: parameter %d is %s", i,
                            p->session != session ? "of another session" : "not tracked; see ls_track");
        if (!ls_same_device(p->device, parameters[0]->device))
            return ls_raise(context, LS_BAD_ARGUMENT, "ls_sgd_step: %s, but %s; update each device's own",
                            ls_tensor_name(p, name), ls_tensor_name(parameters[0], other));
        if (atomic_load(&p->array->lost) ||
            (p->tracking.freshness == LS_FRESH && atomic_load(&p->tracking.gradient->lost)))
            return ls_raise(
                context, LS_STALE,
                "ls_sgd_step: the numbers of %s, or its gradient's, were lost with a failure that was taken "
                "back; make them anew",
                ls_tensor_name(p, name));
        if (p->tracking.freshness != LS_FRESH)
            return ls_raise(context, LS_STALE, "ls_sgd_step: the gradient of %s %s; call ls_backward first",
                            ls_tensor_name(p, name),
                            p->tracking.freshness == LS_EMPTY ? "is empty" : "was used up by an update");
        for (int k = 0; k < i; k++)
            if (parameters[k] == p)
                return ls_raise(context, LS_BAD_ARGUMENT, "ls_sgd_step: %s is given twice", ls_tensor_name(p, name));
    }
    return LS_OK;
}

ls_status ls_sgd_step(ls_tensor *const parameters[], int n, double lr, int64_t rows)
{
    LS_OWN_ENVIRONMENT;
    ls_session *session = ls_values_session(parameters, n, "ls_sgd_step");
    if (!session)
        return parameters && n > 0 && parameters[0] ? ls_status_of(parameters[0]->session) : LS_BAD_ARGUMENT;
    if (!(lr >= 0 && lr < 1e30) || rows < 1)
        return ls_raise(&session->context, LS_BAD_ARGUMENT,
                        "ls_sgd_step: lr is %g and rows %lld; lr must be at least 0, rows at least 1", lr,
                        (long long)rows);
    if (check_parameters(session, parameters, n) != LS_OK)
        return ls_status_of(session);
    size_t payload = sizeof(updating) + (size_t)n * sizeof((updating *)NULL)->at[0];
    ls_task *task = ls_task_new(session, parameters[0]->device, update, payload);
    if (!task)
        return ls_status_of(session);
    updating *u = task->payload;
    task->keeps = true; /* weights that an update could not make stay what they were */
    task->check = check;
    u->how = (ls_update){.rule = LS_RULE_SGD, .sgd = {.divisor = (float)rows, .lr = (float)lr}};
    u->n = n;
    for (int i = 0; i < n; i++) {
        ls_tensor *p = parameters[i];
        u->at[i].weight = p->array;
        u->at[i].gradient = p->tracking.gradient;
        u->at[i].next = ls_array_on(session, p->device, p->array->n);
        snprintf(u->at[i].name, sizeof u->at[i].name, "%s", p->name);
        ls_task_reads(task, p->tracking.gradient);
        ls_task_writes(task, p->array);
        if (u->at[i].next) {
            ls_task_writes(task, u->at[i].next);
            ls_array_drop(u->at[i].next);
        }
        p->tracking.freshness = LS_CONSUMED;
    }
    ls_task_hand_in(task);
    return ls_status_of(session);
}

/* ---- Accuracy of explicit parameters ---- */

/* Counts the right images of a batch, each device its part; `parts` has room for two a device. False after a
 * failure. */
static bool count_right(ls_net_fn *fn, void *const replica[], const ls_batch *b, const ls_devices *devices,
                        ls_tensor **parts, int64_t *right)
{
    ls_session *session = b->X->session;
    ls_tensor **X = parts, **y = parts + devices->n, **loss = X; /* in place of the images it is of */
    if (ls_scatter(b->X, *devices, X) != LS_OK || ls_scatter(b->y, *devices, y) != LS_OK)
        return false;
    for (int d = 0; d < devices->n; d++) {
        loss[d] = ls_rows(X[d]) ? ls_sum(ls_cross_entropy(fn(X[d], replica[d]), y[d])) : NULL;
        if (loss[d] && ls_realize(loss[d], "ls_accuracy_fn") != LS_OK)
            return false;
    }
    if (ls_wait(session) != LS_OK)
        return false;
    for (int d = 0; d < devices->n; d++) {
        const float *summary = loss[d] ? loss[d]->array->data : (float[]){0, 0};
        if (!isfinite(summary[0])) {
            ls_raise(
                &session->context, LS_NOT_FINITE,
                "ls_accuracy_fn: the loss of a batch is not finite: the network overflows with these parameters; if "
                "they were trained, a lower learning rate may help");
            return false;
        }
        *right += (int64_t)summary[1]; /* a cross-entropy counts right images too */
    }
    return true;
}

double ls_accuracy_fn(ls_net_fn *fn, void *const replica[], ls_data *data, ls_devices devices)
{
    LS_OWN_ENVIRONMENT;
    ls_session *session = ls_session_of(data);
    if (!session || ls_failed(session))
        return NAN;
    if (!fn || !replica || devices.n < 1 || devices.n > LS_MAX_DEVICES) {
        ls_raise(&session->context, LS_BAD_ARGUMENT, "ls_accuracy_fn: needs a function and a replica for each device");
        return NAN;
    }
    int64_t right = 0, rows = 0, epoch = data->epoch, position = data->position;
    const ls_augment augment = data->augment;
    const bool drop_last = data->drop_last;
    ls_tensor **parts = ls_alloc(&session->context, 2 * (size_t)devices.n, sizeof(ls_tensor *), "the parts of a batch");
    data->augment = (ls_augment){.flip = false}; /* both are for training */
    data->drop_last = false;
    ls_data_seek(data, 0, 0);
    for (ls_batch b; parts && ls_data_next(data, &b) && count_right(fn, replica, &b, &devices, parts, &right);)
        rows += ls_rows(b.X);
    ls_release(&session->context, parts);
    data->epoch = epoch;
    data->position = position;
    data->augment = augment;
    data->drop_last = drop_last;
    return rows && !ls_failed(session) ? (double)right / (double)rows : NAN;
}
