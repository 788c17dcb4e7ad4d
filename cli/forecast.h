/* How fast a step would be on more devices, from what a few of them took.
 *
 *     T(n) = ceil(shards / n) * shard * f(n)  +  sums * b(n) / n  +  rest  +  latency * (n - 1)
 *
 * `shard`, `sums` and `rest` are what one device was measured to take for a shard, for summing and updating, and for all else of a
 * step. f(n) and b(n) are how much slower a core computes, and reads memory, while n of them do: measured as far as there are
 * cores. `latency` is what the speeds measured on two and more devices leave over, by least squares. Shards that are left over count
 * as a whole round, though devices without one help with them: it is then a little faster than forecast. */
#ifndef CLI_FORECAST_H
#define CLI_FORECAST_H

#include <lockstep.h>

typedef struct forecast {
    int shards, images;                                          /* of a step */
    double shard, sums, rest;                                    /* seconds */
    double latency;                                              /* seconds a device after the first */
    int cores;                                                   /* f and b are known up to so many */
    double flops[LS_MAX_DEVICES + 1], bytes[LS_MAX_DEVICES + 1]; /* [n] of one core a second, while n are at it */
    double left_over, weight;                                    /* of the fit */
} forecast;

/* What one device took, of zeros: `times` is what it did in so many steps, which took `seconds` together. */
void forecast_begin(forecast *f, int shards, int images, const ls_device_times *times, int64_t steps, double seconds);

/* What n cores together can do, one of them; by ls_measure_speed. */
void forecast_speed(forecast *f, int n, const ls_speed *speed);

/* A step on n devices took so long: the latency is fitted to it. */
void forecast_fit(forecast *f, int n, double seconds);

double forecast_step(const forecast *f, int n);   /* seconds */
double forecast_images(const forecast *f, int n); /* a second */

/* The most devices of which each brings at least three quarters of what the first one does alone. */
int forecast_recommended(const forecast *f);

#endif
