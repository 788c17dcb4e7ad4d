#include "model/program.h"

#include <stdio.h>
#include <string.h>

#include "comm/tree.h"
#include "exec/copies.h"

enum { MOST_PROGRAMS = 256 };

/* ---- Programs ---- */

static void free_program(ls_program *program)
{
    ls_context *context = &program->session->context;
    while (program->plan) {
        ls_plan *plan = program->plan;
        program->plan = plan->older;
        ls_plan_free(plan);
    }
    ls_flat_destroy(&program->own_flat);
    ls_release(context, program->key);
    ls_release(context, program);
}

void ls_programs_free(ls_session *session, const struct ls_network *network)
{
    ls_program **at = &session->programs;
    while (*at) {
        ls_program *program = *at;
        if (network && program->network != network) {
            at = &program->next;
            continue;
        }
        *at = program->next;
        free_program(program);
    }
}

static bool is_of(const ls_program *program, const ls_trace *trace, ls_wanted wanted, bool has_dy)
{
    return program->key_length == trace->key_length && program->wanted == wanted && program->has_dy == has_dy &&
           memcmp(program->key, trace->key, (size_t)trace->key_length * sizeof *trace->key) == 0;
}

/* Moves it to the head of the list, so that the tail was used longest ago. */
static ls_program *find(const ls_trace *trace, ls_wanted wanted, bool has_dy)
{
    for (ls_program **at = &trace->session->programs; *at; at = &(*at)->next) {
        ls_program *program = *at;
        if (!is_of(program, trace, wanted, has_dy))
            continue;
        *at = program->next;
        program->next = trace->session->programs;
        return trace->session->programs = program;
    }
    return NULL;
}

/* A loop may make a new computation each time, by a factor that changes for one: what was used longest ago goes. */
static void forget_oldest(ls_session *session)
{
    int n = 0;
    ls_program **oldest = NULL;
    for (ls_program **at = &session->programs; *at; at = &(*at)->next)
        if (++n >= MOST_PROGRAMS && atomic_load(&(*at)->feeds) == 0)
            oldest = at;
    if (!oldest)
        return;
    ls_program *program = *oldest;
    *oldest = program->next;
    free_program(program);
}

/* A pass for rows, losses or gradients of inputs alone goes from shard to shard, and cannot meet. */
static bool meets(const ls_program *program)
{
    return program->wanted == LS_WANT_PARAMETERS;
}

static ls_plan *make_plan(ls_program *program, const ls_trace *trace, int images, const ls_backend *backend)
{
    ls_request request = {.backend = backend,
                          .wanted = program->wanted,
                          .has_dy = program->has_dy,
                          .flat = program->network ? trace->call->forward.flat : &program->own_flat,
                          .training = program->network && trace->call->forward.training};
    request.together = request.training && ls_statistics_meet(trace->session);
    ls_graph *graph = ls_lower(trace, &request, &program->flowing);
    ls_plan *plan = graph ? ls_plan_new(graph, images) : NULL;
    if (plan && plan->n_meetings && !meets(program)) {
        ls_raise(
            &trace->session->context, LS_UNSUPPORTED,
            "%s: statistics over the batch, or over shards of it, are for ls_backward and ls_trainer_step alone; a "
            "pass in training mode for anything else needs ls_options.batch_norm to be 0",
            plan->steps[plan->meetings[0].step].layer);
        ls_plan_free(plan);
        plan = NULL;
    }
    ls_graph_free(graph);
    return plan;
}

static ls_status make_plans(ls_program *program, const ls_trace *trace, int images, const ls_backend *const backends[],
                            int n)
{
    ls_plan *newest = program->plan; /* work in flight may still run by it */
    for (int i = 0; i < n; i++) {
        ls_plan *plan = make_plan(program, trace, images, backends[i]);
        while (!plan && newest != program->plan) {
            ls_plan *made = newest;
            newest = made->older;
            ls_plan_free(made);
        }
        if (!plan)
            return ls_status_of(trace->session);
        plan->older = newest;
        newest = plan;
    }
    program->plan = newest;
    return LS_OK;
}

