/* The trainer: hands steps in, at most two at a time, and keeps what lives from step to step. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <lockstep_train.h>

#include "base/environment.h"
#include "base/random.h"
#include "comm/link.h"
#include "data/data.h"
#include "eager/batches.h"
#include "exec/stream.h"
#include "model/initialize.h"
#include "model/layout.h"
#include "model/replica.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "train/clip.h"
#include "train/cohort.h"
#include "train/exchange.h"
#include "train/measure.h"
#include "train/step.h"
#include "train/trainer.h"
#include "train/updates.h"
#include "train/attempts.h"

/* The network has its own values again; what was recorded with averages in their place is dropped. */
static void end_averages(ls_network *network)
{
    if (!network->averaged)
        return;
    ls_network_clear(network);
    network->averaged = false;
    ls_network_change(network, "ls_trainer_use_average"); /* a failure of the session is no reason to keep them */
    ls_network_turn_over(network, false);
}

static void free_trainer(void *object)
{
    ls_trainer *trainer = object;
    ls_context *context = &trainer->network->session->context;
    ls_engine_wait(trainer->network->engine);
    end_averages(trainer->network);
    ls_exchange_forget(trainer);
    trainer->network->trainer = NULL;
    trainer->network->updates = 0;
    trainer->network->gradient_is_there = false;
    for (int i = 0; i < LS_DEPTH; i++)
        ls_step_destroy(&trainer->steps[i]);
    ls_executor *executor = trainer->network->master;
    for (int i = 0; trainer->pool && i < trainer->pool_capacity + trainer->attempts.n; i++)
        ls_executor_release(executor, trainer->pool[i]);
    ls_attempts_release_rooms(trainer);
    ls_attempts_destroy(trainer);
    ls_updates_destroy(trainer);
    ls_release(context, trainer->pool);
    ls_release(context, trainer->free_buffers);
    ls_executor_release(executor, trainer->rows);
    ls_executor_release(executor, trainer->moments);
    ls_executor_release(executor, trainer->gradient);
    ls_release(context, trainer->squares);
    ls_release(context, trainer->average_state);
    ls_release(context, trainer->remembered);
    ls_release(context, trainer->before_update);
    ls_release(context, trainer->seen_moments);
    ls_release(context, trainer->seen_gradient);
    pthread_mutex_destroy(&trainer->lock);
    ls_release(context, trainer);
}

/* What was made for the master copy before goes with it. */
static ls_status move_master(ls_trainer *trainer)
{
    ls_network *network = trainer->network;
    ls_executor *before = network->master;
    float *moments = trainer->moments;
    const size_t n = (size_t)trainer->n_moments * network->flat.trainable;
    ls_executor_release(before, trainer->gradient);
    trainer->gradient = trainer->moments = NULL;
    if (ls_network_move_master(network) == LS_OK && moments)
        trainer->moments = ls_executor_alloc(network->master, n, sizeof *moments, "the optimizer's moments");
    if (trainer->moments)
        ls_network_put(network, trainer->moments, moments, n);
    ls_executor_release(before, moments);
    return ls_status_of(network->session);
}

/* Once, before anything is computed together: whether the ranks' cards can exchange without the hosts. */
static ls_status meet(ls_trainer *trainer)
{
    ls_network *network = trainer->network;
    ls_session *session = network->session;
    ls_cluster *cluster = session->options.cluster;
    char how[LS_WHY] = "";
    if (ls_updates_agree(trainer) != LS_OK || trainer->transport || ls_cluster_ranks(cluster) == 1)
        return ls_status_of(session);
    ls_executor *card = session->options.host_sums ? NULL : ls_network_card(network);
    if (!card && ls_network_on_cards(network))
        snprintf(how, sizeof how, "%s", session->options.host_sums ? "as it was asked for" : "a core computes too");
    ls_turn *turn = network->engine->workers[0].turn;
    ls_exchange_take_wire(trainer); /* whose steps may need the card's turn to come to their end */
    ls_turn_enter(turn);
    const bool connected = ls_link_connect(cluster, &session->context, card, how);
    ls_turn_leave(turn);
    trainer->transport = ls_intern(session, how);
    return connected ? move_master(trainer) : ls_status_of(session);
}

