#include "run/run.h"

#include <lockstep_profile.h>
#include <lockstep_trial.h>
#include <lockstep_weights.h>

#include "options/choice.h"
#include "options/names.h"
#include "text/say.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXACT_SHARD = 64, ROUNDED_SHARD = 256 }; /* in f32, on any device; in other dtypes */

static int find_devices(run *r, const settings *chosen, ls_cluster *cluster)
{
    ls_options options = {
        .seed = chosen->seed,
        .shard = (int)chosen->shard,
        .batch_norm = (int)chosen->bn,
        .isa = (ls_isa)chosen->isa,
        .conv = (ls_algorithm)chosen->conv,
        .dtype = (ls_dtype)chosen->dtype,
        .cluster = cluster,
        .balance = chosen->balance,
        .in_flight = (int)chosen->in_flight,
        .host_sums = chosen->host_sums,
        .trial = &(ls_trial){.host_ranks = (int)chosen->host_ranks, .shuffle_pulls = chosen->shuffle_pulls}};
    r->session = ls_open(&options);
    if (ls_failed(r->session))
        return session_failed(r->session, "start");
    r->devices = chosen->devices ? ls_parse_devices(r->session, chosen->devices) : ls_all_devices(r->session);
    if (ls_failed(r->session)) {
        int status = session_failed(r->session, "--devices");
        return ls_status_of(r->session) == LS_BAD_ARGUMENT ? STATUS_USAGE : status;
    }
    return 0;
}

/* Of options that only some schedules take: the one that the chosen schedule does not. */
static int check_schedule(const settings *c)
{
    const bool cycle = c->schedule == LS_ONE_CYCLE, linear = c->schedule == LS_LINEAR;
    const bool exponential = c->schedule == LS_EXPONENTIAL, restarts = c->schedule == LS_WARM_RESTARTS;
    if (c->start_factor >= 0 && !cycle && !linear)
        return wrong_usage("--start-factor", "needs --schedule linear or one-cycle");
    if (c->end_factor >= 0 && !cycle && !linear && !restarts && c->schedule != LS_COSINE)
        return wrong_usage("--end-factor", "needs --schedule cosine, linear, one-cycle or warm-restarts");
    if (c->gamma >= 0 && !exponential)
        return wrong_usage("--gamma", "needs --schedule exponential");
    if (c->period && !exponential && !restarts)
        return wrong_usage("--period", "needs --schedule exponential or warm-restarts");
    if (c->period_factor && !restarts)
        return wrong_usage("--period-factor", "needs --schedule warm-restarts");
    if (c->after_warmup && (cycle || c->schedule == LS_CONSTANT))
        return wrong_usage("--after-warmup", "needs --schedule step, cosine, linear, exponential or warm-restarts");
    if (c->after_warmup && !c->warmup)
        return wrong_usage("--after-warmup", "needs --warmup");
    if (exponential && c->gamma <= 0)
        return wrong_usage("--schedule", "exponential needs --gamma above 0");
    if (restarts && !c->period)
        return wrong_usage("--schedule", "warm-restarts needs --period");
    if (c->start_factor == 0 || (cycle && c->end_factor == 0))
        return wrong_usage(c->start_factor == 0 ? "--start-factor" : "--end-factor", "must be above 0");
    return 0;
}

int check_optimizer(const settings *c)
{
    const char *adams = c->beta1 >= 0 ? "--beta1" : c->beta2 >= 0 ? "--beta2" : c->eps >= 0 ? "--eps" : NULL;
    if (c->optimizer == LS_SGD && adams)
        return wrong_usage(adams, "needs --optimizer adam or adamw");
    if (c->optimizer != LS_SGD && c->momentum > 0)
        return wrong_usage("--momentum", "is of sgd; adam and adamw have --beta1");
    if (c->beta1 == 0 || c->beta1 >= 1 || c->beta2 == 0 || c->beta2 >= 1)
        return wrong_usage(c->beta1 == 0 || c->beta1 >= 1 ? "--beta1" : "--beta2", "must be above 0 and below 1");
    if (c->eps >= 0 && (float)c->eps == 0)
        return wrong_usage("--eps", "must be above 0, and no smaller than a float can be");
    if (c->ema >= 1)
        return wrong_usage("--ema", "must be at least 0 and below 1");
    if (c->ema_warmup && c->ema == 0)
        return wrong_usage("--ema-warmup", "needs --ema");
    if (c->ema_buffers && c->ema == 0)
        return wrong_usage("--ema-buffers", "needs --ema");
    if (c->nesterov && c->momentum == 0)
        return wrong_usage("--nesterov", "needs a --momentum above 0");
    return check_schedule(c);
}

bool run_is_on(const run *r, ls_device_type type)
{
    for (int i = 0; i < r->devices.n; i++)
        if ((ls_device_type)r->devices.at[i].type == type)
            return true;
    return false;
}

