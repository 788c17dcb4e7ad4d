#!/usr/bin/env python3
"""Random networks of fuzz_networks, rebuilt in PyTorch's float64: the loss and all gradients of their first step, and their outputs.

    PYTHON tests/fuzz_networks.py PROGRAM [--seed N] [--count N] [--only K] [--worst]

PROGRAM writes each network as a list of operations, with its weights, a first batch and the gradients that it computed. Here every
operation is written once more with PyTorch. A gradient may be off by 1e-5 of the largest number of it. Some gradients are zero but for
rounding, as that of a bias in front of a BatchNorm: these are judged by a tenth of the network's largest, and no other by less than 1e-3
of it. Where float32
itself cannot do better (PyTorch's own float32 is off by more than a third of that), the network counts as ill-conditioned; these are
told, and more than one in twenty of them is a failure too. --worst tells the ten networks that are off most.
"""
import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "networks"))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from written import networks  # noqa: E402

MOST_OFF, SMALLEST, ZERO, MOST_ILL = 1e-5, 1e-3, 1e-10, 0.05


def tensors(arrays):
    return {name: torch.frombuffer(bytearray(numbers), dtype=torch.float32).reshape(shape) for name, (shape, numbers) in arrays.items()}


# ---- A step ----


class Step:
    def __init__(self, network, about, values):
        self.network, self.about, self.details = network, about, about["details"]
        self.values = values
        self.x = values[about["values"][0]]
        self.lengths = values[about["lengths"]].flatten() if "lengths" in about else None

    def value(self, k):
        return self.values[self.about["values"][k]]

    def get(self, name, usual=0):
        return self.details.get(name, usual)

    def number(self, name, usual=0):
        return int(self.get(name) or usual)

    def weight(self, k, name=None):
        """The k-th parameter of an operation, or a layer's by its name; None where there is none."""
        if "layer" in self.about and name:
            return self.network.weights.get(f"{self.about['layer']}.{name}")
        names = self.about["parameters"]
        return self.network.weights[names[k]] if k < len(names) else None


def windows(s, transposed):
    """PyTorch's stride, padding and dilation."""
    stride, dilation, padding = s.number("stride", 1), s.number("dilation", 1), s.number("padding")
    wide = int(s.get("padding_w"))
    return {"stride": (stride, s.number("stride_w", stride)), "dilation": (dilation, s.number("dilation_w", dilation)),
            "padding": (padding, padding if wide == 0 else max(wide, 0)), "groups": s.number("groups", 1),
            **({"output_padding": s.number("output_padding")} if transposed else {})}


def conv2d(s):
    return F.conv2d(s.x, s.weight(0, "weight"), s.weight(1, "bias"), **windows(s, False))


def conv_transpose2d(s):
    return F.conv_transpose2d(s.x, s.weight(0, "weight"), s.weight(1, "bias"), **windows(s, True))


def patches(s, fill):
    """The windows of a pool: (images, channels, height, width, kernel * kernel)."""
    kernel, padding = s.number("kernel"), s.number("padding")
    stride = s.number("stride", kernel)
    x = F.pad(s.x, [padding] * 4, value=fill)
    return x.unfold(2, kernel, stride).unfold(3, kernel, stride).flatten(4)


def avg_pool2d(s):
    return patches(s, 0).mean(4)


def first_largest(x, dim):
    """The largest along a dimension; its gradient goes to the first of them."""
    largest = (x == x.amax(dim, keepdim=True)).detach()
    first = largest & (largest.cumsum(dim) == 1)
    return torch.where(first, x, torch.zeros_like(x)).sum(dim)


def max_pool2d(s):
    return first_largest(patches(s, -math.inf), 4)


def adaptive_avg_pool2d(s):
    return F.adaptive_avg_pool2d(s.x, (s.number("height"), s.number("width")))


def upsample2d(s):
    if s.get("bilinear"):
        return F.interpolate(s.x, scale_factor=s.number("factor"), mode="bilinear", align_corners=False)
    return s.x.repeat_interleave(s.number("factor"), 2).repeat_interleave(s.number("factor"), 3)


def pad2d(s):
    return F.pad(s.x, [int(s.get(side)) for side in ("left", "right", "top", "bottom")], value=s.get("value"))


# ---- Norms ----