static bool has_plans(const ls_program *program, int images, const ls_backend *const backends[], int n)
{
    for (int i = 0; i < n; i++) {
        const ls_plan *plan = ls_plan_for(program->plan, backends[i]);
        if (!plan || plan->capacity < images)
            return false;
    }
    return true;
}

static ls_program *new_program(const ls_trace *trace, ls_wanted wanted, bool has_dy)
{
    ls_session *session = trace->session;
    ls_context *context = &session->context;
    ls_program *program = ls_alloc(context, 1, sizeof *program, "a computation");
    uint32_t *key = program ? ls_alloc(context, (size_t)trace->key_length, sizeof *key, "a computation") : NULL;
    if (!key) {
        ls_release(context, program);
        return NULL;
    }
    memcpy(key, trace->key, (size_t)trace->key_length * sizeof *key);
    *program = (ls_program){.session = session,
                            .next = session->programs,
                            .key = key,
                            .key_length = trace->key_length,
                            .network = trace->call ? trace->call->network : NULL,
                            .wanted = wanted,
                            .has_dy = has_dy};
    ls_flat_init(&program->own_flat, context);
    const ls_shape *shape = &trace->order[trace->n - 1]->shape;
    int c, h, w;
    program->output_numbers = shape->rank ? (int)ls_shape_image(shape, &c, &h, &w) : 1;
    return session->programs = program;
}

ls_program *ls_program_of(ls_trace *trace, ls_wanted wanted, bool has_dy, int images,
                          const ls_backend *const backends[], int n)
{
    ls_program *program = find(trace, wanted, has_dy);
    if (!program) {
        forget_oldest(trace->session);
        program = new_program(trace, wanted, has_dy);
    }
    if (!program)
        return NULL;
    if (has_plans(program, images, backends, n))
        return program;
    return make_plans(program, trace, images, backends, n) == LS_OK ? program : NULL;
}

/* ---- Feeds ---- */

static ls_status make_room(ls_feed *feed, ls_context *context, int arrays)
{
    if (arrays <= feed->arrays_capacity)
        return LS_OK;
    size_t n = (size_t)arrays;
    ls_release(context, feed->arrays);
    ls_release(context, feed->array_offsets);
    ls_release(context, feed->pointers);
    feed->arrays = ls_alloc(context, n, sizeof *feed->arrays, "a computation's operands");
    feed->array_offsets = ls_alloc(context, n, sizeof *feed->array_offsets, "a computation's operands");
    feed->pointers = ls_alloc(context, n, sizeof *feed->pointers, "a computation's operands");
    bool good = feed->arrays && feed->array_offsets && feed->pointers;
    feed->arrays_capacity = good ? arrays : 0;
    return good ? LS_OK : LS_OUT_OF_MEMORY;
}

static ls_sample_list hold_samples(const ls_tensor *t)
{
    ls_sample_list list = t->batch.list;
    ls_samples_hold(&list);
    return list;
}

static ls_feed *take(ls_session *session)
{
    pthread_mutex_lock(&session->feeds_lock);
    ls_feed *feed = session->feeds;
    if (feed)
        session->feeds = feed->next_feed;
    pthread_mutex_unlock(&session->feeds_lock);
    return feed ? feed : ls_alloc(&session->context, 1, sizeof *feed, "a computation's operands");
}

/* The numbers of an operand where `device` computes, held. NULL after a failure, which the session has. */
static ls_array *numbers_of(const ls_tensor *t, size_t *offset, ls_device device)
{
    *offset = t->offset;
    return ls_numbers_at(t->session, ls_array_of(t), offset, (size_t)ls_shape_numbers(&t->shape), device);
}

static void add_input(ls_feed *feed, const ls_tensor *t, ls_device device)
{
    int c, h, w;
    size_t offset;
    ls_array *array = ls_array_of(t) ? numbers_of(t, &offset, device) : NULL;
    if (!array)
        return;
    feed->inputs[feed->n_inputs] = array;
    feed->input_offset[feed->n_inputs] = offset;
    feed->input_numbers[feed->n_inputs++] = (size_t)ls_shape_image(&t->shape, &c, &h, &w);
}

