"""Turns the graph into flat tuples of steps over a list of registers.

A register holds the value of one node. Constants are there from the beginning; what depends on the pod is filled in when a policy is bound;
the rest is computed for a set of rows on demand, each register at most once per set. Evaluating a rule is one loop over its steps without
any tree to walk, and each step is one NumPy call.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct, field

from wharfinger.builtins.signature import AtRows
from wharfinger.compiler import selections
from wharfinger.compiler.graph import leaves
from wharfinger.compiler.graph.ir import CONST, Module, Node, Op, Rep, Stage, ordered
from wharfinger.compiler.selections import is_selection
from wharfinger.compiler.weights import weight
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model.columns.arrays import StringTable
from wharfinger.model.columns.pod_table import ReadInSteps
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.object_store import EvaluationContext
from wharfinger.model.state.snapshot import Snapshot

Registers = list[Any]
Step = tuple[int, Callable[[Registers], Any]]  # the register that a step fills, and how

FRAME, POD, STRINGS, CONTEXT = range(4)  # registers that are given, not computed
GIVEN = {leaves.POD: POD, leaves.STRINGS: STRINGS, leaves.CONTEXT: CONTEXT}


class StaticPart(Struct, frozen=True):
    """A subexpression that only node objects change: its column is kept for all rows between evaluations.

    `depends` are the registers of the values it takes from the pod; `of_pod`: it reads the pod itself. One that differs between pods of a
    template (`own`) is not kept.
    """

    register: int
    steps: tuple[Step, ...]
    depends: tuple[int, ...]
    of_pod: bool
    own: bool


class Dependencies(Struct, frozen=True):
    """The changes outside of its own row that affect a plan.

    Counts of selections (computed by `steps`, as what is known of `groups`), metrics and the time if it is `reads_time`, and the labels of
    `namespaces`.
    """

    steps: tuple[Step, ...]
    selections: tuple[int, ...]
    groups: tuple[int, ...]
    reads_time: bool
    namespaces: bool


class RowStep(Struct, frozen=True):
    """A step for one row: register `register` becomes `function` of the registers `arguments` (if `reads_cluster`, of an `AtNode` first).

    If it is `lasting`, the register may be filled already.
    """

    register: int
    op: Op
    function: Callable[..., Any]
    arguments: tuple[int, ...]
    reads_cluster: bool
    lasting: bool


class Plan(Struct, frozen=True):
    """The steps that compute some nodes: `steps` for any rows, or `rest` for all rows after the static parts were looked up.

    `one_row` is `rest` for one row in plain Python; None if an operation has no such form. `may_warn` plans contain operations that may
    divide by zero or overflow; the result is not present then, so NumPy's warnings are switched off. `last_reads` are, for each step of
    `rest`, the registers that no step of any plan reads after it: for all rows each of them holds a whole column. `weights` are the
    operations of each step of `rest` for each node. `domains` are the topology keys whose domains alone decide the result for a node; None
    if anything else about the node does.
    """

    outputs: tuple[int, ...]
    steps: tuple[Step, ...]
    static: tuple[StaticPart, ...]
    rest: tuple[Step, ...]
    last_reads: tuple[tuple[int, ...], ...]
    weights: tuple[int, ...]
    one_row: tuple[RowStep, ...] | None
    may_warn: bool
    dependencies: Dependencies
    domains: tuple[str, ...] | None


class Program(Struct, frozen=True, kw_only=True):
    """A scheduled module: the initial registers, the steps that a pod fills in, and a plan for each group of roots.

    `table_steps` fill in what is the same for all pods on one cluster: tables of its strings, which are as long as there are strings.
    `lasting` are the steps of selections that stay the same for a pod on one cluster. `counting` is what takes long to be read for the
    first time, of the placed pods and of devices, with the registers of the values that it needs. `registers` holds the register of each
    root by its name.
    """

    module: Module
    groups: Mapping[str, Sequence[str]]
    initial: tuple[Any, ...]
    table_steps: tuple[Step, ...]
    pod_steps: tuple[Step, ...]
    lasting: tuple[Step, ...]
    counting: tuple[tuple[selections.Counting, tuple[int, ...]], ...]
    plans: Mapping[str, Plan]
    registers: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return str(self.module)

    @property
    def has_slow_reads(self) -> bool:
        """True if the first evaluation for a pod reads counts of pods, devices, or columns that are kept."""
        return bool(self.counting) or any(plan.static for plan in self.plans.values())


def run(steps: Iterable[Step], registers: Registers) -> None:
    """Fill those registers of `steps` that are still empty."""
    for register, compute in steps:
        if registers[register] is None:
            registers[register] = compute(registers)


def run_for_all_rows(plan: Plan, registers: Registers, part: slice = slice(None)) -> None:
    """Fill the registers of a part of `rest` that are still empty, and empties those that nothing needs any more."""
    for (register, compute), last_reads in zip(plan.rest[part], plan.last_reads[part], strict=True):
        if registers[register] is None:
            registers[register] = compute(registers)
        for each in last_reads:
            registers[each] = None


def parts(weights: Sequence[int], most: int) -> Iterator[slice]:
    """Divide steps with these weights into parts that weigh `most`, or are one step that weighs more."""
    first, total = 0, 0
    for number, each in enumerate(weights):
        if total and total + each > most:
            yield slice(first, number)
            first, total = number, 0
        total += each
    if first < len(weights):
        yield slice(first, len(weights))


def schedule(module: Module, groups: Mapping[str, Sequence[str]]) -> Program:
    """The program that computes the roots of a module; roots named together in `groups` have one plan."""
    return _Scheduling(module).program(groups)


class _Scheduling:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.nodes = [node for node in ordered(module.roots.values()) if node.stage is not Stage.ITEM]
        self.selects = {node.number: selections.select_kernel(node) for node in self.nodes if is_selection(node)}
        self.lasting = {node.number for node in self.nodes if is_selection(node) and selections.is_fixed_for_template(node)}
        self.tables = _tables(self.nodes)
        self.of_one_plan = frozenset[int]()
        self.run_nodes: dict[tuple[tuple[int, ...], frozenset[int]], list[Node]] = {}
        self.places: dict[int, int] = {}
        self.initial: list[Any] = [None] * (1 + max(GIVEN.values()))
        for node in self.nodes:
            self._place(node)
        self.steps = {
            node.number: (self.places[node.number], self._compute(node))
            for node in self.nodes
            if node.op not in GIVEN and node.op is not CONST
        }

    def _place(self, node: Node) -> None:
        if node.op in GIVEN:
            self.places[node.number] = GIVEN[node.op]
            return
        self.places[node.number] = len(self.initial)
        self.initial.append(node.value if node.op is CONST else None)

    def _compute(self, node: Node) -> Callable[[Registers], Any]:
        if is_selection(node):
            select, captures = self.selects[node.number]
            return _call(select, [FRAME, *(self.places[capture.number] for capture in captures)])
        function = node.op.vector if node.stage.of_columns else node.op.scalar
        if function is None:
            raise TypeError(f"{node.op.name} has no form for stage {node.stage.name}")
        places = [self.places[arg.number] for arg in node.args]
        return _call(function, [FRAME, *places] if node.op.reads_cluster and node.stage.of_columns else places)

    def program(self, groups: Mapping[str, Sequence[str]]) -> Program:
        roots = self.module.roots
        users = Counter(number for names in groups.values() for number in self._needed([roots[name] for name in names]))
        self.of_one_plan = frozenset(number for number, plans in users.items() if plans == 1)
        return Program(
            module=self.module,
            groups=groups,
            initial=tuple(self.initial),
            table_steps=self._steps(node for node in self.nodes if node.number in self.tables),
            pod_steps=self._steps(
                node for node in self.nodes if node.stage is Stage.POD and node.op not in GIVEN and node.number not in self.tables
            ),
            lasting=self._steps(node for node in self.nodes if node.number in self.lasting),
            counting=tuple(self._counting()),
            plans={group: self._plan([roots[name] for name in names]) for group, names in groups.items()},
            registers={name: self.places[node.number] for name, node in roots.items()},
        )

    def _counting(self) -> Iterator[tuple[selections.Counting, tuple[int, ...]]]:
        extremes: dict[int, set[bool]] = defaultdict(set)
        for node in self.nodes:
            if node.op.extreme is not None:
                extremes[node.args[0].number].add(node.op.extreme)
        for node in self.nodes:
            found = selections.counting(node, sorted(extremes[node.number])) if is_selection(node) else None
            if found is not None:
                function, captures = found
                yield function, tuple(self.places[capture.number] for capture in captures)
            if node.op.slow_reads is not None:
                yield (
                    partial(_slow_reads, node.op.slow_reads),
                    (POD, *(self.places[arg.number] for arg in node.args if arg.stage <= Stage.POD)),
                )

    def _run_nodes(self, roots: Sequence[Node], stop: frozenset[int] = frozenset()) -> list[Node]:
        """The RUN and DEVICE nodes that the roots need, operands first, without `stop` and the nodes that only those need."""
        asked = tuple([root.number for root in roots]), stop
        if asked not in self.run_nodes:
            nodes = ordered(roots, skip=lambda node: node.stage < Stage.RUN or node.number in stop)
            self.run_nodes[asked] = [node for node in nodes if node.stage.of_columns]
        return self.run_nodes[asked]

    def _steps(self, nodes: Iterable[Node]) -> tuple[Step, ...]:
        return tuple(self.steps[node.number] for node in nodes)

    def _needed(self, roots: Sequence[Node]) -> set[int]:
        """The numbers of the nodes that a plan for these roots reads, or gives."""
        return {arg.number for node in self._run_nodes(roots) for arg in self._read_by(node)} | {root.number for root in roots}

    def _read_by(self, node: Node) -> tuple[Node, ...]:
        """The nodes whose registers a step reads: of a selection those that it captures, because its operands are about a placed pod."""
        return self.selects[node.number][1] if is_selection(node) else node.args

    def _last_reads(self, rest: Sequence[Node], roots: Sequence[Node]) -> tuple[tuple[int, ...], ...]:
        """The registers that each step of a plan is the last to read, of those that the plan fills for itself alone."""
        own = {node.number for node in rest if node.number in self.of_one_plan} - {root.number for root in roots}
        last = {arg.number: step for step, node in enumerate(rest) for arg in self._read_by(node) if arg.number in own}
        found: list[list[int]] = [[] for _ in rest]
        for number, step in last.items():
            found[step].append(self.places[number])
        return tuple(map(tuple, found))

    def _plan(self, roots: Sequence[Node]) -> Plan:
        nodes = self._run_nodes(roots)
        wanted = {arg.number for user in nodes if user.volatility is not Volatility.STATIC for arg in user.args} | {r.number for r in roots}
        static = [n for n in nodes if n.volatility is Volatility.STATIC and n.rep is not Rep.OBJECT and n.number in wanted]
        rest = self._run_nodes(roots, frozenset(node.number for node in static))
        return Plan(
            outputs=tuple(self.places[root.number] for root in roots),
            steps=self._steps(nodes),
            static=tuple(self._static_part(node) for node in static),
            rest=self._steps(rest),
            last_reads=self._last_reads(rest, roots),
            weights=tuple(max(1, weight(node)) for node in rest),
            one_row=self._one_row(rest),
            may_warn=any(node.op.may_warn for node in nodes),
            dependencies=self._dependencies(nodes),
            domains=_domains(nodes),
        )

    def _one_row(self, nodes: Sequence[Node]) -> tuple[RowStep, ...] | None:
        steps = []
        for node in nodes:
            function, args, reads_cluster = node.op.at_row, node.args, node.op.reads_cluster
            if is_selection(node):
                (function, args), reads_cluster = self.selects[node.number], True
            if function is None:
                return None
            steps.append(
                RowStep(
                    self.places[node.number],
                    node.op,
                    function,
                    tuple(self.places[arg.number] for arg in args),
                    reads_cluster,
                    node.number in self.lasting,
                )
            )
        return tuple(steps)

    def _dependencies(self, nodes: Sequence[Node]) -> Dependencies:
        """The sources of changes outside of a node's own row: selections counted over domains, metrics and the time."""
        volatile = [node for node in nodes if node.volatility is Volatility.GLOBAL]
        selections_ = {arg.number: arg for node in volatile for arg in node.args if is_selection(arg)}
        groups = [node for node in volatile if node.op.key == leaves.OF_GROUPS]
        needed = {inner.number for inner in self._run_nodes([*selections_.values(), *groups])}
        steps = self._steps(node for node in nodes if node.number in needed)
        # The age of what is GLOBAL is GLOBAL itself, and yet changes with the time.
        reads_time = any(node.op.reads_time or node.volatility is Volatility.TIMED for node in nodes)
        namespaces = any(node.op is leaves.NAMESPACES for node in nodes)
        return Dependencies(
            steps,
            tuple(self.places[number] for number in selections_),
            tuple(self.places[node.number] for node in groups),
            reads_time=reads_time,
            namespaces=namespaces,
        )

    def _static_part(self, node: Node) -> StaticPart:
        nodes = self._run_nodes([node])
        depends = {self.places[number] for inner in nodes for number in _pod_values(inner)}
        return StaticPart(
            register=self.places[node.number],
            steps=self._steps(nodes),
            depends=tuple(sorted(depends)),
            of_pod=any(inner.op.of_pod for inner in nodes),
            own=node.own,
        )


