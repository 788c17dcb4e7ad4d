/* The trainer: hands steps in, at most two at a time, and keeps what lives from step to step. */
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "data/data.h"
#include "optim/schedule.h"
#include "parallel/step.h"

static void free_trainer(void *object)
{
    ls_trainer *trainer = object;
    ls_context *context = &trainer->network->session->context;
    ls_engine_wait(trainer->network->engine);
    for (int i = 0; i < LS_DEPTH; i++)
        ls_step_destroy(&trainer->steps[i]);
    for (int i = 0; i < trainer->n_pool; i++)
        ls_release(context, trainer->pool[i]);
    ls_release(context, trainer->pool);
    ls_release(context, trainer->free_buffers);
    ls_release(context, trainer->velocity);
    ls_release(context, trainer->gradient);
    pthread_mutex_destroy(&trainer->lock);
    ls_release(context, trainer);
}

static const char *wrong_option(const ls_optim *o)
{
    if (!(o->lr >= 0 && o->lr < 1e30))
        return "lr must be finite and at least 0";
    if (!(o->momentum >= 0 && o->momentum < 1e30) || !(o->weight_decay >= 0 && o->weight_decay < 1e30))
        return "momentum and weight_decay must be finite and at least 0";
    if (o->nesterov && o->momentum == 0)
        return "nesterov needs a momentum";
    if ((int)o->schedule < LS_CONSTANT || (int)o->schedule > LS_COSINE)
        return "there is no such schedule";
    if (o->warmup < 0 || o->total < 0 || (o->schedule != LS_CONSTANT && o->total == 0))
        return "warmup must be at least 0, and the step and cosine schedules need total";
    return NULL;
}

ls_trainer *ls_trainer_new(ls_module *net, ls_optimizer kind, const ls_optim *options)
{
    ls_network *network = ls_network_of(net, "ls_trainer_new");
    if (!network)
        return NULL;
    ls_context *context = &network->session->context;
    const char *wrong = kind != LS_SGD ? "there is no such optimizer"
                        : options      ? wrong_option(options)
                                       : "options are NULL";
    if (!wrong && network->trainer)
        wrong = "the network has a trainer already";
    if (wrong) {
        ls_raise(context, LS_BAD_ARGUMENT, "ls_trainer_new: %s", wrong);
        return NULL;
    }
    ls_trainer *trainer = ls_alloc(context, 1, sizeof *trainer, "a trainer");
    if (!trainer)
        return NULL;
    trainer->network = network;
    trainer->options = *options;
    pthread_mutex_init(&trainer->lock, NULL);
    network->trainer = ls_own(network->session, trainer, free_trainer); /* the session frees it before the network */
    bool good = network->trainer != NULL;
    for (int i = 0; i < LS_DEPTH && good; i++)
        good = ls_step_init(&trainer->steps[i], trainer) == LS_OK;
    if (good && options->momentum != 0)
        good = (trainer->velocity = ls_alloc(context, network->flat.trainable, sizeof(float), "the momentum")) != NULL;
    return good ? trainer : NULL;
}

/* ---- The batch ---- */

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

/* The images of the smallest shard of a batch. */
static int smallest_shard(int rows, int shard)
{
    return rows % shard ? rows % shard : smaller(rows, shard);
}

static ls_status check_rows(const ls_trainer *trainer, int rows, const char *function)
{
    const ls_network *network = trainer->network;
    const ls_plan *plan = network->train;
    int images = smallest_shard(rows, network->shard);
    if (!plan->min_places || (int64_t)images * plan->min_places >= 2)
        return LS_OK;
    return ls_raise(&network->session->context, LS_BAD_SHAPE,
                    "%s: a batch of %d in shards of %d leaves a shard of one image, and BatchNorm %s would see a "
                    "single value of each "
                    "channel (maps of 1 x 1); choose another batch, shard or limit",
                    function, rows, network->shard, plan->min_layer);
}

ls_status ls_check_batches(ls_trainer *trainer, const ls_data *data)
{
    if (!trainer)
        return LS_BAD_ARGUMENT;
    ls_network *network = trainer->network;
    if (ls_failed(network->session) || ls_network_takes(network, data, "ls_check_batches") != LS_OK)
        return ls_status_of(network->session);
    int rows = (int)(data->rows < data->batch ? data->rows : data->batch), last = (int)(data->rows % data->batch);
    if (ls_network_train_plan(network, smaller(rows, network->shard)) != LS_OK)
        return ls_status_of(network->session);
    ls_status status = check_rows(trainer, rows, "ls_check_batches");
    return status == LS_OK && last ? check_rows(trainer, last, "ls_check_batches") : status;
}

static int ceil_log2(int n)
{
    int levels = 0;
    while ((1 << levels) < n)
        levels++;
    return levels;
}

