"""Selectors: compiled CEL expressions over one device, the fields that they read, and their answers.

An expression sees a device's driver, attributes, capacity and whether it may be shared (`DeviceTraits`), nothing else. So equal devices
share an answer, which is kept. Real devices differ in an id at least, and most expressions name the attributes that they read (`reads`):
`device.attributes["gpu.example.com"].model`. Devices that agree in those get the same answer. An expression that uses the maps, or the
device, in any other way (in a loop, in a variable) is supposed to read everything. So an expression is evaluated once per distinct set of
attributes, whatever the number of devices, nodes and pods. Source: `dynamic-resource-allocation/cel/compile.go`, Kubernetes 1.36.

An expression that may cost more than Kubernetes allows is refused before it is evaluated (`cost`), and what the selectors of one decision
cost together is limited too (`CostBudget`). The runtime is C++, kube-scheduler's is Go: the texts of their errors differ, and users of
kube-scheduler know the latter's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, cast

from msgspec import Struct, field

from wharfinger.errors import WharfingerError
from wharfinger.framework.plugins.devices.cel import library, optionals, rewriting, syntax_tree
from wharfinger.framework.plugins.devices.cel.addresses import NO_OVERLOAD, Value
from wharfinger.framework.plugins.devices.cel.cost import MAX_COST, MAX_LETTERS, MAX_MAP_ENTRIES, cost
from wharfinger.model import objects
from wharfinger.model.devices.pools import DeviceContent

FIELDS, MAX_FIELD_LENGTH = 4, len("allowMultipleAllocations")
UNLIMITED = 10**12
"""A cost beyond all limits."""
MAX_BYTES = 400_000
"""The limit of a compiled expression with its macros expanded: 10,240 characters, which Kubernetes allows, are rarely above 340,000."""
MAX_ESTIMATED_AGAIN = 20_000
"""The bytes of a compiled expression whose cost is estimated again for devices of another size, at most: some milliseconds each time.

