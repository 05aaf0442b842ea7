"""The numbers of policies that a search may change, and the texts of the policies with other numbers.

A number is edited in place, by the positions of the syntax tree, so comments and layout stay as they are. A weight that is not written (1
by default), or that of a plugin of Kubernetes, is written where the author would have written it.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from wharfinger.compiler.program import CompiledPolicy, resolve
from wharfinger.errors import UnknownObject, UsageError
from wharfinger.framework.chain import Chain
from wharfinger.framework.extension import ScorePlugin
from wharfinger.language import ast
from wharfinger.language.parse.parser import parse
from wharfinger.language.report import wording
from wharfinger.language.report.diagnostics import Diagnostics, Source
from wharfinger.language.semantics import types
from wharfinger.language.semantics.types import Kind

MIN_STEPS = 100
MAX_STEPS = 100_000
MIN_TOP = 10
"""A weight is searched up to twice itself, and at least up to this."""
EXPLICIT = "="


class Tunable(Struct, frozen=True, kw_only=True):
    """A number of a policy: `low + step * k` in base units, k from 0 to `steps`; `start` and `end` are its offsets in the text of `source`.

    `lead` is written before a weight where that does not exist yet. `in_block`: the number needs a `base kubernetes` block around it.
    """

    name: str
    policy: str
    source: str
    kind: Kind
    current: float
    low: float
    step: float
    steps: int
    start: int
    end: int
    is_weight: bool = False
    lead: str = ""
    in_block: bool = False

    @property
    def own_name(self) -> str:
        """The name without that of the policy."""
        return self.name.removeprefix(f"{self.policy}.")

    def value(self, place: int) -> float:
        """The value at a place of the grid."""
        return round(self.low + self.step * place, 9)

    def nearest(self, value: float) -> int:
        """The place of the grid that is nearest to a value."""
        return min(max(round((value - self.low) / self.step), 0), self.steps)

    def text(self, value: float) -> str:
        """A value as it is written in a policy."""
        return str(value == 1).lower() if self.kind is Kind.BOOL else types.literal(value, self.kind)


def found(policies: Sequence[CompiledPolicy], chain: Chain, *, kubernetes: bool = False) -> tuple[Tunable, ...]:
    """The numbers of the policies, in the order of their texts.

    These are params with a range and a default that is not overridden, truths, and weights that are written as numbers or not at all; with
    `kubernetes` also the weights of Kubernetes' scores. A param of a library that several policies import is one number.
    """
    tunables: list[Tunable] = []
    hosts = {policy.name: _file(policy) for policy in policies}
    for policy in policies:
        tree = hosts[policy.name]
        tunables += [*_params(policy, policy.policy.source, tree.items), *_weights(policy, tree)]
        known = {(tunable.source, tunable.start) for tunable in tunables}
        tunables += [tunable for tunable in _of_libraries(policy) if (tunable.source, tunable.start) not in known]
    if kubernetes and policies:
        tunables += _plugins(policies, hosts, chain)
    return tuple(tunables)


def chosen(tunables: Sequence[Tunable], wanted: Sequence[str], policies: Sequence[CompiledPolicy]) -> tuple[Tunable, ...]:
    """The tunables that are wanted, each `NAME` or `NAME=LOW..HIGH`; all without any.

    A name may leave the policy out where that is clear. UnknownObject for a name that does not exist, UsageError for a range that cannot
    be.
    """
    if not wanted:
        return tuple(tunables)
    picked: dict[str, Tunable] = {}
    of = {policy.name: policy for policy in policies}
    for text in wanted:
        name, given, ends = text.partition(EXPLICIT)
        named = [tunable for tunable in tunables if name.strip() in {tunable.name, tunable.own_name}]
        if not named:
            _refuse_fixed_param(name.strip(), policies)
            near = wording.closest(name, [name for tunable in tunables for name in (tunable.own_name, tunable.name)])
            hint = f"did you mean {near}?" if near else f"there are {', '.join(tunable.name for tunable in tunables)}"
            raise UnknownObject(f"--search {name}: there is no such number to search; {hint}")
        picked |= {tunable.name: _between(tunable, ends, of[tunable.policy]) if given else tunable for tunable in named}
    return tuple(picked.values())


def _refuse_fixed_param(name: str, policies: Iterable[CompiledPolicy]) -> None:
    """Raise UsageError for the name of a param that cannot be tuned."""
    for policy in policies:
        for param in policy.policy.params:
            if name not in {param.name, f"{policy.name}.{param.name}"}:
                continue
            if param.default != policy.params[param.name]:
                raise UsageError(f"--search {name}: the value of this param is given, so it is not searched; leave it out of --param")
            raise UsageError(f"--search {name}: only numbers with a range are searched; write the range of this param in the policy")


def edited(sources: Iterable[Source], tunables: Sequence[Tunable], values: Mapping[str, float]) -> dict[str, str]:
    """The text of each source by name, with these values of tunables by name. A number with its current value stays as it was written."""
    return {source.name: _edited(source, [tunable for tunable in tunables if tunable.source == source.name], values) for source in sources}


def change(sources: Iterable[Source], texts: Mapping[str, str]) -> str:
    """The difference between sources and texts in the unified format."""
    return "".join(_change(source, texts[source.name]) for source in sources)


def _change(source: Source, text: str) -> str:
    lines = difflib.unified_diff(source.text.splitlines(keepends=True), text.splitlines(keepends=True), source.name, source.name)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _edited(source: Source, tunables: Sequence[Tunable], values: Mapping[str, float]) -> str:
    changed = [tunable for tunable in tunables if values[tunable.name] != tunable.current]
    edits = [(tunable.start, tunable.end, tunable.lead + tunable.text(values[tunable.name])) for tunable in changed if not tunable.in_block]
    entries = [tunable for tunable in changed if tunable.in_block]
    if entries:
        lines = "".join(f"{tunable.lead}{tunable.text(values[tunable.name])}" for tunable in entries)
        edits.append((entries[0].start, entries[0].end, f"\n\nbase kubernetes {{{lines}\n}}"))
    text, rest = [], 0
    for start, end, new in sorted(edits, key=lambda edit: edit[0]):
        text += [source.text[rest:start], new]
        rest = end
    return "".join([*text, source.text[rest:]])


def _file(policy: CompiledPolicy) -> ast.Policy:
    """The syntax tree of a policy."""
    file = parse(policy.policy.source, Diagnostics())
    if file is None or file.policy is None:
        raise UsageError(f"{policy.policy.source.name} does not contain a policy any more")
    return file.policy


# ── params ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_libraries(policy: CompiledPolicy) -> Iterator[Tunable]:
    for source in policy.policy.imports:
        file = parse(source, Diagnostics())
        yield from () if file is None else _params(policy, source, file.items)


def _params(policy: CompiledPolicy, source: Source, items: Iterable[ast.Item]) -> Iterator[Tunable]:
    """The tunables of the params that one text declares."""
    declared = [param for param in policy.policy.params if param.span.source.name == source.name]
    for item in items:
        param = next((param for param in declared if item.span.start <= param.span.start < item.span.end), None)
        if not isinstance(item, ast.Param) or item.default is None or param is None or param.default != policy.params[param.name]:
            continue
        kind = param.type.kind
        low, high, current = (0.0, 1.0, float(param.default)) if kind is Kind.BOOL else (param.low, param.high, param.default)
        if low is None or high is None or low == high or not isinstance(current, float):
            continue
        step = _step(kind, high - low)
        yield Tunable(
            name=f"{policy.name}.{param.name}",
            policy=policy.name,
            source=source.name,
            kind=kind,
            current=current,
            low=low,
            step=step,
            steps=math.floor((high - low) / step + 1e-9),
            start=item.default.span.start,
            end=item.default.span.end,
        )


def _step(kind: Kind, width: float) -> float:
    """The step of a grid: fine enough for the range, and round in the unit of the kind, so that values are short to write."""
    if kind in {Kind.BOOL, Kind.COUNT}:
        return max(1.0, float(math.ceil(width / MAX_STEPS)))
    if kind is Kind.MEMORY:
        return max(1.0, 2.0 ** math.floor(math.log2(width / MIN_STEPS)))
    return 10.0 ** math.floor(math.log10(width / MIN_STEPS) + 1e-9)


# ── weights ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _weights(policy: CompiledPolicy, tree: ast.Policy) -> Iterator[Tunable]:
    for item in tree.items:
        if isinstance(item, ast.Score):
            named = item.tier.span.end if item.tier is not None else item.name_span.end
            yield from _weight(policy, item.name, item.weight, named)
        elif isinstance(item, ast.Base):
            for entry in item.entries:
                if entry.weight is not None:
                    yield from _weight(policy, entry.plugin, entry.weight, entry.plugin_span.end)


def _weight(policy: CompiledPolicy, rule: str, written: ast.Expr | None, after: int) -> Iterator[Tunable]:
    """The tunable of a weight; none for one that is an expression."""
    if written is None:
        yield _of_weight(policy, rule, 1.0, (after, after), " weight ")
    elif isinstance(written, ast.Number):
        yield _of_weight(policy, rule, float(written.digits), (written.span.start, written.span.end), "")


def _of_weight(  # noqa: PLR0913 — one parameter per field of the tunable
    policy: CompiledPolicy, rule: str, current: float, place: tuple[int, int], lead: str, *, in_block: bool = False
) -> Tunable:
    return Tunable(
        name=f"{policy.name}.{rule}",
        policy=policy.name,
        source=policy.policy.source.name,
        kind=Kind.NUMBER,
        current=current,
        low=0.0,
        step=1.0,
        steps=max(MIN_TOP, math.ceil(2 * current)),
        start=place[0],
        end=place[1],
        is_weight=True,
        lead=lead,
        in_block=in_block,
    )


def _plugins(policies: Sequence[CompiledPolicy], trees: Mapping[str, ast.Policy], chain: Chain) -> Iterator[Tunable]:
    """The weights of Kubernetes' scores that no policy sets: in the first `base kubernetes` block, or in a new one in the first policy."""
    blocks = [(policy, item) for policy in policies for item in trees[policy.name].items if isinstance(item, ast.Base)]
    taken = {entry.plugin for _, block in blocks for entry in block.entries}
    for entry in chain.entries:
        if entry.weight is None or entry.name in taken or not isinstance(entry.plugin, ScorePlugin):
            continue
        lead = f"\n  {entry.name} weight "
        if blocks:
            policy, block = blocks[0]
            end = block.entries[-1].span.end if block.entries else block.span.end - 1
            yield _of_weight(policy, entry.name, float(entry.weight), (end, end), lead)
        else:
            policy = policies[0]
            rules = [item.span.end for item in trees[policy.name].items if not isinstance(item, ast.Test)]
            tests = [item.span.start for item in trees[policy.name].items if isinstance(item, ast.Test)]
            end = max((end for end in rules if end < min(tests, default=math.inf)), default=len(policy.policy.source.text.rstrip()))
            yield _of_weight(policy, entry.name, float(entry.weight), (end, end), lead, in_block=True)


