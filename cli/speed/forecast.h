/* How fast a step would be on more devices, from what a few of them took.
 *
 *     T(n) = ceil(shards / n) * shard(n)  +  sums(n) / n  +  rest  +  latency * (n - 1)
 *
 * shard(n) and sums(n) are what a device takes for a shard, and for summing and updating, in n separate runs of one
 * device at once: cores share caches, memory and their clock. They are measured as far as there are cores, and taken to
 * stay as they are beyond. `rest` is all else of a step on one device. `latency` is what the speeds measured on two and
 * more devices leave over, by least squares. Shards that are left over count as a whole round, though devices without
 * one help with them: it is then a little faster than forecast. */
#pragma once

#include <lockstep.h>

typedef struct forecast {
    int shards, images;                                         /* of a step */
    double shard[LS_MAX_DEVICES + 1], sums[LS_MAX_DEVICES + 1]; /* [n] seconds, of a shard and of a step */
    int known;                /* they are, up to so many; of those between that are not, 0 */
    double rest, latency;     /* seconds, of a step and of a device after the first */
    double left_over, weight; /* of the fit */
} forecast;

/* A step on one device took so long, after forecast_separate of 1. */
void forecast_begin(forecast *f, int shards, int images, double seconds);

/* What a device took in n separate runs at once: in seconds, for a shard, and for a step's sums and updates. */
void forecast_separate(forecast *f, int n, double shard, double sums);

/* A step on n devices took so long: the latency is fitted to it. */
void forecast_fit(forecast *f, int n, double seconds);

double forecast_step(const forecast *f, int n);   /* seconds */
double forecast_images(const forecast *f, int n); /* a second */

/* The most devices of which each brings at least three quarters of what the first one does alone. */
int forecast_recommended(const forecast *f);
