#include "parallel/offer.h"

#include <sched.h>

#include "base/spin.h"
#include "base/timer.h"
#include "parallel/engine.h"
#include "parallel/profile.h"

enum { PARTS_BITS = 16, MOST_PARTS = (1 << PARTS_BITS) - 1, PATIENCE = 10000 };

/* Seconds. An owner's account may have debts of some turns that another program has of a core, and no more savings than would soon
 * be lost by it. */
static const double MOST_CREDIT = 0.01, MOST_DEBT = 0.002, FIRST_PAUSE = 0.02, LAST_PAUSE = 2, SHORT = 5e-5, LONG = 0.05;

static bool is_open(uint_fast64_t state)
{
    return (state >> PARTS_BITS & MOST_PARTS) < (state & MOST_PARTS);
}

/* The next part of an operation, -1 where all are taken. The serial number keeps a slow reader from taking a part of the next
 * operation for one of this. */
static int claim(ls_offer *offer)
{
    uint_fast64_t state = atomic_load_explicit(&offer->state, memory_order_acquire);
    while (is_open(state))
        if (atomic_compare_exchange_weak_explicit(&offer->state, &state, state + (1u << PARTS_BITS),
                                                  memory_order_acquire, memory_order_acquire))
            return (int)(state >> PARTS_BITS & MOST_PARTS);
    return -1;
}

/* The workers without a shard, dealt out among those that have one, rounded up. */
static int ready(ls_helpers *helpers)
{
    ls_offer *offer = (ls_offer *)helpers;
    ls_engine *engine = offer->engine;
    int idle = atomic_load_explicit(&engine->idle, memory_order_relaxed);
    int owners = atomic_load_explicit(&engine->owners, memory_order_relaxed);
    if (idle <= 0 || owners <= 0 || ls_seconds() < atomic_load_explicit(&offer->resume, memory_order_relaxed))
        return 0;
    return (idle + owners - 1) / owners;
}

/* Enters one operation into its owner's account. */
static void settle(ls_offer *offer, double saved, double waited)
{
    offer->credit += saved - waited;
    if (offer->credit > MOST_CREDIT) {
        offer->credit = MOST_CREDIT;
        offer->pause = FIRST_PAUSE;
    } else if (offer->credit < -MOST_DEBT) {
        offer->credit = 0;
        atomic_store_explicit(&offer->resume, ls_seconds() + offer->pause, memory_order_relaxed);
        offer->pause = 2 * offer->pause < LAST_PAUSE ? 2 * offer->pause : LAST_PAUSE;
    }
}

static void share(ls_helpers *helpers, const ls_plan *plan, int step, const ls_op_call *call, const ls_gauge *gauge)
{
    ls_offer *offer = (ls_offer *)helpers;
    int parts = call->parts < MOST_PARTS ? call->parts : MOST_PARTS;
    ls_op_call whole = *call;
    whole.parts = parts;
    offer->plan = plan;
    offer->call = &whole;
    offer->step = step;
    atomic_store_explicit(&offer->done, 0, memory_order_relaxed);
    uint_fast64_t serial = atomic_load_explicit(&offer->state, memory_order_relaxed) >> 2 * PARTS_BITS;
    atomic_store_explicit(&offer->state, (serial + 1) << 2 * PARTS_BITS | (uint_fast64_t)parts, memory_order_release);
    ls_op_call mine = whole;
    double begin = ls_seconds();
    int own = 0;
    for (int part; (part = claim(offer)) >= 0; own++) {
        mine.part = part;
        ls_plan_call(plan, step, &mine, gauge);
        atomic_fetch_add_explicit(&offer->done, 1, memory_order_release);
    }
    double alone = ls_seconds();
    for (int i = 0; atomic_load_explicit(&offer->done, memory_order_acquire) < parts; i++)
        if (i % PATIENCE == PATIENCE - 1)
            sched_yield(); /* a helper's core has something else to do */
        else
            ls_pause();
    settle(offer, own ? (alone - begin) * (parts - own) / own : 0, ls_seconds() - alone);
}

ls_helpers *ls_offer_begin(ls_worker *worker, struct ls_profile *profile)
{
    ls_engine *engine = worker->engine;
    if (engine->crowded)
        return NULL;
    worker->offer.helpers = (ls_helpers){ready, share};
    worker->offer.engine = engine;
    worker->offer.profile = profile;
    if (worker->offer.pause == 0)
        worker->offer.pause = FIRST_PAUSE;
    atomic_fetch_add(&engine->owners, 1);
    return &worker->offer.helpers;
}

void ls_offer_end(ls_worker *worker)
{
    if (!worker->engine->crowded)
        atomic_fetch_sub(&worker->engine->owners, 1);
}

void ls_offer_enter(ls_worker *worker)
{
    atomic_fetch_add(&worker->engine->idle, 1);
}

void ls_offer_leave(ls_worker *worker)
{
    atomic_fetch_sub(&worker->engine->idle, 1);
}

bool ls_offer_open(const ls_engine *engine)
{
    for (int i = 0; i < engine->n_workers; i++)
        if (is_open(atomic_load_explicit(&engine->workers[i].offer.state, memory_order_relaxed)))
            return true;
    return false;
}

/* Whether any other does not go on alone, as cards do. */
static bool would_offer(const ls_worker *worker)
{
    if (!worker->core->unit->backend->parts)
        return false;
    double now = ls_seconds();
    const ls_engine *engine = worker->engine;
    for (int i = 0; i < engine->n_workers; i++) {
        const ls_worker *other = &engine->workers[i];
        if (other != worker && now >= atomic_load_explicit(&other->offer.resume, memory_order_relaxed))
            return true;
    }
    return false;
}

typedef struct look {
    const ls_engine *engine;
    bool (*found)(void *user);
    void *user;
} look;

static bool is_found(void *user)
{
    const look *l = user;
    return ls_offer_open(l->engine) || l->found(l->user);
}

bool ls_offer_await(const ls_worker *worker, bool (*found)(void *user), void *user)
{
    look l = {worker->engine, found, user};
    return !worker->engine->crowded && ls_spin(would_offer(worker) ? LONG : SHORT, is_found, &l);
}

bool ls_offer_take(ls_worker *worker)
{
    ls_engine *engine = worker->engine;
    for (int i = 1; i < engine->n_workers; i++) {
        /* Beginning with the neighbour, so that helpers spread over the owners. */
        ls_offer *offer = &engine->workers[(worker - engine->workers + i) % engine->n_workers].offer;
        int part = claim(offer);
        if (part < 0)
            continue;
        ls_gauge gauge = {.tally = NULL};
        if (offer->profile)
            ls_profile_bind(offer->profile, offer->plan, worker, &gauge);
        ls_op_call call = *offer->call;
        call.part = part;
        call.scratch = worker->core->scratch;
        ls_plan_call(offer->plan, offer->step, &call, &gauge);
        atomic_fetch_add_explicit(&offer->done, 1, memory_order_release);
        return true;
    }
    return false;
}