static void add_array(ls_feed *feed, const ls_tensor *t, ls_device device)
{
    ls_array *array = numbers_of(t, &feed->array_offsets[feed->n_arrays], device);
    if (array)
        feed->arrays[feed->n_arrays++] = array;
}

/* Whoever hands a shard in reads its labels, on the host. */
static void add_labels(ls_feed *feed, const ls_trace *trace)
{
    feed->classes = trace->classes;
    feed->labels_each = trace->labels_each;
    feed->ignored = trace->ignored;
    if (trace->labels && trace->labels->kind == LS_TENSOR_LABELS) {
        feed->labels = hold_samples(trace->labels);
        feed->first_label = trace->labels->batch.first;
    } else if (trace->labels) {
        feed->label_array = numbers_of(trace->labels, &feed->label_offset, ls_host());
    }
}

/* What an image counts in the mean of a step's losses. */
static void count_losses(ls_feed *feed, const ls_trace *trace)
{
    const ls_tensor *loss = ls_counted_loss(trace->order[trace->n - 1]);
    const ls_tensor *weights = loss && loss->in[1] ? loss->in[2] : NULL;
    int c, h, w;
    feed->counts = 1;
    if (loss)
        feed->counts = (ls_shape_image(&loss->in[0]->shape, &c, &h, &w), h * w);
    feed->counts_labels = trace->labels && loss && loss->in[1] && (weights || loss->computed.ignored.there);
    feed->class_weights = -1;
    for (int k = 0; k < trace->n_arrays && weights; k++)
        if (trace->arrays[k] == weights)
            feed->class_weights = k;
}

ls_feed *ls_feed_new(ls_program *program, const ls_trace *trace, int64_t rows, ls_tensor *dy, ls_device device)
{
    ls_session *session = trace->session;
    int64_t shards = (rows + session->options.shard - 1) / session->options.shard;
    if (shards > (int64_t)1 << (LS_TREE_LEVELS - 1)) {
        ls_raise(&session->context, LS_UNSUPPORTED,
                 "%lld shards are more than the %d that a sum takes; larger ones are fewer", (long long)shards,
                 1 << (LS_TREE_LEVELS - 1));
        return NULL;
    }
    ls_feed *feed = take(session);
    if (!feed)
        return NULL;
    feed->program = program;
    atomic_fetch_add(&program->feeds, 1);
    feed->plan = program->plan;
    feed->rows = rows;
    feed->shard = session->options.shard;
    feed->shards = (int)shards;
    feed->one = 1;
    if (make_room(feed, &session->context, trace->n_arrays) != LS_OK ||
        trace->n_inputs + (dy != NULL) > LS_MAX_INPUTS) {
        ls_raise(&session->context, LS_UNSUPPORTED, "this computation reads too many arrays of images");
        ls_feed_give(feed);
        return NULL;
    }
    for (int k = 0; k < trace->n_inputs; k++)
        add_input(feed, trace->inputs[k], device);
    if (dy)
        add_input(feed, dy, device);
    memcpy(feed->input_ids, trace->input_ids, sizeof feed->input_ids);
    if (trace->images) {
        int c, h, w;
        feed->images = hold_samples(trace->images);
        feed->first_image = trace->images->batch.first;
        feed->image_ids = trace->image_ids;
        feed->image_numbers = (size_t)ls_shape_image(&trace->images->shape, &c, &h, &w);
    }
    add_labels(feed, trace);
    count_losses(feed, trace);
    for (int k = 0; k < trace->n_arrays; k++)
        add_array(feed, trace->arrays[k], device);
    if (!ls_failed(session))
        return feed;
    ls_feed_give(feed);
    return NULL;
}

