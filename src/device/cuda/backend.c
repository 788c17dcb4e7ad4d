/* The tables of the card's operations in TF32 and bfloat16; exact.c has float32's. An activation is
 * [image][row][column][channel], in float or, with bf16, in bfloat16; parameters, gradients, statistics, losses and
 * probabilities are float. What stands in op.h about the order of sums holds for float32: here every sum has an order
 * of its own, always the same for a shape. */
#include <stdlib.h>
#include <string.h>

#include "device/cuda/card.h"

static ls_cuda_shape shape_of(const ls_op_call *call, const ls_operand *t)
{
    return (ls_cuda_shape){call->samples->count, t->c, t->h, t->w};
}

static ls_card *card_of(const ls_op_call *call)
{
    return (ls_card *)call->executor;
}

static int half_of(const ls_op_call *call)
{
    return ls_card_half(card_of(call));
}

/* ---- Convolutions and linear layers ---- */

static ls_cuda_window window_of(const ls_attributes *how)
{
    return (ls_cuda_window){how->kernel, how->stride, how->padding};
}

/* Of any direction: x and y are the forward pass's. */
static ls_cuda_conv conv_of(const ls_op_call *call, const ls_operand *x, const ls_operand *y)
{
    return (ls_cuda_conv){.x = shape_of(call, x),
                          .y = shape_of(call, y),
                          .windows = ls_windows_of(call->attributes),
                          .in_out = call->attributes->weight_in_out};
}

static const ls_operand *input_of(const ls_op_call *call)
{
    return call->attributes->op == LS_OP_CONV_DATA ? &call->out[0] : &call->in[0];
}

static const ls_operand *output_of(const ls_op_call *call)
{
    return call->attributes->op == LS_OP_CONV_DATA     ? &call->in[0]
           : call->attributes->op == LS_OP_CONV_WEIGHT ? &call->in[1]
                                                       : &call->out[0];
}

static bool is_linear(const ls_cuda_conv *v)
{
    const ls_windows *w = &v->windows;
    return ls_cuda_taps(v) == 1 && v->x.h == 1 && v->x.w == 1 && v->y.h == 1 && v->y.w == 1 && w->groups == 1 &&
           w->rows.padding == 0 && w->columns.padding == 0;
}

/* The channels that cuDNN's tensor cores load at once: 16 bytes. */
static int channels_at_once(size_t number)
{
    return (int)(16 / number);
}

/* What the kernels of our own compute: with so few channels cuDNN's tiles are all but empty, so large a window is not
 * turned, and groups cannot be filled up with channels. */
static bool is_thin(const ls_cuda_conv *v, size_t number)
{
    const int groups = v->windows.groups, most = channels_at_once(number);
    return v->x.c < 4 || v->in_out || ls_cuda_taps(v) > LS_CUDA_TILE ||
           (groups > 1 && (v->x.c / groups % most || v->y.c / groups % most));
}

/* The convolution that cuDNN computes: whole loads of channels, and an image without the places that no window reads,
 * which it would copy. */
static ls_cuda_conv fitted(ls_cuda_conv v, size_t number)
{
    const int most = channels_at_once(number);
    v.x.h = ls_cuda_axis_of(v.x.h, v.y.h, &v.windows.rows).input;
    v.x.w = ls_cuda_axis_of(v.x.w, v.y.w, &v.windows.columns).input;
    v.x.c = (v.x.c + most - 1) / most * most;
    v.y.c = (v.y.c + most - 1) / most * most;
    return v;
}

static bool same_shape(ls_cuda_shape a, ls_cuda_shape b)
{
    return a.c == b.c && a.h == b.h && a.w == b.w;
}

/* Scratch of a convolution by cuDNN: weights as it reads them, activations where they are fitted, and a workspace. */
typedef struct conv_room {
    ls_cuda_conv fit;
    bool copies_x, copies_y;
    size_t x_at, y_at, workspace_at;
} conv_room;

