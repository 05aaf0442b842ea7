"""Answers as plain values: the fields of structs in camelCase, mappings and sequences of any kind, members of enums."""

from collections import deque
from dataclasses import dataclass
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from msgspec import Struct

from wharfinger.language.report.plain_values import plain


class Part(Struct):
    min_count: int
    parts: tuple[Any, ...] = ()


@dataclass
class Side:
    node_name: str


class Pair(NamedTuple):
    first: int
    second: Part


class Way(Enum):
    OUT = "out"


class Word(StrEnum):
    YES = "yes"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("text", "text"),
        (None, None),
        (1.5, 1.5),
        (True, True),
        (Way.OUT, "out"),
        (Word.YES, "yes"),
        (Part(min_count=2), {"minCount": 2, "parts": []}),
        (Part(min_count=2, parts=(Part(min_count=1), Way.OUT)), {"minCount": 2, "parts": [{"minCount": 1, "parts": []}, "out"]}),
        (Side(node_name="n1"), {"nodeName": "n1"}),
        (Pair(1, Part(min_count=2)), [1, {"minCount": 2, "parts": []}]),
        ({"min_count": (Way.OUT,)}, {"min_count": ["out"]}),
        (MappingProxyType({"a_b": Side(node_name="n1")}), {"a_b": {"nodeName": "n1"}}),
        (deque([Way.OUT]), ["out"]),
        ([Way.OUT, [Side(node_name="n1")]], ["out", [{"nodeName": "n1"}]]),
        (range(3), [0, 1, 2]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_is_made_of_objects_lists_texts_and_numbers(value, expected):
    found = plain(value)
    assert found == expected
    assert type(found) is type(expected)
