"""Merged dots against the evaluator, over random dimension numbers; size of work on awkward graphs."""

from __future__ import annotations

import random
import time

from xyla.formats.hlo_text import parse
from xyla.hlo import ops
from xyla.hlo.module import Module
from xyla.passes.dot_merger import DotMerger
from xyla.passmgr.context import PassContext
from xyla.testing.pass_check import check_pass


def braces(numbers: list[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


def random_dots(seed: int) -> Module:
    """Three dots of one s32 operand: batch a, contracting b and c, free d and e; others have 0 to 2 free dimensions.

    Some dimensions have size one.
    """
    rng = random.Random(seed)
    sizes = {"a": rng.randint(1, 2), "b": 3, "c": rng.randint(1, 2), "d": 4, "e": 1}
    shared = rng.sample("abcde", 5)
    lines = [f"w = s32[{','.join(str(sizes[n]) for n in shared)}] parameter(0)"]
    results = []
    for i in range(3):
        order = rng.sample(range(5), 5)
        mine = [shared[o] for o in order]
        operand = f"w{i}"
        lines.append(
            f"{operand} = s32[{','.join(str(sizes[n]) for n in mine)}] transpose(w), dimensions={braces(order)}"
        )
        free = [rng.randint(1, 3) for _ in range(rng.randint(0, 2))]
        roles = [*"abc", *(f"f{k}" for k in range(len(free)))]
        rng.shuffle(roles)
        own = [sizes[r] if r in sizes else free[int(r[1])] for r in roles]
        lines.append(f"o{i} = s32[{','.join(map(str, own))}] parameter({i + 1})")
        contracted = rng.sample("bc", 2)
        left = rng.random() < 0.5
        numbers = {
            "batch": ([mine.index("a")], [roles.index("a")]),
            "contracting": ([mine.index(n) for n in contracted], [roles.index(n) for n in contracted]),
        }
        rest = [sizes[n] for n in mine if n in "de"]
        theirs = [s for s, r in zip(own, roles, strict=True) if r.startswith("f")]
        dims = [sizes["a"], *rest, *theirs] if left else [sizes["a"], *theirs, *rest]
        text = ", ".join(
            f"{side}_{kind}_dims={braces(pair[k if left else 1 - k])}"
            for kind, pair in numbers.items()
            for k, side in enumerate(("lhs", "rhs"))
        )
        operands = f"{operand}, o{i}" if left else f"o{i}, {operand}"
        results.append(f"s32[{','.join(map(str, dims))}]")
        lines.append(f"d{i} = {results[-1]} dot({operands}), {text}")
    body = "\n  ".join([*lines, f"ROOT t = ({', '.join(results)}) tuple(d0, d1, d2)"])
    return parse(f"HloModule dots\nENTRY main {{\n  {body}\n}}\n")


def test_merged_dots_give_the_same_values() -> None:
    for seed in range(25):
        outcome = check_pass(DotMerger(), random_dots(seed))
        dots = [i for i in outcome.module.instructions() if i.op is ops.DOT]
        assert len(dots) == 1, seed


def test_a_long_chain_of_dots_with_one_weight_is_linear() -> None:
    steps = [
        f"d{i + 1} = f32[4,8] dot(d{i}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}" for i in range(4000)
    ]
    steps[-1] = "ROOT " + steps[-1]
    text = (
        "HloModule m\nENTRY main {\nd0 = f32[4,8] parameter(0)\nw = f32[8,8] parameter(1)\n" + "\n".join(steps) + "\n}"
    )
    module = parse(text)
    start = time.process_time()
    assert not DotMerger().run(module, PassContext())
    assert time.process_time() - start < 2


def test_layers_that_share_their_input_merge_in_linear_time() -> None:
    lines = ["x0 = f32[4,8] parameter(0)"]
    lines += [f"w{k} = f32[8,8] parameter({k + 1})" for k in range(3)]
    for i in range(300):
        for k in range(3):
            lines.append(f"d{i}_{k} = f32[4,8] dot(x{i}, w{k}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}")
        lines += [f"s{i} = f32[4,8] add(d{i}_0, d{i}_1)", f"x{i + 1} = f32[4,8] add(s{i}, d{i}_2)"]
    lines.append("ROOT r = f32[4,8] negate(x300)")
    module = parse("HloModule m\nENTRY main {\n" + "\n".join(lines) + "\n}")
    start = time.process_time()
    assert DotMerger().run(module, PassContext())
    assert sum(i.op is ops.DOT for i in module.instructions()) == 300
    assert time.process_time() - start < 4
