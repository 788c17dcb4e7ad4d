#include "parallel/clip.h"

#include <math.h>

#include "optim/optimizer.h"

enum { BLOCK = 2048 }; /* of the flat vector, in which squares are added one after another */

bool ls_clips(const struct ls_trainer *trainer)
{
    return trainer->options.clip_norm > 0;
}

static size_t blocks_of(const ls_flat *flat)
{
    return (flat->trainable + BLOCK - 1) / BLOCK;
}

ls_status ls_clip_init(struct ls_trainer *trainer)
{
    const ls_flat *flat = &trainer->network->flat;
    ls_context *context = &trainer->session->context;
    if (ls_network_apart(trainer->network))
        return ls_raise(context, LS_UNSUPPORTED, "clip_norm: the gradient in a GPU's memory is not clipped so far; train on "
                                                 "several GPUs, on CPUs, or without it");
    if (!trainer->gradient)
        trainer->gradient = ls_unit_alloc(trainer->network->home, flat->trainable, sizeof(float), "the gradient");
    if (!trainer->squares)
        trainer->squares = ls_alloc(context, blocks_of(flat), sizeof(double), "the gradient's norm");
    return trainer->gradient && trainer->squares ? LS_OK : LS_OUT_OF_MEMORY;
}

static double norm_of(const float *gradient, double *squares, const ls_flat *flat)
{
    const size_t blocks = blocks_of(flat);
    for (size_t b = 0; b < blocks; b++) {
        const size_t end = (b + 1) * BLOCK < flat->trainable ? (b + 1) * BLOCK : flat->trainable;
        double sum = 0;
        for (size_t i = b * BLOCK; i < end; i++)
            sum += (double)gradient[i] * gradient[i]; /* the product is exact */
        squares[b] = sum;
    }
    ls_tree_sum_doubles(squares, (int)blocks);
    return sqrt(squares[0]);
}

bool ls_clip_update(ls_step_job *step)
{
    struct ls_trainer *trainer = step->trainer;
    ls_network *network = trainer->network;
    const double most = trainer->options.clip_norm, divisor = ls_optimizer_divisor(&trainer->options, step->rows);
    const int current = atomic_load(&network->current);
    step->norm = norm_of(trainer->gradient, trainer->squares, &network->flat) / divisor;
    const double shrink = (step->norm + 1e-6) / most;
    if (!(shrink <= 1)) /* also where it is no number, which the update then shows */
        ls_update_divide(&step->how, (float)(divisor * shrink));
    return ls_backend_update(network->home->backend, network->home_weights[1 - current], network->home_weights[current],
                             trainer->moments, trainer->gradient, network->flat.trainable, &step->how);
}
