"""Completion at a position: names, fields, functions, units, keywords, plugins, and values of the cluster.

The text before the position decides. The role of a word at the position gives the kinds of names, and the grammar gives the keywords that
can follow. The rest of the text need not parse.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from wharfinger.authoring import vocabulary
from wharfinger.authoring.completion.place import (
    Candidate,
    Place,
    in_comment,
    place_at,
    statement_start,
    string_at,
    string_in,
    tokens_between,
)
from wharfinger.authoring.completion.quoted_texts import item_of, text_candidates
from wharfinger.authoring.document import Document
from wharfinger.authoring.known_cluster import KnownCluster
from wharfinger.authoring.vocabulary import attribute_text, function_text, short_description
from wharfinger.authoring.words import DECLARED_OBJECTS, DECLARED_VALUES, TERMS, Frame, Role, Word
from wharfinger.builtins import CATALOGUE
from wharfinger.language.check.declarations import SCALARS
from wharfinger.language.check.workloads import FIELDS as REQUEST_FIELDS
from wharfinger.language.parse import grammar
from wharfinger.language.parse.interactive import CLAUSES, ITEMS, STEP_TERMINALS, Interactive
from wharfinger.language.semantics.catalogue import SOURCES, Subject
from wharfinger.language.semantics.types import UNITS
from wharfinger.language.test_steps import Field, Many
from wharfinger.model.objects.requests import NATIVE_BY_FIELD

_NUMBER = re.compile(r"(?<![A-Za-z0-9_.])([0-9]+(?:\.[0-9]+)?)([A-Za-z%]*)\Z")
_OPERAND = "NUMBER"  # expected exactly where an expression may begin


def candidates(document: Document, offset: int, cluster: KnownCluster | None = None) -> list[Candidate]:
    """The candidates at an offset, the likeliest first; none in comments and where a new name is declared."""
    text = document.text
    offset = max(0, min(offset, len(text)))
    line_start = text.rfind("\n", 0, offset) + 1
    if "#" in text[line_start:offset] and in_comment(document, line_start, offset):
        return []
    string = string_at(document, offset)
    if string is not None:
        brace = text.rfind("{", string.start, offset)
        if brace <= text.rfind("}", string.start, offset) or document.word_at(string.start) is None:
            before = tokens_between(document, statement_start(document, string.start), string.start)
            return text_candidates(document, string, offset, before, cluster)
        inner = string_in(document, brace + 1, offset)
        if inner is not None:
            return text_candidates(document, inner, offset, tokens_between(document, brace + 1, inner.start), cluster)
        return list(_candidates(place_at(document, brace + 1, offset, cluster, inside=True)))
    number = _NUMBER.search(text, line_start, offset)
    if number is not None:
        return list(_units(number, offset))
    return list(_candidates(place_at(document, statement_start(document, offset), offset, cluster, inside=False)))


# ── candidates by the text before the position ──


def _candidates(place: Place) -> Iterator[Candidate]:
    found = _BY_ROLE.get(place.role, _values)(place)
    seen: set[str] = set()
    for offer in found:
        if offer.label not in seen:
            seen.add(offer.label)
            yield offer


def _nothing(_: Place) -> Iterator[Candidate]:
    """A name that is being made up."""
    yield from ()


def _rule_names(place: Place) -> Iterator[Candidate]:
    """Behind `prefer`, the keyword that makes it one of devices; the name of a rule is made up."""
    if place.last == "PREFER":
        yield Candidate.word(place, "device", "keyword", doc=vocabulary.KEYWORDS["device"])


def _fields(place: Place) -> Iterator[Candidate]:
    """The candidates after a dot: fields of a subject, names of an import, results of a function."""
    path: list[str] = []
    at = len(place.before) - 1
    while at >= 1 and place.before[at].type == "DOT" and place.before[at - 1].text.isidentifier():
        path.insert(0, place.before[at - 1].text)
        at -= 2
    if not path:
        yield from _results(place)
        return
    root, *fields = path
    subjects = {subject.word: subject for subject in (Subject.POD, Subject.NODE, item_of(place.before))}
    if root in subjects:
        yield from _attributes(place, subjects[root], ".".join(fields))
    elif not fields:
        yield from _imported(place, root)


def _attributes(place: Place, subject: Subject, prefix: str) -> Iterator[Candidate]:
    start = f"{prefix}." if prefix else ""
    rows = [row for row in CATALOGUE.attributes(subject) if row.path.startswith(start)]
    for row in rows:
        rest = row.path.removeprefix(start)
        if "." in rest:
            group = rest.partition(".")[0]
            members = [each.path.rpartition(".")[2] for each in rows if each.path.startswith(f"{start}{group}.")]
            yield Candidate.word(place, group, "field", detail=f"{', '.join(members[:4])}, …", rank=1)
            continue
        insert = f'{rest}["$1"]' if row.keyed else rest
        yield Candidate.word(place, rest, "field", insert=insert, snippet=row.keyed, detail=str(row.type), doc=attribute_text(row), rank=0)


def _imported(place: Place, name: str) -> Iterator[Candidate]:
    binding = place.document.declarations.checked.notes.names.get(name)
    for member, found in (binding.members or {}).items() if binding is not None else ():
        yield Candidate.word(place, member, "value", detail=found.what)


def _results(place: Place) -> Iterator[Candidate]:
    """The results of a function with several: `unseen_requests(m).cpu`."""
    depth = 0
    for at in range(len(place.before) - 2, -1, -1):
        kind = place.before[at].type
        depth += (kind == "RPAR") - (kind == "LPAR")
        if depth == 0:
            name = place.before[at - 1].text if at else ""
            for function in CATALOGUE.functions():
                owner, dot, member = function.name.partition(".")
                if dot and owner == name:
                    yield Candidate.word(place, member, "field", doc=function_text(function))
            return


def _types(place: Place) -> Iterator[Candidate]:
    for name in SCALARS:
        yield Candidate.word(place, name, "type", doc=vocabulary.TYPES[name])
    if place.last == "COLON":
        yield Candidate.word(place, "set", "type", insert="set<${1:string}>", snippet=True, doc=vocabulary.TYPES["set"])


def _annotations(place: Place) -> Iterator[Candidate]:
    for name, doc in vocabulary.ANNOTATIONS.items():
        yield Candidate.word(place, name, "annotation", insert=f'{name}("$1")', snippet=True, doc=doc)


def _plugins(place: Place) -> Iterator[Candidate]:
    yield from _keywords(place)
    for name, plugin in CATALOGUE.score_plugins().items():
        yield Candidate.word(place, name, "plugin", detail=", ".join(sorted(plugin.arguments)) or "no arguments")


def _words(place: Place) -> Iterator[Candidate]:
    """The words after `normalize` and `on missing`."""
    item = place.reading.item
    if place.last == "NORMALIZE":
        table: Mapping[str, str] = vocabulary.NORMALIZE_WORDS
    elif place.last == "DISRUPTION":
        table = vocabulary.DISRUPTION_WORDS
    elif place.last == "GROUP":
        yield from _groups(place)
        return
    else:
        table = {"FILTER": vocabulary.CLAUSE_WORDS, "PERMIT": vocabulary.CLAUSE_WORDS, "PREEMPTION": vocabulary.VICTIM_WORDS}.get(
            item, vocabulary.SCORE_WORDS
        )
    for word, doc in table.items():
        yield Candidate.word(place, word, "word", doc=doc)


def _groups(place: Place) -> Iterator[Candidate]:
    """The names of groups in the same test: the values of its objects for the key that `group by` names."""
    words = place.document.words
    named = {word.name for word in words if word.item == "GROUP" and word.frame is not None and word.frame.holds == "index"}
    seen = set[str]()
    for key, colon, value in zip(words, words[1:], words[2:], strict=False):
        there = key.scope is not None and key.scope == place.reading.scope and key.name in named and colon.token == "COLON"  # noqa: S105  # a terminal
        if there and value.role is Role.STRING and value.name not in seen:
            seen.add(value.name)
            name = value.name if value.name.isidentifier() else value.text
            yield Candidate.word(place, name, "object", detail=f"group by {key.text}")


def _objects(place: Place) -> Iterator[Candidate]:
    """Nodes and pods of the same test."""
    wanted = {
        "PLACE": {Role.TEST_POD},
        "ON": {Role.TEST_NODE},
        "COMMA": {Role.TEST_NODE},
        "COLON": {Role.TEST_NODE},
    }.get(place.last, DECLARED_OBJECTS)
    if place.last == "LIKE":
        wanted = {Role.TEST_NODE} if place.reading.step == "NODE" else {Role.TEST_POD}
    for word in _declared(place, wanted):
        if word.scope == place.reading.scope:
            yield Candidate.word(place, word.text, "object", detail=word.role.value)
    keyword = {"PLACE": "group", "EXPECT": "group", "ON": "device" if place.reading.step == "EXPECT" else ""}.get(place.last)
    if keyword:
        yield Candidate.word(place, keyword, "keyword", doc=vocabulary.KEYWORDS[keyword])


def _rules(place: Place) -> Iterator[Candidate]:
    for word in _declared(place, {Role.FILTER} if place.last == "BY" else {Role.SCORE}):
        yield Candidate.word(place, word.text, "rule", detail=word.role.value)


def _step_values(place: Place) -> Iterator[Candidate]:
    """The metrics or params that a line of a test sets."""
    for word in _declared(place, {Role.METRIC if place.last == "METRIC" else Role.PARAM}):
        yield Candidate.word(place, word.text, "value", detail=word.role.value)


def _declared(place: Place, roles: Iterable[Role]) -> Iterator[Word]:
    wanted = frozenset(roles)
    return (word for word in place.document.words if word.role in wanted and word.start != place.start)


# ── expressions ──


def _values(place: Place) -> Iterator[Candidate]:
    frame = place.frame
    if frame is not None and frame.holds in {"object", "samples"} and place.last in {"LBRACE", "COMMA"}:
        yield from _keys(place, frame)
        return
    if place.role is Role.VALUE and place.reading.step in {"METRIC", "PARAM"} and place.last == place.reading.step:
        yield from _step_values(place)
        return
    if frame is not None and frame.holds == "call" and place.last in {"LPAR", "COMMA"}:
        yield from _named_arguments(place, frame.name)
        if place.reading.item == "METRIC":
            return
    if place.reading.item == "METRIC" and frame is None and place.last == "ASSIGN":
        for name, source in SOURCES.items():
            yield Candidate.word(place, name, "function", insert=f"{name}($1)", snippet=True, detail=source.argument)
        return
    if place.reading.item == "WORKLOAD" and (frame is None or frame.holds == "set"):
        yield from _requests(place)
        return
    expected = _expected(place)
    if expected is None or _OPERAND in expected:
        yield from _operands(place)
    yield from _keywords(place, expected)


def _requests(place: Place) -> Iterator[Candidate]:
    """The list of a workload, or one request in it."""
    request = "{ cpu: ${1:4cpu}, gpu: ${2:1}, weight: ${3:12%} }"
    if place.last == "ASSIGN":
        yield Candidate.word(place, "[{ … }]", "word", insert=f"[\n  {request},\n]", snippet=True, doc=vocabulary.KEYWORDS["workload"])
    elif place.last in {"LSQB", "COMMA"}:
        yield Candidate.word(place, "{ … }", "word", insert=request, snippet=True, doc="One kind of pod, and how common it is.")


def _operands(place: Place) -> Iterator[Candidate]:
    own = place.before[1].start if len(place.before) > 1 else -1  # no declaration needs itself
    for word in _declared(place, DECLARED_VALUES):
        if word.start == own:
            continue
        yield Candidate.word(place, word.text, "value", detail=short_description(place.document, word), rank=0)
    statement = place.document.statement_at(place.before[-1].start) if place.reading.item == "LET" and place.before else None
    for word in statement.words if statement is not None else ():
        if word.role is Role.PARAMETER:
            yield Candidate.word(place, word.text, "value", detail="parameter", rank=0)
    for name, doc in vocabulary.SUBJECTS.items():
        if name != "it" or _selects(place):
            yield Candidate.word(place, name, "subject", doc=doc, rank=1)
    for function in CATALOGUE.functions():
        name = function.name.partition(".")[0]
        call = f"{name}($1)" if function.parameters or function.variadic else f"{name}()"
        yield Candidate.word(place, name, "function", insert=call, snippet=True, doc=function_text(function), rank=2)
    for name, (written, doc) in vocabulary.SPECIAL_FORMS.items():
        yield Candidate.word(place, name, "function", insert=f"{name}($1)", snippet=True, detail=written, doc=doc, rank=2)


def _selects(place: Place) -> bool:
    """True where `it` has a meaning: after `pods where` and `devices where`, in `preemption`, and in the value of an aggregate."""
    return place.reading.item == "PREEMPTION" or any(token.type in {"PODS", "DEVICES"} for token in place.before[1:])


def _keys(place: Place, frame: Frame) -> Iterator[Candidate]:
    """The fields of an object of a test, of a plugin's arguments, or the nodes of samples."""
    if frame.holds == "samples":
        for word in _declared(place, {Role.TEST_NODE}):
            if word.scope == place.reading.scope:
                yield Candidate.word(place, word.text, "object", insert=f"{word.text}: ")
        return
    if place.reading.item == "WORKLOAD":
        for name, doc in REQUEST_FIELDS.items():
            yield Candidate.word(place, name, "key", insert=f"{name}: ", doc=doc)
        return
    path = frame.path()
    plugin = CATALOGUE.score_plugins().get(path[0]) if path else None
    if plugin is not None:
        for name in sorted(plugin.arguments) if len(path) == 1 else ():
            yield Candidate.word(place, name, "key", insert=f"{name}: ")
        return
    yield from _keys_of_object(place, path)


