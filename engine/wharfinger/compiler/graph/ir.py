"""The intermediate representation: a graph of operations in which nothing is missing.

Lowering splits every expression that may be missing into two: its value, and whether it is present. Kleene logic, `??` and `on missing`
become plain boolean operations on the second, so that kernels know no third truth value and every optimisation of ordinary values applies
to missing ones too. Where something is not present, its value is arbitrary and never used.

The graph is hash-consed: equal operations on equal operands are one node, so a common subexpression is evaluated once by construction. Each
node has the *stage* at which its value is known:

    CONST   when the policy is compiled
    POD     when it is bound to a pod; evaluated by the operation's scalar form on plain Python values
    RUN     for each set of candidate rows; evaluated by the operation's vector form on arrays (or a scalar that holds for all rows)
    ITEM    for each placed pod that `pods where …` selects among; scalar again, with earlier values captured
    DEVICE  for each device of the candidate rows; vector again, on arrays with one entry per device

and its *volatility*: what may change it while the pod stays the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Any

from msgspec import Struct, field

from wharfinger.language.report.diagnostics import Span
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model.columns.pod_table import ReadInSteps

IDENTITY = "identity"  # marks operations that read what differs between pods of one template


class Stage(IntEnum):
    """The stage at which a value is known. An operation has the latest stage of its operands."""

    CONST = 0
    POD = 1
    RUN = 2
    ITEM = 3
    DEVICE = 4

    @property
    def of_columns(self) -> bool:
        """True if values are arrays with one entry per row or device."""
        return self is Stage.RUN or self is Stage.DEVICE


class Rep(IntEnum):
    """The representation of a value: strings are Python strings before stage RUN and interned codes in it."""

    FLOAT = 0
    BOOL = 1
    TEXT = 2
    CODE = 3
    OBJECT = 4


class Op(Struct, frozen=True, kw_only=True):
    """An operation: `scalar` takes and returns plain Python values, `vector` arrays with one entry per row.

    `reads_cluster`: the vector form takes the frame (`AtRows`: snapshot, pod and rows) first. It also reads the pod if `of_pod` is True,
    and the time or metrics if `reads_time` is. `may_warn`: it may divide by zero or overflow. `key` identifies the operation among those
    of one name that were made for one policy.

    `slow_reads` yields the reads of the operation that take long the first time. It takes a function that returns the cluster as it is
    then, the pod, and the operands that the pod alone decides. Each is read in steps before the next one is asked for.

    `topology` is the topology key of an operation that takes a selection and reads nothing of a node but its domain of that key.
    `extreme` is True for an operation that takes the largest weights of a selection, and False for the smallest.

    `row` is the vector form for one row in plain Python: the same result without the cost of arrays of length one. Its frame is an
    `AtNode`, and what may be missing is a pair of value and presence as in the vector form. It is left out where it equals the scalar form;
    operations with neither have none. `source` and `row_source` are Python expressions on `{0}`, `{1}` and `{2}` that do the same as
    `scalar` and `row`; None for operations that generated code has to call.
    """

    name: str
    scalar: Callable[..., Any] | None = None
    vector: Callable[..., Any] | None = None
    reads_cluster: bool = False
    of_pod: bool = False
    reads_time: bool = False
    may_warn: bool = False
    source: str | None = None
    row_source: str | None = None
    row: Callable[..., Any] | None = None
    topology: str | None = None
    extreme: bool | None = None
    key: Hashable = None
    slow_reads: Callable[..., Iterator[ReadInSteps]] | None = None

    @property
    def at_row(self) -> Callable[..., Any] | None:
        """The form for one row, or None."""
        return self.row or self.scalar


class Node(Struct, frozen=True, eq=False):
    """One operation on the results of others; `value` is the value of constants and names leaves. Nodes are compared by identity.

    `own`: the value may differ between pods of one template, because it reads the identity of the pod to be placed.
    """

    number: int
    op: Op
    args: tuple[Node, ...]
    stage: Stage
    rep: Rep
    volatility: Volatility = Volatility.STATIC
    value: Any = None
    own: bool = False

    def __str__(self) -> str:
        shown = f" {self.value!r}" if self.value is not None else ""
        operands = "".join(f" %{arg.number}" for arg in self.args)
        change = f" {self.volatility.name.lower()}" if self.stage is Stage.RUN else ""
        return f"%{self.number} = {self.op.name}{shown}{operands} : {self.rep.name.lower()} {self.stage.name.lower()}{change}"


CONST = Op(name="const")
DEVICES = Op(
    name="devices",
    vector=lambda frame: frame.snapshot.devices.of(frame.rows),
    reads_cluster=True,
    slow_reads=lambda snapshot, _pod: iter((snapshot().devices,)),
)
"""The devices of the rows (`model.devices.device_table.DevicesOf`)."""
OF_NODE = Op(name="of node", vector=lambda of, column: column[of.owners] if getattr(column, "ndim", 0) else column)
"""A column of nodes as one of devices: what each device's node has."""


