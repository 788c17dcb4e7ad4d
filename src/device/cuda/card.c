/* A card's memory, copies, sums and updates; opening and closing it. */
#include "device/cuda/card.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Errors after which the card computes no more in this process, whatever is tried: CUDA's documentation says so of
 * each. */
static bool is_lost(cudaError_t error)
{
    return error == cudaErrorIllegalAddress || error == cudaErrorMisalignedAddress ||
           error == cudaErrorInvalidAddressSpace || error == cudaErrorInvalidPc ||
           error == cudaErrorIllegalInstruction || error == cudaErrorLaunchFailure || error == cudaErrorAssert ||
           error == cudaErrorNoDevice || error == cudaErrorECCUncorrectable || error == cudaErrorHardwareStackError ||
           error == cudaErrorLaunchTimeout || error == cudaErrorDevicesUnavailable ||
           error == cudaErrorNvlinkUncorrectable || error == cudaErrorContained || error == cudaErrorSystemNotReady;
}

bool ls_card_fail(ls_card *card, ls_status status, const char *what, const char *why)
{
    if (card->executor.status == LS_OK) {
        snprintf(card->message, sizeof card->message, "%s failed: %s", what, why);
        card->executor.status = status;
    }
    return false;
}

bool ls_card_good(ls_card *card, cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return card->executor.status == LS_OK;
    cudaGetLastError(); /* it would be reported again */
    char why[160];
    snprintf(why, sizeof why, "%s%s", is_lost(error) ? "the card is lost: " : "", cudaGetErrorString(error));
    return ls_card_fail(card,
                        error == cudaErrorMemoryAllocation ? LS_OUT_OF_MEMORY
                        : is_lost(error)                   ? LS_NO_DEVICE
                                                           : LS_INTERNAL,
                        what, why);
}

static pthread_mutex_t capturing = PTHREAD_MUTEX_INITIALIZER;

void ls_card_lock(void)
{
    pthread_mutex_lock(&capturing);
}

void ls_card_unlock(void)
{
    pthread_mutex_unlock(&capturing);
}

ls_card *ls_card_of(ls_executor *executor)
{
    ls_card *card = (ls_card *)executor;
    cudaError_t error = cudaSetDevice(card->number);
    ls_card_good(card, error, "choosing the card");
    return card;
}

/* ---- Waiting ---- */

double ls_card_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static cudaError_t ask(const ls_card *card, cudaEvent_t event)
{
    return event ? cudaEventQuery(event) : cudaStreamQuery(card->main);
}

static void say_waiting(const ls_card *card, bool waits)
{
    if (card->executor.waits)
        card->executor.waits(card->executor.waits_user, waits);
}

/* Awake for as long as a step may take, as the driver's own waiting is; then a moment is not missed. */
cudaError_t ls_card_await(ls_card *card, cudaEvent_t event)
{
    enum { AWAKE = 10000 };
    const struct timespec moment = {0, 200000};
    cudaError_t error = cudaErrorNotReady;
    bool said = false;
    if (!event)
        ls_card_main_waits(card);
    for (int times = 0; card->link && (error = ask(card, event)) == cudaErrorNotReady && ls_card_look_at_link(card);
         times++) {
        if (!said && card->own_is_there && cudaEventQuery(card->own) == cudaSuccess) {
            said = true;
            say_waiting(card, true);
        }
        cudaGetLastError(); /* what is not ready is no error, but would be reported as one */
        if (times < AWAKE)
            sched_yield();
        else
            nanosleep(&moment, NULL);
    }
    if (said)
        say_waiting(card, false);
    if (error == cudaErrorNotReady) {
        cudaGetLastError();
        error = event ? cudaEventSynchronize(event) : cudaStreamSynchronize(card->main);
    }
    if (!event || event == card->recorded) /* the transfers in front of that are done */
        card->own_is_there = false;
    return error;
}