/* `adds`: what is made of x may have to be added to something else. */
static conv_room room_of(const ls_cuda_conv *v, size_t number, bool adds)
{
    const ls_cuda_conv fit = fitted(*v, number);
    conv_room room = {.fit = fit, .copies_x = !same_shape(fit.x, v->x), .copies_y = !same_shape(fit.y, v->y)};
    room.x_at = ls_cuda_aligned(ls_cuda_weights(&fit) * number);
    room.y_at = room.x_at + (room.copies_x || adds ? ls_cuda_aligned(ls_cuda_numbers(fit.x) * number) : 0);
    room.workspace_at = room.y_at + (room.copies_y ? ls_cuda_aligned(ls_cuda_numbers(fit.y) * number) : 0);
    return room;
}

/* What the gradient of a convolution's input is added to, or NULL. */
static const void *added_to(const ls_op_call *call)
{
    return call->attributes->op == LS_OP_CONV_DATA ? call->in[2].data : NULL;
}

static size_t conv_scratch(const ls_op_call *call, size_t number)
{
    const ls_cuda_conv v = conv_of(call, input_of(call), output_of(call));
    const size_t direct = ls_cuda_direct_scratch(&v);
    if (is_linear(&v))
        return ls_cuda_aligned(ls_cuda_weights(&v) * number) +
               (added_to(call) ? ls_cuda_aligned(ls_cuda_numbers(v.x) * number) : 0);
    if (is_thin(&v, number))
        return direct;
    const conv_room room = room_of(&v, number, added_to(call));
    return room.workspace_at + (direct > LS_CARD_DNN ? direct : LS_CARD_DNN);
}

/* The gradient of a convolution's input, fitted; false where cuDNN has no engine. */
static bool fitted_conv_data(const ls_op_call *call, const ls_cuda_conv *v)
{
    ls_card *card = card_of(call);
    cudaStream_t stream = card->stream;
    const int half = ls_card_half(card);
    const void *more = added_to(call);
    void *x = call->out[0].data, *y = call->in[0].data;
    const conv_room room = room_of(v, ls_card_number_bytes(card), more);
    const ls_cuda_conv *fit = &room.fit;
    char *packed = call->scratch, *fit_y = packed + room.y_at;
    int64_t bytes;
    const bool adds = more && !room.copies_x && ls_card_engine(card, LS_CARD_MORE_DATA, fit, &bytes);
    const bool copies = room.copies_x || (more && !adds);
    if (!adds && !ls_card_engine(card, LS_CARD_DATA, fit, &bytes))
        return false;
    if (room.copies_y)
        ls_cuda_fit(stream, half, fit_y, fit->y, y, v->y, NULL);
    if (adds && more != x)
        ls_card_good(card,
                     cudaMemcpyAsync(x, more, ls_cuda_numbers(v->x) * ls_card_number_bytes(card),
                                     cudaMemcpyDeviceToDevice, stream),
                     "a copy on the card");
    ls_cuda_pack(stream, half, packed, call->in[1].data, fit, v);
    void *fit_x = copies ? packed + room.x_at : x;
    y = room.copies_y ? fit_y : y;
    ls_card_convolve(card, adds ? LS_CARD_MORE_DATA : LS_CARD_DATA, fit, fit_x, packed, y, packed + room.workspace_at);
    if (copies) /* what no window reads has no gradient */
        ls_cuda_fit(stream, half, x, v->x, fit_x, fit->x, more);
    return true;
}

/* The result, or the gradient of the weights; false where cuDNN has no engine. A result stays fitted. */
static bool fitted_conv(const ls_op_call *call, ls_card_direction direction, const ls_cuda_conv *v, void *x, float *w,
                        void *y)
{
    ls_card *card = card_of(call);
    cudaStream_t stream = card->stream;
    const int half = ls_card_half(card);
    const conv_room room = room_of(v, ls_card_number_bytes(card), false);
    const ls_cuda_conv *fit = &room.fit;
    char *packed = call->scratch;
    void *fit_x = room.copies_x ? packed + room.x_at : x, *fit_y = room.copies_y ? packed + room.y_at : y;
    void *workspace = packed + room.workspace_at;
    int64_t bytes;
    if (!ls_card_engine(card, direction, fit, &bytes))
        return false;
    if (room.copies_x)
        ls_cuda_fit(stream, half, fit_x, fit->x, x, v->x, NULL);
    if (room.copies_y && direction == LS_CARD_WEIGHT)
        ls_cuda_fit(stream, half, fit_y, fit->y, y, v->y, NULL);
    if (direction == LS_CARD_FORWARD)
        ls_cuda_pack(stream, half, packed, w, fit, v);
    ls_card_convolve(card, direction, fit, fit_x, packed, fit_y, workspace);
    if (direction == LS_CARD_WEIGHT)
        ls_cuda_unpack(stream, half, w, packed, fit, v);
    return true;
}

