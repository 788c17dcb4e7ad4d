/* The table of operations that backends are tested by: shapes, operands, flags. */
#ifndef LOCKSTEP_TESTS_OP_TABLE_H
#define LOCKSTEP_TESTS_OP_TABLE_H

#include "support.h"

/* ---- What goes in, what comes out ---- */

/* Gradients, and what must be zero where there is no image, are slopes. Activations hold garbage there. */
typedef enum kind {
    NONE,
    X,        /* an activation of c x h x w */
    Y,        /* an activation of o channels, one number for each window */
    HALVES,   /* one for each 2 x 2 of these */
    FEATURES, /* an activation of c x 1 x 1 */
    FLAT,     /* X as features */
    X_SLOPE,
    Y_SLOPE,
    HALVES_SLOPE,
    FEATURES_SLOPE,
    PART,          /* an activation that has o where X has another size: of the axis that `padding` says */
    WHOLE,         /* X, PART, X, PART, as many as `kernel` says, one after another along that axis */
    VIEWED_SLOPE,  /* what VIEW makes of X */
    SAVED_SLOPE,   /* two numbers for each channel and column of X */
    RESIZED_SLOPE, /* an activation of c x kernel x stride */
    IDS,           /* an activation of c numbers, of which most are numbers of the table's o rows */
    LEFT,          /* h x w of c channels, or transposed: BATCH_MATMUL's, w x o, and their product */
    RIGHT,
    PRODUCT_SLOPE,
    THREE, /* c tokens of 3 h numbers, of 4 h, of 5 h; h numbers */
    FOUR,
    THREE_SLOPE,
    FOUR_SLOPE,
    FIVE_SLOPE,
    TOKEN_SLOPE,
    KEYS, /* of ATTENTION, o rows of w in each of `kernel` heads; VALUED: of `stride`; ATTENDED: X's rows of `stride` */
    VALUED,
    ATTENDED,
    ROW_STATE, /* of ATTENTION's rows: 3 c x h */
    LENGTHS,   /* one number an image, most often one of tokens, or of keys */
    KEYS_SLOPE,
    VALUED_SLOPE,
    ATTENDED_SLOPE,
    ROW_STATE_SLOPE,
    THIN, /* an activation with 1 for the channels, rows and columns whose bits 1, 2 and 4 are set in `kernel` */
    THIN_SLOPE,
    PLACES_SLOPE, /* an activation of 1 x h x w */
    ONE_SLOPE,    /* one number an image */
    WEIGHTS,      /* o x c / groups x kernel x kernel_w numbers */
    BIAS,         /* o */
    CHANNEL,      /* c */
    STATISTICS,   /* 2 c, the second half positive */
    NORM_SUMS,    /* 2 + 2 c: images and places, then as STATISTICS */
    NUMBER,
    TABLE,       /* o x h */
    THREE_TIMES, /* 3 h, 4 h; these times h */
    FOUR_TIMES,
    THREE_SQUARES,
    FOUR_SQUARES,
    THIN_WEIGHTS, /* THIN as a parameter */
    SIGNS,        /* of HALVES' windows, in all groups */
    ROWS,         /* c x h x w for each image, no padded lanes */
} kind;

typedef struct op_operands {
    kind in[LS_MAX_IN], out[LS_MAX_OUT];
} op_operands;
extern const op_operands operands_of[LS_OP_COUNT];

/* ---- The table ---- */

enum {
    CONVS,
    CROPPED,
    GENERAL,
    POOLED,
    POOLS,
    MAPS,
    CLASSES,
    COUNTS,
    CONCATS,
    FUNCTIONS,
    EXPANDS,
    VIEWS,
    SETS,
    RESIZES,
    PRODUCTS,
    EMBEDDINGS,
    RECURRENT,
    ATTENTIONS,
    FAMILIES
};

/* The last entry of each is LS_OP_COUNT. Winograd runs on the rows of CONVS that suit it. Of CROPPED, the last windows
 * of each row and column are left out. GENERAL's are no squares of neighbouring taps over all channels. */
extern const ls_op families[FAMILIES][36];

/* Of CONCATS `kernel` is how many operands there are and `padding` the axis, of FUNCTIONS `o` is the number of the
 * factor, of VIEWS that of what is done, of GENERAL `in_out` that of what its windows have besides. Of PRODUCTS bits 0
 * and 1 of `in_out` say which are transposed, of RECURRENT `o` whether there are lengths. Of CLASSES `o` is what a
 * cross-entropy is told: */
enum { WEIGHED = 1, TARGETS = 2, IGNORING = 4 };
/* What the windows of GENERAL have besides: */
enum {
    HALVED,
    DEPTHWISE_3,
    DEPTHWISE_5,
    DEPTHWISE_17,
    DILATED,
    WIDE,
    TALL,
    OBLONG,
    STRIDED_APART,
    FOUR_GROUPS,
    FOUR_WIDE,
    DEPTHWISE_APART,
    CROPPED_GROUPS,
    CROPPED_DEPTHWISE,
};
/* Of ATTENTIONS c are the heads and `kernel` those of the keys, h the rows and o the keys, w and `stride` features; and
 * of `in_out`: */
enum { CAUSAL = 1, MEASURED = 2, DROPPING = 4 };
typedef struct row {
    int family, count, c, h, w, o, kernel, stride, padding, in_out;
} row;

extern const row op_table[];
extern const size_t op_rows;

/* ---- One case: a row's operation, with flags and a kind of numbers ---- */

/* SALTED: with zeros, denormals, NaN, infinities. TINY: all denormal. FAINT: so small that products underflow, and
 * zeros. */
enum { ORDINARY, SALTED, TINY, FAINT, VALUES };

typedef struct test_case {
    const row *row;
    ls_attributes attributes;
    int bias, values, in_parts;
} test_case;

test_case case_of(const row *r, ls_op op, int relu, int add, int bias, int values);
void describe_row(const row *r, ls_op op, char *text, size_t size);
void describe(const test_case *one, char *text, size_t size);

/* Of a row with windows: its convolution's or pool's. */
ls_windows row_windows(const row *r);

int by_image(kind what);
int is_slope(kind what);
ls_operand shape_of(const row *r, kind what);
size_t size_of(const row *r, kind what); /* numbers in the lanes layout */
int present(const test_case *one, kind what, int i);
/* Number i of n of those that are not drawn as they are: what is positive, or counted. */
float counted_number(kind what, float x, size_t i, size_t n);
/* An operand's number from a random one. Of operations that look for the largest number many are to be equal. */
float operand_number(const test_case *one, kind what, float x);

/* Of IMAGES, relu stands for images that are changed, and add for floats: see batch_of. */
test_batch batch_of(const test_case *one);
int takes_relu(ls_op op);
int takes_add(ls_op op);
int takes_bias(ls_op op);
int makes_output(const test_case *one, int k); /* dresidual is made where something was added */
int suits(const row *r, ls_op op);

/* Products of the row's convolution, or numbers of its map: every variant runs where that is SMALL. */
enum { SMALL = 2000000, LARGE = 12000000 };
double work_of(const row *r);

#endif
