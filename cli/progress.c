#include "progress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static const double seconds_between = 0.1;

double steady_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void progress_begin(progress *bar, bool quiet)
{
    const char *term = getenv("TERM");
    *bar = (progress){.shown = !quiet && isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0};
}

bool progress_due(const progress *bar, double now)
{
    return bar->shown && now >= bar->next_draw;
}

static int terminal_columns(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return 80;
}

/* Appends `part` where it fits with `limit` characters in all. */
static void append_fitting(char *text, int limit, const char *part)
{
    if ((int)(strlen(text) + strlen(part)) <= limit)
        strcat(text, part);
}

static void duration(char *text, size_t size, double seconds)
{
    long long left = (long long)(seconds + 0.5);
    if (left >= 3600)
        snprintf(text, size, "%lld:%02lld:%02lld", left / 3600, left / 60 % 60, left % 60);
    else
        snprintf(text, size, "%lld:%02lld", left / 60, left % 60);
}

static void append_bar(char *text, int limit, double fraction)
{
    int room = limit - (int)strlen(text) - 3;
    int width = room > 40 ? 40 : room;
    if (width < 5)
        return;
    int full = (int)(fraction * width);
    char *end = text + strlen(text);
    *end++ = ' ';
    *end++ = '[';
    for (int i = 0; i < width; i++)
        *end++ = i < full ? '=' : i == full ? '>' : ' ';
    *end++ = ']';
    *end = '\0';
}

void progress_text(char *text, int size, int columns, const progress_state *state)
{
    /* The last column stays free: a character there makes some terminals wrap. */
    int limit = columns - 1 < size - 1 ? columns - 1 : size - 1;
    bool wide = columns >= 60;
    char part[64], left[32];
    text[0] = '\0';
    if (limit < 1)
        return;
    snprintf(part, sizeof part, "%s%lld/%lld", wide ? "epoch " : "", (long long)state->epoch, (long long)state->epochs);
    append_fitting(text, limit, part);
    snprintf(part, sizeof part, " %d%%", (int)(100 * state->fraction));
    append_fitting(text, limit, part);
    if (!isnan(state->seconds_left) && state->seconds_left < 1e8) {
        duration(left, sizeof left, state->seconds_left);
        snprintf(part, sizeof part, "%s%s", wide ? "  ETA " : " ", left);
        append_fitting(text, limit, part);
    }
    if (!isnan(state->loss)) {
        snprintf(part, sizeof part, "%s%.4g", wide ? "  loss " : " ", state->loss);
        append_fitting(text, limit, part);
    }
    snprintf(part, sizeof part, wide ? "  %.0f images/s" : " %.0f/s", state->images_per_second);
    append_fitting(text, limit, part);
    append_bar(text, limit, state->fraction);
}

void progress_draw(progress *bar, double now, const progress_state *state)
{
    char text[256];
    progress_text(text, sizeof text, terminal_columns(), state);
    fprintf(stderr, "\r%s\033[K", text);
    fflush(stderr);
    bar->drawn = true;
    bar->next_draw = now + seconds_between;
}

void progress_clear(progress *bar)
{
    if (!bar->drawn)
        return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    bar->drawn = false;
}