const char *ls_trainer_transport(ls_trainer *trainer, bool *direct)
{
    LS_OWN_ENVIRONMENT;
    if (trainer && !ls_failed(trainer->session))
        meet(trainer);
    if (direct)
        *direct = trainer && trainer->network->connected;
    return trainer && trainer->transport ? trainer->transport : "";
}

/* The whole gradient, where it is read or clipped; once. */
static ls_status reserve_gradient(ls_trainer *trainer)
{
    if (!trainer->gradient)
        trainer->gradient = ls_executor_alloc(trainer->network->master, trainer->network->flat.trainable, sizeof(float),
                                              "the gradient");
    return trainer->gradient ? LS_OK : ls_status_of(trainer->session);
}

/* What needs the parameters' shapes, which the first images may have told only now. */
static ls_status prepare(ls_trainer *trainer)
{
    ls_network *network = trainer->network;
    bool good = ls_updates_init(trainer) == LS_OK;
    for (int i = 0; i < LS_DEPTH && good; i++)
        if (!trainer->steps[i].sums.shards_pending)
            good = ls_step_init(&trainer->steps[i], trainer) == LS_OK;
    good = good && ls_attempts_init(trainer) == LS_OK;
    if (good && trainer->n_moments && !trainer->moments)
        trainer->moments = ls_executor_alloc(network->master, (size_t)trainer->n_moments * network->flat.trainable,
                                             sizeof(float), "the optimizer's moments");
    if (good && trainer->options.ema_buffers && !trainer->average_state)
        trainer->average_state = ls_alloc(&network->session->context, network->flat.state, sizeof(float),
                                          "the average of the running statistics");
    if (good && ls_clips(trainer))
        good = reserve_gradient(trainer) == LS_OK && ls_clip_init(trainer) == LS_OK;
    if (good)
        ls_replicas_take_gradients(network);
    return ls_status_of(network->session);
}

/* ---- The learning rate ---- */

double ls_trainer_lr(const ls_trainer *trainer)
{
    LS_OWN_ENVIRONMENT;
    if (!trainer || ls_context_is_parents(&trainer->session->context))
        return NAN;
    int64_t step = trainer->network->updates;
    if (atomic_load(&trainer->upset)) { /* the next step goes back; see go_back */
        ls_engine_wait(trainer->network->engine);
        step = trainer->reported;
    }
    return ls_learning_rate(&trainer->options, trainer->lr, step);
}

ls_status ls_trainer_set_lr(ls_trainer *trainer, double lr)
{
    LS_OWN_ENVIRONMENT;
    if (!trainer || ls_failed(trainer->session))
        return trainer ? ls_status_of(trainer->session) : LS_BAD_ARGUMENT;
    if (!ls_is_rate(lr))
        return ls_raise(&trainer->session->context, LS_BAD_ARGUMENT,
                        "ls_trainer_set_lr: lr is %g; it must be at least 0 and below 1e30", lr);
    trainer->lr = lr;
    trainer->has_lr = true;
    return LS_OK;
}

/* What moments there are, and who holds which, was settled by the first step. */
static const char *wrong_change(const ls_trainer *trainer, const ls_optim *o)
{
    const char *wrong = ls_optimizer_wrong(trainer->kind, o);
    const ls_optim *was = &trainer->options;
    if (wrong)
        return wrong;
    if (trainer->noted)
        return "checkpoints are open, which hold the options among their settings; leave their scope first";
    if ((o->momentum != 0) != (was->momentum != 0))
        return "a momentum can neither begin nor end";
    if ((o->ema != 0) != (was->ema != 0))
        return "an ema can neither begin nor end";
    if (o->ema_buffers != was->ema_buffers)
        return "ema_buffers can neither begin nor end";
    return (o->clip_norm != 0) != (was->clip_norm != 0) ? "a clip_norm can neither begin nor end" : NULL;
}

