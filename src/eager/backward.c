/* Backward passes: on a device at once, through a network as a part of its next step. */
#include <lockstep_train.h>

#include "base/environment.h"
#include "eager/chain.h"
#include "eager/device_run.h"
#include "eager/realize.h"

static ls_status backward(ls_tensor *root, ls_tensor *dy, const ls_kept *kept, const char *function)
{
    ls_session *session = root->session;
    ls_trace *trace = ls_session_trace(session);
    if (!trace || ls_trace_ready(trace, root, true) != LS_OK)
        return ls_status_of(session);
    if (trace->call)
        return dy ? ls_raise(&session->context, LS_UNSUPPORTED,
                             "%s: a network's backward pass starts from a loss; use ls_backward", function)
                  : ls_chain_backward(trace, root, kept, function);
    if (kept && !kept->all)
        return ls_raise(&session->context, LS_BAD_ARGUMENT, "%s: no network leads to this loss; use ls_backward",
                        function);
    if (!root->needs_gradient)
        return ls_raise(&session->context, LS_BAD_ARGUMENT,
                        "%s: nothing tracked leads to this tensor, so there is nothing to differentiate for; see "
                        "ls_track and ls_module_forward",
                        function);
    ls_task *task = ls_run_task(trace, LS_WANT_GRADIENT, root, dy);
    if (!task)
        return ls_status_of(session);
    ls_device_run *r = task->payload;
    const ls_program *program = r->feed->program;
    if (!dy)
        ls_run_summarize(r, task, root);
    if (root->fold == LS_FOLD_MEAN)
        r->feed->one = 1.0f / (float)r->feed->rows;
    r->n_partial = program->own_flat.n_views ? ls_tree_levels(r->feed->shards) + 2 : 0;
    for (int i = 0; i < r->n_partial; i++)
        r->partial[i] = ls_run_array(task, r->device, program->own_flat.trainable);
    for (int k = 0; k < trace->n_arrays; k++)
        if (ls_is_tracked(trace->arrays[k]))
            r->weights[k] = ls_run_aim(task, trace->arrays[k]);
    for (int k = 0; k < trace->n_inputs; k++)
        if (ls_is_tracked(trace->inputs[k]) && (program->flowing >> k & 1))
            ls_run_aim_input(r, task, k, trace->inputs[k]);
    ls_task_hand_in(task);
    return ls_status_of(session);
}

static ls_status backward_loss(ls_tensor *loss, const ls_kept *kept, const char *function)
{
    ls_session *session = ls_value_session(loss, function);
    if (!session)
        return loss ? ls_status_of(loss->session) : LS_BAD_ARGUMENT;
    if (loss->kind != LS_TENSOR_COMPUTED || loss->shape.rank > 1) {
        ls_bad_shape(loss, function, "the loss must be computed, one number or one for each image");
        return ls_status_of(session);
    }
    return backward(loss, NULL, kept, function);
}

ls_status ls_backward(ls_tensor *loss)
{
    LS_OWN_ENVIRONMENT;
    return backward_loss(loss, &(ls_kept){.all = true}, "ls_backward");
}

ls_status ls_backward_for(ls_tensor *loss, ls_module *const nets[], int n)
{
    LS_OWN_ENVIRONMENT;
    if (loss && !ls_failed(loss->session) && (n < 0 || (n > 0 && !nets)))
        return ls_raise(&loss->session->context, LS_BAD_ARGUMENT, "ls_backward_for: a list of %d networks", n);
    return backward_loss(loss, &(ls_kept){.nets = nets, .n = n}, "ls_backward_for");
}

ls_status ls_backward_from(ls_tensor *y, ls_tensor *dy)
{
    LS_OWN_ENVIRONMENT;
    ls_session *session = ls_value_session(y, "ls_backward_from");
    if (!session)
        return y ? ls_status_of(y->session) : LS_BAD_ARGUMENT;
    if (!dy || dy->session != session || !ls_same_shape(&y->shape, &dy->shape) || y->kind != LS_TENSOR_COMPUTED ||
        y->fold) {
        ls_bad_shapes((ls_tensor *[]){y, dy}, "y, dy", "ls_backward_from",
                      "y must be computed, and dy a tensor of its shape");
        return ls_status_of(session);
    }
    char a[96], b[96];
    if (!ls_same_device(y->device, dy->device))
        return ls_raise(&session->context, LS_BAD_ARGUMENT, "ls_backward_from: y is %s, dy %s; copy dy with ls_to",
                        ls_tensor_name(y, a), ls_tensor_name(dy, b));
    return ls_realize(dy, "ls_backward_from") == LS_OK ? backward(y, dy, NULL, "ls_backward_from")
                                                       : ls_status_of(session);
}