/* Forward, or the gradient of the input. */
static void linear(const ls_op_call *call, ls_card_direction direction, const ls_cuda_conv *v, void *x)
{
    ls_card *card = card_of(call);
    const int half = ls_card_half(card);
    float *w = call->in[1].data;
    if (half)
        ls_cuda_round(card->stream, call->scratch, w, ls_cuda_weights(v));
    ls_card_linear(card, direction, v, x, half ? call->scratch : w, output_of(call)->data);
}

static void conv(const ls_op_call *call)
{
    const ls_operand *x = &call->in[0], *y = &call->out[0];
    const ls_cuda_conv v = conv_of(call, x, y);
    float *w = call->in[1].data;
    const float *bias = call->in[2].data;
    const int relu = call->attributes->fused_relu, half = half_of(call);
    cudaStream_t stream = card_of(call)->stream;
    const void *made = y->data;
    ls_cuda_shape shape = v.y; /* of what is made */
    if (is_linear(&v)) {
        linear(call, LS_CARD_FORWARD, &v, x->data);
    } else if (!is_thin(&v, ls_card_number_bytes(card_of(call))) &&
               fitted_conv(call, LS_CARD_FORWARD, &v, x->data, w, y->data)) {
        const conv_room room = room_of(&v, ls_card_number_bytes(card_of(call)), false);
        made = room.copies_y ? (const char *)call->scratch + room.y_at : made;
        shape = room.fit.y;
    } else {
        ls_cuda_direct(stream, half, y->data, x->data, w, bias, relu, &v);
        return;
    }
    if (bias)
        ls_cuda_bias(stream, half, y->data, made, shape.c, bias, v.y, relu);
    else if (made != y->data)
        ls_cuda_fit(stream, half, y->data, v.y, made, shape, NULL);
    if (!bias && relu)
        ls_cuda_each(stream, half, LS_CUDA_RELU, y->data, y->data, NULL, ls_cuda_numbers(v.y), 0);
}

static void conv_data(const ls_op_call *call)
{
    ls_card *card = card_of(call);
    const int half = ls_card_half(card);
    const ls_operand *x = &call->out[0], *y = &call->in[0];
    const ls_cuda_conv v = conv_of(call, x, y);
    const void *more = added_to(call);
    if (is_linear(&v)) {
        void *made = (char *)call->scratch + ls_cuda_aligned(ls_cuda_weights(&v) * ls_card_number_bytes(card));
        linear(call, LS_CARD_DATA, &v, more ? made : x->data);
        if (more)
            ls_cuda_each(card->stream, half, LS_CUDA_ADD, x->data, made, more, ls_cuda_numbers(v.x), 0);
    } else if (is_thin(&v, ls_card_number_bytes(card)) || !fitted_conv_data(call, &v)) {
        ls_cuda_direct_data(card->stream, half, x->data, y->data, call->in[1].data, more, &v);
    }
}

static void conv_weight(const ls_op_call *call)
{
    ls_card *card = card_of(call);
    const int half = ls_card_half(card);
    void *x = call->in[0].data, *dy = call->in[1].data;
    float *dw = call->out[0].data;
    const ls_cuda_conv v = conv_of(call, &call->in[0], &call->in[1]);
    if (is_linear(&v))
        ls_card_linear(card, LS_CARD_WEIGHT, &v, x, dw, dy);
    else if (is_thin(&v, ls_card_number_bytes(card)) || !fitted_conv(call, LS_CARD_WEIGHT, &v, x, dw, dy))
        ls_cuda_direct_weight(card->stream, half, dw, x, dy, &v, call->scratch);
}

/* ---- Norms, pools ---- */

