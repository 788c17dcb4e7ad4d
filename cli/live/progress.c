#include "live/progress.h"
#include "system/clock.h"
#include "system/stop.h"
#include "text/say.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <lockstep_cluster.h>

static const double seconds_between = 0.1, seconds_idle = 1, seconds_patient = 0.4;
static const char clear_below[] = "\r\033[J";

/* `screen` is held while something is written, `lock` while what is below is looked at; screen before lock. */
typedef struct live {
    terminal look;
    pthread_t thread;
    pthread_mutex_t screen, lock;
    pthread_cond_t wake;
    view_state state;
    history history;
    loads devices;
    const ls_session *tests;         /* goes over the test images; NULL: nobody does */
    uint64_t tests_from;             /* of its work */
    int64_t pieces;                  /* so many in all */
    double state_since, phase_since; /* of the steady clock */
    bool visible;                    /* false from a message to the next state */
    bool changed, ending;
    bool at_once; /* the view gave way to a message: bring it back without waiting */
    bool gone;    /* the terminal takes nothing any more */
    view_boards boards;
    char frame[VIEW_BYTES];
} live;

/* The test, as far as it has come. Its own pace tells best what is left of it, once some of it is done. */
static void add_test(const live *l, view_state *state, double spent)
{
    static const double some = 0.05;
    double part = fmin(1, (double)(ls_work_done(l->tests) - l->tests_from) / (double)l->pieces);
    double left = part > some ? spent * (1 - part) / part : fmax(0, state->test_seconds - spent);
    state->tested += part;
    state->seconds_left += left - state->test_seconds;
}

/* The frame of this moment, with `screen` and `lock` held. Returns its lines. */
static int make_frame(live *l, int *length, double now, int columns, int rows)
{
    view_state state = l->state;
    if (l->tests)
        add_test(l, &state, now - l->state_since);
    else if (!isnan(state.seconds_left))
        state.seconds_left = fmax(0, state.seconds_left - (now - l->state_since));
    if (now - l->phase_since < seconds_patient)
        state.phase = NULL;
    if (stop_signal())
        state.phase = "stopping; Ctrl-C again ends at once";
    l->changed = false;
    return view_frame(l->frame, length, &l->boards, &state, &l->history, &l->devices, &l->look, columns, rows);
}

/* Draws, and puts the cursor back to the view's first line: whatever the terminal does to lines when its size changes,
 * the next frame begins there. A synchronized update (mode 2026) where the terminal knows it. */
static void draw(live *l, double now)
{
    int columns, rows, length;
    char after[48];
    if (l->gone || !terminal_is_ours())
        return;
    terminal_size(&columns, &rows);
    pthread_mutex_lock(&l->lock);
    int lines = l->visible ? make_frame(l, &length, now, columns, rows) : 0;
    bool over = l->state.over;
    pthread_mutex_unlock(&l->lock);
    if (!lines)
        return;
    int n = over || lines < 2 ? snprintf(after, sizeof after, "%s\033[?2026l", over ? "" : "\r")
                              : snprintf(after, sizeof after, "\r\033[%dA\033[?2026l", lines - 1);
    l->gone = !terminal_write("\033[?2026h\r", 9) || !terminal_write(l->frame, length) || !terminal_write(after, n);
}

