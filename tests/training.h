/* One step of training, as most tests take it. */
#ifndef TEST_TRAINING_H
#define TEST_TRAINING_H

#include <lockstep.h>

static inline ls_tensor *test_losses(ls_module *net, const ls_batch *batch)
{
    return ls_cross_entropy(ls_train(net, batch->X), batch->y);
}

static inline ls_status test_step(ls_module *net, ls_trainer *trainer, const ls_batch *batch)
{
    ls_backward(test_losses(net, batch));
    return ls_step(trainer);
}

/* Of the backward passes since the last step. */
static inline ls_status test_read_gradient(ls_module *net, const char *name, float *values, int64_t numbers)
{
    return ls_read(ls_grad(ls_param(net, name, ls_host())), values, numbers);
}

#endif
