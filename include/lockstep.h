/* Lockstep: trains neural networks on several devices at once, with the same bits on any number of them.
 *
 * SPDX-License-Identifier: MIT
 *
 * The rules that hold for every function here:
 *
 * Errors.    The first failure sticks to the session. Later calls on that session do nothing and return an inert object,
 *            NULL or the sticky status, so a program may check once, at the end. The message names the function, the
 *            argument and the shapes. Nothing here prints, exits, aborts or catches a signal.
 * Ownership. Everything made from a session lives until ls_close. Strings returned live as long as their object.
 * Waiting.   ls_step returns before its work is done; at most two steps are in flight. ls_wait, ls_evaluate, ls_predict,
 *            ls_save, ls_load and ls_fingerprint wait until earlier work is done.
 * Threads.   One thread at a time may use a session and what was made from it. Different sessions are independent.
 * Results.   Equal options, seed, data and steps give equal bits, for any list of devices of one type.
 */
#ifndef LOCKSTEP_H
#define LOCKSTEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status ------------------------------------------------------------------------------------------------------ */

typedef enum ls_status {
    LS_OK = 0,
    LS_BAD_ARGUMENT,    /* a value outside what the function takes */
    LS_BAD_SHAPE,       /* shapes that do not fit each other */
    LS_NO_DEVICE,       /* a well-formed device that is not there */
    LS_BAD_FILE,        /* a file whose content is not what it should be */
    LS_IO,              /* the operating system refused to open, read or write */
    LS_NOT_INITIALIZED, /* parameters that have no values yet */
    LS_NOT_FINITE,      /* NaN or infinity in the loss or in a gradient; the last good weights are kept */
    LS_OUT_OF_MEMORY,
    LS_UNSUPPORTED, /* known, but not built into this library or not offered by this device */
    LS_INTERNAL     /* a defect of the library itself */
} ls_status;

const char *ls_version(void);
const char *ls_status_name(ls_status status);

/* What the library was built with, one `name: value` a line (compression, hashing, JSON, download). */
const char *ls_features(void);

/* ---- Session ----------------------------------------------------------------------------------------------------- */

typedef struct ls_session ls_session;

/* Every allocation of a session goes through these when given. `allocate` returns memory aligned to `alignment` (a power
 * of two, at least 64) or NULL. Both may be called from the session's own threads. */
typedef struct ls_allocator {
    void *(*allocate)(size_t bytes, size_t alignment, void *user);
    void (*release)(void *memory, void *user);
    void *user;
} ls_allocator;

typedef enum ls_isa { LS_ISA_AUTO = 0, LS_ISA_PLAIN, LS_ISA_NEON, LS_ISA_AVX2, LS_ISA_AVX512, LS_ISA_REFERENCE } ls_isa;
typedef enum ls_algorithm { LS_CONV_AUTO = 0, LS_CONV_DIRECT } ls_algorithm;

typedef struct ls_options {
    uint64_t seed;                 /* of everything random */
    int shard;                     /* images to a shard; 0: 64 */
    ls_isa isa;                    /* the widest instruction set to use: changes speed, never bits */
    ls_algorithm conv;             /* LS_CONV_AUTO: Winograd where the layer's shape suits it */
    const ls_allocator *allocator; /* NULL: the C library's */
    uint64_t shuffle_pulls; /* for tests: 0 hands shards out in index order, another value in an order drawn from it */
} ls_options;

/* Opens a session; `options` may be NULL. Never NULL unless not even the session itself could be allocated. */
ls_session *ls_open(const ls_options *options);

/* Waits, frees the session and everything made from it, and returns its sticky status. NULL is LS_OUT_OF_MEMORY. */
ls_status ls_close(ls_session *session);

ls_status ls_wait(ls_session *session); /* until all work handed in is done; returns the sticky status */
bool ls_failed(const ls_session *session);
ls_status ls_status_of(const ls_session *session);
const char *ls_message(const ls_session *session); /* of the first failure; "" without one */
/* The instruction set in use: "avx512", "avx2", "neon", "plain" or "reference". */
const char *ls_isa_name(const ls_session *session);

/* ---- Devices ----------------------------------------------------------------------------------------------------- */

typedef enum ls_device_type { LS_CPU = 1, LS_CUDA = 2 } ls_device_type;
typedef struct ls_device {
    int16_t type, index;
} ls_device;
enum { LS_MAX_DEVICES = 256 };
typedef struct ls_devices {
    int n;
    ls_device at[LS_MAX_DEVICES];
} ls_devices;

/* Reads a list such as "cpu:0,cpu:1" or "cpu:0-15". A malformed list or a device named twice is LS_BAD_ARGUMENT, a
 * well-formed device that is not there LS_NO_DEVICE. `cpu:I` is core I of the process's affinity mask; more devices than
 * cores share them and take turns. */
