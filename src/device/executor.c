#include "device/executor.h"

#include <string.h>

void ls_executor_close(ls_executor *executor)
{
    if (executor)
        executor->type->close(executor);
}

void *ls_executor_alloc(ls_executor *executor, size_t count, size_t size, const char *what)
{
    size_t bytes;
    void *memory = NULL;
    if (!__builtin_mul_overflow(count, size, &bytes))
        memory = executor->type->memory.allocate(executor, bytes);
    if (!memory && ls_executor_check(executor) == LS_OK)
        ls_raise(executor->context, LS_OUT_OF_MEMORY, "no memory for %s (%zu x %zu bytes) on %s", what, count, size,
                 executor->name);
    return memory;
}

void ls_executor_release(ls_executor *executor, void *memory)
{
    if (memory)
        executor->type->memory.release(executor, memory);
}

ls_status ls_executor_check(const ls_executor *executor)
{
    if (executor->status == LS_OK)
        return LS_OK;
    return ls_raise(executor->context, executor->status, "%s: %s", executor->name, executor->message);
}

bool ls_executor_await(ls_executor *executor, bool *finite)
{
    if (!executor->type->completion.finish(executor) && finite)
        *finite = false;
    if (executor->gpu_trace)
        executor->traced(executor);
    return executor->status == LS_OK;
}

ls_status ls_executor_finish(ls_executor *executor, bool *finite)
{
    ls_executor_await(executor, finite);
    return ls_executor_check(executor);
}

ls_status ls_executors_match(const ls_executor *a, const ls_executor *b)
{
    if (a->backend->exact || b->backend->exact || strcmp(a->model, b->model) == 0) /* beside a core all are exact */
        return LS_OK;
    return ls_raise(b->context, LS_UNSUPPORTED,
                    "%s (%s) and %s (%s) are two models of GPU, which round differently; name those of one model",
                    a->name, a->model, b->name, b->model);
}
