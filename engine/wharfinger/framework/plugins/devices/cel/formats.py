"""Named formats of strings in CEL: the errors of a string, in the words of Kubernetes.

Source: `format.go` of `apiserver/pkg/cel/library`, and the functions it names, Kubernetes 1.36.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Final

import re2

from wharfinger.framework.plugins.devices.cel.addresses import NO_OVERLOAD, Value
from wharfinger.framework.plugins.devices.cel.urls import url_error

FORMAT: Final = "format"

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE: Final = f"({_KEY})?"

_ALPHANUMERIC: Final = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
_WHAT_LABEL: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric "
    "character"
)
_WHAT_SUBDOMAIN: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an "
    "alphanumeric character"
)
_WHAT_LABEL_1035: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an "
    "alphanumeric character"
)
_WHAT_VALUE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character"
)

_MAX_LABEL: Final = 63
_MAX_SUBDOMAIN: Final = 253

_UUID: Final = re2.compile("(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_BASE64: Final = re2.compile("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_TIME: Final = re2.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")
_DATE: Final = re2.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")

Validate = Callable[[str], list[str]]


def _of_pattern(what: str, pattern: str, examples: tuple[str, ...]) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{what} (e.g. {shown}regex used for validation is '{pattern}')"


def _pattern(pattern: str, what: str, limit: int, *examples: str, unit: str = "characters") -> Validate:
    """The errors of a string with a limited number of bytes (characters in some messages) that must match a pattern."""
    compiled = re2.compile(pattern)

    def wrong(text: str) -> list[str]:
        long = [f"must be no more than {limit} {unit}"] if len(text.encode()) > limit else []
        return long if compiled.fullmatch(text) else [*long, _of_pattern(what, pattern, examples)]

    return wrong


_subdomain: Final = _pattern(_SUBDOMAIN, _WHAT_SUBDOMAIN, _MAX_SUBDOMAIN, "example.com")
_matches_subdomain: Final = re2.compile(_SUBDOMAIN).fullmatch
_any_label: Final = _pattern(_LABEL, _WHAT_LABEL, _MAX_LABEL, "my-name", "123-abc")


def _label(text: str) -> list[str]:
    wrong = _any_label(text)
    if wrong and "." in text and _matches_subdomain(text):
        wrong[-1] = "must not contain dots"
    return wrong


def _qualified_name(text: str) -> list[str]:
    prefix, slash, name = text.partition("/")
    examples = ("MyName", "my.name", "123-abc")
    if "/" in name:
        what = _of_pattern(f"a valid label key {_ALPHANUMERIC}", _KEY, examples)
        return [f"{what} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    wrong = []
    if slash:
        wrong = [f"prefix part {each}" for each in (_subdomain(prefix) if prefix else ["must be non-empty"])]
    else:
        name = text
    if not name:
        wrong.append("name part must be non-empty")
    return [*wrong, *(f"name part {each}" for each in _pattern(_KEY, _ALPHANUMERIC, _MAX_LABEL, *examples, unit="bytes")(name))]


def _prefix_of(validate: Validate) -> Validate:
    """The errors of a prefix, which may end in a dash."""

    def wrong(text: str) -> list[str]:
        return validate(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)

    return wrong


def _is_date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    year, month, day = map(int, text.split("-"))
    try:
        dt.date(year or 4, month, day)  # the year 0 is a leap year
    except ValueError:
        return False
    return True


def _is_datetime(text: str) -> bool:
    date, _, time = text.lower().partition("t")
    found = _TIME.fullmatch(time.partition("t")[0])
    return _is_date(date) and found is not None and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


def _check(test: Callable[[str], object], wrong: str) -> Validate:
    return lambda text: [] if test(text) else [wrong]


_FORMATS: Final[Mapping[str, Validate]] = {
    "dns1123Label": _label,
    "dns1123Subdomain": _subdomain,
    "dns1035Label": (_label_1035 := _pattern(_LABEL_1035, _WHAT_LABEL_1035, _MAX_LABEL, "my-name", "abc-123")),
    "qualifiedName": _qualified_name,
    "dns1123LabelPrefix": _prefix_of(_label),
    "dns1123SubdomainPrefix": _prefix_of(_subdomain),
    "dns1035LabelPrefix": _prefix_of(_label_1035),
    "labelValue": _pattern(_LABEL_VALUE, _WHAT_VALUE, _MAX_LABEL, "MyValue", "my_value", "12345", unit="bytes"),
    "uri": lambda text: [why] if (why := url_error(text)) else [],
    "uuid": _check(_UUID.fullmatch, "does not match the UUID format"),
    "byte": _check(_BASE64.fullmatch, "invalid base64"),
    "date": _check(_is_date, "invalid date"),
    "datetime": _check(_is_datetime, "invalid datetime"),
}
NAMES: Final = tuple(_FORMATS)


def named(name: str) -> dict[str, str]:
    """The value of a format; empty if there is none of that name."""
    return {FORMAT: name} if name in _FORMATS else {}


def validate(value: Value, text: str) -> list[str]:
    """The errors of a string."""
    if FORMAT not in value:
        raise ValueError(NO_OVERLOAD)
    return _FORMATS[value[FORMAT]](text)
