/* The operations every device computes, and what exactly each computes: the order of additions is part of the
 * definition, so that every backend on every machine gives the same bits. `device/ref` is this page as plain C.
 *
 * Layout. A shard of n images is cut into groups of 16, the last one padded with lanes that hold no image. An
 * activation of c channels, h rows and w columns is [group][channel][row][column][16 lanes]; features (after flatten)
 * have h = w = 1, so flattening moves nothing. Weights are in C order as PyTorch has them: OIHW, (out, in), or (in,
 * out) where `weight_in_out` is set. Lanes without an image hold finite numbers that nothing may depend on; sums over
 * images leave them out, and every gradient that flows backward is zero in them.
 *
 * Arithmetic. IEEE single precision, round to nearest, denormals kept, no contraction. fma(a,b,c) is a*b+c rounded
 * once. A NaN's sign and payload are not part of a result: machines differ there. Parameters are finite, as an update
 * that makes others ends its run.
 *   relu(x)       x < 0 ? 0 : x          (NaN and -0 pass through)
 *   lanes(a)      the sum of 16 lanes: a[i] += a[i+8] for i<8, then a[i+4], a[i+2], a[i+1]; a[0] is the sum
 *   plane sum     over one channel's images: total = 0; for each group: for each row: r = 0; for each column: r = r + x
 *                 (or r = fma(a, b, r) for a sum of products); total = total + r. All per lane, lanes without an image
 *                 skipped
 *                 (adding nothing). At the end lanes(total).
 *   taps          a window position outside the map counts as a product with zero: fma(w, 0, acc), never skipped.
 *                 Window (i, j) of a convolution or a pool begins at row i*stride - padding and column j*stride -
 *                 padding, and its tap (ky, kx) is dilation*ky rows and dilation*kx columns further; columns have a
 *                 kernel, stride, padding and dilation of their own (`ls_windows`). A map of h rows has (h + 2*padding
 *                 - (dilation*(kernel - 1) + 1)) / stride + 1 of them, rounded down. A convolution's y and dy may have
 *                 fewer rows and columns: the last windows, which nobody reads, are then left out.
 *   tokens        a call over the features of sequences is told that each token is an image: with T of them its groups
 *                 are those of the images times T, one token of 16 images after another, as they lie, and its count
 *                 takes in the lanes without an image. So only operations have tokens that need not know those lanes:
 *                 CONV, its gradients, and CHANNEL_SUM of them.
 *   groups        a convolution's C channels of x and O of y lie in so many groups, C/groups and O/groups one after
 *                 another in each: group i of y is the convolution of group i of x. "Over channels" and "over output
 *                 channels" mean those of the group.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <lockstep_nn.h>

#include "base/everywhere.h"
#include "device/change.h"

/* Which bits the library computes: raised by whatever changes one of them, here or in the order of a sum. Releases of
 * equal numerics go on with each other's checkpoints. */
enum { LS_NUMERICS = 2 };

enum { LS_LANES = 16, LS_MAX_IN = 6, LS_MAX_OUT = 3 };
enum { LS_SET_RUN = 32 };             /* numbers that SET_NORM adds one after another */
enum { LS_KEY_BLOCK = 32 };           /* keys whose exponentials ATTENTION takes from one largest number */
enum { LS_OWN_SUM_PLACES = 64 };      /* of a map on which CONV_WEIGHT sums each group by itself */
enum { LS_MOST_NUMBERS = INT32_MAX }; /* of a parameter, and of 16 images in one operand: kernels count them in ints */

