/* Lockstep: trains neural networks on several devices at once, with the same bits on any number of them.
 *
 * SPDX-License-Identifier: MIT
 *
 * The rules that hold for every function here:
 *
 * Errors.    The first failure sticks to the session. Later calls on that session do nothing and return an inert object,
 *            NULL or the sticky status, so a program may check once, at the end. The message names the function, the
 *            argument and the shapes. Nothing here prints, exits, aborts or catches a signal.
 * Ownership. Tensors, data, networks' values and trainers live until the innermost scope that was open when they were made
 *            is left (ls_enter, ls_leave; a batch of ls_next is a scope for tensors); the session itself is the outermost.
 *            Modules live until ls_close. Strings returned live as long as their object.
 * Waiting.   Operations record; ls_backward, ls_step and reading a value hand work in; they return before it is done.
 *            ls_wait waits, and so does whatever returns numbers: ls_read, ls_item, ls_str, ls_evaluate, ls_predict, ls_save,
 *            ls_load, ls_fingerprint. When and how often one waits changes no bit.
 * Threads.   One thread at a time may use a session and what was made from it. Different sessions are independent.
 * Processes. After fork() a session is its parent's alone: in the child calls on it are LS_BAD_ARGUMENT, and ls_close frees and ends
 *            nothing. The child may open sessions of its own.
 * Results.   Equal options, seed, data and steps give equal bits, for any list of devices of one type.
 * Callers.   What the calling program has set changes neither numbers nor files: its rounding mode, denormals that are flushed, its
 *            locale, its umask (owners may read and write the library's files). It is as it was when a function returns; functions
 *            of the caller's that the library calls find rounding to nearest and the C locale. 64 KiB of stack are enough.
 *            The library's threads take none of the process's signals but a profiler's.
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
    LS_NOT_FINITE, /* NaN or infinity in the loss or in a gradient; the last good weights are kept, moments start anew */
    LS_OUT_OF_MEMORY,
    LS_UNSUPPORTED, /* known, but not built into this library or not offered by this device */
    LS_INTERNAL,    /* a defect of the library itself */
    LS_BUSY,        /* another process uses it */
    LS_CHANGED,     /* a checkpoint of a run with other settings; weights whose classes are others */
    LS_DIFFERS      /* devices that must agree do not */
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

/* LS_ISA_PLAIN is for machines without the others and for comparing bits: one number at a time takes some thirty times as long as AVX2
 * (a step of ResNet-18 over 16 images most of a minute on one core), and longer where the machine has no fused multiply-add.
 * LS_ISA_REFERENCE, the operations as they are defined, is for tests of small networks. */
typedef enum ls_isa { LS_ISA_AUTO = 0, LS_ISA_PLAIN, LS_ISA_NEON, LS_ISA_AVX2, LS_ISA_AVX512, LS_ISA_REFERENCE } ls_isa;
typedef enum ls_algorithm { LS_CONV_AUTO = 0, LS_CONV_DIRECT } ls_algorithm;
/* What GPUs compute in; parameters and their gradients are float32 with each. CPUs compute in LS_F32 alone. */
typedef enum ls_dtype { LS_F32 = 0, LS_TF32, LS_BF16 } ls_dtype;

typedef struct ls_options {
    uint64_t seed;                 /* of everything random */
    int shard;                     /* images to a shard; 0: 64. As many as a batch: BatchNorm's statistics are the batch's */
    ls_isa isa;                    /* the widest instruction set to use: changes speed, never bits */
    ls_algorithm conv;             /* LS_CONV_AUTO: Winograd where the layer's shape suits it */
    ls_dtype dtype;                /* other than LS_F32 for GPUs alone */
    const ls_allocator *allocator; /* NULL: the C library's */
    struct ls_cluster *cluster;    /* the ranks to work with, one session at a time; NULL: this process alone */
    bool balance;   /* after nine steps a rank's shards go by its measured speed; all ranks alike, and the bits as they are */
    int host_ranks; /* for trials: reduces as if so many ranks shared each host; 1: in one level; 0: as they are */
    int in_flight;  /* shards that a GPU computes beside one another: changes speed, never bits; 0: up to 4, by its memory */
    bool host_sums; /* ranks' GPUs meet in the hosts' memory, also where NCCL could bring numbers from one to the other */
    uint64_t shuffle_pulls; /* for tests: 0 hands shards out in index order, another value in an order drawn from it */
    int slow_cpu;           /* for tests and trials: this device of a network waits */
    double slow_seconds;    /* so many seconds before each shard */
} ls_options;

/* Opens a session; `options` may be NULL. Never NULL unless not even the session itself could be allocated. */
ls_session *ls_open(const ls_options *options);

/* Waits, frees the session and everything made from it, and returns its sticky status. NULL is LS_OUT_OF_MEMORY. */
ls_status ls_close(ls_session *session);

ls_status ls_wait(ls_session *session); /* until all work handed in is done; returns the sticky status */
bool ls_failed(const ls_session *session);
ls_status ls_status_of(const ls_session *session);
/* Whether the failure is one that all ranks of the session's cluster found together, so that none of them waits for another. */
bool ls_failed_together(const ls_session *session);
const char *ls_message(const ls_session *session); /* of the first failure; "" without one */
/* Takes back a failure that was expected: true when the sticky status is `status`, which then is LS_OK again. */
bool ls_catch(ls_session *session, ls_status status);
/* Makes a failure of the caller's the session's, unless it has one. Returns the one that sticks. */
ls_status ls_fail(ls_session *session, ls_status status, const char *format, ...);

