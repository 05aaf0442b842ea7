"""IP addresses and networks in CEL, read and written as Go does it, with its texts of errors.

Source: `net/netip` of Go, and `ip.go` and `cidr.go` of `apiserver/pkg/cel/library`, Kubernetes 1.36. A value is a map with one key that
names its type (see `library`). Its text is canonical, so equal values have equal maps. A function raises ValueError with the text that the
user sees.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

IP: Final = "ip"
CIDR: Final = "cidr"
NO_OVERLOAD: Final = "no such overload"

Value = Mapping[str, Any]
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


def quoted(text: str) -> str:
    """A text in quotes as Go writes it (`strconv.Quote`)."""
    return f'"{"".join(map(_quoted_letter, text))}"'


def _quoted_letter(letter: str) -> str:
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    if letter.isprintable():
        return letter
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# ── addresses ──


def _fail(text: str, message: str, at: str = "") -> NoReturn:
    place = f" (at {quoted(at)})" if at else ""
    raise ValueError(f"ParseAddr({quoted(text)}): {message}{place}")


def parsed_address(text: str) -> tuple[Address, str]:
    """The address and its zone; ValueError for an invalid text (`netip.ParseAddr`)."""
    first = re.search("[.:%]", text)
    if first is None:
        _fail(text, "unable to parse IP")
    if first[0] == "%":
        _fail(text, "missing IPv6 address")
    if first[0] == ".":
        return ipaddress.IPv4Address(bytes(_octets(text, text))), ""
    groups, zone = _groups(text)
    return ipaddress.IPv6Address(b"".join(group.to_bytes(2, "big") for group in groups)), zone


def _octets(text: str, part: str) -> list[int]:
    """The bytes of an IPv4 address, which is a part of the text."""
    found: list[int] = []
    value = digits = 0
    for place, letter in enumerate(part):
        if "0" <= letter <= "9":
            if digits == 1 and value == 0:
                _fail(text, "IPv4 field has octet with leading zero")
            value, digits = 10 * value + int(letter), digits + 1
            if value > 255:
                _fail(text, "IPv4 field has value >255")
        elif letter == ".":
            if place in {0, len(part) - 1} or part[place - 1] == ".":
                _fail(text, "IPv4 field must have at least one digit", part[place:])
            if len(found) == 3:
                _fail(text, "IPv4 address too long")
            found.append(value)
            value = digits = 0
        else:
            _fail(text, "unexpected character", part[place:])
    if len(found) < 3:
        _fail(text, "IPv4 address too short")
    return [*found, value]


def _groups(text: str) -> tuple[list[int], str]:  # noqa: C901, PLR0912 — as Go reads it, an error for each way to be wrong
    """The eight numbers of an IPv6 address, and its zone."""
    left, percent, zone = text.partition("%")
    if percent and not zone:
        _fail(text, "zone must be a non-empty string")
    found: list[int] = []
    zeros = -1
    if left.startswith("::"):
        zeros, left = 0, left[2:]
        if not left:
            return [0] * 8, zone
    while len(found) < 8:
        size = re.match("[0-9a-fA-F]*", left).end()  # type: ignore[union-attr]  # it always matches
        if size > 4:
            _fail(text, "each group must have 4 or less digits", left)
        if not size:
            _fail(text, "each colon-separated field must have at least one digit", left)
        if left[size : size + 1] == ".":
            if zeros < 0 and len(found) != 6:
                _fail(text, "embedded IPv4 address must replace the final 2 fields of the address", left)
            if len(found) > 6:
                _fail(text, "too many hex fields to fit an embedded IPv4 at the end of the address", left)
            one, two, three, four = _octets(text, left)
            found += [one << 8 | two, three << 8 | four]
            left = ""
            break
        found.append(int(left[:size], 16))
        left = left[size:]
        if not left:
            break
        if left[0] != ":":
            _fail(text, "unexpected character, want colon", left)
        if len(left) == 1:
            _fail(text, "colon must be followed by more characters", left)
        left = left[1:]
        if left[0] == ":":
            if zeros >= 0:
                _fail(text, "multiple :: in address", left)
            zeros, left = len(found), left[1:]
            if not left:
                break
    if left:
        _fail(text, "trailing garbage after address", left)
    if len(found) == 8 and zeros >= 0:
        _fail(text, "the :: must expand to at least one field of zeros")
    if len(found) < 8 and zeros < 0:
        _fail(text, "address string too short")
    return [*found[:zeros], *[0] * (8 - len(found)), *found[zeros:]] if zeros >= 0 else found, zone


def _is_mapped(address: Address) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None


def ip(text: str) -> dict[str, str]:
    """The value of an address."""
    try:
        address, zone = parsed_address(text)
    except ValueError as error:
        raise ValueError(f"IP Address {quoted(text)} parse error during conversion from string: {error}") from None
    if zone:
        raise ValueError(f"IP address {quoted(text)} with zone value is not allowed")
    if _is_mapped(address):
        raise ValueError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return {IP: str(address)}


def cidr(text: str) -> dict[str, str]:
    """The value of a network with an address in it."""
    try:
        address, length = _prefix(text)
    except ValueError as error:
        # Kubernetes repeats it.
        again = "network address parse error during conversion from string: "
        raise ValueError(f"{again}{again}netip.ParsePrefix({quoted(text)}): {error}") from None
    if _is_mapped(address):
        raise ValueError(
            f"network address parse error during conversion from string: IPv4-mapped IPv6 address {quoted(text)} is not allowed"
        )
    return {CIDR: f"{address}/{length}"}


def _prefix(text: str) -> tuple[Address, int]:
    """An address and the length of its network (`netip.ParsePrefix`)."""
    start, slash, bits = text.rpartition("/")
    if not slash:
        raise ValueError("no '/'")
    address, zone = parsed_address(start)
    if zone:
        raise ValueError("IPv6 zones cannot be present in a prefix")
    if not re.fullmatch("[+-]?[0-9]|[1-9][0-9]{0,17}", bits) or bits[0] == "+" or (len(bits) > 1 and bits[0] == "-"):
        raise ValueError(f"bad bits after slash: {quoted(bits)}")
    if int(bits) > address.max_prefixlen:
        raise ValueError("prefix length out of range")
    return address, int(bits)


def address_of(value: Value) -> Address:
    """The address that a value is."""
    if IP not in value:
        raise ValueError(NO_OVERLOAD)
    return ipaddress.ip_address(value[IP])


def network_of(value: Value) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """The network that a value is."""
    if CIDR not in value:
        raise ValueError(NO_OVERLOAD)
    return ipaddress.ip_interface(value[CIDR]).network


def cidr_address(value: Value) -> dict[str, str]:
    """The address with which a network was written."""
    network_of(value)
    return {IP: value[CIDR].partition("/")[0]}


def masked(value: Value) -> dict[str, str]:
    """A network without the part of its address that is not the network's."""
    return {CIDR: str(network_of(value))}