typedef enum ls_op {
    /* out0 = the numbers of the shard's samples, bytes as (float)byte / 255.0f and floats as they are, each channel
     * changed as the image's `changes` say where there are any; lanes without an image 0. */
    LS_OP_IMAGES,

    /* y = conv(x, w) + b. in: x, w[O][C/groups][kh][kw] (or [C][O] with weight_in_out, one group, a kernel of 1, maps
     * of one place), b[O] or NULL; out: y. acc = b (or 0); over channels, then kernel rows, then kernel columns: acc =
     * fma(w, x, acc). relu last where fused_relu. A linear layer is this with a kernel of 1 on maps of 1 x 1. It is the
     * gradient of a transposed convolution too, x being the gradient of that one's result. */
    LS_OP_CONV,
    /* in: dy, w; out: dx. acc = 0; over output channels, then kernel rows ky, then kernel columns kx, ascending, of
     * those with (row + padding - dilation*ky) and (column + padding - dilation*kx) divisible by the stride and both
     * quotients inside the map of dy: acc = fma(w, dy at the quotients, acc); then acc + 0. Those outside are left out
     * here: at the edge they are most of the window. A transposed convolution is this, dy being its input. A backend
     * that lays out a product of matrices may take them in as zeros: as w is finite, they can change no more than a
     * zero's sign, and adding 0 leaves no -0. in[2], where there, of backends that `accumulate`: what dx is added to;
     * dx may lie in its place. */
    LS_OP_CONV_DATA,
    /* in: x, dy; out: dw (laid out like w). Per lane: acc = 0; for each group: r = 0; over rows and columns of dy: r =
     * fma(dy, x at the tap, r); acc = acc + r. Where dy has fewer than LS_OWN_SUM_PLACES places r begins at acc, and
     * acc = r: a long sum is worth cutting, so that groups may be summed side by side. Then lanes(acc) + 0. Lanes
     * without an image need no mask: their dy is 0 and their x finite, so that they can change no more than a zero's
     * sign, and adding 0 leaves no -0. */
    LS_OP_CONV_WEIGHT,
    /* The same products as CONV and CONV_DATA by Winograd F(m x m, k x k), for k = 3 with padding 1 and a stride of 1
     * or 2, or k = 5 with padding 0 to 4; see `winograd.h`. */
    LS_OP_WINOGRAD,
    LS_OP_WINOGRAD_DATA,
    /* CONV_WEIGHT's sums for the same convolutions. in: x, dy; out: dw. Its order is another: see `winograd.h`. */
    LS_OP_WINOGRAD_WEIGHT,
    /* in: dy; out: db[C], the plane sum of dy. */
    LS_OP_CHANNEL_SUM,
    /* AVG_POOL of windows of 2 x 2 side by side, of relu(conv(x, w) + b) with a kernel of 3, a stride of 1 and no
     * padding, number by number what CONV with fused_relu and AVG_POOL give; the map between is never stored. in: x, w,
     * b or NULL; out: y, and where a gradient is wanted signs: for each channel 16 bits a place of that map (2h rows of
     * 2w, of y's h and w), of which bit i is lane i's number > 0, and 0 in lanes without an image. A channel's take
     * ls_op_sign_places of 16 floats, with 0 in what is left of the last. */
    LS_OP_CONV_POOL,
    /* in: x, dy, signs; out: dw, db[C], either of which may be NULL. CONV_WEIGHT and CHANNEL_SUM of d, what
     * AVG_POOL_BACKWARD with fused_relu makes of dy: d = sign ? (0 + dy) * 0.25 : 0. */
    LS_OP_CONV_POOL_WEIGHT,

    LS_OP_ADD,           /* in: a, b; out: a + b */
    LS_OP_ADD_BIAS,      /* in: x, b[C]; out: x + b of its channel */
    LS_OP_ADD_SCALED,    /* in: a[C], b[C], vectors for the whole shard; out: fma(factor, a, b), in a's place */
    LS_OP_RELU,          /* in: x; out: relu(x) */
    LS_OP_RELU_BACKWARD, /* in: dy, y; out: y > 0 ? dy : 0 */

    /* Windows of k x k every `stride`, `padding` around. in: x; out: y. acc = first tap, then acc + tap over the
     * window's rows and columns (outside taps count as 0); y = acc * (1.0f / (k*k)). */
    LS_OP_AVG_POOL,
    /* in: dy, and y's input x where fused_relu (x is a relu's output); out: dx. acc = 0; over the windows that hold the
     * place, rows then columns ascending: acc = acc + dy; dx = acc * (1.0f / (k*k)); with fused_relu: x > 0 ? dx :
     * 0. */
    LS_OP_AVG_POOL_BACKWARD,
    /* The largest of the window's inside taps; the first in row-major order among equals (and a NaN where there is one:
     * the candidate is replaced where !(tap <= candidate), unless the candidate is NaN). padding < kernel, so that
     * every window has a tap inside. */
    LS_OP_MAX_POOL,
    /* in: dy, x; out: dx. acc = 0; over the windows that hold the place, rows then columns ascending: acc = acc + dy
     * where this place is the one that MAX_POOL chose (nothing is added elsewhere). With fused_relu: x > 0 ? acc :
     * 0. */
    LS_OP_MAX_POOL_BACKWARD,
    /* in: x; out: y[C]. Per lane: total = 0; for each row: r = 0, r = r + x over columns; total = total + r;
     * y = total / (float)(h*w). */
    LS_OP_GLOBAL_AVG_POOL,
    LS_OP_GLOBAL_AVG_POOL_BACKWARD, /* in: dy; out: dx = dy / (float)(h*w) */

    /* in: x, gamma[C], beta[C], residual where fused_add; out: y, saved[2C] (mean, then 1/sqrt(var + eps)),
     * statistics[2C] (mean, then unbiased variance). With N = n*h*w as float: mean = plane sum of x / N;
     * sq = plane sum of d*d with d = x - mean; var = sq / N; inv = 1 / sqrtf(var + eps); unbiased = sq / (N - 1).
     * y = fma(x - mean, gamma * inv, beta); then y + residual; then relu(y), where fused; or without an addition
     * clamp(y), where fused_clamp.
     * in[5], where there: shift[C], a constant that x lacks: the mean in `statistics` is then mean + shift, and nothing
     * else changes. It is how a backend that `shifts` leaves out the bias of a convolution in front. */
    LS_OP_BATCH_NORM,
    /* With running statistics. in: x, gamma, beta, residual where fused_add (else NULL), running[2C] (mean, variance);
     * out: y. inv = 1 / sqrtf(variance + eps), then as above; with a shift, in[5], the mean is mean - shift. */
    LS_OP_BATCH_NORM_INFER,
    /* in: dy, x, gamma, saved, y where fused_relu, and with it or fused_clamp, where not fused_add, beta; out: dx,
     * dgb[2C] (dgamma, then dbeta), and where fused_add dresidual. With beta y > 0 may be found from x instead, by the
     * forward pass's arithmetic, as it is where fused_clamp. d = fused_relu ? (y > 0 ? dy : 0) : dy; dresidual = d;
     * where fused_clamp, d = low <= z <= high ? dy : 0 with z = fma(x - mean, gamma * inv, beta); dbeta = plane sum of
     * d; s = plane sum of products d * (x - mean); dgamma = s * inv; k1 = dbeta / N; k2 = inv * (dgamma / N); scale =
     * gamma * inv; dx = scale * fma(mean - x, k2, d - k1), and 0 in lanes without an image. */
    LS_OP_BATCH_NORM_BACKWARD,

    /* BATCH_NORM and its backward pass in pieces, for statistics over several shards: each leaves its sums, which
     * device/norm_sums.h adds up, and goes on with the totals. Sums and totals are [2 + 2C]: the images, the places of
     * a channel's map, and two numbers for each channel. A shard whose sums are the totals has BATCH_NORM's bits. With
     * N = images*places as float:
     * SUMS. in: x; out: sums: S = plane sum of x, then Q = plane sum of d*d with d = x - S / N.
     * APPLY. in: x, gamma, beta, residual where fused_add, totals of S and Q, and shift, which may be absent; out: y,
     * saved, statistics. As BATCH_NORM, with mean = S / N and sq = Q.
     * SLOPES. in: dy, x, saved, y where fused_relu; out: sums: the shard's dgamma, then its dbeta; dgb[2C], the same.
     * DATA. in: dy, x, gamma, saved, y where fused_relu, totals of dgamma and dbeta; out: dx, and where fused_add
     * dresidual. As BATCH_NORM_BACKWARD, which sees the totals in k1 and k2. */
    LS_OP_NORM_SUMS,
    LS_OP_NORM_APPLY,
    LS_OP_NORM_SLOPES,
    LS_OP_NORM_DATA,

    /* BATCH_NORM_INFER's, where the statistics are constants. in: dy, x, gamma, running[2C]; out: dx, dgb[2C]. inv and
     * the sums as there: dbeta = plane sum of dy; dgamma = plane sum of products dy * (x - mean), times inv; dx = gamma
     * * inv * dy, and 0 in lanes without an image. */
    LS_OP_BATCH_NORM_FROZEN_BACKWARD,

    /* in: x; out: x kept or dropped, as u < rate = factor (u = ls_random_uniform of the stream (seed, LS_FOR_DROPOUT,
     * key ^ sample, step), place c*h*w in the image): dropped is 0, kept x * (1.0f / (1.0f - rate)). 0 in lanes without
     * an image. Its own backward. */
    LS_OP_DROPOUT,

    /* Softmax cross-entropy by place. in: logits[C], NULL (the labels come with the samples), weights[C] or NULL, a
     * parameter, targets[C] in place of the labels or NULL; out: loss[1], probabilities[C], each of the logits' places.
     * m = largest logit (first to last, m = z > m ? z : m); e_c = ls_expf(z_c - m); s = e_0 + e_1 + ... in order; loss
     * = ls_logf(s) - (z_label - m); p_c = e_c / s. Lanes without an image: loss 0, probabilities 0. With smoothing
     * above 0 the targets are share = smoothing / C for each class, and keep = 1 - smoothing besides for the label: u =
     * (z_0 - m) + (z_1 - m) + ... in order; loss = ls_logf(s) - fma(keep, z_label - m, share * u).
     * With weights or targets: t_c = fma(keep, target_c, share), or of a label c == label ? keep + share : share; times
     * weight_c where there are weights. u = 0; u = fma(t_c, ls_logf(s) - (z_c - m), u) in order, of a label that is not
     * smoothed for its class alone; loss = u. A label of -1 is ignored: loss 0. */
    LS_OP_CROSS_ENTROPY,
    /* in: dloss[1], probabilities, weights and targets as above; out: dlogits = (p_c - (c == label ? keep + share :
     * share)) * dloss, which without smoothing are 1 and 0. With weights or targets: T = 0, T = T + t_c in order,
     * dlogits = fma(T, p_c, -t_c) * dloss. 0 where the label is ignored, and in lanes without an image. */
    LS_OP_CROSS_ENTROPY_BACKWARD,
    /* out0[1] = the samples' `one` in lanes with an image, else 0: the gradient of a sum over images, or of their
     * mean. */
    LS_OP_ONES,
    /* in: x[1]; out: a single float, the plane sum. */
    LS_OP_SUM_IMAGES,
    /* in: logits; out: a single float, how many images have their label's logit as the first largest
     * (first to last, replaced where z > candidate). */
    LS_OP_COUNT_CORRECT,
    /* in: x[C]; out: rows[n][C] in C order, without the padded lanes. */
    LS_OP_ROWS,

    /* From here on every output of each image is 0 in lanes without an image, whatever the operands hold there:
     * products of what nobody looks at would else grow until they are not finite. CONCAT and VIEW alone copy what they
     * find. */

    /* out: x = rows number `input` of the samples, the inverse of ROWS: row i is image i of the shard. */
    LS_OP_INPUT,

    LS_OP_MULTIPLY,         /* in: a, b; out: a * b */
    LS_OP_SUBTRACT,         /* in: a, b; out: a - b */
    LS_OP_DIVIDE,           /* in: a, b; out: a / b */
    LS_OP_SCALE,            /* in: x; out: x * factor */
    LS_OP_TANH_BACKWARD,    /* in: dy, y; out: dx = dy * fma(-y, y, 1) */
    LS_OP_SIGMOID_BACKWARD, /* in: dy, y; out: dx = dy * (y * (1 - y)) */

    /* Functions of one number. in: x; out: y. `device/function.h` is their definition: in double, with the elementary
     * functions of `base/math.h`, and rounded once, where a single operation in float is not enough. */
    LS_OP_TANH,        /* ls_tanhf(x) */
    LS_OP_SIGMOID,     /* ls_sigmoidf(x) */
    LS_OP_EXP,         /* ls_expf(x) */
    LS_OP_LOG,         /* ls_logf(x) */
    LS_OP_LOG_SIGMOID, /* log(sigmoid(x)) = min(x, 0) - log(1 + exp(-|x|)) */
    LS_OP_SQRT,        /* sqrtf(x) */
    LS_OP_ABS,         /* |x| */
    LS_OP_POWER,       /* x^factor: exp(factor * log |x|), with its sign */
    LS_OP_CLAMP,       /* x < low ? low : x > high ? high : x */
    LS_OP_LEAKY_RELU,  /* x * (x > 0 ? 1 : factor) */
    LS_OP_SILU,        /* x * sigmoid(x) */
    LS_OP_GELU,        /* x * (1 + erf(x / sqrt(2))) / 2 */
    LS_OP_GELU_TANH,   /* x * sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)) */
    /* in: dy, and x (of SQRT: y); out: dx, dy times the function's derivative at x. Rounded as above. */
    LS_OP_SQRT_BACKWARD,        /* dy / (y + y) */
    LS_OP_ABS_BACKWARD,         /* dy * (x > 0 ? 1 : x < 0 ? -1 : 0) */
    LS_OP_POWER_BACKWARD,       /* dy * (factor * x^(factor - 1)); 0 where factor is 0 */
    LS_OP_CLAMP_BACKWARD,       /* low <= x <= high ? dy : 0 */
    LS_OP_LEAKY_RELU_BACKWARD,  /* dy * (x > 0 ? 1 : factor) */
    LS_OP_LOG_SIGMOID_BACKWARD, /* dy * sigmoid(-x) */
    LS_OP_SILU_BACKWARD,
    LS_OP_GELU_BACKWARD,
    LS_OP_GELU_TANH_BACKWARD,

    /* in: x, which has 1 for some of y's channels, rows and columns; out: y, which repeats it there. */
    LS_OP_EXPAND,
    /* in: dy; out: dx. Per lane and number of dx, over what EXPAND repeated, as a plane sum: total = 0; for each
     * channel: for each row: r = 0, r = r + dy over columns; total = total + r. */
    LS_OP_EXPAND_BACKWARD,
    /* The same where x is a parameter, of the shape of an image with 1 where it is repeated; all images have it. */
    LS_OP_EXPAND_WEIGHT,
    /* The total goes on over the groups, lanes without an image skipped; at the end lanes(total). */
    LS_OP_EXPAND_WEIGHT_BACKWARD,

    /* in: x; out: y, which has 1 for some of x's channels, rows and columns: the largest of those, found as by MAX_POOL
     * in their C order. */
    LS_OP_MAX_OVER,
    /* in: dy, x, y; out: dx = dy at the first of them that is y (or NaN, where y is), 0 elsewhere. */
    LS_OP_MAX_OVER_BACKWARD,

    /* The h numbers of each channel and column of an image are one set. in: x; out: y, saved (2c channels of 1 x w:
     * mean of each set, then inv). sum(t): total = 0; for each LS_SET_RUN numbers, of which the last may be fewer: r =
     * 0, r = r
     * + t (or r = fma(a, b, r) of products); total = total + r. mean = sum(x) / h; d = x - mean; inv = 1 / sqrtf(sum(d
     * * d) / h + eps); y = d * inv. */
    LS_OP_SET_NORM,
    LS_OP_RMS_NORM, /* the same with a mean of 0 */
    /* in: dy, x, saved; out: dx = inv * fma(mean - x, k2, dy - k1), with k1 = sum(dy) / h, of RMS_NORM 0, and k2 = inv
     * * (inv * (sum(dy * d) / h)). */
    LS_OP_SET_NORM_BACKWARD,
    LS_OP_RMS_NORM_BACKWARD,

    /* Maps of another size: of ADAPTIVE_POOL row i of y has the average of x's rows from i*H/h, rounded down, to
     * (i+1)*H/h, rounded up, of BILINEAR that of the two nearest; `device/resize.h` has the rows and their weights, and
     * those of columns likewise. in: x; out: y. acc = 0; over its rows, then columns: acc = fma(row's weight * column's
     * weight, x, acc). */
    LS_OP_ADAPTIVE_POOL,
    LS_OP_BILINEAR,
    /* in: dy; out: dx. acc = 0; over y's rows, then columns that are made of the place: acc = fma(weight * weight, dy,
     * acc). */
    LS_OP_ADAPTIVE_POOL_BACKWARD,
    LS_OP_BILINEAR_BACKWARD,

    /* Over the features of an image. in: x[C]; out: y[C] = the probabilities of CROSS_ENTROPY. */
    LS_OP_SOFTMAX,
    /* in: dy[C], y[C]; out: dx[C]. s = 0; s = fma(dy_c, y_c, s) in order; dx_c = y_c * (dy_c - s). */
    LS_OP_SOFTMAX_BACKWARD,

    /* in: 2 and more activations whose sizes are equal but along `axis`: 0 channels, 1 rows, 2 columns; out: one after
     * another along it. */
    LS_OP_CONCAT,
    /* in: x; out: y, whose number at channel, row and column i[0], i[1], i[2] is x's at j, with j[axes[d]] = i[d] -
     * shift[d]; where x has none, `factor`. A part, a border, a transposition: its gradient is another one. */
    LS_OP_VIEW,

    /* in: a, b; out: y. A product of matrices for each channel: rows of a by columns of b, either of which is read with
     * its rows as columns where `transposed` says so. acc = 0; over a's columns, ascending: acc = fma(a, b, acc). */
    LS_OP_BATCH_MATMUL,

    /* Rows of a table, F numbers each, by their numbers: channels are tokens, y's rows features. in: x[C], table; out:
     * y. NaN where x is no whole number from 0 on and below the table's rows (`ls_table_row`). */
    LS_OP_EMBEDDING,
    /* in: dy, x; out: dtable. 0; for each group, each token, each of the group's images: its row = its row + dy. */
    LS_OP_EMBEDDING_BACKWARD,

    /* Recurrent layers over the tokens of sequences: channels are tokens, rows features. They go from the first token
     * to the last with a stride of 1, and the other way with -1; what stands for the token before the first one they
     * come to is 0. in: p, w[gates * H][H], b[gates * H] or NULL, lengths[1] or NULL; out: y, of H features, and saved.
     * p has H numbers of each gate, gate after gate; its weights' rows likewise. For each: a = b (or 0); over the
     * features of y at the token before, where there is one: a = fma(w, y, a). s is ls_sigmoidf, t ls_tanhf;
     * device/recurrent.h is their definition. LSTM: i = s(p + a), f and o likewise, g = t(p + a); c = fma(f, c before,
     * i * g); y = o * t(c). Gates i, f, g, o; saved: i, f, g, o, c. GRU:  r = s(p + a), z likewise, n = t(fma(r, a,
     * p)); y = fma(z, y before - n, n). Gates r, z, n; saved: r, z, n, and a of n. Where the token's number is not
     * below the image's length y and saved are 0, so that what comes behind begins anew; a length that is no whole
     * number from 0 to the tokens (`ls_table_row`) is 0, but y NaN. */
    LS_OP_LSTM,
    LS_OP_GRU,
    /* in: dy, saved, w, lengths or NULL, y; out: dp, and of GRU da, which of LSTM is dp. The other way: at the token
     * where the forward pass ended d = dy and carry = 0; else over the gates' rows of the token that comes after it in
     * the forward pass: u = fma(w, da, u), with u = 0 at first, of GRU the carry; then d = dy + u.
     *   LSTM: q = t(c); e = fma(d * o, fma(-q, q, 1), carry); di = e * g, df = e * c before, dg = e * i, do = d * q;
     * each times its gate's slope, v * (1 - v) or fma(-v, v, 1); carry = e * f. y is absent. GRU:  dn = (d * (1 - z)) *
     * fma(-n, n, 1), dz = (d * (y before - n)) * (z * (1 - z)), dr = (dn * a) * (r * (1 - r)); dp: dr, dz, dn; da: dr,
     * dz, dn * r; carry = d * z. Where the token's number is not below the length all of them are 0, and the carry. The
     * gradients of w and b are CONV_WEIGHT and CHANNEL_SUM of da, each token being an image, and y before. */
    LS_OP_LSTM_BACKWARD,
    LS_OP_GRU_BACKWARD,
    /* in: x, of tokens as channels, lengths[1]; out: y, x's rows as features: those of the token in front of the
     * length. 0 of a length of 0, NaN of one that is none. */
    LS_OP_LAST_TOKEN,
    LS_OP_LAST_TOKEN_BACKWARD, /* in: dy, lengths; out: dx = dy at that token, 0 elsewhere */
    /* Attention by blocks of keys: no map has all pairs. in: q[H] of T x d (heads, tokens, features), k[K] of S x d,
     * v[K] of S x e, and the image's length, a single number, or NULL; out: y[H] of T x e, saved[3H] of T x 1 (m of
     * each head, then inv, then n). K divides H; head h has k and v number h / (H/K), rounded down. Row t sees the
     * first n keys: S; of those before the length (`ls_attention_keys`) where there is one, and none from the length on
     * where T is S; where `causal` the first t + 1 of them; in lanes without an image none. What a row does not see is
     * left out of every sum. x_j = (over d: acc = fma(q, k_j, acc), from 0) * factor. acc = 0, s = 0, and for each
     * LS_KEY_BLOCK of the keys it sees, in order: b = m, of the first block x_0, and b = x_j > b ? x_j : b; of blocks
     * behind the first r = ls_expf(m - b), s = s * r and acc = acc * r; for each j: e_j = ls_expf(x_j - b); s = s +
     * e_j; acc = fma(w_j, v_j, acc); then m = b. w_j = e_j, and 0 where it is dropped: u < rate, with u =
     * ls_random_uniform of DROPOUT's stream, place (h * T + t) * S + j of the image. inv = 1 / s;
     * y = acc * (inv * rest), rest = 1.0f / (1.0f - rate). Where n is 0: m, inv and y are 0. */
    LS_OP_ATTENTION,
    /* in: dy, q, k, v, y, saved; out: dq, dk, dv. Row t sees as many keys as `saved` says (`ls_attention_keys` of n).
     * x_j as above; p = ls_expf(x_j - m) * inv; D: over e: D = fma(dy, y, D), from 0; g: over e: g = fma(dy, v_j, g),
     * from 0; g = dropped ? 0 : g * rest; w = dropped ? 0 : p * rest; z = p * (g - D). dq: acc = 0; over the keys it
     * sees: acc = fma(z, k_j, acc); dq = acc * factor. dk and dv: acc = 0; over the heads that share them, and then
     * over the rows that see the key: acc = fma(z, q, acc), or fma(w, dy, acc); dk = acc * factor, dv = acc. */
    LS_OP_ATTENTION_BACKWARD,

    /* in: x; out: y[1]. total = 0; for each channel: t = 0; for each row: r = 0, r = r + x over columns; t = t + r;
     * total = total + t. y = total * factor. */
    LS_OP_SUM,
    LS_OP_SUM_BACKWARD, /* in: dy[1]; out: dx = dy * factor */
    /* in: a, b; out: y[1]. As SUM, with d = a - b and r = fma(d, d, r). */
    LS_OP_SQUARED_ERROR,
    /* in: dy[1], a, b; out: da = ((a - b) * (2 * factor)) * dy. With a and b exchanged it gives db. */
    LS_OP_SQUARED_ERROR_BACKWARD,

    /* The user's own: `custom` of lockstep.h, on rows as ROWS lays them out. in: up to 3 operands, of which those whose
     * bit is set in `parameters` are no activations but numbers as they lie; out: y. Whatever a function is to write is
     * zero when it is called. */
    LS_OP_CUSTOM,
    /* in: the operands at 0 to 2, y at 3, dy at 4; out: the gradients of the operands, those of parameters summed over
     * the shard; absent where nobody wants one. */
    LS_OP_CUSTOM_BACKWARD,

    /* in: x; out: the same numbers of each image, in C order, under the output's shape. In the lanes that is a copy,
     * and no plan has it; see `reorders` of backend.h. */
    LS_OP_RESHAPE,
    LS_OP_COUNT
} ls_op;

