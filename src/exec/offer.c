#include "exec/offer.h"

#include <sched.h>

#include "base/spin.h"
#include "base/timer.h"

enum { PARTS_BITS = 16, MOST_PARTS = (1 << PARTS_BITS) - 1, PATIENCE = 10000 };

/* Seconds. An owner's account may have debts of some turns that another program has of a core, and no more savings than
 * would soon be lost by it. */
static const double MOST_CREDIT = 0.01, MOST_DEBT = 0.002, FIRST_PAUSE = 0.02, LAST_PAUSE = 2, LONG = 0.05;

static bool is_open(uint_fast64_t state)
{
    return (state >> PARTS_BITS & MOST_PARTS) < (state & MOST_PARTS);
}

/* The next part of an operation, -1 where all are taken or need more scratch. The serial number keeps a slow reader
 * from taking a part of the next operation for one of this. */
static int claim(ls_offer *offer, size_t scratch_bytes)
{
    uint_fast64_t state = atomic_load_explicit(&offer->state, memory_order_acquire);
    while (is_open(state) && atomic_load_explicit(&offer->scratch_bytes, memory_order_relaxed) <= scratch_bytes)
        if (atomic_compare_exchange_weak_explicit(&offer->state, &state, state + (1u << PARTS_BITS),
                                                  memory_order_acquire, memory_order_acquire))
            return (int)(state >> PARTS_BITS & MOST_PARTS);
    return -1;
}

/* The members without work, dealt out among those that have some, rounded up. */
static int ready(ls_helpers *helpers)
{
    ls_offer *offer = (ls_offer *)helpers;
    int idle = atomic_load_explicit(&offer->crew->idle, memory_order_relaxed);
    int owners = atomic_load_explicit(&offer->crew->owners, memory_order_relaxed);
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
    atomic_store_explicit(&offer->scratch_bytes, plan->scratch_bytes, memory_order_relaxed);
    uint_fast64_t serial = atomic_load_explicit(&offer->state, memory_order_relaxed) >> 2 * PARTS_BITS;
    atomic_store_explicit(&offer->state, (serial + 1) << 2 * PARTS_BITS | (uint_fast64_t)parts, memory_order_release);
    ls_op_call mine = whole;
    double begin = ls_seconds();
    int own = 0;
    for (int part; (part = claim(offer, SIZE_MAX)) >= 0; own++) {
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

void ls_offer_join(ls_offer *offer, ls_crew *crew, ls_core *core)
{
    offer->helpers = (ls_helpers){ready, share};
    offer->crew = crew;
    offer->core = core;
    offer->pause = FIRST_PAUSE;
    ls_offer *last = NULL;
    for (ls_offer *other = crew->first; other && !(last && other == crew->first); other = atomic_load(&other->next))
        last = other;
    atomic_store(&offer->next, last ? crew->first : offer);
    if (last)
        atomic_store(&last->next, offer);
    else
        crew->first = offer;
}

/* Cards compute alone, and help nobody. */
static bool has_parts(const ls_offer *offer)
{
    return offer->core->unit->backend->parts != NULL;
}

ls_helpers *ls_offer_begin(ls_offer *offer, const ls_measuring *measuring)
{
    offer->measuring = measuring ? *measuring : (ls_measuring){NULL};
    if (!has_parts(offer))
        return NULL;
    atomic_fetch_add(&offer->crew->owners, 1);
    return atomic_load(&offer->crew->crowded) ? NULL : &offer->helpers;
}

void ls_offer_end(ls_offer *offer)
{
    if (has_parts(offer))
        atomic_fetch_sub(&offer->crew->owners, 1);
}

void ls_offer_enter(ls_offer *offer)
{
    offer->idle = !atomic_load(&offer->crew->crowded) && !atomic_exchange(&offer->core->helped, true);
    if (offer->idle && has_parts(offer))
        atomic_fetch_add(&offer->crew->idle, 1);
}

void ls_offer_leave(ls_offer *offer)
{
    if (!offer->idle)
        return;
    offer->idle = false;
    if (has_parts(offer))
        atomic_fetch_sub(&offer->crew->idle, 1);
    atomic_store(&offer->core->helped, false);
}

bool ls_offer_open(const ls_offer *offer)
{
    for (const ls_offer *other = atomic_load(&offer->next); has_parts(offer) && other != offer;
         other = atomic_load(&other->next))
        if (is_open(atomic_load_explicit(&other->state, memory_order_relaxed)) &&
            atomic_load_explicit(&other->scratch_bytes, memory_order_relaxed) <=
                atomic_load(&offer->core->scratch_bytes))
            return true;
    return false;
}

/* Whether any other is at work and does not go on alone. */
static bool would_offer(const ls_offer *offer)
{
    if (!has_parts(offer) || atomic_load(&offer->crew->owners) <= 0)
        return false;
    double now = ls_seconds();
    for (const ls_offer *other = atomic_load(&offer->next); other != offer; other = atomic_load(&other->next))
        if (now >= atomic_load_explicit(&other->resume, memory_order_relaxed))
            return true;
    return false;
}

typedef struct look {
    const ls_offer *offer;
    bool (*found)(void *user);
    void *user;
} look;

static bool is_found(void *user)
{
    const look *l = user;
    return ls_core_taken(l->offer->core) || ls_offer_open(l->offer) || l->found(l->user);
}

bool ls_offer_await(const ls_offer *offer, double seconds, bool (*found)(void *user), void *user)
{
    look l = {offer, found, user};
    return offer->idle && ls_spin(would_offer(offer) ? LONG : seconds, is_found, &l) && !ls_core_taken(offer->core);
}

bool ls_offer_take(ls_offer *offer)
{
    /* Beginning with the neighbour, so that helpers spread over the owners. */
    for (ls_offer *other = atomic_load(&offer->next); has_parts(offer) && other != offer;
         other = atomic_load(&other->next)) {
        int part = claim(other, atomic_load(&offer->core->scratch_bytes));
        if (part < 0)
            continue;
        ls_gauge gauge = {.tally = NULL};
        if (other->measuring.note)
            other->measuring.note(other->measuring.by, other->plan, offer->own, &gauge);
        ls_op_call call = *other->call;
        call.part = part;
        call.scratch = offer->core->rooms[0].scratch;
        ls_plan_call(other->plan, other->step, &call, &gauge);
        atomic_fetch_add_explicit(&other->done, 1, memory_order_release);
        return true;
    }
    return false;
}