# ── ranges that are given ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _between(tunable: Tunable, ends: str, policy: CompiledPolicy) -> Tunable:
    """The tunable with another range, written as in a policy: `0%..20%`."""
    texts = [end.strip() for end in ends.split("..")]
    if len(texts) != 2 or tunable.kind is Kind.BOOL:
        highest = tunable.value(tunable.steps)
        raise UsageError(f"--search {tunable.name}={ends}: expected LOW..HIGH, as {tunable.text(tunable.low)}..{tunable.text(highest)}")
    low, high = (_end(tunable, text, policy) for text in texts)
    if low >= high:
        raise UsageError(f"--search {tunable.name}={ends}: the range is empty; write the smaller end first")
    step = min(1.0, _step(Kind.NUMBER, high - low)) if tunable.is_weight else _step(tunable.kind, high - low)
    return replace(tunable, low=low, step=step, steps=math.floor((high - low) / step + 1e-9))


def _end(tunable: Tunable, text: str, policy: CompiledPolicy) -> float:
    """One end of a range; UsageError for one that is not a value of the tunable."""
    if not tunable.is_weight:
        return float(resolve(policy.policy, {**policy.params, tunable.own_name: text})[tunable.own_name])
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        raise UsageError(f"--search {tunable.name}: {text!r} is not a weight; a weight is a plain number, 0 or more")
    return float(text)
