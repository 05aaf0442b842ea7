"""The words of a policy with their roles: a keyword, the name of a let, a field, a node of a test.

This is known from the tokens alone, so it is known also where a text does not parse, which is most of the time while a user types. The
parser decides what is right; here a word gets the role that it most likely has. A statement at the beginning of a line ends whatever was
left open before it, so that a brace that is missing spoils no more than its own statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

from msgspec import Struct

from wharfinger.language.parse import grammar
from wharfinger.language.parse.interactive import ITEMS, STEP_TERMINALS
from wharfinger.language.parse.tokens import CLOSE, OPEN, PLACEHOLDER, Lexer, Token
from wharfinger.language.report.diagnostics import Diagnostics, Source


class Role(Enum):
    """The role of a word."""

    KEYWORD = "keyword"
    SYMBOL = "symbol"
    NUMBER = "number"
    STRING = "string"
    SUBJECT = "subject"  # pod, node, it, group
    FIELD = "field"  # behind a dot
    FUNCTION = "function"  # before a parenthesis
    KEY = "key"  # before a colon, in braces or in a call
    TYPE = "type"
    ANNOTATION = "annotation"
    WORD = "word"  # one of a few: `minmax`, `neutral`
    PLUGIN = "plugin"
    PARAM = "param"  # these four: where it is declared
    LET = "let"
    METRIC = "metric"
    WORKLOAD = "workload"
    IMPORT = "import"  # `as name`
    PARAMETER = "parameter"  # of a let that is a function, where it is declared
    VALUE = "value"  # a use of a param, let, metric, workload or import
    FILTER = "filter"  # these two: where it is declared
    SCORE = "score"
    PERMIT = "permit"  # where it is declared
    RULE = "rule"  # a use of a filter or score
    TEST = "test"  # the title
    TEST_NODE = "test node"  # these two: where it is declared
    TEST_POD = "test pod"
    OBJECT = "object"  # a use of a node or pod of a test


DECLARED_VALUES = frozenset({Role.PARAM, Role.LET, Role.METRIC, Role.WORKLOAD, Role.IMPORT})
DECLARED_RULES = frozenset({Role.FILTER, Role.SCORE, Role.PERMIT})
DECLARED_OBJECTS = frozenset({Role.TEST_NODE, Role.TEST_POD})
DECLARATIONS = DECLARED_VALUES | DECLARED_RULES | DECLARED_OBJECTS | {Role.PARAMETER}

SUBJECT_WORDS = frozenset({"pod", "node", "it", "group"})
_DECLARES = {
    "LET": Role.LET,
    "PARAM": Role.PARAM,
    "METRIC": Role.METRIC,
    "WORKLOAD": Role.WORKLOAD,
    "FILTER": Role.FILTER,
    "SCORE": Role.SCORE,
    "PREFER": Role.SCORE,
    "AVOID": Role.SCORE,
    "PERMIT": Role.PERMIT,
    "AS": Role.IMPORT,
    "TEST": Role.TEST,
}
_STEP_SLOTS = {
    "NODE": Role.TEST_NODE,
    "POD": Role.TEST_POD,
    "RUNNING": Role.TEST_POD,
    "PLACE": Role.OBJECT,
    "EXPECT": Role.OBJECT,
    "LIKE": Role.OBJECT,
    "ON": Role.OBJECT,
    "METRIC": Role.VALUE,
    "PARAM": Role.VALUE,
    "BY": Role.RULE,
    "SCORES": Role.RULE,
}
_BLOCKS = {"FILTER": "filter", "PERMIT": "filter", "TEST": "test", "BASE": "base", "PREEMPTION": "preemption", "GROUP": "terms"}
TERMS = frozenset({"MIN_COUNT", "TIMEOUT", "WITHIN", "REQUIRED", "PREFERRED", "SPREAD_OVER", "DISRUPTION", "RESERVE"})
"""The keywords that mean something in a `group` only (and `timeout` in the head of a `permit`)."""
_WORDS_BEHIND = frozenset({"NORMALIZE", "MISSING"})


class Frame(Struct, frozen=True):
    """An open bracket: its contents, and the word that it belongs to.

    `holds` is one of:

    - a block: "filter", "test", "base", "preemption", or "terms" of a group
    - "object": the fields of a node or pod of a test, or of a plugin
    - "samples" of a metric in a test
    - "parameters" of a let
    - "call", "index", "set", "group"

    `name` is the function of a call, the key before an object, or the keyword or plugin that an outermost object belongs to.
    """

    holds: str
    name: str
    at: int  # offset of the bracket
    around: Frame | None
    closes: str  # the terminal that closes it

    def path(self) -> tuple[str, ...]:
        """The names of this object and the objects around it, from the outermost."""
        names = [self.name] if self.holds == "object" else []
        frame = self.around
        while frame is not None and frame.holds in {"object", "set"}:
            names += [frame.name] if frame.holds == "object" else []
            frame = frame.around
        return tuple(reversed(names))

    def moved(self, shift: int, known: dict[int, Frame]) -> Frame:
        """The bracket `shift` characters further; `known` has the brackets that were moved already, by identity."""
        inner: list[Frame] = []
        frame: Frame | None = self
        while frame is not None and id(frame) not in known:
            inner.append(frame)
            frame = frame.around
        around = None if frame is None else known[id(frame)]
        for each in reversed(inner):
            around = known[id(each)] = Frame(each.holds, each.name, each.at + shift, around, each.closes)
        return known[id(self)]


class Word(Struct, frozen=True):
    """A token with its role.

    `frame` is the innermost open bracket, `scope` the offset of the enclosing test, `item` the keyword of the statement, and `owner` the
    terminal before it.
    """

    text: str
    start: int
    end: int
    role: Role
    token: str  # the terminal
    frame: Frame | None = None
    scope: int | None = None
    item: str = ""
    owner: str = ""

    @property
    def name(self) -> str:
        """The text without quotes."""
        return self.text[1:-1] if self.token == "STRING" else self.text  # noqa: S105  # a terminal

    def moved(self, shift: int, frames: dict[int, Frame] | None = None) -> Word:
        """The word `shift` characters further; `frames` keeps the brackets that have been moved, by identity."""
        frame = None if self.frame is None else self.frame.moved(shift, {} if frames is None else frames)
        scope = None if self.scope is None else self.scope + shift
        return Word(self.text, self.start + shift, self.end + shift, self.role, self.token, frame, scope, self.item, self.owner)


def words_of(source: Source, tokens: Sequence[Token]) -> list[Word]:
    """The words of a text in order, with those in the placeholders of messages."""
    return list(Reading(source, tokens).words())


class Reading:
    """One pass over tokens; afterwards `frame`, `item`, `step` and `slot` describe the end of the tokens."""

    def __init__(self, source: Source, tokens: Sequence[Token]) -> None:
        self.source = source
        self.tokens = tokens
        self.at = 0  # the index of the token that is being read
        self.frame: Frame | None = None
        self.item = ""  # the terminal of the statement of the file
        self.step = ""  # the terminal of the line of a test
        self.scope: int | None = None
        self.slot: Role | None = None  # the role of the next word, where the words before it say so
        self.plugin = ""

    def words(self) -> Iterator[Word]:
        """Each token with its role."""
        for at, token in enumerate(self.tokens):
            self.at = at
            before = self.tokens[at - 1] if at else None
            after = self.tokens[at + 1] if at + 1 < len(self.tokens) else None
            if token.type in OPEN:
                yield self._word(token, Role.SYMBOL)
                self._open(token, before)
            elif token.type in CLOSE:
                self._close(token)
                yield self._word(token, Role.SYMBOL)
            elif token.type == "STRING":
                yield from self._string(token, before, after)
            elif token.type == "NUMBER":
                self.slot = None
                yield self._word(token, Role.NUMBER)
            elif token.text.isidentifier():
                yield self._identifier(token, before, after)
            else:
                self._symbol(token, before)
                yield self._word(token, Role.SYMBOL)

    def _word(self, token: Token, role: Role, owner: str = "") -> Word:
        return Word(token.text, token.start, token.end, role, token.type, self.frame, self.scope, self.item, owner)

    # ── brackets ──

    def _open(self, token: Token, before: Token | None) -> None:
        kind = token.type
        if kind == "LPAR":
            called = before is not None and (before.type == "NAME" or before.text.isidentifier())
            holds, name, closes = ("call" if called else "group", before.text if called and before else "", "RPAR")
            if self.item == "LET" and self.frame is None and self.at > 1 and self.tokens[self.at - 2].type == "LET":
                holds = "parameters"
        elif kind == "LSQB":
            follows = before is not None and (before.text.isidentifier() or before.type in CLOSE) and before.end == token.start
            holds, name, closes = ("index" if follows else "set", before.text if before else "", "RSQB")
        else:
            holds, name, closes = (*self._brace(before), "RBRACE")
        if holds == "test":
            self.step = ""
        self.slot = None
        self.frame = Frame(holds, name, token.start, self.frame, closes)

    def _brace(self, before: Token | None) -> tuple[str, str]:
        """The kind of block that a brace opens, and its name."""
        if self.frame is None and self.item in _BLOCKS:
            return _BLOCKS[self.item], ""
        if before is not None and before.type == "WITH":
            return "object", self.plugin
        if self.frame is not None and self.frame.holds == "test":
            return ("samples", "") if self.step == "METRIC" else ("object", self.step)
        if self.frame is not None and self.frame.holds == "set":
            return "object", ""
        key = self._key_before(before)
        return "object", key

    def _key_before(self, before: Token | None) -> str:
        if before is None or before.type != "COLON":
            return ""
        return self.tokens[self.at - 2].text.strip("\"'")

    def _close(self, token: Token) -> None:
        frame = self.frame
        while frame is not None and frame.closes != token.type:
            frame = frame.around
        if frame is not None:
            self.frame = frame.around
            if frame.holds in _BLOCKS.values():
                self.item = ""
                if frame.holds == "test":
                    self.scope = None
        self.slot = None

    # ── words ──

    def _symbol(self, token: Token, before: Token | None) -> None:
        kind = token.type
        in_test = self.frame is not None and self.frame.holds == "test"
        text_before = before.text if before is not None else ""
        if kind == "DOT":
            self.slot = Role.FIELD
        elif kind == "AT":
            if self.frame is None:
                self._begin("AT")
            self.slot = Role.ANNOTATION
        elif self._declares_types() and (kind == "COLON" or (kind == "LT" and text_before == "set")):
            self.slot = Role.TYPE
        elif in_test and self.step == "EXPECT" and kind in {"COLON", "COMMA"}:
            self.slot = Role.OBJECT
        else:
            self.slot = None

    def _declares_types(self) -> bool:
        """True where a name and a colon are followed by a type."""
        return self.frame.holds == "parameters" if self.frame is not None else self.item in {"PARAM", "METRIC"}

    def _string(self, token: Token, before: Token | None, after: Token | None) -> Iterator[Word]:
        slot, self.slot = self.slot, None
        if slot in DECLARED_OBJECTS | {Role.OBJECT, Role.TEST, Role.RULE} and slot is not None:
            yield self._word(token, slot)
        elif after is not None and after.type == "COLON" and self.frame is not None and self.frame.holds in {"object", "samples"}:
            yield self._word(token, Role.OBJECT if self.frame.holds == "samples" else Role.KEY)
        else:
            yield self._word(token, Role.STRING, before.type if before else "")
            if before is not None and before.type == "ELSE" and self.item in {"FILTER", "PERMIT"}:
                yield from self._placeholders(token)

    def _placeholders(self, message: Token) -> Iterator[Word]:
        for found in PLACEHOLDER.finditer(message.text):
            if found[1]:
                start, end = message.start + found.start(1) + 1, message.start + found.end(1) - 1
                inner = Reading(self.source, Lexer(self.source, Diagnostics(), start, end).read())
                inner.item = self.item
                yield from inner.words()

    def _identifier(self, token: Token, before: Token | None, after: Token | None) -> Word:
        begins = token.type in ITEMS and self._begins_item(token, before)
        step = not begins and token.type in STEP_TERMINALS and self._begins_step(token, before)
        slot, self.slot = self.slot, None
        if begins:
            self._begin(token.type, token.start)
            return self._word(token, Role.KEYWORD)
        if step:
            self.step = token.type
            self.slot = _STEP_SLOTS.get(token.type)
            return self._word(token, Role.KEYWORD)
        if before is not None and before.type == "DOT":
            return self._word(token, Role.FIELD)
        if slot is not None:
            return self._in_slot(token, slot, before, after)
        if token.type == "NAME":
            return self._name(token, before, after)
        return self._keyword(token, before)

    def _in_slot(self, token: Token, slot: Role, before: Token | None, after: Token | None) -> Word:
        if token.type == "DEVICE" and slot is Role.SCORE and after is not None and _names(after):  # `prefer device name`
            self.slot = slot
            return self._word(token, Role.KEYWORD)
        if slot is Role.OBJECT and token.type == "GROUP":  # a terminal
            self.slot = Role.WORD
            return self._word(token, Role.KEYWORD)
        if slot is Role.OBJECT and token.type in {"NOT", "ON"}:  # `expect not …` is no sentence; a name is missing
            return self._keyword(token, before)
        owner = before.type if before is not None else ""
        return self._word(token, slot, owner)

    def _name(self, token: Token, before: Token | None, after: Token | None) -> Word:
        frame = self.frame
        follows = after.type if after is not None else ""
        if token.text in SUBJECT_WORDS:
            return self._word(token, Role.KEY if follows == "COLON" else Role.SUBJECT)
        if frame is not None and frame.holds == "parameters":
            return self._word(token, Role.PARAMETER)
        if follows == "COLON" and frame is not None and frame.holds != "test":
            return self._word(token, Role.OBJECT if frame.holds == "samples" else Role.KEY)
        if frame is not None and frame.holds == "base":
            self.plugin = token.text
            return self._word(token, Role.PLUGIN)
        if follows == "LPAR":
            return self._word(token, Role.FUNCTION)
        return self._word(token, Role.VALUE, before.type if before is not None else "")

    def _keyword(self, token: Token, before: Token | None) -> Word:
        kind = token.type
        in_test = self.frame is not None and self.frame.holds == "test"
        if kind in _WORDS_BEHIND or (kind == "DISRUPTION" and self._in_terms()):
            self.slot = Role.WORD
            return self._word(token, Role.KEYWORD)
        if kind == "AS" and self.item == "IMPORT":
            self.slot = Role.IMPORT
            return self._word(token, Role.KEYWORD)
        if in_test:
            self.slot = _STEP_SLOTS.get(kind)
            return self._word(token, Role.KEYWORD)
        if kind in {"NODE", "POD"}:
            return self._word(token, Role.SUBJECT)
        return self._word(token, Role.VALUE if self._is_name(token, before) else Role.KEYWORD)

    def _is_name(self, token: Token, before: Token | None) -> bool:
        """True for a word that is a keyword elsewhere (in tests, or after a certain word) and a name here."""
        if token.text in grammar.terminals().reserved:
            return False
        if token.type in TERMS:
            return not (self._in_terms() or (token.type == "TIMEOUT" and self.item == "PERMIT" and self.frame is None))
        if token.type == "BY" and before is not None and before.type == "GROUP":
            return False
        if token.type == "AGE":
            return self.frame is None or self.frame.holds != "samples"
        if token.type == "VERSION":
            return self.item != "POLICY"
        return not (token.type == "KUBERNETES" and before is not None and before.type == "BASE")

    def _in_terms(self) -> bool:
        """True directly inside of a `group`."""
        return self.frame is not None and self.frame.holds == "terms"

    # ── statements ──

    def _first_on_line(self, token: Token, before: Token | None) -> bool:
        return before is None or "\n" in self.source.text[before.end : token.start]

    def _begins_item(self, token: Token, before: Token | None) -> bool:
        """True if a statement of the file begins here; a statement at the beginning of a line closes brackets that are still open."""
        if before is not None and before.type in {"DOT", "AT"}:
            return False
        if self.frame is None:
            if token.type == "WORKLOAD" and not self._first_on_line(token, before):  # may be a name
                return False
            return self.slot is None or self._first_on_line(token, before)
        left = token.start == 0 or self.source.text[token.start - 1] == "\n"
        return left and not (self.frame.holds in {"object", "samples"} and self.source.text[token.end : token.end + 1] == ":")

    def _begins_step(self, token: Token, before: Token | None) -> bool:
        """True if a line of a test begins here."""
        if self.frame is None or before is None:
            return False
        if self.frame.holds == "test":
            return self.slot is None or self._first_on_line(token, before)
        return False

    def _begin(self, kind: str, start: int = -1) -> None:
        self.frame = None
        self.item = kind
        self.step = ""
        self.scope = start if kind == "TEST" else None
        self.slot = _DECLARES.get(kind)


def _names(token: Token) -> bool:
    """True for a token that can be a name."""
    return token.text.isidentifier() and token.text not in grammar.terminals().reserved
