#include "emulate.h"

#include "memory.h"

#include <setjmp.h>
#include <ucontext.h>

#include <mutex>
#include <vector>

emulate_index threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace
{

enum { STACK = 64 << 10 };

/* A thread of a block. It is made once, and is there for all blocks that come: changing between contexts as such asks
 * the kernel for the signals each time, and a jump does not. */
struct fiber {
    jmp_buf at; /* where it goes on */
    std::vector<char> stack;
    emulate_index index;
    bool done;
};

std::vector<fiber> fibers;
jmp_buf scheduler;
std::mutex busy; /* one card at a time */
const std::function<void()> *running;
size_t current;

emulate_index index_of(size_t i)
{
    return {(unsigned)(i % blockDim.x), (unsigned)(i / blockDim.x % blockDim.y),
            (unsigned)(i / blockDim.x / blockDim.y)};
}

/* From a fiber to the scheduler, until it is its turn again. */
void pass()
{
    if (_setjmp(fibers[current].at) == 0)
        _longjmp(scheduler, 1);
}

void run_fiber()
{
    for (;;) {
        (*running)();
        fibers[current].done = true;
        pass();
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

/* From the scheduler to the current fiber, until that passes. */
void enter()
{
    if (_setjmp(scheduler) != 0)
        return;
    if (!fibers[current].stack.empty())
        _longjmp(fibers[current].at, 1);
    begin(fibers[current]);
}

/* Every thread goes on to the next barrier, or its end, before the first goes beyond it. */
void run_block(size_t threads)
{
    for (size_t i = 0; i < threads; i++) {
        fibers[i].done = false;
        fibers[i].index = index_of(i);
    }
    for (bool left = true; left;) {
        left = false;
        for (current = 0; current < threads; current++)
            if (!fibers[current].done) {
                threadIdx = fibers[current].index;
                enter();
                left |= !fibers[current].done;
            }
    }
}

} // namespace

void emulate_barrier()
{
    pass();
}

void emulate_launch(dim3 grid, dim3 block, bool together, const std::function<void()> &kernel)
{
    const std::lock_guard<std::mutex> one(busy);
    emulated_enter();
    const size_t threads = (size_t)block.x * block.y * block.z;
    if (together && fibers.size() < threads)
        fibers.resize(threads);
    running = &kernel;
    gridDim = grid;
    blockDim = block;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                blockIdx = {x, y, z};
                if (together)
                    run_block(threads);
                else
                    for (size_t i = 0; i < threads; i++) {
                        threadIdx = index_of(i);
                        kernel();
                    }
            }
    emulated_leave();
}