A longer one costs for each device as much as for the largest that Kubernetes accepts.
"""
STEPS_OF_RUNTIME = 2
"""The first steps of compiling: to make the environment, and what the runtime does alone."""
MAX_SLOW = 400
"""The limit of minus signs, and of empty lists and maps, of an expression: the runtime takes 0.06 ms for each before a number, and time
with the square of the number of empty ones. It compiles any other expression of 10,240 characters in about 50 ms.
"""
EXPRESSIONS_OF_STEP = 64
"""The expressions within an expression that one step of compiling looks at: about a millisecond."""
MAX_ANSWERS = 100_000
"""The limit of kept answers of one selector; there are as many as distinct devices."""

Attribute = bool | int | str | Value
"""The value of an attribute: a version is `library.semver_value(text)`."""

COST_EXCEEDED = "operation cancelled: actual cost limit exceeded"

MAX_TOTAL_COST = 4_000_000
"""The maximum cost of the requests of one decision, besides `COST_OF_DEVICE` for each device: 0.1 s, once, as their answers are kept."""
COST_OF_DEVICE = 2_400
"""The part of a device of that limit: room for twelve answers, or for four that need an evaluation of a usual expression."""
COST_COMPILED, COST_OF_LETTER = 30_000, 100
"""The cost of compiling an expression, and each of its characters, once in a decision."""
COST_EACH = 200
"""The cost of a selector for a device, besides the cost of the evaluation if it is the first device with such attributes."""
COST_EVALUATED = 150
"""The cost of one evaluation, besides that of its expression."""

_STATUS = re.compile(r"[A-Z_]+: ")
_MISSING_KEY = re.compile(r"""Key not found in map : (?:(?P<quote>["'])(?P<text>.*)(?P=quote)|(?P<other>.*))""", re.DOTALL)
_ESCAPED = re.compile(r"\\(?:x([0-9a-f]{2})|(.))", re.DOTALL)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_NO_OVERLOAD = re.compile("No matching overloads? found")
_INDEX = re.compile(r"Index error: index=(-?\d+)")
_NOT_RETURNED = re.compile(r"Non-CEL value type for .*: ([\w.]+)\.$", re.DOTALL)
_NOT_RETURNED_KINDS = {"datetime.datetime": "timestamp", "datetime.timedelta": "duration", "cel_expr_python.cel.Type": "type"}
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


class DeviceTraits(Struct, frozen=True):
    """The properties of a device that a selector sees. Attributes and capacity are by domain and name; equal `key`s have equal traits."""

    driver: str
    attributes: Mapping[str, Mapping[str, Attribute]]
    capacity: Mapping[str, Mapping[str, Value]]
    allow_multiple_allocations: bool
    key: Hashable


class Selector(Struct):
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
            if len(self._serialized) > MAX_ESTIMATED_AGAIN and size <= (MAX_MAP_ENTRIES, MAX_LETTERS):
                return self.cost
            for _ in self._estimating(size):
                pass
        return self._costs[size]

    def _estimating(self, size: tuple[int, int]) -> Iterator[None]:
        found = yield from cost(self._serialized, *size)
        self._costs[size] = int(min(found, UNLIMITED))

    def matches(self, device: DeviceTraits) -> bool:
        """True if the device is selected; Raises SelectorFailed with kube-scheduler's text if the result is an error."""
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

        A domain that the device does not have is an empty map for Kubernetes. If an expression looks up such a domain in a variable, the
        expression fails at first, and is evaluated again with the domain added. (`in` of the same expression then finds the domain, which
        it does not in Kubernetes.)
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
                return COST_EXCEEDED if "budget" in str(error) else _shown(_line(error))
            kind = result.type().name()
            if kind == "BOOL":
                return bool(result.value())
            if kind != "ERROR":
                return _not_bool(kind, result)
            text = str(result.value())
            missing = _MISSING_KEY.search(text)
            domain = _missing_text(missing) if missing else None
            if domain is None or (domain in attributes and domain in capacity):
                return _shown(text)
            attributes.setdefault(domain, {})
            capacity.setdefault(domain, {})


def _not_bool(kind: str, result: Any) -> str:
    name = kind.partition("<")[0].lower()
    foreign = next((foreign for key, foreign in _FOREIGN.items() if name == "map" and key in result.plain_value()), None)
    if foreign:
        name, reason = f"kubernetes.{foreign}", f"type conversion error from '{foreign}' to 'bool'"
    else:
        reason = _NOT_BOOL.get(name, f"type conversion error from '{name}' to 'bool'")
    return f"CEL result of type {name} could not be converted to bool: {reason}"


def _missing_text(missing: re.Match[str]) -> str | None:
    """The key of an error that names a missing key; None if it is no text."""
    return missing["text"] and _ESCAPED.sub(
        lambda match: chr(int(match[1], 16)) if match[1] else _ESCAPES.get(match[2], match[2]), missing["text"]
    )


def _shown(text: str) -> str:
    """The text of an error as kube-scheduler shows it."""
    missing = _MISSING_KEY.search(text)
    if missing:
        key = _missing_text(missing)
        return f"no such key: {missing['other'] if key is None else key}"
    if _NO_OVERLOAD.search(text):
        return NO_OVERLOAD
    if outside := _INDEX.search(text):
        return f"index out of bounds: {outside[1]}"
    if returned := _NOT_RETURNED.search(text):
        return f"a function of lists or maps gives back no {_NOT_RETURNED_KINDS.get(returned[1], 'such value')} here"
    plain = _STATUS.sub("", text, count=1)
    return _TEXTS.get(plain, plain)


class _Kept(Struct):
    """The kept outcome of an expression: its selector, or why there is none. None before it is compiled."""

    found: Selector | SelectorFailed | None = None


@lru_cache(maxsize=4096)
def _kept(expression: str) -> _Kept:  # noqa: ARG001 — the key
    return _Kept()


def compiled(expression: str) -> Selector | SelectorFailed:
    """The selector of an expression, or why it cannot be compiled. Compiled once."""
    kept = _kept(expression)
    for _ in compiling(expression):
        pass
    return cast("Selector | SelectorFailed", kept.found)


def compiling(expression: str) -> Iterator[None]:
    """The steps of compiling an expression for `compiled`; none if this was done before."""
    kept = _kept(expression)
    if kept.found is None:
        for number, _ in enumerate(_compiling(expression, kept)):
            if number < STEPS_OF_RUNTIME or number % EXPRESSIONS_OF_STEP == 0:
                yield


def _compiling(expression: str, kept: _Kept) -> Iterator[None]:
    if slow := _too_slow(expression):
        kept.found = SelectorFailed(f"{slow}, which take long to compile here")
        return
    environment = _environment(rewriting.variables(expression))
    yield
    try:
        program = environment.compile(_renamed(expression))
        kind = program.return_type().name()
        if kind not in {"BOOL", "DYN"}:
            kept.found = SelectorFailed(f"must evaluate to bool or the unknown type, not {kind.lower()}")
            return
        yield
        serialized = yield from syntax_tree.rewritten(program.serialize(), rewriting.EXPANDED, rewriting.expanded)
        cost_bound = (yield from cost(serialized)) if len(serialized) <= MAX_BYTES else UNLIMITED
        if cost_bound > MAX_COST:
            kept.found = SelectorFailed("too complex, exceeds cost limit")
            return
        guarded = yield from syntax_tree.rewritten(serialized, rewriting.GUARDED, rewriting.guarded)
        if refused := (yield from optionals.refusal(guarded)):
            kept.found = SelectorFailed(refused)
            return
        kept.found = Selector(expression, int(cost_bound), environment.deserialize(guarded), serialized)
    except RuntimeError as error:  # the only error of the library
        kept.found = SelectorFailed(f"compilation failed: {_line(error)}")


def _size(device: DeviceTraits) -> tuple[int, int]:
    """The entries of the largest map of a device, and the characters of its longest text, each as the next power of two."""
    domains = [*device.attributes.values(), *device.capacity.values()]
    entries = max(len(device.attributes), len(device.capacity), *(len(own) for own in domains), FIELDS)
    letters = max((len(str(text)) for own in domains for entry in own.items() for text in entry), default=0)
    longest = max(letters, MAX_FIELD_LENGTH, *map(len, device.attributes), *map(len, device.capacity))
    return 1 << (entries - 1).bit_length(), 1 << (longest - 1).bit_length()


def _line(error: RuntimeError) -> str:
    """An error on one line, for events and reports: the text names the place, so the marked excerpt below it is left out."""
    text = _STATUS.sub("", str(error).removesuffix(" [INVALID_ARGUMENT]"), count=1)
    return "; ".join(line for line in text.splitlines() if not line.startswith(" | "))


@lru_cache(maxsize=64)
def _environment(names: frozenset[str]) -> Any:
    """The environment of selectors with these variables of macros; made at its first use, because loading the runtime takes a while."""
    from cel_expr_python import cel  # noqa: PLC0415 — only clusters with claims need it
    from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings  # noqa: PLC0415

    excluded = "".join(f"  - name: {name}\n" for name in library.EXCLUDED)
    return cel.NewEnv(
        config=cel.NewEnvConfigFromYaml(f"stdlib:\n  exclude_functions:\n{excluded}"),
        variables=dict.fromkeys({"device", *names}, cel.Type.DYN),
        extensions=[ext_bindings.ExtBindings(), ext_optional.ExtOptional(), ext_strings.ExtStrings(2)],
        functions=[*library.functions(cel), *rewriting.declarations(cel)],
    )


# `*+` keeps all that it matched. So a search takes time in proportion to the length of any expression.
_TEXT = r"""(?:"[^"\\\n]*+"|'[^'\\\n]*+')"""
_KEY = rf"""(?:\.\s*+(?:\?\s*+)?+([A-Za-z_]\w*+)|\[\s*+(?:\?\s*+)?+({_TEXT})\s*+\])(?!\s*+\()"""
_FIELD = rf"device\s*+\.\s*+(attributes|capacity)\s*+\[\s*+({_TEXT})\s*+\]\s*+{_KEY}"
_READ = re.compile(_FIELD)
_PLAIN = re.compile(r"device\s*+\.\s*+(?:driver|allowMultipleAllocations)\b")
_DEVICE = re.compile(r"\bdevice\b")

_LITERAL = (
    r"""(?s://[^\n]*+|(?<!\w)(?:[rR][bB]?|[bB][rR])(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"[^"\n]*+"|'[^'\n]*+')|\"{3}.*?\"{3}|'{3}.*?'{3})"""
    r"""|"(?:\\.|[^"\\])*+"?|'(?:\\.|[^'\\])*+'?"""
)
"""A comment, or a string: a raw one, one over several lines, or another one."""
_RENAMED = re.compile(rf"{_LITERAL}|\.\s*+(indexOf|lastIndexOf)(?=\s*+\()")
_SLOW = re.compile(rf"{_LITERAL}|(?P<minus>-)|(?P<empty>[\[{{](?:\s|//[^\n]*+)*+[\]}}])")


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


def _too_slow(expression: str) -> str:
    """The reason why the runtime would take long to compile an expression; "" if it would not."""
    count = Counter(match.lastgroup for match in _SLOW.finditer(expression))
    found = {"minus signs": count["minus"], "empty lists and maps": count["empty"]}
    return ", ".join(f"more than {MAX_SLOW} {name}" for name, number in found.items() if number > MAX_SLOW)


def _renamed(expression: str) -> str:
    """An expression in which `indexOf` and `lastIndexOf` have their names of this module; string literals are unchanged.

    A string without an end is one up to the end of the expression, which is then refused.
    """
    return _RENAMED.sub(lambda match: match[0] if match[1] is None else f".kubernetes_{match[1]}", expression)


TypedValue = tuple[str, Hashable]
"""The kind and value of an attribute; two attributes are equal if both are."""


UNKNOWN_KIND: TypedValue = ("", None)


class CostBudget:
    """The cost of requests of claims in one decision: of their selectors, and of all other checks of each device.

    What was kept from an earlier decision costs the same as if it were new. Once the limit is reached nothing more is answered.
    """

    __slots__ = ("_cost", "_known", "_limit", "exhausted")

    def __init__(self) -> None:
        self._cost = 0
        self._limit = MAX_TOTAL_COST
        self._known: set[Hashable] = set()
        self.exhausted = False

    def begin(self) -> None:
        """Add the budget of the next device."""
        self._limit += COST_OF_DEVICE

    def spend(self, cost: int) -> bool:
        """Spend this cost; True if it is within the budget."""
        self._cost += cost
        self.exhausted |= self._cost > self._limit
        return not self.exhausted

    def compile(self, expression: str) -> Selector | SelectorFailed | None:
        """The selector of an expression, or why it cannot be compiled; None if too much was spent."""
        self._spend_on(expression)
        return None if self.exhausted else compiled(expression)

    def compiling(self, expression: str) -> Iterator[None]:
        """The steps of compiling an expression for `compile`; none if too much was spent."""
        self._spend_on(expression)
        if not self.exhausted:
            yield from compiling(expression)

    def _spend_on(self, expression: str) -> None:
        if expression not in self._known:
            self._known.add(expression)
            self.spend(COST_COMPILED + COST_OF_LETTER * len(expression))

    def answer(self, selector: Selector, traits: DeviceTraits) -> bool:
        """The answer of a selector; SelectorFailed if there is none, or too much was spent."""
        key = selector.expression, traits.key
        known = key in self._known
        self._known.add(key)
        if not self.spend(COST_EACH if known else COST_EACH + COST_EVALUATED + selector.cost_of(traits)):
            raise SelectorFailed(COST_EXCEEDED)
        return selector.matches(traits)


def selected(selector: objects.DeviceSelector, content: DeviceContent, cost_budget: CostBudget) -> bool | str:
    """The answer of a selector, or the text of its error."""
    if selector.cel is None:
        return "CEL expression empty (unsupported selector type?)"
    program = cost_budget.compile(selector.cel.expression)
    if program is None:
        return f"CEL runtime error: {COST_EXCEEDED}"
    if not isinstance(program, Selector):
        return f"CEL compile error: {program}"
    try:
        return cost_budget.answer(program, _traits_for(content, reads(selector.cel.expression)))
    except (SelectorFailed, ValueError) as error:
        return f"CEL runtime error: {error}"


def _traits_for(content: DeviceContent, read: tuple[Read, ...] | None) -> DeviceTraits:
    """The traits of a device for a selector that reads only these entries (None: all). All attributes must be valid, read or not."""
    if read is None:
        return content.once("traits", _traits)
    if text := content.once("unreadable", _unreadable):
        raise ValueError(text)
    return _part(content.driver, content.device.allow_multiple_allocations, read, tuple(_entry(content, each) for each in read))


def _traits(content: DeviceContent) -> DeviceTraits:
    """The properties of a device that a selector sees; ValueError for an attribute that cannot be read."""
    attributes: dict[str, dict[str, Attribute]] = {}
    for name, attribute in content.device.attributes.items():
        domain, own = _qualified(name, content.driver)
        attributes.setdefault(domain, {})[own] = _read(name, attribute)
    capacity: dict[str, dict[str, Value]] = {}
    for name, each in content.device.capacity.items():
        domain, own = _qualified(name, content.driver)
        capacity.setdefault(domain, {})[own] = library.quantity_value(each.value)
    shareable = content.device.allow_multiple_allocations
    key = (content.driver, shareable, _frozen(attributes), _frozen(capacity))
    return DeviceTraits(driver=content.driver, attributes=attributes, capacity=capacity, allow_multiple_allocations=shareable, key=key)


def _entry(content: DeviceContent, read: Read) -> TypedValue | None:
    if read.map == "attributes":
        return attribute_value(content.device, content.driver, f"{read.domain}/{read.name}")
    found = content.device.capacity.get(f"{read.domain}/{read.name}")
    if found is None and read.domain == content.driver:
        found = content.device.capacity.get(read.name)
    return None if found is None else ("capacity", found.value)


@lru_cache(maxsize=65536)
def _part(driver: str, shareable: bool, read: tuple[Read, ...], values: tuple[TypedValue | None, ...]) -> DeviceTraits:
    attributes: dict[str, dict[str, Attribute]] = {}
    capacity: dict[str, dict[str, Value]] = {}
    for (of, domain, name), typed in zip(read, values, strict=True):
        if typed is None:
            continue
        kind, value = typed
        if of == "capacity":
            capacity.setdefault(domain, {})[name] = library.quantity_value(str(value))
        else:
            attributes.setdefault(domain, {})[name] = (
                library.semver_value(str(value)) if kind == "version_value" else cast("Attribute", value)
            )
    key = (driver, shareable, _frozen(attributes), _frozen(capacity))
    return DeviceTraits(driver=driver, attributes=attributes, capacity=capacity, allow_multiple_allocations=shareable, key=key)


def _unreadable(content: DeviceContent) -> str:
    """The error of the first attribute that cannot be read; "" if there is none."""
    for name, attribute in content.device.attributes.items():
        if attribute.version_value is not None or attribute.value is None:
            try:
                _read(name, attribute)
            except ValueError as error:
                return str(error)
    return ""


def _frozen(by_domain: Mapping[str, Mapping[str, Attribute]]) -> Hashable:
    """A value that is equal for equal traits: true is not 1, and a text is no version."""
    return tuple(
        sorted((domain, name, type(value).__name__, str(value)) for domain, own in by_domain.items() for name, value in own.items())
    )


def _read(name: str, attribute: objects.DeviceAttribute) -> Attribute:
    if attribute.version_value is not None:
        try:
            return library.semver_value(attribute.version_value)
        except ValueError as error:
            raise ValueError(f"attribute {name}: parse semantic version: {error}") from None
    value = attribute.value
    if value is None:
        raise ValueError(f"attribute {name}: unsupported attribute value")
    return value


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, own = name.partition("/")
    return (domain, own) if slash else (driver, name)


def attribute_value(device: objects.Device, driver: str, name: str) -> TypedValue | None:
    """The value of an attribute by its full name (`lookupAttribute`); None if the device does not have it."""
    attribute = device.attributes.get(name)
    domain, slash, own = name.partition("/")
    if attribute is None and slash and domain == driver:
        attribute = device.attributes.get(own)
    if attribute is None:
        return None
    for kind in ("string_value", "int_value", "bool_value", "version_value"):
        value = getattr(attribute, kind)
        if value is not None:
            return kind, value
    return UNKNOWN_KIND
