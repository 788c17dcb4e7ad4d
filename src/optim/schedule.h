/* The learning rate of a step. */
#pragma once

#include <lockstep.h>

/* Of step `step`, counted from 0. Warm-up: lr * (step + 1) / warmup. Cosine: lr * (1 + cos(pi * step / total)) / 2. */
double ls_learning_rate(const ls_optim *options, int64_t step);
