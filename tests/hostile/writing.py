"""Builds parts of texts: many of one kind, nested, joined, or in sequence in a policy."""

from __future__ import annotations

from collections.abc import Sequence

POLICY = 'policy "hostile"\n'
Q = '"'
DEEP = 90  # nested in one expression; more is refused by the parser
LABEL = 'node.labels["l{0}"] == "x"'
POD_LABEL = 'pod.labels["l{0}"] == "x"'
PLACED_LABEL = 'it.labels["l{0}"] == "x"'
IDENTITY = "it.name != pod.name and it.priority > {0}"


def repeated(piece: str, beginning: str, length: int) -> str:
    """A text that repeats a piece for about that many characters."""
    return beginning + piece * (length // len(piece))


def nested(inner: str, step: str, depth: int) -> str:
    """An expression in an expression in an expression."""
    for number in range(depth):
        inner = step.format(inner, i=number)
    return inner


def joined(parts: Sequence[str], operator: str) -> str:
    """Many expressions joined in pairs of pairs, so that they do not stand deep in each other."""
    level = list(parts)
    while len(level) > 1:
        pairs = [level[index : index + 2] for index in range(0, len(level), 2)]
        level = [f"({operator.join(pair)})" if len(pair) > 1 else pair[0] for pair in pairs]
    return level[0]


def each(pattern: str, n: int, *, of: int | None = None) -> list[str]:
    """A pattern with the numbers 0 to n - 1 (to `of` - 1 at most) in it."""
    return [pattern.replace("{0}", str(number)) for number in range(n if of is None else min(n, of))]


def one(condition: str, more: str = " on missing pass") -> str:
    """A policy of one requirement."""
    return f"{POLICY}filter f {{ require {condition}{more} }}\n"


def score(points: str) -> str:
    """A policy of one score."""
    return f"{POLICY}score s = {points} normalize minmax on missing 0\n"


def lines(*patterns: str, n: int, before: str = "") -> str:
    """A policy with a line (or several) for each number."""
    return POLICY + before + "".join(f"{line}\n" for pattern in patterns for line in each(pattern, n))


def layers(n: int, operator: str, leaf: str, rule: str) -> str:
    """Lets in eight layers, each of which uses all lets of the layer below."""
    width = max(2, n)
    lets = [f"let a0_{j} = {leaf.format(f'0x{j}')}" for j in range(width)]
    for layer in range(1, 8):
        below = [f"a{layer - 1}_{j}" for j in range(width)]
        lets += [f"let a{layer}_{j} = {joined([*below, leaf.format(f'{layer}x{j}')], operator)}" for j in range(width)]
    return "\n".join([POLICY, *lets, rule.format("a7_0"), ""])


def labels(n: int, operator: str = " and ", path: str = LABEL) -> str:
    """Conditions on different labels, joined."""
    return joined(each(path, n), operator)


def scope(condition: str) -> str:
    """A policy that governs some pods."""
    return f"{POLICY}for pods where {condition}\nfilter g {{ require node.pod_count > 3 }}\n"
