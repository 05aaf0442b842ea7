"""Operations as straight Python code: each one line on local names, without a loop over steps."""

from __future__ import annotations

from functools import lru_cache
from types import CodeType

from wharfinger.compiler import ops
from wharfinger.compiler.ir import Op

INLINE: dict[Op, str] = {
    ops.ADD: "{0} + {1}",
    ops.SUB: "{0} - {1}",
    ops.MUL: "{0} * {1}",
    ops.DIV: "{0} / {1} if {1} else nan",
    ops.NEG: "-{0}",
    ops.EQ: "{0} == {1}",
    ops.NE: "{0} != {1}",
    ops.LT: "{0} < {1}",
    ops.LE: "{0} <= {1}",
    ops.GT: "{0} > {1}",
    ops.GE: "{0} >= {1}",
    ops.AND: "{0} and {1}",
    ops.OR: "{0} or {1}",
    ops.NOT: "not {0}",
    ops.WHERE: "{1} if {0} else {2}",
}
"""The operations that Python has a word for, on plain values; `nan` has to be a name."""


@lru_cache(maxsize=1000)
def byte_code(source: str) -> CodeType:
    """The byte code of a text: policies of one shape, and editions of one policy that differ in numbers, have the same."""
    return compile(source, "<policy>", "exec")
