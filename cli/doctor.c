/* doctor: looks at a machine before a long run. A line on stdout for each thing that is sound, a line on stderr for
 * each that is not, with how to mend it. */
#include "commands.h"
#include "options/choice.h"
#include "options/options.h"
#include "run/ranks.h"
#include "run/run.h"
#include "run/watch.h"
#include "system/cores.h"
#include "system/memory.h"
#include "system/whole.h"
#include "text/say.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <lockstep_profile.h>

enum { MOST_IMAGES = 60000 };
static const ls_data_info fashion_mnist = {.rows = 70000, .channels = 1, .height = 28, .width = 28, .classes = 10};
enum { COPIED = 1 << 20 /* numbers */, ALL_PAIRS = 8, KEPT = 4 /* checkpoints, one of them being written */ };

typedef struct doctor {
    run run;
    const char *checking;
    ls_trainer *trainer;
    ls_data *like;           /* random images of the batch's size */
    ls_data_info data;       /* the data set's, the rows of both parts; no rows: it cannot be read */
    char data_message[1024]; /* why it cannot be read, else what it is */
    char doubts[2048];       /* what looks like a mistake in it, a line each */
    bool data_known;
    int findings;
} doctor;

/* ---- What is said ---- */

static void say(const doctor *d, const char *mark, const char *format, va_list arguments)
{
    char text[1024];
    vsnprintf(text, sizeof text, format, arguments);
    if (!d->run.chosen->quiet)
        printf("%s  %-11s %s\n", mark, d->checking, text);
}