/* The functions of one number stand together, and so do their gradients that `device/function.h` defines. */
static inline bool ls_op_is_function(ls_op op)
{
    return op >= LS_OP_TANH && op <= LS_OP_GELU_TANH;
}
static inline bool ls_op_is_function_backward(ls_op op)
{
    return op >= LS_OP_SQRT_BACKWARD && op <= LS_OP_GELU_TANH_BACKWARD;
}

const char *ls_op_name(ls_op op);

/* A place's 16 signs, among floats; and in how many places of 16 floats those of one channel of a map lie. */
typedef uint16_t __attribute__((may_alias)) ls_op_signs;
static inline int ls_op_sign_places(int h, int w)
{
    return (h * w + 31) / 32;
}

/* Bit k: out0 may lie where operand k of the same size does, whose numbers are then gone. Every kernel of such an
 * operation is done with each of them when it writes that place of out0. */
unsigned ls_op_overwrites(ls_op op);

/* Compared byte by byte: every byte is a field's, as LS_ATTRIBUTES_BYTES checks. */
typedef struct ls_attributes {
    ls_op op;
    int kernel, stride, padding; /* stride: of LSTM and GRU from a token to the next one, 1 or -1 */
    /* Convolutions, as in ls_conv: 0 is the height's, of dilation and groups 1; of padding_w -1 is none. ls_windows_of
     * says what they mean. */
    int kernel_w, stride_w, padding_w, dilation, dilation_w, groups;
    int fused_relu, weight_in_out; /* 0 or 1 */
    short fused_add, fused_clamp;
    int input;             /* INPUT: below LS_MAX_INPUTS */
    int axis;              /* CONCAT; EXPAND_WEIGHT: which one a vector meets */
    int axes[3], shift[3]; /* VIEW: a permutation of 0, 1, 2 */
    int transposed[2];     /* BATCH_MATMUL: of a and of b, 0 or 1 */
    int causal;            /* ATTENTION: 0 or 1 */
    float eps;             /* BatchNorm, SET_NORM, RMS_NORM */
    float factor;    /* SCALE, SUM, SQUARED_ERROR; POWER's exponent, LEAKY_RELU's slope, DROPOUT's rate, VIEW's border,
                        ATTENTION's scale */
    float rate;      /* ATTENTION: of what is dropped */
    float low, high; /* CLAMP, and BatchNorm where fused_clamp */
    float smoothing; /* CROSS_ENTROPY: from 0 to 1 */
    uint64_t key;    /* DROPOUT, ATTENTION: hash of the layer's name */
    const struct ls_custom *custom; /* CUSTOM: lives as long as the session */
    uintptr_t parameters;           /* CUSTOM: bit k is set where operand k is a parameter */
} ls_attributes;
enum {
    LS_ATTRIBUTES_BYTES =
        sizeof(ls_op) + 22 * sizeof(int) + 2 * sizeof(short) + 6 * sizeof(float) + sizeof(uint64_t) + 2 * sizeof(void *)
};