void ls_feed_give(ls_feed *feed)
{
    ls_program *program = feed->program;
    ls_session *session = program->session;
    ls_samples_drop(&feed->images);
    ls_samples_drop(&feed->labels);
    ls_array_drop(feed->label_array);
    for (int k = 0; k < feed->n_inputs; k++)
        ls_array_drop(feed->inputs[k]);
    for (int k = 0; k < feed->n_arrays; k++)
        ls_array_drop(feed->arrays[k]);
    *feed = (ls_feed){.arrays = feed->arrays,
                      .array_offsets = feed->array_offsets,
                      .pointers = feed->pointers,
                      .arrays_capacity = feed->arrays_capacity};
    atomic_fetch_sub(&program->feeds, 1);
    pthread_mutex_lock(&session->feeds_lock);
    feed->next_feed = session->feeds;
    session->feeds = feed;
    pthread_mutex_unlock(&session->feeds_lock);
}

void ls_feeds_free(ls_session *session)
{
    while (session->feeds) {
        ls_feed *feed = session->feeds;
        session->feeds = feed->next_feed;
        ls_release(&session->context, feed->arrays);
        ls_release(&session->context, feed->array_offsets);
        ls_release(&session->context, feed->pointers);
        ls_release(&session->context, feed);
    }
}

bool ls_feed_changes(ls_feed *feed, bool in_step, uint64_t *changes)
{
    *changes = 0;
    for (int k = 0; k < feed->n_inputs + feed->n_arrays + (feed->label_array != NULL); k++) {
        int weight = k - feed->n_inputs;
        ls_array *array = weight < 0                ? feed->inputs[k]
                          : weight < feed->n_arrays ? feed->arrays[weight]
                                                    : feed->label_array;
        *changes += array->version;
        array->in_step |= in_step;
    }
    return feed->n_inputs || feed->n_arrays || feed->label_array;
}

void ls_feed_locate(ls_feed *feed)
{
    for (int k = 0; k < feed->n_arrays; k++)
        feed->pointers[k] = feed->arrays[k]->data + feed->array_offsets[k];
}

/* ---- Labels ---- */

enum { IGNORED = -1, NO_CLASS = -2 };

/* Label i as it was given; those of a data set may be of more classes than the logits have. */
static float given_label(const ls_feed *feed, int64_t i)
{
    return ls_has_labels(&feed->labels) ? (float)ls_label_at(&feed->labels, feed->first_label + i)
                                        : feed->label_array->data[feed->label_offset + (size_t)i];
}

static int32_t label_of(const ls_feed *feed, int64_t i)
{
    const float label = given_label(feed, i);
    if (feed->ignored.there && (double)label == (double)feed->ignored.label)
        return IGNORED;
    const bool good = label >= 0 && label < (float)feed->classes && label == (float)(int32_t)label;
    return good ? (int32_t)label : NO_CLASS;
}

static int32_t checked_label(const ls_feed *feed, int64_t i)
{
    const int32_t label = label_of(feed, i);
    if (label != NO_CLASS)
        return label;
    ls_context *context = &feed->program->session->context;
    const int64_t each = feed->labels_each;
    const bool of_data = ls_has_labels(&feed->labels);
    char place[32] = "";
    if (each > 1)
        snprintf(place, sizeof place, ", place %lld,", (long long)(i % each));
    ls_raise(
        context, LS_BAD_ARGUMENT,
        "the label of %s %lld%s is %g; the logits have the classes 0 to %d, and labels are whole numbers: make the "
        "network's last size larger, or say by ls_loss.ignore which label counts nothing",
        of_data ? "the data's image" : "row",
        of_data ? (long long)ls_sample_at(&feed->labels, feed->first_label + i) : (long long)(i / each), place,
        given_label(feed, i), feed->classes - 1);
    atomic_store(&feed->program->session->broken, true);
    return 0;
}

double ls_feed_counted(const ls_feed *feed, int j)
{
    const int64_t images = ls_feed_count(feed, j), each = feed->labels_each, first = (int64_t)j * feed->shard * each;
    if (!feed->counts_labels)
        return (double)(images * feed->counts);
    const int k = feed->class_weights;
    const float *weights = k < 0 ? NULL : feed->arrays[k]->data + feed->array_offsets[k];
    double sum = 0;
    for (int64_t i = first; i < first + images * each; i++) {
        const int32_t label = label_of(feed, i);
        if (label >= 0) /* what is no class is refused when the shard is handed in */
            sum += weights ? weights[label] : 1;
    }
    return sum;
}