int run_open(run *r, settings *chosen, ls_cluster *cluster)
{
    *r = (run){.chosen = chosen, .cluster = cluster};
    if (!chosen->shard)
        chosen->shard = chosen->dtype == LS_F32 ? EXACT_SHARD : ROUNDED_SHARD;
    if (chosen->bn > 0 && chosen->bn % chosen->shard != 0)
        return wrong_usage("--bn", "%lld is not a multiple of the shard's %lld images", (long long)chosen->bn,
                           (long long)chosen->shard);
    int status = find_devices(r, chosen, cluster);
    if (status)
        return status;
    if (chosen->dtype != LS_F32 && chosen->bn != BN_SHARD && chosen->bn != chosen->shard)
        return failed(
            "--bn", "in %s GPUs take statistics of each shard; a shard may be as large as the batch, with --shard %lld",
            choice_name(dtype_choices, chosen->dtype), (long long)(chosen->bn < 0 ? chosen->batch : chosen->bn));
    if (run_is_on(r, LS_CPU) && chosen->dtype != LS_F32)
        return failed("--dtype", "%s is for GPUs; a CPU computes in f32", choice_name(dtype_choices, chosen->dtype));
    snprintf(r->devices_text, sizeof r->devices_text, "%s", ls_devices_str(r->session, r->devices));
    snprintf(r->model, sizeof r->model, "%s", chosen->model ? chosen->model : "lenet");
    return 0;
}

static bool same_devices(const ls_devices *a, const ls_devices *b)
{
    return a->n == b->n && memcmp(a->at, b->at, (size_t)a->n * sizeof *a->at) == 0;
}

/* Neighbours with equal devices are counted; what has no place any more is three dots. */
static void describe_ranks(run *r, int ranks)
{
    static const char more[] = " + ...";
    char text[sizeof r->devices_text];
    size_t length = 0;
    for (int i = 0, n; i < ranks; i += n) {
        for (n = 1; i + n < ranks && same_devices(&r->ranks_devices[i], &r->ranks_devices[i + n]);)
            n++;
        const char *list = ls_devices_str(r->session, r->ranks_devices[i]);
        int added = n > 1 ? snprintf(text, sizeof text, "%s%d x %s", i ? " + " : "", n, list)
                          : snprintf(text, sizeof text, "%s%s", i ? " + " : "", list);
        bool fits = length + (size_t)added + sizeof more <= sizeof r->devices_text;
        snprintf(r->devices_text + length, sizeof r->devices_text - length, "%s", fits ? text : more);
        length += (size_t)added;
        if (!fits)
            break;
    }
}

int run_meet(run *r)
{
    int ranks = ls_cluster_ranks(r->cluster);
    r->ranks_devices = calloc((size_t)ranks, sizeof *r->ranks_devices);
    if (!r->ranks_devices)
        return failed("--devices", "no memory for the lists of %d ranks", ranks);
    if (ls_cluster_devices(r->session, &r->devices, r->ranks_devices) != LS_OK)
        return session_failed(r->session, "--devices");
    describe_ranks(r, ranks);
    return 0;
}

int run_device_count(const run *r)
{
    int count = r->devices.n;
    for (int i = 0; r->ranks_devices && i < ls_cluster_ranks(r->cluster); i++)
        count += i == ls_cluster_rank(r->cluster) ? 0 : r->ranks_devices[i].n;
    return count;
}

int run_model_of_weights(run *r)
{
    if (r->chosen->model)
        return 0;
    if (ls_file_model(r->session, r->chosen->weights, r->model, sizeof r->model) != LS_OK)
        return session_failed(r->session, "--weights");
    if (!*r->model)
        return wrong_usage("--weights", "%s does not name its model: say it with --model", r->chosen->weights);
    return 0;
}

void tell_line(const char *line, void *user)
{
    (void)user;
    note("%s", line);
}

ls_data *run_data(run *r, ls_part part)
{
    const settings *chosen = r->chosen;
    ls_loader loader = {.directory = chosen->data, .told = tell_line};
    if (part == LS_TRAIN) {
        loader.batch = (int)chosen->batch;
        loader.shuffle = !chosen->no_shuffle;
        loader.drop_last = chosen->last_batch == LAST_DROP;
        loader.limit = chosen->limit;
        loader.augment = (ls_augment){.flip = chosen->flip, .crop = (int)chosen->crop, .erase = chosen->erase};
    } else {
        loader.limit = chosen->limit_test;
    }
    ls_data *data = ls_data_open(r->session, chosen->dataset, part, &loader);
    if (!data || ls_failed(r->session)) {
        session_failed(r->session, "data");
        return NULL;
    }
    return data;
}

/* The names stay the data's, whose labels they are. */
static int name_classes(const run *r, const ls_data *like)
{
    const char *names[256];
    const int n = ls_data_class(like, 0) ? r->about.classes : 0;
    for (int i = 0; i < n; i++)
        names[i] = ls_data_class(like, i);
    return ls_module_name_classes(r->net, names, n) == LS_OK ? 0 : session_failed(r->session, "data");
}

