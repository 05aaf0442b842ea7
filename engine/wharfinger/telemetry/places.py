"""Where an error happened, in so few words that they can be a label.

Whoever reports an error says where it was with the names of the objects concerned; those belong in the log, not in a label.
"""

from __future__ import annotations

OTHER = "other"

_PLACES = (  # how what is said begins, the longest first where one begins like another
    ("status of pod ", "status"),
    ("pod ", "pod"),
    ("binding cycle", "binding"),
    ("preemption", "preemption"),
    ("plugin ", "plugin"),
    ("watch of ", "watch"),
    ("object of kind ", "object"),
    ("lease", "lease"),
    ("event", "event"),
    ("stopping", "stopping"),
    ("policies", "policies"),
    ("decision log", "decision log"),
    ("traces", "traces"),
    ("reconciling ", "reconciling"),
    ("live page", "live page"),
)


def place_of(where: str) -> str:
    """The place, of a fixed set."""
    for beginning, place in _PLACES:
        if where.startswith(beginning):
            return place
    if " after binding " in where:
        return "post bind"
    kind = where.partition(" ")[0]
    return "object" if kind[:1].isupper() and kind.isalpha() else OTHER
