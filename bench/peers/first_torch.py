#!/usr/bin/env python3
"""PyTorch's side of bench/peers/startup: the first training step, or inference of all test images.

    PYTHON bench/peers/first_torch.py step      --model M [--mode MODE] [--batch N] [--threads N] [--data DIR]
    PYTHON bench/peers/first_torch.py inference --model M --weights FILE --logits FILE [the same]

`step` reads the first batch of the training images, makes the network, trains one step and prints when it ended by the
system's monotonic clock, which bench/peers/startup compares with the moment it started this process.
`inference` reads Lockstep's weights file, computes the logits of all test images in batches, and prints how long a second
pass over them takes, with everything warm, and how far they are from Lockstep's logits. One JSON line.
"""
import argparse
import json
import os
import time

import numpy as np
import peer
import torch
from measure import MODES
from networks import lenet_layers, resnet18
from safetensors.torch import load_file
from torch import nn


def take(net, weights):
    """Lockstep's weights for the network; LeNet's layers are called otherwise here, and their matrices stand the other way."""
    if "W1" in weights:
        layers = [layer for layer in net if hasattr(layer, "weight")]
        with torch.no_grad():
            for i, layer in enumerate(layers, 1):
                w = weights[f"W{i}"]
                layer.weight.copy_(w.t() if w.dim() == 2 else w)
                layer.bias.copy_(weights[f"b{i}"])
    else:
        net.load_state_dict(weights, strict=False)  # the counts of batches are PyTorch's own


def network(a):
    net = resnet18() if a.model == "resnet18" else lenet_layers()
    if a.weights:
        take(net, load_file(a.weights))
    last = torch.channels_last if a.mode.endswith("channels_last") else torch.contiguous_format
    net = net.to(memory_format=last)
    return net, torch.compile(net) if a.mode.startswith("compile") else net, last


def batch_of(images, last):
    return torch.from_numpy(images).float().div_(255).contiguous(memory_format=last)


def step(a):
    net, forward, last = network(a)
    images, labels = peer.load(a.data, "train")
    optimizer = torch.optim.SGD(net.parameters(), lr=peer.RATE[a.model])
    loss = nn.functional.cross_entropy(forward(batch_of(images[:a.batch], last)), torch.from_numpy(labels[:a.batch]).long())
    loss.backward()
    optimizer.step()
    return {"loss": loss.item(), "ended": time.monotonic()}


def inference(a):
    net, forward, last = network(a)
    net.eval()
    images, labels = peer.load(a.data, "t10k")

    def all_images():
        return torch.cat([forward(batch_of(images[i:i + a.batch], last)) for i in range(0, len(images), a.batch)])

    with torch.inference_mode():
        all_images()
        first = time.monotonic()
        start = time.perf_counter()
        logits = all_images()
        seconds = time.perf_counter() - start
    theirs = torch.from_numpy(np.load(a.logits))
    return {"ended": first, "seconds": seconds, "apart": ((logits - theirs).abs().max() / theirs.abs().max()).item(),
            "accuracy": (logits.argmax(1) == torch.from_numpy(labels)).float().mean().item()}


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("what", choices=("step", "inference"))
    p.add_argument("--model", default="lenet", choices=tuple(peer.PARAMETERS))
    p.add_argument("--mode", default="channels_last", choices=MODES)
    p.add_argument("--weights")
    p.add_argument("--logits", help="what Lockstep computes from them (.npy)")
    p.add_argument("--batch", type=int, help="default: 256 for a step; 250 for inference, which divides the test images, so "
                   "that compile sees one shape")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--data", default=peer.DATA)
    a = p.parse_args()
    if (a.what == "inference") != bool(a.weights and a.logits):
        p.error("inference needs --weights and --logits, and step takes neither")
    a.batch = a.batch or (256 if a.what == "step" else 250)
    torch.set_num_threads(a.threads)
    print(json.dumps({"peer": "pytorch " + torch.__version__, **(step if a.what == "step" else inference)(a)}))


if __name__ == "__main__":
    main()