static const char *try_group(ls_executor *executor, double seconds)
{
    ls_card *card = ls_card_of(executor);
    const struct timespec moment = {0, 100000};
    const double end = ls_card_seconds() + seconds;
    const char *failure;
    while (!(failure = card->links->failure(card->link)) && cudaStreamQuery(card->main) == cudaErrorNotReady) {
        cudaGetLastError(); /* what is not ready is no error, but would be reported as one */
        if (ls_card_seconds() > end)
            return "it takes too long";
        nanosleep(&moment, NULL);
    }
    return failure ? failure : card->links->failure(card->link);
}

/* ---- Memory ---- */

/* This and the next are for any thread, and leave the card's status alone. */
static void *allocate(ls_executor *executor, size_t bytes)
{
    const ls_card *card = (const ls_card *)executor;
    void *memory = NULL;
    if (cudaSetDevice(card->number) != cudaSuccess || cudaMalloc(&memory, bytes ? bytes : 1) != cudaSuccess) {
        cudaGetLastError();
        return NULL;
    }
    if (cudaMemsetAsync(memory, 0, bytes ? bytes : 1, card->side) == cudaSuccess &&
        cudaStreamSynchronize(card->side) == cudaSuccess)
        return memory;
    cudaGetLastError();
    cudaFree(memory);
    return NULL;
}

static void release(ls_executor *executor, void *memory)
{
    cudaSetDevice(((const ls_card *)executor)->number);
    cudaFree(memory); /* waits for what is under way */
    cudaGetLastError();
}

/* The host's memory is not pinned, and may be changed at once: a driver that reads it where it lies is waited for. */
static void put(ls_executor *executor, void *to, const void *from, size_t bytes)
{
    ls_card *card = ls_card_in_main(executor);
    if (bytes && card->executor.status == LS_OK &&
        ls_card_good(card, cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, card->main), "a copy to the card"))
        ls_card_good(card, ls_card_await(card, NULL), "waiting for the card");
}

static void get(ls_executor *executor, void *to, const void *from, size_t bytes)
{
    ls_card *card = ls_card_in_main(executor);
    if (card->executor.status == LS_OK && bytes)
        ls_card_good(card, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, card->main),
                     "a copy from the card");
    if (card->executor.status == LS_OK)
        ls_card_good(card, ls_card_await(card, NULL), "waiting for the card");
    if (card->executor.status != LS_OK)
        memset(to, 0, bytes);
}

static void zero(ls_executor *executor, void *to, size_t bytes)
{
    ls_card *card = ls_card_in_main(executor);
    if (bytes && card->executor.status == LS_OK)
        ls_card_good(card, cudaMemsetAsync(to, 0, bytes, card->main), "zeros");
}

/* The driver knows from the addresses which cards these are, and goes by the host where they do not reach each
 * other. */
static void copy(ls_executor *executor, void *to, const void *from, size_t bytes)
{
    ls_card *card = ls_card_in_main(executor);
    if (bytes && card->executor.status == LS_OK)
        ls_card_good(card, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, card->main), "a copy between cards");
}

/* Whether bytes that are written from one card to the other arrive there: behind some IOMMUs they do not, though the
 * driver says that the cards reach each other. The cards' own streams have nothing to do with it. */
static bool arrives(const ls_card *from, const ls_card *to)
{
    enum { BYTES = 1 << 16, PATTERN = 0xa5 };
    static const unsigned char none[BYTES];
    unsigned char *sent = NULL, *come = NULL, *seen = calloc(1, BYTES);
    bool good = seen && cudaSetDevice(to->number) == cudaSuccess && cudaMalloc((void **)&come, BYTES) == cudaSuccess &&
                cudaMemcpy(come, none, BYTES, cudaMemcpyHostToDevice) == cudaSuccess &&
                cudaSetDevice(from->number) == cudaSuccess && cudaMalloc((void **)&sent, BYTES) == cudaSuccess &&
                cudaMemset(sent, PATTERN, BYTES) == cudaSuccess &&
                cudaMemcpyAsync(come, sent, BYTES, cudaMemcpyDefault, from->side) == cudaSuccess &&
                cudaStreamSynchronize(from->side) == cudaSuccess &&
                cudaMemcpy(seen, come, BYTES, cudaMemcpyDeviceToHost) == cudaSuccess;
    for (size_t i = 0; good && i < BYTES; i++)
        good = seen[i] == PATTERN;
    cudaFree(sent);
    cudaFree(come);
    free(seen);
    return good;
}