def contains_ip(network: Value, address: Value | str) -> bool:
    """True if an address is in a network."""
    if isinstance(address, str):
        try:
            address = ip(address)
        except ValueError:
            raise ValueError(NO_OVERLOAD) from None  # as Kubernetes, which drops the reason
    return address_of(address) in network_of(network)


def contains_cidr(network: Value, other: Value | str) -> bool:
    """True if a network is within another one."""
    outer, inner = network_of(network), network_of(cidr(other) if isinstance(other, str) else other)
    return outer.version == inner.version and inner.subnet_of(outer)  # type: ignore[arg-type]


def is_canonical(text: str) -> bool:
    """True if an address is written as Kubernetes writes it."""
    return ip(text)[IP] == text


def kind_of(name: str) -> Callable[[Value], bool]:
    """The function that checks if an address is of a kind."""

    def kind(value: Value) -> bool:
        return bool(getattr(address_of(value), name))

    return kind


def is_global_unicast(value: Value) -> bool:
    """True unless the address is unspecified, loopback, multicast, link-local or the broadcast address (`IsGlobalUnicast` of net/netip)."""
    address = address_of(value)
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not special and address != ipaddress.IPv4Address("255.255.255.255")


def is_link_local_multicast(value: Value) -> bool:
    """True for 224.0.0.0/24 and ff02::/16 with any flags of the IPv6 address (`IsLinkLocalMulticast` of net/netip)."""
    address = address_of(value)
    if isinstance(address, ipaddress.IPv4Address):
        return address in ipaddress.IPv4Network("224.0.0.0/24")
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 2