/* Scopes: what is made between ls_enter and ls_leave goes with ls_leave. ls_keep moves a tensor to the scope around its own. */
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

/* Reads a list such as "cpu:0,cpu:1", "cpu:0-15", "cuda:0-3" or "cuda:0x2" (card 0 as two devices; gpu: is cuda:). A malformed
 * list or a device named twice is LS_BAD_ARGUMENT, a well-formed device that is not there LS_NO_DEVICE. `cpu:I` is core I of the process's affinity mask; more devices than
 * cores share them and take turns, and so do more than a container's CPU quota keeps busy. */
ls_devices ls_parse_devices(ls_session *session, const char *list);
/* All GPUs; where there are none one CPU device for each core of the affinity mask, but no more than the CPU quota of the process's
 * control groups keeps busy, which the ranks of a host share: rounded up, at least one. Of GPUs the ranks of a host have a share each, here
 * and in lists, where cuda:0 is the first of the rank's own; ranks that are more than GPUs share them. */
ls_devices ls_all_devices(ls_session *session);
/* How many there are, of CPUs as many as ls_all_devices has. As ls_notice: why there are no GPUs, which quota is below the cores. */
int ls_device_count(ls_session *session, ls_device_type type);
ls_device ls_host(void); /* where data and files are, no device that computes */
ls_device ls_cpu(int i);
ls_device ls_gpu(int i);
/* What the last call below had to make do with, such as "there is no gpu(0) here: cpu(0) in its place"; "" where nothing. */
const char *ls_notice(const ls_session *session);
/* GPU i where there is one, else CPU i; all GPUs, else the first CPU; the first n GPUs, else the first n CPUs. Of GPUs the rank's own,
 * as above. */
ls_device ls_try_gpu(ls_session *session, int i);
ls_devices ls_try_all_gpus(ls_session *session);
ls_devices ls_try_devices(ls_session *session, int n);
const char *ls_device_str(ls_session *session, ls_device device);    /* "cpu(0)", "gpu(0)", "gpu(0.1)" */
const char *ls_devices_str(ls_session *session, ls_devices devices); /* "[cpu(0), cpu(1)]" */
const char *ls_device_about(ls_session *session, ls_device device);  /* one line: core, instruction set; card, memory */
int ls_device_core(ls_device device); /* the operating system's number of a CPU device's core; of others -1 */

/* Trains a tiny network of its own on the core of each device. *sum tells what came out: the same on any CPU, for equal
 * ls_options.conv. Devices that disagree are LS_INTERNAL, by name. */
ls_status ls_canary(ls_session *session, ls_devices devices, uint64_t *sum);

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

/* New tensors on the host, float32 in C order. Random numbers are a function of the session's seed, the key and the place, so
 * that equal keys give equal numbers; a tensor drawn with a key bears it as its name. */
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
/* "[[0, 1],\n [2, 3]] on cpu(0)"; of a gradient that no backward pass has reached "empty on cpu(0)". Long ones are shortened.
 * Lives until the next ls_str of the tensor. Waits. */
const char *ls_str(ls_tensor *tensor);

ls_tensor *ls_to(ls_tensor *tensor, ls_device device);    /* itself where it lies there, else a copy */
ls_tensor *ls_clone(ls_tensor *tensor, ls_device device); /* always a copy */
uint64_t ls_bytes_moved(ls_session *session);   /* between host and devices by ls_to, ls_assign and the like */
ls_tensor *ls_at(ls_tensor *tensor, int64_t i); /* row i, sharing its numbers */
/* Cuts rows into one part for each device, in order, sizes differing by at most one, the larger ones first. */
ls_status ls_scatter(ls_tensor *tensor, ls_devices devices, ls_tensor *parts[]);
ls_tensor *ls_gather(ls_tensor *const parts[], int n, ls_device device); /* the parts' rows, one after another */
ls_status ls_assign(ls_tensor *to, ls_tensor *from);                     /* equal shapes; from any device */
ls_status ls_add_to(ls_tensor *to, ls_tensor *from);                     /* to += from, on one device */

/* Gradients. ls_track makes a tensor one that gradients are computed for. A gradient is empty, fresh after a backward pass (a
 * further one adds to it), and used up by an update: updating with one that is not fresh is LS_STALE. */
ls_tensor *ls_track(ls_tensor *tensor);
ls_tensor *ls_grad(ls_tensor *tensor);
/* Empties the gradient; of a network's parameter those of the whole network. */
ls_status ls_clear_grad(ls_tensor *tensor);
/* Backward from a loss: one number, or one for each image, which stands for their sum. A part of a batch on a device is
 * computed there, in shards, and its gradients are the tree sum over them. Through a network (ls_train) the pass waits for
 * ls_step, which divides by the number of images; a mean is refused there. */
ls_status ls_backward(ls_tensor *loss);
ls_status ls_backward_from(ls_tensor *y, ls_tensor *dy); /* from any computed tensor and its gradient */
/* w -= lr * (gradient / rows), for n tracked tensors on one device. A number that is not finite leaves all as they were. */
ls_status ls_sgd_step(ls_tensor *const parameters[], int n, double lr, int64_t rows);

/* ---- Several processes ------------------------------------------------------------------------------------------- */

/* The ranks of a run: processes on one host or several that train one network together. Each makes the same calls in the same
 * order on its own session, with devices of its own; a step's shards, an evaluation's and a prediction's are dealt out among
 * the ranks, and every rank gets the results of the one-process run, bit for bit. Devices that are named for tensors, and what
 * is computed on them without a network, are each rank's own affair. */
typedef struct ls_cluster ls_cluster;

