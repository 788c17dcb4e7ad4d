/* How a run went so far, small enough to be drawn at any moment: the steps' losses and hits in a bounded number of
 * bins, the epochs' test accuracy in a bounded number of points. Adding to it allocates nothing. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { HISTORY_BINS = 2048, HISTORY_POINTS = 512 };

/* Neighbouring steps together; how many grows as the run grows. */
typedef struct history_bin {
    double loss_sum;
    int64_t steps;
    int64_t correct, rows; /* 0 where only losses are known */
} history_bin;

typedef struct history_point {
    double step; /* after which it was measured */
    double acc;
} history_point;

typedef struct history {
    history_bin bins[HISTORY_BINS];
    int64_t per_bin; /* steps to a bin; 0 before the first */
    int used;
    int64_t last_step;
    double last_loss;
    history_point points[HISTORY_POINTS];
    int n_points;
} history;

/* Steps count from 1 and come in order. A loss that is not finite leaves a gap. */
void history_step(history *h, int64_t step, double loss, int64_t correct, int64_t rows);
void history_test(history *h, int64_t step, double acc);

/* The middle of bin i in steps, its mean loss and accuracy; false where it holds none. */
bool history_loss_at(const history *h, int i, double *step, double *loss);
bool history_acc_at(const history *h, int i, double *step, double *acc);
/* The largest that a drawing shows, where neighbours share a place; 0 without any. */
double history_most_loss(const history *h);
