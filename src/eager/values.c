/* Tensors with numbers: made, copied between devices, cut, added, read. */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/environment.h"
#include "base/number.h"
#include "base/random.h"
#include "device/devices.h"
#include "eager/realize.h"
#include "exec/copies.h"
#include "io/print.h"
#include "model/network.h"

static const ls_device host = {LS_HOST, 0};

/* ---- Making ---- */

static bool good_shape(ls_context *context, const ls_shape *shape, const char *function)
{
    static const int64_t most = (int64_t)1 << 40;
    int64_t numbers = 1;
    char text[128];
    if (shape->rank < 0 || shape->rank > LS_MAX_RANK) {
        ls_raise(context, LS_BAD_SHAPE, "%s: a shape of %d sizes; 0 to %d are possible", function, shape->rank,
                 LS_MAX_RANK);
        return false;
    }
    for (int i = 0; i < shape->rank; i++)
        if (shape->dim[i] < 0 || shape->dim[i] > INT32_MAX) {
            ls_raise(context, LS_BAD_SHAPE, "%s: dimension %d of the shape is %lld; 0 to %d are possible", function, i,
                     (long long)shape->dim[i], INT32_MAX);
            return false;
        }
    for (int i = 0; i < shape->rank; i++) {
        const int64_t size = shape->dim[i] ? shape->dim[i] : 1; /* no rows, but rows of a size still */
        if (!__builtin_mul_overflow(numbers, size, &numbers) && numbers < most)
            continue;
        ls_shape_text(text, sizeof text, shape);
        ls_raise(context, LS_BAD_SHAPE, "%s: a tensor of shape %s has too many numbers; there may be %lld", function,
                 text, (long long)most - 1);
        return false;
    }
    return true;
}

static ls_tensor *make(ls_session *session, ls_shape shape, const char *function)
{
    ls_tensors *tensors = session && !ls_failed(session) ? ls_tensors_of(session) : NULL;
    if (!tensors || !good_shape(&session->context, &shape, function))
        return NULL;
    return ls_tensor_of_array(session, ls_array_on(session, host, (size_t)ls_shape_numbers(&shape)), &shape);
}

static ls_tensor *fill(ls_session *session, double value, ls_shape shape, const char *function)
{
    ls_tensor *tensor = make(session, shape, function);
    for (size_t i = 0; tensor && i < tensor->array->n; i++)
        tensor->array->data[i] = (float)value;
    return tensor;
}

ls_tensor *ls_full(ls_session *session, double value, ls_shape shape)
{
    LS_OWN_ENVIRONMENT;
    return fill(session, value, shape, "ls_full");
}

ls_tensor *ls_zeros(ls_session *session, ls_shape shape)
{
    LS_OWN_ENVIRONMENT;
    return fill(session, 0, shape, "ls_zeros");
}

ls_tensor *ls_arange(ls_session *session, double first, ls_shape shape)
{
    LS_OWN_ENVIRONMENT;
    ls_tensor *tensor = make(session, shape, "ls_arange");
    for (size_t i = 0; tensor && i < tensor->array->n; i++)
        tensor->array->data[i] = (float)(first + (double)i);
    return tensor;
}

ls_tensor *ls_values(ls_session *session, const float *values, ls_shape shape)
{
    LS_OWN_ENVIRONMENT;
    if (session && !values)
        ls_raise(&session->context, LS_BAD_ARGUMENT, "ls_values: values is NULL");
    ls_tensor *tensor = make(session, shape, "ls_values");
    if (tensor && tensor->array->n)
        memcpy(tensor->array->data, values, tensor->array->n * sizeof *values);
    return tensor;
}

ls_tensor *ls_values_at(ls_session *session, float *values, ls_shape shape, void (*release)(void *user), void *user)
{
    LS_OWN_ENVIRONMENT;
    if (session && (!values || !release))
        ls_raise(&session->context, LS_BAD_ARGUMENT, "ls_values_at: values or release is NULL");
    ls_tensors *tensors = session && !ls_failed(session) ? ls_tensors_of(session) : NULL;
    bool good = tensors && good_shape(&session->context, &shape, "ls_values_at");
    ls_arrays *arrays = good ? ls_arrays_of(session, host) : NULL;
    ls_array *array =
        arrays ? ls_array_at(arrays, host, values, (size_t)ls_shape_numbers(&shape), release, user) : NULL;
    if (array)
        return ls_tensor_of_array(session, array, &shape);
    if (release)
        release(user);
    return NULL;
}