/* As many partial gradients as can be of use: one for each core at work, and the unfinished edges of the tree. */
static ls_status reserve_pool(ls_trainer *trainer, int shards)
{
    ls_network *network = trainer->network;
    ls_context *context = &network->session->context;
    int wanted = network->engine->n_cores + 2 * ceil_log2(shards);
    if (wanted > shards || network->session->options.shuffle_pulls)
        wanted = shards; /* shuffled pulls may leave no two finished neighbours until the end */
    if (wanted <= trainer->n_pool)
        return LS_OK;
    ls_engine_wait(network->engine);
    if (wanted > trainer->pool_capacity) {
        float **pool = ls_alloc(context, (size_t)wanted, sizeof *pool, "the pool of gradients");
        int *free_buffers = ls_alloc(context, (size_t)wanted, sizeof *free_buffers, "the pool of gradients");
        if (!pool || !free_buffers) {
            ls_release(context, pool);
            ls_release(context, free_buffers);
            return LS_OUT_OF_MEMORY;
        }
        if (trainer->n_pool)
            memcpy(pool, trainer->pool, (size_t)trainer->n_pool * sizeof *pool);
        ls_release(context, trainer->pool);
        ls_release(context, trainer->free_buffers);
        trainer->pool = pool;
        trainer->free_buffers = free_buffers;
        trainer->pool_capacity = wanted;
    }
    for (; trainer->n_pool < wanted; trainer->n_pool++) {
        trainer->pool[trainer->n_pool] =
            ls_alloc(context, network->flat.trainable, sizeof(float), "a partial gradient");
        if (!trainer->pool[trainer->n_pool])
            return LS_OUT_OF_MEMORY;
    }
    return LS_OK;
}

static void order_pulls(ls_step_job *step, uint64_t seed)
{
    for (int i = 0; i < step->shards; i++)
        step->order[i] = i;
    ls_stream stream = {.seed = seed, .purpose = LS_FOR_PULLS, .epoch = (uint64_t)step->number};
    for (int i = step->shards - 1; seed && i > 0; i--) {
        int j = (int)(ls_random_u32(&stream, (uint64_t)i) % (uint32_t)(i + 1)), swapped = step->order[i];
        step->order[i] = step->order[j];
        step->order[j] = swapped;
    }
}

static ls_status check_batch(const ls_batch *batch, ls_network *network, const char *function)
{
    ls_context *context = &network->session->context;
    if (!batch || !batch->index || batch->rows < 1)
        return ls_raise(context, LS_BAD_ARGUMENT, "%s: the batch is empty", function);
    if (ls_network_takes(network, batch->data, function) != LS_OK)
        return ls_status_of(network->session);
    for (int i = 0; i < batch->rows; i++)
        if (batch->index[i] >= batch->data->rows)
            return ls_raise(context, LS_BAD_ARGUMENT, "%s: the batch names sample %u of %lld", function,
                            batch->index[i], (long long)batch->data->rows);
    return LS_OK;
}

static ls_status hand_in(ls_trainer *trainer, const ls_batch *batch, bool update, const char *function)
{
    ls_network *network = trainer->network;
    ls_session *session = network->session;
    if (network->root->network != network)
        ls_raise(&session->context, LS_NOT_INITIALIZED,
                 "%s: the network was initialized again after this trainer was made; make a new one", function);
    if (ls_failed(session) || check_batch(batch, network, function) != LS_OK)
        return ls_status_of(session);
    int rows = batch->rows, shards = (rows + network->shard - 1) / network->shard;
    ls_step_job *step = &trainer->steps[trainer->handed_in % LS_DEPTH];
    ls_engine_wait_job(network->engine, &step->job);
    if (ls_network_train_plan(network, smaller(rows, network->shard)) != LS_OK ||
        check_rows(trainer, rows, function) != LS_OK || reserve_pool(trainer, shards) != LS_OK ||
        ls_step_reserve(step, rows, shards) != LS_OK)
        return ls_status_of(session);
    const ls_optim *o = &trainer->options;
    step->data = batch->data;
    step->rows = rows;
    step->shards = shards;
    step->shard = network->shard;
    step->number = trainer->updates;
    step->update = update;
    step->how = (ls_sgd){.rows = (float)rows,
                         .lr = (float)ls_learning_rate(o, step->number),
                         .momentum = (float)o->momentum,
                         .weight_decay = (float)o->weight_decay,
                         .nesterov = o->nesterov,
                         .first = step->number == 0};
    memcpy(step->index, batch->index, (size_t)rows * sizeof *step->index);
    order_pulls(step, session->options.shuffle_pulls);
    trainer->handed_in++;
    trainer->updates += update;
    ls_step_submit(step);
    return LS_OK;
}

ls_status ls_step(ls_trainer *trainer, const ls_batch *batch)
{
    return trainer ? hand_in(trainer, batch, true, "ls_step") : LS_BAD_ARGUMENT;
}

ls_status ls_gradient(ls_trainer *trainer, const ls_batch *batch)
{
    if (!trainer)
        return LS_BAD_ARGUMENT;
    ls_network *network = trainer->network;
    if (!trainer->gradient)
        trainer->gradient =
            ls_alloc(&network->session->context, network->flat.trainable, sizeof(float), "the gradient");
    if (trainer->gradient)
        hand_in(trainer, batch, false, "ls_gradient");
    return ls_network_settle(network);
}

bool ls_next_report(ls_trainer *trainer, ls_report *report)
{
    if (!trainer || !report)
        return false;
    pthread_mutex_lock(&trainer->lock);
    bool there = trainer->taken < trainer->reported;
    if (there)
        *report = trainer->reports[trainer->taken++ % LS_REPORTS];
    pthread_mutex_unlock(&trainer->lock);
    return there;
}