static void channel_sum(const ls_op_call *call)
{
    ls_cuda_channel_sum(card_of(call)->stream, half_of(call), call->out[0].data, call->in[0].data,
                        shape_of(call, &call->in[0]), call->scratch);
}

static ls_cuda_norm norm_of(const ls_op_call *call)
{
    return (ls_cuda_norm){.shape = shape_of(call, &call->in[0]),
                          .x = call->in[0].data,
                          .gamma = call->in[1].data,
                          .beta = call->in[2].data,
                          .shift = call->in[5].data,
                          .residual = call->attributes->fused_add ? call->in[3].data : NULL,
                          .y = call->out[0].data,
                          .relu = call->attributes->fused_relu,
                          .eps = call->attributes->eps};
}

static void batch_norm(const ls_op_call *call)
{
    ls_cuda_norm norm = norm_of(call);
    norm.saved = call->out[1].data;
    norm.statistics = call->out[2].data;
    ls_cuda_norm_train(card_of(call)->stream, half_of(call), &norm, call->scratch);
}

static void batch_norm_infer(const ls_op_call *call)
{
    ls_cuda_norm norm = norm_of(call);
    norm.running = call->in[4].data;
    ls_cuda_norm_infer(card_of(call)->stream, half_of(call), &norm);
}

static void batch_norm_backward(const ls_op_call *call)
{
    const ls_cuda_norm_slope norm = {.shape = shape_of(call, &call->in[1]),
                                     .dy = call->in[0].data,
                                     .x = call->in[1].data,
                                     .gamma = call->in[2].data,
                                     .beta = call->in[5].data,
                                     .saved = call->in[3].data,
                                     .y = call->attributes->fused_relu ? call->in[4].data : NULL,
                                     .dx = call->out[0].data,
                                     .dgb = call->out[1].data,
                                     .dresidual = call->attributes->fused_add ? call->out[2].data : NULL};
    ls_cuda_norm_backward(card_of(call)->stream, half_of(call), &norm, call->scratch);
}

static void pool(const ls_op_call *call)
{
    ls_cuda_pool(card_of(call)->stream, half_of(call), call->attributes->op == LS_OP_MAX_POOL, call->out[0].data,
                 call->in[0].data, shape_of(call, &call->in[0]), shape_of(call, &call->out[0]),
                 window_of(call->attributes));
}

static void pool_backward(const ls_op_call *call)
{
    ls_cuda_pool_backward(card_of(call)->stream, half_of(call), call->attributes->op == LS_OP_MAX_POOL_BACKWARD,
                          call->attributes->fused_relu, call->out[0].data, call->in[0].data, call->in[1].data,
                          shape_of(call, &call->out[0]), shape_of(call, &call->in[0]), window_of(call->attributes));
}

static void global_pool(const ls_op_call *call)
{
    ls_cuda_global_pool(card_of(call)->stream, half_of(call), call->out[0].data, call->in[0].data,
                        shape_of(call, &call->in[0]));
}

static void global_pool_backward(const ls_op_call *call)
{
    ls_cuda_global_pool_backward(card_of(call)->stream, half_of(call), call->out[0].data, call->in[0].data,
                                 shape_of(call, &call->out[0]));
}

/* ---- Number by number ---- */

static void each(const ls_op_call *call)
{
    static const ls_cuda_pointwise kinds[LS_OP_COUNT] = {[LS_OP_ADD] = LS_CUDA_ADD,
                                                         [LS_OP_SUBTRACT] = LS_CUDA_SUBTRACT,
                                                         [LS_OP_MULTIPLY] = LS_CUDA_MULTIPLY,
                                                         [LS_OP_DIVIDE] = LS_CUDA_DIVIDE,
                                                         [LS_OP_SCALE] = LS_CUDA_SCALE,
                                                         [LS_OP_RELU] = LS_CUDA_RELU,
                                                         [LS_OP_TANH] = LS_CUDA_TANH,
                                                         [LS_OP_RELU_BACKWARD] = LS_CUDA_RELU_BACKWARD,
                                                         [LS_OP_SIGMOID] = LS_CUDA_SIGMOID,
                                                         [LS_OP_TANH_BACKWARD] = LS_CUDA_TANH_BACKWARD,
                                                         [LS_OP_SIGMOID_BACKWARD] = LS_CUDA_SIGMOID_BACKWARD};
    ls_cuda_each(card_of(call)->stream, half_of(call), kinds[call->attributes->op], call->out[0].data, call->in[0].data,
                 call->in[1].data, ls_cuda_numbers(shape_of(call, &call->out[0])), call->attributes->factor);
}

