"""Columns that depend on nodes alone are kept between decisions, within a limit of memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from wharfinger.builtins.texts import CodeTable
from wharfinger.compiler import program
from wharfinger.compiler.bound import BoundPolicy
from wharfinger.compiler.program import CompiledPolicy, StaticColumns

from .texts import cluster, compiled, node, pod


def test_only_changed_rows_are_evaluated_again() -> None:
    state = cluster(node("a", labels={"x": "1"}), node("b"), node("c"))
    columns = StaticColumns()
    asked: list[Any] = []

    def read() -> list[int]:
        snapshot = state.snapshot()

        def evaluate(rows: Any) -> Any:
            asked.append(rows if isinstance(rows, slice) else rows.tolist())
            return snapshot.label("x")[rows]

        return columns.get("x", snapshot, evaluate).tolist()

    first = read()
    assert asked == [slice(None)]
    state.add_pod(pod("p", on="a"))
    assert read() == first
    assert len(asked) == 1
    state.update_node(node("b", labels={"x": "1"}))
    assert read() == [first[0], first[0], -1]
    assert asked[1:] == [[1]]
    state.add_node(node("d"))
    assert len(read()) == 4
    assert asked[2:] == [slice(None)]


def test_one_value_for_all_rows_becomes_a_column() -> None:
    snapshot = cluster(node("a"), node("b")).snapshot()
    assert StaticColumns().get("k", snapshot, lambda _: np.True_).tolist() == [True, True]


def test_the_oldest_are_forgotten() -> None:
    snapshot = cluster(node("a")).snapshot()
    columns = StaticColumns()
    calls: list[int] = []

    def evaluate(rows: Any) -> Any:
        calls.append(1)
        return np.zeros(1)[rows]

    for key in (*range(3), 0):
        columns.get(key, snapshot, evaluate)
    assert len(calls) == 3


def test_a_division_by_zero_is_missing_and_nothing_is_reported_about_it() -> None:
    """Evaluated for one node before all nodes."""
    text = """
    policy "p"
    let whole = ratio(node.allocatable.cpu, node.allocatable.cpu) ?? 0%
    score s weight 1 = clamp(node.pod_count + curve(whole, 0% -> 0, 100% -> 100), 0, 100)
    """
    policy, incoming = compiled(text), pod("p")
    snapshot = cluster(node("a", cpu="0"), node("b")).snapshot()
    one = BoundPolicy(policy, incoming, snapshot).one_row
    assert [one.score(0, snapshot, row) for row in range(2)] == [0, 100]


def test_tables_of_the_strings_of_a_cluster_are_made_once_for_all_pods() -> None:
    """They are as long as there are strings: one for each template would take gigabytes on a large cluster."""
    policy = compiled('policy "p"\nfilter f { require node.name in ["a", "b"] or starts_with(node.name, "c") }\n')
    state = cluster(node("a"), node("b"), node("d"))
    for name in ("p", "q"):
        found = BoundPolicy(policy, pod(name, labels={"app": name}), state.snapshot()).filter_bits(0, state.snapshot(), slice(None))
        assert found.tolist() == [0, 0, 1]
    tables = policy.static_columns(state.snapshot().strings).tables
    made = {register: table for register, table in tables.items() if isinstance(table, CodeTable)}
    assert len(made) == 2
    BoundPolicy(policy, pod("r", labels={"app": "r"}), state.snapshot()).filter_bits(0, state.snapshot(), slice(None))
    assert all(tables[register] is table for register, table in made.items())


TEXTS = 'policy "{}"\nscore s = (if starts_with(node.name, pod.labels["app"] ?? "") then 1 else 0) + node.pod_count normalize minmax\n'


def test_all_policies_together_keep_no_more_than_there_is_room_for_and_the_largest_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    state = cluster(node("a"), node("b"))
    snapshot = state.snapshot()
    monkeypatch.setattr(program, "MAX_CELLS_OF_ALL", 10 * snapshot.n_nodes)
    many, others = compiled(TEXTS.format("many")), [compiled(TEXTS.format(f"p{number}")) for number in range(3)]

    def kept() -> list[int]:
        return [len(policy.static_columns(snapshot.strings)) for policy in (many, *others)]

    def evaluate(policy: CompiledPolicy, app: str) -> None:
        BoundPolicy(policy, pod("p", labels={"app": app}), snapshot).score(0, snapshot, slice(None))

    for policy in others:
        evaluate(policy, "web")
    few = kept()[1:]
    assert all(few)
    for number in range(50):
        evaluate(many, f"app-{number}")
    assert kept() == [10 - sum(few), *few]

    larger = compiled(TEXTS.format("larger"))
    evaluate(larger, "web")
    assert kept() == [10 - sum(few) - len(larger.static_columns(snapshot.strings)), *few]
    del larger
    for number in range(50):
        evaluate(many, f"app-{number}")
    assert kept() == [10 - sum(few), *few]
