"""The order in which lets and functions are checked: each after those that it needs; those that need themselves are reported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from wharfinger.language import ast
from wharfinger.language.check.context import Context
from wharfinger.language.check.expressions.aggregates import GROUP
from wharfinger.language.check.expressions.names import SUBJECTS
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Label, Span


class GroupBlock(msgspec.Struct, frozen=True):
    """The `group` block among the lets: those that read the group need it, and it may need others."""

    value: ast.Group
    name: str = GROUP

    @property
    def name_span(self) -> Span:
        """Its position."""
        return self.value.span


Named = ast.Let | ast.Function | GroupBlock
MAX_SHOWN = 8  # declarations of a circle that a message names and points at


def in_order(context: Context, lets: Sequence[Named]) -> list[Named]:
    """Lets and functions in an order with each after those that it needs; cycles are reported and left out."""
    by_name = {let.name: let for let in lets}
    needs = {let.name: [n for n in needed_by(let.value) if n in by_name] for let in lets}
    ordering = _Ordering(needs=needs)
    for name in by_name:
        ordering.follow(name)
    for circle in ordering.circles:
        _report_circle(context, [by_name[name] for name in circle])
    return [by_name[name] for name in ordering.order]


class _Ordering(msgspec.Struct, kw_only=True):
    """A depth-first walk over what needs what, without recursion."""

    needs: dict[str, list[str]]
    order: list[str] = msgspec.field(default_factory=list)
    circles: list[list[str]] = msgspec.field(default_factory=list)
    _open: set[str] = msgspec.field(default_factory=set)
    _seen: set[str] = msgspec.field(default_factory=set)
    _circular: set[str] = msgspec.field(default_factory=set)

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


def _report_circle(context: Context, circle: list[Named]) -> None:
    first = min(circle, key=lambda let: let.name_span.start)
    at = circle.index(first)
    around = [*circle[at:], *circle[:at]]
    names = [let.name for let in (*around, first)]
    shown = names if len(around) <= MAX_SHOWN else [*names[:MAX_SHOWN], f"{len(around) - MAX_SHOWN:,} more", first.name]
    others = tuple(Label(let.name_span, f"needs `{name}`") for let, name in zip(around[1:MAX_SHOWN], names[2:], strict=False))
    context.error(
        Code.P307,
        f"`{first.name}` needs itself: {' → '.join(shown)}",
        first.name_span,
        label=f"needs `{names[1]}`" if len(circle) > 1 else "needs itself",
        others=others,
        help="let one of them not depend on the others",
    )


def needed_by(expr: ast.Node) -> list[str]:
    """The bare names in an expression and the functions that it calls, each once, in order."""
    return list(dict.fromkeys(name for node in nodes_in(expr) if (name := _needed(node)) is not None))


def _needed(node: ast.Node) -> str | None:
    if isinstance(node, ast.Call):
        return node.function if node.library is None else None
    if isinstance(node, ast.Member) and node.field == GROUP and isinstance(node.base, ast.Name) and node.base.name in SUBJECTS:
        return GROUP
    return node.name if isinstance(node, ast.Name) else None


def nodes_in(root: object) -> Iterator[ast.Node]:
    """Every node of a tree, without recursion, in order of appearance."""
    pending: list[object] = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, tuple):
            pending.extend(reversed(node))
        elif isinstance(node, ast.Node):
            yield node
            pending.extend(getattr(node, name) for name in reversed(node.__struct_fields__) if name != "span")