static ls_tensor *draw(ls_session *session, const char *key, double scale, ls_shape shape, const char *function,
                       double (*next)(const ls_derived *from, uint64_t i))
{
    if (session && (!key || !*key))
        ls_raise(&session->context, LS_BAD_ARGUMENT, "%s: random numbers need a key; equal keys give equal numbers",
                 function);
    ls_tensor *tensor = make(session, shape, function);
    if (!tensor)
        return NULL;
    ls_tensor_call(tensor, key);
    ls_random_stream stream = {.seed = session->options.seed, .purpose = LS_FOR_WEIGHTS, .name = ls_hash_name(key)};
    ls_derived from = ls_random_derive(&stream);
    for (size_t i = 0; i < tensor->array->n; i++)
        tensor->array->data[i] = (float)(scale * next(&from, i));
    return tensor;
}

ls_tensor *ls_randn(ls_session *session, const char *key, double scale, ls_shape shape)
{
    LS_OWN_ENVIRONMENT;
    return draw(session, key, scale, shape, "ls_randn", ls_derived_normal);
}

ls_tensor *ls_uniform(ls_session *session, const char *key, ls_shape shape)
{
    LS_OWN_ENVIRONMENT;
    return draw(session, key, 1, shape, "ls_uniform", ls_derived_uniform);
}

ls_tensor *ls_named(ls_tensor *tensor, const char *name)
{
    LS_OWN_ENVIRONMENT;
    if (tensor && name && !ls_failed(tensor->session))
        ls_tensor_call(tensor, name);
    return tensor;
}

/* ---- Copying ---- */

static ls_tensor *copy_of(ls_tensor *tensor, ls_device device, const char *function)
{
    ls_session *session = ls_value_session(tensor, function);
    if (!session || ls_check_device(session, device, function) != LS_OK || ls_realize(tensor, function) != LS_OK)
        return NULL;
    size_t n = (size_t)ls_shape_numbers(&tensor->shape);
    ls_tensor *made = ls_tensor_of_array(session, ls_array_on(session, device, n), &tensor->shape);
    if (!made)
        return NULL;
    ls_tensor_call(made, tensor->name);
    ls_copying c = {.from = ls_array_of(tensor), .to = made->array, .from_offset = tensor->offset, .n = n};
    return ls_copy(session, &c) == LS_OK ? made : NULL;
}

ls_tensor *ls_clone(ls_tensor *tensor, ls_device device)
{
    LS_OWN_ENVIRONMENT;
    return copy_of(tensor, device, "ls_clone");
}

static bool of_batch(const ls_tensor *tensor)
{
    return tensor->kind == LS_TENSOR_IMAGES || tensor->kind == LS_TENSOR_LABELS;
}

/* Rows [first, first + rows) of a batch's images or labels, on a device: devices that share memory read them where they
 * are. */
static ls_tensor *samples_of(ls_tensor *tensor, int64_t first, int64_t rows, ls_device device)
{
    ls_shape shape = tensor->shape;
    shape.dim[0] = rows;
    ls_tensor *part = ls_tensor_new(tensor->session, tensor->kind, &shape, device);
    if (!part)
        return NULL;
    part->batch.list = tensor->batch.list;
    part->batch.first = tensor->batch.first + first;
    ls_tensor_call(part, tensor->name);
    ls_samples_hold(&part->batch.list);
    ls_streams *streams = ls_same_device(tensor->device, device) ? NULL : ls_streams_of(tensor->session);
    if (streams)
        streams->moved += (uint64_t)ls_shape_numbers(&shape) *
                          (part->batch.list.floats || part->batch.list.wide_labels ? sizeof(float) : 1);
    return part;
}

