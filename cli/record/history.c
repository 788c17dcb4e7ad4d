#include "record/history.h"

#include <math.h>
#include <string.h>

/* Twice as many steps to a bin: neighbours become one. */
static void halve_bins(history *h)
{
    for (int i = 0; i < HISTORY_BINS / 2; i++) {
        const history_bin *a = &h->bins[2 * i], *b = a + 1;
        h->bins[i] =
            (history_bin){a->loss_sum + b->loss_sum, a->steps + b->steps, a->correct + b->correct, a->rows + b->rows};
    }
    memset(h->bins + HISTORY_BINS / 2, 0, sizeof h->bins / 2);
    h->used = HISTORY_BINS / 2;
    h->per_bin *= 2;
}

void history_step(history *h, int64_t step, double loss, int64_t correct, int64_t rows)
{
    if (step < 1)
        return;
    if (!h->per_bin)
        h->per_bin = 1;
    while ((step - 1) / h->per_bin >= HISTORY_BINS)
        halve_bins(h);
    int i = (int)((step - 1) / h->per_bin);
    history_bin *bin = &h->bins[i];
    if (i >= h->used)
        h->used = i + 1;
    if (isfinite(loss)) {
        bin->loss_sum += loss;
        bin->steps++;
    }
    bin->correct += correct;
    bin->rows += rows;
    h->last_step = step;
    h->last_loss = loss;
}

void history_test(history *h, int64_t step, double acc)
{
    if (h->n_points == HISTORY_POINTS) {
        /* Every second one goes, and the newest stays. */
        for (int i = 0; i < HISTORY_POINTS / 2; i++)
            h->points[i] = h->points[2 * i + 1];
        h->n_points = HISTORY_POINTS / 2;
    }
    h->points[h->n_points++] = (history_point){(double)step, acc};
}

static double middle(const history *h, int i)
{
    double first = (double)i * (double)h->per_bin + 1, last = first + (double)h->per_bin - 1;
    return (first + (last < (double)h->last_step ? last : (double)h->last_step)) / 2;
}

bool history_loss_at(const history *h, int i, double *step, double *loss)
{
    if (i >= h->used || !h->bins[i].steps)
        return false;
    *step = middle(h, i);
    *loss = h->bins[i].loss_sum / (double)h->bins[i].steps;
    return true;
}

bool history_acc_at(const history *h, int i, double *step, double *acc)
{
    if (i >= h->used || !h->bins[i].rows)
        return false;
    *step = middle(h, i);
    *acc = (double)h->bins[i].correct / (double)h->bins[i].rows;
    return true;
}

double history_most_loss(const history *h)
{
    int together = h->used / 128 + 1, n = 0;
    double most = 0, sum = 0, step, loss;
    for (int i = 0; i < h->used; i++) {
        if (history_loss_at(h, i, &step, &loss)) {
            sum += loss;
            n++;
        }
        if (n && ((i + 1) % together == 0 || i == h->used - 1)) {
            most = sum / n > most ? sum / n : most;
            sum = n = 0;
        }
    }
    return most;
}