/* Starts the ranks as the launcher of this process says: mpirun of Open MPI or MPICH, or srun with an MPI; a process that none
 * started, or started alone, is rank 0 of 1 and needs no MPI. Loads the plugin for that MPI, initialises it, and where the
 * launcher left the ranks of a host on the same cores, deals these out: the calling thread, and with it the devices of sessions
 * opened later, keep to this rank's. Once in a process. Check ls_cluster_status (LS_BAD_ARGUMENT: tasks without an MPI;
 * LS_UNSUPPORTED: no plugin); NULL when there is no memory. */
ls_cluster *ls_cluster_start(void);
/* What the launcher's environment says, before anything is started: the rank, how many there are, and its number among those of
 * its host; 0, 1 and 0 where nothing did. Each may be NULL. */
void ls_cluster_launched(int *rank, int *ranks, int *local);
/* The i-th MPI that a plugin was built for, "openmpi" or "mpich"; NULL behind the last. Loads the plugin, without its MPI being
 * initialised, and writes why that cannot be, or "", to why[size]. */
const char *ls_cluster_plugin(int i, char *why, size_t size);

/* How ranks reach each other, for what is not started by a launcher; lockstep_mpi.h makes one of an MPI_Comm. Messages from one
 * rank to another with equal tags arrive in the order sent. Transfers are known by slots, numbers below what `reserve` was last
 * called with, that are free again when tested; the data stay until then. The functions are called by one thread at a time, and
 * return false or -1 after a failure. */
typedef struct ls_wire {
    size_t size; /* sizeof(ls_wire) */
    int rank, ranks;
    const char *error; /* why there is no wire; NULL */
    void *user;
    bool (*reserve)(void *user, int slots); /* grows; transfers may be under way */
    bool (*send)(void *user, int slot, int to, int tag, const void *data, size_t bytes);
    bool (*receive)(void *user, int slot, int from, int tag, void *data, size_t bytes);
    int (*test)(void *user, int first, int n); /* 1: those n slots are done (unused ones are), 0: not all yet */
    /* After a failure: once it returns nothing is written any more to what those n slots would have received. NULL: such memory must
     * outlive the wire. */
    void (*cancel)(void *user, int first, int n);
    void (*end)(void *user);                   /* after the last call, while every rank ends; NULL is fine */
} ls_wire;
ls_cluster *ls_cluster_on(const ls_wire *wire); /* copied */

/* Before they train: whether all ranks have come here, without a failure (NULL, or this rank's in words) and with the same
 * settings. The first difference is the cluster's failure, on every rank, with the setting, both values and the rank in words. */
typedef struct ls_setting {
    const char *name, *value;
} ls_setting;
ls_status ls_cluster_agree(ls_cluster *cluster, const char *failure, const ls_setting settings[], int n);

ls_status ls_cluster_status(const ls_cluster *cluster);
const char *ls_cluster_message(const ls_cluster *cluster); /* "" without a failure */
int ls_cluster_rank(const ls_cluster *cluster);            /* 0 to ranks - 1; of NULL 0 */
int ls_cluster_ranks(const ls_cluster *cluster);           /* of NULL 1 */
const char *ls_cluster_host(const ls_cluster *cluster, int rank);
/* A rank's process number, if it runs on this rank's host and there among the same processes; else 0. */
int64_t ls_cluster_process(const ls_cluster *cluster, int rank);
/* The devices of each rank: all[r] are rank r's, who hands them in as `mine`. Every rank makes this call. */
ls_status ls_cluster_devices(ls_session *session, const ls_devices *mine, ls_devices all[]);
/* Waits until all ranks have come here, after their sessions. A rank that fails alone (ls_failed_together) must not come: it
 * ends its process, and its launcher or a watchdog the others. */
void ls_cluster_part(ls_cluster *cluster);
void ls_cluster_end(ls_cluster *cluster); /* parts from the others, and ends an MPI that ls_cluster_start started */

/* For a watchdog in a thread of its own: what a rank tells of itself. */
typedef struct ls_sign {
    int64_t step;    /* finished */
    uint64_t work;   /* a count that grows with what is done; see ls_work_done */
    int32_t waiting; /* for other ranks, with nothing else to do: set by ls_cluster_tell */
    int32_t verdict; /* for the caller's use */
    char phase[40];
} ls_sign;
/* Sends this rank's sign and shows what came: rank 0 hears from all, the others from rank 0. seen[r] is rank r's last sign,
 * times[r] how many came, -1 once r has come to ls_cluster_part. Returns soon: all is left as it was where the wire is in use for
 * more than some 20 milliseconds. */
void ls_cluster_tell(ls_cluster *cluster, ls_sign *mine, ls_sign seen[], int64_t times[]);
/* How many pieces of work a session has done: shards, slices, transfers, reads of files. Any thread may ask. */
uint64_t ls_work_done(const ls_session *session);

/* ---- Data -------------------------------------------------------------------------------------------------------- */

typedef struct ls_data ls_data;
typedef enum ls_part { LS_TRAIN, LS_TEST } ls_part;

/* What changes the images of ls_next's batches, in each epoch anew: they are shifted, then mirrored, then erased. Each draw is a
 * function of the session's seed, the image's number in file order and the epoch alone; docs/data.md has the formulas. Zeros
 * change nothing. ls_evaluate and ls_predict take the images as they are. */
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
    void (*told)(const char *line, void *user); /* of several faulty files in a "folder" the first 20, a line each; may be NULL */
    void *user;
} ls_loader;

