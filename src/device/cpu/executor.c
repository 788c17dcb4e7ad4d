#include "device/cpu/executor.h"

#include <stdio.h>
#include <string.h>

#include "device/cpu/select.h"

/* Floats of a vector that are summed at once: what is between, and the next block's lines, stay in the first cache. A
 * slice is some of them, so that workers seldom ask for the next. */
enum {
    BLOCK = 512,
    SLICE = 64 * BLOCK,
    ALIGNMENT = 64,
    LINE = ALIGNMENT / sizeof(float),
    FLOATS = LS_TERMS_DEPTH * BLOCK
};

typedef struct cpu_executor {
    ls_executor executor;
    float *sums; /* [LS_TERMS_DEPTH][BLOCK], FLOATS in all */
    char name[16];
} cpu_executor;

static void *allocate(ls_executor *executor, size_t bytes)
{
    const ls_allocator *allocator = &executor->context->allocator;
    size_t rounded = (bytes / ALIGNMENT + 1) * ALIGNMENT;
    void *memory = bytes > PTRDIFF_MAX - ALIGNMENT ? NULL : allocator->allocate(rounded, ALIGNMENT, allocator->user);
    return memory ? memset(memory, 0, rounded) : NULL;
}

static void release(ls_executor *executor, void *memory)
{
    ls_release(executor->context, memory);
}

/* A network's values have one place only where the host computes: copying them is copying to themselves. */
static void copy(ls_executor *executor, void *to, const void *from, size_t bytes)
{
    (void)executor;
    if (to != from && bytes)
        memcpy(to, from, bytes);
}

static void zero(ls_executor *executor, void *to, size_t bytes)
{
    (void)executor;
    memset(to, 0, bytes);
}

static float *stage_result(ls_executor *executor, float *host, size_t n)
{
    (void)executor;
    (void)n;
    return host;
}

/* Floats from `at` on that are one block, of n in all. */
static size_t block(size_t at, size_t n)
{
    return n - at < BLOCK ? n - at : BLOCK;
}

/* Asks for floats [at, at + n) of each vector: many lie in another core's cache, and take long from there. */
static void ask(const ls_terms *terms, size_t at, size_t n)
{
    for (int i = 0; i < terms->n; i++)
        for (size_t k = 0; terms->at[i] && k < n; k += LINE)
            __builtin_prefetch(terms->at[i] + at + k);
}

/* The sum of floats [at, at + n), n <= BLOCK: in `out`, or with a single vector where that lies. */
static const float *sum_block(cpu_executor *u, const ls_terms *terms, size_t at, float *out, size_t n)
{
    const float *stack[LS_TERMS_DEPTH];
    int depth = 0;
    for (int i = 0; i < terms->n; i++) {
        if (terms->at[i]) {
            stack[depth++] = terms->at[i] + at;
            continue;
        }
        depth--;
        float *to = i == terms->n - 1 ? out : u->sums + (size_t)(depth - 1) * BLOCK;
        u->executor.backend->add(to, stack[depth - 1], stack[depth], n);
        stack[depth - 1] = to;
    }
    return stack[0];
}

static void sum(ls_executor *executor, const ls_terms *terms, float *out, size_t n)
{
    for (size_t at = 0; at < n; at += BLOCK) {
        const size_t floats = block(at, n), next = at + floats;
        ask(terms, next, block(next, n));
        copy(executor, out + at, sum_block((cpu_executor *)executor, terms, at, out + at, floats),
             floats * sizeof *out);
    }
}

static bool update(ls_executor *executor, const ls_terms *terms, float *out, const float *w, float *moments, size_t n,
                   const ls_update *how)
{
    cpu_executor *u = (cpu_executor *)executor;
    bool finite = true;
    for (size_t at = 0; at < n; at += BLOCK) {
        const size_t floats = block(at, n), next = at + floats;
        ask(terms, next, block(next, n));
        const float *g = sum_block(u, terms, at, u->sums, floats);
        finite &=
            ls_backend_update(executor->backend, out + at, w + at, moments ? moments + at : NULL, g, floats, how) != 0;
    }
    return finite;
}

static void square(ls_executor *executor, const float *x, size_t n, double *sums)
{
    (void)executor;
    for (size_t at = 0; at < n; at += LS_SQUARED) {
        const size_t end = n - at < LS_SQUARED ? n : at + LS_SQUARED;
        double sum = 0;
        for (size_t i = at; i < end; i++)
            sum += (double)x[i] * x[i]; /* the product is exact */
        sums[at / LS_SQUARED] = sum;
    }
}

static bool finish(ls_executor *executor)
{
    (void)executor;
    return true;
}

static void close_executor(ls_executor *executor)
{
    cpu_executor *u = (cpu_executor *)executor;
    ls_release(executor->context, u->sums);
    ls_release(executor->context, u);
}

static const ls_executor_type type = {
    .memory = {.allocate = allocate, .release = release, .put = copy, .get = copy, .zero = zero},
    .compute = {.stage_result = stage_result, .sum = sum, .update = update, .square = square},
    .completion = {.finish = finish},
    .close = close_executor,
};

ls_executor *ls_cpu_executor_open(ls_context *context, ls_isa isa, int core)
{
    cpu_executor *u = ls_alloc(context, 1, sizeof *u, "a core");
    float *sums = u ? ls_alloc(context, FLOATS, sizeof *sums, "a core's sums") : NULL;
    if (!sums) {
        ls_release(context, u);
        return NULL;
    }
    snprintf(u->name, sizeof u->name, "cpu:%d", core);
    u->sums = sums;
    u->executor = (ls_executor){.type = &type,
                                .backend = ls_cpu_backend(isa),
                                .context = context,
                                .name = u->name,
                                .core = core,
                                .slice = SLICE,
                                .held = FLOATS * sizeof *sums};
    return &u->executor;
}
