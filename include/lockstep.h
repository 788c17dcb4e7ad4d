/* Lockstep: trains neural networks on several devices at once, with the same bits on any number of them.
 *
 * SPDX-License-Identifier: MIT
 *
 * The rules that hold for every function here:
 *
 * Errors.    The first failure sticks to the session. Later calls on that session do nothing and return an inert
 *            object, NULL or the sticky status, so a program may check once, at the end; numbers that they were to
 *            write or return are NaN, counts 0. The message names the function, the argument and the shapes. Nothing
 *            here prints, exits, aborts or catches a signal.
 * Ownership. Tensors, data, networks' values and trainers live until the innermost scope that was open when they were
 *            made is left (ls_enter, ls_leave; a batch of ls_data_next is a scope for tensors); the session itself is
 *            the outermost. Modules live until ls_close. Strings returned live as long as their object.
 * Waiting.   Operations record; ls_backward, ls_trainer_step and reading a value hand work in; they return before it is
 *            done. ls_wait waits, and so does whatever returns numbers: ls_read, ls_item, ls_str, ls_module_evaluate,
 *            ls_module_predict, ls_module_save, ls_module_load, ls_module_fingerprint. When and how often one waits
 *            changes no bit.
 * Threads.   One thread at a time may use a session and what was made from it. Different sessions are independent.
 * Processes. After fork() a session is its parent's alone: in the child calls on it are LS_BAD_ARGUMENT, and ls_close
 *            frees and ends nothing. The child may open sessions of its own.
 * Results.   Equal options, seed, data and steps give equal bits, for any list of devices of one type; in float32 for
 *            any list of cores and cards.
 * Callers.   What the calling program has set changes neither numbers nor files: its rounding mode, denormals that are
 *            flushed, its locale, its umask (owners may read and write the library's files). It is as it was when a
 *            function returns; functions of the caller's that the library calls find rounding to nearest and the C
 *            locale. 64 KiB of stack are enough. The library's threads take none of the process's signals but a
 *            profiler's.
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
    LS_NOT_INITIALIZED, /* parameters that have no values, or none on that device */
    LS_SHAPE_UNKNOWN,   /* parameters whose shapes the first images will tell */
    LS_STALE,           /* a gradient that is empty or was used up; numbers that were replaced meanwhile */
    LS_NOT_FINITE, /* NaN or infinity in the loss or a gradient; the last good weights are kept, moments start anew */
    LS_OUT_OF_MEMORY,
    LS_UNSUPPORTED, /* known, but not built into this library or not offered by this device */
    LS_INTERNAL,    /* a defect of the library itself */
    LS_BUSY,        /* another process uses it */
    LS_CHANGED,     /* a checkpoint of a run with other settings; weights whose classes are others */
    LS_DIFFERS,     /* devices that must agree do not */
    LS_INTERRUPTED  /* by ls_interrupt (lockstep_train.h) */
} ls_status;

const char *ls_version(void);
const char *ls_status_name(ls_status status);

const char *ls_features(void); /* what is built in, one `name: value` a line (compression, hashing, JSON, download) */

/* ---- Session ----------------------------------------------------------------------------------------------------- */

typedef struct ls_session ls_session;
typedef struct ls_cluster ls_cluster; /* ranks: lockstep_cluster.h */

/* Every allocation of a session goes through these when given. `allocate` returns memory aligned to `alignment` (a
 * power of two, at least 64) or NULL. Both may be called from the session's own threads. */
typedef struct ls_allocator {
    void *(*allocate)(size_t bytes, size_t alignment, void *user);
    void (*release)(void *memory, void *user);
    void *user;
} ls_allocator;

/* LS_ISA_PLAIN is for machines without the others and for comparing bits: one number at a time takes some thirty times
 * as long as AVX2 (a step of ResNet-18 over 16 images most of a minute on one core), and longer where the machine has
 * no fused multiply-add. LS_ISA_REFERENCE, the operations as they are defined, is for tests of small networks. */