/* The row of a table that a number stands for; -1: none. Floats are every whole number up to 2^24. */
enum { LS_TABLE_ROWS = 1 << 24 };
LS_EVERYWHERE int ls_table_row(float number, int rows)
{
    const int row = number >= 0 && number < LS_TABLE_ROWS ? (int)number : -1;
    return row < rows && (float)row == number ? row : -1;
}

/* How many of so many keys lie before a length: keys 0, 1, ... that are below it. */
LS_EVERYWHERE int ls_attention_keys(float length, int keys)
{
    if (!(length > 0))
        return 0;
    const int whole = length < (float)keys ? (int)length : keys;
    return whole < keys && (float)whole < length ? whole + 1 : whole;
}
/* How many keys row `token` of ATTENTION sees, where so many lie before the image's length; `own`: the length
 * is the rows' too. */
LS_EVERYWHERE int ls_attention_seen(int causal, int own, int before, int token)
{
    if (own && token >= before)
        return 0;
    return causal && token + 1 < before ? token + 1 : before;
}

/* The windows of a convolution along its rows or its columns, and of both, with nothing left to be understood. */
typedef struct ls_windows_axis {
    int kernel, stride, padding, dilation;
} ls_windows_axis;
typedef struct ls_windows {
    ls_windows_axis rows, columns;
    int groups;
} ls_windows;

