"""The words of messages about unexpected text: the token that is there, and what was expected instead."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from wharfinger.language.parse import grammar
from wharfinger.language.parse.tokens import Token, spelling

# Families of terminals, in the order in which they are named. A family stands for its members where all of its witnesses are expected.
FAMILIES: tuple[tuple[str, frozenset[str], frozenset[str]], ...] = (
    (
        "a declaration or rule",
        frozenset({"LET", "FILTER", "SCORE"}),
        frozenset(
            "AT AVOID BASE FILTER FOR GROUP IMPORT LET METRIC PARAM POLICY PERMIT PREEMPTION PREFER QUANTUM SCORE TEST TIE_BREAK".split()  # noqa: SIM905  # a table reads better
        ),
    ),
    (
        "a line of a test",
        frozenset({"PLACE", "EXPECT", "RUNNING", "PARAM"}),
        frozenset(["NODE", "POD", "RUNNING", "METRIC", "PARAM", "PLACE", "EXPECT"]),
    ),
    (
        "an expression",
        frozenset({"NUMBER", "LPAR", "MINUS"}),
        frozenset("NUMBER STRING TRUE FALSE NAME LPAR LSQB LBRACE MINUS NOT IF PODS".split()),  # noqa: SIM905 — quotes would hide the names
    ),
    ("a name", frozenset({"NAME"}), frozenset({"NAME"})),
    ("a string in quotes", frozenset({"STRING"}), frozenset({"STRING"})),
    ("a number", frozenset({"NUMBER"}), frozenset({"NUMBER"})),
)
OPERATORS = frozenset(
    "OR AND EQ NE LT LE GT GE IN NOT MATCHES COALESCE PLUS MINUS STAR SLASH DOT LSQB LPAR".split()  # noqa: SIM905 — likewise
)
MAX_NAMED = 5


def found(token: Token) -> str:
    """A token in words: "`=`", "the string `"x"`", "the end of the file"."""
    if token.type == grammar.END:
        return token.text
    kind = {"STRING": "the string ", "NUMBER": "the number "}.get(token.type, "")
    text = token.text if len(token.text) <= 40 else token.text[:39] + "…"
    return f"{kind}`{text}`"


def expected(terminals: AbstractSet[str]) -> str:
    """A set of terminals in words: "`=`, `range` or the next declaration"; operators are named only where nothing else is expected."""
    left = set(terminals)
    names: list[str] = []
    for name, witnesses, members in FAMILIES:
        if witnesses <= left:
            names.append(name)
            left -= members | _soft()
    operators = left | {"NOT", "LPAR"} >= OPERATORS
    if operators:
        left -= OPERATORS
    left -= {"COMMA"} if "COMMA" in left and len(left) > MAX_NAMED else set()
    words = [f"`{spelling(terminal)}`" for terminal in sorted(left - {grammar.END})]
    names += ["the end of the file"] if grammar.END in left and not words and not names else words
    if operators and len(names) < MAX_NAMED:
        names.append("an operator")
    return _joined(names)


def _soft() -> frozenset[str]:
    """The keywords that may also be names."""
    terminals = grammar.terminals()
    return frozenset(terminal for word, terminal in terminals.keywords.items() if word not in terminals.reserved)


def _joined(names: list[str]) -> str:
    if len(names) > MAX_NAMED + 1:
        names = [*names[:MAX_NAMED], "…"]
        return ", ".join(names)
    if len(names) <= 1:
        return "".join(names)
    return f"{', '.join(names[:-1])} or {names[-1]}"