typedef enum ls_isa { LS_ISA_AUTO = 0, LS_ISA_PLAIN, LS_ISA_NEON, LS_ISA_AVX2, LS_ISA_AVX512, LS_ISA_REFERENCE } ls_isa;
typedef enum ls_algorithm { LS_CONV_AUTO = 0, LS_CONV_DIRECT } ls_algorithm;
/* What GPUs compute in; parameters and their gradients are float32 with each. CPUs compute in LS_F32 alone. */
typedef enum ls_dtype { LS_F32 = 0, LS_TF32, LS_BF16 } ls_dtype;

typedef struct ls_options {
    uint64_t seed;     /* of everything random */
    int shard;         /* images to a shard; 0: 64 */
    int batch_norm;    /* images to BatchNorm's statistics in training; 0: a shard's; -1: a batch's; -2: a step's */
    ls_isa isa;        /* the widest instruction set to use: changes speed, never bits */
    ls_algorithm conv; /* LS_CONV_AUTO: Winograd where the layer's shape suits it */
    ls_dtype dtype;    /* other than LS_F32 for GPUs alone */
    const ls_allocator *allocator; /* NULL: the C library's */
    ls_cluster *cluster;           /* the ranks to work with, one session at a time; NULL: this process alone */
    bool balance;   /* after nine steps a rank's shards go by its speed; all ranks alike, and the bits as they are */
    int in_flight;  /* shards that a GPU computes side by side: changes speed, never bits; 0: up to 4, by its memory */
    bool host_sums; /* ranks' GPUs meet in the hosts' memory, also where NCCL could carry the numbers */
    const struct ls_trial *trial; /* lockstep_trial.h, copied; NULL: none */
} ls_options;

/* Opens a session; `options` may be NULL. Never NULL unless not even the session itself could be allocated. */
ls_session *ls_open(const ls_options *options);

/* Waits, frees the session and everything made from it, and returns its sticky status. NULL is LS_OUT_OF_MEMORY. */
ls_status ls_close(ls_session *session);

ls_status ls_wait(ls_session *session); /* until all work handed in is done; returns the sticky status */
bool ls_failed(const ls_session *session);
ls_status ls_status_of(const ls_session *session);
const char *ls_message(const ls_session *session); /* of the first failure; "" without one */
/* Takes back a failure that was expected: true when the sticky status is `status`, which then is LS_OK again. */
bool ls_catch(ls_session *session, ls_status status);
/* Makes a failure of the caller's the session's, unless it has one. Returns the one that sticks. */
ls_status ls_fail(ls_session *session, ls_status status, const char *format, ...);

/* Scopes: what is made between ls_enter and ls_leave goes with ls_leave. ls_keep moves a tensor to the scope around its
 * own. */
int ls_enter(ls_session *session);
void ls_leave(ls_session *session, int scope);
typedef struct ls_tensor ls_tensor;
ls_tensor *ls_keep(ls_tensor *tensor);
ls_session *ls_session_of(const void *object); /* of a tensor, module, trainer or data set */

/* The instruction set in use: "avx512", "avx2", "neon", "plain" or "reference". */
const char *ls_isa_name(const ls_session *session);

/* ---- Devices ----------------------------------------------------------------------------------------------------- */

typedef enum ls_device_type { LS_HOST = 0, LS_CPU = 1, LS_CUDA = 2 } ls_device_type;
typedef struct ls_device {
    int16_t type, index;
} ls_device;
enum { LS_MAX_DEVICES = 256 };
typedef struct ls_devices {
    int n;
    ls_device at[LS_MAX_DEVICES];
} ls_devices;

/* Reads a list such as "cpu:0,cpu:1", "cpu:0-15", "cuda:0-3" or "cuda:0x2" (card 0 as two devices; gpu: is cuda:). A
 * malformed list or a device named twice is LS_BAD_ARGUMENT, a well-formed device that is not there LS_NO_DEVICE.
 * `cpu:I` is core I of the process's affinity mask; more devices than cores share them and take turns, and so do more
 * than a container's CPU quota keeps busy. */
