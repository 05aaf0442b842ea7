"""Selectors: compiled CEL expressions over one device, and their answers.

An expression that may cost more than Kubernetes allows is refused before it is evaluated (`cost`).

An expression sees a device's driver, attributes, capacity and whether it may be shared, nothing else. So equal devices share an answer,
which is kept: an expression is evaluated once per distinct set of attributes, whatever the number of devices, nodes and pods. Source:
`dynamic-resource-allocation/cel/compile.go`, Kubernetes 1.36.

The runtime is C++, kube-scheduler's is Go: the texts of their errors differ, and users of kube-scheduler know the latter's.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from wharfinger.errors import WharfingerError
from wharfinger.framework.plugins.devices.cel import expression_text, foreign_equality, library, macros, syntax_tree
from wharfinger.framework.plugins.devices.cel.cost import MAX_COST, cost

FIELDS, MAX_FIELD_LENGTH = 4, len("allowMultipleAllocations")
UNLIMITED = 10**12
"""A cost beyond all limits."""
MAX_ANSWERS = 100_000
"""The limit of kept answers of one selector; there are as many as distinct devices."""

Attribute = bool | int | str | library.Value
"""The value of an attribute: a version is `library.semver_value(text)`."""

COST_EXCEEDED = "operation cancelled: actual cost limit exceeded"

_STATUS = re.compile(r"[A-Z_]+: ")
_MISSING_KEY = re.compile(r'Key not found in map : (?:"(?P<text>.*)"|(?P<other>.*))', re.DOTALL)
_NO_OVERLOAD = re.compile("No matching overloads? found")
_INDEX = re.compile(r"Index error: index=(-?\d+)")
_TEXTS = {"divide by zero": "division by zero", "modulo by zero": "modulus by zero"}

_NOT_BOOL = {
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "string": "unsupported native conversion from string to 'bool'",
    "list": "type conversion error from list to 'bool'",
    "map": "unsupported type conversion: bool to map",
    "bytes": "type conversion error from Bytes to 'bool'",
    "null_type": "type conversion error from 'null_type' to 'bool'",
    "timestamp": "type conversion error from 'Timestamp' to 'bool'",
    "duration": "type conversion error from 'Duration' to 'bool'",
}
_FOREIGN = {library.QUANTITY: "Quantity", library.SEMVER: "Semver"}


class SelectorFailed(WharfingerError):
    """A selector has no answer for a device: a compile error, or an error at run time such as a missing attribute."""


@dataclass(frozen=True, slots=True)
class DeviceTraits:
    """What a selector sees of a device. Attributes and capacity are by domain and name; equal `key`s have equal traits."""

    driver: str
    attributes: Mapping[str, Mapping[str, Attribute]]
    capacity: Mapping[str, Mapping[str, library.Value]]
    allow_multiple_allocations: bool
    key: Hashable


@dataclass(slots=True)
class Selector:
    """A compiled expression, the most that it costs (`cost`) for any device, and the answers it has given."""

    expression: str
    cost: int
    _program: Any
    _serialized: bytes = b""
    _answers: dict[Hashable, bool | str] = field(default_factory=dict)
    _costs: dict[tuple[int, int], int] = field(default_factory=dict)

    def cost_of(self, device: DeviceTraits) -> int:
        """The most that it costs for a device as large as this one."""
        size = _size(device)
        if size not in self._costs:
            self._costs[size] = int(min(cost(self._serialized, *size), UNLIMITED))
        return self._costs[size]

    def matches(self, device: DeviceTraits) -> bool:
        """True if the device is selected; SelectorFailed with kube-scheduler's text if that cannot be said."""
        answer = self._answers.get(device.key)
        if answer is None:
            if len(self._answers) >= MAX_ANSWERS:
                self._answers.clear()
            answer = self._answers[device.key] = self._evaluate(device)
        if isinstance(answer, str):
            raise SelectorFailed(answer)
        return answer

    def _evaluate(self, device: DeviceTraits) -> bool | str:
        """The answer, or the text of the error.

        A domain that the device does not have is an empty map for Kubernetes. The runtime takes plain dicts only, so a domain is added when
        the expression has failed for lack of it (`in` of the same expression then finds the domain, which it does not in Kubernetes).
        """
        attributes, capacity = dict(device.attributes), dict(device.capacity)
        while True:
            seen = {
                "driver": device.driver,
                "allowMultipleAllocations": device.allow_multiple_allocations,
                "attributes": attributes,
                "capacity": capacity,
            }
            try:
                result = self._program.eval(data={"device": seen})
            except RuntimeError as error:  # the only error of the library: a limit of the runtime
                return COST_EXCEEDED if "budget" in str(error) else _line(error)
            kind = result.type().name()
            if kind == "BOOL":
                return bool(result.value())
            if kind != "ERROR":
                return _not_bool(kind, result)
            text = str(result.value())
            missing = _MISSING_KEY.search(text)
            domain = missing["text"] if missing else None
            if domain is None or (domain in attributes and domain in capacity):
                return _shown(text)
            attributes.setdefault(domain, {})
            capacity.setdefault(domain, {})


