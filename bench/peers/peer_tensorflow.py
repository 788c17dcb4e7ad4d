#!/usr/bin/env python3
"""One peer, one figure: how fast TensorFlow (Keras layers in a tf.function) trains the book's networks on this machine's CPU.

    PYTHON bench/peers/peer_tensorflow.py --model lenet|resnet18 [--batch N] [--ranks N] [--steps N] [--data DIR]

Real Fashion-MNIST lies ready in memory as float32, so that nothing but whole training steps (forward, backward, update)
is timed. img_per_s is batch / median step time after the warm-up steps, which also trace. --ranks N splits the CPU into N
logical devices and trains under MirroredStrategy, each with batch/ranks images. TensorFlow takes its threads from the
affinity mask; --threads is not used.
Prints one JSON line.
"""
import os

import peer

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["CUDA_VISIBLE_DEVICES"] = ""


def lenet(layers):
    return [layers.Conv2D(20, 3, activation="relu"), layers.AveragePooling2D(2, 2),
            layers.Conv2D(50, 5, activation="relu"), layers.AveragePooling2D(2, 2),
            layers.Flatten(), layers.Dense(128, activation="relu"), layers.Dense(10)]


def residual(layers, x, channels, strides=1, use_1x1conv=False):
    # Keras pads strided convolutions on the right where the others pad evenly: as many products, other places.
    y = layers.Conv2D(channels, 3, strides, "same")(x)
    y = layers.ReLU()(layers.BatchNormalization()(y))
    y = layers.BatchNormalization()(layers.Conv2D(channels, 3, padding="same")(y))
    if use_1x1conv:
        x = layers.Conv2D(channels, 1, strides)(x)
    return layers.ReLU()(layers.Add()([x, y]))


def build(model, keras):
    layers = keras.layers
    images = x = keras.Input((28, 28, 1))
    if model == "lenet":
        for layer in lenet(layers):
            x = layer(x)
        return keras.Model(images, x)
    x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(64, 3, padding="same")(x)))
    for i, channels in enumerate((64, 128, 256, 512)):
        x = residual(layers, x, channels, 2 if i else 1, i > 0)
        x = residual(layers, x, channels)
    return keras.Model(images, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))


def main():
    a = peer.parse(peer.options(__doc__))
    import tensorflow as tf
    keras = tf.keras
    keras.utils.set_random_seed(0)
    if a.ranks > 1:
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * a.ranks)
        strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(a.ranks)])
    else:
        strategy = tf.distribute.get_strategy()
    with strategy.scope():
        net = build(a.model, keras)
        optimizer = keras.optimizers.SGD(peer.RATE[a.model])
        optimizer.build(net.trainable_variables)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")

    def local(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, net(x, training=True)) / a.batch  # the devices' losses and gradients are added up
        gradients = tape.gradient(loss, net.trainable_variables)
        optimizer.apply_gradients(zip(gradients, net.trainable_variables))
        return loss

    @tf.function
    def train(x, y):
        return strategy.reduce("sum", strategy.run(local, (x, y)), axis=None)

    def slot(x, y):
        if a.ranks == 1:
            return tf.constant(x), tf.constant(y)
        rows = a.batch // a.ranks

        def parts(t):
            return strategy.experimental_distribute_values_from_function(
                lambda where: tf.constant(t[where.replica_id_in_sync_group * rows:][:rows]))
        return parts(x), parts(y)

    slots = [slot(x, y) for x, y in peer.batches(a, channels_last=True)]
    peer.report(a, "tensorflow " + tf.__version__, sum(int(tf.size(v)) for v in net.trainable_variables),
                peer.measure(a, lambda i: train(*slots[i]).numpy()))


if __name__ == "__main__":
    main()