static void open_way(const ls_card *from, const ls_card *to)
{
    int able = 0;
    if (cudaDeviceCanAccessPeer(&able, from->number, to->number) == cudaSuccess && able &&
        cudaSetDevice(from->number) == cudaSuccess && cudaDeviceEnablePeerAccess(to->number, 0) == cudaSuccess &&
        !arrives(from, to) && cudaSetDevice(from->number) == cudaSuccess)
        cudaDeviceDisablePeerAccess(to->number);
    cudaGetLastError();
}

/* A card can be asked this again, and may be unable: then copies take the longer way. */
static void reach(ls_executor *executor, ls_executor *other)
{
    const ls_card *card = ls_card_of(executor), *there = (const ls_card *)other;
    ls_card_lock();
    open_way(card, there);
    open_way(there, card);
    ls_card_unlock();
    cudaSetDevice(card->number);
}

/* ---- Sums and updates ---- */

static void sum(ls_executor *executor, const ls_terms *terms, float *out, size_t n)
{
    ls_card *card = ls_card_in_main(executor);
    if (card->executor.status != LS_OK || !n || (terms->n == 1 && terms->at[0] == out))
        return;
    ls_cuda_sum(card->main, terms, out, n);
    ls_card_good(card, cudaPeekAtLastError(), "a sum of gradients");
}

static bool update(ls_executor *executor, const ls_terms *terms, float *out, const float *w, float *moments, size_t n,
                   const ls_update *how)
{
    ls_card *card = ls_card_in_main(executor);
    if (card->executor.status == LS_OK && n) {
        ls_cuda_update(card->main, terms, out, w, moments, n, how, card->broken + card->open);
        ls_card_good(card, cudaPeekAtLastError(), "an update of weights");
    }
    return true; /* `finish` tells */
}

static void square(ls_executor *executor, const float *x, size_t n, double *sums)
{
    ls_card *card = ls_card_in_main(executor);
    const size_t blocks = (n + LS_SQUARED - 1) / LS_SQUARED;
    if (blocks > card->n_squares && card->executor.status == LS_OK) {
        cudaFree(card->squares);
        card->squares = NULL;
        card->n_squares = 0;
        if (ls_card_good(card, cudaMalloc((void **)&card->squares, blocks * sizeof *sums), "memory for a norm"))
            card->n_squares = blocks;
    }
    if (card->executor.status == LS_OK && n) {
        ls_cuda_square(card->main, x, n, card->squares);
        ls_card_good(card, cudaPeekAtLastError(), "the norm of a gradient");
    }
    get(executor, sums, card->squares, blocks * sizeof *sums);
}

/* ---- Opening and closing ---- */

static void close_card(ls_executor *executor)
{
    ls_card *card = ls_card_of(executor);
    if (card->main)
        ls_card_await(card, NULL);
    ls_card_disconnect(executor, card->executor.status == LS_OK);
    ls_card_close_runs(card);
    ls_card_close_results(card);
    ls_card_close_marks(card);
    ls_card_close_convs(card);
    ls_card_lock();
    if (card->blas)
        cublasDestroy(card->blas);
    if (card->dnn)
        cudnnDestroy(card->dnn);
    ls_card_unlock();
    ls_card_close_sides(card);
    cudaFree(card->squares);
    cudaFree(card->broken);
    if (card->side)
        cudaStreamDestroy(card->side);
    if (card->own)
        cudaEventDestroy(card->own);
    cudaGetLastError();
    free(card);
}

