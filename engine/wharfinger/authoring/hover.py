"""Hover texts for the word at a place: its type with the unit, its documentation, its range, and its spread over a cluster's nodes."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from msgspec import Struct

from wharfinger.authoring import vocabulary
from wharfinger.authoring.document import Document
from wharfinger.authoring.known_cluster import KnownCluster
from wharfinger.authoring.vocabulary import attribute_text, function_text, range_text, type_with_unit
from wharfinger.authoring.words import DECLARATIONS, DECLARED_VALUES, Role, Word
from wharfinger.builtins import CATALOGUE
from wharfinger.language.check.context import Binding
from wharfinger.language.check.workloads import FIELDS as REQUEST_FIELDS
from wharfinger.language.report import wording
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.catalogue import SOURCES, Subject
from wharfinger.language.semantics.types import UNITS, Kind, Shape, base_value, literal_kind

_DIGITS = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+(?![A-Za-z0-9_%]))?")
_UNTIL_NEXT = re.compile(r"[^,)\n]+")
_SUBJECTS = {subject.word: subject for subject in (Subject.POD, Subject.NODE, Subject.ITEM)}


class Hover(Struct, frozen=True):
    """The Markdown text for characters `start` to `end`."""

    start: int
    end: int
    text: str


def hover(document: Document, offset: int, cluster: KnownCluster | None = None) -> Hover | None:
    """The hover text at an offset, or None."""
    word = document.word_at(offset)
    if word is None:
        return None
    document = document.around(offset)
    expr, start, end = _expression(document, word)
    paragraphs = [part for part in (_about(document, word, expr), _spread(document, expr, cluster)) if part]
    return Hover(start, end, "\n\n".join(paragraphs)) if paragraphs else None


def _expression(document: Document, word: Word) -> tuple[typed.Expr | None, int, int]:
    """The smallest typed expression that ends with a word or with the key after it; without one, the word itself."""
    if word.role in DECLARED_VALUES:
        binding = document.checked.notes.names.get(word.name)
        return binding.reference(binding.span) if binding is not None and binding.reference is not None else None, word.start, word.end
    if word.role in {Role.SUBJECT, Role.KEYWORD, Role.SYMBOL}:
        return None, word.start, word.end
    around = [place for place in document.expressions if place[0] <= word.start and place[1] == word.end]
    if not around and word.role is Role.FIELD:  # a keyed field: the expression ends behind the key
        around = [place for place in document.expressions if place[0] < word.start and document.text[word.end : place[1]].startswith("[")]
        around = [place for place in around if place[1] - word.end < 200 and document.text[word.end : place[1]].count("]") == 1]
    if word.role is Role.FUNCTION:
        around = [place for place in document.expressions if place[0] == word.start]
    if not around:
        return None, word.start, word.end
    start, end = min(around, key=lambda place: place[1] - place[0])
    found = document.expressions[start, end]
    return found, start if word.role is Role.FIELD else word.start, word.end if word.role is Role.FUNCTION else end


def _about(document: Document, word: Word, expr: typed.Expr | None) -> str:
    known = _BY_ROLE.get(word.role)
    return known(document, word, expr) if known is not None else ""


def _keyword(_: Document, word: Word, __: typed.Expr | None) -> str:
    return vocabulary.KEYWORDS.get(word.text, "")


def _subject(_: Document, word: Word, __: typed.Expr | None) -> str:
    return vocabulary.SUBJECTS.get(word.text, "")


def _table(table: dict[str, str], _: Document, word: Word, __: typed.Expr | None) -> str:
    return table.get(word.text, "")


def _field(document: Document, word: Word, expr: typed.Expr | None) -> str:
    if isinstance(expr, typed.AttributeRef):
        key = f"[{expr.key.span.text}]" if expr.key is not None and not expr.attribute.by_group else ""
        head = f"```policy\n{expr.attribute.subject.value}.{expr.attribute.path}{key}: {expr.type}\n```"
        return f"{head}\n{expr.attribute.doc}\n\n{type_with_unit(expr.type)}{_range(document, expr)}"
    if isinstance(expr, typed.Call):
        return function_text(expr.function)
    if isinstance(expr, typed.LetRef) and (of_group := CATALOGUE.attribute(Subject.POD, expr.name.removeprefix("pod."))) is not None:
        return attribute_text(of_group)
    if isinstance(expr, (typed.ParamRef, typed.LetRef, typed.MetricRef)):
        return _of_value(document, expr.name, expr)
    return _group(document, word)


def _group(document: Document, word: Word) -> str:
    """A field that is not typed: a group of fields, or one of an expression that has an error."""
    path = [word.text]
    at = next(index for index, each in enumerate(document.words) if each.start == word.start)
    while at > 1 and document.words[at - 1].text == ".":
        at -= 2
        path.insert(0, document.words[at].text)
    subject = _SUBJECTS.get(path[0])
    if subject is None:
        return ""
    attribute = CATALOGUE.attribute(subject, ".".join(path[1:]))
    if attribute is not None and document.text[word.end : word.end + 1] != ".":
        return attribute_text(attribute)
    prefix = f"{'.'.join(path[1:])}."
    members = [each.path.removeprefix(prefix) for each in CATALOGUE.attributes(subject) if each.path.startswith(prefix)]
    return f"A group of fields: {wording.listed(members)}" if members else ""


def _function(document: Document, word: Word, _: typed.Expr | None) -> str:
    if word.item == "METRIC" and word.text in SOURCES:
        source = SOURCES[word.text]
        return f"A source of metrics: takes {source.argument}, and {wording.listed(source.options, limit=12)} by name."
    functions = [each for each in CATALOGUE.functions() if each.name.partition(".")[0] == word.text]
    texts = [function_text(each) for each in functions]
    if word.text in vocabulary.SPECIAL_FORMS:
        written, doc = vocabulary.SPECIAL_FORMS[word.text]
        texts.append(f"```policy\n{written}\n```\n{doc}")
    binding = document.checked.notes.names.get(word.name)
    if not texts and binding is not None:
        return _of_binding(document, binding, word.name)
    return "\n\n".join(texts)


def _value(document: Document, word: Word, _: typed.Expr | None) -> str:
    names = document.checked.notes.names
    binding = names.get(word.name)
    if binding is not None:
        return _of_binding(document, binding, word.name)
    declared = document.parameter(word)
    written = _UNTIL_NEXT.match(document.text, declared.start) if declared is not None else None
    return f"```policy\n{written[0].strip()}\n```\nA parameter." if written is not None else ""


def _of_value(document: Document, name: str, expr: typed.Expr) -> str:
    root, dot, member = name.partition(".")
    binding = document.checked.notes.names.get(root)
    if dot and binding is not None and binding.members is not None:
        binding = binding.members.get(member)
    return _of_binding(document, binding, name) if binding is not None else type_with_unit(expr.type)


def _of_binding(document: Document, binding: Binding, name: str) -> str:
    """A declared name: how it is declared, its type, range and the comment above it."""
    if binding.function is not None:
        paragraphs = [f"```policy\n{_statement(binding)}\n```", *([_comment(binding)] if _comment(binding) else [])]
        return "\n\n".join(paragraphs)
    if binding.reference is None:
        members = wording.listed(binding.members or ())
        return f"```policy\nimport … as {name}\n```\nhas {members}" if binding.members else ""
    found = binding.reference(binding.span)
    head = f"```policy\n{_statement(binding)}\n```"
    paragraphs = [head, *([_comment(binding)] if _comment(binding) else [])]
    if found.type.kind is not Kind.UNKNOWN:
        paragraphs.append(type_with_unit(found.type) + _range(document, found))
    return "\n\n".join(paragraphs)


def _statement(binding: Binding) -> str:
    """The line on which a name is declared."""
    return binding.span.source.line(binding.span.line).strip()


def _comment(binding: Binding) -> str:
    """The comment directly above a declaration."""
    found: list[str] = []
    number = binding.span.line - 1
    while number >= 1 and (line := binding.span.source.line(number).strip()).startswith("#"):
        found.insert(0, line.lstrip("# "))
        number -= 1
    return " ".join(found)


def _range(document: Document, expr: typed.Expr) -> str:
    text = range_text(document, expr)
    return f": {text}" if text else ""


def _number(_: Document, word: Word, __: typed.Expr | None) -> str:
    found = _DIGITS.match(word.text)
    digits, unit = (found[0], word.text[found.end() :]) if found is not None else ("", "")
    if unit not in UNITS:
        return ""
    kind, value = literal_kind(digits, unit), base_value(digits, unit)
    base = vocabulary.BASE_UNITS.get(kind)
    return f"{kind.value}: {value:,.15g} {base}" if base and value is not None else f"{kind.value}" if value is not None else ""


def _key(_: Document, word: Word, __: typed.Expr | None) -> str:
    frame = word.frame
    if frame is None:
        return ""
    if frame.holds == "call":
        return vocabulary.OPTIONS.get(word.text, "") if word.item == "METRIC" else ""
    if word.item == "WORKLOAD":
        return REQUEST_FIELDS.get(word.text, "")
    fields, inside = vocabulary.object_fields(frame.path())
    return fields[word.text].doc if not inside and word.text in fields else ""


def _plugin(_: Document, word: Word, __: typed.Expr | None) -> str:
    plugin = CATALOGUE.score_plugins().get(word.text)
    if plugin is None:
        return ""
    return f"A score of kube-scheduler. Arguments: {wording.listed(plugin.arguments) or 'none'}."


def _declared(document: Document, word: Word, _: typed.Expr | None) -> str:
    """A rule, or a node or pod of a test: the line that declares it."""
    wanted = [each for each in document.words if each.role in DECLARATIONS and each.name == word.name]
    in_scope = [each for each in wanted if each.scope == word.scope]
    if not in_scope:
        return ""
    line = document.source.line(document.source.text.count("\n", 0, in_scope[0].start) + 1).strip()
    return f"```policy\n{line}\n```"


def _spread(document: Document, expr: typed.Expr | None, cluster: KnownCluster | None) -> str:
    """The spread of a value over the nodes of the cluster."""
    if (
        expr is None
        or cluster is None
        or expr.type.shape is not Shape.NODE
        or expr.type.kind in {Kind.NODE, Kind.LABELS, Kind.PODS, Kind.DEVICES, Kind.WORKLOAD}
    ):
        return ""
    policy = document.checked.policy or document.checked.notes.policy
    params = {param.name: param.default for param in policy.params} if policy is not None else {}
    found = cluster.spread(expr, policy, params)
    if found is None:
        return ""
    of = wording.count(cluster.snapshot.n_nodes, "node")
    looked = f"{found.nodes:,} of the {of}" if found.nodes < cluster.snapshot.n_nodes else of
    presence = f"; {found.present:,} have it" if found.present < found.nodes else ""
    return f"{looked} of {cluster.name}{presence}: {found.text}"


_BY_ROLE: dict[Role, Callable[[Document, Word, typed.Expr | None], str]] = {
    Role.KEYWORD: _keyword,
    Role.SUBJECT: _subject,
    Role.FIELD: _field,
    Role.FUNCTION: _function,
    Role.NUMBER: _number,
    Role.KEY: _key,
    Role.PLUGIN: _plugin,
    Role.TYPE: partial(_table, dict(vocabulary.TYPES)),
    Role.WORD: partial(_table, dict(vocabulary.WORDS)),
    Role.ANNOTATION: partial(_table, dict(vocabulary.ANNOTATIONS)),
    Role.VALUE: _value,
    Role.PARAM: _value,
    Role.LET: _value,
    Role.METRIC: _value,
    Role.WORKLOAD: _value,
    Role.IMPORT: _value,
    Role.PARAMETER: _value,
    Role.FILTER: _declared,
    Role.PERMIT: _declared,
    Role.SCORE: _declared,
    Role.RULE: _declared,
    Role.OBJECT: _declared,
}
