#include "emulate.h"

#include "memory.h"

#include <ucontext.h>

#include <mutex>
#include <vector>

emulate_index threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace
{

enum { STACK = 64 << 10 };

struct fiber {
    ucontext_t context;
    std::vector<char> stack;
    emulate_index index;
    bool done;
};

std::vector<fiber> fibers;
ucontext_t scheduler;
std::mutex busy; /* one card at a time */
const std::function<void()> *running;
size_t current;

emulate_index index_of(size_t i)
{
    return {(unsigned)(i % blockDim.x), (unsigned)(i / blockDim.x % blockDim.y),
            (unsigned)(i / blockDim.x / blockDim.y)};
}

void run_fiber()
{
    (*running)();
    fibers[current].done = true;
    swapcontext(&fibers[current].context, &scheduler);
}

/* Every thread goes on to the next barrier, or its end, before the first goes beyond it. */
void run_block(size_t threads)
{
    for (size_t i = 0; i < threads; i++) {
        fiber &f = fibers[i];
        f.stack.resize(STACK);
        f.done = false;
        f.index = index_of(i);
        getcontext(&f.context);
        f.context.uc_stack.ss_sp = f.stack.data();
        f.context.uc_stack.ss_size = STACK;
        f.context.uc_link = NULL;
        makecontext(&f.context, run_fiber, 0);
    }
    for (bool left = true; left;) {
        left = false;
        for (current = 0; current < threads; current++)
            if (!fibers[current].done) {
                threadIdx = fibers[current].index;
                swapcontext(&scheduler, &fibers[current].context);
                left |= !fibers[current].done;
            }
    }
}

} // namespace

void emulate_barrier()
{
    swapcontext(&fibers[current].context, &scheduler);
}

void emulate_launch(dim3 grid, dim3 block, bool together, const std::function<void()> &kernel)
{
    const std::lock_guard<std::mutex> one(busy);
    emulated_enter();
    const size_t threads = (size_t)block.x * block.y * block.z;
    if (fibers.size() < threads)
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
