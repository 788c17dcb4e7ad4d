#include "speed/loads.h"

#include <string.h>

static const double between_looks = 0.2, window = 1.5; /* seconds */

/* A first step that is just being begun would look like waiting, as long as nobody looks again. */
static bool has_begun(const loads_watch *w, const ls_device_times *times)
{
    for (int i = 0; i < w->now.devices.n; i++)
        if (times[i].shards > w->before[0][i].shards)
            return true;
    return false;
}

static void compare(loads_watch *w, const ls_device_times *times)
{
    if (!w->now.known && !has_begun(w, times))
        return;
    for (int i = 0; i < w->now.devices.n; i++) {
        const ls_device_times *before = &w->before[0][i], *is = &times[i];
        double computing = is->computing - before->computing, reducing = is->reducing - before->reducing;
        double all = computing + reducing + is->waiting - before->waiting;
        if (all > 0) /* else it was evaluated: what was known stays */
            w->now.each[i] = (load){(float)(computing / all), (float)(reducing / all)};
    }
    w->now.known = true;
}

bool loads_look(loads_watch *w, ls_session *session, ls_trainer *trainer, ls_devices devices, double seconds)
{
    ls_device_times times[LS_MAX_DEVICES];
    bool first = w->taken[0] == 0;
    if (seconds < w->looked + between_looks)
        return false;
    w->looked = seconds;
    w->now.devices = devices;
    for (int i = 0; i < devices.n && first; i++)
        w->now.names[i] = ls_device_str(session, devices.at[i]);
    for (int i = 0; i < devices.n; i++)
        if (ls_trainer_device_times(trainer, i, &times[i]) != LS_OK)
            return false;
    if (!first)
        compare(w, times);
    if (first || seconds >= w->taken[1] + window) {
        size_t bytes = (size_t)devices.n * sizeof *times;
        memcpy(w->before[0], first ? times : w->before[1], bytes);
        memcpy(w->before[1], times, bytes);
        w->taken[0] = first ? seconds : w->taken[1];
        w->taken[1] = seconds;
    }
    return !first;
}