ls_devices ls_parse_devices(ls_session *session, const char *list);
/* All GPUs; where there are none one CPU device for each core of the affinity mask, but no more than the CPU quota of
 * the process's control groups keeps busy, which the ranks of a host share: rounded up, at least one. Of GPUs the ranks
 * of a host have a share each, here and in lists, where cuda:0 is the first of the rank's own; ranks that are more than
 * GPUs share them. */
ls_devices ls_all_devices(ls_session *session);
/* How many there are, of CPUs as many as ls_all_devices has. As ls_notice: why there are no GPUs, which quota leaves
 * cores idle. */
int ls_device_count(ls_session *session, ls_device_type type);
ls_device ls_host(void); /* where data and files are, no device that computes */
ls_device ls_cpu(int i);
ls_device ls_gpu(int i);
/* What the last call below had to make do with, such as "there is no gpu(0) here: cpu(0) in its place"; "" where
 * nothing. */
const char *ls_notice(const ls_session *session);
/* GPU i where there is one, else CPU i; all GPUs, else the first CPU; the first n GPUs, else the first n CPUs. Of GPUs
 * the rank's own, as above. */
ls_device ls_try_gpu(ls_session *session, int i);
ls_devices ls_try_all_gpus(ls_session *session);
ls_devices ls_try_devices(ls_session *session, int n);
const char *ls_device_str(ls_session *session, ls_device device);    /* "cpu(0)", "gpu(0)", "gpu(0.1)" */
const char *ls_devices_str(ls_session *session, ls_devices devices); /* "[cpu(0), cpu(1)]" */
const char *ls_device_about(ls_session *session, ls_device device);  /* one line: core, instruction set; card, memory */
int ls_device_core(ls_device device); /* the operating system's number of a CPU device's core; of others -1 */

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

enum { LS_MAX_RANK = 4 };
typedef struct ls_shape {
    int rank;
    int64_t dim[LS_MAX_RANK];
} ls_shape;
/* LS_SHAPE(4, 5): a shape from its sizes, 1 to 4 of them. */
#ifdef __cplusplus
extern "C++" {
template <typename... size> inline ls_shape ls_shape_of(size... sizes)
{
    return ls_shape{static_cast<int>(sizeof...(sizes)), {static_cast<int64_t>(sizes)...}};
}
}
#define LS_SHAPE(...) ls_shape_of(__VA_ARGS__)
#else
#define LS_SHAPE(...) ((ls_shape){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})
#endif

/* New tensors on the host, float32 in C order. Random numbers are a function of the session's seed, the key and the
 * place, so that equal keys give equal numbers; a tensor drawn with a key bears it as its name. */
ls_tensor *ls_zeros(ls_session *session, ls_shape shape);
ls_tensor *ls_full(ls_session *session, double value, ls_shape shape);
ls_tensor *ls_arange(ls_session *session, double first, ls_shape shape);     /* first, first + 1, ... */
ls_tensor *ls_uniform(ls_session *session, const char *key, ls_shape shape); /* in [0, 1) */
ls_tensor *ls_randn(ls_session *session, const char *key, double scale, ls_shape shape);
ls_tensor *ls_values(ls_session *session, const float *values, ls_shape shape); /* copied */
ls_tensor *ls_named(ls_tensor *tensor, const char *name);                       /* for messages; returns the tensor */
ls_device ls_device_of(const ls_tensor *tensor);
int ls_rank(const ls_tensor *tensor);
int64_t ls_dim(const ls_tensor *tensor, int i); /* -1 for the images under a module's forward */
int64_t ls_rows(const ls_tensor *tensor);       /* ls_dim(tensor, 0) */

ls_status ls_read(ls_tensor *tensor, float *values, int64_t numbers); /* all of it, C order; waits */
double ls_item(ls_tensor *tensor);                                    /* of a tensor with one number; waits */
/* "[[0, 1],\n [2, 3]] on cpu(0)"; of a gradient that no backward pass has reached "empty on cpu(0)". Long ones are
 * shortened. Lives until the next ls_str of the tensor. Waits. */
const char *ls_str(ls_tensor *tensor);