static const ls_executor_type type = {
    .memory =
        {.allocate = allocate, .release = release, .put = put, .get = get, .zero = zero, .copy = copy, .reach = reach},
    .compute = {.stage_result = ls_card_stage_result,
                .begin = ls_card_begin,
                .end = ls_card_end,
                .open_side_stream = ls_card_open_side,
                .sum = sum,
                .update = update,
                .square = square},
    .completion = {.finish = ls_card_finish,
                   .record = ls_card_record,
                   .wait = ls_card_wait,
                   .is_done = ls_card_is_done,
                   .mark = ls_card_mark,
                   .reached = ls_card_reached},
    .peers = {.connect = ls_card_connect,
              .disconnect = ls_card_disconnect,
              .begin_group = ls_card_begin_group,
              .send = ls_card_send,
              .receive = ls_card_receive,
              .end_group = ls_card_end_group,
              .try_group = try_group,
              .look = ls_card_look},
    .close = close_card,
};

/* cuDNN and cuBLAS of today need these; older cards are left out. */
static bool is_able(const struct cudaDeviceProp *properties)
{
    return properties->major * 10 + properties->minor >= 75;
}

static bool start_libraries(ls_card *card)
{
    cudnnStatus_t dnn = cudnnCreate(&card->dnn);
    if (dnn != CUDNN_STATUS_SUCCESS)
        return ls_card_fail(card, LS_UNSUPPORTED, "starting cuDNN", cudnnGetErrorString(dnn));
    cublasStatus_t blas = cublasCreate(&card->blas);
    if (blas == CUBLAS_STATUS_SUCCESS)
        blas = cublasSetMathMode(card->blas, CUBLAS_DEFAULT_MATH);
    if (blas != CUBLAS_STATUS_SUCCESS)
        return ls_card_fail(card, LS_UNSUPPORTED, "starting cuBLAS", cublasGetStatusString(blas));
    return ls_card_take_libraries(card, 0);
}

static bool open_libraries(ls_card *card)
{
    ls_card_lock();
    bool good = start_libraries(card);
    ls_card_unlock();
    return good;
}

static bool open_card(ls_card *card)
{
    struct cudaDeviceProp properties;
    if (!ls_card_good(card, cudaSetDevice(card->number), "choosing the card") ||
        !ls_card_good(card, cudaGetDeviceProperties(&properties, card->number), "asking the card"))
        return false;
    if (!is_able(&properties))
        return ls_card_fail(card, LS_UNSUPPORTED, "starting the card",
                            "compute capability 7.5 is the least that will do");
    if (ls_card_half(card) && properties.major < 8)
        return ls_card_fail(card, LS_UNSUPPORTED, "starting the card",
                            "bf16 needs compute capability 8.0; compute in tf32 or f32");
    const char *changed = ls_card_overriding(card->dtype);
    if (changed)
        return ls_card_fail(card, LS_UNSUPPORTED, "starting the card", changed);
    card->shared = properties.sharedMemPerBlockOptin;
    memcpy(card->executor.identity, properties.uuid.bytes, sizeof card->executor.identity);
    snprintf(card->model, sizeof card->model, "%s, compute capability %d.%d, %d multiprocessors", properties.name,
             properties.major, properties.minor, properties.multiProcessorCount);
    return ls_card_open_main(card) &&
           ls_card_good(card, cudaStreamCreateWithFlags(&card->side, cudaStreamNonBlocking), "making a stream") &&
           ls_card_good(card, cudaMalloc((void **)&card->broken, 2 * sizeof *card->broken), "taking memory") &&
           ls_card_good(card, cudaMemsetAsync(card->broken, 0, 2 * sizeof *card->broken, card->main),
                        "taking memory") &&
           ls_card_open_results(card) && ls_card_good(card, cudaStreamSynchronize(card->main), "starting the card") &&
           (!ls_card_uses_libraries(card) || open_libraries(card));
}