/* Float32 in bfloat16 too. */
static void add_scaled(const ls_op_call *call)
{
    const size_t n = (size_t)call->out[0].c;
    float *out = call->out[0].data;
    const float *a = call->in[0].data;
    if (call->attributes->factor != 1) {
        ls_cuda_each(card_of(call)->stream, 0, LS_CUDA_SCALE, out, a, NULL, n, call->attributes->factor);
        a = out;
    }
    ls_cuda_each(card_of(call)->stream, 0, LS_CUDA_ADD, out, a, call->in[1].data, n, 0);
}

static void function(const ls_op_call *call)
{
    ls_cuda_function(card_of(call)->stream, half_of(call), call->attributes, call->out[0].data, NULL, call->in[0].data,
                     ls_cuda_numbers(shape_of(call, &call->out[0])));
}

static void function_backward(const ls_op_call *call)
{
    ls_cuda_function(card_of(call)->stream, half_of(call), call->attributes, call->out[0].data, call->in[0].data,
                     call->in[1].data, ls_cuda_numbers(shape_of(call, &call->out[0])));
}

static void expand(const ls_op_call *call)
{
    ls_cuda_expand(card_of(call)->stream, half_of(call), call->out[0].data, shape_of(call, &call->out[0]),
                   call->in[0].data, shape_of(call, &call->in[0]), call->attributes->op == LS_OP_EXPAND_WEIGHT);
}

static void expand_backward(const ls_op_call *call)
{
    ls_cuda_expand_backward(card_of(call)->stream, half_of(call), call->out[0].data, shape_of(call, &call->out[0]),
                            call->attributes->op == LS_OP_EXPAND_WEIGHT_BACKWARD, call->in[0].data,
                            shape_of(call, &call->in[0]));
}

static void dropout(const ls_op_call *call)
{
    const ls_cuda_drawn drawn = {.seed = call->samples->seed,
                                 .key = call->attributes->key,
                                 .step = &card_of(call)->now->step,
                                 .index = call->samples->index,
                                 .rate = call->attributes->factor};
    ls_cuda_dropout(card_of(call)->stream, half_of(call), call->out[0].data, call->in[0].data, &drawn,
                    shape_of(call, &call->out[0]));
}

static void add_bias(const ls_op_call *call)
{
    ls_cuda_bias(card_of(call)->stream, half_of(call), call->out[0].data, call->in[0].data, call->in[0].c,
                 call->in[1].data, shape_of(call, &call->out[0]), 0);
}

static void concat(const ls_op_call *call)
{
    const int axis = call->attributes->axis;
    for (int k = 0, at = 0; k < LS_MAX_IN && call->in[k].data; k++) {
        const int sizes[3] = {call->in[k].c, call->in[k].h, call->in[k].w};
        ls_cuda_place(card_of(call)->stream, half_of(call), call->out[0].data, shape_of(call, &call->out[0]),
                      call->in[k].data, shape_of(call, &call->in[k]), axis, at);
        at += sizes[axis];
    }
}

static void view(const ls_op_call *call)
{
    const ls_view_steps steps = ls_view_steps_of(call);
    ls_cuda_view(card_of(call)->stream, half_of(call), call->out[0].data, shape_of(call, &call->out[0]),
                 call->in[0].data, shape_of(call, &call->in[0]), &steps, call->attributes->factor);
}

static void reshape(const ls_op_call *call)
{
    ls_cuda_reshape(card_of(call)->stream, half_of(call), call->out[0].data, call->in[0].data,
                    shape_of(call, &call->out[0]), shape_of(call, &call->in[0]));
}

/* ---- Losses and metrics ---- */

static ls_cuda_targets targets_of(const ls_op_call *call, const ls_operand *logits)
{
    return (ls_cuda_targets){.places = (size_t)call->samples->count * (size_t)(logits->h * logits->w),
                             .classes = logits->c,
                             .smoothing = call->attributes->smoothing,
                             .labels = call->samples->labels,
                             .weights = call->in[2].data,
                             .targets = call->in[3].data};
}

