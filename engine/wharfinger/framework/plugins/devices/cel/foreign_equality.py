"""Equality of versions, quantities and addresses with values of other types: an error in Kubernetes, false for the runtime.

The runtime sees maps instead. `left == right` becomes a comparison for each answer to whether the left side is a value of a foreign type.
In Kubernetes too, `!=` is true, and `==` is false where only the right side is foreign.
"""

from __future__ import annotations

from typing import Final

from wharfinger.framework.plugins.devices.cel import syntax_tree as tree

IS_FOREIGN: Final = "kubernetes_is_foreign"
SAME_FOREIGN: Final = "kubernetes_same_foreign"

_LEFT: Final = "@left"
_NEVER_FOREIGN: Final = (tree.CONSTANT, tree.LIST, tree.STRUCT)
_ENTRIES: Final = frozenset({"_?_:_", "_[_]", "_[?_]"})
"""The operators whose result may be foreign."""


def guarded(call: tree.Message, make: tree.Maker) -> bytes | None:
    """The comparison with the same answer but where a foreign value stands on its left; None for calls that cannot have one there."""
    sides = list(tree.every(call, 3))
    if tree.text(call, 2) != "_==_" or len(sides) != 2 or not _may_be_foreign(tree.fields(sides[0])):
        return None
    left, right = make.name(_LEFT), sides[1]
    foreign = make.call("_&&_", make.call("_==_", make.call("type", left), make.name("map")), make.call(IS_FOREIGN, left))
    same = make.call("_?_:_", foreign, make.call(SAME_FOREIGN, left, right), make.call("_==_", left, right))
    return make.bound(_LEFT, sides[0], same)


def _may_be_foreign(left: tree.Message) -> bool:
    if any(form in left for form in _NEVER_FOREIGN):
        return False
    selected = tree.fields(tree.first(left, tree.SELECT))
    if tree.text(selected, 2) in {"driver", "allowMultipleAllocations"}:
        return not tree.first(tree.fields(tree.first(selected, 1)), tree.IDENTIFIER)  # a field of `device`
    function = tree.text(tree.fields(tree.first(left, tree.CALL)), 2)
    return function in _ENTRIES or not function.startswith(("_", "!", "-"))
