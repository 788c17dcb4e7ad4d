/* Data sets of one's own; data sets looked at more closely: what they hold, what looks wrong in them, parts held out,
 * downloads, pictures, arrays.
 *
 * SPDX-License-Identifier: MIT
 *
 * The rules at the head of lockstep.h hold here too. */
#ifndef LOCKSTEP_DATA_H
#define LOCKSTEP_DATA_H

#include <lockstep.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Continue at batch `batch` of epoch `epoch`, both from 0. */
ls_status ls_data_seek(ls_data *data, int64_t epoch, int batch);

/* Takes so many images out of the data, for validation, and returns them as data of their own, in file order. Which
 * ones is a function of the session's seed and the number of images; docs/data.md has the formula. The others stay, and
 * count anew from 0. Before the first batch; the same on all ranks. */
ls_data *ls_data_hold_out(ls_data *data, int64_t images);

/* Data from memory of any shape from (rows, features) to (rows, channels, height, width): features, sequences, maps.
 * Single numbers, (rows), are taken as (rows, 1), here and wherever the shape of an input is given. They are copied,
 * and taken as they are. There is no y before ls_data_set_labels or ls_data_set_targets gives one. LS_BAD_SHAPE for
 * other shapes; LS_BAD_ARGUMENT for a number that is not finite, and for an augmentation of what is no map.
 * `loader->directory` is not used. */
ls_data *ls_data_from_floats(ls_session *session, const float *values, ls_shape shape, const ls_loader *loader);

/* Gives the data labels of any number of classes up to 2^24, in place of those they have: labels[rows] of all images in
 * file order, from 0 on and below `classes`, which are copied. Names of classes go. Before the first batch, and not
 * beside targets (LS_BAD_ARGUMENT). LS_BAD_SHAPE unless rows is ls_data_rows. */
ls_status ls_data_set_labels(ls_data *data, const int32_t *labels, int64_t rows, int classes);

/* A further input of a network that takes several: values[shape.dim[0]][...] of all images in file order, which are
 * copied; the shape of one number an image, such as a length, is (rows), and a batch has (rows, 1) of it. A batch has
 * them in `inputs`, behind X, in the order of these calls; ls_module_evaluate, ls_module_predict and the like hand all
 * of them to the network (ls_module_forward_all in lockstep_nn.h). No augmentation changes them. Before the first
 * batch. LS_BAD_SHAPE unless shape.dim[0] is ls_data_rows; LS_BAD_ARGUMENT for a number that is not finite, and where
 * there would be more than LS_MAX_INPUTS. ls_data_hold_out takes them along. */
ls_status ls_data_add_input(ls_data *data, const float *values, ls_shape shape);

/* Gives the images targets in place of labels: targets[shape.dim[0]][...] of all images in file order, which are
 * copied. A batch's y is then (rows, ...) of these floats: numbers, several labels at once for ls_bce, probabilities, a
 * label for each place, or labels of any number of classes. Flip and crop move targets with places, (images, height,
 * width) or (images, any, height, width), as they move their image, and ls_loader.edge_target comes in; erase leaves
 * them. Once, before the first batch. LS_BAD_SHAPE unless shape.dim[0] is ls_data_rows, and beside flip or crop where
 * the places are not the images'. ls_data_hold_out takes targets along. What is said of classes and labels, such as
 * ls_data_summary, is still of the labels that the data came with. */
ls_status ls_data_set_targets(ls_data *data, const float *targets, ls_shape shape);

/* A batch that a function of the caller's is to fill. Its numbers come as zeros. */
typedef struct ls_fill {
    int64_t epoch;                /* from 0 */
    int64_t first;                /* which of the epoch's rows the batch begins with, from 0 */
    int batch, rows;              /* its number in the epoch, from 0; its rows */
    float *X;                     /* [rows][...] */
    float *inputs[LS_MAX_INPUTS]; /* X, and as many more as the source has: [rows][...] */
    int32_t *labels;              /* [rows]; NULL where the source has targets */
    float *targets;               /* [rows][...]; NULL where it has labels */
    char message[200];            /* of a failure: why */
} ls_fill;
/* False: there is no such batch, and the session fails with the message. */
typedef bool ls_fill_fn(ls_fill *batch, void *user);

