#include "exec/meter.h"

#include "base/timer.h"

static const double least_wait = 1e-6; /* shorter ones are counted, and no spans */

void ls_meter_start(ls_meter *meter)
{
    atomic_store(&meter->since, ls_seconds());
}

static void add(_Atomic double *to, double seconds)
{
    atomic_store(to, atomic_load(to) + seconds); /* one thread writes */
}

/* A shard's span comes at its end: what happens meanwhile lies within it. */
static bool is_whole(ls_span_kind at)
{
    return at != LS_SPAN_SHARD && at != LS_SPAN_EVALUATE;
}

void ls_meter_go(ls_meter *meter, ls_span_kind at, int number)
{
    ls_span_kind was = (ls_span_kind)atomic_load(&meter->at);
    if (was == at && meter->number == number)
        return;
    double begin = atomic_load(&meter->since), now = ls_seconds();
    atomic_fetch_add(&meter->version, 1);
    add(&meter->seconds[was], now - begin);
    atomic_store(&meter->at, at);
    atomic_store(&meter->since, now);
    atomic_fetch_add(&meter->version, 1);
    if (meter->measured) {
        double worked = ls_thread_seconds();
        meter->worked[was] += worked - meter->worked_since;
        meter->worked_since = worked;
    }
    if (meter->spans && is_whole(was) && now - begin >= least_wait)
        ls_spans_add(meter->spans, was, meter->number, begin, now);
    meter->number = number;
}

void ls_meter_enter(ls_meter *meter, int64_t step)
{
    ls_meter_go(meter, LS_SPAN_WAIT, -1);
    if (meter->spans)
        meter->spans->step = step;
}

double ls_meter_begin_shard(ls_meter *meter, ls_span_kind kind, int shard)
{
    ls_meter_go(meter, kind, shard);
    return atomic_load(&meter->since);
}

void ls_meter_end_shard(ls_meter *meter, ls_span_kind kind, int shard, int images, double begun)
{
    ls_meter_go(meter, LS_SPAN_WAIT, -1);
    if (meter->spans)
        ls_spans_add(meter->spans, kind, shard, begun, atomic_load(&meter->since));
    if (kind == LS_SPAN_SHARD) {
        atomic_fetch_add(&meter->shards, 1);
        atomic_fetch_add(&meter->images, images);
    }
}

ls_meter_reading ls_meter_read(const ls_meter *meter)
{
    ls_meter_reading r;
    unsigned version;
    do {
        version = atomic_load(&meter->version) & ~1u; /* an odd one is not met again */
        for (int i = 0; i < LS_METER_STATES; i++)
            r.seconds[i] = atomic_load(&meter->seconds[i]);
        r.shards = atomic_load(&meter->shards);
        r.images = atomic_load(&meter->images);
        r.seconds[atomic_load(&meter->at)] += ls_seconds() - atomic_load(&meter->since);
    } while (atomic_load(&meter->version) != version);
    return r;
}
