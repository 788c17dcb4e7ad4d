#include "train/clip.h"

#include <math.h>

#include "optim/optimizer.h"

static size_t blocks_of(const ls_flat *flat)
{
    return (flat->trainable + LS_SQUARED - 1) / LS_SQUARED;
}

ls_status ls_clip_init(struct ls_trainer *trainer)
{
    const ls_flat *flat = &trainer->network->flat;
    ls_context *context = &trainer->session->context;
    if (!trainer->squares)
        trainer->squares = ls_alloc(context, blocks_of(flat), sizeof(double), "the gradient's norm");
    return trainer->squares ? LS_OK : LS_OUT_OF_MEMORY;
}

static double norm_of(const struct ls_trainer *trainer)
{
    const ls_flat *flat = &trainer->network->flat;
    ls_executor *master = trainer->network->master;
    master->type->compute.square(master, trainer->gradient, flat->trainable, trainer->squares);
    ls_tree_sum_doubles(trainer->squares, (int)blocks_of(flat));
    return sqrt(trainer->squares[0]);
}

bool ls_clip_update(ls_step_job *step)
{
    struct ls_trainer *trainer = step->trainer;
    ls_network *network = trainer->network;
    const double most = trainer->options.clip_norm, divisor = ls_optimizer_divisor(&trainer->options, step->counted);
    const int current = atomic_load(&network->current);
    ls_update how = step->how;
    step->ending.norm = norm_of(trainer) / divisor;
    const double shrink = (step->ending.norm + 1e-6) / most;
    if (!(shrink <= 1)) /* also where it is no number, which the update then shows */
        ls_update_divide(&how, (float)(divisor * shrink));
    const ls_terms terms = {.n = 1, .at = {trainer->gradient}};
    ls_executor *master = network->master;
    bool finite =
        master->type->compute.update(master, &terms, network->master_weights[1 - current],
                                     network->master_weights[current], trainer->moments, network->flat.trainable, &how);
    if (ls_executor_finish(master, &finite) != LS_OK)
        atomic_store(&network->session->broken, true);
    return finite;
}
