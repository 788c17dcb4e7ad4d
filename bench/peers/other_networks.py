"""The networks of bench/networks in PyTorch, by the names that `bench_networks list` has: the examples' programs at other sizes, and
torchvision's networks, written out, so that torchvision need not be there. All take Lockstep's weights by name.
"""
import os
import sys

import torch
import torch.nn.functional as F
from measure import ROOT
from torch import nn

sys.path.append(os.path.join(ROOT, "examples", "networks"))
import mobilenet  # noqa: E402
import transformer  # noqa: E402
import unet  # noqa: E402


class Residual(nn.Module):
    """Two convolutions, or three with a narrow one in the middle."""
    def __init__(self, inputs, channels, stride, narrow, downsample):
        super().__init__()
        out = 4 * channels if narrow else channels
        self.conv1 = nn.Conv2d(inputs, channels, 1 if narrow else 3, 1 if narrow else stride, 0 if narrow else 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride if narrow else 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, out, 1, bias=False) if narrow else None
        self.bn3 = nn.BatchNorm2d(out) if narrow else None
        self.downsample = nn.Sequential(nn.Conv2d(inputs, out, 1, stride, bias=False), nn.BatchNorm2d(out)) if downsample else None

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.conv3 is not None:
            y = self.bn3(self.conv3(F.relu(y)))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, blocks, narrow, classes=1000):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        inputs = 64
        for i, n in enumerate(blocks):
            layer = nn.Sequential()
            for k in range(n):
                channels, first = 64 << i, k == 0
                layer.append(Residual(inputs, channels, 2 if first and i else 1, narrow, first and (i > 0 or narrow)))
                inputs = 4 * channels if narrow else channels
            setattr(self, f"layer{i + 1}", layer)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Vgg11(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.features, inputs = nn.Sequential(), 3
        for channels in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):  # 0: a pool
            if channels:
                self.features.extend([nn.Conv2d(inputs, channels, 3, padding=1), nn.ReLU()])
                inputs = channels
            else:
                self.features.append(nn.MaxPool2d(2))
        self.classifier = nn.Sequential(nn.Linear(512 * 7 * 7, width), nn.ReLU(), nn.Dropout(0.5),
                                        nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.5), nn.Linear(width, classes))

    def forward(self, x):
        return self.classifier(F.adaptive_avg_pool2d(self.features(x), 7).flatten(1))


class Lstm(nn.Sequential):
    def __init__(self):
        super().__init__(nn.LSTM(256, 256, batch_first=True), nn.Linear(256, 10))

    def forward(self, x):
        return self[1](self[0](x)[0][:, -1])


def images_loss(net, x, y):
    return F.cross_entropy(net(x), y)


PAPER = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
#             name              how it is made                                                    its loss
NETWORKS = {"mobilenet-96":    (lambda: mobilenet.Network(32, 2, PAPER, 1280, 1000),              mobilenet.loss),
            "resnet18-224":    (lambda: ResNet((2, 2, 2, 2), False),                              images_loss),
            "resnet50-64":     (lambda: ResNet((3, 4, 6, 3), True),                               images_loss),
            "resnet50-224":    (lambda: ResNet((3, 4, 6, 3), True),                               images_loss),
            "vgg11-32":        (lambda: Vgg11(512, 10),                                           images_loss),
            "unet-128":        (lambda: unet.Network(32),                                         unet.loss),
            "transformer-256": (lambda: transformer.Network(256, 256, heads=4, layers=4),         transformer.loss),
            "lstm-256":        (Lstm,                                                             images_loss)}


def parameters(net):
    return sum(p.numel() for p in net.parameters())


def load(net, state):
    """Lockstep's weights, all of them and no others; the counts of batches are PyTorch's own."""
    missing, more = net.load_state_dict(state, strict=False)
    missing = [name for name in missing if not name.endswith("num_batches_tracked")]
    if missing or more:
        sys.exit(f"not in Lockstep's file: {missing}; not in the network: {more}")
    return net


def taken(x, mode):
    """A network or a batch in the layout of a mode."""
    last = mode.endswith("channels_last") and (not isinstance(x, torch.Tensor) or x.dim() == 4)
    return x.to(memory_format=torch.channels_last) if last else x