def _domains(nodes: Sequence[Node]) -> tuple[str, ...] | None:
    """The topology keys that decide the values of these RUN nodes; None if one reads anything else of a node, or the time."""
    readers = [node for node in nodes if node.op.reads_cluster and not is_selection(node)]
    if any(node.op.topology is None for node in readers):
        return None
    return tuple(sorted({node.op.topology for node in readers if node.op.topology is not None}))


def _pod_values(node: Node) -> set[int]:
    """The POD values that an operation takes, including those that went into a lookup table."""
    found: set[int] = set()
    for arg in node.args:
        if arg.stage is not Stage.POD or arg.op is leaves.STRINGS:
            continue
        found |= _pod_values(arg) if arg.rep is Rep.OBJECT and leaves.STRINGS in {inner.op for inner in arg.args} else {arg.number}
    return found


def _slow_reads(
    reads: Callable[..., Iterator[ReadInSteps]], snapshot: Callable[[], Snapshot], values: Sequence[Any]
) -> Iterator[ReadInSteps]:
    return reads(snapshot, *values)


def _call(function: Callable[..., Any], places: Sequence[int]) -> Callable[[Registers], Any]:
    """A call of `function` on registers, with a case per number of arguments: this is the innermost loop."""
    if len(places) == 1:
        (a,) = places
        return lambda registers: function(registers[a])
    if len(places) == 2:
        a, b = places
        return lambda registers: function(registers[a], registers[b])
    if len(places) == 3:
        a, b, c = places
        return lambda registers: function(registers[a], registers[b], registers[c])
    return lambda registers: function(*[registers[place] for place in places])


