#include "live/terminal.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The first of LC_ALL, LC_CTYPE and LANG that is set decides, as setlocale would have it; but a locale that names UTF-8
 * and is not installed here still tells what the terminal shows. */
static bool says_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return false;
}

static terminal_colours colours_of(const char *term)
{
    const char *refused = getenv("NO_COLOR"), *more = getenv("COLORTERM");
    if (refused && *refused)
        return COLOURS_NONE;
    if (strstr(term, "256") || strstr(term, "direct") || (more && *more))
        return COLOURS_MANY;
    return strncmp(term, "vt", 2) == 0 ? COLOURS_NONE : COLOURS_FEW;
}

bool terminal_look(terminal *it)
{
    const char *term = getenv("TERM");
    if (!isatty(STDERR_FILENO) || !term || !*term || strcmp(term, "dumb") == 0)
        return false;
    /* Linux's own console takes UTF-8 and has no Braille in its font. */
    *it = (terminal){.utf8 = says_utf8() && strcmp(term, "linux") != 0, .colours = colours_of(term)};
    return true;
}

void terminal_size(int *columns, int *rows)
{
    struct winsize size;
    *columns = 80;
    *rows = 24;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0) {
        if (size.ws_col > 0)
            *columns = size.ws_col;
        if (size.ws_row > 0)
            *rows = size.ws_row;
    }
}

bool terminal_is_ours(void)
{
    pid_t front = tcgetpgrp(STDERR_FILENO);
    return front < 0 || front == getpgrp(); /* a terminal that is not the controlling one has no foreground */
}

bool terminal_write(const char *text, int length)
{
    while (length > 0) {
        ssize_t wrote = write(STDERR_FILENO, text, (size_t)length);
        if (wrote < 0 && errno == EAGAIN)
            poll(&(struct pollfd){.fd = STDERR_FILENO, .events = POLLOUT}, 1, 100);
        else if (wrote < 0 && errno != EINTR)
            return false;
        if (wrote > 0) {
            text += wrote;
            length -= (int)wrote;
        }
    }
    return true;
}