ls_tensor *ls_to(ls_tensor *tensor, ls_device device)
{
    LS_OWN_ENVIRONMENT;
    ls_session *session = ls_value_session(tensor, "ls_to");
    if (!session || ls_check_device(session, device, "ls_to") != LS_OK)
        return NULL;
    if (ls_same_device(tensor->device, device))
        return tensor;
    return of_batch(tensor) && !tensor->array ? samples_of(tensor, 0, tensor->shape.dim[0], device)
                                              : copy_of(tensor, device, "ls_to");
}

uint64_t ls_bytes_moved(ls_session *session)
{
    if (!session || !session->streams || ls_context_is_parents(&session->context))
        return 0;
    ls_streams_wait(session);
    return session->streams->moved;
}

/* ---- Cutting and joining ---- */

/* Rows [first, first + rows), sharing the tensor's numbers. */
static ls_tensor *rows_of(ls_tensor *tensor, int64_t first, int64_t rows, const ls_shape *shape)
{
    ls_tensor *part = ls_tensor_new(tensor->session, LS_TENSOR_ARRAY, shape, tensor->device);
    if (!part)
        return NULL;
    int64_t numbers = rows ? ls_shape_numbers(shape) / rows : 0;
    part->array = ls_array_hold(ls_array_of(tensor));
    part->device = part->array->device;
    part->offset = tensor->offset + (size_t)(first * numbers);
    ls_tensor_call(part, tensor->name);
    return part;
}

ls_tensor *ls_row(ls_tensor *tensor, int64_t i)
{
    LS_OWN_ENVIRONMENT;
    ls_session *session = ls_value_session(tensor, "ls_row");
    if (!session)
        return NULL;
    if (tensor->shape.rank < 1 || i < 0 || i >= tensor->shape.dim[0]) {
        char shape[128];
        ls_shape_text(shape, sizeof shape, &tensor->shape);
        ls_raise(&session->context, LS_BAD_SHAPE, "ls_row: there is no row %lld in a tensor of shape %s", (long long)i,
                 shape);
        return NULL;
    }
    if (ls_realize(tensor, "ls_row") != LS_OK)
        return NULL;
    ls_shape shape = {.rank = tensor->shape.rank - 1};
    memcpy(shape.dim, tensor->shape.dim + 1, (size_t)shape.rank * sizeof *shape.dim);
    return rows_of(tensor, i, 1, &shape);
}

ls_status ls_scatter(ls_tensor *tensor, ls_devices devices, ls_tensor *parts[])
{
    LS_OWN_ENVIRONMENT;
    for (int d = 0; parts && d < devices.n && d < LS_MAX_DEVICES; d++)
        parts[d] = NULL; /* a caller that checks at its end must not go on with what was in its memory */
    ls_session *session = ls_value_session(tensor, "ls_scatter");
    if (!session)
        return tensor ? ls_status_of(tensor->session) : LS_BAD_ARGUMENT;
    if (devices.n < 1 || devices.n > LS_MAX_DEVICES || !parts || tensor->shape.rank < 1)
        return ls_raise(&session->context, LS_BAD_ARGUMENT,
                        "ls_scatter: needs devices, room for a part on each, and a tensor with rows");
    for (int d = 0; d < devices.n; d++)
        if (ls_check_device(session, devices.at[d], "ls_scatter") != LS_OK)
            return ls_status_of(session);
    bool samples = of_batch(tensor) && !tensor->array;
    if (!samples && ls_realize(tensor, "ls_scatter") != LS_OK)
        return ls_status_of(session);
    int64_t rows = tensor->shape.dim[0], first = 0;
    for (int d = 0; d < devices.n; d++) {
        int64_t share = rows / devices.n + (d < rows % devices.n);
        ls_shape shape = tensor->shape;
        shape.dim[0] = share;
        ls_tensor *part =
            samples ? samples_of(tensor, first, share, devices.at[d]) : rows_of(tensor, first, share, &shape);
        parts[d] = part && !samples ? ls_clone(part, devices.at[d]) : part;
        if (!parts[d])
            return ls_status_of(session);
        first += share;
    }
    return ls_status_of(session);
}

