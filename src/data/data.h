/* Images and labels in memory, and the order in which an epoch goes through them. */
#pragma once

#include <lockstep_data.h>

#include "base/file.h"
#include "base/session.h"

enum {
    LS_BYTE_CLASSES = 256,     /* whose labels are bytes */
    LS_MOST_CLASSES = 1 << 24, /* labels are numbers, and exact as floats */
    LS_MOST_PIXELS = 1 << 20,  /* of an image, or values of all its channels */
};

/* What the caller named, else $LOCKSTEP_DATA; NULL where neither is there. */
const char *ls_data_directory(const char *named);

/* Numbers beside the images: [rows][...], of each image shape.dim[1] and on. */
typedef struct ls_field {
    float *values; /* NULL: there are none */
    ls_shape shape;
} ls_field;

/* The caller's function that makes the batches. */
typedef struct ls_filling {
    ls_source source;
    char name[64];
} ls_filling;

/* What the reader of a format hands over; its memory is from ls_alloc. */
typedef struct ls_images {
    void *values; /* [rows][channels][height][width] */
    int rank;     /* in which a batch has them, 2 to 4: sizes behind it are 1; 0: 4 */
    /* [rows], below classes: as bytes or, of more than LS_BYTE_CLASSES, as numbers; both NULL: there are none, and no
     * classes. */
    uint8_t *labels;
    int32_t *wide_labels;
    ls_field targets;                 /* in place of the labels */
    ls_field more[LS_MAX_INPUTS - 1]; /* inputs beside the images */
    int n_more;
    int64_t rows;
    int channels, height, width, classes;
    ls_filling *filling;          /* batch by batch: there are no values and labels here; NULL: they are */
    bool floats;                  /* the values are float32, taken as they are; else bytes, taken as value/255 */
    ls_file_list files;           /* that they were read from */
    int64_t turned, first_turned; /* images whose files ask to turn them, which is not done; the first of them */
    char *names; /* of the classes, one behind the other, each with its zero byte; NULL: they have none */
} ls_images;

void ls_images_release(ls_context *context, ls_images *images);

static inline bool ls_images_labelled(const ls_images *images)
{
    return images->labels || images->wide_labels;
}

static inline int32_t ls_images_label(const ls_images *images, int64_t row)
{
    return images->wide_labels ? images->wide_labels[row] : images->labels[row];
}

/* The shape of so many of them. */
ls_shape ls_images_shape(const ls_images *images, int64_t rows);

/* Room for that many values and, where there are classes, bytes of labels, all zero. `beyond` is the status where they
 * are more than a data set may have; `what` is for messages. */
ls_status ls_images_reserve(ls_context *context, ls_images *images, ls_status beyond, const char *what);

/* Names the classes: names[images->classes], which are copied. */
ls_status ls_images_name(ls_context *context, ls_images *images, const char *const names[]);

/* What the images and labels hold; counted by tally.h. */
typedef struct ls_data_tally {
    ls_data_counts counts;
    int64_t *of_class; /* [classes] images */
    int classes;
    char *summary; /* once asked for */
} ls_data_tally;

struct ls_data {
    ls_session *session; /* first: ls_session_of reads it; NULL where only the context is known */
    ls_context *context;
    ls_counted counted; /* by its owner, tensors of its batches and work on them */
    ls_images of;
    int64_t rows; /* the first ones of them, that are used */
    int batch;
    ls_augment augment;
    float edge_target;
    bool shuffle, drop_last;
    uint64_t seed;
    uint32_t *order;      /* [rows], of epoch `ordered` */
    int64_t ordered;      /* -1: file order */
    int64_t epoch;        /* of the next batch */
    int64_t position;     /* the next batch's number within the epoch; all batches: the epoch's end comes next */
    ls_data_tally *tally; /* once counted */
};

/* Which of the data a batch is. */
typedef struct ls_batch_rows {
    const uint32_t *index; /* [n] sample numbers, copied; NULL: from `first` on, and as the images are */
    int64_t n;
    int64_t epoch; /* which an augmentation is drawn for, and a function makes its batches for */
    int64_t first; /* of data that a function makes: where a batch begins. Of others 0 */
    bool shapes;   /* nobody reads the numbers: a function is not asked for them */
} ls_batch_rows;

/* Takes the images over, also when it fails. `loader` may be NULL; its directory is not used. The first loader->limit
 * rows are used. */
ls_data *ls_data_new(ls_context *context, uint64_t seed, const ls_images *images, const ls_loader *loader);
/* The next batch's sample numbers, valid until the next call; false at the epoch's end (the call after that begins the
 * next epoch) and after a failure. */
bool ls_data_take(ls_data *data, const uint32_t **index, int *rows);

/* How many numbers of each image a field has; and all of them. */
int64_t ls_field_numbers(const ls_field *field);
size_t ls_field_bytes(const ls_field *field, int64_t rows);
/* A field of as many rows, with other numbers; NULL where there is no memory. */
float *ls_field_room(ls_context *context, const ls_field *field, int64_t rows);

/* Refuses data that come from a function, for what looks at all of them; LS_OK of others, unless there was a
 * failure. */
ls_status ls_data_whole(const ls_data *data, const char *function);

/* What a network takes of a shape: single numbers, (rows), are (rows, 1). */
ls_shape ls_shape_of_inputs(ls_shape shape);
/* Whether a field can have that shape, of so many rows. */
bool ls_field_fits(const ls_shape *shape, int least_rank, int64_t rows);

int64_t ls_first_not_finite(const float *numbers, int64_t n); /* -1 where all are */
/* LS_BAD_ARGUMENT for the function, with the first row of `each` numbers that has one which is not finite. */
ls_status ls_rows_finite(ls_context *context, const char *function, const float *numbers, int64_t rows, int64_t each);

/* Bytes of the images that are used. */
size_t ls_data_bytes(const ls_data *data);

/* What the images and labels are, in a line: how many, and the first digits of their SHA-256. */
ls_status ls_data_describe(const ls_data *data, char text[64]);

/* Refuses a batch of more images than there are, where partial ones are left out. */
ls_status ls_data_fills_batch(ls_context *context, int64_t rows, int batch, bool drop_last);
void ls_data_shorten(ls_data *data, int64_t rows); /* to the first ones, before any batch was taken */
void ls_data_free(ls_data *data);                  /* lets go of it; NULL is fine */