def _tables(nodes: Iterable[Node]) -> frozenset[int]:
    """The numbers of the POD nodes that are made of the strings of the cluster and of constants."""
    found = set[int]()
    for node in nodes:  # operands first
        of_strings = [arg.number in found or arg.op is leaves.STRINGS for arg in node.args]
        others = (arg for arg, is_made in zip(node.args, of_strings, strict=True) if not is_made)
        if node.stage is Stage.POD and any(of_strings) and all(arg.op is CONST for arg in others):
            found.add(node.number)
    return frozenset(found)


def bound(
    program: Program,
    pod: PodView,
    *,
    strings: StringTable | None = None,
    at: EvaluationContext | None = None,
    tables: dict[int, Any] | None = None,
) -> Registers:
    """The registers with everything filled in that depends on the pod alone, and on time and objects if `at` is given.

    `tables` keeps what is the same for all pods on the cluster of these strings, by register.
    """
    registers, made = list(program.initial), {} if tables is None else tables
    registers[POD], registers[STRINGS], registers[CONTEXT] = pod, strings, at
    for register, compute in program.table_steps:
        if register not in made:
            made[register] = compute(registers)
        registers[register] = made[register]
    for register, compute in program.pod_steps:
        registers[register] = compute(registers)
    return registers


def with_frame(registers: Registers, frame: AtRows) -> Registers:
    """A copy of a pod's registers for one set of rows."""
    copy = registers.copy()
    copy[FRAME] = frame
    return copy