ls_status ls_trainer_set_options(ls_trainer *trainer, const ls_optim *options)
{
    LS_OWN_ENVIRONMENT;
    if (!trainer || ls_network_wait(trainer->network) != LS_OK)
        return trainer ? ls_status_of(trainer->session) : LS_BAD_ARGUMENT;
    const char *wrong = wrong_change(trainer, options);
    if (wrong)
        return ls_raise(&trainer->session->context, LS_BAD_ARGUMENT, "ls_trainer_set_options: %s", wrong);
    trainer->options = *options;
    trainer->lr = options->lr;
    trainer->has_lr = options->lr != 0;
    return LS_OK;
}

/* ---- The batch ---- */

const ls_plan *ls_trainer_plan(ls_trainer *trainer, const ls_data *data, int rows)
{
    ls_network *network = trainer->network;
    ls_session *session = network->session;
    int scope = ls_scope_open(session, NULL);
    ls_batch b;
    ls_tensor *loss = NULL;
    if (ls_data_tensors(session, data, &(ls_batch_rows){.n = rows, .shapes = true}, &b) == LS_OK) {
        ls_tensor *outputs = ls_module_forward_all(network->root, b.inputs, b.n_inputs);
        loss = data->of.classes && !data->of.targets.values ? ls_cross_entropy(outputs, b.y)
                                                            : ls_sum_each(outputs); /* whatever the loss will be */
    }
    ls_trace *trace = loss ? ls_session_trace(session) : NULL;
    ls_program *program = trace && ls_trace_run(trace, loss, true) == LS_OK
                              ? ls_network_program(trace, LS_WANT_PARAMETERS, false, rows)
                              : NULL;
    ls_scope_close(session, scope);
    return program ? program->plan : NULL;
}

ls_status ls_trainer_check_batches(ls_trainer *trainer, const ls_data *data)
{
    LS_OWN_ENVIRONMENT;
    if (!trainer)
        return LS_BAD_ARGUMENT;
    ls_network *network = trainer->network;
    ls_session *session = network->session;
    if (ls_failed(session) || !data)
        return data ? ls_status_of(session)
                    : ls_raise(&session->context, LS_BAD_ARGUMENT, "ls_trainer_check_batches: data is NULL");
    int64_t rows = data->rows < data->batch ? data->rows : data->batch,
            last = data->drop_last ? 0 : data->rows % data->batch;
    const ls_plan *plan = ls_trainer_plan(trainer, data, (int)(rows < network->shard ? rows : network->shard));
    if (!plan || ls_check_rows(network, plan, rows, "ls_trainer_check_batches") != LS_OK)
        return ls_status_of(session);
    return last ? ls_check_rows(network, plan, last, "ls_trainer_check_batches") : LS_OK;
}

int ls_trainer_pool(const ls_trainer *trainer, int shards, int mine, int rooms, bool any_order)
{
    const int cores = trainer->network->engine->n_cores;
    int wanted = (rooms > cores ? rooms : cores) + 2 * ls_tree_levels(shards);
    return wanted > mine || any_order ? mine
                                      : wanted; /* such pulls may leave no two finished neighbours until the end */
}

static ls_status reserve_pool(ls_trainer *trainer, int shards, int mine, int rooms, bool any_order)
{
    ls_network *network = trainer->network;
    ls_context *context = &network->session->context;
    int wanted = ls_trainer_pool(trainer, shards, mine, rooms, any_order);
    if (wanted <= trainer->n_pool)
        return LS_OK;
    ls_engine_wait(network->engine);
    if (wanted > trainer->pool_capacity) {
        size_t spares = (size_t)trainer->attempts.n;
        float **pool = ls_alloc(context, (size_t)wanted + spares, sizeof *pool, "the pool of gradients");
        int *free_buffers = ls_alloc(context, (size_t)wanted, sizeof *free_buffers, "the pool of gradients");
        if (!pool || !free_buffers) {
            ls_release(context, pool);
            ls_release(context, free_buffers);
            return LS_OUT_OF_MEMORY;
        }
        if (trainer->n_pool) {
            memcpy(pool, trainer->pool, (size_t)trainer->n_pool * sizeof *pool);
            memcpy(pool + wanted, trainer->pool + trainer->pool_capacity, spares * sizeof *pool);
        }
        ls_release(context, trainer->pool);
        ls_release(context, trainer->free_buffers);
        trainer->pool = pool;
        trainer->free_buffers = free_buffers;
        trainer->pool_capacity = wanted;
    }
    for (; trainer->n_pool < wanted; trainer->n_pool++) {
        trainer->pool[trainer->n_pool] =
            ls_executor_alloc(network->master, network->flat.trainable, sizeof(float), "a partial gradient");
        if (!trainer->pool[trainer->n_pool])
            return LS_OUT_OF_MEMORY;
    }
    return LS_OK;
}