static void sound(const doctor *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void sound(const doctor *d, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(d, "ok", format, arguments);
    va_end(arguments);
}

/* What there is nothing to say good or bad about. */
static void without(const doctor *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void without(const doctor *d, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(d, "--", format, arguments);
    va_end(arguments);
}

static void found(doctor *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void found(doctor *d, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fflush(stdout); /* in order with what was sound */
    failed(d->checking, "%s", text);
    d->findings++;
}

/* A failure that a session of its own had; it is closed. True where there was none. */
static bool close_sound(doctor *d, ls_session *session, const char *mend)
{
    bool good = session && !ls_failed(session);
    if (!good) {
        fflush(stdout);
        char text[MOST_WORDS];
        found(d, "%s%s", session_words(session, text, sizeof text), mend);
    }
    if (session)
        ls_close(session);
    return good;
}

static ls_session *open_own(const doctor *d)
{
    const settings *c = d->run.chosen;
    return ls_open(&(ls_options){
        .isa = (ls_isa)c->isa, .conv = (ls_algorithm)c->conv, .dtype = (ls_dtype)c->dtype, .shard = (int)c->shard});
}

static bool on_gpus(const doctor *d)
{
    return !run_is_on(&d->run, LS_CPU);
}

/* ---- The checks ---- */

static void look_at_quota(doctor *d)
{
    const int n = ls_device_count(d->run.session, LS_CPU);
    const char *quota = ls_notice(d->run.session);
    if (!*quota || on_gpus(d))
        return;
    if (d->run.devices.n > n)
        found(d, "%s, and %d devices wait for each other; name %d in --devices, or raise the quota", quota,
              d->run.devices.n, n);
    else
        sound(d, "%s", quota);
}

static void look_at_devices(doctor *d)
{
    sound(d, "%s, %s kernels", d->run.devices_text,
          on_gpus(d) ? choice_name(dtype_choices, d->run.chosen->dtype) : ls_isa_name(d->run.session));
    look_at_quota(d);
    if (ls_device_count(d->run.session, LS_CUDA) == 0)
        without(d, "no GPUs: %s", ls_notice(d->run.session));
}

static const char *device_on(const doctor *d, int core)
{
    const ls_devices *devices = &d->run.devices;
    int i = 0;
    while (i < devices->n - 1 && ls_device_core(devices->at[i]) != core)
        i++;
    return ls_device_str(d->run.session, devices->at[i]);
}

static void look_at_cores(doctor *d)
{
    core_look cores[LS_MAX_DEVICES] = {{.number = 0}};
    int n = cores_list(&d->run.devices, cores), before = d->findings;
    double least = 1;
    if (n == 0) {
        without(d, "the devices are GPUs");
        return;
    }
    if (!cores_look(cores, n)) {
        found(d, "no thread can be started on each of %d cores; raise the limit on processes (ulimit -u)", n);
        return;
    }
    for (int i = 0; i < n; i++) {
        const core_look *core = &cores[i];
        const char *device = device_on(d, core->number);
        least = core->share < least ? core->share : least;
        if (!core->pinned)
            found(d, "%s: a thread cannot be kept on core %d; allow the process that core (taskset, cpuset)", device,
                  core->number);
        else if (core_is_busy(core))
            found(d,
                  "%s: core %d is busy: %.0f %% of it is to be had beside %s; end that, or leave %s out of --devices",
                  device, core->number, 100 * core->share, *core->other ? core->other : "other work", device);
    }
    if (d->findings == before)
        sound(d, "%d, each %.0f %% free, threads can be kept on them", n, 100 * least);
}

static bool is_fashion_mnist(const doctor *d)
{
    return strcmp(d->run.chosen->dataset, "fashion-mnist") == 0;
}

static void keep_doubt(const char *line, void *user)
{
    doctor *d = user;
    size_t length = strlen(d->doubts);
    snprintf(d->doubts + length, sizeof d->doubts - length, "%s\n", line);
}

/* Reads the data as a run does. */
static void read_data(doctor *d)
{
    const settings *c = d->run.chosen;
    ls_session *session = open_own(d);
    ls_loader loader = {.directory = c->data, .told = tell_line};
    ls_data *train = ls_data_open(session, c->dataset, LS_TRAIN, &loader);
    ls_data *test = ls_data_open(session, c->dataset, LS_TEST, &loader);
    const char *summary = ls_data_summary(train);
    if (ls_data_doubts(train, test, keep_doubt, d) == LS_OK && ls_data_about(train, &d->data) == LS_OK) {
        snprintf(d->data_message, sizeof d->data_message, "%s; %lld test images", summary,
                 (long long)ls_data_rows(test));
        d->data.rows += ls_data_rows(test);
    } else {
        session_words(session, d->data_message, sizeof d->data_message);
        d->data.rows = 0;
    }
    d->data_known = true;
    ls_close(session);
}

/* What the data are like; of others than Fashion-MNIST that takes reading them. NULL, with a message, where they cannot
 * be read. */
static const ls_data_info *look_into_data(doctor *d)
{
    if (!d->data_known && is_fashion_mnist(d)) {
        d->data = fashion_mnist;
        d->data_known = true;
    } else if (!d->data_known) {
        read_data(d);
    }
    return d->data.rows ? &d->data : NULL;
}

/* The network of the run on its devices, over random images of the batch's size; false after a finding. */
static bool make_network(doctor *d)
{
    const settings *c = d->run.chosen;
    const ls_data_info *of = &d->data;
    int64_t rows = c->batch < MOST_IMAGES ? c->batch : MOST_IMAGES,
            bytes = rows * of->channels * of->height * of->width;
    uint8_t *images = malloc((size_t)bytes), *labels = calloc((size_t)rows, 1);
    for (int64_t i = 0; images && i < bytes; i++)
        images[i] = (uint8_t)(i * 7);
    if (images && labels)
        d->like = ls_data_from_memory(d->run.session, images, labels, rows, of->channels, of->height, of->width,
                                      of->classes, &(ls_loader){.batch = (int)rows});
    free(images);
    free(labels);
    d->run.net = d->like ? ls_model_for(d->run.session, d->run.model, of->classes) : NULL;
    if (!d->run.net)
        return false;
    ls_module_initialize(d->run.net, d->run.devices, &(ls_init){.kind = LS_HE, .like = d->like});
    d->trainer = ls_trainer_new(d->run.net, (ls_optimizer)c->optimizer,
                                &(ls_optim){.lr = 0.1, .momentum = c->momentum, .ema = c->ema});
    return d->trainer && !ls_failed(d->run.session);
}

static void look_at_memory(doctor *d)
{
    const settings *c = d->run.chosen;
    const char *limited_by;
    char needed[32], left[32], why[MOST_WORDS];
    int64_t bytes = 0, there = memory_left(&limited_by);
    memory_text(left, sizeof left, there);
    const ls_data_info *of = look_into_data(d);
    if (!of) {
        without(d, "what is needed depends on the data, which cannot be read");
        return;
    }
    if (!make_network(d) || ls_trainer_memory_needed(d->trainer, d->like, &bytes) != LS_OK) {
        found(d, "%s: %s; %s is to be had (%s)", d->run.model, session_words(d->run.session, why, sizeof why), left,
              limited_by);
        return;
    }
    const int64_t numbers = (int64_t)of->channels * of->height * of->width;
    bytes += of->rows * (numbers * (of->floats ? (int64_t)sizeof(float) : 1) + 1); /* the data set */
    memory_text(needed, sizeof needed, bytes);
    if (bytes > there)
        found(d,
              "%s with a batch of %lld in shards of %lld on %d devices needs %s, and %s is to be had (%s); raise that, "
              "or take a smaller --shard or fewer devices",
              d->run.model, (long long)c->batch, (long long)c->shard, d->run.devices.n, needed, left, limited_by);
    else
        sound(d, "%s with a batch of %lld in shards of %lld needs %s of the %s to be had (%s)", d->run.model,
              (long long)c->batch, (long long)c->shard, needed, left, limited_by);
}

static void look_at_self_test(doctor *d)
{
    ls_session *session = open_own(d);
    ls_self_test(session, d->run.devices, &d->run.self_test);
    if (close_sound(d, session, "; leave it out, and have the machine looked at"))
        sound(d, "a small training run comes to the same numbers on each device");
}

/* There and back between two devices by way of the host, and from one to the other; true where all arrived. */
static bool copy_between(doctor *d, ls_session *s, const float *numbers, float *back, ls_device from, ls_device to)
{
    int scope = ls_enter(s);
    ls_tensor *there = ls_clone(ls_to(ls_values(s, numbers, LS_SHAPE(COPIED)), from), to);
    bool good = ls_read(there, back, COPIED) == LS_OK;
    bool same = good && memcmp(numbers, back, COPIED * sizeof *numbers) == 0;
    if (good && !same)
        found(d,
              "%s: %d bytes copied from the host to it and on to %s come back changed; leave it out, and have the "
              "machine looked at",
              ls_device_str(s, from), COPIED * (int)sizeof *numbers, ls_device_str(s, to));
    ls_leave(s, scope);
    return same;
}

static void look_at_copies(doctor *d)
{
    const ls_devices *devices = &d->run.devices;
    ls_session *session = open_own(d);
    float *numbers = malloc(2 * COPIED * sizeof *numbers);
    int before = d->findings, copies = 0;
    uint32_t state = 1;
    for (int i = 0; numbers && i < COPIED; i++) {
        state = state * 1664525u + 1013904223u;
        numbers[i] = (float)(int32_t)state;
    }
    for (int i = 0; numbers && i < devices->n; i++)
        for (int k = 0; k < devices->n; k++) /* of many devices each with the next */
            if (devices->n <= ALL_PAIRS || k == (i + 1) % devices->n) {
                copy_between(d, session, numbers, numbers + COPIED, devices->at[i], devices->at[k]);
                copies++;
            }
    if (!numbers)
        found(d, "no memory for %d bytes to copy", 2 * COPIED * (int)sizeof *numbers);
    free(numbers);
    if (close_sound(d, session, "") && d->findings == before)
        sound(d, "%d, of 4 MiB each, from the host to the devices, between them and back", copies);
}

static void look_at_mpi(doctor *d)
{
    static const char absent[] = "there is no ";
    char why[512], plugins[128] = "";
    const char *name;
    int before = d->findings, built = 0, ranks = ls_cluster_ranks(ranks_cluster());
    for (int i = 0; (name = ls_cluster_plugin(i, why, sizeof why)) != NULL; i++) {
        built++;
        if (strncmp(why, absent, sizeof absent - 1) == 0)
            continue; /* each is a package of its own, and who needs no MPI has none of them */
        if (*why)
            found(d, "the plugin for %s cannot be loaded: %s; install that MPI, or build Lockstep again", name, why);
        size_t length = strlen(plugins);
        snprintf(plugins + length, sizeof plugins - length, "%s%s", length ? ", " : "", name);
    }
    if (d->findings > before)
        return;
    if (!*plugins && built)
        without(d, "no plugin is installed: there is no run over several processes");
    else if (!*plugins)
        without(d, "not built in: there is no run over several processes");
    else if (ranks > 1)
        sound(d, "%d ranks, started by a launcher whose MPI is one of: %s", ranks, plugins);
    else
        sound(d, "the plugins can be loaded (%s); to try them, start this under mpirun", plugins);
}

static void look_at_data(doctor *d)
{
    if (!is_fashion_mnist(d)) {
        if (look_into_data(d))
            sound(d, "%s: %s", d->run.chosen->dataset, d->data_message);
        else
            found(d, "%s", d->data_message);
        fflush(stdout);
        for (char *line = strtok(d->doubts, "\n"); line; line = strtok(NULL, "\n"))
            note("note: %s", line);
        return;
    }
    ls_session *session = open_own(d);
    if (!run_has("fingerprints")) {
        without(d, "cannot be compared with their SHA-256 sums: built without libcrypto");
        ls_close(session);
        return;
    }
    ls_data_verify(session, d->run.chosen->data);
    const bool others = ls_status_of(session) == LS_BAD_FILE;
    if (others)
        read_data(d);
    if (others && !d->data.rows) { /* what a run would say of them tells more */
        ls_close(session);
        found(d, "%s", d->data_message);
    } else if (close_sound(d, session, others ? "; move it away and run 'lockstep data fetch'" : ""))
        sound(d, "the four files of Fashion-MNIST, with the SHA-256 sums they should have");
}

/* Of the file system that a folder is on, or would be. */
static bool free_bytes(const char *folder, int64_t *bytes)
{
    struct statvfs about;
    char *place = strdup(folder), *slash = place;
    while (place && statvfs(place, &about) != 0 && slash) {
        slash = strrchr(place, '/');
        if (slash && slash > place)
            *slash = '\0';
        else
            strcpy(place, slash ? "/" : ".");
    }
    bool good = place && statvfs(place, &about) == 0;
    free(place);
    *bytes = good ? (int64_t)about.f_bavail * (int64_t)about.f_frsize : 0;
    return good;
}

static void look_at_checkpoints(doctor *d)
{
    const settings *c = d->run.chosen;
    char needed[32], left[32];
    int64_t numbers = 0, there;
    if (!c->checkpoint) {
        without(d, "no --checkpoint DIR to look at");
        return;
    }
    fflush(stdout);
    if (check_new_folder("--checkpoint", c->checkpoint) != 0) {
        d->findings++;
        return;
    }
    if (!look_into_data(d)) {
        without(d, "what is needed depends on the data, which cannot be read");
        return;
    }
    if (!d->trainer && !make_network(d)) { /* the check of the memory was left out */
        char why[MOST_WORDS];
        found(d, "%s", session_words(d->run.session, why, sizeof why));
        return;
    }
    const int moments = (c->optimizer == LS_SGD ? c->momentum > 0 : 2) + (c->ema > 0);
    for (int i = 0; i < ls_module_parameter_count(d->run.net); i++) {
        ls_parameter_info info;
        if (ls_module_parameter_at(d->run.net, i, &info) == LS_OK)
            numbers += info.numbers * (info.trainable ? 1 + moments : 1);
    }
    int64_t bytes = KEPT * numbers * (int64_t)sizeof(float);
    if (!free_bytes(c->checkpoint, &there))
        return;
    memory_text(needed, sizeof needed, bytes);
    memory_text(left, sizeof left, there);
    if (bytes > there)
        found(d,
              "%s: three checkpoints and the one being written take %s, and %s is free; make room, or name another "
              "folder",
              c->checkpoint, needed, left);
    else
        sound(d, "%s: three and the one being written take %s of %s", c->checkpoint, needed, left);
}

/* ---- The command ---- */

static const struct check {
    const char *name;
    void (*look)(doctor *d);
} checks[] = {{"devices", look_at_devices},  {"cores", look_at_cores},     {"memory", look_at_memory},
              {"canary", look_at_self_test}, {"copies", look_at_copies},   {"mpi", look_at_mpi},
              {"data", look_at_data},        {"disk", look_at_checkpoints}};
enum { CHECKS = sizeof checks / sizeof *checks };

static bool is_skipped(const settings *c, const char *name)
{
    for (int i = 0; i < c->n_skipped; i++)
        if (strcmp(c->skipped[i], name) == 0)
            return true;
    return false;
}

static int look(doctor *d)
{
    for (int i = 0; i < CHECKS; i++) {
        d->checking = checks[i].name;
        watch_phase(d->checking);
        if (!is_skipped(d->run.chosen, d->checking))
            checks[i].look(d);
    }
    return d->findings ? STATUS_FAILED : STATUS_DONE;
}

/* Each rank tells its findings itself; the others learn of them by their number. */
static int look_on_each_rank(doctor *d)
{
    if (ls_cluster_ranks(ranks_cluster()) == 1)
        return look(d);
    say_at_once(true);
    int status = look(d);
    if (status) {
        say_hold();
        failed("", "%d finding%s", d->findings, d->findings == 1 ? "" : "s");
    }
    return status;
}

int command_doctor(int argc, char **argv)
{
    settings chosen;
    doctor d = {.run.chosen = &chosen};
    int status = 0;
    ranks_expect();
    if (!read_options_only(COMMAND_DOCTOR, argc, argv, &chosen, &status))
        return status;
    if (!status)
        status = check_optimizer(&chosen);
    status = ranks_start(&chosen, status);
    if (!status && ls_cluster_rank(ranks_cluster()) == 0)
        status = check_output();
    if (!status)
        status = run_open(&d.run, &chosen, ranks_cluster());
    watch_session(d.run.session);
    if (!status)
        status = look_on_each_rank(&d);
    status = ranks_agree(COMMAND_DOCTOR, &d.run, NULL, NULL, NULL, status);
    ranks_parted();
    int written = status ? 0 : finish_output();
    return ranks_close(&d.run, status ? status : written);
}
