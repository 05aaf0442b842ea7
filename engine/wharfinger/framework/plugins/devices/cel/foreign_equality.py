"""Equality of versions and quantities with values of other types: an error in Kubernetes, false for the runtime, which sees maps.

`device.attributes["d"].version == "1.2.0"` becomes a test whether the left side is a value of a foreign type, and a comparison for each
answer; `!=` is true in Kubernetes too. Only comparisons of an entry of the device with a literal or another entry are rewritten, where
operators of a higher precedence are on neither side: these are the ones that people write by mistake. Others (through a variable, of a
function's result) stay false.
"""

from __future__ import annotations

import re

from wharfinger.framework.plugins.devices.cel.library import SAME_FOREIGN

_TEXT = r"""(?:"[^"\\\n]*"|'[^'\\\n]*')"""
_ENTRY = rf"device\s*\.\s*(?:attributes|capacity)\s*\[\s*{_TEXT}\s*\]\s*(?:\.\s*[A-Za-z_]\w*+|\[\s*{_TEXT}\s*\])(?!\s*\()"
_LITERAL = rf"(?:{_TEXT}|[0-9]+(?:\.[0-9]+)?|true\b|false\b)"
_COMPARISON = re.compile(
    rf"(?P<before>^|[(,?:\[]|&&|\|\|)\s*(?P<left>{_ENTRY})\s*==\s*(?P<right>{_ENTRY}|{_LITERAL})\s*(?=$|[),?:\]]|&&|\|\|)"
)
_STRING = re.compile(_TEXT)
_OTHER_STRING = re.compile(r"""\\|\"{3}|'{3}|\b[rRbB]{1,2}["']""")


def rewritten(expression: str) -> str:
    """An expression with the same answers but where a foreign value is compared with a value of another type: an error there."""
    if "device" not in expression or _OTHER_STRING.search(expression):
        return expression
    texts = [match.span() for match in _STRING.finditer(expression)]

    def guarded(match: re.Match[str]) -> str:
        if any(start < match.start("left") < end for start, end in texts):
            return match[0]
        left, right = match["left"], match["right"]
        return f"{match['before']} (type({left}) == map ? {SAME_FOREIGN}({left}, dyn({right})) : {left} == {right})"

    return _COMPARISON.sub(guarded, expression)
