/* The bar while an epoch runs: on a terminal only, as wide as the terminal, redrawn at most ten times a second. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
    bool shown;       /* stderr is a terminal that can draw it */
    bool drawn;       /* there is a bar on the line now */
    double next_draw; /* seconds of the steady clock */
} progress;

typedef struct progress_state {
    int64_t epoch, epochs; /* from 1 */
    double fraction;       /* of this epoch */
    double images_per_second;
    double loss;         /* NaN before the first */
    double seconds_left; /* of the whole run; NaN before it is known */
} progress_state;

void progress_begin(progress *bar, bool quiet);
bool progress_due(const progress *bar, double now);
void progress_draw(progress *bar, double now, const progress_state *state);
void progress_clear(progress *bar);

double steady_seconds(void);

/* The bar's text for a terminal of `columns`, at most size - 1 bytes and columns - 1 characters. */
void progress_text(char *text, int size, int columns, const progress_state *state);

#endif
