#include "graph/tensor.h"
#include "base/environment.h"

#include <stdio.h>
#include <string.h>
#include <lockstep_lifetime.h>

#include "device/devices.h"

enum { LEAST_SCOPES = 8, SLAB = 128 };

ls_tensors *ls_tensors_of(ls_session *session)
{
    if (session->tensors)
        return session->tensors;
    ls_tensors *tensors = ls_alloc(&session->context, 1, sizeof *tensors, "the session's tensors");
    if (!tensors)
        return NULL;
    tensors->session = session;
    ls_arrays_init(&tensors->arrays, &session->context, NULL);
    session->tensors = tensors;
    if (ls_scope_open(session, NULL) < 0) {
        ls_tensors_free(session);
        return NULL;
    }
    return tensors;
}

/* Takes it from the list, and the caller's hold with it. */
static void let_go_of_held(ls_tensor *tensor)
{
    *tensor->held_at = tensor->next;
    if (tensor->next)
        tensor->next->held_at = tensor->held_at;
    tensor->next = NULL;
    tensor->held = 0;
    ls_tensor_drop(tensor);
}

void ls_tensors_free(ls_session *session)
{
    ls_tensors *tensors = session->tensors;
    if (!tensors)
        return;
    while (tensors->held)
        let_go_of_held(tensors->held);
    if (tensors->depth)
        ls_scope_close(session, 0);
    ls_arrays_destroy(&tensors->arrays);
    ls_release(&session->context, tensors->scopes);
    ls_release(&session->context, tensors);
    session->tensors = NULL;
}

struct ls_slab {
    struct ls_slab *next;
    ls_tensor at[SLAB];
};

static bool refill(ls_tensors *tensors)
{
    struct ls_slab *slab = ls_session_alloc(tensors->session, 1, sizeof *slab, "tensors");
    if (!slab)
        return false;
    for (int i = 0; i < SLAB; i++) {
        slab->at[i].next = tensors->free;
        tensors->free = &slab->at[i];
    }
    slab->next = tensors->slabs;
    tensors->slabs = slab;
    return true;
}

void ls_tensors_forget(ls_session *session, const struct ls_network *network)
{
    for (struct ls_slab *slab = session->tensors ? session->tensors->slabs : NULL; slab; slab = slab->next)
        for (int i = 0; i < SLAB; i++)
            if (slab->at[i].network == network) {
                slab->at[i].network = NULL;
                if (slab->at[i].kind == LS_TENSOR_CALL)
                    slab->at[i].forward = (struct ls_forward){0};
                else
                    slab->at[i].changes = NULL;
            }
}

bool ls_has_network(const ls_tensor *tensor, const char *function)
{
    if (tensor->network || (tensor->kind != LS_TENSOR_CALL && tensor->kind != LS_TENSOR_NETWORK))
        return true;
    ls_raise(&tensor->session->context, LS_STALE, "%s: the values of the tensor's network went with their scope",
             function);
    return false;
}

uint32_t ls_sample_at(const ls_sample_list *list, int64_t i)
{
    uint32_t number = (uint32_t)i;
    if (list->index)
        memcpy(&number, list->index->data + i, sizeof number);
    return number;
}

ls_change ls_change_at(const ls_sample_list *list, int64_t i)
{
    ls_change change;
    memcpy(&change, list->changes->data + i * LS_CHANGE_NUMBERS, sizeof change);
    return change;
}

void ls_samples_hold(const ls_sample_list *list)
{
    ls_counted_hold(list->owner);
    if (list->index)
        ls_array_hold(list->index);
    if (list->changes)
        ls_array_hold(list->changes);
}

void ls_samples_drop(const ls_sample_list *list)
{
    ls_counted_drop(list->owner);
    ls_array_drop(list->index);
    ls_array_drop(list->changes);
}

ls_tensor *ls_tensor_new(ls_session *session, ls_tensor_kind kind, const ls_shape *shape, ls_device device)
{
    ls_tensors *tensors = ls_failed(session) ? NULL : ls_tensors_of(session);
    if (!tensors || (!tensors->free && !refill(tensors)))
        return NULL;
    ls_tensor *tensor = tensors->free;
    tensors->free = tensor->next;
    struct ls_scope *scope = &tensors->scopes[tensors->depth - 1];
    memset(tensor, 0, sizeof *tensor); /* also all of the union */
    tensor->session = session;
    tensor->kind = kind;
    tensor->holders = 1;
    tensor->scoped = true;
    tensor->next = scope->members;
    tensor->shape = *shape;
    tensor->device = device;
    tensor->name = "";
    tensor->view = -1;
    scope->members = tensor;
    return tensor;
}

ls_tensor *ls_tensor_hold(ls_tensor *tensor)
{
    tensor->holders++;
    return tensor;
}