static int cohort_at(const ls_step_job *step, int place)
{
    return step->cohorts.shards[step->pulls.order[place]].cohort;
}

static void order_pulls(ls_step_job *step, uint64_t seed)
{
    for (int i = 0; i < step->mine; i++)
        step->pulls.order[i] = step->first + i;
    ls_random_stream stream = {.seed = seed, .purpose = LS_FOR_PULLS, .epoch = (uint64_t)step->number};
    for (int i = step->mine - 1; seed && i > 0; i--) {
        int j = (int)(ls_random_u32(&stream, (uint64_t)i) % (uint32_t)(i + 1)), swapped = step->pulls.order[i];
        step->pulls.order[i] = step->pulls.order[j];
        step->pulls.order[j] = swapped;
    }
    for (int i = 1; i < step->mine && seed && ls_cohorts_are_on(step); i++) /* cohorts begin in their order */
        for (int k = i; k > 0 && cohort_at(step, k - 1) > cohort_at(step, k); k--) {
            const int swapped = step->pulls.order[k];
            step->pulls.order[k] = step->pulls.order[k - 1];
            step->pulls.order[k - 1] = swapped;
        }
}

/* Takes the pending microbatches over, or shows them to a step that only computes their gradient. */
static ls_status take_parts(ls_step_job *step, ls_network *network)
{
    ls_context *context = &network->session->context;
    for (int i = 0; i < step->n_microbatches; i++) /* of the slot's step before */
        ls_microbatch_drop(&step->microbatches[i]);
    step->n_microbatches = 0;
    if (step->microbatches_capacity < network->n_pending) {
        ls_release(context, step->microbatches);
        step->microbatches =
            ls_alloc(context, (size_t)network->n_pending, sizeof *step->microbatches, "a step's parts");
        step->microbatches_capacity = step->microbatches ? network->n_pending : 0;
        if (!step->microbatches)
            return LS_OUT_OF_MEMORY;
    }
    step->rows = step->shards = 0;
    step->pulls.placed = false;
    for (int i = 0; i < network->n_pending; i++) {
        ls_microbatch *microbatch = &step->microbatches[i];
        *microbatch = network->pending[i];
        step->rows += microbatch->feed->rows;
        step->shards += microbatch->feed->shards;
        step->pulls.placed |= microbatch->device.type != LS_HOST;
    }
    return LS_OK;
}

/* Has the step measured where it is to be; a gradient that is only read is no step of the training. */
static ls_status measure(ls_step_job *step, const ls_network *network, ls_profile *profile)
{
    step->profile = profile;
    const ls_engine *engine = network->engine;
    for (int i = 0; profile && i < network->n_pending; i++)
        for (int k = 0; k < engine->n_backends; k++)
            if (ls_measure_reserve(profile, ls_plan_for(network->pending[i].feed->plan, engine->backends[k])) != LS_OK)
                return LS_OUT_OF_MEMORY;
    return LS_OK;
}

/* From now on the microbatches are the step's, and their losses will be known. */
static void keep_parts(ls_step_job *step, ls_network *network)
{
    network->n_pending = 0;
    for (int i = 0; i < step->n_microbatches; i++) {
        ls_tensor *loss = step->microbatches[i].loss;
        if (loss && loss->fold && !loss->array)
            loss->array = ls_array_hold(step->microbatches[i].summary);
        step->microbatches[i].summary->in_step = true;
        ls_tensor_drop(loss);
        step->microbatches[i].loss = NULL;
    }
}

