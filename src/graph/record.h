/* Recording: every operation checks its operands and makes a tensor that knows how it is computed. While a module's
 * forward runs, the session's recording says under which names its parameters go. */
#pragma once

#include "graph/tensor.h"
#include "tensor/flat.h"

typedef struct ls_recording {
    ls_flat *flat; /* parameters are defined in it until it is closed, and looked up after that */
    bool training;
    const ls_module *root;
    uint64_t number;                  /* no other recording of the session has it */
    ls_tensor *inputs[LS_MAX_INPUTS]; /* of the network */
    int n_inputs;
    char path[512];    /* of the module whose forward runs: "resnet_block2.0", "" at the root */
    bool by_another;   /* while a parameter is asked for by another module than its own */
    int block, blocks; /* the number of the call whose results are not kept for the backward pass, 0 outside of such
                          calls; and how many there were */
} ls_recording;

/* The computation of a tensor of that shape. NULL after any failure of the session. */
ls_tensor *ls_record_shaped(ls_op op, ls_tensor *const in[], int n, const ls_shape *shape);
/* A computation with the given image shape (c, h, w); `flat` gives (images, c). NULL after any failure of the
 * session. */
ls_tensor *ls_record(ls_op op, ls_tensor *const in[], int n, int c, int h, int w, bool flat);

/* The same numbers with a dimension of 1 behind the images, of three dimensions, or without it. */
ls_tensor *ls_as_rank(ls_tensor *x, int rank);

/* What an operand is to an operation. */
typedef enum ls_role { LS_ROLE_IMAGES, LS_ROLE_WEIGHT, LS_ROLE_LABELS } ls_role;
ls_role ls_role_of(const ls_attributes *attributes, int operand);

/* How often an operand that can be written was written; 0 of any other. */
uint64_t ls_version_of(const ls_tensor *operand);

/* The shape of what can stand as a weight or bias: NULL for what was computed or belongs to a batch. */
const ls_shape *ls_weight_shape(const ls_tensor *weight);
bool ls_fits_bias(const ls_tensor *bias, int64_t outputs);

/* What keeps a convolution to so many channels from having these options, which may be NULL; NULL where nothing does.
 */
const char *ls_wrong_conv(const ls_conv *options, int64_t channels, bool transposed);

/* Raises LS_BAD_SHAPE with what is wrong, x's shape and where it was; returns NULL. */
__attribute__((format(printf, 3, 4))) ls_tensor *ls_bad_shape(const ls_tensor *x, const char *function,
                                                              const char *what, ...);
/* The same with the shapes of all that had to fit together, `names` in one text: "x, weight, bias". Those that are NULL
 * are left out, but for the first. */
__attribute__((format(printf, 4, 5))) ls_tensor *ls_bad_shapes(ls_tensor *const of[], const char *names,
                                                               const char *function, const char *what, ...);

/* NULL unless every tensor is there, is of one session that has not failed, and lies on one device. */
ls_session *ls_operands(ls_tensor *const in[], int n, const char *function);

/* Whether a loss has its second operand, which is a batch's y mostly; false after a failure. */
bool ls_has_target(const ls_tensor *x, const ls_tensor *y, const char *function);

/* Whether both are (images, ...) of one shape; false after a failure. */
bool ls_are_alike(ls_tensor *a, ls_tensor *b, const char *function);

/* Whether lengths, which may be NULL, are one number for each of x's images. */
bool ls_are_lengths(const ls_tensor *lengths, const ls_tensor *x);

/* The cross-entropy that a loss is, or the sum of over places; NULL: it is another one. */
const ls_tensor *ls_counted_loss(const ls_tensor *loss);

/* Repeats the operands of an operation on pairs of numbers until they have one shape; false after LS_BAD_SHAPE. */
bool ls_broadcast(ls_tensor *in[2], const char *function);

/* BatchNorm over x with parameters weight and bias and running statistics, all four made under the recording's path. In
 * training it takes those where it is frozen; eps and momentum are as they are. */
ls_tensor *ls_record_batch_norm(ls_tensor *x, const char *path, const ls_norm *how);
/* `use`: how often the layer has been recorded in this forward, from 1; each use draws for itself. */
ls_tensor *ls_record_dropout(ls_tensor *x, const char *path, int use, double rate);

/* What keeps a user's operation from being one; NULL where nothing does. */
const char *ls_wrong_custom(const ls_custom *op);

/* A parameter under `path`: defined by the first recording of a network, looked up by later ones. */
ls_tensor *ls_record_parameter(ls_session *session, const char *path, const char *name, const ls_shape *shape);
