/* The plugin for cards with a card that is the host: the table of operations and the launches are the plugin's own, the
 * kernels run by emulate.h, cuBLAS and cuDNN are loops (libraries.c). Each card has a memory of its own (memory.h), and
 * whoever hands it an address of another's, or the host's, is stopped by name; and it does what it was handed when
 * somebody waits for it (later.h). What is not tested this way is said in docs/gpu.md. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/cuda/card.h"
#include "later.h"
#include "memory.h"
#include "stream.h"

/* ---- What the operations call ---- */

bool ls_card_good(ls_card *card, cudaError_t error, const char *what)
{
    return error == cudaSuccess || ls_card_fail(card, LS_INTERNAL, what, "");
}

bool ls_card_fail(ls_card *card, ls_status status, const char *what, const char *why)
{
    snprintf(card->message, sizeof card->message, "%s failed: %s", what, why);
    card->executor.status = status;
    return false;
}

ls_card *ls_card_of(ls_executor *executor)
{
    return (ls_card *)executor;
}

ls_card *ls_card_in_main(ls_executor *executor)
{
    return ls_card_of(executor);
}

/* A card's memory, -1 the host's, is where this has to lie. */
static void expect(int card, const void *at, const char *what)
{
    const int owner = emulated_owner(at);
    if (!at || owner == card)
        return;
    fprintf(stderr, "emulated cards: %s of card %d is handed memory of %d (-1: the host)\n", what, card, owner);
    abort();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    static int some;
    (void)flags;
    *event = (cudaEvent_t)(void *)&some;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    (void)event, (void)stream;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    emulated_enter();
    memset(to, value, bytes);
    emulated_leave();
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    (void)stream;
    if (kind == cudaMemcpyHostToDevice)
        expect(-1, from, "a copy from the host");
    emulated_enter();
    memcpy(to, from, bytes);
    emulated_leave();
    return cudaSuccess;
}

enum { CARDS = 3 };

/* ---- The executor: a memory apart from the host's, and work that is done when somebody waits for it ---- */

typedef struct emulated {
    ls_card card; /* first */
    emulated_stream stream;
    struct {
        struct {
            float *host, *there;
            size_t n;
        } pending[LS_CARD_PENDING];
        int n_pending, broken;
    } results[2];
    int open;        /* results of what is handed in now */
    size_t recorded; /* where the others end */
    int asked;
    bool *recorded_finite; /* NULL: there are none */
    double marks[LS_MOST_MARKS];
    int n_marks;
    later *queue;
    pthread_mutex_t lock; /* of what follows: memory that was given back while work with it may be left */
    void **released;
    size_t n_released;
} emulated;

static int number_of(const ls_executor *executor)
{
    return executor->memory - 1;
}

static void *allocate(ls_executor *executor, size_t bytes)
{
    return emulated_allocate(number_of(executor), bytes);
}

/* By any thread, at any time. */
static void release(ls_executor *executor, void *memory)
{
    emulated *e = (emulated *)executor;
    pthread_mutex_lock(&e->lock);
    e->released = realloc(e->released, (e->n_released + 1) * sizeof *e->released);
    e->released[e->n_released++] = memory;
    pthread_mutex_unlock(&e->lock);
}

/* Waits, as far as there is something to wait for. */
static void flush(ls_executor *executor)
{
    emulated *e = (emulated *)executor;
    if (executor->waits)
        executor->waits(executor->waits_user, true);
    later_flush(e->queue);
    if (executor->waits)
        executor->waits(executor->waits_user, false);
    ls_card_look_at_link(&e->card);
    pthread_mutex_lock(&e->lock);
    while (e->n_released > 0)
        emulated_release(e->released[--e->n_released]);
    pthread_mutex_unlock(&e->lock);
}

static const char *try_group(ls_executor *executor, double seconds)
{
    const ls_card *card = (ls_card *)executor;
    (void)seconds; /* emulated NCCL gives up by itself */
    flush(executor);
    return card->links->failure(card->link);
}

static void move(void *to, const void *from, size_t bytes)
{
    emulated_enter();
    if (bytes)
        memcpy(to, from, bytes);
    emulated_leave();
}