def _keys_of_object(place: Place, path: tuple[str, ...]) -> Iterator[Candidate]:
    """The fields of a node, pod or device of a test, or the keys of one of them."""
    fields, inside = vocabulary.object_fields(path)
    if not inside:
        for name, row in fields.items():
            yield Candidate.word(place, name, "key", insert=f"{name}: {_opening(row)}", snippet=True, detail=row.form.value, doc=row.doc)
    elif len(inside) == 1 and inside[0] in fields:
        yield from _nested_keys(place, Subject.NODE if path[0] == "NODE" else Subject.POD, inside[0], fields[inside[0]])


def _nested_keys(place: Place, subject: Subject, name: str, field: Field) -> Iterator[Candidate]:
    """The keys of a field with keys: those that the field has, or the cluster."""
    resources = NATIVE_BY_FIELD if name in {"requests", "limits", "capacity"} else ()
    for key in sorted(field.keys) or resources:
        yield Candidate.word(place, key, "key", insert=f"{key}: ")
    if place.cluster is not None and name in {"labels", "annotations", "node_selector", "resources"}:
        for key in place.cluster.keys(subject, name):
            yield Candidate.word(place, f'"{key}"', "key", insert=f'"{key}": ')


def _opening(row: Field) -> str:
    return {Many.ONE: "$1", Many.LIST: "[$1]", Many.BY_KEY: "{ $1 }", Many.DEVICES: "[{ $1 }]"}[row.many]