ls_tensor *ls_to(ls_tensor *tensor, ls_device device);    /* itself where it lies there, else a copy */
ls_tensor *ls_clone(ls_tensor *tensor, ls_device device); /* always a copy */
uint64_t ls_bytes_moved(ls_session *session);    /* between host and devices by ls_to, ls_assign and the like */
ls_tensor *ls_row(ls_tensor *tensor, int64_t i); /* row i, without the first dimension; shares its numbers */
/* Cuts rows into one part for each device, in order, sizes differing by at most one, the larger ones first. */
ls_status ls_scatter(ls_tensor *tensor, ls_devices devices, ls_tensor *parts[]);
ls_tensor *ls_gather(ls_tensor *const parts[], int n, ls_device device); /* the parts' rows, one after another */
ls_status ls_assign(ls_tensor *to, ls_tensor *from);                     /* equal shapes; from any device */
ls_status ls_add_to(ls_tensor *to, ls_tensor *from);                     /* to += from, on one device */

/* Gradients. ls_track makes a tensor one that gradients are computed for. A gradient is empty, fresh after a backward
 * pass (a further one adds to it), and used up by an update: updating with one that is not fresh is LS_STALE. What
 * ls_grad reads is a sum: that of the passes' gradients, where a loss of one number for each image is the sum over the
 * images. It is neither divided by their number nor clipped; ls_trainer_step and ls_sgd_step do that. */
ls_tensor *ls_track(ls_tensor *tensor);
ls_tensor *ls_grad(ls_tensor *tensor);
/* Empties the gradient; of a network's parameter those of the whole network: its pending passes are dropped. */
ls_status ls_clear_grad(ls_tensor *tensor);
/* Backward from a loss: one number, or one for each image: their sum. Of a part of a batch on a device it runs there,
 * in shards, and gradients are the tree sum over them. A network's (ls_module_forward) wait for ls_trainer_step, which
 * divides by what the loss counts, mostly images: a mean is refused. Chains, gradients of inputs: lockstep_train.h. */
ls_status ls_backward(ls_tensor *loss);
ls_status ls_backward_from(ls_tensor *y, ls_tensor *dy); /* from any computed tensor and its gradient */
/* w -= lr * (gradient / rows), for n tracked tensors on one device; none of them where a number would not be finite. */
ls_status ls_sgd_step(ls_tensor *const parameters[], int n, double lr, int64_t rows);

/* ---- Data -------------------------------------------------------------------------------------------------------- */

typedef struct ls_data ls_data;
typedef enum ls_part { LS_TRAIN, LS_TEST } ls_part;

/* What changes the images of ls_data_next's batches, in each epoch anew: they are shifted, then mirrored, then erased.
 * Each draw is a function of the session's seed, the image's number in file order and the epoch alone; docs/data.md has
 * the formulas. Zeros change nothing. ls_module_evaluate and ls_module_predict take the images as they are. */
typedef struct ls_augment {
    bool flip;    /* mirrored left to right, with probability 1/2 */
    int crop;     /* shifted by up to so many pixels, up or down and sideways; zeros come in. Below height and width */
    double erase; /* the probability, from 0 to 1, that a rectangle of 2 to 33 percent of the area becomes zero */
} ls_augment;

typedef struct ls_loader {
    const char *directory; /* of the files; NULL: $LOCKSTEP_DATA, the system's data folder, the user's cache */
    int batch;             /* images to a batch; 0: 256 */
    bool shuffle;          /* a new order every epoch, drawn from the session's seed */
    int64_t limit;         /* the first `limit` images only; 0: all */
    ls_augment augment;
    void (*told)(const char *line, void *user); /* of faulty files in a "folder" the first 20, a line each; or NULL */
    void *user;
    double edge_target; /* what a crop shifts into targets with places (ls_data_set_targets), say an ignored label */
    bool drop_last;     /* an epoch ends before a partial batch; evaluation and prediction take all images */
} ls_loader;

enum { LS_MAX_INPUTS = 4 }; /* tensors that a network takes at once */

