/* What an update does to a run of weights. g is the gradient's sum, `divisor` what makes a mean of it: the number of
 * images in the batch, or in a full one, as float, and more where the gradient is clipped. Every formula is in float,
 * and what is computed once a step is computed in double and rounded. The functions return whether every new number is
 * finite. */
#pragma once

#include <stddef.h>

enum { LS_MOST_MOMENTS = 2 }; /* numbers that a rule keeps for a weight from update to update */

/* Plain SGD.
 *   g = g / divisor;  g = fma(weight_decay, w, g) where weight_decay != 0;
 *   with momentum: v = first ? g : fma(momentum, v, g);  g = nesterov ? fma(momentum, v, g) : v;
 *   out = fma(-lr, g, w).
 * v may be NULL without momentum. */
typedef struct ls_sgd {
    float divisor, lr, momentum, weight_decay;
    int nesterov, first;
} ls_sgd;

/* Adam, and AdamW with `decay` in place of `weight_decay` (Kingma and Ba 2015, Loshchilov and Hutter 2019). With t
 * updates of these moments, this one included:
 *   share1 = 1 - beta1, share2 = 1 - beta2, rate = lr / (1 - beta1^t), scale = 1 / sqrt(1 - beta2^t), decay = lr *
 *     weight decay;
 *   g = g / divisor;  g = fma(weight_decay, w, g) where weight_decay != 0;  where first, m = v = 0;
 *   m = fma(share1, g - m, m);  v = fma(share2, fma(g, g, 0 - v), v), which is never negative;
 *   w = fma(-decay, w, w) where decay != 0;
 *   out = fma(-rate, m / fma(sqrt(v), scale, eps), w). */
typedef struct ls_adam {
    float divisor, share1, share2, rate, scale, eps, weight_decay, decay;
    int first;
} ls_adam;

/* What the average of a weight over the updates becomes after one of them; share = 1 - decay:
 *   average = first ? out : fma(share, out - average, average). */
typedef struct ls_averaging {
    float share; /* 0: no average is kept */
    int first;
} ls_averaging;

typedef enum ls_rule { LS_RULE_SGD, LS_RULE_ADAM } ls_rule;

typedef struct ls_update {
    ls_rule rule;
    size_t stride;     /* floats from a weight's first moment to its second */
    size_t average_at; /* and to its average, which is the last */
    ls_averaging averaging;
    union {
        ls_sgd sgd;
        ls_adam adam;
    };
} ls_update;
