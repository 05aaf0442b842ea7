"""Time, always relative to the snapshot's own time: there is no clock in a policy."""

from __future__ import annotations

from typing import Any

from wharfinger.builtins.context import AtMoment, AtNode, AtRows
from wharfinger.builtins.signatures import UNBOUNDED, always
from wharfinger.language.catalogue import Function, Parameter, Volatility
from wharfinger.language.types import Kind


def _age(context: AtNode | AtMoment, time: float) -> float:
    return float(context.now - time)


def _age_kernel(context: AtRows, time: Any) -> Any:
    return context.now - time


TIMES = (
    Function(
        name="age",
        parameters=(Parameter(name="time", kinds=frozenset({Kind.TIME})),),
        result=always(Kind.DURATION),
        doc="How long before the snapshot's own time that time was (negative when it is later).",
        example="age(node.created) >= 1h",
        scalar=_age,
        vector=_age_kernel,
        interval=lambda _: UNBOUNDED,
        context=True,
        volatility=Volatility.TIMED,
    ),
)
