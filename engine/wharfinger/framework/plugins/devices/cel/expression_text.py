"""What the text of a selector says about how it is answered: the entries of a device that it reads, and comparisons to rewrite.

Real devices differ in an id at least, so without `reads` an expression would have to be evaluated for each single one. Most expressions
name the attributes they read: `device.attributes["gpu.example.com"].model`. Devices that agree in those get the same answer. An expression
that uses the maps, or the device, in any other way (in a loop, in a variable) is supposed to read everything.

Versions and quantities are maps for the runtime, so their equality with values of other types is false there, and an error in Kubernetes.
`device.attributes["d"].version == "1.2.0"` becomes a test whether the left side is a value of a foreign type, and a comparison for each
answer; `!=` is true in Kubernetes too. Only comparisons of an entry of the device with a literal or another entry are rewritten, where
operators of a higher precedence are on neither side: these are the ones that people write by mistake. Others (through a variable, of a
function's result) stay false.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from wharfinger.framework.plugins.devices.cel.library import SAME_FOREIGN

_TEXT = r"""(?:"[^"\\\n]*"|'[^'\\\n]*')"""
_KEY = rf"""(?:\.\s*\??\s*([A-Za-z_]\w*+)|\[\s*\??\s*({_TEXT})\s*\])(?!\s*\()"""
_FIELD = rf"device\s*\.\s*(attributes|capacity)\s*\[\s*({_TEXT})\s*\]\s*{_KEY}"
_READ = re.compile(_FIELD)
_PLAIN = re.compile(r"device\s*\.\s*(?:driver|allowMultipleAllocations)\b")
_DEVICE = re.compile(r"\bdevice\b")

_ENTRY = rf"device\s*\.\s*(?:attributes|capacity)\s*\[\s*{_TEXT}\s*\]\s*(?:\.\s*[A-Za-z_]\w*+|\[\s*{_TEXT}\s*\])(?!\s*\()"
_LITERAL = rf"(?:{_TEXT}|[0-9]+(?:\.[0-9]+)?|true\b|false\b)"
_COMPARISON = re.compile(
    rf"(?P<before>^|[(,?:\[]|&&|\|\|)\s*(?P<left>{_ENTRY})\s*==\s*(?P<right>{_ENTRY}|{_LITERAL})\s*(?=$|[),?:\]]|&&|\|\|)"
)
_STRING = re.compile(_TEXT)
_OTHER_STRING = re.compile(r"""\\|\"{3}|'{3}|\b[rRbB]{1,2}["']""")


class Read(NamedTuple):
    """An entry of a map of a device: `attributes` or `capacity`, its domain and its name."""

    map: str
    domain: str
    name: str


@lru_cache(maxsize=4096)
def reads(expression: str) -> tuple[Read, ...] | None:
    """The entries that an expression reads, sorted; None if it may read any."""
    found = {Read(match[1], match[2][1:-1], match[3] or match[4][1:-1]) for match in _READ.finditer(expression)}
    known = len(_READ.findall(expression)) + len(_PLAIN.findall(expression))
    return tuple(sorted(found)) if len(_DEVICE.findall(expression)) == known else None


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