/* A run of images of one epoch, in that epoch's order, on the host. It and what is made from it go with the next ls_next on the
 * same data. */
typedef struct ls_batch {
    ls_tensor *X;  /* (rows, channels, height, width), of bytes from 0 to 1 */
    ls_tensor *y;  /* (rows), labels */
    int64_t epoch; /* from 0 */
} ls_batch;

/* Reads one part of a data set into memory, by the name of what it is and how it lies on the disk:
 *   "fashion-mnist", "mnist"  28 x 28 grey images in four idx files, raw or gzip'ed; ten classes
 *   "cifar10", "cifar100"     32 x 32 colour images in the files of the binary version; 10 classes, 100 (the fine labels)
 *   "npy"                     X_train.npy, ...: (N, C, H, W) or (N, H, W), uint8 (as value/255) or float32 (as it is); y_train.npy, ...: (N)
 *   "folder"                  train/CLASS/IMAGE and test/CLASS/IMAGE, PNG and JPEG, in byte order, of the first training image's size
 * docs/data.md has the formats. LS_IO: a file is not there; LS_BAD_FILE: it is not what it should be; LS_UNSUPPORTED: built without
 * what reads it. The message names the file. */
ls_data *ls_data_open(ls_session *session, const char *name, ls_part part, const ls_loader *loader);

ls_data *ls_fashion_mnist(ls_session *session, ls_part part, const ls_loader *loader); /* "fashion-mnist" */

/* Data from memory: images[rows][channels][height][width] as bytes (used as value/255), labels[rows] below `classes`.
 * Both are copied. `loader->directory` is not used. */
ls_data *ls_data_from_memory(ls_session *session, const uint8_t *images, const uint8_t *labels, int64_t rows,
                             int channels, int height, int width, int classes, const ls_loader *loader);

/* Takes so many images out of the data, for validation, and returns them as data of their own, in file order. Which
 * ones is a function of the session's seed and the number of images; docs/data.md has the formula. The others stay, and
 * count anew from 0. Before the first batch; the same on all ranks. */
ls_data *ls_hold_out(ls_data *data, int64_t images);

/* Reads a picture's file, PNG or JPEG, as pixels[channels][height][width], channels 1 or 3. One in colour becomes grey by its luma, a
 * grey one three equal channels; of one of another size each pixel is the mean of the area that it covers. docs/data.md says more. */
ls_status ls_read_picture(ls_session *session, const char *path, int channels, int height, int width, uint8_t *pixels);

typedef struct ls_data_info {
    int64_t rows; /* images */
    int channels, height, width, classes;
    bool floats; /* their numbers were given as float32 */
} ls_data_info;
ls_status ls_data_about(const ls_data *data, ls_data_info *info);
const char *ls_data_class(const ls_data *data, int label); /* its name, living as long as the data; or NULL */

/* Whether the file at `path`, by whatever name, is one that the data were read from: it is not one to write to. */
bool ls_data_reads(const ls_data *data, const char *path);

/* What the images that are used hold. The first of these three calls counts, in one pass over them. */
typedef struct ls_data_counts {
    double least, most;      /* of the numbers that the network gets: of bytes value/255 */
    int64_t plain;           /* images of one number all over, in each channel */
    int64_t first_plain;     /* the first of them, in file order from 0 */
    int64_t fewest, largest; /* images of a class */
    int empty;               /* classes without an image */
} ls_data_counts;
ls_status ls_data_count(ls_data *data, ls_data_counts *counts);
/* "60000 images 1x28x28, values 0 to 1, 10 classes (T-shirt ... Boot), 6,000 each", living as long as the data, or until ls_hold_out. */
const char *ls_data_summary(ls_data *data);
/* Tells, a line each, what looks like a mistake in them: the order of an array's dimensions, numbers far from 0 to 1, images of one
 * number, or that a camera asks to turn; in what is trained on a single class, one without images, labels from 1; and how both differ. Either may be NULL. */
ls_status ls_data_doubts(ls_data *train, ls_data *test, void (*told)(const char *line, void *user), void *user);

int64_t ls_data_rows(const ls_data *data);
int ls_data_batches(const ls_data *data); /* in one epoch, the partial last one included */

/* The next batch of the epoch; false at its end (the call after that begins the next epoch) and after a failure. */
bool ls_next(ls_data *data, ls_batch *batch);

/* A sum over the images and labels that are kept, equal for equal ones. */
uint64_t ls_data_checksum(const ls_data *data);

/* Continue at batch `batch` of epoch `epoch`, both from 0. */
ls_status ls_seek(ls_data *data, int64_t epoch, int batch);

/* Reads the four files, wherever ls_fashion_mnist would find them, and compares their content with the data set's SHA-256 sums.
 * LS_BAD_FILE names the first that differs. */
ls_status ls_data_verify(ls_session *session, const char *directory);

/* Downloads the four files from `url` (NULL: the data set's own address) into `directory` (NULL: the user's cache),
 * verifies their SHA-256 and puts each whole under its final name. `told` may be NULL; it gets one line a file. */
ls_status ls_data_fetch(ls_session *session, const char *url, const char *directory,
                        void (*told)(const char *line, void *user), void *user);

/* ---- Networks ---------------------------------------------------------------------------------------------------- */

typedef struct ls_module ls_module;

typedef struct ls_conv {
    int stride, padding;
} ls_conv; /* 0 means stride 1, padding 0 */
typedef struct ls_pool {
    int kernel, stride, padding;
} ls_pool; /* stride 0 means kernel */

