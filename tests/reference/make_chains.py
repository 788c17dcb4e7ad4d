#!/usr/bin/env python3
"""Steps of networks that are called on each other's results, and gradients of inputs, computed by PyTorch in float64.

    PYTHON tests/reference/make_chains.py [FILE]
    PYTHON tests/reference/make_chains.py --check [FILE]

`chains.json` beside this script is its output; tests/test_chain.c reads it. `--check` computes the figures anew and fails where one of the
file is off by more than 1e-12 of the largest of its list.

The images are 12 of 8 x 8, in order, in batches of 6. Byte i of them is x >> 24 of the i-th number of x = x*1664525 + 1013904223 (modulo
2**32), from x = 1, used as byte/255. Number i of the noise z (6, 4) of step k is ((17*k + 29*i) % 65 - 32)/32. Names of parameters begin
with the network: "G.", "D.". Recorded are the losses of each step and all tensors after the last one.

"mlp" and "dcgan": G makes images, D judges them, and fake = G(z) is computed once a step. D's step takes the sum of two losses, of images
with 1 and of fake, detached, with 0; G's step that of fake with 1, by the new D. "autoencoder": G makes a code of 6 numbers, D images of
it; the loss is the mean squared error of the images and a quarter of the mean square of the code, which is of G alone; one backward pass,
then both take a step. "heads": G makes a code of 6 numbers, of which D tells the label, 7*i % 3, and H the label less 1 as a number; in turn G and D
take a step by the cross-entropy, G and H by the mean squared error, and all three by the sum of both, each with a new code. "input" is no training: dx is the gradient of the sum of the cross-entropies, with labels 7*i % 3, of a convolution, a BatchNorm, ReLU and
a linear layer, in training and in inference.
"""
import figures
import torch
import torch.nn.functional as F

ROWS, SIZE, BATCH, STEPS, CODE, CLASSES = 12, 8, 6, 5, 4, 3
PIXELS = SIZE * SIZE
MLP = {"G.0.weight": [8, CODE], "G.0.bias": [8], "G.2.weight": [PIXELS, 8], "G.2.bias": [PIXELS],
       "D.0.weight": [8, PIXELS], "D.0.bias": [8], "D.2.weight": [1, 8], "D.2.bias": [1]}
DCGAN = {"G.in.weight": [12, CODE], "G.in.bias": [12], "G.norm.weight": [3], "G.norm.bias": [3], "G.norm.running_mean": [3],
         "G.norm.running_var": [3], "G.up.weight": [3, 2, 4, 4], "G.up.bias": [2], "G.out.weight": [2, 1, 4, 4], "G.out.bias": [1],
         "D.0.weight": [3, 1, 4, 4], "D.0.bias": [3], "D.2.weight": [4, 3, 4, 4], "D.2.bias": [4], "D.5.weight": [1, 16], "D.5.bias": [1]}
AUTO = {"G.0.weight": [6, PIXELS], "G.0.bias": [6], "D.0.weight": [PIXELS, 6], "D.0.bias": [PIXELS]}
HEADS = {"G.0.weight": [6, PIXELS], "G.0.bias": [6], "D.0.weight": [CLASSES, 6], "D.0.bias": [CLASSES], "H.0.weight": [1, 6], "H.0.bias": [1]}
INPUT = {"G.0.weight": [2, 1, 3, 3], "G.0.bias": [2], "G.1.weight": [2], "G.1.bias": [2], "G.1.running_mean": [2],
         "G.1.running_var": [2], "G.4.weight": [CLASSES, 72], "G.4.bias": [CLASSES]}
CASES = [{"name": "mlp", "optimizer": "Adam", "lr": 0.05, "eps": 0.01}, {"name": "dcgan", "optimizer": "Adam", "lr": 0.05, "eps": 0.01},
         {"name": "autoencoder", "optimizer": "SGD", "lr": 0.5, "momentum": 0.9}, {"name": "input"},
         {"name": "heads", "optimizer": "Adam", "lr": 0.05, "eps": 0.01}]
SHAPES = dict(zip(("mlp", "dcgan", "autoencoder", "input", "heads"), (MLP, DCGAN, AUTO, INPUT, HEADS)))


def start(case):
    """Multiples of 1/64 between -1/4 and 1/4, and 1 more of what multiplies or divides."""
    values = {}
    for k, (name, shape) in enumerate(SHAPES[case["name"]].items()):
        more = name in ("G.norm.weight", "G.norm.running_var", "G.1.weight", "G.1.running_var")
        values[name] = [((17 * k + 29 * i) % 33 - 16) / 64 + more for i in range(torch.Size(shape).numel())]
    return values