ls_tensor *ls_gather(ls_tensor *const parts[], int n, ls_device device)
{
    LS_OWN_ENVIRONMENT;
    ls_session *session = ls_values_session(parts, n, "ls_gather");
    if (!session || ls_check_device(session, device, "ls_gather") != LS_OK)
        return NULL;
    ls_shape shape = parts[0]->shape;
    shape.dim[0] = 0;
    for (int i = 0; i < n; i++) {
        ls_shape rest = parts[i]->shape;
        int64_t rows = rest.dim[0];
        rest.dim[0] = shape.dim[0];
        if (parts[i]->session != session || rest.rank < 1 || !ls_same_shape(&rest, &shape)) {
            char names[32];
            snprintf(names, sizeof names, "part 0, part %d", i);
            return ls_bad_shapes((ls_tensor *[]){parts[0], parts[i]}, names, "ls_gather",
                                 "all parts must have rows of one shape, and be of one session");
        }
        if (ls_realize(parts[i], "ls_gather") != LS_OK)
            return NULL;
        shape.dim[0] += rows;
    }
    size_t n_floats = (size_t)ls_shape_numbers(&shape), at = 0;
    ls_tensor *whole = ls_tensor_of_array(session, ls_array_on(session, device, n_floats), &shape);
    for (int i = 0; whole && i < n; i++) {
        ls_copying c = {.from = ls_array_of(parts[i]),
                        .to = whole->array,
                        .from_offset = parts[i]->offset,
                        .to_offset = at,
                        .n = (size_t)ls_shape_numbers(&parts[i]->shape)};
        if (ls_copy(session, &c) != LS_OK)
            return NULL;
        at += c.n;
    }
    return whole;
}

/* ---- Changing ---- */

/* Checks what writes need; NULL after a failure. */
static ls_session *writable(ls_tensor *to, ls_tensor *from, const char *function)
{
    ls_session *session = ls_value_session(to, function);
    if (!session)
        return NULL;
    char a[96];
    if (!from || from->session != session)
        ls_raise(&session->context, LS_BAD_ARGUMENT, "%s: the second tensor is NULL or of another session", function);
    else if (to->kind != LS_TENSOR_ARRAY && to->kind != LS_TENSOR_GRADIENT)
        ls_raise(&session->context, LS_BAD_ARGUMENT, "%s: %s was computed and cannot be written", function,
                 ls_tensor_name(to, a));
    else if (!ls_same_shape(&to->shape, &from->shape)) {
        char shape[128], other[128];
        ls_shape_text(shape, sizeof shape, &to->shape);
        ls_shape_text(other, sizeof other, &from->shape);
        ls_raise(&session->context, LS_BAD_SHAPE, "%s: %s has shape %s, the other tensor %s", function,
                 ls_tensor_name(to, a), shape, other);
    } else if (ls_realize(from, function) == LS_OK)
        return session;
    return NULL;
}

static ls_copying copying_of(const ls_tensor *to, const ls_tensor *from)
{
    return (ls_copying){.from = ls_array_of(from),
                        .to = ls_array_of(to),
                        .from_offset = from->offset,
                        .to_offset = to->offset,
                        .n = (size_t)ls_shape_numbers(&to->shape)};
}

ls_status ls_assign(ls_tensor *to, ls_tensor *from)
{
    LS_OWN_ENVIRONMENT;
    ls_session *session = writable(to, from, "ls_assign");
    if (!session)
        return to ? ls_status_of(to->session) : LS_BAD_ARGUMENT;
    if (to->kind == LS_TENSOR_GRADIENT)
        to->in[0]->tracking.freshness = LS_FRESH;
    ls_copying c = copying_of(to, from);
    if (c.from == c.to && c.from_offset == c.to_offset)
        return LS_OK;
    if (c.n == c.to->n)
        atomic_store(&c.to->lost, false);
    return ls_copy(session, &c);
}

ls_status ls_add_to(ls_tensor *to, ls_tensor *from)
{
    LS_OWN_ENVIRONMENT;
    ls_session *session = writable(to, from, "ls_add_to");
    if (!session || ls_realize(to, "ls_add_to") != LS_OK)
        return to ? ls_status_of(to->session) : LS_BAD_ARGUMENT;
    char a[96], b[96];
    if (!ls_same_device(to->device, from->device))
        return ls_raise(&session->context, LS_BAD_ARGUMENT, "ls_add_to: %s and %s; copy one with ls_to",
                        ls_tensor_name(to, a), ls_tensor_name(from, b));
    ls_copying c = copying_of(to, from);
    return ls_add_up(session, &c);
}