def by_channel(x, dim, w):
    shape = [1] * x.dim()
    shape[dim] = -1
    return w.reshape(shape)


def affine(s, y, dim):
    weight, bias = s.weight(0, "weight"), s.weight(1, "bias")
    y = y if weight is None else y * by_channel(y, dim, weight)
    return y if bias is None else y + by_channel(y, dim, bias)


def batch_norm(s):
    dims = [d for d in range(s.x.dim()) if d != 1]
    mean, var = s.x.mean(dims), s.x.var(dims, unbiased=False)
    if s.get("frozen") or not s.network.trains or s.network.frozen_statistics(s.about["layer"]):
        mean, var = (s.weight(0, name) for name in ("running_mean", "running_var"))
    y = (s.x - by_channel(s.x, 1, mean)) / torch.sqrt(by_channel(s.x, 1, var) + s.get("eps", 1e-5))
    return affine(s, y, 1)


def last_features(x):
    return 2 if x.dim() == 3 else 1


def layer_norm(s):
    dim = last_features(s.x)
    centred = s.x - s.x.mean(dim, keepdim=True)
    return affine(s, centred / torch.sqrt((centred**2).mean(dim, keepdim=True) + s.get("eps", 1e-5)), dim)


def rms_norm(s):
    dim = last_features(s.x)
    return affine(s, s.x / torch.sqrt((s.x**2).mean(dim, keepdim=True) + s.get("eps", 2**-23)), dim)


def group_norm(s):
    x = s.x.reshape(len(s.x), s.number("groups"), -1)
    centred = x - x.mean(2, keepdim=True)
    y = centred / torch.sqrt((centred**2).mean(2, keepdim=True) + s.get("eps", 1e-5))
    return affine(s, y.reshape(s.x.shape), 1)


# ---- Sequences ----


def embedding(s):
    return s.weight(0, "weight")[s.x.long()]


def counted(x, lengths):
    """Of each image and token whether it is in front of the length."""
    tokens = torch.arange(x.shape[1])
    return torch.ones(x.shape[:2], dtype=torch.bool) if lengths is None else tokens < lengths[:, None]


