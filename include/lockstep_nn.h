/* Networks of one's own: layers, operations, losses, operations in plain C, and the ONNX format.
 *
 * SPDX-License-Identifier: MIT
 *
 * The rules at the head of lockstep.h hold here too. */
#ifndef LOCKSTEP_NN_H
#define LOCKSTEP_NN_H

#include <lockstep.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Networks of one's own --------------------------------------------------------------------------------------- */

/* A block's forward is called once for each input shape and mode, and records. */
typedef ls_tensor *ls_forward(ls_module *self, ls_tensor *x);
ls_module *ls_block(ls_session *session, ls_forward *forward, void *user);
/* In turn; `list` ends with NULL, its modules are named 0, 1, ... LS_LIST(a, b) makes one in C. */
ls_module *ls_sequential(ls_session *session, ls_module *const list[]);
#define LS_LIST(...) ((ls_module *[]){__VA_ARGS__, NULL})
/* name NULL: the child's number. A module that is appended in several places of one network, or called more than once
 * in a forward, has one set of parameters, under the name of its first place (a file may have them under any); their
 * gradient is the sum over the uses, added up from the last recorded use to the first. Dropout draws for each use by
 * itself; a BatchNorm normalises each use by that use's statistics, and its running ones move at each use in turn.
 * LS_BAD_ARGUMENT, by name: a module of another session, or of another network (what these share: lockstep_train.h), a
 * parent that calls no children (a layer, LeNet), and a child that comes when the images' shape is known and the
 * parameters are made. */
ls_status ls_module_append(ls_module *parent, const char *name, ls_module *child);
ls_module *ls_module_child(ls_module *parent, const char *name);              /* NULL where there is none */
ls_tensor *ls_module_call(ls_module *parent, const char *name, ls_tensor *x); /* records the child's forward */
void *ls_module_user(ls_module *block);

/* A network of several inputs: in its forward, and in those of its parts, input i of what it was called with, from 0
 * on; x of the outermost forward is input 0. LS_BAD_ARGUMENT where there is no such input. */
ls_tensor *ls_module_input(ls_module *self, int i);
/* ls_module_forward and ls_module_infer of n inputs, 1 to LS_MAX_INPUTS, with a row for each image: all on the host, or
 * all on one device; of a data set, or with numbers of their own. The network takes as many, and of these shapes, at
 * each call. LS_BAD_SHAPE where they do not fit. A computation reads at most LS_MAX_INPUTS tensors with numbers beside
 * a batch's X, targets among them (LS_UNSUPPORTED). */
ls_tensor *ls_module_forward_all(ls_module *net, ls_tensor *const inputs[], int n);
ls_tensor *ls_module_infer_all(ls_module *net, ls_tensor *const inputs[], int n);

/* ---- Layers ------------------------------------------------------------------------------------------------------ */

/* Of a convolution's windows. 0 is the usual: stride, dilation and groups 1, padding 0; of `*_w`, the width's, it is
 * the height's, and padding_w of -1 is none. Neighbouring taps of a window are `dilation` places apart. With groups the
 * channels lie in so many runs of equal length, input and output, and each run of outputs sees its own run of inputs;
 * as many groups as channels are a depthwise convolution. Negative numbers, and groups that do not divide the channels,
 * are refused by name. */
typedef struct ls_conv {
    int stride; /* 0: 1 */
    int padding;
    int groups;         /* 0: 1 */
    int dilation;       /* 0: 1 */
    int output_padding; /* of a transposed convolution: rows and columns more at the end; below stride or dilation */
    int kernel_w, stride_w, padding_w, dilation_w;
    bool no_bias;
} ls_conv;
typedef struct ls_linear_options {
    bool no_bias;
} ls_linear_options;
typedef struct ls_pool {
    int kernel, stride, padding;
} ls_pool; /* stride 0 means kernel */

/* To so many channels. weight (channels, inputs / groups, kernel, kernel_w), bias (channels); options may be NULL. A
 * map of h rows gets (h + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1, rounded down. */
