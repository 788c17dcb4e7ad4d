#!/usr/bin/env python3
"""LSTM and GRU, with their gradients, computed by PyTorch in float64.

    PYTHON tests/reference/make_recurrent.py [FILE]
    PYTHON tests/reference/make_recurrent.py --check [FILE]

`recurrent.json` beside this script is its output; tests/test_recurrent.c reads it. `--check` computes the figures anew and fails where one
of the file is off by more than 1e-12 of the largest of its list.

Each case has its name, x's shape, the hidden features, lengths where there are any, whether it runs in reverse and whether its result is
the last state; then y, and the gradients of the sum of y * dy: d0 is x's, d1 to d4 those of weight_ih, weight_hh, bias_ih and bias_hh.
Number i of operand k is ((37 * i + 11 * k) % 101 - 50) / 64, of dy (7 * i % 11 - 5) / 4.
"""
import figures
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

#        name, x's shape, hidden features, lengths, reverse, last
CASES = [("lstm", [3, 5, 4], 6, None, False, False),
         ("lstm", [5, 7, 3], 5, [7, 1, 4, 6, 2], False, False),
         ("lstm", [5, 7, 3], 5, [2, 7, 1, 4, 7], True, False),
         ("lstm", [3, 4, 5], 3, None, True, True),
         ("lstm", [4, 6, 5], 9, [3, 6, 1, 5], False, True),
         ("gru", [3, 5, 4], 6, None, False, False),
         ("gru", [5, 7, 3], 5, [7, 1, 4, 6, 2], False, False),
         ("gru", [5, 7, 3], 5, [2, 7, 1, 4, 7], True, False),
         ("gru", [3, 4, 5], 3, None, False, True),
         ("gru", [4, 6, 5], 9, [3, 6, 1, 5], True, True)]


def numbers(shape, by, more, of, less, share):
    n = torch.Size(shape).numel()
    return torch.tensor([((by * i + more) % of - less) / share for i in range(n)], dtype=torch.float64).reshape(shape)


def description(case):
    name, shape, hidden, lengths, reverse, last = case
    more = {} if lengths is None else {"lengths": lengths}
    return {"name": name, "x": shape, "hidden": hidden, "reverse": reverse, "last": last,
            "to": [shape[0], hidden] if last else [shape[0], shape[1], hidden], **more}


def reversed_by(x, lengths):
    """Each image's own tokens from its last to its first, what is behind them left where it is."""
    return torch.stack([torch.cat([x[i, :n].flip(0), x[i, n:]]) for i, n in enumerate(lengths)])


def by_torch(case):
    name, shape, hidden, lengths, reverse, last = case
    layer = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[name](shape[2], hidden, batch_first=True).double()
    weights = [layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0]
    with torch.no_grad():
        for k, weight in enumerate(weights):
            weight.copy_(numbers(weight.shape, 37, 11 * (k + 1), 101, 50, 64))
    x = numbers(shape, 37, 0, 101, 50, 64).requires_grad_()
    counted = lengths or [shape[1]] * shape[0]
    packed = pack_padded_sequence(reversed_by(x, counted) if reverse else x, counted, batch_first=True, enforce_sorted=False)
    y, _ = pad_packed_sequence(layer(packed)[0], batch_first=True, total_length=shape[1])
    if last:
        y = torch.stack([y[i, n - 1] for i, n in enumerate(counted)])
    elif reverse:
        y = reversed_by(y, counted)
    y.backward(numbers(y.shape, 7, 0, 11, 5, 4))
    return {"y": y.flatten().tolist(), **{f"d{k}": t.grad.flatten().tolist() for k, t in enumerate([x, *weights])}}


if __name__ == "__main__":
    figures.main("recurrent", CASES, description, {"PyTorch": by_torch})