static void put(ls_executor *executor, void *to, const void *from, size_t bytes)
{
    expect(number_of(executor), to, "what a copy writes");
    expect(-1, from, "what is put");
    flush(executor);
    move(to, from, bytes);
}

static void get(ls_executor *executor, void *to, const void *from, size_t bytes)
{
    expect(-1, to, "what is gotten");
    expect(number_of(executor), from, "what a copy reads");
    flush(executor);
    move(to, from, bytes);
}

/* What is done later, with copies of what it was called with. */
typedef struct piece {
    emulated *e;
    ls_terms terms;
    void *to;
    const void *from;
    float *moments;
    size_t n;
    ls_update how;
    int mark, *broken;
} piece;

static void do_later(ls_executor *executor, void (*work)(void *payload), piece p)
{
    p.e = (emulated *)executor;
    later_do(p.e->queue, work, &p, sizeof p);
}

static void move_now(void *payload)
{
    const piece *p = payload;
    move(p->to, p->from, p->n);
}

static void do_for_stream(emulated_stream *stream, void (*work)(void *payload), const void *payload, size_t size)
{
    emulated *e = (emulated *)(void *)((char *)stream - offsetof(emulated, stream));
    later_do(e->queue, work, payload, size);
}

static void zero_now(void *payload)
{
    const piece *p = payload;
    cudaMemsetAsync(p->to, 0, p->n, NULL);
}

static void sum_now(void *payload)
{
    const piece *p = payload;
    ls_cuda_sum(NULL, &p->terms, p->to, p->n);
}

static void update_now(void *payload)
{
    const piece *p = payload;
    ls_cuda_update(NULL, &p->terms, p->to, p->from, p->moments, p->n, &p->how, p->broken);
}