ls_module *ls_nn_conv2d(ls_session *session, int channels, int kernel, const ls_conv *options);
/* The gradient of such a convolution as a layer, as PyTorch's ConvTranspose2d: weight (inputs, channels / groups,
 * kernel, kernel_w), bias (channels). A map of h rows gets (h - 1) * stride - 2 * padding + dilation * (kernel - 1) +
 * output_padding + 1. */
ls_module *ls_nn_conv_transpose2d(ls_session *session, int channels, int kernel, const ls_conv *options);
/* Over the last size of (images, inputs) or (images, tokens, inputs). weight (features, inputs), bias. */
ls_module *ls_nn_linear(ls_session *session, int features);
ls_module *ls_nn_linear_with(ls_session *session, int features, const ls_linear_options *options);
ls_module *ls_nn_batch_norm(ls_session *session); /* eps 1e-5, running statistics move by 0.1 a step */

/* How a layer normalises: 0 is the usual value, and a momentum of -1 is none. */
typedef struct ls_norm {
    double eps;      /* 1e-5, of RMSNorm 2^-23, as in PyTorch; above 0 and at most 1 */
    double momentum; /* BatchNorm's: how far a step moves the running statistics; 0.1 */
    bool no_affine;  /* no weight and no bias; not for BatchNorm */
    bool frozen;     /* BatchNorm's: with running statistics, which stay, in training too; weight and bias train */
    bool by_shard;   /* BatchNorm's: statistics of each shard, also in a session with batch_norm */
} ls_norm;

/* (x - mean) / sqrt(variance + eps) * weight + bias for each channel of (images, channels, ...). In training mean and
 * biased variance are those of the shard's images, ls_options.shard of them, and move the running ones, of which the
 * variance is unbiased; in inference mode these are taken. weight, bias, running_mean, running_var (channels). options
 * may be NULL. LS_BAD_ARGUMENT for values outside. */
ls_module *ls_nn_batch_norm_with(ls_session *session, const ls_norm *options);
/* As ls_layer_norm, ls_group_norm and ls_rms_norm: weight, which starts at 1, and bias, at 0, RMSNorm without bias. */
ls_module *ls_nn_layer_norm(ls_session *session, const ls_norm *options);
ls_module *ls_nn_group_norm(ls_session *session, int groups, const ls_norm *options);
ls_module *ls_nn_rms_norm(ls_session *session, const ls_norm *options);

/* As ls_embedding: weight (rows, features). */
ls_module *ls_nn_embedding(ls_session *session, int rows, int features);

/* Options of recurrent layers; zeros are the usual values. */
typedef struct ls_recurrent_options {
    int layers;         /* each over the states of the one below; 0: 1 */
    bool bidirectional; /* each layer goes both ways, and gives 2 * features: the first token's way, then the other */
    bool reverse;       /* from the last token to the first alone */
    bool last; /* the result is the state behind the last token, (images, features), both ways' if there are two */
    bool no_bias;
} ls_recurrent_options;
/* As ls_lstm and ls_gru over (images, tokens, inputs), to so many features. Parameters are called as PyTorch's:
 * weight_ih_l0 (gates * features, inputs), weight_hh_l0, bias_ih_l0, bias_hh_l0, with _l1 of the next layer, and
 * _reverse behind of the way back. All start uniform from -1 / sqrt(features) to that, as there, whatever ls_init says.
 * options may be NULL. LS_BAD_ARGUMENT. */
ls_module *ls_nn_lstm(ls_session *session, int features);
ls_module *ls_nn_lstm_with(ls_session *session, int features, const ls_recurrent_options *options);
ls_module *ls_nn_gru(ls_session *session, int features);
ls_module *ls_nn_gru_with(ls_session *session, int features, const ls_recurrent_options *options);
/* ls_module_call of a recurrent layer (ls_recurrent) or of attention (ls_attention_options) with the images' lengths,
 * which are of this call alone; of another layer LS_BAD_ARGUMENT. */
ls_tensor *ls_module_call_with_lengths(ls_module *parent, const char *name, ls_tensor *x, ls_tensor *lengths);