def _not_bool(kind: str, result: Any) -> str:
    value = result.plain_value()
    name = kind.partition("<")[0].lower()
    foreign = next((foreign for key, foreign in _FOREIGN.items() if name == "map" and key in value), None)
    if foreign:
        name, reason = f"kubernetes.{foreign}", f"type conversion error from '{foreign}' to 'bool'"
    else:
        reason = _NOT_BOOL.get(name, f"type conversion error from '{name}' to 'bool'")
    return f"CEL result of type {name} could not be converted to bool: {reason}"


def _shown(text: str) -> str:
    """The text of an error as kube-scheduler shows it."""
    missing = _MISSING_KEY.search(text)
    if missing:
        return f"no such key: {missing['text'] if missing['text'] is not None else missing['other']}"
    if _NO_OVERLOAD.search(text):
        return library.NO_OVERLOAD
    if outside := _INDEX.search(text):
        return f"index out of bounds: {outside[1]}"
    plain = _STATUS.sub("", text, count=1)
    return _TEXTS.get(plain, plain)


@lru_cache(maxsize=4096)
def compiled(expression: str) -> Selector | SelectorFailed:
    """The selector of an expression, or why it cannot be compiled. Compiled once."""
    environment = _environment(macros.variables(expression))
    try:
        program = environment.compile(expression_text.renamed(expression))
        kind = program.return_type().name()
        if kind not in {"BOOL", "DYN"}:
            return SelectorFailed(f"must evaluate to bool or the unknown type, not {kind.lower()}")
        serialized = syntax_tree.rewritten(program.serialize(), macros.loop)
        dearest = cost(serialized)
        if dearest > MAX_COST:
            return SelectorFailed("too complex, exceeds cost limit")
        program = environment.deserialize(syntax_tree.rewritten(serialized, foreign_equality.guarded))
        return Selector(expression, int(dearest), program, serialized)
    except RuntimeError as error:  # the only error of the library
        return SelectorFailed(f"compilation failed: {_line(error)}")


def _size(device: DeviceTraits) -> tuple[int, int]:
    """The entries of the largest map of a device, and the characters of its longest text, each as the next power of two."""
    domains = [*device.attributes.values(), *device.capacity.values()]
    entries = max(len(device.attributes), len(device.capacity), *(len(own) for own in domains), FIELDS)
    letters = max((len(str(text)) for own in domains for entry in own.items() for text in entry), default=0)
    longest = max(letters, MAX_FIELD_LENGTH, *map(len, device.attributes), *map(len, device.capacity))
    return 1 << (entries - 1).bit_length(), 1 << (longest - 1).bit_length()


def _line(error: RuntimeError) -> str:
    """An error on one line, as events and reports have it: the place is in the text already, the drawing of it below is left out."""
    text = _STATUS.sub("", str(error).removesuffix(" [INVALID_ARGUMENT]"), count=1)
    return "; ".join(line for line in text.splitlines() if not line.startswith(" | "))


@lru_cache(maxsize=64)
def _environment(names: frozenset[str]) -> Any:
    """The environment of selectors with these variables of macros; made at its first use, because loading the runtime takes a while."""
    from cel_expr_python import cel  # noqa: PLC0415 — only clusters with claims need it
    from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings  # noqa: PLC0415

    return cel.NewEnv(
        variables=dict.fromkeys({"device", *names}, cel.Type.DYN),
        extensions=[ext_bindings.ExtBindings(), ext_optional.ExtOptional(), ext_strings.ExtStrings(2)],
        functions=[*library.functions(cel), *macros.declarations(cel)],
    )