void ls_tensor_call(ls_tensor *tensor, const char *name)
{
    const char *before = tensor->name; /* which may be the new one too */
    tensor->name = ls_name_hold(tensor->session, name);
    ls_name_drop(tensor->session, before);
}

/* Lets go of a tensor; one that nobody holds any more joins the list. */
static void let_go(ls_tensor *tensor, ls_tensor **unheld)
{
    if (!tensor || --tensor->holders)
        return;
    tensor->next = *unheld;
    *unheld = tensor;
}

void ls_tensor_drop(ls_tensor *tensor)
{
    ls_tensor *unheld =
        NULL; /* a list in place of recursion: chains of operations may be longer than the stack is deep */
    let_go(tensor, &unheld);
    while ((tensor = unheld)) {
        unheld = tensor->next;
        for (int i = 0; i < LS_MAX_IN; i++)
            let_go(tensor->in[i], &unheld);
        ls_array_drop(tensor->array);
        if (ls_is_tracked(tensor))
            ls_array_drop(tensor->tracking.gradient);
        if (tensor->kind == LS_TENSOR_IMAGES || tensor->kind == LS_TENSOR_LABELS)
            ls_samples_drop(&tensor->batch.list);
        ls_release(&tensor->session->context, tensor->text);
        ls_name_drop(tensor->session, tensor->name);
        ls_tensors *tensors = tensor->session->tensors;
        *tensor = (ls_tensor){.session = tensor->session, .next = tensors->free};
        tensors->free = tensor;
    }
}

/* ---- Scopes ---- */

int ls_scope_open(ls_session *session, const ls_data *batch)
{
    ls_tensors *tensors = ls_tensors_of(session);
    if (!tensors)
        return -1;
    struct ls_scope *scopes = ls_grow(&session->context, tensors->scopes, tensors->depth, &tensors->capacity,
                                      LEAST_SCOPES, sizeof *scopes, "a scope");
    if (!scopes)
        return -1;
    tensors->scopes = scopes;
    tensors->scopes[tensors->depth] = (struct ls_scope){.owned = session->owned, .batch = batch};
    return tensors->depth++;
}

void ls_scope_close(ls_session *session, int scope)
{
    ls_tensors *tensors = session->tensors;
    while (tensors && scope >= 0 && tensors->depth > scope) {
        struct ls_scope closing = tensors->scopes[--tensors->depth];
        while (closing.members) {
            ls_tensor *member = closing.members;
            closing.members = member->next;
            member->scoped = false;
            member->next = NULL;
            ls_tensor_drop(member);
        }
        if (!closing.batch && scope > 0)
            ls_release_owned(session, closing.owned);
    }
}

int ls_scope_of_batch(const ls_session *session, const ls_data *batch)
{
    for (int i = session->tensors ? session->tensors->depth - 1 : -1; i > 0; i--)
        if (session->tensors->scopes[i].batch == batch)
            return i;
    return -1;
}

/* Scopes that were opened when this was the youngest one owned no longer know it: it is about to go. */
static void forget(ls_session *session, const ls_owned *entry)
{
    for (int i = session->tensors ? session->tensors->depth - 1 : -1; i >= 0; i--)
        if (session->tensors->scopes[i].owned == entry)
            session->tensors->scopes[i].owned = entry->next;
}

bool ls_end_owned(ls_session *session, const void *object)
{
    const ls_owned *entry = ls_owned_alone(session, object);
    if (!entry)
        return false;
    ls_scope_close(session, ls_scope_of_batch(session, object)); /* where it is data */
    forget(session, entry);
    ls_release_one(session, entry);
    return true;
}

/* Takes a tensor out of the scope that has it; returns that scope's number, -1 where none has. */
static int unlink_tensor(ls_tensors *tensors, ls_tensor *tensor)
{
    for (int i = tensors->depth - 1; i >= 0; i--)
        for (ls_tensor **at = &tensors->scopes[i].members; *at; at = &(*at)->next)
            if (*at == tensor) {
                *at = tensor->next;
                return i;
            }
    return -1;
}

ls_tensor *ls_keep(ls_tensor *tensor)
{
    LS_OWN_ENVIRONMENT;
    if (!tensor || !tensor->scoped)
        return tensor;
    ls_tensors *tensors = tensor->session->tensors;
    int at = unlink_tensor(tensors, tensor);
    struct ls_scope *outer = &tensors->scopes[at > 0 ? at - 1 : 0];
    tensor->next = outer->members;
    outer->members = tensor;
    return tensor;
}