def _named_arguments(place: Place, name: str) -> Iterator[Candidate]:
    source = SOURCES.get(name) if place.reading.item == "METRIC" else None
    if source is not None:
        for option, row in source.options.items():
            doc = vocabulary.OPTIONS.get(option, "")
            yield Candidate.word(place, option, "key", insert=f"{option}: ", detail=row.kind.value, doc=doc, rank=0)
        return
    function = CATALOGUE.function(name)
    for option in function.named if function is not None else ():
        if option.isidentifier():
            yield Candidate.word(place, option, "key", insert=f"{option}: ", rank=0)
    if name in {"count", "sum", "avg", "min", "max"} and any(token.type == "PODS" for token in place.before):
        yield Candidate.word(place, "on", "key", insert="on: node", doc="Over the pods of the candidate node.", rank=0)
        doc = "Over the pods of the nodes that have the candidate's value of a label."
        yield Candidate.word(place, "within", "key", insert='within: "$1"', snippet=True, doc=doc, rank=0)


# ── keywords ──


def _expected(place: Place) -> frozenset[str] | None:
    """The terminals that the grammar accepts here; None if the text before does not parse."""
    engine = Interactive("expression" if place.inside else "start")
    return engine.expected() if engine.feed_all(place.before) == len(place.before) else None


