"""The lines of a decision log: one JSON object each, told apart by `t`.

    log         the first line of each file: version, who wrote it, which run of the process, the how manieth file, decisions before it
    node, put   an object that was added or changed; `pod`: one that the API server told, with its node where its object has none yet
    node gone, pod gone, drop, metric gone
    assume, forget, nominate, denominate       what the scheduler decided, and took back
    metric      all samples of a metric: node → [value, time]
    state       the end of a checkpoint, with the revision of the state
    policy      a policy by revision: its texts, and values of its params; written before it is first needed in a file
    chain       the policies and settings of a profile, from now on
    decision    what was asked, and what came of it

A pod that was written in the same file already, in the very same state, is named by its uid alone.
"""

from __future__ import annotations

from typing import Any

import msgspec

VERSION = 1
MADE_BY = "wharfinger"
HEAD = b'{"t":"log"'
"""How every file begins."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a decision was about: the profile, the time and the revision of the state."""

    profile: str
    now: float
    revision: int


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a decision, as far as it has to come out again; `victims` by uid, `totals` of the chosen node by tier."""

    node: str | None
    feasible: int
    n_nodes: int
    ties: int
    message: str
    nominated: str | None
    victims: tuple[str, ...]
    totals: tuple[float, ...]


class ChainSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a chain is assembled from, besides its policies: as `framework.configuration.ChainConfig`."""

    weights: dict[str, int]
    arguments: dict[str, dict[str, Any]]
    disabled: tuple[str, ...]


class Line(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Any line; which fields it has depends on `t`."""

    t: str
    version: int = 0
    made_by: str = ""
    run: str = ""
    file: int = 0
    decisions: int = 0
    lost: bool = False
    kind: str = ""
    key: str = ""
    name: str = ""
    uid: str = ""
    node: str = ""
    assumed: bool = False
    revision: int = 0
    object: msgspec.Raw = msgspec.Raw()
    samples: dict[str, tuple[float, float]] = {}
    policy: str = ""
    texts: dict[str, str] = {}
    source: str = ""
    params: dict[str, Any] = {}
    namespace: str | None = None
    allowed: str = ""
    servers: tuple[str, ...] = ()
    profile: str = ""
    chain: str = ""
    policies: tuple[str, ...] = ()
    settings: ChainSettings | None = None
    asked: Asked | None = None
    told: Told | None = None


ENCODE = msgspec.json.Encoder().encode
DECODE = msgspec.json.Decoder(Line).decode