static void cross_entropy(const ls_op_call *call)
{
    ls_cuda_cross_entropy(card_of(call)->stream, half_of(call), call->out[0].data, call->out[1].data, call->in[0].data,
                          targets_of(call, &call->in[0]));
}

static void cross_entropy_backward(const ls_op_call *call)
{
    ls_cuda_cross_entropy_backward(card_of(call)->stream, half_of(call), call->out[0].data, call->in[0].data,
                                   call->in[1].data, targets_of(call, &call->out[0]));
}

static void softmax(const ls_op_call *call)
{
    ls_cuda_softmax(card_of(call)->stream, half_of(call), call->out[0].data, call->in[0].data, call->samples->count,
                    call->in[0].c);
}

static void softmax_backward(const ls_op_call *call)
{
    ls_cuda_softmax_backward(card_of(call)->stream, half_of(call), call->out[0].data, call->in[0].data,
                             call->in[1].data, call->samples->count, call->in[1].c);
}

static void ones(const ls_op_call *call)
{
    ls_cuda_fill(card_of(call)->stream, call->out[0].data, &card_of(call)->now->one, call->samples->count);
}

static void sum_images(const ls_op_call *call)
{
    ls_cuda_sum_images(card_of(call)->stream, call->out[0].data, call->in[0].data, call->samples->count);
}

static void count_correct(const ls_op_call *call)
{
    ls_cuda_count_correct(card_of(call)->stream, half_of(call), call->out[0].data, call->in[0].data,
                          call->samples->labels, call->samples->count, call->in[0].c);
}

static void sum_each(const ls_op_call *call)
{
    ls_cuda_sum_each(card_of(call)->stream, half_of(call), call->out[0].data, call->in[0].data, call->in[1].data,
                     shape_of(call, &call->in[0]), call->attributes->factor);
}

static void sum_each_backward(const ls_op_call *call)
{
    ls_cuda_sum_each_backward(card_of(call)->stream, half_of(call), call->out[0].data, call->in[0].data,
                              call->in[1].data, call->in[2].data, shape_of(call, &call->out[0]),
                              call->attributes->factor);
}

/* ---- From the host, and back ---- */

static void images(const ls_op_call *call)
{
    const ls_samples *samples = call->samples;
    const ls_cuda_samples from = {samples->images, samples->floats, samples->index, samples->changes};
    if (samples->images)
        ls_cuda_images(card_of(call)->stream, half_of(call), call->out[0].data, &from, shape_of(call, &call->out[0]));
}

/* The rows stay where they are until the run is finished: on the host, or on the card. */
static void input(const ls_op_call *call)
{
    ls_card *card = card_of(call);
    const ls_cuda_shape shape = shape_of(call, &call->out[0]);
    const float *rows = call->samples->rows[call->attributes->input];
    if (ls_card_good(card,
                     cudaMemcpyAsync(call->scratch, rows, ls_cuda_numbers(shape) * sizeof *rows, cudaMemcpyDefault,
                                     card->stream),
                     "a copy to the card"))
        ls_cuda_from_rows(card->stream, half_of(call), call->out[0].data, call->scratch, shape);
}

static void rows(const ls_op_call *call)
{
    ls_cuda_to_rows(card_of(call)->stream, half_of(call), call->out[0].data, call->in[0].data,
                    shape_of(call, &call->in[0]));
}

/* ---- The user's own ---- */

static void from_activation(const ls_op_call *call, const ls_operand *x, float *rows)
{
    ls_cuda_to_rows(card_of(call)->stream, half_of(call), rows, x->data, shape_of(call, x));
}

static void to_activation(const ls_op_call *call, const float *rows, const ls_operand *x)
{
    ls_cuda_from_rows(card_of(call)->stream, half_of(call), x->data, rows, shape_of(call, x));
}

static void own(const ls_op_call *call)
{
    static const ls_card_rows rows = {from_activation, to_activation};
    ls_card_own(call, &rows);
}

/* ---- The tables ---- */

