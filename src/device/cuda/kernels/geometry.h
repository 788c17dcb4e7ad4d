/* How work is cut into blocks of threads: functions of shapes alone, so that the same shape is summed in the same order
 * on every card of a model, and tests need no card. For C and for CUDA's C++. */
#pragma once

#include <stddef.h>

#include "device/op.h"

enum {
    LS_CUDA_THREADS = 256,
    LS_CUDA_MOST_BLOCKS = 132 * 16, /* loops take what is left: enough for the largest cards there are */
    LS_CUDA_FEW_BLOCKS = 132 * 8,   /* as many as run at once, where each thread has something to get ready */
    LS_CUDA_COLUMN = 32,            /* threads side by side in sums over images and places, of neighbouring channels */
    LS_CUDA_FINISH = 32,            /* threads that share a channel where the sums of chunks are added */
    LS_CUDA_MOST_CHUNKS = 512,
    LS_CUDA_TILE = 4608,     /* floats of shared memory: a 3x3 kernel's weights of 512 channels */
    LS_CUDA_LEAST_ROWS = 64, /* of a chunk */
    LS_CUDA_ALIGNMENT = 256
};

/* Blocks of LS_CUDA_THREADS for n pieces of work of one thread. */
static inline unsigned ls_cuda_blocks(size_t n)
{
    size_t blocks = (n + LS_CUDA_THREADS - 1) / LS_CUDA_THREADS;
    return (unsigned)(blocks < 1 ? 1 : blocks > LS_CUDA_MOST_BLOCKS ? LS_CUDA_MOST_BLOCKS : blocks);
}

/* No more than run at once: what a thread gets ready serves all its turns. */
static inline unsigned ls_cuda_few_blocks(size_t n)
{
    unsigned blocks = ls_cuda_blocks(n);
    return blocks < LS_CUDA_FEW_BLOCKS ? blocks : LS_CUDA_FEW_BLOCKS;
}

/* Sums over the rows (images times places) of every channel: chunk i has rows [i * rows, (i + 1) * rows). A thread has
 * `vector` channels, `lanes` threads of a block a row, and `columns` blocks all channels. A first kernel sums each
 * chunk, a second one the chunks in their order. */
typedef struct ls_cuda_sums {
    int chunks, columns, lanes;
    size_t rows;
} ls_cuda_sums;

/* The most chunks of so many rows or fewer. */
static inline size_t ls_cuda_chunks_of(size_t rows)
{
    size_t chunks = (rows + LS_CUDA_LEAST_ROWS - 1) / LS_CUDA_LEAST_ROWS;
    return chunks < 1 ? 1 : chunks > LS_CUDA_MOST_CHUNKS ? LS_CUDA_MOST_CHUNKS : chunks;
}

static inline ls_cuda_sums ls_cuda_sums_of(size_t rows, int channels, int vector)
{
    const int groups = (channels + vector - 1) / vector;
    ls_cuda_sums cut = {.lanes = groups < LS_CUDA_COLUMN ? groups : LS_CUDA_COLUMN};
    cut.columns = (groups + cut.lanes - 1) / cut.lanes;
    size_t chunks = 4 * 132 / (size_t)cut.columns, most = ls_cuda_chunks_of(rows);
    chunks = chunks > most ? most : chunks;
    chunks = chunks < 1 ? 1 : chunks;
    cut.rows = (rows + chunks - 1) / chunks;
    cut.rows = cut.rows < 1 ? 1 : cut.rows;
    cut.chunks = (int)((rows + cut.rows - 1) / cut.rows);
    cut.chunks = cut.chunks < 1 ? 1 : cut.chunks;
    return cut;
}

/* Rows of images and places that one block of a direct convolution's weight gradient sums. */
static inline int ls_cuda_weight_chunks(size_t rows)
{
    size_t chunks = rows / 512;
    return (int)(chunks < 1 ? 1 : chunks > 256 ? 256 : chunks);
}

static inline size_t ls_cuda_aligned(size_t bytes)
{
    return (bytes + LS_CUDA_ALIGNMENT - 1) / LS_CUDA_ALIGNMENT * LS_CUDA_ALIGNMENT;
}

/* A convolution as cuDNN takes it, along one axis: it knows no output with fewer windows than fit, so the input is cut,
 * and padded behind, to what the windows there are read. */
typedef struct ls_cuda_axis {
    int input, before, after; /* places read, and padded in front and behind */
} ls_cuda_axis;

static inline ls_cuda_axis ls_cuda_axis_of(int input, int output, const ls_windows_axis *windows)
{
    const int stride = windows->stride, padding = windows->padding;
    ls_cuda_axis axis = {input, padding, padding};
    if (ls_windows_along(windows, input) == output) /* cuDNN's division rounds down, too */
        return axis;
    /* one past the last place that a window reads */
    int reach = (output - 1) * stride + (int)ls_windows_span(windows) - padding;
    axis.input = reach < input ? reach : input;
    axis.after = reach > input ? reach - input : 0;
    if (axis.input < 1)
        axis.input = 1;
    return axis;
}