/* What the pending microbatches read must be what it was, and be there. */
static ls_status check_operands(ls_network *network, const char *function)
{
    bool arrays = false;
    for (int i = 0; i < network->n_pending; i++) {
        uint64_t changes;
        arrays |= ls_feed_changes(network->pending[i].feed, true, &changes);
        if (changes != network->pending[i].changes)
            return ls_raise(&network->session->context, LS_STALE,
                            "%s: what a backward pass reads was changed after ls_backward; call ls_clear_grad, and "
                            "change it after ls_trainer_step",
                            function);
    }
    if (arrays)
        ls_streams_wait(network->session);
    return LS_OK;
}

/* To the last update that was made: how many more had been handed in is a matter of time, and their moments half
 * there. */
static void go_back(ls_trainer *trainer)
{
    ls_engine_wait(trainer->network->engine);
    pthread_mutex_lock(&trainer->lock);
    trainer->network->updates = trainer->reported;
    pthread_mutex_unlock(&trainer->lock);
    trainer->restart = trainer->restart_average = true;
}

static ls_status check_network(const ls_trainer *trainer, const char *function)
{
    ls_network *network = trainer->network;
    if (network->root->network == network)
        return LS_OK;
    return ls_raise(&network->session->context, LS_NOT_INITIALIZED,
                    "%s: the network was initialized again after this trainer was made; make a new one", function);
}

ls_status ls_trainer_wait(ls_trainer *trainer, const char *function)
{
    ls_network *network = trainer->network;
    if (check_network(trainer, function) != LS_OK || ls_network_own_values(network, function) != LS_OK ||
        ls_network_wait(network) != LS_OK)
        return ls_status_of(network->session);
    if (network->n_pending)
        return ls_raise(
            &network->session->context, LS_STALE,
            "%s: the network has gradients that no update has used; call ls_trainer_step or ls_clear_grad first",
            function);
    if (atomic_exchange(&trainer->upset, 0))
        go_back(trainer);
    return network->defined ? prepare(trainer) : LS_OK;
}

float *ls_trainer_see_moments(ls_trainer *trainer)
{
    ls_network *network = trainer->network;
    const size_t n = (size_t)trainer->n_moments * network->flat.trainable;
    if (!trainer->moments || !ls_network_seen(network, trainer->moments, n, &trainer->seen_moments))
        return NULL;
    return ls_network_master_on_card(network) ? trainer->seen_moments : trainer->moments;
}

bool ls_trainer_has_average(const ls_trainer *trainer)
{
    return !trainer->restart_average && trainer->network->updates > trainer->began_average;
}

float *ls_trainer_moments(ls_trainer *trainer, int64_t *age, int64_t *averaged)
{
    const int64_t updates = trainer->network->updates;
    *age = trainer->restart ? 0 : updates - trainer->began;
    *averaged = ls_trainer_has_average(trainer) ? updates - trainer->began_average : 0;
    return *age || *averaged ? ls_trainer_see_moments(trainer) : NULL;
}

ls_status ls_trainer_restore(ls_trainer *trainer, int64_t step, const float *moments, int64_t age, int64_t averaged,
                             double lr)
{
    ls_network *network = trainer->network;
    if (prepare(trainer) != LS_OK)
        return ls_status_of(network->session);
    if (trainer->moments && moments && moments != trainer->moments)
        ls_network_put(network, trainer->moments, moments, (size_t)trainer->n_moments * network->flat.trainable);
    pthread_mutex_lock(&trainer->lock);
    trainer->reported = trainer->taken = trainer->network->updates = step;
    pthread_mutex_unlock(&trainer->lock);
    trainer->restart = trainer->restart_average = !moments;
    trainer->began = step - age;
    trainer->began_average = step - averaged;
    trainer->lr = lr < 0 ? trainer->options.lr : lr;
    trainer->has_lr |= lr >= 0;
    return LS_OK;
}

