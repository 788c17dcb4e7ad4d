"""The two networks of the book in PyTorch, and small helpers that the benchmarks share.

Parameter names and shapes are the ones that Lockstep's files have.
"""
import os

import numpy as np
import torch
import torch.nn.functional as F
from peer import DATA, load  # noqa: F401 (the agreement scripts take them from here)
from torch import nn

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Residual(nn.Module):
    def __init__(self, inputs, outputs, use_1x1conv=False, strides=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1, stride=strides)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.conv3 = nn.Conv2d(inputs, outputs, 1, stride=strides) if use_1x1conv else None
        self.bn1 = nn.BatchNorm2d(outputs)
        self.bn2 = nn.BatchNorm2d(outputs)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.conv3 is not None:
            x = self.conv3(x)
        return F.relu(y + x)


def resnet18(classes=10, channels=1):
    """ResNet-18 for 28x28 images: no max-pooling behind the first convolution, 11,175,818 trainable numbers."""
    def stage(inputs, outputs, first=False):
        head = Residual(inputs, outputs) if first else Residual(inputs, outputs, True, 2)
        return nn.Sequential(head, Residual(outputs, outputs))

    net = nn.Sequential(nn.Conv2d(channels, 64, 3, 1, 1), nn.BatchNorm2d(64), nn.ReLU())
    net.add_module("resnet_block1", stage(64, 64, True))
    net.add_module("resnet_block2", stage(64, 128))
    net.add_module("resnet_block3", stage(128, 256))
    net.add_module("resnet_block4", stage(256, 512))
    net.add_module("global_avg_pool", nn.AdaptiveAvgPool2d((1, 1)))
    net.add_module("fc", nn.Sequential(nn.Flatten(), nn.Linear(512, classes)))
    return net


class LeNet(nn.Module):
    """The from-scratch network: W3 and W4 are (inputs, outputs) and multiply from the right; 129,068 numbers."""
    SHAPES = {"W1": (20, 1, 3, 3), "b1": (20,), "W2": (50, 20, 5, 5), "b2": (50,),
              "W3": (800, 128), "b3": (128,), "W4": (128, 10), "b4": (10,)}

    def __init__(self):
        super().__init__()
        for name, shape in self.SHAPES.items():
            setattr(self, name, nn.Parameter(torch.zeros(shape)))

    def forward(self, x):
        h = F.avg_pool2d(F.relu(F.conv2d(x, self.W1, self.b1)), 2, 2)
        h = F.avg_pool2d(F.relu(F.conv2d(h, self.W2, self.b2)), 2, 2)
        h = F.relu(h.reshape(h.shape[0], -1) @ self.W3 + self.b3)
        return h @ self.W4 + self.b4


def lenet_layers():
    """The same network from PyTorch's layers, the form that runs fastest there."""
    return nn.Sequential(nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2, 2),
                         nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2, 2), nn.Flatten(),
                         nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10))


def init_normal(net, scale=0.01):
    """The book's start of LeNet: weights from Normal(0, scale), biases zero."""
    with torch.no_grad():
        for name, p in net.named_parameters():
            if p.dim() > 1:
                p.normal_(0, scale)
            else:
                p.zero_()


def init_default(net):
    """PyTorch's own start of the corresponding layers: weights and biases uniform in +-1/sqrt(inputs)."""
    fan_in = {"1": 9, "2": 500, "3": 800, "4": 128}
    with torch.no_grad():
        for name, p in net.named_parameters():
            bound = fan_in[name[1]] ** -0.5
            p.uniform_(-bound, bound)


def tensors(images, labels):
    """The same as float32 in [0, 1] and int64."""
    return torch.from_numpy(images.astype(np.float32) / 255), torch.from_numpy(labels.astype(np.int64))
