"""Findings, hovers and completions of a text as plain values for a browser; places are in UTF-16 code units.

All that is said is that of `wharf check`, `wharf fmt` and `wharf lsp`: this module only translates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.authoring.completing.completion import offers
from wharfinger.authoring.document import Document
from wharfinger.authoring.findings import Finding, findings
from wharfinger.authoring.highlighting import highlights
from wharfinger.authoring.hover import hover
from wharfinger.authoring.known_cluster import KnownCluster
from wharfinger.authoring.lsp.positions import Positions
from wharfinger.language.semantics import typed

MAX_OFFERS = 200


def usable(document: Document) -> typed.Policy | None:
    """The policy of a document, None where it has errors or there is none."""
    broken = any(found.severity == "error" for found in findings(document))
    return None if broken else document.checked.policy


def checked(document: Document) -> Mapping[str, Any]:
    """The findings and the highlighting."""
    positions = Positions(document.text)
    return {
        "found": [_finding(found, positions) for found in findings(document)],
        "tokens": [
            {"from": positions.to_units(each.start), "to": positions.to_units(each.end), "kinds": [each.kind, *each.modifiers]}
            for each in highlights(document)
        ],
    }


def _finding(found: Finding, positions: Positions) -> Mapping[str, Any]:
    start, end = positions.to_units(found.start), positions.to_units(found.end)
    line, column = positions.at(found.start)
    return {
        "from": start,
        "to": end,
        "line": line + 1,
        "column": column + 1,
        "severity": found.severity,
        "code": found.code,
        "message": found.message,
        "help": found.help or "",
        "text": found.text,
        "suggestion": found.suggestion,
    }


def completed(document: Document, at: int, cluster: KnownCluster | None) -> Mapping[str, Any]:
    """What may be written at a place."""
    positions = Positions(document.text)
    found = offers(document, positions.from_units(at), cluster)[:MAX_OFFERS]
    return {
        "items": [
            {
                "label": offer.label,
                "kind": offer.kind,
                "from": positions.to_units(offer.start),
                "to": positions.to_units(offer.end),
                "text": offer.written,
                "snippet": offer.snippet,
                "detail": offer.detail,
                "doc": offer.doc,
            }
            for offer in found
        ]
    }


def hovered(document: Document, at: int, cluster: KnownCluster | None) -> Mapping[str, Any] | None:
    """What is shown of the word at a place, as Markdown; None for nothing."""
    positions = Positions(document.text)
    found = hover(document, positions.from_units(at), cluster)
    return None if found is None else {"from": positions.to_units(found.start), "to": positions.to_units(found.end), "text": found.text}