/* Whether there is a gradient to compute, from operands as they were, and room for it. */
static ls_status check_pending(ls_trainer *trainer, const char *function)
{
    ls_network *network = trainer->network;
    ls_session *session = network->session;
    if (check_network(trainer, function) == LS_OK)
        ls_network_own_values(network, function);
    if (!network->n_pending)
        ls_raise(&session->context, LS_STALE,
                 "%s: there is no fresh gradient; call ls_backward on a loss of this network first", function);
    if (ls_failed(session) || check_operands(network, function) != LS_OK || meet(trainer) != LS_OK)
        return ls_status_of(session);
    if (!network->flat.trainable)
        return ls_raise(&session->context, LS_BAD_ARGUMENT, "%s: the network has no parameter that trains", function);
    return prepare(trainer);
}

ls_status ls_trainer_idle(ls_trainer *trainer, const char *function)
{
    if (check_pending(trainer, function) != LS_OK || reserve_pool(trainer, 1, 1, 0, false) != LS_OK)
        return ls_status_of(trainer->session);
    return ls_network_wait(trainer->network);
}

/* What the step's sums will be divided by; the same on all ranks, as each has the whole batch's labels. */
static ls_status count(ls_step_job *step, const ls_network *network, const char *function)
{
    ls_step_count(step, network->n_pending);
    if (step->counted > 0)
        return LS_OK;
    return ls_raise(&network->session->context, LS_BAD_ARGUMENT,
                    "%s: no label of the batch counts: each is ignored, or of a class of weight 0", function);
}

static ls_status hand_in(ls_trainer *trainer, bool update, const char *function)
{
    ls_network *network = trainer->network;
    ls_session *session = network->session;
    if (check_pending(trainer, function) != LS_OK)
        return ls_status_of(session);
    ls_step_job *step = &trainer->steps[trainer->handed_in % LS_DEPTH];
    ls_engine_wait_job(network->engine, &step->job);
    if (take_parts(step, network) != LS_OK || ls_step_reserve(step, step->shards) != LS_OK ||
        count(step, network, function) != LS_OK || ls_exchange_reserve(step) != LS_OK ||
        reserve_pool(trainer, step->shards, step->mine, ls_cohorts_are_on(step) ? trainer->rooms.n : 0,
                     step->pulls.placed || session->trial.shuffle_pulls || ls_network_gathers(network)) != LS_OK ||
        measure(step, network, update ? trainer->profile : NULL) != LS_OK)
        return ls_status_of(session);
    if (atomic_exchange(&trainer->upset, 0))
        go_back(trainer);
    step->number = network->updates;
    step->update = update;
    if (update && trainer->restart)
        trainer->began = step->number;
    if (update && trainer->restart_average)
        trainer->began_average = step->number;
    trainer->restart &= !update;
    trainer->restart_average &= !update;
    ls_updates_begin(step, ls_learning_rate(&trainer->options, trainer->lr, step->number),
                     step->number - trainer->began, step->number - trainer->began_average);
    order_pulls(step, session->trial.shuffle_pulls);
    step->n_microbatches = network->n_pending;
    if (update)
        keep_parts(step, network);
    trainer->handed_in++;
    network->updates += update;
    network->version += update;
    ls_network_publish(network);
    network->host_stale |= update && ls_network_master_on_card(network);
    ls_step_submit(step);
    return LS_OK; /* not what the step may say already: that comes with the next call, always or never */
}

ls_status ls_trainer_step(ls_trainer *trainer)
{
    LS_OWN_ENVIRONMENT;
    if (!trainer)
        return LS_BAD_ARGUMENT;
    if (!trainer->has_lr && !ls_failed(trainer->session))
        return ls_raise(&trainer->session->context, LS_BAD_ARGUMENT,
                        "ls_trainer_step: there is no learning rate, as ls_optim.lr is 0, so that nothing would learn; "
                        "ls_trainer_set_lr gives one, also a 0 that is meant");
    return hand_in(trainer, true, "ls_trainer_step");
}

