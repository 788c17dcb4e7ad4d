"""mobilenet.c in PyTorch: MobileNetV2, small, on pictures of 32 x 32."""
import argparse

import numpy as np
import torch
from safetensors.torch import save_file
from synthetic import KINDS, paint
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

SIDE, CHANNELS, TEST = 32, 3, 400


def conv_bn_relu6(inputs, channels, kernel, stride=1, groups=1):
    return nn.Sequential(nn.Conv2d(inputs, channels, kernel, stride, kernel // 2, groups=groups, bias=False),
                         nn.BatchNorm2d(channels), nn.ReLU6())


class InvertedResidual(nn.Module):
    def __init__(self, inputs, channels, stride, expand):
        super().__init__()
        hidden = inputs * expand
        layers = []
        if expand > 1:
            layers.append(conv_bn_relu6(inputs, hidden, 1))
        layers.append(conv_bn_relu6(hidden, hidden, 3, stride, hidden))  # depthwise
        layers.append(nn.Conv2d(hidden, channels, 1, bias=False))
        layers.append(nn.BatchNorm2d(channels))
        self.conv = nn.Sequential(*layers)
        self.residual = stride == 1 and inputs == channels

    def forward(self, x):
        return x + self.conv(x) if self.residual else self.conv(x)


class Network(nn.Module):
    def __init__(self, stem=16, stem_stride=1, stages=((1, 8, 1, 1), (6, 12, 2, 2), (6, 16, 2, 2), (6, 24, 1, 1)), last=64, classes=KINDS):
        super().__init__()
        layers, inputs = [conv_bn_relu6(CHANNELS, stem, 3, stem_stride)], stem
        for expand, channels, blocks, stride in stages:
            for k in range(blocks):
                layers.append(InvertedResidual(inputs, channels, 1 if k else stride, expand))
                inputs = channels
        layers.append(conv_bn_relu6(inputs, last, 1))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(last, classes)

    def forward(self, x):
        return self.classifier(self.features(x).mean([2, 3]))


def pictures(first, rows):
    labels = np.arange(rows) % KINDS
    images = np.stack([paint(first + i, 1 << labels[i], CHANNELS, SIDE)[0] for i in range(rows)])
    return TensorDataset(torch.from_numpy(images).float() / 255, torch.from_numpy(labels))


def loss(net, x, y):
    return F.cross_entropy(net(x), y)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("epochs", type=int, nargs="?", default=8)
    parser.add_argument("images", type=int, nargs="?", default=2000)
    parser.add_argument("file", nargs="?", default="mobilenet.safetensors")
    a = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    train = DataLoader(pictures(0, a.images), batch_size=64, shuffle=True)
    test = DataLoader(pictures(a.images, TEST), batch_size=256)
    net = Network().to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.005, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, a.epochs * len(train))
    for epoch in range(a.epochs):
        net.train()
        for x, y in train:
            optimizer.zero_grad()
            loss(net, x.to(device), y.to(device)).backward()
            optimizer.step()
            schedule.step()
        net.eval()
        with torch.no_grad():
            right = sum((net(x.to(device)).argmax(1).cpu() == y).sum().item() for x, y in test)
        print(f"epoch {epoch + 1}: test acc {right / TEST:.3f}")
    save_file(net.state_dict(), a.file)


if __name__ == "__main__":
    main()
