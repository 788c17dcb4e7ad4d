#!/usr/bin/env python3
"""Operations on sequences, with their gradients, computed by PyTorch in float64.

    PYTHON tests/reference/make_sequences.py [FILE]
    PYTHON tests/reference/make_sequences.py --check [FILE]

`sequences.json` beside this script is its output; tests/test_sequences.c reads it. `--check` computes the figures anew and fails where one
of the file is off by more than 1e-12 of the largest of its list.

Each case has its name, the shapes of its operands, y, and the gradients of the sum of y * dy: d0 is the first operand's, and so on. Number
i of operand k is ((37 * i + 11 * k) % 101 - 50) / 32, of dy (7 * i % 11 - 5) / 4. An operand of "ids", with how many there are before its
shape, has whole numbers below that, and no gradient: (37 * i + 11 * k) % 101 % so many.
"""
import figures
import torch
import torch.nn.functional as F

#        name, shapes of the operands, the function
CASES = [("linear", [[3, 5, 8], [6, 8], [6]], F.linear),
         ("linear", [[5, 3, 33], [17, 33]], F.linear),
         ("matmul", [[3, 7, 5], [5, 9]], torch.matmul),
         ("batch_matmul", [[3, 5, 7], [3, 7, 4]], torch.matmul),
         ("batch_matmul", [[3, 2, 5, 9], [3, 2, 9, 6]], torch.matmul),
         ("embedding", [["ids", 7, 5, 6], [7, 9]], F.embedding)]


def numbers(shape, by, more, of, less, share):
    n = torch.Size(shape).numel()
    return torch.tensor([((by * i + more) % of - less) / share for i in range(n)], dtype=torch.float64).reshape(shape)


def operand(k, shape):
    if shape[0] == "ids":
        return numbers(shape[2:], 37, 11 * k, 101, 0, 1).long() % shape[1]
    return numbers(shape, 37, 11 * k, 101, 50, 32)


def operands(case):
    return [operand(k, shape) for k, shape in enumerate(case[1])]


def description(case):
    return {"name": case[0], "shapes": case[1], "to": list(case[-1](*operands(case)).shape)}


def by_torch(case):
    tracked = [operand.requires_grad_() if operand.is_floating_point() else operand for operand in operands(case)]
    y = case[-1](*tracked)
    y.backward(numbers(y.shape, 7, 0, 11, 5, 4))
    gradients = {f"d{k}": operand.grad.flatten().tolist() for k, operand in enumerate(tracked) if operand.requires_grad}
    return {"y": y.flatten().tolist(), **gradients}


if __name__ == "__main__":
    figures.main("sequences", CASES, description, {"PyTorch": by_torch})
