/* The live view as text: curves, the devices, a bar and figures for a terminal of any size. Knows no terminal and no
 * clock. */
#pragma once

#include "live/plot.h"
#include "live/terminal.h"
#include "record/history.h"
#include "speed/loads.h"

typedef struct view_state {
    int64_t epoch, epochs; /* from 1 */
    int64_t step, steps;   /* of the whole run */
    int64_t batches;       /* steps to an epoch */
    int64_t tests;         /* passes over the test images in the whole run */
    double tested;         /* so many of them are done */
    double test_steps;     /* one counts as so many steps, */
    double test_seconds;   /* and takes about so long; NaN before it is known */
    double images_per_second;
    double loss;         /* NaN before the first */
    double seconds_left; /* of the whole run; NaN before it is known */
    const char *phase;   /* what is done between steps; NULL during them */
    bool over;           /* the curves alone, to stay on the screen */
} view_state;

/* The curves' drawing boards, kept between frames. */
typedef struct view_boards {
    plot loss, acc;
} view_boards;

/* Room for the largest frame. */
enum { VIEW_BYTES = 65536 };

/* Writes a frame to out[VIEW_BYTES]: lines that clear what was behind them, each but the last ended by a line's end,
 * none longer than columns - 1, fewer than `rows`. Returns how many lines there are, 0 where there is nothing to
 * show. */
int view_frame(char *out, int *length, view_boards *boards, const view_state *state, const history *h,
               const loads *devices, const terminal *look, int columns, int rows);

/* An epoch's line for a terminal of `columns`. */
typedef struct view_epoch {
    int64_t epoch, epochs;
    double loss, train_acc, test_acc, seconds, images_per_second;
    double val_acc; /* NaN without validation */
} view_epoch;
void view_epoch_text(char *text, int size, int columns, const view_epoch *e);
