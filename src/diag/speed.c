/* What cores can do at most, all of them at it at once: they share caches, memory and perhaps more. */
#include <lockstep_profile.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/cores.h"
#include "base/environment.h"
#include "base/session.h"
#include "base/thread.h"
#include "device/cpu/select.h"
#include "device/cpu/speed.h"

/* Bytes of the three vectors of all cores together, and of a core's at least. */
enum { ALL_BYTES = 192 << 20, CORE_BYTES = 24 << 20 };

typedef struct measuring {
    pthread_t thread;
    const atomic_bool *go;
    const ls_backend *backend;
    int core;
    float *memory;
    size_t n; /* numbers of one vector */
    ls_speed speed;
} measuring;

static void *measure(void *argument)
{
    measuring *m = argument;
    ls_pin_to_core(m->core);
    LS_OWN_ENVIRONMENT;
    while (!atomic_load(m->go))
        sched_yield();
    m->speed.flops = ls_cpu_peak(m->backend);
    m->speed.bytes = ls_cpu_bandwidth(m->backend, m->memory, m->n);
    return NULL;
}

static bool has_core(const measuring *each, int n, int core)
{
    for (int i = 0; i < n; i++)
        if (each[i].core == core)
            return true;
    return false;
}

/* The different cores of the devices, each with memory for its vectors; returns how many, 0 after a failure. */
static int prepare(measuring *each, const ls_devices *devices, ls_session *session)
{
    int n = 0, count = ls_core_count();
    for (int i = 0; i < devices->n; i++)
        if (!has_core(each, n, devices->at[i].index % count))
            each[n++].core = devices->at[i].index % count;
    size_t bytes = ALL_BYTES / (size_t)n < CORE_BYTES ? CORE_BYTES : ALL_BYTES / (size_t)n;
    for (int i = 0; i < n; i++) {
        each[i].backend = ls_cpu_backend(session->options.isa);
        each[i].n = bytes / (3 * sizeof(float));
        each[i].memory = ls_alloc(&session->context, bytes, 1, "measuring the memory's speed");
        if (!each[i].memory)
            return 0;
    }
    return n;
}

static ls_status measure_together(measuring *each, int n, ls_context *context)
{
    atomic_bool go = false;
    int started = 0;
    for (; started < n; started++) {
        each[started].go = &go;
        if (!ls_thread_start(&each[started].thread, measure, &each[started]))
            break;
    }
    atomic_store(&go, true);
    for (int i = 0; i < started; i++)
        pthread_join(each[i].thread, NULL);
    if (started < n)
        return ls_raise(context, LS_OUT_OF_MEMORY,
                        "ls_measure_speed: no thread for core %d; the system's limit on threads is reached",
                        each[started].core);
    return LS_OK;
}

ls_status ls_measure_speed(ls_session *session, ls_devices devices, ls_speed *speed)
{
    LS_OWN_ENVIRONMENT;
    if (!session)
        return LS_BAD_ARGUMENT;
    if (ls_wait(session) != LS_OK)
        return ls_status_of(session);
    ls_context *context = &session->context;
    if (!speed || devices.n < 1 || devices.n > LS_MAX_DEVICES)
        return ls_raise(context, LS_BAD_ARGUMENT, "ls_measure_speed: %s",
                        speed ? "the list of devices is empty" : "speed is NULL");
    for (int i = 0; i < devices.n; i++)
        if (devices.at[i].type != LS_CPU || devices.at[i].index < 0)
            return ls_raise(context, LS_BAD_ARGUMENT, "ls_measure_speed: device %d of the list is no CPU", i);
    measuring *each = ls_alloc(context, (size_t)devices.n, sizeof *each, "measuring the speed");
    int n = each ? prepare(each, &devices, session) : 0;
    ls_status status = n ? measure_together(each, n, context) : ls_status_of(session);
    *speed = (ls_speed){0};
    for (int i = 0; i < n && status == LS_OK; i++) {
        speed->flops += each[i].speed.flops / n;
        speed->bytes += each[i].speed.bytes / n;
    }
    for (int i = 0; each && i < devices.n; i++)
        ls_release(context, each[i].memory);
    ls_release(context, each);
    return status;
}
