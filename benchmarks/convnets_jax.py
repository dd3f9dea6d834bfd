"""Training steps of the networks of convnets.py in JAX, on commands from standard input."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
from convnets_worker import batch_of, serve
from jax import lax


class Parameters:
    """Made in the first run of a network, then handed out in the same order."""

    def __init__(self, given=None):
        self.values, self.next = [] if given is None else list(given), 0
        self.making, self.rng = given is None, np.random.default_rng(1)

    def __call__(self, *shape, scale=0.05):
        if self.making:
            self.values.append(jnp.asarray(scale * self.rng.standard_normal(shape, np.float32)))
        self.next += 1
        return self.values[self.next - 1]


def conv(p, x, filters, kernel, stride=1, bias=True):
    weight = p(kernel, kernel, x.shape[-1], filters).astype(x.dtype)
    pad = [(kernel // 2, kernel // 2)] * 2
    y = lax.conv_general_dilated(
        x, weight, (stride, stride), pad, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return y + p(filters).astype(x.dtype) if bias else y


def normed(p, x, filters, kernel, stride=1):
    """Convolution and normalisation by the batch; the running statistics of the others are no
    parameters and cost next to nothing, so they are left out here."""
    x = conv(p, x, filters, kernel, stride, bias=False)
    wide = x.astype(jnp.float32)
    mean, var = wide.mean((0, 1, 2)), wide.var((0, 1, 2))
    scale = (1 + p(filters)) * lax.rsqrt(var + 1e-5)
    return ((wide - mean) * scale + p(filters)).astype(x.dtype)


def pool(x, size, stride, pad=0):
    padding = [(0, 0), (pad, pad), (pad, pad), (0, 0)]
    return lax.reduce_window(
        x, -jnp.inf, lax.max, (1, size, size, 1), (1, stride, stride, 1), padding
    )


def dense(p, x, units):
    return x @ p(x.shape[-1], units, scale=0.02).astype(x.dtype) + p(units).astype(x.dtype)


def vgg(blocks, units, classes):
    def run(p, x, key):
        for block in blocks:
            for filters in block:
                x = jax.nn.relu(conv(p, x, filters, 3))
            x = pool(x, 2, 2)
        x = x.reshape(x.shape[0], -1)
        for n in units:
            key, now = jax.random.split(key)
            x = jax.nn.relu(dense(p, x, n))
            x = jnp.where(jax.random.bernoulli(now, 0.5, x.shape), 2 * x, 0)
        return dense(p, x, classes)

    return run


def resnet50(p, x, key):
    x = pool(jax.nn.relu(normed(p, x, 64, 7, 2)), 3, 2, 1)
    out = 256
    for stage, depth in enumerate((3, 4, 6, 3)):
        for k in range(depth):
            stride = 2 if stage > 0 and k == 0 else 1
            y = jax.nn.relu(normed(p, x, out // 4, 1))
            y = jax.nn.relu(normed(p, y, out // 4, 3, stride))
            y = normed(p, y, out, 1)
            same = x.shape[-1] == out and stride == 1
            x = jax.nn.relu(y + (x if same else normed(p, x, out, 1, stride)))
        out *= 2
    return dense(p, x.mean((1, 2)), 1000)


def level(p, x, filters, below):
    for _ in range(2):
        x = jax.nn.relu(conv(p, x, filters, 3))
    if not below:
        return x
    y = level(p, pool(x, 2, 2), 2 * filters, below - 1)
    weight = p(2, 2, 2 * filters, filters).astype(x.dtype)
    y = lax.conv_transpose(y, weight, (2, 2), "VALID") + p(filters).astype(x.dtype)
    x = jnp.concatenate([x, y], -1)
    for _ in range(2):
        x = jax.nn.relu(conv(p, x, filters, 3))
    return x


def mlp(p, x, key):
    x = x.reshape(x.shape[0], -1)
    for units in (256, 256):
        x = jax.nn.relu(dense(p, x, units))
    return dense(p, x, 10)


MODELS = {
    "mlp": mlp,
    "vgg-small": vgg([[32, 32], [64, 64]], [128], 10),
    "vgg16": vgg([[64] * 2, [128] * 2, [256] * 3, [512] * 3, [512] * 3], [4096, 4096], 1000),
    "resnet50": resnet50,
    "unet": lambda p, x, key: conv(p, level(p, x, 64, 4), 2, 1),
}


def make(network, precision, variant):
    """A function that makes a training step of numpy arrays, and the number of parameters."""
    run = MODELS[network]
    dtype = jnp.bfloat16 if precision == "bfloat16" else jnp.float32
    parameters = Parameters()
    shape = batch_of(network)[0].shape
    jax.eval_shape(lambda: run(parameters, jnp.zeros((2, *shape[2:], shape[1])), jax.random.key(0)))
    made = Parameters()
    shapes = [value.shape for value in parameters.values]
    values = [jnp.asarray(0.05 * made.rng.standard_normal(s, np.float32)) for s in shapes]
    state = [values, [jnp.zeros_like(v) for v in values], jax.random.key(1)]

    def loss_of(values, x, y, key):
        x = x.transpose(0, 2, 3, 1).astype(dtype)
        logits = run(Parameters(values), x, key).astype(jnp.float32)
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[..., None], -1).mean()

    def update(values, velocity, key, x, y):
        key, now = jax.random.split(key)
        loss, gradients = jax.value_and_grad(loss_of)(values, x, y, now)
        velocity = [0.9 * v + g for v, g in zip(velocity, gradients, strict=True)]
        values = [w - 1e-3 * v for w, v in zip(values, velocity, strict=True)]
        return values, velocity, key, loss

    compiled = jax.jit(update, donate_argnums=(0, 1, 2))

    def step(x, y):
        *state[:], loss = compiled(*state, x, y)
        return float(loss)

    return step, sum(int(np.prod(s)) for s in shapes)


if __name__ == "__main__":
    serve(make, jax.__version__, *sys.argv[1:])