static void *run(void *user)
{
    live *l = user;
    int columns = 0, rows = 0, seen_columns, seen_rows, stopping = 0;
    double drawn = 0;
    pthread_mutex_lock(&l->lock);
    while (!l->ending) {
        double now = steady_seconds(), until = now + seconds_between;
        struct timespec at = {.tv_sec = (time_t)until, .tv_nsec = (long)((until - floor(until)) * 1e9)};
        bool due = l->changed || stop_signal() != stopping || now >= drawn + seconds_idle;
        pthread_mutex_unlock(&l->lock);
        terminal_size(&seen_columns, &seen_rows);
        if (due || seen_columns != columns || seen_rows != rows) {
            pthread_mutex_lock(&l->screen);
            draw(l, now);
            pthread_mutex_unlock(&l->screen);
            columns = seen_columns;
            rows = seen_rows;
            drawn = now;
            stopping = stop_signal();
        }
        pthread_mutex_lock(&l->lock);
        while (!l->ending && !l->at_once && pthread_cond_timedwait(&l->wake, &l->lock, &at) == 0)
            ;
        l->at_once = false;
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static void hide(live *l)
{
    pthread_mutex_lock(&l->screen);
    pthread_mutex_lock(&l->lock);
    bool was = l->visible;
    l->visible = false;
    pthread_mutex_unlock(&l->lock);
    if (was && !l->gone && terminal_is_ours())
        l->gone = !terminal_write(clear_below, sizeof clear_below - 1);
    pthread_mutex_unlock(&l->screen);
}

/* Ends the thread and leaves the curves on the screen. */
static void finish(live *l)
{
    pthread_mutex_lock(&l->lock);
    bool ended = l->ending;
    l->ending = true;
    pthread_cond_signal(&l->wake);
    pthread_mutex_unlock(&l->lock);
    if (ended)
        return;
    pthread_join(l->thread, NULL);
    hide(l);
    l->state.over = l->visible = true;
    draw(l, steady_seconds());
    stop_with(NULL);
}

/* A message is about to be written where the view is. */
static void give_way(bool last, void *user)
{
    if (last)
        finish(user);
    else
        hide(user);
}

static bool start_thread(live *l)
{
    pthread_condattr_t steady;
    sigset_t all, before;
    pthread_mutex_init(&l->screen, NULL);
    pthread_mutex_init(&l->lock, NULL);
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&l->wake, &steady);
    pthread_condattr_destroy(&steady);
    /* Signals are the main thread's. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool good = pthread_create(&l->thread, NULL, run, l) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return good;
}

void progress_begin(progress *bar, bool quiet)
{
    terminal look;
    bar->live = NULL;
    if (quiet || !terminal_look(&look))
        return;
    live *l = calloc(1, sizeof *l);
    if (!l)
        return; /* a run without a view is better than none */
    l->look = look;
    if (!start_thread(l)) {
        free(l);
        return;
    }
    bar->live = l;
    say_after(give_way, l);
    stop_with(clear_below);
}

static void show(live *l, const view_state *state, const ls_session *tests, int64_t pieces)
{
    double now = steady_seconds();
    pthread_mutex_lock(&l->lock);
    l->tests = tests;
    l->tests_from = ls_work_done(tests);
    l->pieces = pieces;
    if (state->phase != l->state.phase)
        l->phase_since = now;
    l->state = *state;
    l->state_since = now;
    l->changed = true;
    if (!l->visible) {
        l->visible = l->at_once = true;
        pthread_cond_signal(&l->wake);
    }
    pthread_mutex_unlock(&l->lock);
}

void progress_show(progress *bar, const view_state *state)
{
    if (bar->live)
        show(bar->live, state, NULL, 0);
}

void progress_test(progress *bar, const view_state *state, const ls_session *session, int64_t pieces)
{
    if (bar->live)
        show(bar->live, state, session, pieces);
}

void progress_loads(progress *bar, const loads *devices)
{
    live *l = bar->live;
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->devices = *devices;
    pthread_mutex_unlock(&l->lock);
}

void progress_step(progress *bar, int64_t step, double loss, int64_t correct, int64_t rows)
{
    live *l = bar->live;
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    history_step(&l->history, step, loss, correct, rows);
    pthread_mutex_unlock(&l->lock);
}

void progress_tested(progress *bar, int64_t step, double acc)
{
    live *l = bar->live;
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    history_test(&l->history, step, acc);
    pthread_mutex_unlock(&l->lock);
}

void progress_end(progress *bar)
{
    live *l = bar->live;
    if (!l)
        return;
    say_after(NULL, NULL);
    finish(l);
    pthread_cond_destroy(&l->wake);
    pthread_mutex_destroy(&l->lock);
    pthread_mutex_destroy(&l->screen);
    free(l);
    bar->live = NULL;
}

int progress_columns(const progress *bar)
{
    int columns, rows;
    if (!bar->live)
        return INT_MAX;
    terminal_size(&columns, &rows);
    return columns;
}