/* A run of images of one epoch, in that epoch's order, on the host. It and what is made from it go with the next
 * ls_data_next on the same data. */
typedef struct ls_batch {
    ls_tensor *X;  /* (rows, channels, height, width), of bytes from 0 to 1; of data of lockstep_data.h (rows, ...) */
    ls_tensor *y;  /* (rows), labels; NULL where the data have none */
    int64_t epoch; /* from 0 */
    ls_tensor *inputs[LS_MAX_INPUTS]; /* X, and what ls_data_add_input has added */
    int n_inputs;
} ls_batch;

/* Reads one part of a data set into memory, by the name of what it is and how it lies on the disk:
 *   "fashion-mnist", "mnist"  28 x 28 grey images in four idx files, raw or gzip'ed; ten classes
 *   "cifar10", "cifar100"     32 x 32 colour images in the files of the binary version; 10 classes, 100 (the fine
 *                             labels)
 *   "npy"                     X_train.npy, ...: (N, C, H, W) or (N, H, W), uint8 (as value/255) or float32 (as it is);
 *                             y_train.npy, ...: (N)
 *   "folder"                  train/CLASS/IMAGE and test/CLASS/IMAGE, PNG and JPEG, in byte order, of the first
 *                             training image's size
 * docs/data.md has the formats. LS_IO: a file is not there; LS_BAD_FILE: it is not what it should be; LS_UNSUPPORTED:
 * built without what reads it. The message names the file. */
ls_data *ls_data_open(ls_session *session, const char *name, ls_part part, const ls_loader *loader);

ls_data *ls_data_fashion_mnist(ls_session *session, ls_part part, const ls_loader *loader); /* "fashion-mnist" */

/* Data from memory: images[rows][channels][height][width] as bytes (used as value/255), labels[rows] below `classes`.
 * Both are copied. With labels NULL and 0 classes y comes of lockstep_data.h. `loader->directory` is not used. */
ls_data *ls_data_from_memory(ls_session *session, const uint8_t *images, const uint8_t *labels, int64_t rows,
                             int channels, int height, int width, int classes, const ls_loader *loader);

int64_t ls_data_rows(const ls_data *data);
int ls_data_batches(const ls_data *data); /* in one epoch; the partial last one counts unless drop_last leaves it out */

/* The next batch of the epoch; false at its end (the call after that begins the next epoch) and after a failure. */
bool ls_data_next(ls_data *data, ls_batch *batch);

/* ---- Networks ---------------------------------------------------------------------------------------------------- */

typedef struct ls_module ls_module;

/* The book's networks: "lenet" and "resnet18" (10 classes, parameters named as those of its program in PyTorch, which
 * are not torchvision's), the same with other classes, and with as many as a weights file has. They take the channels,
 * and LeNet's first product the size, of the first images; LeNet's maps have to be of at least 14 x 14. */
ls_module *ls_model(ls_session *session, const char *name);
ls_module *ls_model_for(ls_session *session, const char *name, int classes);
ls_module *ls_model_for_file(ls_session *session, const char *name, const char *path);
ls_module *ls_lenet(ls_session *session);
ls_module *ls_resnet18(ls_session *session, int classes);

/* A network on a batch. Images on the host are spread over the network's devices and the result is on the host again;
 * images on a device are computed there. Training mode takes BatchNorm's statistics of each shard and drops what
 * dropout drops, by seed, step and an image's number in its data set, or its row in X; inference takes the running
 * ones. Gradients of parameters, of ls_module_forward alone, are computed by ls_trainer_step, or when they are read. */
ls_tensor *ls_module_forward(ls_module *net, ls_tensor *X);
ls_tensor *ls_module_infer(ls_module *net, ls_tensor *X);

/* ---- Parameters -------------------------------------------------------------------------------------------------- */