/* What the file's values are not as they were, or not in it: a line each, names as far as they fit in. */
static void say_loaded(const char *report)
{
    enum { MOST_SHOWN = 300 };
    for (const char *line = strchr(report, '\n'); line; line = strchr(line, '\n')) {
        int n = (int)strcspn(++line, "\n");
        const bool whole = n <= MOST_SHOWN;
        if (!whole)
            for (n = MOST_SHOWN; n > 0 && line[n] != ',';)
                n--;
        note("note: --weights: %.*s%s", n, line, whole ? "" : ", ...");
    }
}

static ls_status load(const run *r)
{
    const settings *c = r->chosen;
    name_list skip;
    const char *report;
    names_split("--weights-skip", c->weights_skip, &skip); /* train has looked at it before */
    if (ls_module_load_with(r->net, c->weights, &(ls_load_options){.strip = c->strip_prefix, .skip = skip.list},
                            &report) == LS_OK &&
        !c->quiet)
        say_loaded(report);
    return ls_status_of(r->session);
}

/* Weights whose classes the data call otherwise are refused, unless the user says that they mean the same. */
static int load_weights(const run *r, const ls_data *like)
{
    const settings *c = r->chosen;
    char why[MOST_WORDS];
    if (c->allow_classes)
        ls_module_name_classes(r->net, NULL, 0);
    if (load(r) == LS_OK)
        return c->allow_classes ? name_classes(r, like) : 0;
    if (ls_status_of(r->session) != LS_CHANGED)
        return session_failed(r->session, "--weights");
    return failed("--weights", "%s; where they mean the same, say --allow-changed classes",
                  session_words(r->session, why, sizeof why));
}

static void say_doubt(const char *line, void *user)
{
    (void)user;
    note("note: %s", line);
}

int run_doubt(run *r, ls_data *train, ls_data *test)
{
    if (r->chosen->quiet || ls_data_doubts(train, test, say_doubt, NULL) == LS_OK)
        return 0;
    return session_failed(r->session, "data");
}

void run_describe(const run *r, ls_data *data)
{
    const char *summary = r->chosen->quiet ? NULL : ls_data_summary(data);
    if (summary)
        note("data: %s", summary);
}

int run_network(run *r, const ls_data *like)
{
    if (ls_self_test(r->session, r->devices, &r->self_test) != LS_OK)
        return session_failed(r->session, "--devices");
    ls_data_about(like, &r->about);
    r->net = ls_model_for(r->session, r->model, r->about.classes);
    ls_init init = r->chosen->init;
    init.like = like;
    if (ls_module_initialize(r->net, r->devices, &init) != LS_OK)
        return session_failed(r->session, r->model);
    return r->chosen->weights ? load_weights(r, like) : 0;
}

/* The network's images get their shape by --input, by the weights file, or else are the usual ones. */
static int load_alone(const run *r, const ls_shape *usual)
{
    const settings *c = r->chosen;
    ls_shape images = c->input; /* none of them: what counts is their size */
    images.dim[0] = 0;
    if (images.rank && !ls_module_infer(r->net, ls_zeros(r->session, images)))
        return session_failed(r->session, "--input");
    if (load(r) == LS_SHAPE_UNKNOWN && ls_catch(r->session, LS_SHAPE_UNKNOWN)) {
        if (!usual)
            return failed("--weights", "%s does not say the size of its images: say it with --input, such as 1x28x28",
                          c->weights);
        ls_module_infer(r->net, ls_zeros(r->session, *usual));
        load(r);
    }
    return ls_failed(r->session) ? session_failed(r->session, "--weights") : 0;
}

int run_network_of_weights(run *r, const ls_shape *usual)
{
    int status = run_model_of_weights(r);
    if (status)
        return status;
    r->net = ls_model_for_file(r->session, r->model, r->chosen->weights);
    if (!r->net)
        return session_failed(r->session, "--weights");
    if (ls_module_initialize(r->net, r->devices, NULL) != LS_OK)
        return session_failed(r->session, r->model);
    return load_alone(r, usual);
}

void run_say_lost(const run *r)
{
    for (const char *line; (line = ls_module_next_failure(r->net));)
        failed("devices", "%s", line);
}

int run_close(run *r, int status)
{
    free(r->ranks_devices);
    r->ranks_devices = NULL;
    if (!r->session)
        return status;
    bool failed_before = ls_failed(r->session);
    if (!failed_before)
        ls_wait(r->session);
    if (!failed_before && ls_failed(r->session) && status == STATUS_DONE)
        status = session_failed(r->session, "end");
    run_say_lost(r);
    ls_close(r->session);
    return status;
}

bool run_has(const char *feature)
{
    size_t length = strlen(feature);
    for (const char *line = ls_features(); *line;) {
        size_t end = strcspn(line, "\n");
        if (strncmp(line, feature, length) == 0 && line[length] == ':')
            return strncmp(line + length, ": not built in", 14) != 0;
        line += end + (line[end] == '\n');
    }
    return true;
}
