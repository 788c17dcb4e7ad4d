#include "text/taken.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

static int patience = 10000; /* milliseconds */

void taken_within(double seconds)
{
    if (seconds > 0 && seconds * 500 < patience)
        patience = (int)(seconds * 500);
}

bool is_taken(int fd)
{
    static int given_up = -1;
    struct pollfd one = {.fd = fd, .events = POLLOUT};
    int ready;
    if (isatty(fd)) /* which its user may hold */
        return true;
    while ((ready = poll(&one, 1, fd == given_up ? 0 : patience)) < 0 && errno == EINTR)
        continue;
    if (ready == 0)
        given_up = fd;
    else if (fd == given_up)
        given_up = -1;
    return ready != 0; /* a failure is the write's to tell */
}
