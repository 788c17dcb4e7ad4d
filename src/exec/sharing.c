#include "exec/sharing.h"

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
static int claim(ls_sharing *sharing, size_t scratch_bytes)
{
    uint_fast64_t state = atomic_load_explicit(&sharing->state, memory_order_acquire);
    while (is_open(state) && atomic_load_explicit(&sharing->scratch_bytes, memory_order_relaxed) <= scratch_bytes)
        if (atomic_compare_exchange_weak_explicit(&sharing->state, &state, state + (1u << PARTS_BITS),
                                                  memory_order_acquire, memory_order_acquire))
            return (int)(state >> PARTS_BITS & MOST_PARTS);
    return -1;
}

/* The members without work, dealt out among those that have some, rounded up. */
static int ready(ls_helpers *helpers)
{
    ls_sharing *sharing = (ls_sharing *)helpers;
    int idle = atomic_load_explicit(&sharing->team->idle, memory_order_relaxed);
    int owners = atomic_load_explicit(&sharing->team->owners, memory_order_relaxed);
    if (idle <= 0 || owners <= 0 || ls_seconds() < atomic_load_explicit(&sharing->resume, memory_order_relaxed))
        return 0;
    return (idle + owners - 1) / owners;
}

/* Enters one operation into its owner's account. */
static void enter_account(ls_sharing *sharing, double saved, double waited)
{
    sharing->credit += saved - waited;
    if (sharing->credit > MOST_CREDIT) {
        sharing->credit = MOST_CREDIT;
        sharing->pause = FIRST_PAUSE;
    } else if (sharing->credit < -MOST_DEBT) {
        sharing->credit = 0;
        atomic_store_explicit(&sharing->resume, ls_seconds() + sharing->pause, memory_order_relaxed);
        sharing->pause = 2 * sharing->pause < LAST_PAUSE ? 2 * sharing->pause : LAST_PAUSE;
    }
}

static void share(ls_helpers *helpers, const ls_plan *plan, int step, const ls_op_call *call, const ls_probe *probe)
{
    ls_sharing *sharing = (ls_sharing *)helpers;
    int parts = call->parts < MOST_PARTS ? call->parts : MOST_PARTS;
    ls_op_call whole = *call;
    whole.parts = parts;
    sharing->plan = plan;
    sharing->call = &whole;
    sharing->step = step;
    atomic_store_explicit(&sharing->done, 0, memory_order_relaxed);
    atomic_store_explicit(&sharing->scratch_bytes, plan->scratch_bytes, memory_order_relaxed);
    uint_fast64_t serial = atomic_load_explicit(&sharing->state, memory_order_relaxed) >> 2 * PARTS_BITS;
    atomic_store_explicit(&sharing->state, (serial + 1) << 2 * PARTS_BITS | (uint_fast64_t)parts, memory_order_release);
    ls_op_call mine = whole;
    double begin = ls_seconds();
    int own = 0;
    for (int part; (part = claim(sharing, SIZE_MAX)) >= 0; own++) {
        mine.part = part;
        ls_plan_call(plan, step, &mine, probe);
        atomic_fetch_add_explicit(&sharing->done, 1, memory_order_release);
    }
    double alone = ls_seconds();
    for (int i = 0; atomic_load_explicit(&sharing->done, memory_order_acquire) < parts; i++)
        if (i % PATIENCE == PATIENCE - 1)
            sched_yield(); /* a helper's core has something else to do */
        else
            ls_pause();
    enter_account(sharing, own ? (alone - begin) * (parts - own) / own : 0, ls_seconds() - alone);
}

void ls_sharing_join(ls_sharing *sharing, ls_team *team, ls_turn *turn)
{
    sharing->helpers = (ls_helpers){ready, share};
    sharing->team = team;
    sharing->turn = turn;
    sharing->pause = FIRST_PAUSE;
    ls_sharing *last = NULL;
    for (ls_sharing *other = team->first; other && !(last && other == team->first); other = atomic_load(&other->next))
        last = other;
    atomic_store(&sharing->next, last ? team->first : sharing);
    if (last)
        atomic_store(&last->next, sharing);
    else
        team->first = sharing;
}