static void mark_now(void *payload)
{
    const piece *p = payload;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    p->e->marks[p->mark] = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Between cards, of which the executor's is one. */
static void copy(ls_executor *executor, void *to, const void *from, size_t bytes)
{
    if (emulated_owner(to) != number_of(executor))
        expect(number_of(executor), from, "a copy between cards");
    if (emulated_owner(to) < 0)
        expect(number_of(executor), to, "a copy between cards");
    if (emulated_owner(from) < 0)
        expect(number_of(executor), from, "a copy between cards");
    const char *lost = getenv("EMULATED_LOST"); /* the name of a card; for tests of programs */
    if (lost && strcmp(lost, executor->name) == 0)
        ls_card_fail((ls_card *)executor, LS_NO_DEVICE, "a copy between cards", "the card is lost");
    do_later(executor, move_now, (piece){.to = to, .from = from, .n = bytes});
}

static void zero(ls_executor *executor, void *to, size_t bytes)
{
    expect(number_of(executor), to, "zeros");
    do_later(executor, zero_now, (piece){.to = to, .n = bytes});
}

static void reach(ls_executor *executor, ls_executor *other)
{
    (void)executor;
    (void)other;
}

static float *stage_result(ls_executor *executor, float *host, size_t n)
{
    emulated *e = (emulated *)executor;
    float *there = allocate(executor, n * sizeof *there);
    const int i = e->results[e->open].n_pending++;
    e->results[e->open].pending[i].host = host;
    e->results[e->open].pending[i].there = there;
    e->results[e->open].pending[i].n = n;
    return there;
}

static bool begin(ls_executor *executor, const ls_form *form, const ls_samples *samples, ls_samples *there)
{
    emulated *e = (emulated *)executor;
    (void)form;
    later_side_stream(e->queue, executor->side_stream);
    const size_t n = (size_t)samples->count;
    const ls_card_now now = {samples->one, samples->step};
    *there = *samples;
    there->index = samples->index ? later_keep(e->queue, samples->index, n * sizeof *samples->index) : NULL;
    there->changes = samples->changes ? later_keep(e->queue, samples->changes, n * sizeof *samples->changes) : NULL;
    const size_t labels = n * (size_t)samples->labels_each * sizeof *samples->labels;
    there->labels = samples->labels ? later_keep(e->queue, samples->labels, labels) : NULL;
    e->card.now = later_keep(e->queue, &now, sizeof now);
    return false;
}

static bool open_side_stream(ls_executor *executor, int side_stream, size_t bytes)
{
    (void)executor, (void)side_stream, (void)bytes;
    return true;
}

static void end(ls_executor *executor)
{
    later_side_stream(((emulated *)executor)->queue, 0);
}

static void expect_terms(const ls_executor *executor, const ls_terms *terms)
{
    for (int i = 0; i < terms->n; i++)
        expect(number_of(executor), terms->at[i], "a sum");
}

static void sum(ls_executor *executor, const ls_terms *terms, float *out, size_t n)
{
    expect_terms(executor, terms);
    expect(number_of(executor), out, "a sum");
    do_later(executor, sum_now, (piece){.terms = *terms, .to = out, .n = n});
}

static bool update(ls_executor *executor, const ls_terms *terms, float *out, const float *w, float *moments, size_t n,
                   const ls_update *how)
{
    expect_terms(executor, terms);
    expect(number_of(executor), out, "an update");
    expect(number_of(executor), w, "an update");
    expect(number_of(executor), moments, "an update");
    emulated *e = (emulated *)executor;
    do_later(executor, update_now,
             (piece){.terms = *terms,
                     .to = out,
                     .from = w,
                     .moments = moments,
                     .n = n,
                     .how = *how,
                     .broken = &e->results[e->open].broken});
    return true;
}

static void square(ls_executor *executor, const float *x, size_t n, double *sums)
{
    expect(number_of(executor), x, "a norm");
    flush(executor);
    ls_cuda_square(NULL, x, n, sums);
}

/* What is done goes to where it belongs. */
static bool deliver(ls_executor *executor, int number)
{
    emulated *e = (emulated *)executor;
    for (int i = 0; i < e->results[number].n_pending; i++) {
        move(e->results[number].pending[i].host, e->results[number].pending[i].there,
             e->results[number].pending[i].n * sizeof(float));
        release(executor, e->results[number].pending[i].there);
    }
    e->results[number].n_pending = 0;
    const bool finite = !e->results[number].broken;
    e->results[number].broken = 0;
    return finite;
}

static void wait_recorded(ls_executor *executor)
{
    emulated *e = (emulated *)executor;
    if (!e->recorded_finite)
        return;
    later_flush_to(e->queue, e->recorded);
    *e->recorded_finite = deliver(executor, 1 - e->open);
    e->recorded_finite = NULL;
}

/* It is asked some times before it has done anything. */
static bool is_done(ls_executor *executor)
{
    emulated *e = (emulated *)executor;
    return !e->recorded_finite || e->asked++ > 20;
}

static void record(ls_executor *executor, bool *finite)
{
    emulated *e = (emulated *)executor;
    wait_recorded(executor);
    e->recorded = later_count(e->queue);
    e->asked = 0;
    e->recorded_finite = finite;
    e->open = 1 - e->open;
}

static bool finish(ls_executor *executor)
{
    emulated *e = (emulated *)executor;
    wait_recorded(executor);
    flush(executor);
    e->n_marks = 0;
    return deliver(executor, e->open);
}

static int mark(ls_executor *executor)
{
    emulated *e = (emulated *)executor;
    if (e->n_marks == LS_MOST_MARKS)
        return -1;
    do_later(executor, mark_now, (piece){.mark = e->n_marks});
    return e->n_marks++;
}

static double reached(ls_executor *executor, int mark)
{
    return ((emulated *)executor)->marks[mark];
}

static void close_executor(ls_executor *executor)
{
    emulated *e = (emulated *)executor;
    finish(executor);
    ls_card_disconnect(executor, executor->status == LS_OK);
    later_free(e->queue);
    pthread_mutex_destroy(&e->lock);
    free(e->released);
    free(e);
}

static const ls_executor_type type = {
    .memory =
        {.allocate = allocate, .release = release, .put = put, .get = get, .zero = zero, .copy = copy, .reach = reach},
    .compute = {.stage_result = stage_result,
                .begin = begin,
                .end = end,
                .open_side_stream = open_side_stream,
                .sum = sum,
                .update = update,
                .square = square},
    .completion = {.finish = finish,
                   .record = record,
                   .wait = wait_recorded,
                   .is_done = is_done,
                   .mark = mark,
                   .reached = reached},
    .peers = {.connect = ls_card_connect,
              .disconnect = ls_card_disconnect,
              .begin_group = ls_card_begin_group,
              .send = ls_card_send,
              .receive = ls_card_receive,
              .end_group = ls_card_end_group,
              .try_group = try_group,
              .look = ls_card_look},
    .close = close_executor,
};

/* ---- The operations: all that they read and write lies on the card, but rows that are handed in ---- */

typedef struct operation {
    ls_op_call call;
    ls_samples samples;
    ls_attributes attributes;
    struct ls_card_now *now;
} operation;

static void operate(void *payload)
{
    operation *o = payload;
    ls_card *card = (ls_card *)o->call.executor;
    card->now = o->now;
    o->call.samples = &o->samples;
    o->call.attributes = &o->attributes;
    ls_card_backend(card->dtype)->kernel[o->attributes.op](&o->call);
}

static void checked(const ls_op_call *call)
{
    emulated *e = (emulated *)call->executor;
    const int card = number_of(call->executor);
    const char *what = "an operation";
    for (int k = 0; k < LS_MAX_IN; k++)
        expect(card, call->in[k].data, what);
    for (int k = 0; k < LS_MAX_OUT; k++)
        expect(card, call->out[k].data, what);
    expect(card, call->scratch, what);
    if (call->attributes->op == LS_OP_INPUT && emulated_owner(call->samples->rows[call->attributes->input]) >= 0)
        expect(card, call->samples->rows[call->attributes->input], what);
    const operation o = {*call, *call->samples, *call->attributes, e->card.now};
    later_do(e->queue, operate, &o, sizeof o);
}

static const ls_backend *backend_of(ls_dtype dtype)
{
    static ls_backend checking[LS_BF16 + 1];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (!checking[dtype].name) {
        checking[dtype] = *ls_card_backend(dtype);
        for (int op = 0; op < LS_OP_COUNT; op++)
            if (checking[dtype].kernel[op])
                checking[dtype].kernel[op] = checked;
    }
    pthread_mutex_unlock(&lock);
    return &checking[dtype];
}

static ls_executor *open_unit(int number, ls_dtype dtype, const ls_card_callbacks *callbacks, ls_status *status,
                              char *why, size_t size)
{
    (void)callbacks;
    const char *changed = ls_card_overriding(dtype);
    if (changed) {
        *status = LS_UNSUPPORTED;
        snprintf(why, size, "starting the card failed: %s", changed);
        return NULL;
    }
    static const char *const names[CARDS] = {"cuda:0", "cuda:1", "cuda:2"};
    const char *other = getenv("EMULATED_OTHER"); /* the name of a card of another model */
    emulated *e = calloc(1, sizeof *e);
    e->queue = later_new();
    pthread_mutex_init(&e->lock, NULL);
    e->card.dtype = dtype;
    e->card.shared = 0; /* tiles are test_card_lanes's: here they would take minutes */
    e->card.executor = (ls_executor){.type = &type,
                                     .backend = backend_of(dtype),
                                     .name = names[number],
                                     .memory = 1 + number,
                                     .core = -1,
                                     .slice = (size_t)1 << 40,
                                     .side_streams = LS_MOST_SIDE_STREAMS,
                                     .model = other && strcmp(other, names[number]) == 0 ? "another" : "the host",
                                     .message = e->card.message,
                                     .identity = {(unsigned char)(1 + number)}};
    e->stream = (emulated_stream){number, do_for_stream, emulated_owner, emulated_enter, emulated_leave};
    e->card.main = e->card.stream = (cudaStream_t)(void *)&e->stream;
    return &e->card.executor;
}

static int count(char *why, size_t size)
{
    (void)why, (void)size;
    return CARDS;
}

static void about(int card, char *text, size_t size)
{
    (void)card;
    snprintf(text, size, "the host");
}

static void versions(char *text, size_t size)
{
    snprintf(text, size, "none");
}

const ls_plugin *lockstep_plugin(void)
{
    static const ls_cards cards = {{LOCKSTEP_VERSION, LS_CARDS_SIZE}, count, about, backend_of, open_unit, versions};
    return &cards.plugin;
}