/* What attention is told: all zero is softmax(q k' / sqrt(features)) v. */
typedef struct ls_attention_options {
    bool causal;    /* token t sees keys 0 to t */
    double dropout; /* of the weights, in training: from 0 on and below 1 */
    double scale;   /* 0: 1 / sqrt(features of a head); -1: 0, so that all keys weigh alike */
    int kv_heads;   /* heads of k and v, which divide those of q: several of q's share one; 0: as many as k has, of a
                       layer as many as q */
    ls_tensor *lengths; /* (images) or (images, 1): tokens of each image, as floats; NULL: all. Keys from the length on
                           are seen by nobody. Where q has as many tokens as k, its tokens from there on give zeros and
                           have no gradient */
} ls_attention_options;
/* Of a sequence (images, tokens, features) to itself, as PyTorch's MultiheadAttention: in_proj_weight (features + 2 *
 * kv_heads * features / heads, features), in which q, k and v lie one after another, in_proj_bias, out_proj.weight
 * (features, features) and out_proj.bias. Lengths are of a call (`ls_module_call_with_lengths`): what they leave out
 * gives out_proj.bias. */
ls_module *ls_nn_attention(ls_session *session, int heads, const ls_attention_options *options);
/* In training each number is 0 with probability `rate`, at least 0 and below 1; the others are divided by 1 - rate. */
ls_module *ls_nn_dropout(ls_session *session, double rate);
/* As the operations of these names; the pools' options have a kernel. */
ls_module *ls_nn_avg_pool2d(ls_session *session, const ls_pool *options);
ls_module *ls_nn_max_pool2d(ls_session *session, const ls_pool *options);
ls_module *ls_nn_adaptive_avg_pool2d(ls_session *session, int height, int width);
typedef enum ls_upsample_mode { LS_NEAREST, LS_BILINEAR } ls_upsample_mode;
ls_module *ls_nn_upsample2d(ls_session *session, int factor, ls_upsample_mode mode);
/* A function as a layer. */
ls_module *ls_nn_fn(ls_session *session, ls_tensor *(*fn)(ls_tensor *)); /* ls_relu, ls_gelu, ls_flatten, ... */
/* Of a function with an argument: ls_nn_fn_with(s, ls_leaky_relu, 0.1). */
ls_module *ls_nn_fn_with(ls_session *session, ls_tensor *(*fn)(ls_tensor *, double), double argument);

/* A parameter of the block, made at the first call with this name, which names it as a file does. Of rank 1 it starts
 * at zero, else as ls_init says. Of a child of the block whose forward runs it is the child's own, so that both use
 * one: ls_module_parameter(ls_module_child(self, "enc"), "weight", shape), or by its path from here, "enc.weight". The
 * shape is that which it has there (LS_BAD_SHAPE), and a child that the forward calls must have it (LS_BAD_ARGUMENT).
 */
ls_tensor *ls_module_parameter(ls_module *block, const char *name, ls_shape shape);

/* ---- Operations -------------------------------------------------------------------------------------------------- */

/* Operations, recorded: on tensors with values as in a module's forward. x is (images, channels, height, width),
 * (images, tokens, features) or (images, features); weights and biases are parameters, or tensors with values on x's
 * device. */
/* As the layers have it; the weight says the kernel's size. bias may be NULL; options may be NULL. LS_BAD_SHAPE. */
ls_tensor *ls_conv2d(ls_tensor *x, ls_tensor *weight, ls_tensor *bias, const ls_conv *options);
ls_tensor *ls_conv_transpose2d(ls_tensor *x, ls_tensor *weight, ls_tensor *bias, const ls_conv *options);
/* Over the last size of (images, inputs) or (images, tokens, inputs). */
ls_tensor *ls_matmul(ls_tensor *x, ls_tensor *weight);                  /* weight (inputs, outputs) */
ls_tensor *ls_linear(ls_tensor *x, ls_tensor *weight, ls_tensor *bias); /* weight (outputs, inputs) */
/* Products of matrices, image by image: a (images, rows, inner) and b (images, inner, columns), or both with one size
 * more, (images, heads, ...), and a product for each. LS_BAD_SHAPE where sizes do not fit. */
