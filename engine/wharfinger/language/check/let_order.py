"""The order of lets: each behind those it needs, and none that needs itself.

Lets are checked in the order of what they need, not of where they stand, so that a policy can be written top down. That order also finds
the lets that go in a circle, and it keeps the depth of the recursion independent of the number of lets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass

from wharfinger.language import ast
from wharfinger.language.check.context import Context
from wharfinger.language.codes import Code
from wharfinger.language.diagnostics import Label


def in_order(context: Context, lets: Sequence[ast.Let]) -> list[ast.Let]:
    """Lets so that each stands behind those it needs; those that go in a circle are reported and left out."""
    by_name = {let.name: let for let in lets}
    needs = {let.name: [n for n in names_in(let.value) if n in by_name] for let in lets}
    ordering = _Ordering(needs=needs)
    for name in by_name:
        ordering.follow(name)
    for circle in ordering.circles:
        _report_circle(context, [by_name[name] for name in circle])
    return [by_name[name] for name in ordering.order]


@dataclass(slots=True, kw_only=True)
class _Ordering:
    """A depth-first walk over what needs what, without recursion."""

    needs: dict[str, list[str]]
    order: list[str] = field(default_factory=list)
    circles: list[list[str]] = field(default_factory=list)
    _open: set[str] = field(default_factory=set)
    _seen: set[str] = field(default_factory=set)
    _circular: set[str] = field(default_factory=set)

    def follow(self, start: str) -> None:
        path = [] if start in self._seen else [(start, iter(self.needs[start]))]
        self._open.update(name for name, _ in path)
        while path:
            name, following = path[-1]
            self._seen.add(name)
            need = next(following, None)
            if need is None:
                self._finish(path.pop()[0])
            elif need in self._open:
                self._close([n for n, _ in path], need)
            elif need not in self._seen:
                self._open.add(need)
                path.append((need, iter(self.needs[need])))

    def _finish(self, name: str) -> None:
        self._open.discard(name)
        if name not in self._circular:
            self.order.append(name)

    def _close(self, path: list[str], first: str) -> None:
        circle = path[path.index(first) :]
        if not self._circular & set(circle):
            self.circles.append(circle)
        self._circular |= set(circle)


def _report_circle(context: Context, circle: list[ast.Let]) -> None:
    first = min(circle, key=lambda let: let.name_span.start)
    at = circle.index(first)
    names = [let.name for let in (*circle[at:], *circle[:at], first)]
    others = tuple(Label(let.name_span, f"needs `{name}`") for let, name in zip(circle[at + 1 :] + circle[:at], names[2:], strict=False))
    context.error(
        Code.P307,
        f"`{first.name}` needs itself: {' → '.join(names)}",
        first.name_span,
        label=f"needs `{names[1]}`" if len(circle) > 1 else "needs itself",
        others=others,
        help="let one of them not depend on the others",
    )


def names_in(expr: ast.Expr) -> list[str]:
    """The bare names in an expression, each once, in order."""
    return list(dict.fromkeys(node.name for node in nodes_in(expr) if isinstance(node, ast.Name)))


def nodes_in(root: object) -> Iterator[ast.Node]:
    """Every node of a tree, without recursion, in order of appearance."""
    pending: list[object] = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, tuple):
            pending.extend(reversed(node))
        elif isinstance(node, ast.Node) and is_dataclass(node):
            yield node
            pending.extend(getattr(node, f.name) for f in reversed(fields(node)) if f.name != "span")