def images(k):
    x, out = 1, []
    for _ in range(ROWS * PIXELS):
        x = (x * 1664525 + 1013904223) % 2**32
        out.append((x >> 24) / 255)
    first = k * BATCH % ROWS
    return torch.tensor(out, dtype=torch.float64).reshape(ROWS, 1, SIZE, SIZE)[first:first + BATCH]


def noise(k):
    return torch.tensor([((17 * k + 29 * i) % 65 - 32) / 32 for i in range(BATCH * CODE)], dtype=torch.float64).reshape(BATCH, CODE)


def linear(v, name, x):
    return F.linear(x, v[name + ".weight"], v[name + ".bias"])


def generator(case, v, z):
    if case["name"] == "mlp":
        return torch.tanh(linear(v, "G.2", torch.tanh(linear(v, "G.0", z)))).reshape(-1, 1, SIZE, SIZE)
    x = linear(v, "G.in", z).reshape(-1, 3, 2, 2)
    x = F.batch_norm(x, v["G.norm.running_mean"], v["G.norm.running_var"], v["G.norm.weight"], v["G.norm.bias"], True)
    x = F.conv_transpose2d(F.relu(x), v["G.up.weight"], v["G.up.bias"], stride=2, padding=1)
    return torch.tanh(F.conv_transpose2d(F.relu(x), v["G.out.weight"], v["G.out.bias"], stride=2, padding=1))


def discriminator(case, v, x):
    if case["name"] == "mlp":
        return linear(v, "D.2", F.leaky_relu(linear(v, "D.0", x.flatten(1)), 0.25))
    for name in ("D.0", "D.2"):
        x = F.leaky_relu(F.conv2d(x, v[name + ".weight"], v[name + ".bias"], stride=2, padding=1), 0.25)
    return linear(v, "D.5", x.flatten(1))


def judged(case, v, x, real):
    y = discriminator(case, v, x)
    return F.binary_cross_entropy_with_logits(y, torch.full_like(y, real))


def step(optimizers, loss):
    """Of the optimizers alone: gradients of other networks are dropped."""
    for o in optimizers:
        o.zero_grad()
    loss.backward()
    for o in optimizers:
        o.step()
    return loss.item()


def by_torch(case):
    v = {name: torch.tensor(values, dtype=torch.float64).reshape(SHAPES[case["name"]][name]) for name, values in start(case).items()}
    trained = {name: t.requires_grad_() for name, t in v.items() if "running" not in name}
    if case["name"] == "input":
        return gradients(v)
    options = {key: case[key] for key in ("lr", "eps", "momentum") if key in case}
    g, d, h = (getattr(torch.optim, case["optimizer"])([t for name, t in trained.items() if name.startswith(net)] or [torch.zeros(1)], **options)
               for net in "GDH")
    losses = {"d_losses": [], "g_losses": []}
    for k in range(STEPS):
        if case["name"] == "heads":
            labels = torch.tensor([7 * (k * BATCH % ROWS + i) % CLASSES for i in range(BATCH)])
            for heads in ([d], [h], [d, h]):
                code = torch.tanh(linear(v, "G.0", images(k).flatten(1)))
                of_d = F.cross_entropy(linear(v, "D.0", code), labels)
                of_h = F.mse_loss(linear(v, "H.0", code), labels.double().reshape(-1, 1) - 1)
                losses["g_losses"].append(step([g, *heads], (of_d if d in heads else 0) + (of_h if h in heads else 0)))
            continue
        if case["name"] == "autoencoder":
            x = images(k).flatten(1)
            code = torch.tanh(linear(v, "G.0", x))
            losses["g_losses"].append(step([g, d], F.mse_loss(linear(v, "D.0", code), x) + code.square().mean() / 4))
            continue
        fake = generator(case, v, noise(k))
        losses["d_losses"].append(step([d], judged(case, v, images(k), 1) + judged(case, v, fake.detach(), 0)))
        losses["g_losses"].append(step([g], judged(case, v, fake, 1)))
    return {key: of for key, of in losses.items() if of} | {name: t.detach().flatten().tolist() for name, t in v.items()}


def gradients(v):
    made = {}
    for key, training in (("dx_training", True), ("dx_inference", False)):
        x = images(0).requires_grad_()
        y = F.conv2d(x, v["G.0.weight"], v["G.0.bias"])
        y = F.batch_norm(y, v["G.1.running_mean"].clone(), v["G.1.running_var"].clone(), v["G.1.weight"], v["G.1.bias"], training)
        y = linear(v, "G.4", F.relu(y).flatten(1))
        F.cross_entropy(y, torch.tensor([7 * i % CLASSES for i in range(BATCH)]), reduction="sum").backward()
        made[key] = x.grad.flatten().tolist()
    return made


def description(case):
    return case | {"start": start(case)}


if __name__ == "__main__":
    figures.main("chains", CASES, description, {"PyTorch": by_torch})