static size_t scratch_of(const ls_op_call *call, size_t number)
{
    switch (call->attributes->op) {
    case LS_OP_CONV:
    case LS_OP_CONV_DATA:
    case LS_OP_CONV_WEIGHT:
        return conv_scratch(call, number);
    case LS_OP_CHANNEL_SUM:
    case LS_OP_BATCH_NORM:
        return ls_cuda_norm_scratch(shape_of(call, &call->in[0]));
    case LS_OP_BATCH_NORM_BACKWARD:
        return ls_cuda_norm_scratch(shape_of(call, &call->in[1]));
    case LS_OP_INPUT:
        return ls_cuda_numbers(shape_of(call, &call->out[0])) * sizeof(float);
    case LS_OP_CUSTOM:
    case LS_OP_CUSTOM_BACKWARD:
        return ls_card_own_scratch(call);
    default:
        return 0;
    }
}

static size_t scratch(const ls_op_call *call)
{
    return scratch_of(call, sizeof(float));
}

static size_t half_scratch(const ls_op_call *call)
{
    return scratch_of(call, 2);
}

/* In bfloat16 all activations are but these. */
static size_t made_as(ls_op op, int k)
{
    (void)k; /* both of a cross-entropy */
    return op == LS_OP_CROSS_ENTROPY || op == LS_OP_ONES || op == LS_OP_SUM || op == LS_OP_SQUARED_ERROR ? 4 : 2;
}

static size_t read_as(ls_op op, int k)
{
    switch (op) {
    case LS_OP_SUM_IMAGES:
        return 4;
    case LS_OP_CROSS_ENTROPY_BACKWARD:
        return k < 2 ? 4 : 2;
    case LS_OP_SUM_BACKWARD:
    case LS_OP_SQUARED_ERROR_BACKWARD:
        return k == 0 ? 4 : 2;
    default:
        return 2;
    }
}

