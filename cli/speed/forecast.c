#include "speed/forecast.h"

static const double worth_its_while = 0.75;

void forecast_begin(forecast *f, int shards, int images, double seconds)
{
    f->shards = shards;
    f->images = images;
    f->rest = seconds - f->shard[1] * shards - f->sums[1];
    if (f->rest < 0)
        f->rest = 0;
}

void forecast_separate(forecast *f, int n, double shard, double sums)
{
    f->shard[n] = shard;
    f->sums[n] = sums;
    f->known = n;
}

static double without_latency(const forecast *f, int n)
{
    int rounds = (f->shards - 1) / n + 1, as = n < f->known ? n : f->known;
    while (as > 1 && f->shard[as] <= 0)
        as--;
    return rounds * f->shard[as] + f->sums[as] / n + f->rest;
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
