#include "tensor/array.h"

#include <string.h>

enum { SMALLEST_CLASS = 4, CLASSES = 48 }; /* 2^4 floats are one line of the cache */
enum { LEAST_READERS = 4 };

void ls_arrays_init(ls_arrays *pool, ls_context *context, ls_executor *executor)
{
    *pool = (ls_arrays){.context = context, .executor = executor};
    pthread_mutex_init(&pool->lock, NULL);
}

static float *take_memory(ls_arrays *pool, size_t n)
{
    static const char what[] = "a tensor";
    return pool->executor ? ls_executor_alloc(pool->executor, n, sizeof(float), what)
                          : ls_alloc(pool->context, n, sizeof(float), what);
}

static void give_memory(ls_arrays *pool, float *data)
{
    if (pool->executor)
        ls_executor_release(pool->executor, data);
    else
        ls_release(pool->context, data);
}

void ls_arrays_destroy(ls_arrays *pool)
{
    for (int i = 0; i < CLASSES; i++)
        while (pool->free[i]) {
            ls_array *array = pool->free[i];
            pool->free[i] = array->next_free;
            give_memory(pool, array->data);
            ls_release(pool->context, array->reads);
            ls_release(pool->context, array);
        }
    pthread_mutex_destroy(&pool->lock);
}

static int class_of(size_t n)
{
    int size_class = SMALLEST_CLASS;
    while (size_class < CLASSES - 1 && ((size_t)1 << size_class) < n)
        size_class++;
    return size_class;
}

static ls_array *held_once(ls_array *array, ls_arrays *pool, ls_device device, size_t n)
{
    array->pool = pool;
    array->device = device;
    array->n = n;
    array->written = (ls_mark){0, 0};
    array->n_reads = 0;
    array->version = 0;
    atomic_init(&array->lost, false);
    array->in_step = false;
    atomic_init(&array->holders, 1);
    return array;
}

ls_array *ls_array_new(ls_arrays *pool, ls_device device, size_t n)
{
    int size_class = class_of(n);
    pthread_mutex_lock(&pool->lock);
    ls_array *array = pool->free[size_class];
    if (array)
        pool->free[size_class] = array->next_free;
    pthread_mutex_unlock(&pool->lock);
    if (!array) {
        float *data = take_memory(pool, (size_t)1 << size_class);
        array = data ? ls_alloc(pool->context, 1, sizeof *array, "a tensor") : NULL;
        if (!array) {
            give_memory(pool, data);
            return NULL;
        }
        array->data = data;
        atomic_fetch_add(&pool->allocated, 1);
    }
    array->size_class = size_class;
    return held_once(array, pool, device, n);
}

ls_array *ls_array_at(ls_arrays *pool, ls_device device, float *data, size_t n, void (*release)(void *user), void *user)
{
    ls_array *array = ls_alloc(pool->context, 1, sizeof *array, "a tensor");
    if (!array)
        return NULL;
    array->data = data;
    array->release = release;
    array->user = user;
    return held_once(array, pool, device, n);
}

static void give_back(ls_array *array)
{
    void (*release)(void *user) = array->release;
    void *user = array->user;
    ls_release(array->pool->context, array->reads);
    ls_release(array->pool->context, array);
    release(user);
}

ls_array *ls_array_hold(ls_array *array)
{
    atomic_fetch_add(&array->holders, 1);
    return array;
}

void ls_array_drop(ls_array *array)
{
    if (!array || atomic_fetch_sub(&array->holders, 1) != 1)
        return;
    if (array->release) {
        give_back(array);
        return;
    }
    ls_arrays *pool = array->pool;
    pthread_mutex_lock(&pool->lock);
    array->next_free = pool->free[array->size_class];
    pool->free[array->size_class] = array;
    pthread_mutex_unlock(&pool->lock);
}

ls_status ls_array_note_read(ls_array *array, ls_mark mark)
{
    for (int i = 0; i < array->n_reads; i++)
        if (array->reads[i].stream == mark.stream) {
            array->reads[i] = mark;
            return LS_OK;
        }
    ls_mark *reads = ls_grow(array->pool->context, array->reads, array->n_reads, &array->reads_capacity, LEAST_READERS,
                             sizeof *reads, "a tensor's readers");
    if (!reads)
        return LS_OUT_OF_MEMORY;
    array->reads = reads;
    array->reads[array->n_reads++] = mark;
    return LS_OK;
}

void ls_array_note_write(ls_array *array, ls_mark mark)
{
    array->written = mark;
    array->n_reads = 0;
    array->version++;
}