typedef struct ls_source {
    ls_fill_fn *fill;
    void *user;                       /* must outlive the data */
    ls_shape shape;                   /* of an epoch's X, (rows, ...), as ls_data_from_floats takes it */
    ls_shape more[LS_MAX_INPUTS - 1]; /* of n_more further inputs, as ls_data_add_input takes them */
    int n_more;
    int classes;      /* labels are below; 0: there are targets */
    ls_shape targets; /* (rows, ...); without targets of rank 0 */
    const char *name; /* for messages and the settings of checkpoints, copied; NULL: "a function" */
} ls_source;

/* Data whose batches a function of the caller's makes when they are asked for. They are asked for in order. After
 * ls_data_seek, and where a run goes on from a checkpoint, that is from the batch on that comes next;
 * ls_module_evaluate and the like ask for all of epoch 0. So what the function makes must depend on the epoch and the
 * batch alone, and be the same on all ranks, each of which asks for every batch. The function may be called on another
 * thread than the caller's, but never twice at once, and must call nothing of this session. Dropout goes by an image's
 * place in its batch. LS_BAD_ARGUMENT: a loader that shuffles or changes images, labels that are no class, a number
 * that is not finite; what the function refuses is LS_IO. What looks at all rows is LS_UNSUPPORTED: ls_data_count,
 * ls_data_doubts, ls_data_summary, ls_data_hold_out, ls_data_set_labels, ls_data_set_targets, ls_data_add_input. */
ls_data *ls_data_from_function(ls_session *session, const ls_source *source, const ls_loader *loader);

/* Reads a picture's file, PNG or JPEG, as pixels[channels][height][width], channels 1 or 3. One in colour becomes grey
 * by its luma, a grey one three equal channels; of one of another size each pixel is the mean of the area that it
 * covers. docs/data.md says more. */
ls_status ls_read_picture(ls_session *session, const char *path, int channels, int height, int width, uint8_t *pixels);

typedef struct ls_data_info {
    int64_t rows;                         /* images */
    int channels, height, width, classes; /* sizes that a batch's X has not are 1; classes: 0 without labels */
    bool floats;                          /* their numbers were given as float32 */
    int rank;                             /* of a batch's X: 4, or of ls_data_from_floats 2 to 4 */
} ls_data_info;
ls_status ls_data_about(const ls_data *data, ls_data_info *info);
const char *ls_data_class(const ls_data *data, int label); /* its name, living as long as the data; or NULL */

/* Whether the file at `path`, by whatever name, is one that the data were read from: it is not one to write to. */
bool ls_data_reads(const ls_data *data, const char *path);

/* What the images that are used hold. The first of these three calls counts, in one pass over them. */
typedef struct ls_data_counts {
    double least, most;      /* of the numbers that the network gets: of bytes value/255 */
    int64_t plain;           /* images of one number all over, in each channel; none of features */
    int64_t first_plain;     /* the first of them, in file order from 0 */
    int64_t fewest, largest; /* images of a class */
    int empty;               /* classes without an image */
} ls_data_counts;
ls_status ls_data_count(ls_data *data, ls_data_counts *counts);
/* "60000 images 1x28x28, values 0 to 1, 10 classes (T-shirt ... Boot), 6,000 each", living as long as the data, or
 * until ls_data_hold_out. */
const char *ls_data_summary(ls_data *data);
/* Tells, a line each, what looks like a mistake in them: the order of an array's dimensions, numbers far from 0 to 1,
 * images of one number, or that a camera asks to turn; in what is trained on a single class, one without images, labels
 * from 1; and how both differ. Either may be NULL. */
ls_status ls_data_doubts(ls_data *train, ls_data *test, void (*told)(const char *line, void *user), void *user);

/* A sum over the images and labels that are kept, equal for equal ones. */
uint64_t ls_data_checksum(const ls_data *data);

/* Reads the four files, wherever ls_data_fashion_mnist would find them, and compares their content with the data set's
 * SHA-256 sums. LS_BAD_FILE names the first that differs. */
ls_status ls_data_verify(ls_session *session, const char *directory);

/* Downloads the four files from `url` (NULL: the data set's own address) into `directory` (NULL: the user's cache),
 * verifies their SHA-256 and puts each whole under its final name. `told` may be NULL; it gets one line a file. */
ls_status ls_data_fetch(ls_session *session, const char *url, const char *directory,
                        void (*told)(const char *line, void *user), void *user);

/* float32 array, C order, as NumPy's .npy; replaces `path` as a whole or not at all. */
ls_status ls_save_npy(ls_session *session, const char *path, const float *values, int64_t rows, int64_t columns);

#ifdef __cplusplus
}
#endif

#endif
