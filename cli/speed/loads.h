/* How busy each device was over the last seconds. */
#pragma once

#include <lockstep.h>
#include <lockstep_profile.h>

/* Parts of its time in training steps; the rest it waited. */
typedef struct load {
    float computing, reducing;
} load;

typedef struct loads {
    ls_devices devices;
    const char *names[LS_MAX_DEVICES]; /* as ls_device_str */
    load each[LS_MAX_DEVICES];
    bool known; /* not before the first shard is done */
} loads;

typedef struct loads_watch {
    loads now;
    ls_device_times before[2][LS_MAX_DEVICES]; /* the older one is what is compared with */
    double taken[2], looked;
} loads_watch;

/* Looks at the trainer's devices, not too often; true where there is something new. */
bool loads_look(loads_watch *w, ls_session *session, ls_trainer *trainer, ls_devices devices, double seconds);
