#include "system/cores.h"
#include "system/clock.h"

#include <ctype.h>
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double looking = 0.2; /* seconds */
static const double free_share = 0.8;

int cores_list(const ls_devices *devices, core_look cores[LS_MAX_DEVICES])
{
    int n = 0;
    for (int i = 0; i < devices->n; i++) {
        int number = ls_device_core(devices->at[i]), k = 0;
        while (k < n && cores[k].number != number)
            k++;
        if (k == n && number >= 0)
            cores[n++].number = number;
    }
    return n;
}

/* ---- Who runs where ---- */

/* A thread of another process: its processor time in clock ticks, and the core it was last on. */
typedef struct seen {
    int process, thread, core;
    unsigned long long ticks;
    char name[32];
} seen;

typedef struct sight {
    seen *all;
    int n, room;
} sight;

static void see_thread(sight *s, int process, int thread)
{
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", process, thread);
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    bool read = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    /* The name stands in brackets and may hold any; then field 3 is the state, 14 and 15 are the times, 39 is the
     * core. */
    char *name = read ? strchr(line, '(') : NULL, *end = name ? strrchr(line, ')') : NULL;
    if (!end)
        return;
    unsigned long long user, system;
    int core;
    if (sscanf(end + 1,
               " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
               "%*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %d",
               &user, &system, &core) != 3)
        return;
    if (s->n == s->room) {
        int room = s->room ? 2 * s->room : 256;
        seen *larger = realloc(s->all, (size_t)room * sizeof *larger);
        if (!larger)
            return;
        s->all = larger;
        s->room = room;
    }
    seen *one = &s->all[s->n++];
    *one = (seen){.process = process, .thread = thread, .core = core, .ticks = user + system};
    snprintf(one->name, sizeof one->name, "%.*s", (int)(end - name - 1), name + 1);
}

static sight see_others(void)
{
    sight s = {.all = NULL};
    DIR *processes = opendir("/proc");
    for (struct dirent *p; processes && (p = readdir(processes)) != NULL;) {
        char path[300];
        int process = isdigit((unsigned char)*p->d_name) ? atoi(p->d_name) : 0;
        snprintf(path, sizeof path, "/proc/%s/task", p->d_name);
        DIR *threads = process && process != (int)getpid() ? opendir(path) : NULL;
        for (struct dirent *t; threads && (t = readdir(threads)) != NULL;)
            if (isdigit((unsigned char)*t->d_name))
                see_thread(&s, process, atoi(t->d_name));
        if (threads)
            closedir(threads);
    }
    if (processes)
        closedir(processes);
    return s;
}

/* Whoever took most of a core's time between the two. */
static void name_other(core_look *core, const sight *before, const sight *after)
{
    unsigned long long most = 1;
    for (int i = 0; i < after->n; i++) {
        const seen *is = &after->all[i];
        for (int k = 0; k < before->n && is->core == core->number; k++) {
            const seen *was = &before->all[k];
            if (was->thread != is->thread || is->ticks - was->ticks <= most)
                continue;
            most = is->ticks - was->ticks;
            snprintf(core->other, sizeof core->other, "%s, process %d", is->name, is->process);
        }
    }
}

/* ---- What a thread gets ---- */

typedef struct spinning {
    pthread_t thread;
    core_look *core;
} spinning;

static void *spin(void *argument)
{
    core_look *core = ((spinning *)argument)->core;
    const size_t bytes = CPU_ALLOC_SIZE(core->number + 1); /* the C library's own sets end at core 1023 */
    cpu_set_t *one = CPU_ALLOC(core->number + 1);
    if (one) {
        CPU_ZERO_S(bytes, one);
        CPU_SET_S(core->number, bytes, one);
    }
    core->pinned = one && pthread_setaffinity_np(pthread_self(), bytes, one) == 0;
    CPU_FREE(one);
    double begin = steady_seconds(), worked = thread_seconds(), now = begin;
    while (now - begin < looking)
        now = steady_seconds();
    core->share = (thread_seconds() - worked) / (now - begin);
    return NULL;
}

bool cores_look(core_look *cores, int n)
{
    spinning *each = calloc((size_t)n, sizeof *each);
    int started = 0;
    if (!each)
        return false;
    sight before = see_others();
    for (; started < n; started++) {
        each[started].core = &cores[started];
        if (pthread_create(&each[started].thread, NULL, spin, &each[started]) != 0)
            break;
    }
    for (int i = 0; i < started; i++)
        pthread_join(each[i].thread, NULL);
    sight after = see_others();
    for (int i = 0; i < started; i++)
        name_other(&cores[i], &before, &after);
    free(before.all);
    free(after.all);
    free(each);
    return started == n;
}

bool core_is_busy(const core_look *core)
{
    return core->share < free_share;
}