/* The book's networks: "lenet" and "resnet18" (10 classes, parameters named as PyTorch's state_dict names them), the same with
 * other classes, and with as many as a weights file has. They take the channels, and LeNet's first product the size, of the
 * first images; LeNet's maps have to be of at least 14 x 14. */
ls_module *ls_model(ls_session *session, const char *name);
ls_module *ls_model_for(ls_session *session, const char *name, int classes);
ls_module *ls_model_for_file(ls_session *session, const char *name, const char *path);
ls_module *ls_lenet(ls_session *session);
ls_module *ls_resnet18(ls_session *session, int classes);

/* Own networks. A block's forward is called once for each input shape and mode, and records. */
typedef ls_tensor *ls_forward(ls_module *self, ls_tensor *x);
ls_module *ls_block(ls_session *session, ls_forward *forward, void *user);
/* In turn; `list` ends with NULL, its modules are named 0, 1, ... LS_LIST(a, b) makes one in C. */
ls_module *ls_sequential(ls_session *session, ls_module *const list[]);
#define LS_LIST(...) ((ls_module *[]){__VA_ARGS__, NULL})
/* name NULL: the child's number. LS_BAD_ARGUMENT, by name: a module that has a place already (two places share no weights so far), a
 * parent that calls no children (a layer, LeNet), and a child that comes when the images' shape is known and the parameters are made. */
ls_status ls_append(ls_module *parent, const char *name, ls_module *child);
ls_module *ls_child(ls_module *parent, const char *name);              /* NULL where there is none */
ls_tensor *ls_call(ls_module *parent, const char *name, ls_tensor *x); /* records the child's forward */
void *ls_user(ls_module *block);

ls_module *ls_nn_conv2d(ls_session *session, int channels, int kernel, const ls_conv *options); /* weight OIHW, bias */
ls_module *ls_nn_linear(ls_session *session, int features); /* weight (features, inputs), bias */
ls_module *ls_nn_batch_norm(ls_session *session);           /* eps 1e-5, running statistics move by 0.1 a step */
ls_module *ls_nn_dropout(ls_session *session, double rate);
ls_module *ls_nn_avg_pool2d(ls_session *session, const ls_pool *options);
ls_module *ls_nn_max_pool2d(ls_session *session, const ls_pool *options);
ls_module *ls_nn_fn(ls_session *session, ls_tensor *(*fn)(ls_tensor *)); /* ls_relu, ls_flatten, ls_global_avg_pool2d */

/* A parameter of the block itself, made at the first call with this name. Of rank 1 it starts at zero, else as ls_init says. */
ls_tensor *ls_parameter(ls_module *block, const char *name, ls_shape shape);

/* Operations, recorded: on tensors with values as in a module's forward. x is (images, channels, height, width) or (images,
 * features); weights and biases are parameters, or tensors with values on x's device. */
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
ls_tensor *ls_sum_each(ls_tensor *x);                                     /* over each image: (images) */
ls_tensor *ls_mean_each(ls_tensor *x);
ls_tensor *ls_mse(ls_tensor *a, ls_tensor *b); /* mean of (a - b)^2 over each image: (images); equal shapes */
/* Softmax cross-entropy of logits (images, classes) with labels y (images): (images). */
ls_tensor *ls_cross_entropy(ls_tensor *logits, ls_tensor *y);
/* The same with smooth labels, as PyTorch's label_smoothing: each image's target is 1 - smoothing of its label and smoothing of all
 * classes alike. From 0 to 1; with 0 it is ls_cross_entropy. */
ls_tensor *ls_cross_entropy_smooth(ls_tensor *logits, ls_tensor *y, double smoothing);
ls_tensor *ls_sum(ls_tensor *x);  /* of everything: a single number */
ls_tensor *ls_mean(ls_tensor *x); /* the same, divided by how many numbers there are */

/* A network on a batch. Images on the host are spread over the network's devices and the result is on the host again; images on a
 * device are computed there. Training mode takes BatchNorm's statistics of each shard and drops what dropout drops, by seed, step
 * and an image's number in its data set, or its row in X; inference takes the running ones. A gradient through ls_train is computed
 * by ls_step, or when it is read. */
ls_tensor *ls_train(ls_module *net, ls_tensor *X);
ls_tensor *ls_infer(ls_module *net, ls_tensor *X);

/* ---- Own operations ---------------------------------------------------------------------------------------------- */

/* An operation in plain C on plain arrays. A shard's images are `rows` rows, each of channels * height * width numbers in C
 * order; a parameter lies as it is saved. The functions run on several threads at once, each for a shard of its own, so
 * they must not write to what `user` points to. With equal arguments they must give equal bits: no random numbers, no
 * clock, no order that depends on threads. GPUs do not have them (LS_UNSUPPORTED). */
enum { LS_CUSTOM_INPUTS = 3 };

typedef struct ls_custom_call {
    int rows;                            /* images; 0 while the shape is asked for */
    int in[LS_CUSTOM_INPUTS][3], out[3]; /* channels, height, width of one image; of a parameter: its numbers, 1, 1 */
    void *user;
} ls_custom_call;

/* Sets call->out, which comes as the first input's shape; false refuses the inputs. */
typedef bool ls_custom_shape(ls_custom_call *call);

/* Writes out[rows][...], which is all zero when the function is called. */
typedef void ls_custom_forward(const ls_custom_call *call, const float *const in[], float *out);

/* From the gradient of a sum with respect to `out` to that with respect to each input: din[k] is shaped like in[k], that of a
 * parameter is the sum over the rows. din[k] is all zero when the function is called, and NULL where nobody wants it. */
typedef void ls_custom_backward(const ls_custom_call *call, const float *const in[], const float *out,
                                const float *dout, float *const din[]);

