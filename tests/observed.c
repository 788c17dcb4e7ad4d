#include "observed.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 16 };

typedef struct observed {
    ls_executor *executor; /* NULL: a free place */
    const ls_executor_type *type;
    ls_executor_type own;
    test_sees *sees;
    void *user;
    char message[64];
} observed;

static observed all[MOST];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static observed *of(const ls_executor *executor)
{
    pthread_mutex_lock(&lock);
    observed *found = all;
    while (found->executor != executor)
        found++;
    pthread_mutex_unlock(&lock);
    return found;
}

static bool works(ls_executor *executor, const char *call)
{
    observed *o = of(executor);
    if (executor->status != LS_OK)
        return false;
    if (o->sees(o->user, executor, call))
        return true;
    snprintf(o->message, sizeof o->message, "%s failed: as the test has it", call);
    executor->message = o->message;
    executor->status = LS_NO_DEVICE;
    return false;
}

/* Of any thread, so that the executor's status stays as it is. */
static void *allocate(ls_executor *executor, size_t bytes)
{
    observed *o = of(executor);
    const bool good = executor->status == LS_OK && o->sees(o->user, executor, "allocate");
    return good ? o->type->memory.allocate(executor, bytes) : NULL;
}

static void put(ls_executor *executor, void *to, const void *from, size_t bytes)
{
    if (works(executor, "put"))
        of(executor)->type->memory.put(executor, to, from, bytes);
}

static void get(ls_executor *executor, void *to, const void *from, size_t bytes)
{
    if (works(executor, "get"))
        of(executor)->type->memory.get(executor, to, from, bytes);
    else
        memset(to, 0, bytes);
}

static void zero(ls_executor *executor, void *to, size_t bytes)
{
    if (works(executor, "zero"))
        of(executor)->type->memory.zero(executor, to, bytes);
}

static void copy(ls_executor *executor, void *to, const void *from, size_t bytes)
{
    if (works(executor, "copy"))
        of(executor)->type->memory.copy(executor, to, from, bytes);
}

static float *stage_result(ls_executor *executor, float *host, size_t n)
{
    return works(executor, "stage_result") ? of(executor)->type->compute.stage_result(executor, host, n) : NULL;
}

static bool begin(ls_executor *executor, const ls_form *form, const ls_samples *samples, ls_samples *there)
{
    return !works(executor, "begin") || of(executor)->type->compute.begin(executor, form, samples, there);
}

static void end(ls_executor *executor)
{
    works(executor, "end");
    of(executor)->type->compute.end(executor);
}

static void sum(ls_executor *executor, const ls_terms *terms, float *out, size_t n)
{
    if (works(executor, "sum"))
        of(executor)->type->compute.sum(executor, terms, out, n);
}

static bool update(ls_executor *executor, const ls_terms *terms, float *out, const float *w, float *moments, size_t n,
                   const ls_update *how)
{
    return !works(executor, "update") || of(executor)->type->compute.update(executor, terms, out, w, moments, n, how);
}

/* What was handed in before is done, or never will be. */
static bool finish(ls_executor *executor)
{
    works(executor, "finish");
    const bool finite = of(executor)->type->completion.finish(executor);
    return finite || executor->status != LS_OK;
}

static void record(ls_executor *executor, bool *finite)
{
    works(executor, "record");
    of(executor)->type->completion.record(executor, finite);
}

static void await(ls_executor *executor)
{
    works(executor, "wait");
    of(executor)->type->completion.wait(executor);
}

static void close_observed(ls_executor *executor)
{
    observed *o = of(executor);
    executor->type = o->type;
    pthread_mutex_lock(&lock);
    o->executor = NULL;
    pthread_mutex_unlock(&lock);
    executor->type->close(executor);
}

void test_observe(ls_executor *executor, test_sees *sees, void *user)
{
    observed *o = of(NULL);
    *o = (observed){.type = executor->type, .own = *executor->type, .sees = sees, .user = user};
    o->own.memory.allocate = allocate;
    o->own.memory.put = put;
    o->own.memory.get = get;
    o->own.memory.zero = zero;
    o->own.compute.stage_result = stage_result;
    o->own.compute.sum = sum;
    o->own.compute.update = update;
    o->own.completion.finish = finish;
    o->own.close = close_observed;
    if (o->type->memory.copy)
        o->own.memory.copy = copy;
    if (o->type->compute.begin) {
        o->own.compute.begin = begin;
        o->own.compute.end = end;
    }
    if (o->type->completion.record) {
        o->own.completion.record = record;
        o->own.completion.wait = await;
    }
    pthread_mutex_lock(&lock);
    o->executor = executor;
    pthread_mutex_unlock(&lock);
    executor->type = &o->own;
}
