"""What the text of a selector says about how it is answered: the entries of a device that it reads, and functions with other names here.

Real devices differ in an id at least, so without `reads` an expression would have to be evaluated for each single one. Most expressions
name the attributes they read: `device.attributes["gpu.example.com"].model`. Devices that agree in those get the same answer. An expression
that uses the maps, or the device, in any other way (in a loop, in a variable) is supposed to read everything.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_TEXT = r"""(?:"[^"\\\n]*"|'[^'\\\n]*')"""
_KEY = rf"""(?:\.\s*\??\s*([A-Za-z_]\w*+)|\[\s*\??\s*({_TEXT})\s*\])(?!\s*\()"""
_FIELD = rf"device\s*\.\s*(attributes|capacity)\s*\[\s*({_TEXT})\s*\]\s*{_KEY}"
_READ = re.compile(_FIELD)
_PLAIN = re.compile(r"device\s*\.\s*(?:driver|allowMultipleAllocations)\b")
_DEVICE = re.compile(r"\bdevice\b")

_RENAMED = re.compile(r"""(?s:\"{3}.*?\"{3}|'{3}.*?'{3})|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\.\s*(indexOf|lastIndexOf)(?=\s*\()""")


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


def renamed(expression: str) -> str:
    """An expression in which `indexOf` and `lastIndexOf` have the names that they have here; what stands in texts stays."""
    return _RENAMED.sub(lambda match: match[0] if match[1] is None else f".kubernetes_{match[1]}", expression)