typedef enum ls_init_kind { LS_NORMAL, LS_XAVIER, LS_HE } ls_init_kind;
typedef struct ls_init {
    ls_init_kind kind;   /* LS_XAVIER: uniform(+-sqrt(6/(fan_in+fan_out))); LS_HE: normal(sqrt(2/fan_in)) */
    double scale;        /* of LS_NORMAL; 0: 0.01, -1: zeros */
    bool force;          /* initialise again what has values already */
    const ls_data *like; /* images of the shape to come; NULL: see shape */
    ls_shape shape;      /* of the one input to come, rows first (of any number); rank 0: the first call tells */
} ls_init;

/* Gives the network, which is no part of another, its values on a list of devices, equal on all of them. Biases 0,
 * BatchNorm 1 and 0, running statistics 0 and 1. `init` may be NULL. */
ls_status ls_module_initialize(ls_module *net, ls_devices devices, const ls_init *init);

/* A parameter as it is on one of the network's devices, or on the host: to be read, printed, and for ls_grad. */
ls_tensor *ls_module_param(ls_module *net, const char *name, ls_device device);

int ls_module_parameter_count(ls_module *net); /* tensors that ls_module_save writes, running statistics included */
typedef struct ls_parameter_info {
    const char *name;
    int rank;
    int64_t shape[4];
    int64_t numbers;
    bool trainable; /* a trainer's updates change it: no running statistic, and not frozen */
    bool frozen;    /* see ls_module_freeze */
} ls_parameter_info;
ls_status ls_module_parameter_at(ls_module *net, int i, ls_parameter_info *info);
ls_status ls_module_read_parameter(ls_module *net, const char *name, float *values, int64_t numbers); /* C order */
ls_status ls_module_write_parameter(ls_module *net, const char *name, const float *values, int64_t numbers);
/* A sum over names and values, equal for equal ones; 0 after a failure. Waits. */
uint64_t ls_module_checksum(ls_module *net);
const char *ls_module_summary(ls_module *net); /* a table of parameters and shapes; lives as long as the network */

/* safetensors. Loading takes every parameter by name and shape; `*.num_batches_tracked` is passed over, any other
 * missing or extra one is LS_BAD_FILE. F16, BF16 and F64 become float32: the first two exactly, F64 rounded to the
 * nearest. Another type, NaN, infinity, and an F64 that float32 cannot hold are LS_BAD_FILE. A failure leaves the
 * network as it was. A file that ls_module_save wrote knows the shape of the network's images, and loading it tells
 * them to a network that has seen none. `net` may be a part of one that knows its shapes: the names are those below. */
ls_status ls_module_load(ls_module *net, const char *path);
ls_status ls_module_save(ls_module *net, const char *path);
/* SHA-256 over the tensors that ls_module_save writes, in byte order of their names: name, a zero byte, the values as
 * little-endian float32 in C order, also where a file has them as F16, BF16 or F64. 64 lowercase digits, then 0. */
ls_status ls_module_fingerprint(ls_module *net, char digits[65]);

/* ---- Training ---------------------------------------------------------------------------------------------------- */

typedef struct ls_trainer ls_trainer;
typedef enum ls_optimizer { LS_SGD, LS_ADAM, LS_ADAMW } ls_optimizer;
typedef enum ls_schedule {
    LS_CONSTANT,
    LS_STEP_SCHEDULE,
    LS_COSINE,
    LS_LINEAR,
    LS_EXPONENTIAL,
    LS_ONE_CYCLE,
    LS_WARM_RESTARTS
} ls_schedule;

typedef struct ls_optim {
    double lr, momentum, weight_decay; /* lr 0: none, and a step asks for one; momentum of LS_SGD alone */
    bool nesterov;                     /* likewise; needs momentum */
    ls_schedule schedule;
    int64_t warmup; /* steps of linear rise to lr; with LS_ONE_CYCLE those of its own rise, 0: 0.3 * total */
    int64_t total;  /* steps of the whole run; needed by all schedules but LS_EXPONENTIAL and LS_WARM_RESTARTS */
    double beta1, beta2, eps; /* of LS_ADAM and LS_ADAMW; 0: 0.9, 0.999, 1e-8; -1: 0 */
    double clip_norm;   /* a gradient with a larger norm, over all parameters together, is scaled to it; 0: never */
    int64_t full_batch; /* 0: gradients are means over the images; else sums divided by this, as MXNet's are */
    /* What schedules take; lockstep_train.h has the formulas. A schedule refuses what is another's. */
    double start_factor, end_factor; /* of lr; 0: the usual, as there; -1: 0 */
    double gamma;
    int64_t period;               /* steps; 0: 1 */
    int period_factor;            /* 0: 1 */
    double ema;                   /* decay of an average of the weights, ls_trainer_use_average; 0: none is kept */
    bool ema_warmup, ema_buffers; /* it decays faster at first; averages BatchNorm's statistics too; need an ema */
    bool after_warmup;            /* the schedule begins where the warm-up ends; needs a warmup */
} ls_optim;