ls_tensor *ls_batch_matmul(ls_tensor *a, ls_tensor *b);
/* (images, tokens, features): for each of ids (images, tokens) its row of the table (rows, features), a parameter. Ids
 * are whole numbers, as floats, from 0 on and below the rows. Where they come from data or from an array on the host,
 * perhaps under another shape, anything else is LS_BAD_ARGUMENT, with its image and place, when a shard with it is
 * computed; where they were computed it gets NaN, so that a step with it is LS_NOT_FINITE. They have no gradient.
 * LS_BAD_SHAPE where shapes do not fit, or the rows are more than 2^24. */
ls_tensor *ls_embedding(ls_tensor *ids, ls_tensor *table);

/* Options of a recurrent layer; zeros are the usual values. */
typedef struct ls_recurrent {
    ls_tensor *lengths; /* (images) or (images, 1): how many tokens of each image count, whole numbers as floats */
    bool reverse;       /* from the last token to the first, with lengths from each image's own last one */
    bool last;          /* the result is the state behind each image's last token, (images, hidden) */
} ls_recurrent;
/* LSTM (Hochreiter and Schmidhuber 1997) and GRU (Cho and others, arXiv 1406.1078) over the tokens of x (images,
 * tokens, features): (images, tokens, hidden), the state behind each token. The first one begins at zeros. weight_ih
 * (gates * hidden, features), weight_hh (gates * hidden, hidden), either bias (gates * hidden) or NULL, in PyTorch's
 * order of gates: i, f, g, o and r, z, n, bias_hh of n being inside the product with r. Tokens from the length on give
 * 0 and take no gradient, as PyTorch's packed sequences have it; the lengths have none, and one that is no whole number
 * from 0 to the tokens gives NaN, so that a step with it is LS_NOT_FINITE. options may be NULL. LS_BAD_SHAPE. On GPUs
 * float32 only (LS_UNSUPPORTED). */
ls_tensor *ls_lstm(ls_tensor *x, ls_tensor *weight_ih, ls_tensor *weight_hh, ls_tensor *bias_ih, ls_tensor *bias_hh,
                   const ls_recurrent *options);
ls_tensor *ls_gru(ls_tensor *x, ls_tensor *weight_ih, ls_tensor *weight_hh, ls_tensor *bias_ih, ls_tensor *bias_hh,
                  const ls_recurrent *options);
/* (images, features): of each image of x (images, tokens, features) the token in front of its length, which is as
 * above; 0 of a length of 0. With lengths NULL the last token. LS_BAD_SHAPE. */
ls_tensor *ls_last_token(ls_tensor *x, ls_tensor *lengths);
/* Each token of q (images, tokens, features) gets an average of v (images, keys, any), weighted by the softmax over k
 * (images, keys, features), or each with one size more, (images, heads, ...). options may be NULL. No pair of a token
 * and a key is kept: memory grows with the tokens alone. In one forward function all calls with dropout drop the same
 * places. LS_BAD_SHAPE, LS_BAD_ARGUMENT. */
ls_tensor *ls_attention(ls_tensor *q, ls_tensor *k, ls_tensor *v, const ls_attention_options *options);
/* x where x > 0, else 0. */
ls_tensor *ls_relu(ls_tensor *x);
/* Averages, and the largest numbers, of windows of kernel x kernel; the options say how large they are. */
ls_tensor *ls_avg_pool2d(ls_tensor *x, const ls_pool *options);
ls_tensor *ls_max_pool2d(ls_tensor *x, const ls_pool *options);
/* Of each map its mean: (images, channels, 1, 1). */
ls_tensor *ls_global_avg_pool2d(ls_tensor *x);

ls_tensor *ls_flatten(ls_tensor *x); /* (images, channels * height * width) */
ls_tensor *ls_softmax(ls_tensor *x); /* over the features of (images, features) */
/* (images, channels, height, width): as many numbers of an image as before, in their C order. ls_mean_over takes away a
 * dimension of 1. */
ls_tensor *ls_reshape(ls_tensor *x, int channels, int height, int width);
ls_tensor *ls_sum_each(ls_tensor *x);  /* the sum over each image: (images) */
ls_tensor *ls_mean_each(ls_tensor *x); /* the mean over each image: (images) */
/* The same numbers; no backward pass goes through here to what x was computed from. */
ls_tensor *ls_detach(ls_tensor *x);