def lstm_cell(x, state, w):
    h, c = state
    i, f, g, o = (F.linear(x, w[0], w[2]) + F.linear(h, w[1], w[3])).chunk(4, 1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def gru_cell(x, state, w):
    (h,) = state
    a, b = F.linear(x, w[0], w[2]).chunk(3, 1), F.linear(h, w[1], w[3]).chunk(3, 1)
    r, z = torch.sigmoid(a[0] + b[0]), torch.sigmoid(a[1] + b[1])
    n = torch.tanh(a[2] + r * b[2])
    return ((1 - z) * n + z * h,)


def one_way(x, w, cell, lengths, reverse):
    """The states behind each token, zeros from the length on, and the one behind the last token that counts."""
    counts, hidden = counted(x, lengths), w[1].shape[1]
    state = tuple(x.new_zeros(len(x), hidden) for _ in range(2 if cell is lstm_cell else 1))
    states = [None] * x.shape[1]
    for t in (reversed(range(x.shape[1])) if reverse else range(x.shape[1])):
        here = counts[:, t, None]
        after = cell(x[:, t], state, w)
        state = tuple(torch.where(here, new, old) for new, old in zip(after, state))
        states[t] = torch.where(here, after[0], torch.zeros_like(after[0]))
    return torch.stack(states, 1), state[0]


def recurrent(cell):
    def operation(s):
        w = [s.weight(k) for k in range(4)]
        states, last = one_way(s.x, w, cell, s.lengths, bool(s.get("reverse")))
        return last if s.get("last") else states
    return operation


def recurrent_layer(cell):
    def layer(s):
        ways = [False, True] if s.get("bidirectional") else [bool(s.get("reverse"))]
        x = s.x
        for k in range(s.number("layers", 1)):
            made = []
            for reverse in ways:
                names = (f"{name}_l{k}{'_reverse' if reverse else ''}" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
                made.append(one_way(x, [s.weight(0, name) for name in names], cell, s.lengths, reverse))
            x = torch.cat([states for states, _ in made], 2)
        return torch.cat([last for _, last in made], 1) if s.get("last") else x
    return layer


def last_token(s):
    if s.lengths is None:
        return s.x[:, -1]
    at = (torch.arange(s.x.shape[1]) == s.lengths[:, None] - 1).to(s.x.dtype)
    return (s.x * at[:, :, None]).sum(1)


def attend(s, q, k, v, lengths):
    """Over (images, heads, tokens, features)."""
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = q @ k.transpose(2, 3) * (s.get("scale") or 1 / math.sqrt(q.shape[3]))
    tokens, keys = scores.shape[2:]
    seen = torch.ones(len(q), 1, tokens, keys, dtype=torch.bool)
    if s.get("causal"):
        seen = seen & (torch.arange(keys) <= torch.arange(tokens)[:, None])
    if lengths is not None:
        seen = seen & (torch.arange(keys) < lengths[:, None, None, None])
        if tokens == keys:
            seen = seen & (torch.arange(tokens)[:, None] < lengths[:, None, None, None])
    weights = torch.where(seen, torch.exp(scores - scores.amax(3, keepdim=True).detach()), torch.zeros_like(scores))
    total = weights.sum(3, keepdim=True)
    return weights / torch.where(total == 0, torch.ones_like(total), total) @ v


def attention(s):
    return attend(s, *(s.value(k)[:, None] for k in range(3)), s.lengths)[:, 0]


def attention_heads(s):
    return attend(s, *(s.value(k) for k in range(3)), s.lengths)


def attention_layer(s):
    images, tokens, features = s.x.shape
    heads = s.number("heads")
    kv_heads, each = s.number("kv_heads", heads), features // heads
    whole = F.linear(s.x, s.weight(0, "in_proj_weight"), s.weight(0, "in_proj_bias"))
    parts = whole.split([features, kv_heads * each, kv_heads * each], 2)
    q, k, v = (part.reshape(images, tokens, -1, each).transpose(1, 2) for part in parts)
    y = attend(s, q, k, v, s.lengths).transpose(1, 2).reshape(images, tokens, features)
    return F.linear(y, s.weight(0, "out_proj.weight"), s.weight(0, "out_proj.bias"))


# ---- Two operands, shapes, modules ----


def second(s):
    """As the header says: a parameter's sizes meet the last ones, one size is the channels'."""
    if "constant" in s.details:
        return s.get("constant")
    w = s.weight(0)
    if w is None:
        return s.value(1)
    return by_channel(s.x, 1, w) if w.dim() == 1 else w


def concat(s, dim):
    return torch.cat([s.value(k) for k in range(len(s.about["values"]))], dim)


def reshape(s):
    return s.x.reshape(len(s.x), *s.about["sizes"])


def slice_of(s):
    return s.x.narrow(s.number("dim"), s.number("from"), s.number("to") - s.number("from"))


def linear(s):
    return F.linear(s.x, s.weight(0, "weight"), s.weight(1, "bias"))


def sequential(s):
    y = torch.tanh(F.linear(s.x, s.weight(0, "0.weight"), s.weight(0, "0.bias")))
    for _ in range(1 + s.number("twice")):
        y = F.leaky_relu(F.linear(y, s.weight(0, "2.weight"), s.weight(0, "2.bias")), 0.1)
    return y


def residual(s):
    return s.x + s.weight(0, "gain") * F.linear(s.x, s.weight(0, "inner.weight"), s.weight(0, "inner.bias"))


def flat(x):
    return x.reshape(len(x), -1)


OPERATIONS = {
    "relu": lambda s: F.relu(s.x), "tanh": lambda s: torch.tanh(s.x), "sigmoid": lambda s: torch.sigmoid(s.x),
    "silu": lambda s: F.silu(s.x), "gelu": lambda s: F.gelu(s.x), "gelu_tanh": lambda s: F.gelu(s.x, approximate="tanh"),
    "log_sigmoid": lambda s: F.logsigmoid(s.x), "abs": lambda s: torch.abs(s.x), "exp": lambda s: torch.exp(s.x),
    "log": lambda s: torch.log(s.x), "sqrt": lambda s: torch.sqrt(s.x),
    "leaky_relu": lambda s: torch.where(s.x > 0, s.x, s.x * s.get("argument")), "scale": lambda s: s.x * s.get("argument"),
    "power": lambda s: s.x**s.get("argument"), "clamp": lambda s: s.x.clamp(s.get("low", -math.inf), s.get("high", math.inf)),
    "add": lambda s: s.x + second(s), "subtract": lambda s: s.x - second(s), "multiply": lambda s: s.x * second(s),
    "divide": lambda s: s.x / second(s), "softmax": lambda s: torch.softmax(s.x, 1), "conv2d": conv2d,
    "conv_transpose2d": conv_transpose2d, "avg_pool2d": avg_pool2d, "max_pool2d": max_pool2d,
    "global_avg_pool2d": lambda s: s.x.mean([2, 3], keepdim=True), "adaptive_avg_pool2d": adaptive_avg_pool2d,
    "upsample2d": upsample2d, "pad2d": pad2d, "nn_batch_norm": batch_norm, "nn_batch_norm_with": batch_norm,
    "layer_norm": layer_norm, "group_norm": group_norm, "rms_norm": rms_norm, "nn_dropout": lambda s: s.x,
    "embedding": embedding, "lstm": recurrent(lstm_cell), "gru": recurrent(gru_cell), "nn_lstm": recurrent_layer(lstm_cell),
    "nn_lstm_with": recurrent_layer(lstm_cell), "nn_gru": recurrent_layer(gru_cell), "nn_gru_with": recurrent_layer(gru_cell),
    "last_token": last_token, "attention": attention, "attention_heads": attention_heads, "nn_attention": attention_layer,
    "batch_matmul": lambda s: s.x @ s.value(1), "flatten": lambda s: flat(s.x), "reshape": reshape,
    "transpose": lambda s: s.x.transpose(s.number("i"), s.number("j")), "slice": slice_of, "concat": lambda s: concat(s, 1),
    "concat_along": lambda s: concat(s, s.number("dim")), "mean_over": lambda s: s.x.mean(s.number("dim")),
    "max_over": lambda s: first_largest(s.x, s.number("dim")), "sum_each": lambda s: flat(s.x).sum(1),
    "mean_each": lambda s: flat(s.x).mean(1), "max_each": lambda s: first_largest(flat(s.x), 1), "linear": linear,
    "nn_linear_with": linear, "matmul": lambda s: s.x @ s.weight(0), "sequential": sequential, "residual": residual,
    "own": lambda s: s.x / (1 + s.x.abs()) * s.weight(0).flatten()}


def operation(name):
    return OPERATIONS[name] if name in OPERATIONS else OPERATIONS[name.removeprefix("nn_")]


# ---- Losses: the sum over the images, and what a step divides it by ----


def weights_of(how, key, x):
    return by_channel(x, 1, torch.tensor(how[key], dtype=x.dtype)) if key in how else None


def cross_entropy(how, x, y):
    labels = y.dim() < x.dim()
    w = torch.tensor(how["class_weights"], dtype=x.dtype) if "class_weights" in how else None
    ignore, y = how.get("ignore", -100), y.long() if labels else y
    loss = F.cross_entropy(x, y, w, reduction="sum", ignore_index=ignore, label_smoothing=how.get("smoothing", 0))
    if not labels:
        return loss, x.numel() / x.shape[1]
    counts = y != ignore
    return loss, (counts.sum() if w is None else w[y.clamp(0)][counts].sum()).item()


def by_image(each):
    return flat(each).mean(1).sum(), len(each)


def huber(how, x, y):
    return by_image(F.huber_loss(x, y, reduction="none", delta=how.get("delta", 1)))


def loss_of(how, x, y):
    name = how["name"]
    if name.startswith("cross_entropy"):
        return cross_entropy(how, x, y)
    if name.startswith("bce"):
        return by_image(F.binary_cross_entropy_with_logits(x, y, weights_of(how, "class_weights", x), reduction="none",
                                                           pos_weight=weights_of(how, "positive_weights", x)))
    if name == "huber":
        return huber(how, x, y)
    if name == "two":
        return 0.5 * by_image((x - y)**2)[0] + huber(how, x, y)[0], len(x)
    return by_image((x - y)**2 if name == "mse" else (x - y).abs())


# ---- A network ----


class Network:
    def __init__(self, written):
        self.about, self.name = written.about, str(written)
        self.arrays = {kind: tensors(arrays) for kind, arrays in written.arrays.items()}
        self.weights, self.trains = {}, True

    def frozen_statistics(self, layer):
        return f"{layer}.weight" not in self.arrays["gradient"]

    def forward(self, inputs):
        values = list(inputs)
        for about in self.about["steps"]:
            made = operation(about["op"])(Step(self, about, values))
            assert list(made.shape[1:]) == about["sizes"], f"{about}: {tuple(made.shape)}"
            values.append(made)
        return values[-1]

    def inputs(self, dtype):
        return [self.arrays["input"][str(k)].to(dtype) for k in range(self.about["inputs"])]

    def first_step(self, dtype):
        """The loss as ls_report has it, and the gradients of the sum over the images, shard by shard."""
        trained = self.arrays["gradient"]
        self.weights = {name: w.to(dtype).requires_grad_(name in trained) for name, w in self.arrays["value"].items()}
        inputs, y, total, count = self.inputs(dtype), self.arrays["y"]["0"].to(dtype), 0, 0
        for first in range(0, len(y), self.about["shard"]):
            shard = slice(first, first + self.about["shard"])
            loss, counts = loss_of(self.about["loss"], self.forward([x[shard] for x in inputs]), y[shard])
            loss.backward()
            total, count = total + loss.item(), count + counts
        full = self.about["full_batch"] or count
        return total / min(full, count), {name: torch.zeros_like(w) if w.grad is None else w.grad
                               for name, w in self.weights.items() if name in trained}

    def inferred(self, dtype):
        """The outputs in inference, of the values in front of the step."""
        self.trains = False
        with torch.no_grad():
            self.weights = {name: w.to(dtype) for name, w in self.arrays["value"].items()}
            outputs = self.forward(self.inputs(dtype))
        self.trains = True
        return outputs


def off(gradients, wanted, largest):
    """How far each is off, relative to its largest number, and the name of the worst."""
    worst = (0, "nothing")
    for name, gradient in wanted.items():
        scale = gradient.abs().max().item()
        scale = max(scale, (SMALLEST if scale > ZERO * largest else 0.1) * largest, 1e-12)
        worst = max(worst, ((gradients[name].to(torch.float64) - gradient).abs().max().item() / scale, name))
    return worst


def relative(made, wanted):
    return (made - wanted).abs().max().item() / max(wanted.abs().max().item(), 1e-3)


class Judged:
    """One network: how far gradients, loss and outputs are off, and those of PyTorch's float32."""

    def __init__(self, written):
        network = Network(written)
        loss, wanted = network.first_step(torch.float64)
        outputs = network.inferred(torch.float64)
        largest = max((g.abs().max().item() for g in wanted.values()), default=0)

        def far(first, gradients, inferred):
            of_gradients, name = off(gradients, wanted, largest)
            return max((of_gradients, name), (abs(first - loss) / max(abs(loss), 1e-3), "the loss"),
                       (relative(inferred.to(torch.float64), outputs), "what it infers"))

        self.network = str(written)
        self.off, self.name = far(written.about["loss"]["first"], network.arrays["gradient"], network.arrays["output"]["0"])
        bad = not self.off <= MOST_OFF
        self.float32 = far(*network.first_step(torch.float32), network.inferred(torch.float32))[0] if bad else 0
        self.ill = bad and self.float32 > MOST_OFF / 3
        self.wrong = bad and not self.ill

    def __str__(self):
        return (f"{self.network}: {self.name} is off by {self.off:.1e}"
                + (f"; PyTorch's float32 by {self.float32:.1e}" if self.ill or self.wrong else ""))


def main(program, settings, tell_worst):
    all_of = [Judged(written) for written in networks(program, settings)]
    wrong, ill = [j for j in all_of if j.wrong], [j for j in all_of if j.ill]
    for j in wrong:
        print(f"wrong: {j}")
    for j in ill:
        print(f"ill-conditioned: {j}")
    if tell_worst:
        print(*sorted(all_of, key=lambda j: -j.off)[:10], sep="\n")
    print(f"{len(all_of)} networks in PyTorch: {len(wrong)} wrong, {len(ill)} ill-conditioned, the others off by at most "
          f"{max((j.off for j in all_of if not j.wrong and not j.ill), default=0):.1e}")
    return 1 if wrong or not all_of or len(ill) > MOST_ILL * len(all_of) else 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    given = sys.argv[2:]
    sys.exit(main(sys.argv[1], [a for a in given if a != "--worst"], "--worst" in given))