ls_devices ls_parse_devices(ls_session *session, const char *list);
ls_devices ls_all_devices(ls_session *session); /* one CPU device for each core of the affinity mask */
const char *ls_devices_str(ls_session *session, ls_devices devices); /* "[cpu(0), cpu(1)]" */
const char *ls_device_about(ls_session *session, ls_device device);  /* one line: core, instruction set, memory */

/* ---- Data -------------------------------------------------------------------------------------------------------- */

typedef struct ls_data ls_data;
typedef enum ls_part { LS_TRAIN, LS_TEST } ls_part;

typedef struct ls_loader {
    const char *directory; /* of the four files; NULL: $LOCKSTEP_DATA, the system's data folder, the user's cache */
    int batch;             /* images to a batch; 0: 256 */
    bool shuffle;          /* a new order every epoch, drawn from the session's seed */
    int64_t limit;         /* the first `limit` images only; 0: all */
} ls_loader;

/* A run of images of one epoch, in that epoch's order. Valid until the next ls_next on the same data. */
typedef struct ls_batch {
    const ls_data *data;
    const uint32_t *index; /* [rows], sample numbers */
    int rows;
    int64_t epoch; /* from 0 */
} ls_batch;

/* Reads one part of Fashion-MNIST (28 x 28 grey images, labels 0 to 9), raw or gzip'ed idx files. */
ls_data *ls_fashion_mnist(ls_session *session, ls_part part, const ls_loader *loader);

/* Data from memory: images[rows][channels][height][width] as bytes (used as value/255), labels[rows] below `classes`.
 * Both are copied. `loader->directory` is not used. */
ls_data *ls_data_from_memory(ls_session *session, const uint8_t *images, const uint8_t *labels, int64_t rows,
                             int channels, int height, int width, int classes, const ls_loader *loader);

int64_t ls_data_rows(const ls_data *data);
int ls_data_batches(const ls_data *data); /* in one epoch, the partial last one included */

/* The next batch of the epoch; false at its end (the call after that begins the next epoch) and after a failure. */
bool ls_next(ls_data *data, ls_batch *batch);

/* Continue at batch `batch` of epoch `epoch`, both from 0. */
ls_status ls_seek(ls_data *data, int64_t epoch, int batch);

/* Downloads the four files from `url` (NULL: the data set's own address) into `directory` (NULL: the user's cache),
 * verifies their SHA-256 and puts each whole under its final name. `told` may be NULL; it gets one line a file. */
ls_status ls_data_fetch(ls_session *session, const char *url, const char *directory,
                        void (*told)(const char *line, void *user), void *user);

/* ---- Networks ---------------------------------------------------------------------------------------------------- */

typedef struct ls_tensor ls_tensor; /* a value of the graph that a module's forward records */
typedef struct ls_module ls_module;

typedef struct ls_conv {
    int stride, padding;
} ls_conv; /* 0 means stride 1, padding 0 */
typedef struct ls_pool {
    int kernel, stride, padding;
} ls_pool; /* stride 0 means kernel */

/* The book's networks: "lenet" and "resnet18" (10 classes, parameters named as PyTorch's state_dict names them). */
ls_module *ls_model(ls_session *session, const char *name);
ls_module *ls_lenet(ls_session *session);
ls_module *ls_resnet18(ls_session *session, int classes);

/* Own networks. A block's forward is called once for each input shape and mode, and records. */
typedef ls_tensor *ls_forward(ls_module *self, ls_tensor *x);
ls_module *ls_block(ls_session *session, ls_forward *forward, void *user);
ls_module *ls_sequential(ls_session *session);
ls_status ls_append(ls_module *parent, const char *name, ls_module *child); /* name NULL: the child's number */
ls_module *ls_child(ls_module *parent, const char *name);                   /* NULL where there is none */
ls_tensor *ls_call(ls_module *parent, const char *name, ls_tensor *x);      /* records the child's forward */
void *ls_user(ls_module *block);

ls_module *ls_nn_conv2d(ls_session *session, int channels, int kernel, const ls_conv *options); /* weight OIHW, bias */
ls_module *ls_nn_linear(ls_session *session, int features); /* weight (features, inputs), bias */
ls_module *ls_nn_batch_norm(ls_session *session);           /* eps 1e-5, running statistics move by 0.1 a step */
ls_module *ls_nn_dropout(ls_session *session, double rate);
ls_module *ls_nn_avg_pool2d(ls_session *session, const ls_pool *options);
ls_module *ls_nn_max_pool2d(ls_session *session, const ls_pool *options);
ls_module *ls_nn_fn(ls_session *session, ls_tensor *(*fn)(ls_tensor *)); /* ls_relu, ls_flatten, ls_global_avg_pool2d */

