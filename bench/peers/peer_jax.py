#!/usr/bin/env python3
"""One peer, one figure: how fast JAX (with flax) trains the book's networks on this machine's CPU.

    PYTHON bench/peers/peer_jax.py --model lenet|resnet18 [--batch N] [--ranks N] [--steps N] [--data DIR]

Real Fashion-MNIST lies ready on the devices as float32, so that nothing but whole training steps (forward, backward,
update) is timed. img_per_s is batch / median step time after the warm-up steps, which also compile. The step is one jitted
function; --ranks N splits the CPU into N host devices, replicates the parameters on them, splits the batch, and averages
the gradients (shard_map and pmean). XLA takes its threads from the affinity mask; --threads is not used.
Prints one JSON line.
"""
import os

import peer


def build(model, nn, jnp):
    class Residual(nn.Module):
        channels: int
        strides: int = 1
        use_1x1conv: bool = False

        @nn.compact
        def __call__(self, x):
            def norm():
                return nn.BatchNorm(use_running_average=False, momentum=0.9)

            stride = (self.strides, self.strides)
            y = nn.relu(norm()(nn.Conv(self.channels, (3, 3), stride, padding=1)(x)))
            y = norm()(nn.Conv(self.channels, (3, 3), padding=1)(y))
            if self.use_1x1conv:
                x = nn.Conv(self.channels, (1, 1), stride)(x)
            return nn.relu(x + y)

    class ResNet18(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.BatchNorm(use_running_average=False, momentum=0.9)(nn.Conv(64, (3, 3), padding=1)(x)))
            for i, channels in enumerate((64, 128, 256, 512)):
                x = Residual(channels, 2 if i else 1, i > 0)(x)
                x = Residual(channels)(x)
            return nn.Dense(10)(jnp.mean(x, (1, 2)))

    class LeNet(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.avg_pool(nn.relu(nn.Conv(20, (3, 3), padding="VALID")(x)), (2, 2), (2, 2))
            x = nn.avg_pool(nn.relu(nn.Conv(50, (5, 5), padding="VALID")(x)), (2, 2), (2, 2))
            return nn.Dense(10)(nn.relu(nn.Dense(128)(x.reshape(x.shape[0], -1))))

    return ResNet18() if model == "resnet18" else LeNet()


def main():
    a = peer.parse(peer.options(__doc__))
    # XLA reads this once, when jax is imported.
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={a.ranks}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import jax.numpy as jnp
    import optax
    from flax import linen as nn
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    net = build(a.model, nn, jnp)
    values = net.init(jax.random.PRNGKey(0), jnp.zeros((2, 28, 28, 1)))
    parameters, statistics = values["params"], values.get("batch_stats", {})
    count = sum(p.size for p in jax.tree.leaves(parameters))

    def loss_of(parameters, statistics, x, y):
        out, new = net.apply({"params": parameters, "batch_stats": statistics}, x, mutable=["batch_stats"])
        return optax.softmax_cross_entropy_with_integer_labels(out, y).mean(), new.get("batch_stats", {})

    def train(parameters, statistics, x, y):
        (loss, statistics), gradients = jax.value_and_grad(loss_of, has_aux=True)(parameters, statistics, x, y)
        if a.ranks > 1:
            gradients, statistics, loss = (jax.lax.pmean(t, "devices") for t in (gradients, statistics, loss))
        return jax.tree.map(lambda w, g: w - peer.RATE[a.model] * g, parameters, gradients), statistics, loss

    slots = peer.batches(a, channels_last=True)
    if a.ranks > 1:
        mesh, everywhere, split = Mesh(jax.devices(), ("devices",)), PartitionSpec(), PartitionSpec("devices")
        train = jax.shard_map(train, mesh=mesh, in_specs=(everywhere, everywhere, split, split), out_specs=everywhere,
                              check_vma=False)
        slots = [jax.device_put(s, NamedSharding(mesh, split)) for s in slots]
        state = list(jax.device_put((parameters, statistics), NamedSharding(mesh, everywhere)))
    else:
        slots = [jax.device_put(s) for s in slots]
        state = [parameters, statistics]
    train = jax.jit(train, donate_argnums=(0, 1))

    def step(i):
        state[0], state[1], loss = train(state[0], state[1], *slots[i])
        jax.block_until_ready((state, loss))
        return loss

    peer.report(a, "jax " + jax.__version__, count, peer.measure(a, step))


if __name__ == "__main__":
    main()
