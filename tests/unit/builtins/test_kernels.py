"""Every builtin's kernel equals its scalar reference, on random arguments and clusters, missing values included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.property import clusters
from wharfinger.builtins import CATALOGUE, texts
from wharfinger.builtins.signature import AtNode, AtRows
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import Function
from wharfinger.language.semantics.typed import MetricKey
from wharfinger.language.semantics.types import NUMERIC, Kind, Shape
from wharfinger.model.columns.arrays import StringTable
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.snapshot import Snapshot

TEXTS = ("", "a", "A", "host-1", "12", "-1.5", "1e3", "1_0", "v1.28.3", "1.27", "1.28.3-rc.1", "2.0.0+build", "x.y", "40Gi", "500m")
numbers = st.one_of(st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, 1e12]), st.floats(-1e15, 1e15), st.integers(-5, 5).map(float))
several = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))

PURE = [function for function in CATALOGUE.functions() if not function.context and function.vector is not function.scalar]
CONTEXTUAL = [function for function in CATALOGUE.functions() if function.context and function.result(()).shape is not Shape.DEVICE]
LITERALS: dict[str, st.SearchStrategy[Any]] = {
    "step": st.sampled_from([1.0, 0.25, 5.0]),
    "pattern": st.sampled_from(["^[0-9]+$", "a|A", "", "t-.$"]),
    "minimum": st.sampled_from(["1.28", "v2"]),
    "resource": st.sampled_from(["cpu", "memory", "ephemeral-storage", clusters.GPU, "none.example/of-these"]),
    "by": st.sampled_from([clusters.ZONE, clusters.HOSTNAME, "none"]),
    "effect": st.sampled_from(["", "NoSchedule", "PreferNoSchedule", "NoExecute"]),
    "taint": st.sampled_from(["spot", "old:NoSchedule", "old=x", "spot=:NoSchedule", "old:PreferNoSchedule"]),
    "key": st.sampled_from(["spot", "old", "none"]),
    "tz": st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu", "America/St_Johns"]),
    "workload": st.just(
        typed.Workload("typical", (typed.Request(cpu=1000.0, devices=1, weight=0.6), typed.Request(devices=2, milli=500.0, weight=0.4)))
    ),
    "metric": st.just(MetricKey(("a signal", "policy.load", "load"))),
}


def name_of(function: Function) -> str:
    return function.name


def same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, float):
        return repr(found) == repr(wanted)  # to the last bit and the sign of 0
    return bool(found == wanted)


def columns_of(answer: Any, n_rows: int) -> list[Any]:
    """The result of a kernel, one plain value per row, None where it is missing."""
    values, present = answer if isinstance(answer, tuple) else (answer, np.True_)
    values, present = np.broadcast_to(values, n_rows).tolist(), np.broadcast_to(present, n_rows).tolist()
    return [value if there else None for value, there in zip(values, present, strict=True)]


def arguments(function: Function, draw: Any, n_rows: int) -> list[Any]:
    """One argument per parameter: a list of values for what may differ between nodes, else one value."""
    extra = [function.variadic] * draw(st.integers(0, 2)) if function.variadic else []
    found: list[Any] = []
    for parameter in (*function.parameters, *extra):
        if parameter.literal or parameter.name in LITERALS:
            found.append(draw(LITERALS[parameter.name]))
        elif parameter.kinds & NUMERIC:
            found.append(draw(st.lists(numbers, min_size=n_rows, max_size=n_rows)))
        elif Kind.STRING in parameter.kinds:
            found.append(draw(st.lists(st.sampled_from(TEXTS), min_size=n_rows, max_size=n_rows)))
        else:
            found.append(None)
    return found


@pytest.mark.parametrize("function", PURE, ids=name_of)
def test_kernels_of_arguments_agree_with_the_scalar_functions(function: Function) -> None:
    @several
    @given(st.data(), st.integers(1, 5))
    def agree(data: st.DataObject, n_rows: int) -> None:
        given_ = arguments(function, data.draw, n_rows)
        strings = StringTable()
        textual = isinstance(function.vector, texts.Kernel)
        columns = [
            np.array([strings.code(value) if textual else value for value in argument]) if isinstance(argument, list) else argument
            for argument in given_
        ]
        with np.errstate(all="ignore"):
            answer = function.vector(*([strings] if textual else []), *columns)
        found = columns_of(answer, n_rows)
        if isinstance(function.vector, texts.Kernel) and function.vector.dtype is str:
            found = [None if code is None else strings.text(code) for code in found]
        for row in range(n_rows):
            wanted = function.scalar(*(argument[row] if isinstance(argument, list) else argument for argument in given_))
            assert same(found[row], wanted), (given_, row)

    agree()


@st.composite
def states(draw: st.DrawFn) -> ClusterState:
    state, names = clusters.drawn_state(draw, max_nodes=4, max_pods=6)
    if draw(st.booleans()):
        state.set_metric("load", draw(st.dictionaries(st.sampled_from(names), st.tuples(st.just(0.5), st.just(1_005.0)))))
    return state


def selected(pod: PodView) -> bool:
    return pod.labels.get("app") == "a"


def everything_selected(snapshot: Snapshot) -> list[tuple[int, PodView]]:
    return [(row, pod) for row in range(snapshot.n_nodes) for pod in snapshot.pods_on(row) if selected(pod)]


def as_scalar(snapshot: Snapshot, function: Function, given_: list[Any], row: int) -> list[Any]:
    special = {Kind.PODS: everything_selected(snapshot), Kind.NODE: snapshot.node(row)}
    parameters = [*function.parameters, *([function.variadic] if function.variadic else []) * len(given_)]
    kinds = [next(iter(parameter.kinds & special.keys()), None) for parameter in parameters]
    plain = [argument[row] if isinstance(argument, list) else argument for argument in given_]
    return [argument if kind is None else special[kind] for argument, kind in zip(plain, kinds, strict=False)]


@pytest.mark.parametrize("function", CONTEXTUAL, ids=name_of)
def test_kernels_over_the_cluster_agree_with_the_scalar_functions(function: Function) -> None:
    @several
    @given(states(), clusters.pods().map(PodView), st.data())
    def agree(state: ClusterState, pod: PodView, data: st.DataObject) -> None:
        snapshot = state.snapshot(now=1_010.0)
        n_rows = snapshot.n_nodes
        given_ = arguments(function, data.draw, n_rows)
        named = data.draw(st.dictionaries(LITERALS["resource"], st.sampled_from([1.0, 3.0]), max_size=2)) if function.named else {}
        selection = snapshot.selection("selected", selected)
        columns = [np.array(argument) if isinstance(argument, list) else argument for argument in given_]
        if function.parameters and Kind.PODS in function.parameters[0].kinds:
            columns[0] = selection
        for place, parameter in enumerate(function.parameters):
            if Kind.POD in parameter.kinds:
                columns[place] = given_[place] = pod
        with np.errstate(all="ignore"):
            found = columns_of(function.vector(AtRows(snapshot, pod, slice(None)), *columns, **named), n_rows)
        if function.result(()).kind is Kind.STRING:
            found = [None if code is None else snapshot.strings.text(code) for code in found]
        for row in range(n_rows):
            wanted = function.scalar(AtNode(snapshot, pod, row), *as_scalar(snapshot, function, given_, row), **named)
            assert same(found[row], wanted), (given_, named, row)

    agree()