def _keywords(place: Place, expected: frozenset[str] | None = None) -> Iterator[Candidate]:
    expected = expected if expected is not None else _expected(place)
    spelled = {terminal: word for word, terminal in grammar.terminals().keywords.items()}
    begins = place.first_on_line
    holds = place.frame.holds if place.frame is not None else ""
    in_block = holds in {"filter", "test", "preemption", "terms"}
    lines = {"test": STEP_TERMINALS, "terms": TERMS - {"REQUIRED", "PREFERRED"}}.get(holds, CLAUSES if in_block else ITEMS)
    for terminal in sorted(spelled):
        if expected is not None and terminal not in expected:
            continue
        if expected is None and terminal not in ITEMS:
            continue
        starts = terminal in lines
        opened = place.last == "LBRACE"
        if starts and not (begins or opened or not place.before):
            continue
        if not starts and begins and in_block and opened:
            continue
        if _only_a_name(place, terminal, expected):
            continue
        word = spelled[terminal]
        yield Candidate.word(place, word, "keyword", doc=vocabulary.KEYWORDS.get(word, ""), rank=1 if starts else 3)


def _only_a_name(place: Place, terminal: str, expected: frozenset[str] | None) -> bool:
    """True for keywords of tests where an expression takes them as names: they are not offered there."""
    if terminal in TERMS:
        head = terminal == "TIMEOUT" and place.reading.item == "PERMIT" and place.frame is None
        return not (head or (place.frame is not None and place.frame.holds == "terms"))
    if place.frame is not None and place.frame.holds in {"test", "base"}:
        return place.frame.holds == "base" and terminal in _keywords_as_names()
    if terminal in {"NODE", "POD"}:
        return _OPERAND in (expected or ())
    behind = {
        "BY": place.last == "GROUP",
        "VERSION": place.reading.item == "POLICY",
        "KUBERNETES": place.last == "BASE",
        "AS": place.reading.item == "IMPORT",
    }
    in_samples = terminal == "AGE" and place.frame is not None and place.frame.holds == "samples"
    return terminal in _keywords_as_names() and not behind.get(terminal, in_samples)