class Graph:
    """The nodes made so far; asking for an equal node again returns the same one."""

    def __init__(self) -> None:
        self._nodes: dict[Hashable, Node] = {}

    def const(self, value: Any, rep: Rep) -> Node:
        """A constant."""
        identity = repr(value) if isinstance(value, float) else value  # 0.0 and -0.0 are equal, yet not the same
        return self._intern(("const", rep, type(value), identity), CONST, (), Stage.CONST, rep, value=value)

    def true(self) -> Node:
        """The constant true."""
        return self.const(True, Rep.BOOL)

    def leaf(self, op: Op, stage: Stage, rep: Rep, *, volatility: Volatility = Volatility.STATIC, value: Any = None) -> Node:
        """A node without operands; `value` distinguishes it from other leaves of its operation."""
        return self._intern((op.name, op.key, value), op, (), stage, rep, volatility=volatility, value=value)

    def apply(self, op: Op, args: Iterable[Node], rep: Rep, *, at: Stage | None = None, volatility: Volatility = Volatility.STATIC) -> Node:
        """An operation on `args`, at the latest of their stages (or `at`), as volatile as the most volatile of them."""
        operands = tuple(args)
        key = (op.name, op.key, *[arg.number for arg in operands])
        node = self._nodes.get(key)
        if node is not None:
            return node
        stage = Stage.CONST if at is None else at
        for arg in operands:
            if at is None and arg.stage > stage:
                stage = arg.stage
            volatility = max(volatility, arg.volatility)
        if stage is Stage.DEVICE and at is None:
            operands = tuple([self.per_device(arg) for arg in operands])
            key = (op.name, op.key, *[arg.number for arg in operands])
            volatility = max(volatility, *[arg.volatility for arg in operands])
        return self._intern(key, op, operands, stage, rep, volatility=volatility)

    def devices(self) -> Node:
        """The devices of the rows."""
        return self.leaf(DEVICES, Stage.RUN, Rep.OBJECT, volatility=Volatility.ROW)

    def per_device(self, node: Node) -> Node:
        """A value as one that can be taken together with those of devices."""
        if node.stage is not Stage.RUN or node.rep is Rep.OBJECT:
            return node
        return self.apply(OF_NODE, (self.devices(), node), node.rep, at=Stage.DEVICE)

    def _intern(self, key: Hashable, op: Op, args: tuple[Node, ...], stage: Stage, rep: Rep, **more: Any) -> Node:
        node = self._nodes.get(key)
        if node is None:
            own = stage is Stage.POD and op.key == IDENTITY
            for arg in args:
                own = own or arg.own
            node = self._nodes[key] = Node(len(self._nodes), op, args, stage, rep, own=own, **more)
        return node


class Value(Struct, frozen=True):
    """A lowered expression: its value, and where it is present (None: always)."""

    node: Node
    present: Node | None = None


class Module(Struct, frozen=True, kw_only=True):
    """A graph and its roots by name (`filter 0 1`, `score 2 value`).

    `places` are the source positions of selections, by the number of their node.
    """

    graph: Graph
    roots: Mapping[str, Node] = field(default_factory=dict)
    places: Mapping[int, Span] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [str(node) for node in ordered(self.roots.values())]
        return "\n".join([*lines, *(f"{name}: %{node.number}" for name, node in self.roots.items())])

    def has(self, op: Op) -> bool:
        """True if the roots need the result of an operation."""
        return any(node.op is op for node in ordered(self.roots.values()))


def ordered(roots: Iterable[Node], *, skip: Callable[[Node], bool] | None = None) -> list[Node]:
    """Every node that the roots need, operands first, in a stable order, without those to `skip` and the nodes that only those need."""
    seen: dict[int, Node] = {}
    stack = [node for node in roots if skip is None or not skip(node)][::-1]
    while stack:
        node, waits = stack[-1], False
        if node.number not in seen:
            for arg in node.args[::-1]:
                if arg.number not in seen and (skip is None or not skip(arg)):
                    stack.append(arg)
                    waits = True
        if not waits:
            seen[node.number] = node
            stack.pop()
    return list(seen.values())
