#include "forecast.h"

static const double worth_its_while = 0.75;

void forecast_begin(forecast *f, int shards, int images, const ls_device_times *times, int64_t steps, double seconds)
{
    double step = seconds / (double)steps;
    f->shards = shards;
    f->images = images;
    f->shard = times->computing / (double)(steps * shards);
    f->sums = times->reducing / (double)steps;
    f->rest = step - f->shard * shards - f->sums;
    if (f->rest < 0)
        f->rest = 0;
}

void forecast_speed(forecast *f, int n, const ls_speed *speed)
{
    f->flops[n] = speed->flops;
    f->bytes[n] = speed->bytes;
    f->cores = n;
}

/* How much slower one core is while n are at it: as with the most that were measured, where n are not. */
static double slower(const double *speed, int n, int most)
{
    while (n > 1 && (n > most || speed[n] <= 0))
        n--;
    return speed[1] > speed[n] && speed[n] > 0 ? speed[1] / speed[n] : 1;
}

static double without_latency(const forecast *f, int n)
{
    int rounds = (f->shards - 1) / n + 1;
    return rounds * f->shard * slower(f->flops, n, f->cores) + f->sums * slower(f->bytes, n, f->cores) / n + f->rest;
}

void forecast_fit(forecast *f, int n, double seconds)
{
    double others = n - 1;
    f->left_over += others * (seconds - without_latency(f, n));
    f->weight += others * others;
    f->latency = f->left_over > 0 ? f->left_over / f->weight : 0;
}

double forecast_step(const forecast *f, int n)
{
    return without_latency(f, n) + f->latency * (n - 1);
}

double forecast_images(const forecast *f, int n)
{
    return f->images / forecast_step(f, n);
}

int forecast_recommended(const forecast *f)
{
    int best = 1;
    for (int n = 2; n <= LS_MAX_DEVICES && n <= f->shards; n++)
        if (forecast_images(f, n) >= worth_its_while * n * forecast_images(f, 1))
            best = n;
    return best;
}
