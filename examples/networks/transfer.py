"""transfer.c in PyTorch: what one task has taught a stem serves another task."""
import argparse
from collections import OrderedDict

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from synthetic import KINDS, paint
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

SIDE, CHANNELS, FEWER, TEST = 24, 3, 10, 600
ALONE, PAIRS = (1, 2, 4, 8), (3, 5, 6, 9, 10, 12)  # a bit for each mark


def stage(inputs, channels):
    return nn.Sequential(nn.Conv2d(inputs, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
                         nn.MaxPool2d(2))


class Network(nn.Sequential):
    def __init__(self, head="pair", classes=len(PAIRS)):
        stem = nn.Sequential(stage(CHANNELS, 16), stage(16, 32), stage(32, 64), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        super().__init__(OrderedDict([("stem", stem), (head, nn.Linear(64, classes))]))


def pictures(first, rows, marks=PAIRS):
    labels = np.arange(rows) % len(marks)
    images = np.stack([paint(first + i, marks[labels[i]], CHANNELS, SIDE)[0] for i in range(rows)])
    return TensorDataset(torch.from_numpy(images).float() / 255, torch.from_numpy(labels))


def loss(net, x, y):
    return F.cross_entropy(net(x), y)


def freeze(net, frozen):
    net.stem.requires_grad_(not frozen)
    net.stem.train(not frozen)  # the stem's BatchNorms rest too


def rates(net, lr):
    return [{"params": net.stem.parameters()}, {"params": net.pair.parameters(), "lr": 10 * lr}]


def train(net, data, test, epochs, lr, groups=None, frozen=False):
    device = next(net.parameters()).device
    optimizer = torch.optim.AdamW(groups(net, lr) if groups else net.parameters(), lr=lr, weight_decay=0.01)
    for epoch in range(epochs):
        net.train()
        freeze(net, frozen)
        for x, y in data:
            optimizer.zero_grad()
            loss(net, x.to(device), y.to(device)).backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            right = sum((net(x.to(device)).argmax(1).cpu() == y).sum().item() for x, y in test)
        print(f"epoch {epoch + 1}: test acc {right / TEST:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("epochs", type=int, nargs="?", default=8)
    parser.add_argument("images", type=int, nargs="?", default=2000)
    parser.add_argument("first", nargs="?", default="marks.safetensors")
    parser.add_argument("file", nargs="?", default="transfer.safetensors")
    a = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    many = DataLoader(pictures(0, a.images, ALONE), batch_size=32, shuffle=True)
    test = DataLoader(pictures(a.images, TEST, ALONE), batch_size=200)
    net = Network("mark", KINDS).to(device)
    print("one mark")
    train(net, many, test, a.epochs, 0.005)
    save_file(net.state_dict(), a.first)

    fewer, begin = -(-a.images // FEWER), a.images + TEST
    few = DataLoader(pictures(begin, fewer), batch_size=32, shuffle=True)
    test = DataLoader(pictures(begin + fewer, TEST), batch_size=200)
    net = Network().to(device)
    missing, more = net.load_state_dict(load_file(a.first), strict=False)
    print("kept, not in the file:", ", ".join(missing))
    print("passed over, not in the network:", ", ".join(more))
    print("two marks, by the head")
    train(net, few, test, a.epochs, 0.005, frozen=True)
    print("two marks, by everything")
    train(net, few, test, a.epochs, 0.0005, rates)
    save_file(net.state_dict(), a.file)


if __name__ == "__main__":
    main()
