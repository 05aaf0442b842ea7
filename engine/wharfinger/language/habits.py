"""Words of other schedulers and policy languages, and what they are called here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Habit:
    """A word that people bring along: the terminals that may be meant, the first that fits taken, and what to say."""

    meant: tuple[str, ...]
    help: str


_FILTER = "a rule that keeps pods off nodes is a `filter` with `require` or `reject` in it"
_SCORE = "a rule that ranks nodes is a `score`; `prefer` and `avoid` are scores of a condition"

HABITS: dict[str, Habit] = {
    **dict.fromkeys(("predicate", "constraint", "rule"), Habit(("FILTER",), _FILTER)),
    **dict.fromkeys(("priority", "prioritize", "rank"), Habit(("SCORE",), _SCORE)),
    **dict.fromkeys(("allow", "permit_if", "must", "assert", "ensure"), Habit(("REQUIRE",), "a filter says what must hold with `require`")),
    **dict.fromkeys(("deny", "forbid", "block", "disallow"), Habit(("REJECT",), "a filter says what must not hold with `reject`")),
    **dict.fromkeys(("var", "const", "def", "define"), Habit(("LET",), "a named value is declared with `let`")),
    **dict.fromkeys(("parameter", "input", "option"), Habit(("PARAM",), "a value that can be set from outside is declared with `param`")),
    **dict.fromkeys(("include", "use"), Habit(("IMPORT",), 'another file is used with `import "file.policy" as name`')),
    **dict.fromkeys(("elif", "elseif"), Habit((), "a chain of choices is `if a then b else if c then d else e`")),
    **dict.fromkeys(("equals", "is"), Habit(("EQ",), "equality is `==`")),
    **dict.fromkeys(("unless",), Habit(("WHEN",), "a guard is `when condition`; write `when not …`")),
    **dict.fromkeys(("message", "because"), Habit(("ELSE",), 'the message of a clause follows `else`: `require … else "…"`')),
    **dict.fromkeys(("assertion", "check"), Habit(("EXPECT", "REQUIRE"), "a test asserts with `expect`, a filter with `require`")),
    **dict.fromkeys(("schedule", "bind"), Habit(("PLACE",), "a test places a pod with `place`")),
}
PERMIT = "permit"