ls_tensor *ls_hold(ls_tensor *tensor)
{
    LS_OWN_ENVIRONMENT;
    if (!tensor || tensor->session->recording || ls_context_is_parents(&tensor->session->context))
        return tensor;
    ls_tensors *tensors = tensor->session->tensors;
    if (tensor->scoped) { /* whose hold becomes the caller's */
        unlink_tensor(tensors, tensor);
        tensor->scoped = false;
        tensor->next = tensors->held;
        tensor->held_at = &tensors->held;
        if (tensor->next)
            tensor->next->held_at = &tensor->next;
        tensors->held = tensor;
    }
    tensor->held++;
    return tensor;
}

void ls_drop(ls_tensor *tensor)
{
    LS_OWN_ENVIRONMENT;
    if (!tensor || !tensor->held || ls_context_is_parents(&tensor->session->context))
        return;
    if (!--tensor->held)
        let_go_of_held(tensor);
}

/* ---- Tensors with values ---- */

ls_session *ls_value_session(const ls_tensor *tensor, const char *function)
{
    if (!tensor || ls_failed(tensor->session))
        return NULL;
    bool computed = tensor->kind == LS_TENSOR_CALL && tensor->array;
    if (!tensor->session->recording)
        return computed || ls_has_network(tensor, function) ? tensor->session : NULL;
    ls_raise(&tensor->session->context, LS_BAD_ARGUMENT, "%s: called in a module's forward, which has no values",
             function);
    return NULL;
}

ls_session *ls_values_session(ls_tensor *const tensors[], int n, const char *function)
{
    const ls_tensor *any = NULL;
    for (int i = 0; tensors && i < n && !any; i++)
        any = tensors[i];
    ls_session *session = ls_value_session(any, function);
    for (int i = 0; session && i < n; i++)
        if (!tensors[i]) {
            ls_raise(&session->context, LS_BAD_ARGUMENT, "%s: tensor %d of %d is NULL", function, i + 1, n);
            return NULL;
        }
    return session; /* with no tensor at all there is nowhere to say it: what made the NULLs has failed already */
}

ls_tensor *ls_tensor_of_array(ls_session *session, ls_array *array, const ls_shape *shape)
{
    ls_tensor *tensor = array ? ls_tensor_new(session, LS_TENSOR_ARRAY, shape, array->device) : NULL;
    if (!tensor) {
        ls_array_drop(array);
        return NULL;
    }
    tensor->array = array;
    return tensor;
}

ls_array *ls_array_of(const ls_tensor *tensor)
{
    return tensor->kind == LS_TENSOR_GRADIENT ? tensor->in[0]->tracking.gradient : tensor->array;
}

/* ---- Shapes ---- */

int64_t ls_shape_numbers(const ls_shape *shape)
{
    int64_t numbers = 1;
    for (int i = 0; i < shape->rank; i++)
        numbers *= shape->dim[i];
    return numbers;
}

int64_t ls_shape_image(const ls_shape *shape, int *c, int *h, int *w)
{
    int size[3] = {1, 1, 1};
    for (int i = 1; i < shape->rank; i++)
        size[i - 1] = (int)shape->dim[i];
    *c = size[0];
    *h = size[1];
    *w = size[2];
    return (int64_t)size[0] * size[1] * size[2];
}

ls_shape ls_shape_behind_images(const ls_shape *weight, int rank, int axis)
{
    ls_shape shape = {rank, {1, 1, 1, 1}};
    const int first = weight->rank == 1 ? 1 + axis : rank - weight->rank;
    for (int i = 0; i < weight->rank; i++)
        shape.dim[first + i] = weight->dim[i];
    for (int i = rank; i < LS_MAX_RANK; i++)
        shape.dim[i] = 0;
    return shape;
}

bool ls_same_shape(const ls_shape *a, const ls_shape *b)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

bool ls_same_device(ls_device a, ls_device b)
{
    return a.type == b.type && a.index == b.index;
}

const char *ls_tensor_name(const ls_tensor *tensor, char text[96])
{
    char where[32];
    const char *name = tensor->kind == LS_TENSOR_GRADIENT ? tensor->in[0]->name : tensor->name;
    const char *what = tensor->kind == LS_TENSOR_GRADIENT ? "the gradient of " : "";
    ls_device_write(where, sizeof where, tensor->device);
    snprintf(text, 96, "%s%.40s on %.24s", what, *name ? name : "a tensor", where);
    return text;
}

int ls_rank(const ls_tensor *tensor)
{
    return tensor ? tensor->shape.rank : 0;
}

int64_t ls_dim(const ls_tensor *tensor, int i)
{
    return tensor && i >= 0 && i < tensor->shape.rank ? tensor->shape.dim[i] : 0;
}

int64_t ls_rows(const ls_tensor *tensor)
{
    return ls_dim(tensor, 0);
}

ls_device ls_device_of(const ls_tensor *tensor)
{
    return tensor ? tensor->device : (ls_device){LS_HOST, 0};
}

ls_session *ls_session_of(const void *object)
{
    return object ? *(ls_session *const *)object : NULL;
}