/* Cards compute alone, and help nobody. */
static bool has_parts(const ls_sharing *sharing)
{
    return sharing->turn->executor->backend->parts != NULL;
}

ls_helpers *ls_sharing_begin(ls_sharing *sharing, const ls_measuring *measuring)
{
    sharing->measuring = measuring ? *measuring : (ls_measuring){.note = NULL};
    if (!has_parts(sharing))
        return NULL;
    atomic_fetch_add(&sharing->team->owners, 1);
    return atomic_load(&sharing->team->crowded) ? NULL : &sharing->helpers;
}

void ls_sharing_end(ls_sharing *sharing)
{
    if (has_parts(sharing))
        atomic_fetch_sub(&sharing->team->owners, 1);
}

void ls_sharing_enter(ls_sharing *sharing)
{
    sharing->idle = !atomic_load(&sharing->team->crowded) && !atomic_exchange(&sharing->turn->helped, true);
    if (sharing->idle && has_parts(sharing))
        atomic_fetch_add(&sharing->team->idle, 1);
}

void ls_sharing_leave(ls_sharing *sharing)
{
    if (!sharing->idle)
        return;
    sharing->idle = false;
    if (has_parts(sharing))
        atomic_fetch_sub(&sharing->team->idle, 1);
    atomic_store(&sharing->turn->helped, false);
}

bool ls_sharing_open(const ls_sharing *sharing)
{
    for (const ls_sharing *other = atomic_load(&sharing->next); has_parts(sharing) && other != sharing;
         other = atomic_load(&other->next))
        if (is_open(atomic_load_explicit(&other->state, memory_order_relaxed)) &&
            atomic_load_explicit(&other->scratch_bytes, memory_order_relaxed) <=
                atomic_load(&sharing->turn->scratch_bytes))
            return true;
    return false;
}

/* Whether any other is at work and does not go on alone. */
static bool would_share(const ls_sharing *sharing)
{
    if (!has_parts(sharing) || atomic_load(&sharing->team->owners) <= 0)
        return false;
    double now = ls_seconds();
    for (const ls_sharing *other = atomic_load(&sharing->next); other != sharing; other = atomic_load(&other->next))
        if (now >= atomic_load_explicit(&other->resume, memory_order_relaxed))
            return true;
    return false;
}

typedef struct look {
    const ls_sharing *sharing;
    bool (*found)(void *user);
    void *user;
} look;

static bool is_found(void *user)
{
    const look *l = user;
    return ls_turn_taken(l->sharing->turn) || ls_sharing_open(l->sharing) || l->found(l->user);
}

bool ls_sharing_await(const ls_sharing *sharing, double seconds, bool (*found)(void *user), void *user)
{
    look l = {sharing, found, user};
    return sharing->idle && ls_spin(would_share(sharing) ? LONG : seconds, is_found, &l) &&
           !ls_turn_taken(sharing->turn);
}

bool ls_sharing_take(ls_sharing *sharing)
{
    /* Beginning with the neighbour, so that helpers spread over the owners. */
    for (ls_sharing *other = atomic_load(&sharing->next); has_parts(sharing) && other != sharing;
         other = atomic_load(&other->next)) {
        int part = claim(other, atomic_load(&sharing->turn->scratch_bytes));
        if (part < 0)
            continue;
        ls_probe probe = {.tally = NULL};
        if (other->measuring.note)
            other->measuring.note(other->measuring.by, other->plan, sharing->own, &probe);
        ls_op_call call = *other->call;
        call.part = part;
        call.scratch = sharing->turn->rooms[0].scratch;
        ls_plan_call(other->plan, other->step, &call, &probe);
        atomic_fetch_add_explicit(&other->done, 1, memory_order_release);
        return true;
    }
    return false;
}
