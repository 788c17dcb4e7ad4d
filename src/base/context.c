#include "base/context.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGNMENT = 64, HUGE_PAGE = 1 << 21 };

/* Maps of a shard are read across megabytes: in small pages much of the time goes into finding them. */
static void *default_allocate(size_t bytes, size_t alignment, void *user)
{
    (void)user;
    void *memory = NULL;
    bool large = bytes >= 2 * HUGE_PAGE;
    if (posix_memalign(&memory, large ? HUGE_PAGE : alignment, bytes) != 0)
        return NULL;
#ifdef MADV_HUGEPAGE
    if (large)
        madvise(memory, bytes, MADV_HUGEPAGE); /* where the system declines, small pages do */
#endif
    return memory;
}

static void default_release(void *memory, void *user)
{
    (void)user;
    free(memory);
}

ls_status ls_context_init(ls_context *context, const ls_allocator *allocator)
{
    memset(context, 0, sizeof *context);
    if (allocator && allocator->allocate && allocator->release)
        context->allocator = *allocator;
    else
        context->allocator = (ls_allocator){default_allocate, default_release, NULL};
    context->process = getpid();
    return pthread_mutex_init(&context->lock, NULL) == 0 ? LS_OK : LS_OUT_OF_MEMORY;
}

void ls_count_work(ls_context *context)
{
    __atomic_fetch_add(&context->work, 1, __ATOMIC_RELAXED);
}

unsigned long long ls_work_of(const ls_context *context)
{
    return __atomic_load_n(&context->work, __ATOMIC_RELAXED);
}

void ls_context_destroy(ls_context *context)
{
    pthread_mutex_destroy(&context->lock);
}

bool ls_context_is_parents(const ls_context *context)
{
    return context->process != getpid();
}

/* In this process's copy, which one thread uses. */
static ls_status refuse_parents(ls_context *context)
{
    snprintf(context->message, sizeof context->message,
             "this session belongs to process %ld; open one of your own after fork()", (long)context->process);
    return context->status = LS_BAD_ARGUMENT;
}

ls_status ls_raise(ls_context *context, ls_status status, const char *format, ...)
{
    if (ls_context_is_parents(context))
        return refuse_parents(context);
    pthread_mutex_lock(&context->lock);
    if (context->status == LS_OK) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(context->message, sizeof context->message, format, arguments);
        va_end(arguments);
        context->status = status;
    }
    status = context->status;
    pthread_mutex_unlock(&context->lock);
    return status;
}

ls_status ls_context_status(ls_context *context)
{
    if (ls_context_is_parents(context))
        return refuse_parents(context);
    pthread_mutex_lock(&context->lock);
    ls_status status = context->status;
    pthread_mutex_unlock(&context->lock);
    return status;
}

void ls_context_clear(ls_context *context)
{
    pthread_mutex_lock(&context->lock);
    context->status = LS_OK;
    pthread_mutex_unlock(&context->lock);
}

const char *ls_printable(const char *text, char *into, size_t size)
{
    size_t i = 0;
    for (; text[i] && i + 1 < size; i++)
        into[i] = text[i] >= 0x20 && text[i] < 0x7f ? text[i] : '?';
    if (text[i] && size > 4)
        memcpy(into + size - 4, "...", 3), i = size - 1;
    into[i] = 0;
    return into;
}

void *ls_alloc(ls_context *context, size_t count, size_t size, const char *what)
{
    size_t bytes;
    void *memory = NULL;
    if (!__builtin_mul_overflow(count, size, &bytes) && bytes <= PTRDIFF_MAX - ALIGNMENT) {
        bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if (bytes == 0)
            bytes = ALIGNMENT;
        memory = context->allocator.allocate(bytes, ALIGNMENT, context->allocator.user);
    }
    if (!memory) {
        ls_raise(context, LS_OUT_OF_MEMORY, "no memory for %s (%zu x %zu bytes)", what, count, size);
        return NULL;
    }
    return memset(memory, 0, bytes);
}

void *ls_grow(ls_context *context, void *items, int used, int *capacity, int least, size_t size, const char *what)
{
    if (used < *capacity)
        return items;
    int doubled = *capacity ? 2 * *capacity : least;
    void *larger = ls_alloc(context, (size_t)doubled, size, what);
    if (!larger)
        return NULL;
    if (used)
        memcpy(larger, items, (size_t)used * size);
    ls_release(context, items);
    *capacity = doubled;
    return larger;
}

void ls_release(ls_context *context, void *memory)
{
    if (memory)
        context->allocator.release(memory, context->allocator.user);
}

char *ls_copy_string(ls_context *context, const char *text, const char *what)
{
    return ls_format(context, what, "%s", text);
}

char *ls_format(ls_context *context, const char *what, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = length < 0 ? NULL : ls_alloc(context, (size_t)length + 1, 1, what);
    if (text)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}