/* ---- Reading ---- */

/* The numbers of a tensor that has them, for the caller's thread to read from *offset on; waits. To be dropped; NULL
 * after a failure. */
static ls_array *seen(ls_tensor *tensor, size_t *offset)
{
    *offset = tensor->offset;
    ls_array *array =
        ls_numbers_at(tensor->session, ls_array_of(tensor), offset, (size_t)ls_shape_numbers(&tensor->shape), host);
    if (ls_wait(tensor->session) == LS_OK && array)
        return array;
    ls_array_drop(array);
    return NULL;
}

ls_status ls_read(ls_tensor *tensor, float *values, int64_t numbers)
{
    LS_OWN_ENVIRONMENT;
    ls_session *session = ls_value_session(tensor, "ls_read");
    if (!session)
        return ls_no_numbers(values, numbers, tensor ? ls_status_of(tensor->session) : LS_BAD_ARGUMENT);
    if (!values || numbers != ls_shape_numbers(&tensor->shape)) {
        char shape[128];
        ls_shape_text(shape, sizeof shape, &tensor->shape);
        return ls_raise(&session->context, LS_BAD_SHAPE, "ls_read: a tensor of shape %s has %lld numbers, not %lld%s",
                        shape, (long long)ls_shape_numbers(&tensor->shape), (long long)numbers,
                        values ? "" : ", and values is NULL");
    }
    size_t offset;
    ls_array *array = ls_realize(tensor, "ls_read") == LS_OK ? seen(tensor, &offset) : NULL;
    if (array && numbers)
        memcpy(values, array->data + offset, (size_t)numbers * sizeof *values);
    ls_array_drop(array);
    return array ? ls_status_of(session) : ls_no_numbers(values, numbers, ls_status_of(session));
}

float *ls_numbers(ls_tensor *tensor)
{
    LS_OWN_ENVIRONMENT;
    ls_session *session = ls_value_session(tensor, "ls_numbers");
    if (!session)
        return NULL;
    if (!ls_same_device(tensor->device, host)) {
        ls_raise(&session->context, LS_BAD_ARGUMENT,
                 "ls_numbers: the tensor is on %s; ls_to(tensor, ls_host()) brings it to the host",
                 ls_device_str(session, tensor->device));
        return NULL;
    }
    bool there = ls_realize(tensor, "ls_numbers") == LS_OK && ls_wait(session) == LS_OK;
    return there ? ls_array_of(tensor)->data + tensor->offset : NULL;
}

double ls_item(ls_tensor *tensor)
{
    LS_OWN_ENVIRONMENT;
    float value;
    ls_session *session = ls_value_session(tensor, "ls_item");
    if (!session)
        return NAN;
    if (ls_shape_numbers(&tensor->shape) != 1)
        ls_bad_shape(tensor, "ls_item",
                     "x must have one number; ls_mean makes one of a loss, which is one for each image");
    return ls_read(tensor, &value, 1) == LS_OK ? value : (float)NAN;
}

const char *ls_str(ls_tensor *tensor)
{
    LS_OWN_ENVIRONMENT;
    ls_session *session = ls_value_session(tensor, "ls_str");
    if (!session)
        return "";
    bool of_network = tensor->kind == LS_TENSOR_NETWORK && !tensor->changes;
    bool empty = tensor->kind == LS_TENSOR_GRADIENT ? tensor->in[0]->tracking.freshness == LS_EMPTY
                                                    : of_network && !tensor->network->n_pending;
    size_t offset;
    ls_array *array = !empty && ls_realize(tensor, "ls_str") == LS_OK ? seen(tensor, &offset) : NULL;
    if (!empty && !array)
        return "";
    ls_release(&session->context, tensor->text);
    tensor->text = ls_print(&session->context, array ? array->data + offset : NULL, &tensor->shape, tensor->device);
    ls_array_drop(array);
    return tensor->text ? tensor->text : "";
}