static ls_executor *open_executor(int number, ls_dtype dtype, const ls_card_callbacks *callbacks, ls_status *status,
                                  char *why, size_t size)
{
    ls_card *card = calloc(1, sizeof *card);
    if (!card) {
        *status = LS_OUT_OF_MEMORY;
        snprintf(why, size, "no memory on the host");
        return NULL;
    }
    card->number = number;
    card->libraries = -1;
    card->dtype = dtype;
    card->callbacks = *callbacks;
    snprintf(card->name, sizeof card->name, "cuda:%d", number);
    card->executor = (ls_executor){.type = &type,
                                   .backend = ls_card_backend(dtype),
                                   .name = card->name,
                                   .memory = 1 + number,
                                   .core = -1,
                                   .slice = (size_t)1 << 40,
                                   .side_streams = LS_MOST_SIDE_STREAMS,
                                   .model = card->model,
                                   .message = card->message};
    if (open_card(card))
        return &card->executor;
    *status = card->executor.status;
    snprintf(why, size, "%s", card->message);
    close_card(&card->executor);
    return NULL;
}

/* ---- Which cards there are ---- */

static int count(char *why, size_t size)
{
    int n = 0, driver = 0;
    cudaError_t error = cudaGetDeviceCount(&n);
    if (error == cudaSuccess && n > 0)
        return n;
    cudaGetLastError();
    cudaDriverGetVersion(&driver);
    if (driver == 0)
        snprintf(why, size, "there is no NVIDIA driver here");
    else if (error == cudaErrorInsufficientDriver)
        snprintf(why, size, "the NVIDIA driver is for CUDA %d.%d, and this program needs %d.%d", driver / 1000,
                 driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    else
        snprintf(why, size, "there is no NVIDIA card here%s%s", error == cudaErrorNoDevice ? "" : ": ",
                 error == cudaErrorNoDevice || error == cudaSuccess ? "" : cudaGetErrorString(error));
    return 0;
}

static void about(int card, char *text, size_t size)
{
    struct cudaDeviceProp p;
    int n = 0, reaches = 0;
    if (cudaGetDeviceProperties(&p, card) != cudaSuccess) {
        cudaGetLastError();
        snprintf(text, size, "does not answer");
        return;
    }
    int length = snprintf(text, size, "%s, %.1f GiB, compute capability %d.%d%s", p.name,
                          (double)p.totalGlobalMem / (1 << 30), p.major, p.minor, is_able(&p) ? "" : ", too old");
    cudaGetDeviceCount(&n);
    for (int i = 0; i < n && length > 0 && (size_t)length < size; i++)
        if (i != card && cudaDeviceCanAccessPeer(&reaches, card, i) == cudaSuccess && reaches)
            length += snprintf(text + length, size - (size_t)length, ", reaches cuda:%d", i);
}

static void versions(char *text, size_t size)
{
    const size_t dnn = cudnnGetVersion();
    int major = 0, minor = 0, patch = 0;
    cublasGetProperty(MAJOR_VERSION, &major);
    cublasGetProperty(MINOR_VERSION, &minor);
    cublasGetProperty(PATCH_LEVEL, &patch);
    snprintf(text, size, "CUDA %d.%d, cuDNN %zu.%zu.%zu, cuBLAS %d.%d.%d", CUDART_VERSION / 1000,
             CUDART_VERSION % 1000 / 10, dnn / 10000, dnn / 100 % 100, dnn % 100, major, minor, patch);
}

const ls_plugin *lockstep_plugin(void)
{
    static const ls_cards cards = {.plugin = {LOCKSTEP_VERSION, LS_CARDS_SIZE},
                                   .count = count,
                                   .about = about,
                                   .backend = ls_card_backend,
                                   .open = open_executor,
                                   .versions = versions};
    return &cards.plugin;
}