LS_EVERYWHERE ls_windows ls_windows_of(const ls_attributes *a)
{
    const ls_windows_axis rows = {a->kernel, a->stride, a->padding, a->dilation ? a->dilation : 1};
    const ls_windows_axis columns = {a->kernel_w ? a->kernel_w : rows.kernel, a->stride_w ? a->stride_w : rows.stride,
                                     a->padding_w ? a->padding_w < 0 ? 0 : a->padding_w : rows.padding,
                                     a->dilation_w ? a->dilation_w : rows.dilation};
    const ls_windows of = {rows, columns, a->groups ? a->groups : 1};
    return of;
}

/* Whether they are squares of neighbouring taps, every so many rows as columns, over all channels. */
LS_EVERYWHERE bool ls_windows_plain(const ls_attributes *a)
{
    const ls_windows w = ls_windows_of(a);
    return w.groups == 1 && w.rows.dilation == 1 && w.columns.dilation == 1 && w.rows.kernel == w.columns.kernel &&
           w.rows.stride == w.columns.stride && w.rows.padding == w.columns.padding;
}

/* From a window's first row to behind its last, and the windows of so many rows: 0 where none fits. */
LS_EVERYWHERE int64_t ls_windows_span(const ls_windows_axis *axis)
{
    return (int64_t)axis->dilation * (axis->kernel - 1) + 1;
}
LS_EVERYWHERE int64_t ls_windows_along(const ls_windows_axis *axis, int64_t rows)
{
    const int64_t room = rows + 2 * (int64_t)axis->padding - ls_windows_span(axis);
    return room < 0 ? 0 : room / axis->stride + 1;
}