/* Numbers put elsewhere; dimensions are those behind the images, from 1 on. Gradients go the way back. LS_BAD_SHAPE
 * where a dimension is not there or sizes do not fit. */
ls_tensor *ls_transpose(ls_tensor *x, int i, int j);                      /* dimensions i and j exchanged */
ls_tensor *ls_slice(ls_tensor *x, int dim, int64_t from, int64_t to);     /* from, up to and without `to` */
ls_tensor *ls_pad2d(ls_tensor *x, const int sides[4], double value);      /* left, right, top, bottom, at least 0 */
ls_tensor *ls_concat(ls_tensor *const parts[], int count);                /* channel after channel */
ls_tensor *ls_concat_along(ls_tensor *const parts[], int count, int dim); /* one after another along the dimension */

/* Over one dimension, which is gone from the result: (images, c, h, w) over 1 gives (images, h, w). */
ls_tensor *ls_mean_over(ls_tensor *x, int dim);
/* The gradient goes to the first of the largest; NaN where there is one. */
ls_tensor *ls_max_over(ls_tensor *x, int dim);

ls_tensor *ls_max_each(ls_tensor *x); /* over each image: (images) */

/* Maps of another size: x is (images, channels, height, width). */
/* Averages: row i of the result is made of x's rows from i * H / height, rounded down, to (i + 1) * H / height, rounded
 * up, and columns likewise, as PyTorch has it. */
ls_tensor *ls_adaptive_avg_pool2d(ls_tensor *x, int height, int width);
/* Each number `factor` times in both directions, or bilinear between centres: PyTorch's align_corners=False. */
ls_tensor *ls_upsample2d(ls_tensor *x, int factor, ls_upsample_mode mode);

/* (x - mean) / sqrt(variance + eps) * weight + bias, each image by itself, with its biased variance. weight and bias
 * are parameters of one size, or NULL: 1 and 0. LS_BAD_SHAPE where they do not fit, LS_BAD_ARGUMENT for an eps outside
 * 0 to 1. Over the features of (images, features) and (images, tokens, features), over the channels at each place of
 * (images, channels, height, width) (Ba and others, arXiv 1607.06450). */
ls_tensor *ls_layer_norm(ls_tensor *x, ls_tensor *weight, ls_tensor *bias, double eps);
/* x / sqrt(mean of x^2 + eps) * weight over the same (Zhang and Sennrich, arXiv 1910.07467). */
ls_tensor *ls_rms_norm(ls_tensor *x, ls_tensor *weight, double eps);
/* Over all numbers of as many channels each as the groups leave, weight and bias (channels) (Wu and He, arXiv
 * 1803.08494). The channels must be a multiple of the groups. */
ls_tensor *ls_group_norm(ls_tensor *x, int groups, ls_tensor *weight, ls_tensor *bias, double eps);

/* Number by number. Both are (images, ...) with as many sizes. Behind the images a size of 1 is repeated to the other
 * operand's, as NumPy does: (images, c, h, w) with (images, c, 1, 1). b may have no images: a parameter, or a tensor
 * with values and fewer sizes than a. Its last size then meets a's last one, what it lacks is repeated, and all images
 * have it: (h, w), (c, 1, 1); with one size it is a bias, (channels), or (1). Gradients of what was repeated are sums.
 * LS_BAD_SHAPE otherwise. x / 0 is infinite and 0 / 0 NaN, as in IEEE 754. */
ls_tensor *ls_add(ls_tensor *a, ls_tensor *b);
ls_tensor *ls_subtract(ls_tensor *a, ls_tensor *b);
ls_tensor *ls_multiply(ls_tensor *a, ls_tensor *b);
ls_tensor *ls_divide(ls_tensor *a, ls_tensor *b);

/* Functions of each number; x is (images, ...) of any shape, else LS_BAD_SHAPE. What they give at the edges is
 * PyTorch's too: NaN gives NaN where nothing else is said. One that is told a number fails with LS_BAD_ARGUMENT where
 * that is not finite as a float. */
