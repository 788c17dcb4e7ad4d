/* A card as an executor: a stream that everything goes through in the order handed in but runs in side streams, and
 * what is kept beside it. For this folder.
 *
 * Nothing here calls the library: the plugin stands alone, and says what went wrong in `status` and `message`. */
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "device/cards.h"
#include "device/cuda/kernels/geometry.h"
#include "device/cuda/kernels/kernels.h"

enum {
    LS_CARD_STREAMS = 1 + LS_MOST_SIDE_STREAMS, /* the first one is the main stream */
    LS_CARD_STAGED = 8,                         /* results of one run */
    LS_CARD_RESIDENTS = 4,                      /* data sets on the card */
    LS_CARD_STAGES = 8,                         /* runs whose samples may be on their way: no more are in flight */
    LS_CARD_KEPT = 128,                         /* runs kept as graphs, the ones that were used last */
    LS_CARD_PENDING = 4096,                     /* results on their way to the host */
    LS_CARD_BLAS = 32 << 20,                    /* bytes of cuBLAS's workspace */
    LS_CARD_DNN = 384 << 20                     /* the largest workspace of cuDNN's engines that is taken */
};

/* Results of one run: `host` stands for this memory of the card's. */
typedef struct ls_card_staged {
    float *host, *device;
    size_t n, capacity;
} ls_card_staged;

/* Where runs take turns, and what one of them has for itself besides what it is handed. */
typedef struct ls_card_stream {
    cudaStream_t stream;
    void *blas_workspace;
    ls_card_staged staged[LS_CARD_STAGED];
    bool used;           /* by runs that the main stream has not waited for, */
    cudaEvent_t reached; /* which is for that */
    unsigned turn;       /* that the stream has waited for, of the main stream's */
} ls_card_stream;

/* On their way: in pinned memory once the stream is there. */
typedef struct ls_card_pending {
    float *host;
    const float *pinned;
    size_t n;
} ls_card_pending;

/* Of what was handed in between two recorded ends. */
typedef struct ls_card_results {
    ls_card_pending *pending; /* [LS_CARD_PENDING] */
    int n_pending;
    float *pinned;
    size_t pinned_floats, pinned_used;
    int *broken; /* pinned: the card's, once the stream is there */
} ls_card_results;

typedef struct ls_card_resident {
    struct ls_counted *owner; /* held */
    const void *host;
    void *device;
    uint64_t used;
} ls_card_resident;

/* Samples of a run in pinned memory, and when they are there no more needed. */
typedef struct ls_card_stage {
    unsigned char *pinned;
    cudaEvent_t copied;
} ls_card_stage;

/* Of a run's samples, on the card: what changes from step to step. */
typedef struct ls_card_now {
    float one;
    uint64_t step;
} ls_card_now;

typedef struct ls_card_kept {
    ls_form form;
    int side_stream;
    const void *images, *changes;
    cudaGraphExec_t graph; /* NULL: it was run once, kernel by kernel, which has everything loaded and chosen */
    uint64_t used;         /* the number of the last run that was of this form */
} ls_card_kept;