/* Updates the network from the gradients of ls_backward, which are summed over the shards in a fixed tree and divided
 * by what their losses count since the last update, or by full_batch. A loss counts its images, or what lockstep_nn.h
 * says in their place. As PyTorch defines them, with t updates so far, this one included:
 *   LS_SGD:   g = gradient + weight_decay*w, v = momentum*v + g (the first time v = g),
 *             w -= lr*v (nesterov: w -= lr*(g + momentum*v));
 *   LS_ADAM:  g = gradient + weight_decay*w, m = beta1*m + (1 - beta1)*g, v = beta2*v + (1 - beta2)*g*g,
 *             w -= lr * m/(1 - beta1^t) / (sqrt(v/(1 - beta2^t)) + eps);
 *   LS_ADAMW: the same with g = gradient, after w -= lr*weight_decay*w.
 * clip_norm is PyTorch's clip_grad_norm_, before all of this; updates then wait for the whole gradient, and overlap
 * with none of it. A network has one trainer at a time, which lives as long as its scope: a second one is
 * LS_BAD_ARGUMENT, as it would begin the moments anew; ls_trainer_set_options keeps them. */
ls_trainer *ls_trainer_new(ls_module *net, ls_optimizer kind, const ls_optim *options);

/* Forward, backward and update of what ls_backward was called for since the last step; LS_STALE where that is nothing.
 * Returns at once; at most two steps are in flight. */
ls_status ls_trainer_step(ls_trainer *trainer);

typedef struct ls_report {
    int64_t step;    /* finished updates, from 1 */
    double loss;     /* mean over what the losses count, or their sum by a smaller full_batch; before the update */
    int64_t correct; /* images whose largest logit is the label's, before the update */
    int rows;        /* images, of several calls of the network those of each */
    double norm;     /* of the gradient before it is clipped; 0 without clip_norm */
} ls_report;
/* Takes the next finished step's report, in order; false where none is finished yet. Up to 1024 wait; then the oldest
 * are dropped, and ls_trainer_reports_lost counts them. */
bool ls_trainer_next_report(ls_trainer *trainer, ls_report *report);

/* ---- Evaluation -------------------------------------------------------------------------------------------------- */

typedef struct ls_metrics {
    double loss;
    int64_t correct, rows;
} ls_metrics;
/* By ls_cross_entropy: every image of `data` once, in inference mode, on all devices. A loss that is not finite is
 * LS_NOT_FINITE. For other losses there is ls_module_evaluate_with. */
ls_status ls_module_evaluate(ls_module *net, const ls_data *data, ls_metrics *metrics);
double ls_module_accuracy(ls_module *net, const ls_data *data); /* likewise, the share of right images */
/* logits[rows][classes] in the data's file order; `classes` is how many numbers the network makes of an image, in maps
 * too. LS_NOT_FINITE names the first image with one that is NaN or infinity. */
ls_status ls_module_predict(ls_module *net, const ls_data *data, float *logits, int classes);

typedef struct ls_timer { /* a stopwatch: laps of start and stop */
    double total, since;  /* seconds */
    int laps;
} ls_timer;
void ls_timer_start(ls_timer *timer);
void ls_timer_stop(ls_timer *timer);
double ls_timer_avg(const ls_timer *timer); /* seconds a lap */

#ifdef __cplusplus
}
#endif
#endif