ls_tensor *ls_scale(ls_tensor *x, double factor); /* x * factor */
ls_tensor *ls_tanh(ls_tensor *x);                 /* tanh(-0) is -0 */
ls_tensor *ls_sigmoid(ls_tensor *x);              /* 1 / (1 + exp(-x)) */
/* x where x > 0, else x * slope; the gradient at 0 is the slope. */
ls_tensor *ls_leaky_relu(ls_tensor *x, double slope);
/* x * sigmoid(x). silu(-inf) is NaN, and so are the gradients at both infinities. */
ls_tensor *ls_silu(ls_tensor *x);
/* x * (1 + erf(x / sqrt(2))) / 2 (Hendrycks and Gimpel, arXiv 1606.08415); at the infinities like ls_silu. */
ls_tensor *ls_gelu(ls_tensor *x);
/* Its approximation there, x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2: PyTorch's approximate="tanh". */
ls_tensor *ls_gelu_tanh(ls_tensor *x);
/* low where x is below, high where it is above. They may be infinite, and low must not be above high (LS_BAD_ARGUMENT).
 * The gradient passes where low <= x <= high, and is 0 elsewhere, at NaN too. */
ls_tensor *ls_clamp(ls_tensor *x, double low, double high);
/* e^x. */
ls_tensor *ls_exp(ls_tensor *x);
/* Natural; log of 0 and -0 is -inf, of less NaN. */
ls_tensor *ls_log(ls_tensor *x);
/* log(sigmoid(x)), without an overflow on the way. */
ls_tensor *ls_log_sigmoid(ls_tensor *x);
/* NaN of less than 0, sqrt(-0) is -0; the gradient at 0 is infinite, or NaN of a zero gradient. */
ls_tensor *ls_sqrt(ls_tensor *x);
/* |x|; the gradient at 0 and at NaN is 0. */
ls_tensor *ls_abs(ls_tensor *x);
/* x^exponent as C's pow: a negative x has a power where the exponent is whole, else NaN; x^0 is 1, of NaN too. The
 * gradient is exponent * x^(exponent - 1), of x^0 it is 0. */
ls_tensor *ls_power(ls_tensor *x, double exponent);

/* ---- Losses ------------------------------------------------------------------------------------------------------ */

/* A loss is one number for each image, (images). What ls_backward differentiates is their sum, and ls_trainer_step
 * divides by what the losses count: the images, but of ls_cross_entropy_with as is said there. So the gradients are
 * those of PyTorch's reduction="mean". Classes are the sizes behind the images of (images, classes, ...). */

/* Options; zeros are the usual values. One that a loss does not have is LS_BAD_ARGUMENT. */
typedef struct ls_loss {
    double smoothing;               /* ls_cross_entropy_with: from 0 to 1 */
    double delta;                   /* ls_huber: where the parabola ends; 0: 1 */
    bool has_ignore;                /* ls_cross_entropy_with: label `ignore`, which may be no class, counts nothing */
    int64_t ignore;                 /* PyTorch has -100; other than 0 it needs no has_ignore */
    const double *class_weights;    /* [classes], finite and not below 0; NULL: 1 each */
    const double *positive_weights; /* ls_bce, likewise: how much a positive target counts */
} ls_loss;

/* Of pairs of numbers: a and b are (images, ...) of one shape, else LS_BAD_SHAPE, and both have gradients. */

/* The mean of (a - b)^2 over each image. */
ls_tensor *ls_mse(ls_tensor *a, ls_tensor *b);
/* The mean of |a - b| over each image; its gradient is 0 where they are equal. */
ls_tensor *ls_l1(ls_tensor *a, ls_tensor *b);
/* PyTorch's huber_loss: the mean over each image of d^2 / 2 where |d| <= delta, else delta * (|d| - delta / 2), of d =
 * a - b. `options` (may be NULL): delta, LS_BAD_ARGUMENT unless it is above 0 and finite. */
ls_tensor *ls_huber(ls_tensor *a, ls_tensor *b, const ls_loss *options);
/* Binary cross-entropy of logits with targets y from 0 to 1, for labels of which an image has any number: the mean over
 * each image of (1 - y) x - (1 + (p - 1) y) log(sigmoid(x)), PyTorch's binary_cross_entropy_with_logits. `options` (may
 * be NULL): positive_weights (p, PyTorch's pos_weight) and class_weights (a factor, its weight), by the sizes behind
 * the images of (images, classes, ...). */