/* A parameter of the block itself, made at the first call with this name; `shape` has `rank` (1 to 4) entries.
 * Parameters of rank 1 start at zero, others as ls_init says. */
ls_tensor *ls_parameter(ls_module *block, const char *name, int rank, const int64_t shape[]);

/* Operations, recorded. x is (images, channels, height, width) or (images, features). */
ls_tensor *ls_conv2d(ls_tensor *x, ls_tensor *weight, ls_tensor *bias, const ls_conv *options); /* bias may be NULL */
ls_tensor *ls_matmul(ls_tensor *x, ls_tensor *weight);                  /* weight (inputs, outputs) */
ls_tensor *ls_linear(ls_tensor *x, ls_tensor *weight, ls_tensor *bias); /* weight (outputs, inputs) */
ls_tensor *ls_add(ls_tensor *a, ls_tensor *b);                          /* equal shapes, or b a bias (features) */
ls_tensor *ls_relu(ls_tensor *x);
ls_tensor *ls_avg_pool2d(ls_tensor *x, const ls_pool *options);
ls_tensor *ls_max_pool2d(ls_tensor *x, const ls_pool *options);
ls_tensor *ls_global_avg_pool2d(ls_tensor *x);      /* (images, channels, 1, 1) */
ls_tensor *ls_flatten(ls_tensor *x);                /* (images, channels * height * width) */
ls_tensor *ls_multiply(ls_tensor *a, ls_tensor *b); /* number by number; equal shapes */
ls_tensor *ls_subtract(ls_tensor *a, ls_tensor *b);
ls_tensor *ls_scale(ls_tensor *x, double factor);
ls_tensor *ls_tanh(ls_tensor *x);
ls_tensor *ls_sigmoid(ls_tensor *x);
ls_tensor *ls_softmax(ls_tensor *x);                       /* over the features of (images, features) */
ls_tensor *ls_concat(ls_tensor *const parts[], int count); /* 2 to 4, channel after channel; maps of one size */
ls_tensor *ls_reshape(ls_tensor *x, int channels, int height, int width); /* as many numbers, in their C order */
ls_tensor *ls_sum(ls_tensor *x);                                          /* over each image: (images, 1) */
ls_tensor *ls_mean(ls_tensor *x);
ls_tensor *ls_mse(ls_tensor *a, ls_tensor *b); /* mean of (a - b)^2 over each image: (images, 1); equal shapes */

/* ---- Own operations ---------------------------------------------------------------------------------------------- */

/* An operation in plain C on plain arrays. A shard's images are `rows` rows, each of channels * height * width numbers in C
 * order; a parameter lies as it is saved. The functions run on several threads at once, each for a shard of its own, so
 * they must not write to what `user` points to. With equal arguments they must give equal bits: no random numbers, no
 * clock, no order that depends on threads. */
enum { LS_CUSTOM_INPUTS = 3 };

typedef struct ls_custom_call {
    int rows;                            /* images; 0 while the shape is asked for */
    int in[LS_CUSTOM_INPUTS][3], out[3]; /* channels, height, width of one image; of a parameter: its numbers, 1, 1 */
    void *user;
} ls_custom_call;

/* Sets call->out, which comes as the first input's shape; false refuses the inputs. */
typedef bool ls_custom_shape(ls_custom_call *call);

/* Writes out[rows][...]. */
typedef void ls_custom_forward(const ls_custom_call *call, const float *const in[], float *out);

/* From the gradient of a sum with respect to `out` to that with respect to each input: din[k] is shaped like in[k], that of a
 * parameter is the sum over the rows. din[k] is all zero when the function is called, and NULL where nobody wants it. */
typedef void ls_custom_backward(const ls_custom_call *call, const float *const in[], const float *out,
                                const float *dout, float *const din[]);

typedef struct ls_custom {
    const char *name;       /* for messages */
    int inputs;             /* 1 to LS_CUSTOM_INPUTS */
    ls_custom_shape *shape; /* NULL: the output is shaped like the first input */
    ls_custom_forward *forward;
    ls_custom_backward *backward; /* NULL: training through it is LS_UNSUPPORTED */
    void *user;                   /* must outlive the session */
} ls_custom;

/* Records it; `op` and its name are copied. The first input is (images, ...), each other one that or a parameter. An output
 * whose height and width are 1 is (images, features). */
ls_tensor *ls_custom_op(const ls_custom *op, ls_tensor *const inputs[]);

/* ---- Parameters -------------------------------------------------------------------------------------------------- */