/* One operand: an activation has the shape of one image, a vector of n numbers c = n, h = w = 1, weights c = their
 * count. */
typedef struct ls_operand {
    float *data;
    int c, h, w;
} ls_operand;

/* What a shard needs of its batch. */
typedef struct ls_samples {
    const void *images;               /* all of the data set: sample i begins with number i * c*h*w */
    bool floats;                      /* they are float32; else bytes */
    size_t image_bytes;               /* of all of them */
    struct ls_counted *owner;         /* of the images, for a backend that keeps a copy; NULL: there are none */
    const uint32_t *index;            /* [count] sample numbers */
    const ls_change *changes;         /* [count], of this shard's images in order; NULL: they come as they are */
    const int32_t *labels;            /* [count][labels_each], of this shard's images in order; -1: ignored */
    int labels_each;                  /* of an image: 1, or one for each place */
    int count;                        /* images in this shard */
    uint64_t seed, step;              /* dropout's stream */
    const float *rows[LS_MAX_INPUTS]; /* [count][c*h*w] each, of this shard's images in order; NULL: not handed in */
    float one;                        /* the gradient of what is differentiated: 1 for a sum */
} ls_samples;

typedef struct ls_op_call {
    const ls_attributes *attributes;
    const ls_samples *samples; /* never NULL; count is the number of images */
    int groups;                /* (count + 15) / 16 */
    ls_operand in[LS_MAX_IN], out[LS_MAX_OUT];
    struct ls_executor *executor; /* that computes; NULL where the backend asks for none */
    void *scratch;                /* of the size that the backend asked for, aligned to 64, content undefined */
    /* Where parts > 1: only part number `part` is wanted. All parts together, each with scratch of its own and in any
     * order or at once, write what the whole call writes. */
    int part, parts;
} ls_op_call;

typedef void ls_kernel(const ls_op_call *call);

/* The additions and multiplications of one image in a convolution, in any direction, computed directly and with the
 * taps outside the map: Winograd counts as the convolution that it stands for. 0 for other operations. Of the call only
 * attributes and shapes are read. */
double ls_op_flops(const ls_op_call *call);