@cache
def _keywords_as_names() -> frozenset[str]:
    """The keywords that may also be names."""
    terminals = grammar.terminals()
    return frozenset(terminal for word, terminal in terminals.keywords.items() if word not in terminals.reserved)


def _units(number: re.Match[str], offset: int) -> Iterator[Candidate]:
    """A number that has been begun, with each unit."""
    digits, begun = number.groups()
    for unit in UNITS:
        if unit.startswith(begun):
            yield Candidate(label=f"{digits}{unit}", kind="unit", start=number.start(), end=offset, detail=vocabulary.unit_doc(unit))


_BY_ROLE = {
    Role.FIELD: _fields,
    Role.TYPE: _types,
    Role.ANNOTATION: _annotations,
    Role.PLUGIN: _plugins,
    Role.WORD: _words,
    Role.OBJECT: _objects,
    Role.RULE: _rules,
    Role.PARAM: _nothing,
    Role.LET: _nothing,
    Role.METRIC: _nothing,
    Role.WORKLOAD: _nothing,
    Role.IMPORT: _nothing,
    Role.FILTER: _nothing,
    Role.PERMIT: _nothing,
    Role.SCORE: _rule_names,
    Role.TEST: _nothing,
    Role.TEST_NODE: _nothing,
    Role.TEST_POD: _nothing,
}
