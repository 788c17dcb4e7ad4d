#!/usr/bin/env python3
"""Convolutions with groups, dilation, rectangles and strides, plain and transposed, and their gradients, by PyTorch in float64.

    PYTHON tests/reference/make_convolutions.py [FILE]
    PYTHON tests/reference/make_convolutions.py --check [FILE]

`convolutions.json` beside this script is its output; tests/test_convolutions.c reads it. Where the interpreter has no torch, the
figures come from the sums that PyTorch documents, in Python's float64. `--check` computes them anew, by both where torch is there,
and fails where a figure of the file is off by more than 1e-12 of the largest of its list.

A case has the images' shape x, the weight's shape, its options under the names of ls_conv (what is the height's or the usual is not
there), and y, dx, dw and db: the gradients of the sum of y * dy. The numbers are number(i, 37, 11), number(i, 29, 5), number(i, 13, 3)
and number(i, 7, 2) for place i of x, the weight, the bias and dy.
"""
import itertools

import figures

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    torch = None

#        name, transposed, x, weight, options
CASES = [("groups", False, (5, 6, 5, 4), (4, 3, 3, 3), {"groups": 2, "padding": 1}),
         ("depthwise", False, (3, 5, 6, 5), (5, 1, 3, 3), {"groups": 5, "padding": 1}),
         ("depthwise, strided, two outputs", False, (3, 3, 7, 6), (6, 1, 3, 3), {"groups": 3, "padding": 1, "stride": 2}),
         ("dilated", False, (3, 2, 8, 7), (3, 2, 3, 3), {"dilation": 2, "padding": 2}),
         ("dilated and strided", False, (3, 2, 9, 8), (3, 2, 3, 3), {"dilation": 3, "stride": 2, "padding": 2}),
         ("rectangle", False, (3, 2, 5, 8), (3, 2, 2, 5), {"kernel_w": 5, "padding_w": 2}),
         ("rectangle, strided apart", False, (3, 2, 9, 8), (3, 2, 3, 1),
          {"kernel_w": 1, "stride": 2, "stride_w": 3, "padding": 1, "padding_w": -1}),
         ("all of it", False, (3, 4, 9, 10), (6, 2, 3, 2),
          {"groups": 2, "kernel_w": 2, "stride": 2, "stride_w": 1, "padding": 2, "padding_w": 1, "dilation": 2, "dilation_w": 3}),
         ("transposed", True, (3, 2, 4, 3), (2, 3, 3, 3), {"padding": 1}),
         ("transposed, strided", True, (3, 2, 4, 3), (2, 3, 2, 2), {"stride": 2}),
         ("transposed, output padding", True, (5, 2, 4, 3), (2, 3, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
         ("transposed, depthwise", True, (3, 3, 4, 3), (3, 1, 4, 4), {"groups": 3, "stride": 2, "padding": 1}),
         ("transposed, all of it", True, (3, 4, 4, 5), (4, 3, 3, 2),
          {"groups": 2, "kernel_w": 2, "stride": 3, "stride_w": 1, "padding": 1, "padding_w": -1, "dilation": 2, "dilation_w": 3,
           "output_padding": 2})]


def number(i, factor, begin):
    return ((i * factor + begin) % 64 - 31) / 32


def both(options, name, usual):
    """The height's and the width's."""
    high = options.get(name, usual)
    wide = options.get(name + "_w", 0)
    return high, high if wide == 0 else max(wide, 0)


def shape_of_y(case):
    _, transposed, x, w, options = case
    sizes = []
    for axis in range(2):
        stride, padding, dilation = (both(options, *what)[axis] for what in (("stride", 1), ("padding", 0), ("dilation", 1)))
        span = dilation * (w[2 + axis] - 1) + 1
        if transposed:
            sizes.append((x[2 + axis] - 1) * stride - 2 * padding + span + options.get("output_padding", 0))
        else:
            sizes.append((x[2 + axis] + 2 * padding - span) // stride + 1)
    return (x[0], w[1] * options.get("groups", 1) if transposed else w[0], *sizes)


def volume(shape):
    n = 1
    for size in shape:
        n *= size
    return n


def operands(case):
    _, _, x, w, _ = case
    y = shape_of_y(case)
    return ([number(i, 37, 11) for i in range(volume(x))], [number(i, 29, 5) for i in range(volume(w))],
            [number(i, 13, 3) for i in range(y[1])], [number(i, 7, 2) for i in range(volume(y))])


def at(shape, *index):
    place = 0
    for size, i in zip(shape, index):
        place = place * size + i
    return place


def products(case):
    """The places in x, the weight and y of every product: of a transposed convolution x and y change their roles."""
    _, transposed, x, w, options = case
    y = shape_of_y(case)
    (small, large) = (x, y) if transposed else (y, x)
    groups = options.get("groups", 1)
    stride, padding, dilation = (both(options, *what) for what in (("stride", 1), ("padding", 0), ("dilation", 1)))
    for image, o, c, r, q, i, j in itertools.product(range(x[0]), range(small[1]), range(w[1]), range(small[2]), range(small[3]),
                                                     range(w[2]), range(w[3])):
        row = r * stride[0] - padding[0] + i * dilation[0]
        column = q * stride[1] - padding[1] + j * dilation[1]
        if 0 <= row < large[2] and 0 <= column < large[3]:
            of_small = at(small, image, o, r, q)
            of_large = at(large, image, o // (small[1] // groups) * w[1] + c, row, column)
            yield (of_small, at(w, o, c, i, j), of_large) if transposed else (of_large, at(w, o, c, i, j), of_small)


def by_sums(case):
    x, w, b, dy = operands(case)
    shape = shape_of_y(case)
    channels = [i // (shape[2] * shape[3]) % shape[1] for i in range(volume(shape))]
    made = {"y": [b[c] for c in channels], "dx": [0] * len(x), "dw": [0] * len(w), "db": [0] * len(b)}
    for of_x, of_w, of_y in products(case):
        made["y"][of_y] += x[of_x] * w[of_w]
        made["dx"][of_x] += dy[of_y] * w[of_w]
        made["dw"][of_w] += dy[of_y] * x[of_x]
    for i, c in enumerate(channels):
        made["db"][c] += dy[i]
    return made


def by_torch(case):
    _, transposed, x_shape, w_shape, options = case
    x, w, b, dy = (torch.tensor(values, dtype=torch.float64) for values in operands(case))
    x, w, b = x.reshape(x_shape).requires_grad_(), w.reshape(w_shape).requires_grad_(), b.requires_grad_()
    how = {name: both(options, name, usual) for name, usual in (("stride", 1), ("padding", 0), ("dilation", 1))}
    how["groups"] = options.get("groups", 1)
    if transposed:
        y = F.conv_transpose2d(x, w, b, output_padding=options.get("output_padding", 0), **how)
    else:
        y = F.conv2d(x, w, b, **how)
    assert tuple(y.shape) == shape_of_y(case)
    y.backward(dy.reshape(y.shape))
    return {name: t.flatten().tolist() for name, t in (("y", y), ("dx", x.grad), ("dw", w.grad), ("db", b.grad))}


def description(case):
    return {"name": case[0], "transposed": case[1], "x": list(case[2]), "weight": list(case[3]), "options": case[4]}


if __name__ == "__main__":
    figures.main("convolutions", CASES, description, ({"PyTorch": by_torch} if torch else {}) | {"their sums": by_sums})