typedef struct ls_custom {
    const char *name;       /* for messages */
    int inputs;             /* 1 to LS_CUSTOM_INPUTS */
    unsigned parameters;    /* bit k: input k is a parameter, not (images, ...); never the first */
    ls_custom_shape *shape; /* NULL: the output is shaped like the first input */
    ls_custom_forward *forward;
    ls_custom_backward *backward; /* NULL: training through it is LS_UNSUPPORTED */
    void *user;                   /* must outlive the session */
} ls_custom;

/* Records it; `op` and its name are copied. An output whose height and width are 1 is (images, features). */
ls_tensor *ls_custom_op(const ls_custom *op, ls_tensor *const inputs[]);

/* Checks that `backward` is the slope of `forward`, sign included: the largest difference between a directional derivative by
 * `backward` and by central differences, relative to the derivatives' size. 1e-4 and less is rounding, 1 a wrong formula. The
 * inputs are random by the session's seed, none within 1/8 of zero; shapes[k] is input k's channels, height and width, of a
 * parameter {its numbers, 1, 1}. NaN after a failure: no backward (LS_UNSUPPORTED), numbers that are not finite, a function
 * that gives different bits for equal arguments (LS_BAD_ARGUMENT). Calls the functions at once, on the caller's thread. */
double ls_check_custom(ls_session *session, const ls_custom *op, const int shapes[][3], int rows);

/* ---- Parameters -------------------------------------------------------------------------------------------------- */

typedef enum ls_init_kind { LS_NORMAL, LS_XAVIER, LS_HE } ls_init_kind;
typedef struct ls_init {
    ls_init_kind kind;   /* LS_XAVIER: uniform(+-sqrt(6/(fan_in+fan_out))); LS_HE: normal(sqrt(2/fan_in)) */
    double scale;        /* of LS_NORMAL; 0: 0.01 */
    bool force;          /* initialise again what has values already */
    const ls_data *like; /* images of the shape to come; NULL: the first call of the network tells */
} ls_init;

/* Gives the network, which is no part of another, its values on a list of devices, equal on all of them. Biases 0, BatchNorm 1 and
 * 0, running statistics 0 and 1. `init` may be NULL. */
ls_status ls_initialize(ls_module *net, ls_devices devices, const ls_init *init);

/* A parameter as it is on one of the network's devices, or on the host: to be read, printed, and for ls_grad. */
ls_tensor *ls_param(ls_module *net, const char *name, ls_device device);

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
/* Calls fn for every parameter, in the order of ls_parameter_at; fn may write the values, in C order. */
ls_status ls_apply(ls_module *net, void (*fn)(const ls_parameter_info *info, float *values, void *user), void *user);
/* A sum over names and values, equal for equal ones; 0 after a failure. Waits. */
uint64_t ls_checksum(ls_module *net);
/* A table: each parameter with its shape, and the number of trainable ones. Lives as long as the network. */
const char *ls_summary(ls_module *net);

/* safetensors. Loading takes every parameter by name and shape; `*.num_batches_tracked` is ignored, any other missing or
 * extra one is LS_BAD_FILE and leaves the network as it was. Saving replaces `path` as a whole or not at all. A file that ls_save wrote
 * knows the shape of the network's images, and loading it tells them to a network that has seen none. */
ls_status ls_load(ls_module *net, const char *path);
/* The same of a file whose names all begin with `prefix`, which is left out of them: "module." or "_orig_mod." of PyTorch's wrappers. */
ls_status ls_load_prefixed(ls_module *net, const char *path, const char *prefix);
ls_status ls_save(ls_module *net, const char *path);
/* Whether ls_save could do that now, with room for all of it: before a long run, not at its end. Leaves nothing. */
ls_status ls_check_save(ls_module *net, const char *path);
/* Writes the network in inference mode, with its values, as an ONNX model (operators of version 13): from `input`, any number of images
 * as the network takes them, to `output`. Replaces `path` as a whole or not at all. LS_UNSUPPORTED for an own operation, by name,
 * and where the library was built without it. Waits. */
ls_status ls_export_onnx(ls_module *net, const char *path);
/* The names of the network's classes, by label, which files of it bear: those of init.like, else of the caller (copied; 0: none any
 * more), else of the file loaded last. Loading a file that calls one otherwise than data or caller is LS_CHANGED. NULL: none. */
ls_status ls_name_classes(ls_module *net, const char *const names[], int n);
const char *ls_class_name(const ls_module *net, int label); /* lives until the names are others */
/* (-1, channels, height, width) or (-1, features) of the images that the network takes; rank 0 while nothing told it. */
ls_shape ls_images_shape(const ls_module *net);
/* The model's name in a file's metadata ("lenet"), written to name[size]; "" where the file has none. */
ls_status ls_model_of_file(ls_session *session, const char *path, char *name, size_t size);

/* SHA-256 over the tensors that ls_save writes, in byte order of their names: name, a zero byte, the values as
 * little-endian float32 in C order. 64 lowercase digits and a zero byte. */
ls_status ls_fingerprint(ls_module *net, char digits[65]);
ls_status ls_fingerprint_file(ls_session *session, const char *path, char digits[65]);

/* ---- Training ---------------------------------------------------------------------------------------------------- */

typedef struct ls_trainer ls_trainer;
typedef enum ls_optimizer { LS_SGD, LS_ADAM, LS_ADAMW } ls_optimizer;
typedef enum ls_schedule { LS_CONSTANT, LS_STEP_SCHEDULE, LS_COSINE } ls_schedule;

