"""Writes the StableHLO programs of this folder. Needs jax, which xyla itself does not: run it where jax is installed.

    python examples/export.py

The programs are committed; this script shows where they come from.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

HERE = Path(__file__).resolve().parent
BATCH, TOKENS, WIDTH, HEADS = 2, 64, 128, 4
LAYERS = (64, 256, 256, 10)


def layer_norm(x: Any, scale: Any, bias: Any) -> Any:
    """Normalises the last axis to mean 0 and variance 1, then scales and shifts."""
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + bias


def attention(x: Any, qkv: Any, out: Any) -> Any:
    """Causal self-attention with HEADS heads."""
    parts = jnp.einsum("btd,dchk->cbhtk", x, qkv.reshape(WIDTH, 3, HEADS, WIDTH // HEADS))
    query, key, value = parts
    scores = jnp.einsum("bhtk,bhsk->bhts", query, key) * (WIDTH // HEADS) ** -0.5
    visible = jnp.tril(jnp.ones((TOKENS, TOKENS), bool))
    weights = jax.nn.softmax(jnp.where(visible, scores, -1e9), axis=-1)
    mixed = jnp.einsum("bhts,bhsk->bthk", weights, value).reshape(BATCH, TOKENS, WIDTH)
    return mixed @ out


def transformer_block(x: Any, params: dict[str, Any]) -> Any:
    """One pre-norm transformer block: attention, then a two-layer perceptron, each with a residual."""
    x = x + attention(layer_norm(x, params["scale1"], params["bias1"]), params["qkv"], params["out"])
    hidden = layer_norm(x, params["scale2"], params["bias2"]) @ params["up"]
    return x + jax.nn.gelu(hidden, approximate=True) @ params["down"]


def mlp_loss(weights: list[tuple[Any, Any]], inputs: Any, labels: Any) -> Any:
    """Mean softmax cross-entropy of a relu perceptron."""
    for matrix, bias in weights[:-1]:
        inputs = jax.nn.relu(inputs @ matrix + bias)
    logits = inputs @ weights[-1][0] + weights[-1][1]
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)
    return -picked.mean()


def mlp_train_step(weights: Any, momentum: Any, inputs: Any, labels: Any) -> Any:
    """One step of stochastic gradient descent with momentum; the old weights are given up."""
    loss, gradient = jax.value_and_grad(mlp_loss)(weights, inputs, labels)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradient)
    return jax.tree.map(lambda w, m: w - 0.01 * m, weights, momentum), momentum, loss


def arrays(*shapes: tuple[int, ...]) -> list[Any]:
    """Descriptions of f32 arrays."""
    return [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]


def write(name: str, function: Any, *arguments: Any, **options: Any) -> None:
    """Lowers `function` for arguments of these shapes and writes NAME.stablehlo.mlir."""
    text = jax.jit(function, **options).lower(*arguments).as_text()
    (HERE / f"{name}.stablehlo.mlir").write_text(text)


def main() -> None:
    """Writes every program."""
    names = ("scale1", "bias1", "qkv", "out", "scale2", "bias2", "up", "down")
    shapes = arrays(
        (WIDTH,), (WIDTH,), (WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH,), (WIDTH,), (WIDTH, 4 * WIDTH),
        (4 * WIDTH, WIDTH),
    )  # fmt: skip
    write(
        "transformer_block", transformer_block, *arrays((BATCH, TOKENS, WIDTH)), dict(zip(names, shapes, strict=True))
    )
    weights = [tuple(arrays((a, b), (b,))) for a, b in itertools.pairwise(LAYERS)]
    labels = jax.ShapeDtypeStruct((32,), jnp.int32)
    write("mlp_train_step", mlp_train_step, weights, weights, *arrays((32, LAYERS[0])), labels, donate_argnums=(0, 1))


if __name__ == "__main__":
    main()