/* What both have. */
#define TABLE                                                                                                          \
    .group = 1, .place = LS_CUDA_ALIGNMENT / sizeof(float), .reorders = 1, .shifts = 1, .accumulates = 1,              \
    .launches = 1,                                                                                                     \
    .kernel = {[LS_OP_IMAGES] = images,                                                                                \
               [LS_OP_CONV] = conv,                                                                                    \
               [LS_OP_CONV_DATA] = conv_data,                                                                          \
               [LS_OP_CONV_WEIGHT] = conv_weight,                                                                      \
               [LS_OP_CHANNEL_SUM] = channel_sum,                                                                      \
               [LS_OP_ADD] = each,                                                                                     \
               [LS_OP_ADD_BIAS] = add_bias,                                                                            \
               [LS_OP_ADD_SCALED] = add_scaled,                                                                        \
               [LS_OP_RELU] = each,                                                                                    \
               [LS_OP_RELU_BACKWARD] = each,                                                                           \
               [LS_OP_AVG_POOL] = pool,                                                                                \
               [LS_OP_AVG_POOL_BACKWARD] = pool_backward,                                                              \
               [LS_OP_MAX_POOL] = pool,                                                                                \
               [LS_OP_MAX_POOL_BACKWARD] = pool_backward,                                                              \
               [LS_OP_GLOBAL_AVG_POOL] = global_pool,                                                                  \
               [LS_OP_GLOBAL_AVG_POOL_BACKWARD] = global_pool_backward,                                                \
               [LS_OP_BATCH_NORM] = batch_norm,                                                                        \
               [LS_OP_BATCH_NORM_INFER] = batch_norm_infer,                                                            \
               [LS_OP_BATCH_NORM_BACKWARD] = batch_norm_backward,                                                      \
               [LS_OP_DROPOUT] = dropout,                                                                              \
               [LS_OP_CROSS_ENTROPY] = cross_entropy,                                                                  \
               [LS_OP_CROSS_ENTROPY_BACKWARD] = cross_entropy_backward,                                                \
               [LS_OP_ONES] = ones,                                                                                    \
               [LS_OP_SUM_IMAGES] = sum_images,                                                                        \
               [LS_OP_COUNT_CORRECT] = count_correct,                                                                  \
               [LS_OP_ROWS] = rows,                                                                                    \
               [LS_OP_INPUT] = input,                                                                                  \
               [LS_OP_MULTIPLY] = each,                                                                                \
               [LS_OP_SUBTRACT] = each,                                                                                \
               [LS_OP_DIVIDE] = each,                                                                                  \
               [LS_OP_SCALE] = each,                                                                                   \
               [LS_OP_TANH] = each,                                                                                    \
               [LS_OP_TANH_BACKWARD] = each,                                                                           \
               [LS_OP_SIGMOID] = each,                                                                                 \
               [LS_OP_SIGMOID_BACKWARD] = each,                                                                        \
               [LS_OP_EXP] = function,                                                                                 \
               [LS_OP_LOG] = function,                                                                                 \
               [LS_OP_LOG_SIGMOID] = function,                                                                         \
               [LS_OP_SQRT] = function,                                                                                \
               [LS_OP_ABS] = function,                                                                                 \
               [LS_OP_POWER] = function,                                                                               \
               [LS_OP_CLAMP] = function,                                                                               \
               [LS_OP_LEAKY_RELU] = function,                                                                          \
               [LS_OP_SILU] = function,                                                                                \
               [LS_OP_GELU] = function,                                                                                \
               [LS_OP_GELU_TANH] = function,                                                                           \
               [LS_OP_SQRT_BACKWARD] = function_backward,                                                              \
               [LS_OP_ABS_BACKWARD] = function_backward,                                                               \
               [LS_OP_POWER_BACKWARD] = function_backward,                                                             \
               [LS_OP_CLAMP_BACKWARD] = function_backward,                                                             \
               [LS_OP_LEAKY_RELU_BACKWARD] = function_backward,                                                        \
               [LS_OP_LOG_SIGMOID_BACKWARD] = function_backward,                                                       \
               [LS_OP_SILU_BACKWARD] = function_backward,                                                              \
               [LS_OP_GELU_BACKWARD] = function_backward,                                                              \
               [LS_OP_GELU_TANH_BACKWARD] = function_backward,                                                         \
               [LS_OP_EXPAND] = expand,                                                                                \
               [LS_OP_EXPAND_BACKWARD] = expand_backward,                                                              \
               [LS_OP_EXPAND_WEIGHT] = expand,                                                                         \
               [LS_OP_EXPAND_WEIGHT_BACKWARD] = expand_backward,                                                       \
               [LS_OP_SOFTMAX] = softmax,                                                                              \
               [LS_OP_SOFTMAX_BACKWARD] = softmax_backward,                                                            \
               [LS_OP_CONCAT] = concat,                                                                                \
               [LS_OP_VIEW] = view,                                                                                    \
               [LS_OP_SUM] = sum_each,                                                                                 \
               [LS_OP_SUM_BACKWARD] = sum_each_backward,                                                               \
               [LS_OP_SQUARED_ERROR] = sum_each,                                                                       \
               [LS_OP_SQUARED_ERROR_BACKWARD] = sum_each_backward,                                                     \
               [LS_OP_CUSTOM] = own,                                                                                   \
               [LS_OP_CUSTOM_BACKWARD] = own,                                                                          \
               [LS_OP_RESHAPE] = reshape}

const char *ls_card_overriding(ls_dtype dtype)
{
    const char *tf32 = getenv("NVIDIA_TF32_OVERRIDE"), *emulated = getenv("CUBLAS_EMULATE_SINGLE_PRECISION");
    if (dtype == LS_TF32 && tf32 && *tf32 && !atoi(tf32))
        return "NVIDIA_TF32_OVERRIDE is set, and turns TF32 off against --dtype; unset it";
    if (dtype != LS_F32 && emulated && *emulated && atoi(emulated))
        return "CUBLAS_EMULATE_SINGLE_PRECISION is set, and changes how float32 is computed; unset it";
    return NULL;
}

const ls_backend *ls_card_backend(ls_dtype dtype)
{
    static const ls_backend tf32 = {.name = "cuda tf32", .scratch = scratch, TABLE};
    static const ls_backend bf16 = {
        .name = "cuda bf16", .made = made_as, .read = read_as, .scratch = half_scratch, TABLE};
    return dtype == LS_BF16 ? &bf16 : dtype == LS_TF32 ? &tf32 : ls_card_exact_backend();
}
