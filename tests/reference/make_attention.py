#!/usr/bin/env python3
"""Attention with its gradients, computed by PyTorch in float64.

    PYTHON tests/reference/make_attention.py [FILE]
    PYTHON tests/reference/make_attention.py --check [FILE]

`attention.json` beside this script is its output; tests/test_attention.c reads it. `--check` computes the figures anew and fails where one
of the file is off by more than 1e-12 of the largest of its list.

Each case has its name, the shapes of its operands, what it is told, y, and the gradients of the sum of y * dy: d0 is q's, d1 k's, d2 v's;
of two operands the second is k and v. Number i of operand k is ((37 * i + 11 * k) % 101 - 50) / 32, of dy (7 * i % 11 - 5) / 4. Where there
are lengths, keys from an image's length on are seen by nobody, and where q has as many tokens as k its own from there on give zeros, in a
"layer" before out_proj. The operands of a "layer" are in_proj_weight, in_proj_bias, out_proj.weight, out_proj.bias and x; its gradients are not recorded.
"""
import figures
import torch
import torch.nn.functional as F


def attend(how, q, k, v=None):
    v = k if v is None else v
    if how["lengths"] is None:
        many = (lambda x: x.repeat_interleave(q.shape[1] // x.shape[1], 1)) if q.dim() == 4 else (lambda x: x)
        return F.scaled_dot_product_attention(q, many(k), many(v), is_causal=how["causal"], scale=how["scale"] or None)
    rows, keys = q.shape[-2], k.shape[-2]
    lengths = torch.tensor(how["lengths"]).reshape([-1] + [1] * (q.dim() - 1))
    seen = torch.arange(keys) < lengths
    if how["causal"]:
        seen = seen & torch.ones(rows, keys, dtype=torch.bool).tril()
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen.expand(*q.shape[:-1], keys), scale=how["scale"] or None)
    return torch.where(torch.arange(rows).reshape(-1, 1) < lengths, y, 0) if rows == keys else y


def layer(how, weight, bias, out_weight, out_bias, x):
    module = torch.nn.MultiheadAttention(x.shape[2], how["heads"], batch_first=True, dtype=torch.float64)
    values = {"in_proj_weight": weight, "in_proj_bias": bias, "out_proj.weight": out_weight, "out_proj.bias": out_bias}
    module.load_state_dict({name: value.detach() for name, value in values.items()})
    mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1) if how["causal"] else None
    padding = None
    if how["lengths"] is not None:
        padding = torch.arange(x.shape[1]) >= torch.tensor(how["lengths"]).reshape(-1, 1)
    with torch.no_grad():
        y = module(x, x, x, attn_mask=mask, key_padding_mask=padding, need_weights=False)[0]
    return y if padding is None else torch.where(padding[:, :, None], out_bias.detach(), y)


def told(causal=False, scale=0, lengths=None, heads=0):
    return {"causal": causal, "scale": scale, "lengths": lengths, "heads": heads}


#        name, shapes of the operands, what it is told, the function
CASES = [("attention", [[3, 5, 7], [3, 4, 7], [3, 4, 6]], told(), attend),
         ("attention", [[2, 3, 9, 5], [2, 3, 9, 5], [2, 3, 9, 4]], told(causal=True), attend),
         ("attention", [[2, 4, 5, 3], [2, 2, 40, 3], [2, 2, 40, 3]], told(scale=0.25), attend),
         ("attention", [[2, 6, 35, 4], [2, 1, 70, 4], [2, 1, 70, 3]], told(causal=True), attend),
         ("attention", [[3, 2, 8, 4], [3, 2, 8, 4]], told(lengths=[8, 3, 1]), attend),
         ("attention", [[3, 37, 4], [3, 37, 4]], told(lengths=[37, 33, 5], causal=True), attend),
         ("attention", [[3, 4, 4], [3, 37, 4]], told(lengths=[37, 33, 5]), attend),
         ("layer", [[24, 8], [24], [8, 8], [8], [3, 5, 8]], told(heads=2), layer),
         ("layer", [[36, 12], [36], [12, 12], [12], [2, 34, 12]], told(heads=3, causal=True), layer),
         ("layer", [[24, 8], [24], [8, 8], [8], [3, 5, 8]], told(heads=2, lengths=[5, 2, 1]), layer),
         ("layer", [[36, 12], [36], [12, 12], [12], [2, 34, 12]], told(heads=3, lengths=[33, 34], causal=True), layer)]


def numbers(shape, by, more, of, less, share):
    n = torch.Size(shape).numel()
    return torch.tensor([((by * i + more) % of - less) / share for i in range(n)], dtype=torch.float64).reshape(shape)


def operands(case):
    return [numbers(shape, 37, 11 * k, 101, 50, 32) for k, shape in enumerate(case[1])]


def description(case):
    return {"name": case[0], "shapes": case[1], **case[2], "to": list(case[3](case[2], *operands(case)).shape)}


def by_torch(case):
    tracked = [operand.requires_grad_() for operand in operands(case)]
    y = case[3](case[2], *tracked)
    if not y.requires_grad:
        return {"y": y.flatten().tolist()}
    y.backward(numbers(y.shape, 7, 0, 11, 5, 4))
    return {"y": y.flatten().tolist(), **{f"d{k}": operand.grad.flatten().tolist() for k, operand in enumerate(tracked)}}


if __name__ == "__main__":
    figures.main("attention", CASES, description, {"PyTorch": by_torch})