typedef struct ls_card {
    ls_executor executor; /* first */
    char name[16], message[256], model[320];
    ls_card_callbacks callbacks;
    int number;
    size_t shared; /* bytes of shared memory that a block may have */
    ls_dtype dtype;
    cudaStream_t main;   /* where all goes that is handed in, but for runs in side streams */
    cudaStream_t stream; /* where operations go: that one, or a side stream's */
    cudaStream_t side;   /* memory is zeroed there, from any thread */
    ls_card_stream side_streams[LS_CARD_STREAMS];
    int side_stream, libraries; /* of the run that is handed in; that cuDNN and cuBLAS work for, -1: none yet */
    cudaEvent_t turned;         /* in the main stream, in front of the side streams' next runs; */
    unsigned turn;              /* how many there were */
    bool main_advanced;         /* the main stream has gone on since the last one */
    cudnnHandle_t dnn;          /* NULL, as `blas`, in float32 */
    cudnnBackendDescriptor_t
        elsewhere; /* for tests: what cuDNN has to know of a card that is not here. NULL: this one */
    cublasHandle_t blas;
    int *broken; /* [2] the card's, of the results of that number: whether an update made a number that is not finite */
    double *squares; /* [n_squares] the card's */
    size_t n_squares;

    int n_staged;
    ls_card_results results[2];
    int open; /* the number of those of what is handed in now; the others are recorded, or none */
    cudaEvent_t recorded;
    bool *recorded_finite; /* NULL: nothing is recorded */

    ls_card_resident residents[LS_CARD_RESIDENTS];
    uint64_t uses;
    ls_card_stage stages[LS_CARD_STAGES];
    uint64_t runs;
    int images;             /* that the samples' memory has room for, */
    size_t labels;          /* and labels */
    unsigned char *samples; /* the card's, for each side stream: index, changes, labels, and what follows */
    struct ls_card_now *now;

    ls_card_kept kept[LS_CARD_KEPT];
    int n_kept;
    ls_card_kept *capturing;

    cudaEvent_t *marks; /* [LS_MOST_MARKS + 1], made as they are needed; NULL: there never was one */
    int n_marks, n_made;
    cudaEvent_t last;  /* the mark at the end of what was finished, */
    double last_is_at; /* and when that was */

    const ls_links *links;
    ls_link *link;     /* NULL: not connected */
    cudaEvent_t own;   /* in front of the first transfers, */
    bool own_is_there; /* where there are some that nobody has waited for */

    struct ls_card_conv_plan *convs; /* conv.c */
} ls_card;

/* The card that a call is for, made the thread's current one. */
ls_card *ls_card_of(ls_executor *executor);

/* The same for what is handed in to the main stream: behind all runs in front of it, and in front of all behind it. */
ls_card *ls_card_in_main(ls_executor *executor);

/* Notes what went wrong first; true where nothing did. */
bool ls_card_good(ls_card *card, cudaError_t error, const char *what);
bool ls_card_fail(ls_card *card, ls_status status, const char *what, const char *why); /* false */

/* Waits for the stream, or for the event where it is not NULL. What waits for other ranks is given up when they are
 * lost. */
cudaError_t ls_card_await(ls_card *card, cudaEvent_t event);

double ls_card_seconds(void); /* by the clock of ls_seconds */

/* While a stream is captured nothing may wait for the whole card, in any thread: captures, and libraries that do so
 * when they start and end, keep apart by this lock, one for all cards. */
void ls_card_lock(void);
void ls_card_unlock(void);

/* The kernels of a dtype. */
const ls_backend *ls_card_backend(ls_dtype dtype);
const ls_backend *ls_card_exact_backend(void); /* exact.c: of float32 */

/* Variables of the environment that have NVIDIA's libraries compute in another way than they are asked to, where that
 * dtype uses them: what to say, or NULL. */
const char *ls_card_overriding(ls_dtype dtype);

/* Whether cuDNN and cuBLAS compute there. */
static inline bool ls_card_uses_libraries(const ls_card *card)
{
    return card->dtype != LS_F32;
}

static inline int ls_card_half(const ls_card *card)
{
    return card->dtype == LS_BF16;
}

static inline size_t ls_card_number_bytes(const ls_card *card)
{
    return ls_card_half(card) ? 2 : 4;
}

/* ---- own.c: the user's own operations ---- */
/* Between an activation and rows of floats, in the card's stream. */
typedef struct ls_card_rows {
    void (*from)(const ls_op_call *call, const ls_operand *x, float *rows);
    void (*to)(const ls_op_call *call, const float *rows, const ls_operand *x);
} ls_card_rows;
void ls_card_own(const ls_op_call *call, const ls_card_rows *rows);
size_t ls_card_own_scratch(const ls_op_call *call);