typedef enum ls_init_kind { LS_NORMAL, LS_XAVIER, LS_HE } ls_init_kind;
typedef struct ls_init {
    ls_init_kind kind; /* LS_XAVIER: uniform(+-sqrt(6/(fan_in+fan_out))); LS_HE: normal(sqrt(2/fan_in)) */
    double scale;      /* of LS_NORMAL; 0: 0.01 */
    bool force;        /* initialise again what has values already */
} ls_init;

/* Gives the network its values on a list of devices, for images of the shape that `like` has. Biases 0, BatchNorm 1 and 0,
 * running statistics 0 and 1. `init` may be NULL. */
ls_status ls_initialize(ls_module *net, ls_devices devices, const ls_data *like, const ls_init *init);

int ls_parameter_count(ls_module *net); /* tensors that ls_save writes, running statistics included */
typedef struct ls_parameter_info {
    const char *name;
    int rank;
    int64_t shape[4];
    int64_t numbers;
    bool trainable;
} ls_parameter_info;
ls_status ls_parameter_at(ls_module *net, int i, ls_parameter_info *info);
ls_status ls_read_parameter(ls_module *net, const char *name, float *values, int64_t numbers); /* C order */
ls_status ls_write_parameter(ls_module *net, const char *name, const float *values, int64_t numbers);
ls_status ls_read_gradient(ls_module *net, const char *name, float *values, int64_t numbers);
/* of the last ls_gradient: summed over the batch, not divided */

/* safetensors. Loading takes every parameter by name and shape; `*.num_batches_tracked` is ignored, any other missing or
 * extra one is LS_BAD_FILE and leaves the network as it was. Saving replaces `path` as a whole or not at all. */
ls_status ls_load(ls_module *net, const char *path);
ls_status ls_save(ls_module *net, const char *path);
/* The model's name in a file's metadata ("lenet"), written to name[size]; "" where the file has none. */
ls_status ls_model_of_file(ls_session *session, const char *path, char *name, size_t size);

/* SHA-256 over the tensors that ls_save writes, in byte order of their names: name, a zero byte, the values as
 * little-endian float32 in C order. 64 lowercase digits and a zero byte. */
ls_status ls_fingerprint(ls_module *net, char digits[65]);
ls_status ls_fingerprint_file(ls_session *session, const char *path, char digits[65]);

/* ---- Training ---------------------------------------------------------------------------------------------------- */

typedef struct ls_trainer ls_trainer;
typedef enum ls_optimizer { LS_SGD } ls_optimizer;
typedef enum ls_schedule { LS_CONSTANT, LS_STEP_SCHEDULE, LS_COSINE } ls_schedule;

typedef struct ls_optim {
    double lr, momentum, weight_decay;
    bool nesterov;
    ls_schedule schedule; /* LS_STEP_SCHEDULE: a tenth of lr after half, a hundredth after three quarters of `total` */
    int64_t warmup;       /* steps of linear rise to lr */
    int64_t total;        /* steps of the whole run; needed by the step and cosine schedules */
} ls_optim;

/* PyTorch's SGD: v = momentum*v + (gradient + weight_decay*w), w -= lr*v (nesterov: w -= lr*(g + momentum*v)). The gradient
 * is summed over the batch's shards in a fixed tree and divided by the batch's number of images. */
ls_trainer *ls_trainer_new(ls_module *net, ls_optimizer kind, const ls_optim *options);

/* Refuses by name what a data set's batches would make impossible, before the first step: a shard whose BatchNorm would
 * see a single value. */
ls_status ls_check_batches(ls_trainer *trainer, const ls_data *data);

ls_status ls_step(ls_trainer *trainer, const ls_batch *batch);     /* forward, backward, update; returns at once */
ls_status ls_gradient(ls_trainer *trainer, const ls_batch *batch); /* forward and backward alone; waits */

typedef struct ls_report {
    int64_t step;    /* finished updates, from 1 */
    double loss;     /* mean over the batch, before the update */
    int64_t correct; /* images whose largest logit is the label's, before the update */
    int rows;
} ls_report;
/* Takes the next finished step's report, in order; false where none is finished yet. Up to 1024 wait to be taken; then
 * the oldest are dropped. */
bool ls_next_report(ls_trainer *trainer, ls_report *report);

typedef struct ls_metrics {
    double loss;
    int64_t correct, rows;
} ls_metrics;
/* Every image of `data` once, in inference mode, on all devices. */
ls_status ls_evaluate(ls_module *net, const ls_data *data, ls_metrics *metrics);
/* logits[rows][classes] in the data's file order. */
ls_status ls_predict(ls_module *net, const ls_data *data, float *logits, int classes);

/* float32 array, C order, as NumPy's .npy; replaces `path` as a whole or not at all. */
ls_status ls_save_npy(ls_session *session, const char *path, const float *values, int64_t rows, int64_t columns);

#ifdef __cplusplus
}
#endif
#endif
