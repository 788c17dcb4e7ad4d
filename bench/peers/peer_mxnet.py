#!/usr/bin/env python3
"""One peer, one figure: how fast MXNet (Gluon, hybridized) trains the book's networks on this machine's CPU.

    PYTHON bench/peers/peer_mxnet.py --model lenet|resnet18 [--batch N] [--threads N] [--ranks N] [--steps N] [--data DIR]

Real Fashion-MNIST lies ready in memory as float32, so that nothing but whole training steps (forward, backward, update)
is timed. img_per_s is batch / median step time after the warm-up steps. --ranks N is the book's multi-GPU program on N cpu
devices of --threads threads: split_and_load, one loss a device, a Trainer over a KVStore.
Prints one JSON line.
"""
import os

import peer


def residual_of(gluon):
    class Residual(gluon.HybridBlock):
        def __init__(self, channels, use_1x1conv=False, strides=1):
            super().__init__()
            nn = gluon.nn
            self.conv1 = nn.Conv2D(channels, 3, padding=1, strides=strides)
            self.conv2 = nn.Conv2D(channels, 3, padding=1)
            self.conv3 = nn.Conv2D(channels, 1, strides=strides) if use_1x1conv else None
            self.bn1, self.bn2 = nn.BatchNorm(), nn.BatchNorm()

        def hybrid_forward(self, F, x):
            y = F.relu(self.bn1(self.conv1(x)))
            y = self.bn2(self.conv2(y))
            return F.relu(y + (self.conv3(x) if self.conv3 else x))
    return Residual


def build(model, gluon):
    nn, net = gluon.nn, gluon.nn.HybridSequential()
    if model == "lenet":
        net.add(nn.Conv2D(20, 3, activation="relu"), nn.AvgPool2D(2, 2), nn.Conv2D(50, 5, activation="relu"),
                nn.AvgPool2D(2, 2), nn.Dense(128, activation="relu"), nn.Dense(10))
        return net
    Residual = residual_of(gluon)
    net.add(nn.Conv2D(64, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"))
    for i, channels in enumerate((64, 128, 256, 512)):
        net.add(Residual(channels, i > 0, 2 if i else 1), Residual(channels))
    net.add(nn.GlobalAvgPool2D(), nn.Dense(10))
    return net


def main():
    a = peer.parse(peer.options(__doc__))
    os.environ["OMP_NUM_THREADS"] = str(a.threads)  # read once, when mxnet is imported
    import mxnet as mx
    from mxnet import autograd, gluon

    mx.random.seed(0)
    devices = [mx.cpu(i) for i in range(a.ranks)]
    net = build(a.model, gluon)
    net.initialize(mx.init.Xavier(), ctx=devices)
    net.hybridize(static_alloc=True, static_shape=True)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": peer.RATE[a.model]}, kvstore="device")
    slots = [[gluon.utils.split_and_load(mx.nd.array(t), devices) for t in slot] for slot in peer.batches(a)]

    def step(i):
        with autograd.record():
            losses = [loss_of(net(x), y) for x, y in zip(*slots[i])]
        autograd.backward(losses)
        trainer.step(a.batch)  # divides the sum of the images' gradients by the batch
        mx.nd.waitall()
        return sum(float(loss.sum().asscalar()) for loss in losses) / a.batch

    measured = peer.measure(a, step)
    # BatchNorm's running statistics are parameters here, without a gradient.
    count = sum(p.data(devices[0]).size for p in net.collect_params().values() if p.grad_req != "null")
    peer.report(a, "mxnet " + mx.__version__, count, measured)


if __name__ == "__main__":
    main()