ls_tensor *ls_bce(ls_tensor *logits, ls_tensor *y, const ls_loss *options);

/* Softmax cross-entropy, one number for each image: of logits (images, classes, ...) with y, which are labels
 * (images, ...), one for each place behind the classes, or targets of the logits' shape, such as probabilities. Of
 * (images, classes) that is a label an image; maps, and (images, classes, tokens), have one a place, and an image's
 * loss is the sum over its places. Labels are tensors with values, whole numbers below the classes (LS_BAD_ARGUMENT
 * where they are read); targets have no gradient (LS_UNSUPPORTED of tracked ones). A step divides by the number of
 * places. */
ls_tensor *ls_cross_entropy(ls_tensor *logits, ls_tensor *y);
/* The same with smooth labels, as PyTorch's label_smoothing: each image's target is 1 - smoothing of its label and
 * smoothing of all classes alike. From 0 to 1; with 0 it is ls_cross_entropy. */
ls_tensor *ls_cross_entropy_smooth(ls_tensor *logits, ls_tensor *y, double smoothing);
/* The same with options (may be NULL): smoothing, class_weights w and, of labels, ignore. As PyTorch puts them
 * together, each place has targets t = (1 - smoothing) * y + smoothing / classes, y of a label being 1 and 0, and its
 * loss is the sum of -w * t * log(softmax(logits)) over the classes; 0 where the label is ignored. Of labels that are
 * weighed or ignored a step divides by the sum of w[label] over those that are not ignored; LS_BAD_ARGUMENT where that
 * is 0. On GPUs a network's loss takes no class_weights and no positive_weights yet (LS_UNSUPPORTED). */
ls_tensor *ls_cross_entropy_with(ls_tensor *logits, ls_tensor *y, const ls_loss *options);
/* A loss of a network's outputs with a batch's y. */
typedef ls_tensor *ls_loss_fn(ls_tensor *outputs, ls_tensor *y, void *user);
/* ls_module_evaluate by a loss of one's own. metrics->loss is its sum over the images, divided by what it counts, as a
 * step does; `correct` is 0 but of a cross-entropy of (images, classes) with labels. */
ls_status ls_module_evaluate_with(ls_module *net, const ls_data *data, ls_loss_fn *loss, void *user,
                                  ls_metrics *metrics);

/* Metrics of one's own: `metric` makes n numbers for each image, (images) or (images, ...), of the network's outputs
 * and y, and means[n] gets the mean of each over all images. They are added as doubles, in the order of the images, so
 * that they depend on neither devices nor shards. Several metrics at once are ls_concat of (images, 1, 1, 1).
 * LS_NOT_FINITE names the first image with one that is NaN or infinity, LS_BAD_SHAPE an n that is another. */
ls_status ls_module_measure(ls_module *net, const ls_data *data, ls_loss_fn *metric, void *user, double *means, int n);

ls_tensor *ls_sum(ls_tensor *x);  /* of everything: a single number */
ls_tensor *ls_mean(ls_tensor *x); /* the same, divided by how many numbers there are */

/* ---- Operations of one's own ------------------------------------------------------------------------------------- */

/* An operation in plain C on plain arrays. A shard's images are `rows` rows, each of channels * height * width numbers
 * in C order; a parameter lies as it is saved. The functions run on several threads at once, each for a shard of its
 * own, so they must not write to what `user` points to. With equal arguments they must give equal bits: no random
 * numbers, no clock, no order that depends on threads. GPUs take `cuda_forward` and `cuda_backward` in their place, and
 * without these refuse the operation by its name (LS_UNSUPPORTED). */
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

/* From the gradient of a sum with respect to `out` to that with respect to each input: din[k] is shaped like in[k],
 * that of a parameter is the sum over the rows. din[k] is all zero when the function is called, and NULL where nobody
 * wants it. */
typedef void ls_custom_backward(const ls_custom_call *call, const float *const in[], const float *out,
                                const float *dout, float *const din[]);

