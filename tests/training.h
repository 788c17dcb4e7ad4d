/* Training, as most tests take its steps. */
#ifndef TEST_TRAINING_H
#define TEST_TRAINING_H

#include <lockstep.h>
#include <lockstep_nn.h>
#include <lockstep_train.h>
#include <stdint.h>

/* Images and labels that are always the same, and look like nothing. */
static inline void test_make_images(uint8_t *pixels, size_t numbers, uint8_t *labels, size_t rows, int classes)
{
    uint32_t x = 1;
    for (size_t i = 0; i < numbers; i++)
        pixels[i] = (uint8_t)((x = x * 1664525u + 1013904223u) >> 24);
    for (size_t i = 0; i < rows; i++)
        labels[i] = (uint8_t)(i * 7 % (size_t)classes);
}

/* The next batch, of the next epoch where one has ended. False where there is none any more, as after a failure. */
static inline bool test_next(ls_data *data, ls_batch *batch)
{
    return ls_data_next(data, batch) || ls_data_next(data, batch);
}

static inline ls_tensor *test_losses(ls_module *net, const ls_batch *batch)
{
    return ls_cross_entropy(ls_module_forward(net, batch->X), batch->y);
}

static inline ls_status test_step(ls_module *net, ls_trainer *trainer, const ls_batch *batch)
{
    ls_backward(test_losses(net, batch));
    return ls_trainer_step(trainer);
}

/* Steps until so many are done, counted in *done. */
static inline ls_status test_train(ls_session *session, ls_module *net, ls_trainer *trainer, ls_data *data, int *done,
                                   int steps)
{
    ls_batch batch;
    while (*done < steps && !ls_failed(session))
        if (ls_data_next(data, &batch)) {
            test_step(net, trainer, &batch);
            ++*done;
        }
    return ls_status_of(session);
}

/* Of the averages of the weights, which then give way to these again. */
static inline uint64_t test_average_checksum(ls_module *net, ls_trainer *trainer)
{
    ls_trainer_use_average(trainer, true);
    const uint64_t sum = ls_module_checksum(net);
    ls_trainer_use_average(trainer, false);
    return sum;
}

/* Of the backward passes since the last step. */
static inline ls_status test_read_gradient(ls_module *net, const char *name, float *values, int64_t numbers)
{
    return ls_read(ls_grad(ls_module_param(net, name, ls_host())), values, numbers);
}

#endif