/* ---- Ids ---- */

/* The numbers of one image that an embedding looks up: floats, or bytes where those are NULL. */
static void check_ids(const ls_feed *feed, const float *floats, const uint8_t *bytes, size_t n, int below,
                      int64_t image)
{
    ls_session *session = feed->program->session;
    for (size_t i = 0; i < n; i++) {
        const float id = floats ? floats[i] : (float)bytes[i] / 255.0f;
        if (ls_table_row(id, below) >= 0)
            continue;
        ls_raise(&session->context, LS_BAD_ARGUMENT,
                 "ls_embedding: number %zu of image %lld is %g; the table has the rows 0 to %d", i, (long long)image,
                 id, below - 1);
        atomic_store(&session->broken, true);
        return;
    }
}

/* Those that the host has: of images that come as they are, and of arrays in its memory. */
static void check_all_ids(const ls_feed *feed, int64_t first, int count)
{
    const size_t n = feed->image_numbers;
    for (int i = 0; i < count && feed->image_ids; i++) {
        const uint32_t sample = ls_sample_at(&feed->images, feed->first_image + first + i);
        const float *floats = feed->images.floats ? (const float *)feed->images.images + sample * n : NULL;
        const uint8_t *bytes = floats ? NULL : (const uint8_t *)feed->images.images + sample * n;
        check_ids(feed, floats, bytes, n, feed->image_ids, sample);
    }
    for (int k = 0; k < feed->n_inputs; k++) {
        const ls_array *array = feed->inputs[k];
        const size_t each = feed->input_numbers[k];
        for (int i = 0; i < count && feed->input_ids[k] && !array->pool->executor; i++)
            check_ids(feed, array->data + feed->input_offset[k] + (size_t)(first + i) * each, NULL, each,
                      feed->input_ids[k], first + i);
    }
}

static void gather(const ls_feed *feed, int64_t first, int count, ls_turn *turn)
{
    const int64_t each = feed->labels_each;
    /* Dropout asks for the number of each image. Where the images come from no data set it is their place in the
     * batch. */
    for (int i = 0; i < count; i++) {
        const int64_t row = first + i;
        turn->index[i] = feed->images.images ? ls_sample_at(&feed->images, feed->first_image + row) : (uint32_t)row;
    }
    for (int i = 0; i < count && feed->images.changes; i++)
        turn->changes[i] = ls_change_at(&feed->images, feed->first_image + first + i);
    for (int64_t i = 0; i < count * each && (ls_has_labels(&feed->labels) || feed->label_array); i++)
        turn->labels[i] = checked_label(feed, first * each + i);
}

bool ls_feed_run(const ls_feed *feed, int j, ls_turn *turn, ls_bindings *bindings, uint64_t step,
                 void (*whole)(void *user, int bucket), void *user)
{
    const ls_program *program = feed->program;
    int64_t first = (int64_t)j * feed->shard;
    int count = ls_feed_count(feed, j);
    const ls_room *room = ls_turn_room(turn);
    gather(feed, first, count, turn);
    check_all_ids(feed, first, count);
    ls_samples samples = {.images = feed->images.images,
                          .floats = feed->images.floats,
                          .image_bytes = feed->images.image_bytes,
                          .owner = feed->images.owner,
                          .index = turn->index,
                          .changes = feed->images.changes ? turn->changes : NULL,
                          .labels = turn->labels,
                          .labels_each = feed->labels_each,
                          .count = count,
                          .seed = program->session->options.seed,
                          .step = step,
                          .one = feed->one};
    for (int k = 0; k < feed->n_inputs; k++)
        samples.rows[k] = feed->inputs[k]->data + feed->input_offset[k] + (size_t)first * feed->input_numbers[k];
    bindings->executor = turn->executor;
    bindings->base[LS_IN_ARENA] = room->arena;
    bindings->arrays = feed->pointers;
    bindings->scratch = room->scratch;
    return ls_plan_run(ls_feed_plan(feed, turn), bindings, &samples, whole, user);
}
