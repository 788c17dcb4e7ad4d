#include "emulate.h"

#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#include <mutex>
#include <type_traits>
#include <vector>

emulate_index threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace
{

enum { STACK = 64 << 10, WARP = 32, MOST_SHARED = 228 << 10, MOST_EXCHANGED = 16 };

enum state { RUNS, WAITS_FOR_BLOCK, WAITS_FOR_WARP, DONE };

struct copy {
    void *to;
    const void *from;
    size_t bytes, group;
};

/* Where to go on, by the compiler's own jumps, which take a fraction of the C library's time. */
typedef void *place[5];

/* A thread of a block. It is moved without being copied, as its stack must stay where it is. It is made once, and is
 * there for all blocks that come: changing between contexts as such asks the kernel for the signals each time, and a
 * jump does not. */
struct fiber {
    place at; /* where it goes on */
    std::vector<char> stack;
    emulate_index index;
    state waits;
    alignas(16) char exchanged[MOST_EXCHANGED];
    std::vector<copy> copies;
    size_t groups; /* of copies, so far */
};

static_assert(std::is_nothrow_move_constructible<fiber>::value, "a vector that grows would copy the stacks");
std::vector<fiber> fibers;
place scheduler;
std::mutex busy; /* one card at a time */
const std::function<void()> *running;
size_t current, block_threads;
bool in_fibers, copies_are_late;
alignas(128) char shared_memory[MOST_SHARED];

[[noreturn]] void stop(const char *why)
{
    fprintf(stderr, "emulated cards: %s\n", why);
    abort();
}

/* Of the block's next thread. */
emulate_index behind(emulate_index index)
{
    if (++index.x < blockDim.x)
        return index;
    index.x = 0;
    if (++index.y == blockDim.y) {
        index.y = 0;
        index.z++;
    }
    return index;
}

/* From a fiber to the scheduler, until what it waits for is there. */
__attribute__((noinline)) void pass(state waits)
{
    if (!in_fibers)
        stop("a thread waits, and launches.py has not seen it");
    fibers[current].waits = waits;
    if (__builtin_setjmp(fibers[current].at) == 0)
        __builtin_longjmp(scheduler, 1);
}

void run_fiber()
{
    for (;;) {
        (*running)();
        pass(DONE);
    }
}

void begin(fiber &f)
{
    ucontext_t context;
    f.stack.resize(STACK);
    getcontext(&context);
    context.uc_stack.ss_sp = f.stack.data();
    context.uc_stack.ss_size = STACK;
    context.uc_link = NULL;
    makecontext(&context, run_fiber, 0);
    setcontext(&context);
}

/* To the current fiber. Not a part of `enter`, as the compiler's jumps may not lead to the function that they are in.
 */
[[noreturn]] __attribute__((noinline)) void resume()
{
    if (fibers[current].stack.empty())
        begin(fibers[current]);
    __builtin_longjmp(fibers[current].at, 1);
}

/* From the scheduler to the current fiber, until that passes. */
__attribute__((noinline)) void enter()
{
    if (__builtin_setjmp(scheduler) == 0)
        resume();
}

/* Lets threads [from, end) go on where all of them have come to that barrier, or their end. */
void open_barrier(state barrier, size_t from, size_t end)
{
    for (size_t i = from; i < end; i++)
        if (fibers[i].waits != barrier && fibers[i].waits != DONE)
            return;
    for (size_t i = from; i < end; i++)
        if (fibers[i].waits == barrier)
            fibers[i].waits = RUNS;
}

/* Every thread goes on to the next barrier, or its end, before the first goes beyond it. */
void run_block(size_t threads)
{
    block_threads = threads;
    emulate_index index = {0, 0, 0};
    for (size_t i = 0; i < threads; i++, index = behind(index)) {
        fibers[i].waits = RUNS;
        fibers[i].index = index;
        fibers[i].copies.clear();
        fibers[i].groups = 0;
    }
    for (bool left = true; left;) {
        bool ran = false;
        left = false;
        for (current = 0; current < threads; current++) {
            if (fibers[current].waits == RUNS) {
                threadIdx = fibers[current].index;
                enter();
                ran = true;
            }
            left |= fibers[current].waits != DONE;
        }
        if (left && !ran)
            stop("threads of a block wait for each other for ever");
        for (size_t i = 0; i < threads; i += WARP)
            open_barrier(WAITS_FOR_WARP, i, i + WARP < threads ? i + WARP : threads);
        open_barrier(WAITS_FOR_BLOCK, 0, threads);
    }
}

/* Brings what was handed in up to a group. */
void bring(fiber &f, size_t groups)
{
    size_t n = 0;
    for (; n < f.copies.size() && f.copies[n].group < groups; n++)
        memcpy(f.copies[n].to, f.copies[n].from, f.copies[n].bytes);
    f.copies.erase(f.copies.begin(), f.copies.begin() + (ptrdiff_t)n);
}

} // namespace

void emulate_barrier()
{
    pass(WAITS_FOR_BLOCK);
}

void emulate_warp_barrier()
{
    pass(WAITS_FOR_WARP);
}

unsigned emulate_lane()
{
    return (unsigned)(current % WARP);
}

void emulate_exchange(const void *mine, void *got, size_t bytes, unsigned from)
{
    const size_t warp = current / WARP * WARP;
    if (bytes > MOST_EXCHANGED || warp + from >= block_threads)
        stop("a shuffle that there is not");
    memcpy(fibers[current].exchanged, mine, bytes);
    pass(WAITS_FOR_WARP);
    memcpy(got, fibers[warp + from].exchanged, bytes);
    pass(WAITS_FOR_WARP); /* before the next one */
}

void *emulate_shared()
{
    return shared_memory;
}

extern "C" cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute, int bytes)
{
    return bytes <= MOST_SHARED ? cudaSuccess : cudaErrorInvalidValue;
}

void __pipeline_memcpy_async(void *to, const void *from, size_t bytes)
{
    if (bytes != 4 && bytes != 8 && bytes != 16)
        stop("a copy beside the thread of another size than 4, 8 or 16 bytes");
    if ((size_t)to % bytes || (size_t)from % bytes)
        stop("a copy beside the thread from or to an odd place");
    if (copies_are_late)
        fibers[current].copies.push_back({to, from, bytes, fibers[current].groups});
    else
        memcpy(to, from, bytes);
}

void __pipeline_commit()
{
    fibers[current].groups++;
}

void __pipeline_wait_prior(size_t groups)
{
    fiber &f = fibers[current];
    bring(f, f.groups > groups ? f.groups - groups : 0);
}

void emulate_launch(dim3 grid, dim3 block, size_t shared, bool together, const std::function<void()> &kernel)
{
    if (shared > MOST_SHARED || (size_t)block.x * block.y * block.z > 1024 || grid.y > 65535 || grid.z > 65535)
        stop("a launch that no card does");
    const std::lock_guard<std::mutex> one(busy);
    emulated_enter();
    const size_t threads = (size_t)block.x * block.y * block.z;
    if (together && fibers.size() < threads)
        fibers.resize(threads);
    running = &kernel;
    in_fibers = together;
    gridDim = grid;
    blockDim = block;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                blockIdx = {x, y, z};
                memset(shared_memory, 0xff, shared);
                copies_are_late = (x + y + z) % 2;
                if (together)
                    run_block(threads);
                else {
                    threadIdx = {0, 0, 0};
                    for (size_t i = 0; i < threads; i++, threadIdx = behind(threadIdx))
                        kernel();
                }
            }
    emulated_leave();
}