/* The same on a GPU: put the work into `stream`, a cudaStream_t of the current card, and return. Arrays are the card's
 * memory, in float32, and as said above; so is what is zero. The stream may be recording a CUDA graph, which is then
 * run at later steps without a call of these: no waiting, no memory had or given back, no work elsewhere, and nothing
 * that depends on more than the arguments. False, where a launch failed, ends the run (LS_IO). */
typedef bool ls_custom_launch(const ls_custom_call *call, const float *const in[], float *out, void *stream);
typedef bool ls_custom_launch_backward(const ls_custom_call *call, const float *const in[], const float *out,
                                       const float *dout, float *const din[], void *stream);

typedef struct ls_custom {
    const char *name;       /* for messages */
    int inputs;             /* 1 to LS_CUSTOM_INPUTS */
    unsigned parameters;    /* bit k: input k is a parameter, not (images, ...); never the first */
    ls_custom_shape *shape; /* NULL: the output is shaped like the first input */
    ls_custom_forward *forward;
    ls_custom_backward *backward; /* NULL: training through it is LS_UNSUPPORTED */
    void *user;                   /* must outlive the session */
    /* In ONNX's operators of version 13, for ls_module_export_onnx; NULL: it is LS_UNSUPPORTED. A line, or what stands
     * before a `;`, each: NAME = OPERATOR <ATTRIBUTE = VALUE, ...> (NAME, ...). x0, x1, ... are the inputs, of the
     * shapes that they have here; the last line is the result. A value is 2, 0.5, "text" or [0, 2, 1]; a number is
     * Constant <value_float = 0.5> (). So "a = Softplus (x0); b = Tanh (a); y = Mul (x0, b)" is Mish. */
    const char *onnx;
    ls_custom_launch *cuda_forward;           /* NULL: LS_UNSUPPORTED on GPUs */
    ls_custom_launch_backward *cuda_backward; /* NULL: training through it is LS_UNSUPPORTED there */
} ls_custom;

/* Records it; `op` and its texts are copied. An output whose height and width are 1 is (images, features). */
ls_tensor *ls_custom_op(const ls_custom *op, ls_tensor *const inputs[]);

/* Checks that `backward` is the slope of `forward`, sign included: the largest difference between a directional
 * derivative by `backward` and by central differences, relative to the derivatives' size. 1e-4 and less is rounding, 1
 * a wrong formula. The inputs are random by the session's seed, none within 1/8 of zero; shapes[k] is input k's
 * channels, height and width, of a parameter {its numbers, 1, 1}. Where there is a GPU the results of cuda_forward and
 * cuda_backward on gpu(0) are compared with the others' too, relative to the largest number. NaN after a failure: no
 * backward (LS_UNSUPPORTED), numbers that are not finite, a function that gives different bits for equal arguments, an
 * `onnx` that cannot be read (LS_BAD_ARGUMENT; whether ONNX has the operators is not known here). Calls the functions
 * at once, on the caller's thread. */
double ls_custom_check(ls_session *session, const ls_custom *op, const int shapes[][3], int rows);

/* ---- All parameters at once, other formats ----------------------------------------------------------------------- */

/* Calls fn for every parameter, in the order of ls_module_parameter_at; fn may write the values, in C order. */
ls_status ls_module_apply(ls_module *net, void (*fn)(const ls_parameter_info *info, float *values, void *user),
                          void *user);

/* Writes the network in inference mode, with its values, as an ONNX model (operators of version 13): from `input`, any
 * number of images as the network takes them, to `output`. Replaces `path` as a whole or not at all. LS_UNSUPPORTED for
 * an own operation without `onnx`, by name, and where the library was built without it. Waits. */
ls_status ls_module_export_onnx(ls_module *net, const char *path);

/* The share of right images over a function of explicit parameters: replica[d] are those on device d, and each batch is
 * split over the devices; ls_data_next then goes on where it stood in the data. A loss that is not finite is
 * LS_NOT_FINITE. */
typedef ls_tensor *ls_net_fn(ls_tensor *X, void *replica);
double ls_accuracy_fn(ls_net_fn *fn, void *const replica[], ls_data *data, ls_devices devices);

#ifdef __cplusplus
}
#endif

#endif