void ls_trainer_vote(ls_trainer *trainer, int number)
{
    if (trainer && number >= 0 && number < 1 << 23)
        atomic_store(&trainer->asked, number);
}

int ls_trainer_voted(ls_trainer *trainer)
{
    LS_OWN_ENVIRONMENT;
    if (!trainer || ls_context_is_parents(&trainer->session->context))
        return 0;
    if (ls_cluster_ranks(trainer->session->options.cluster) == 1)
        return atomic_load(&trainer->asked);
    ls_step_job *older = &trainer->steps[trainer->handed_in % LS_DEPTH]; /* the next step waits for it anyway */
    ls_engine_wait_job(trainer->network->engine, &older->job);
    return older->ending.asked;
}

static const float *seen_gradient(ls_trainer *trainer)
{
    ls_network *network = trainer->network;
    return ls_network_seen(network, trainer->gradient, network->flat.trainable, &trainer->seen_gradient);
}

/* Of the pending microbatches, without an update. */
static const float *gradient(ls_trainer *trainer)
{
    ls_network *network = trainer->network;
    if (meet(trainer) != LS_OK || prepare(trainer) != LS_OK || reserve_gradient(trainer) != LS_OK ||
        ls_network_wait(network) != LS_OK)
        return NULL;
    if (network->gradient_is_there && network->n_pending)
        return seen_gradient(trainer);
    if (hand_in(trainer, false, "ls_grad") != LS_OK)
        return NULL;
    network->gradient_is_there = ls_network_wait(network) == LS_OK;
    trainer->steps[(trainer->handed_in - 1) % LS_DEPTH].n_microbatches = 0; /* they are pending still */
    return network->gradient_is_there ? seen_gradient(trainer) : NULL;
}

ls_trainer *ls_trainer_new(ls_module *net, ls_optimizer kind, const ls_optim *options)
{
    LS_OWN_ENVIRONMENT;
    ls_network *network = ls_network_of(net, "ls_trainer_new");
    if (!network || (network->defined && ls_layout_check(network) != LS_OK))
        return NULL;
    ls_context *context = &network->session->context;
    const char *wrong = ls_optimizer_wrong(kind, options);
    if (!wrong && network->trainer)
        wrong = "the network has a trainer already; ls_trainer_set_lr changes its rate, ls_trainer_set_options all "
                "else, and ls_end, or leaving the scope that it was made in, ends it";
    if (wrong) {
        ls_raise(context, LS_BAD_ARGUMENT, "ls_trainer_new: %s", wrong);
        return NULL;
    }
    ls_trainer *trainer = ls_alloc(context, 1, sizeof *trainer, "a trainer");
    if (!trainer)
        return NULL;
    trainer->session = network->session;
    trainer->network = network;
    trainer->kind = kind;
    trainer->options = *options;
    trainer->lr = options->lr;
    trainer->has_lr = options->lr != 0;
    trainer->n_moments = ls_optimizer_moments(kind, options);
    pthread_mutex_init(&trainer->lock, NULL);
    network->gradient = gradient;
    network->trainer =
        ls_own_of(network->session, trainer, network, free_trainer); /* the session frees it before the network */
    return network->trainer;
}

int64_t ls_trainer_reports_lost(ls_trainer *trainer)
{
    LS_OWN_ENVIRONMENT;
    if (!trainer || ls_context_is_parents(&trainer->session->context))
        return 0;
    pthread_mutex_lock(&trainer->lock);
    const int64_t lost = trainer->lost;
    pthread_mutex_unlock(&trainer->lock);
    return lost;
}

bool ls_trainer_next_report(ls_trainer *trainer, ls_report *report)
{
    LS_OWN_ENVIRONMENT;
    if (!trainer || !report || ls_context_is_parents(&trainer->session->context))
        return false;
    pthread_mutex_lock(&trainer->lock);
    bool there = trainer->taken < trainer->reported;
    if (there)
        *report = trainer->reports[trainer->taken++ % LS_REPORTS];
    pthread_mutex_unlock(&trainer->lock);
    return there;
}