typedef struct ls_optim {
    double lr, momentum, weight_decay; /* momentum of LS_SGD alone */
    bool nesterov;                     /* likewise; needs momentum */
    ls_schedule schedule; /* LS_STEP_SCHEDULE: a tenth of lr after half, a hundredth after three quarters of `total` */
    int64_t warmup;       /* steps of linear rise to lr */
    int64_t total;        /* steps of the whole run; needed by the step and cosine schedules */
    double beta1, beta2, eps; /* of LS_ADAM and LS_ADAMW; 0: 0.9, 0.999, 1e-8 */
    double clip_norm;         /* a gradient with a larger norm, over all parameters together, is scaled to it; 0: never */
    int64_t full_batch;       /* 0: gradients are means over the images there were; else sums divided by this, as MXNet's are */
} ls_optim;

/* Updates the network from the gradients of ls_backward, which are summed over the shards in a fixed tree and divided by the
 * number of images since the last update, or by full_batch. As PyTorch defines them, with t updates so far, this one included:
 *   LS_SGD:   g = gradient + weight_decay*w, v = momentum*v + g (the first time v = g),
 *             w -= lr*v (nesterov: w -= lr*(g + momentum*v));
 *   LS_ADAM:  g = gradient + weight_decay*w, m = beta1*m + (1 - beta1)*g, v = beta2*v + (1 - beta2)*g*g,
 *             w -= lr * m/(1 - beta1^t) / (sqrt(v/(1 - beta2^t)) + eps);
 *   LS_ADAMW: the same with g = gradient, after w -= lr*weight_decay*w.
 * clip_norm is PyTorch's clip_grad_norm_, before all of this; updates then wait for the whole gradient, and overlap with none of it. */
ls_trainer *ls_trainer_new(ls_module *net, ls_optimizer kind, const ls_optim *options);

/* Refuses by name, before the first step, what a data set's batches would make impossible: BatchNorm over a single value. */
ls_status ls_check_batches(ls_trainer *trainer, const ls_data *data);

/* Bytes of the host's memory that training over `data` on the network's devices holds at once, besides the data set; of GPUs, which
 * have most in their own memory, what the host keeps. Nothing is allocated for it but a plan. */
ls_status ls_memory_needed(ls_trainer *trainer, const ls_data *data, int64_t *bytes);

/* Forward, backward and update of what ls_backward was called for since the last step; LS_STALE where that is nothing. Returns
 * at once; at most two steps are in flight. */
ls_status ls_step(ls_trainer *trainer);

/* Stopping at one step on all ranks: what the ranks ask for travels with the steps, and ls_asked is the largest number any of them
 * had asked for when the step before the last was done, for which it waits. All ranks get the same at the same place. */
void ls_ask(ls_trainer *trainer, int number);
int ls_asked(ls_trainer *trainer);

/* Whether the last step's shards went by speed (ls_options.balance); shards[r] (may be NULL) gets how many of them rank r has. */
bool ls_balanced(ls_trainer *trainer, int shards[]);

/* How ranks' GPUs exchange gradients: by "NCCL 2.28.9" (*direct), or why by way of the hosts; "" without. All ranks call it, or step. */
const char *ls_meeting(ls_trainer *trainer, bool *direct);

/* Remembers the network's values as they are, in place of what it remembered; goes back to these values (LS_STALE
 * without any), but not to moments or steps. Checkpoints keep them too: the best weights so far, say. Both wait; all
 * ranks make these calls. */
ls_status ls_remember(ls_trainer *trainer);
ls_status ls_recall(ls_trainer *trainer);

typedef struct ls_report {
    int64_t step;    /* finished updates, from 1 */
    double loss;     /* mean over the batch, before the update */
    int64_t correct; /* images whose largest logit is the label's, before the update */
    int rows;
    double norm; /* of the gradient before it is clipped; 0 without clip_norm */
} ls_report;
/* Takes the next finished step's report, in order; false where none is finished yet. Up to 1024 wait; then the oldest are dropped. */
bool ls_next_report(ls_trainer *trainer, ls_report *report);

/* What a device of the trainer's network has done so far, in seconds by the clock and up to this moment; a few readings of the clock
 * a shard count it, always. Does not wait. `i` is its place in the list of devices. */
typedef struct ls_device_times {
    ls_device device;
    double computing; /* the shards of training steps, and parts of others', without what follows */
    double reducing;  /* summing gradients, updating weights */
    double waiting;   /* in training steps: for other devices and ranks, for its core, for room */
    double idle;      /* no step was handed in; the network was evaluated */
    int64_t shards, images;
    double elsewhere; /* of computing and reducing: other programs had its core. Of ls_profile_device (lockstep_profile.h), else 0 */
} ls_device_times;
ls_status ls_device_times_at(ls_trainer *trainer, int i, ls_device_times *times);
/* What the operations of a step take, what happened when, and what a core can do at most: lockstep_profile.h. */

/* Between ls_backward and ls_step: computes one shard, at each call another, on every device of the network (on a single one twice)
 * and compares loss, statistics and gradients bit by bit. LS_DIFFERS names step, shard, the device that is not with the majority
 * and the first tensor. Over ranks, all of which make this call, the devices are those of all ranks, and before they compute, the ranks'
 * copies of the weights and statistics are compared too. Waits; changes nothing. It costs each device one shard. */
ls_status ls_verify(ls_trainer *trainer);

/* ---- Checkpoints ------------------------------------------------------------------------------------------------- */

