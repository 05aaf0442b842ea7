"""Navigation in a text: declarations and uses of names, the outline, folding ranges, and selection ranges.

A name belongs to the file that declares it. The tests in the file paired with a policy use the names of the policy. A file that
imports a library uses its names with the import's name before them. Nodes and pods of a test are known in that test only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from wharfinger.authoring.document import Document
from wharfinger.authoring.statements import Statement
from wharfinger.authoring.words import DECLARATIONS, DECLARED_OBJECTS, DECLARED_RULES, DECLARED_VALUES, SUBJECT_WORDS, Role, Word
from wharfinger.builtins import CATALOGUE
from wharfinger.errors import UsageError
from wharfinger.language import ast
from wharfinger.language.check import import_key
from wharfinger.language.check.expressions.calls import SPECIAL
from wharfinger.language.files import TEST_SUFFIX, paired_file
from wharfinger.language.parse import grammar
from wharfinger.language.parse.tokens import comments

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OBJECT_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?")


class Named(Struct, frozen=True):
    """A name that `file` declares; `kind` is "value", "rule", "object" or "parameter".

    `scope` is where the test of an object begins, or where the parameter of a function is declared.
    """

    kind: str
    name: str
    file: str
    scope: int | None = None


class Occurrence(Struct, frozen=True):
    """An occurrence of a name: characters `start` to `end` of `file`."""

    file: str
    start: int
    end: int
    declares: bool
    quoted: bool = False


def named_at(document: Document, offset: int) -> tuple[Named, Word] | None:
    """The declared name at an offset with the word there; None for anything else."""
    word = document.word_at(offset)
    if word is None:
        return None
    if word.role in DECLARED_OBJECTS or word.role is Role.OBJECT:
        return Named("object", word.name, document.name, word.scope), word
    if word.role in DECLARED_RULES or word.role is Role.RULE:
        return Named("rule", word.name, _declaring_file(document)), word
    parameter = document.parameter(word)
    if parameter is not None:
        return Named("parameter", word.name, document.name, parameter.start), word
    if word.role in DECLARED_VALUES or _is_value(word):
        return Named("value", word.name, document.name if word.role is Role.IMPORT else _declaring_file(document)), word
    owner = _before_dot(document, word) if word.role is Role.FIELD else None
    path = imports(document).get(owner.name) if owner is not None and owner.role is Role.VALUE else None
    return (Named("value", word.name, path), word) if path is not None else None


def _is_value(word: Word) -> bool:
    """True if a word uses a declared name: a value, or a function that is not built in."""
    return word.role is Role.VALUE or (word.role is Role.FUNCTION and not is_of_the_language(word.name))


def is_of_the_language(function: str) -> bool:
    """True if the language has a function of that name."""
    return function in SPECIAL or any(each.name.partition(".")[0] == function for each in CATALOGUE.functions())


def _declaring_file(document: Document) -> str:
    """The file that declares what a file uses: tests in `X_test.policy` use the names of `X.policy`."""
    return (paired_file(document.name) or document.name) if document.name.endswith(TEST_SUFFIX) else document.name


def _before_dot(document: Document, field: Word) -> Word | None:
    at = next((index for index, word in enumerate(document.words) if word.start == field.start), 0)
    return document.words[at - 2] if at > 1 else None


def imports(document: Document) -> dict[str, str]:
    """The files that a document imports, by the names they have in it."""
    words = document.words
    return {
        word.name: import_key(document.name, words[at - 2].name)
        for at, word in enumerate(words)
        if word.role is Role.IMPORT and at > 1 and words[at - 2].role is Role.STRING
    }


def occurrences(named: Named, documents: Iterable[Document]) -> list[Occurrence]:
    """All occurrences of a name in these documents, declarations first."""
    found = {found for document in documents for found in _in_document(named, document)}
    return sorted(found, key=lambda each: (not each.declares, each.file, each.start))


def _in_document(named: Named, document: Document) -> Iterator[Occurrence]:
    if named.kind in {"object", "parameter"}:
        if document.name == named.file:
            yield from (_occurrence(document, word) for word in _of_scope(named, document) if word.name == named.name)
        return
    rules = DECLARED_RULES | {Role.RULE}
    if named.file in {document.name, _declaring_file(document)}:
        for word in document.words:
            fits = word.role in rules if named.kind == "rule" else word.role in DECLARED_VALUES or _is_value(word)
            if fits and word.name == named.name:
                yield _occurrence(document, word)
    if named.kind == "value" and named.file != document.name:
        known = {name for name, path in imports(document).items() if path == named.file}
        words = document.words
        for at, word in enumerate(words):
            if (
                word.role is Role.FIELD
                and word.name == named.name
                and at > 1
                and words[at - 2].role is Role.VALUE
                and words[at - 2].name in known
            ):
                yield _occurrence(document, word)


def _of_scope(named: Named, document: Document) -> Iterable[Word]:
    """The objects of the test of an object, or all that name parameters in the function of one."""
    if named.kind == "object":
        return [word for word in _objects(document) if word.scope == named.scope]
    function = document.statement_at(named.scope or 0)
    return [word for word in function.words if document.parameter(word) is not None] if function is not None else ()


def _objects(document: Document) -> Iterator[Word]:
    return (word for word in document.words if word.role in DECLARED_OBJECTS or word.role is Role.OBJECT)


def _occurrence(document: Document, word: Word) -> Occurrence:
    return Occurrence(document.name, word.start, word.end, word.role in DECLARATIONS, word.token == "STRING")  # noqa: S105  # a terminal


def definition(document: Document, offset: int, others: Iterable[Document] = ()) -> list[Occurrence]:
    """The declaration of the name at an offset; for the path of an import, the beginning of that file."""
    word = document.word_at(offset)
    if word is not None and word.role is Role.STRING and word.item == "IMPORT":
        return [Occurrence(import_key(document.name, word.name), 0, 0, declares=True)]
    found = named_at(document, offset)
    if found is None:
        return []
    named, _ = found
    everywhere = occurrences(named, [document, *others])
    declared = [each for each in everywhere if each.declares]
    return declared or [Occurrence(named.file, span.start, span.end, declares=True) for span in _declared_elsewhere(document, named)]


def _declared_elsewhere(document: Document, named: Named) -> Iterator[Symbol]:
    """The declaration in a library that no document holds, as the check has read it."""
    file = document.declarations.checked.texts.get(named.file) if named.file != document.name else None
    if file is not None:
        library = Document(named.file, file.span.source.text)
        yield from (
            Symbol(each.name, each.kind, each.name_start, each.name_end, each.name_start, each.name_end)
            for each in outline(library)
            if each.name == named.name
        )


def references(document: Document, offset: int, others: Iterable[Document] = ()) -> list[Occurrence]:
    """All occurrences of the name at an offset, declarations first."""
    found = named_at(document, offset)
    return occurrences(found[0], [document, *others]) if found is not None else []


def renamable(document: Document, offset: int) -> tuple[int, int] | None:
    """The characters of the name at an offset, without quotes, if it can be renamed; None if nothing declares it."""
    found = named_at(document, offset)
    if found is None or (not any(each.declares for each in occurrences(found[0], [document])) and found[0].file == document.name):
        return None
    word = found[1]
    quoted = word.token == "STRING"  # noqa: S105  # a terminal
    return (word.start + 1, word.end - 1) if quoted else (word.start, word.end)


def renamed(document: Document, offset: int, name: str, others: Iterable[Document] = ()) -> list[tuple[Occurrence, str]]:
    """The new text of each occurrence when the name at an offset is renamed.

    Raises UsageError if nothing can be renamed there, or if the new name is no name, reserved or used.
    """
    found = named_at(document, offset)
    documents = [document, *others]
    everywhere = occurrences(found[0], documents) if found is not None else []
    if found is None or not any(each.declares for each in everywhere):
        what = "params, lets and their parameters, metrics, workloads, imports, rules, and nodes and pods of tests"
        raise UsageError(f"only {what} can be renamed, where they are declared")
    named = found[0]
    _fitting(named, name, documents)
    plain = _NAME.fullmatch(name) is not None and name not in grammar.terminals().reserved
    quoted = f'"{name}"'
    return [(each, name if plain and not each.quoted else quoted) for each in everywhere]


def _fitting(named: Named, name: str, documents: Sequence[Document]) -> None:
    """Raise UsageError unless the name can be one of that kind."""
    if named.kind == "object":
        if not _OBJECT_NAME.fullmatch(name):
            raise UsageError(f"{name!r} is no name of a node or pod: letters, digits, `-`, `.` and `_`")
    elif not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name: letters, digits and `_`, and no digit first")
    elif name in grammar.terminals().reserved:
        raise UsageError(f"`{name}` is a word of the language; choose another name")
    elif name in SUBJECT_WORDS and named.kind in {"value", "parameter"}:
        raise UsageError(f"`{name}` always means something else; choose another name")
    other = Named(named.kind, name, named.file, named.scope)
    if name != named.name and any(each.declares for each in occurrences(other, documents)):
        raise UsageError(f"there is already a {named.kind} `{name}`")
    apart = {"value": frozenset({Role.PARAMETER}), "parameter": DECLARED_VALUES}.get(named.kind, frozenset())
    own = next((document for document in documents if document.name == named.file), None)
    clash = next((word for word in own.words if word.role in apart and word.name == name), None) if own is not None else None
    if clash is not None:
        raise UsageError(f"there is already a {clash.role.value} `{name}`")


def matching_symbols(query: str, documents: Iterable[Document]) -> list[tuple[Document, Symbol]]:
    """The named parts of documents whose names contain the letters of a query in order."""
    wanted = query.lower()
    return [
        (document, symbol)
        for document in documents
        for symbol in outline(document)
        if _contains_in_order(symbol.name.lower(), wanted) and symbol.name_start != symbol.start
    ]


def _contains_in_order(text: str, letters: str) -> bool:
    rest = iter(text)
    return all(letter in rest for letter in letters)


class Symbol(Struct, frozen=True):
    """A part of the outline: characters `start` to `end`, and its name at `name_start` to `name_end`.

    `kind` is policy, import, param, let, metric, workload, filter, score, permit, test, "test node", "test pod", or the keyword of one
    without a name.
    """

    name: str
    kind: str
    start: int
    end: int
    name_start: int
    name_end: int
    children: tuple[Symbol, ...] = ()


def outline(document: Document) -> list[Symbol]:
    """The statements of a file with their names; a test has its nodes and pods below it."""
    return [_symbol(each, each.keyword) for each in document.statements if each.keyword is not None]


def _symbol(statement: Statement, keyword: Word) -> Symbol:
    title = {"POLICY": Role.STRING, "TEST": Role.TEST}.get(statement.kind)
    named = next((word for word in statement.words if word.role is title or (title is None and word.role in DECLARATIONS)), None)
    if statement.kind not in {"TEST", "POLICY"} and named is not None and named.role in DECLARED_OBJECTS:
        named = None
    kind = named.role.value if named is not None and title is None else keyword.text
    shown = named or keyword
    children = tuple(
        Symbol(word.name, word.role.value, word.start, word.end, word.start, word.end)
        for word in statement.words
        if word.role in DECLARED_OBJECTS and statement.kind == "TEST"
    )
    return Symbol(shown.name or keyword.text, kind, statement.start, max(statement.end, shown.end), shown.start, shown.end, children)


# ── folding ──


class Fold(Struct, frozen=True):
    """Characters of several lines that an editor can fold into their first line; `kind` is "comment" or "region"."""

    start: int
    end: int
    kind: str


def folds(document: Document) -> list[Fold]:
    """The parts that can be folded: brackets over several lines, and comments of several lines."""
    text = document.text
    found = [Fold(start, end, "region") for start, end in _brackets(document.words) if "\n" in text[start:end]]
    found += [Fold(start, end, "comment") for start, end in _comment_blocks(document)]
    return sorted(found, key=lambda fold: (fold.start, -fold.end))


def _brackets(words: Sequence[Word]) -> Iterator[tuple[int, int]]:
    waiting: list[Word] = []
    closes = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}
    for word in words:
        if word.token in closes:
            waiting.append(word)
        elif word.token in closes.values() and any(closes[each.token] == word.token for each in waiting):
            while closes[(opened := waiting.pop()).token] != word.token:
                pass
            yield opened.start, word.end


def _comment_blocks(document: Document) -> Iterator[tuple[int, int]]:
    text = document.text
    block: list[tuple[int, int]] = []
    for span in comments(document.source):
        alone = not text[text.rfind("\n", 0, span.start) + 1 : span.start].strip()
        if block and not (alone and text[block[-1][1] : span.start].count("\n") == 1):
            if len(block) > 1:
                yield block[0][0], block[-1][1]
            block = []
        if alone:
            block.append((span.start, span.end))
    if len(block) > 1:
        yield block[0][0], block[-1][1]


# ── selections ──


def selections(document: Document, offset: int) -> list[tuple[int, int]]:
    """The characters that a selection at an offset grows to, from the word to the whole text; each holds the one before."""
    text = document.text
    found = {(0, len(text))}
    word = document.word_at(offset)
    if word is not None:
        found.add((word.start, word.end))
    found |= {(each.start, each.end) for each in document.statements if each.start <= offset <= each.end}
    for start, end in _brackets(document.words):
        if start < offset < end:
            found |= {(start, end), (start + 1, end - 1)}
    for statement in document.statements:
        if statement.start <= offset <= statement.end:
            found |= _nodes(document, offset)
            break
    nested: list[tuple[int, int]] = []
    for start, end in sorted(found, key=lambda place: place[1] - place[0]):
        if start <= offset <= end and (not nested or (start <= nested[-1][0] and nested[-1][1] <= end)):
            nested.append((start, end))
    return nested


def _nodes(document: Document, offset: int) -> set[tuple[int, int]]:
    """The nodes of the tree around an offset."""
    found: set[tuple[int, int]] = set()
    file = document.around(offset).checked.file
    if file is None:
        return found
    items = file.policy.items if file.policy is not None else file.items
    pending: list[ast.Node] = [*items, *file.tests, *([file.policy.scope] if file.policy is not None and file.policy.scope else [])]
    while pending:
        node = pending.pop()
        if node.span.source.name == document.name and node.span.start <= offset <= node.span.end:
            found.add((node.span.start, node.span.end))
            pending += ast.children(node)
    return found