/* ---- link.c ---- */
bool ls_card_connect(ls_executor *executor, const ls_links *links, const ls_link_name *name, int rank, int ranks,
                     char *why, size_t why_size);
void ls_card_disconnect(ls_executor *executor, bool good);
void ls_card_begin_group(ls_executor *executor);
void ls_card_send(ls_executor *executor, int rank, const void *data, size_t bytes);
void ls_card_receive(ls_executor *executor, int rank, void *data, size_t bytes);
void ls_card_end_group(ls_executor *executor);
void ls_card_look(ls_executor *executor);
/* The same for this folder: false where a transfer has failed, and with it the card. */
bool ls_card_look_at_link(ls_card *card);

/* ---- side_streams.c ---- */
bool ls_card_open_main(ls_card *card);
bool ls_card_open_side(ls_executor *executor, int side_stream, size_t bytes);
/* What operations are handed in goes to that side stream from here on, until it is left. False after a failure. */
bool ls_card_enter_side(ls_card *card, int side_stream);
void ls_card_leave_side(ls_card *card);
/* Has the main stream wait for the side streams. */
void ls_card_main_waits(ls_card *card);
void ls_card_close_sides(ls_card *card);
/* Has cuDNN and cuBLAS work for that side stream. */
bool ls_card_take_libraries(ls_card *card, int side_stream);

/* ---- run.c ---- */
bool ls_card_begin(ls_executor *executor, const ls_form *form, const ls_samples *samples, ls_samples *there);
void ls_card_end(ls_executor *executor);
void ls_card_close_runs(ls_card *card);

/* ---- graphs.c ---- */
/* The place of a form among those kept: the second time it comes it is captured. NULL where it never will be. */
ls_card_kept *ls_card_find_graph(ls_card *card, const ls_form *form, const ls_samples *there, bool *first);
void ls_card_begin_capture(ls_card *card, ls_card_kept *kept); /* card->capturing, where that has begun */
void ls_card_end_capture(ls_card *card);                       /* and launches it */
void ls_card_drop_graphs(ls_card *card);                       /* with nothing under way */

/* ---- results.c ---- */
float *ls_card_stage_result(ls_executor *executor, float *host, size_t n);
void ls_card_send_results(ls_card *card); /* what was staged, behind the run */
bool ls_card_finish(ls_executor *executor);
void ls_card_record(ls_executor *executor, bool *finite);
void ls_card_wait(ls_executor *executor);
bool ls_card_is_done(ls_executor *executor);
bool ls_card_open_results(ls_card *card);
void ls_card_close_results(ls_card *card);

/* ---- marks.c ---- */
int ls_card_mark(ls_executor *executor);
double ls_card_reached(ls_executor *executor, int mark);
void ls_card_end_marks(ls_card *card); /* waits for the card where there are any */
void ls_card_close_marks(ls_card *card);

/* ---- conv.c: cuDNN ---- */
typedef enum ls_card_direction {
    LS_CARD_FORWARD,
    LS_CARD_DATA,
    LS_CARD_WEIGHT,
    LS_CARD_MORE_DATA /* added to what x has */
} ls_card_direction;
/* Whether there is an engine that computes this the same way every time, and the bytes of workspace that it takes. */
bool ls_card_engine(ls_card *card, ls_card_direction direction, const ls_cuda_conv *conv, int64_t *bytes);
/* By that engine. x, w and y are those of the forward pass, or their gradients; w as cuDNN has it. */
void ls_card_convolve(ls_card *card, ls_card_direction direction, const ls_cuda_conv *conv, void *x, void *w, void *y,
                      void *workspace);
void ls_card_close_convs(ls_card *card);

/* ---- linear.c: cuBLAS ---- */
void ls_card_linear(ls_card *card, ls_card_direction direction, const ls_cuda_conv *conv, void *x, void *w, void *y);