/* A folder of checkpoints of a run. Each is checkpoint-NUMBER.safetensors (weights, running statistics, the optimizer's
 * moments: `velocity:NAME`, or `exp_avg:NAME` and `exp_avg_sq:NAME`; what ls_remember keeps: `remembered:NAME`) and
 * checkpoint-NUMBER.json: the step, the data's position, the settings that define the result, the caller's notes and a
 * SHA-256 of everything. A checkpoint appears whole or not at all.
 *
 * A run that loads one goes on with the same bits as if it had never ended, on any devices and any instruction set. Settings
 * that would change the bits are compared when one is loaded: version, model, init, seed, shard, conv, dtype, data, batch, shuffle, optimizer,
 * lr, momentum, nesterov, beta1, beta2, eps (the last three with Adam), weight_decay, clip_norm and full_batch (above 0), schedule,
 * warmup, total (with the step and cosine schedules), flip, crop and erase (each where it is on), and the caller's own.
 *
 * Over ranks every rank makes each of these calls, at the same step. Rank 0 alone has the folder, reads and writes; the others'
 * disks, directories, settings and `told` do not matter. What is found and loaded, notes too, and what one rank meets is then
 * every rank's (ls_failed_together). A checkpoint goes on over any number of ranks. */
typedef struct ls_checkpoints ls_checkpoints;

/* Text under a name. A list of them ends with a name that is NULL. */
typedef struct ls_note {
    const char *name, *value; /* UTF-8 */
} ls_note;

typedef struct ls_checkpoint_options {
    int keep;                         /* so many of the newest stay; 0: 3 */
    const ls_note *settings;          /* of the caller's, that define the result too; copied; "" is as good as none; NULL: none */
    const char *const *allow_changed; /* settings that may differ in what is loaded; ends with NULL; NULL: none */
    void (*told)(const char *line, void *user); /* what loading passes over and why, a line each; may be NULL */
    void *user;
} ls_checkpoint_options;

/* Opens a folder for the trainer's run over `data` (NULL: the caller keeps its own position), and makes it where it is not there.
 * One process at a time has it: LS_BUSY names the other. It is held until its scope is left. Needs what saving weights and
 * fingerprints need (LS_UNSUPPORTED). `options` may be NULL. */
ls_checkpoints *ls_checkpoints_open(ls_trainer *trainer, ls_data *data, const char *directory,
                                    const ls_checkpoint_options *options);

/* Whether there were whole ones when it was opened (their sums are not looked at). Unless one is loaded they are of another run, and
 * give way to new ones, one by one: a program does well to ask first. */
bool ls_checkpoints_found(const ls_checkpoints *checkpoints);

/* Waits for the steps handed in, copies their result, and writes the checkpoint on a thread of its own while training goes on.
 * `notes` (copied; NULL: none) come back with it. What a write meets is reported by the next of these calls: LS_IO leaves the
 * checkpoints before as they are, and may be taken back with ls_catch to go on and try again. */
ls_status ls_checkpoint_save(ls_checkpoints *checkpoints, const ls_note *notes);
ls_status ls_checkpoint_wait(ls_checkpoints *checkpoints); /* until the last one is on the disk */

typedef struct ls_checkpoint {
    int64_t step;     /* finished updates */
    int64_t epoch;    /* the data continues at batch `batch` of it, both from 0 */
    int batch;        /* as many as an epoch has: its end comes next */
    const char *path; /* of the manifest; lives as long as the session */
} ls_checkpoint;

/* Brings network, trainer and data to the newest whole checkpoint. False where there is none, and after a failure. A damaged one
 * is told and passed over; so is one of other settings, but when all the whole ones are such, that is LS_CHANGED and names
 * them. A failure leaves network, trainer and data as they were. `loaded` may be NULL. */
bool ls_checkpoint_load(ls_checkpoints *checkpoints, ls_checkpoint *loaded);
/* A note of the checkpoint that was loaded; NULL where there is none of that name. */
const char *ls_checkpoint_note(const ls_checkpoints *checkpoints, const char *name);

/* ---- Evaluation -------------------------------------------------------------------------------------------------- */

typedef struct ls_metrics {
    double loss;
    int64_t correct, rows;
} ls_metrics;
/* Every image of `data` once, in inference mode, on all devices. A loss that is not finite is LS_NOT_FINITE. */
ls_status ls_evaluate(ls_module *net, const ls_data *data, ls_metrics *metrics);
/* The share of right images; a loss that is not finite is LS_NOT_FINITE. The second is over a function of explicit parameters:
 * replica[d] are those on device d, and each batch is split over the devices; ls_next then goes on where it stood in the data. */
double ls_accuracy(ls_module *net, const ls_data *data);
typedef ls_tensor *ls_net_fn(ls_tensor *X, void *replica);
double ls_accuracy_fn(ls_net_fn *fn, void *const replica[], ls_data *data, ls_devices devices);
/* logits[rows][classes] in the data's file order. LS_NOT_FINITE names the first image with one that is NaN or infinity. */
ls_status ls_predict(ls_module *net, const ls_data *data, float *logits, int classes);

/* A stopwatch: laps of start and stop. */
typedef struct ls_timer {
    double total, since; /* seconds */
    int laps;
} ls_timer;
void ls_timer_start(ls_timer *timer);
void ls_timer_stop(ls_timer *timer);
double ls_timer_avg(const ls_timer *timer); /* seconds a lap */

/* float32 array, C order, as NumPy's .npy; replaces `path` as a whole or not at all. */
ls_status ls_save_npy(ls_session *session, const char *path, const float *values, int64_t rows, int64_t columns);

#ifdef __cplusplus
}
#endif
#endif
