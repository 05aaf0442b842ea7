"""The formatter: syntax tree to text in one style.

Comments are not in the tree. They are taken from the text in order, each once, by the statement that they belong to.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from wharfinger.language import ast, test_steps
from wharfinger.language.files import MAX_BYTES
from wharfinger.language.format_expressions import INDENT, WIDTH, key, name, one_line, pretty, pretty_object, string
from wharfinger.language.parse import tokens
from wharfinger.language.parse.parser import parse
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Diagnostics, Source, Span
from wharfinger.language.semantics.describe import quoted
from wharfinger.language.test_steps import Expectation

_BETWEEN = re.compile(r"[ \t,]*")  # what may stand between a statement and the comment about it


class PendingComments(msgspec.Struct):
    """The comments of a file that have not been written yet."""

    source: Source
    waiting: deque[Span]

    @classmethod
    def of(cls, source: Source) -> PendingComments:
        """All comments of a file."""
        return cls(source, deque(tokens.comments(source)))

    def before(self, offset: int) -> list[Span]:
        """The comments that begin before a place."""
        taken = []
        while self.waiting and self.waiting[0].start < offset:
            taken.append(self.waiting.popleft())
        return taken

    def comment_after(self, offset: int) -> Span | None:
        """The comment that follows a place on its line, with at most a comma between."""
        between = _BETWEEN.match(self.source.text, offset)
        if self.waiting and between is not None and between.end() == self.waiting[0].start:
            return self.waiting.popleft()
        return None

    def blank_between(self, start: int, end: int) -> bool:
        """True if a blank line separates two places."""
        return self.source.text.count("\n", start, end) > 1


def format_file(file: ast.File) -> str:
    """The formatted text of a file, comments kept; formatting it again changes nothing."""
    return _Page(file.span.source, PendingComments.of(file.span.source)).written(statements(file))


def canonical(file: ast.File) -> str:
    """The formatted text of a file without comments."""
    return _Page(file.span.source, None).written(statements(file))


def format_source(source: Source, diagnostics: Diagnostics) -> str | None:
    """The formatted text of a source, or None with findings where it does not parse, or would be too large to be read again."""
    found = Diagnostics()  # apart, because findings about other files are no reason to leave this one alone
    file = parse(source, found)
    for diagnostic in found:
        diagnostics.add(diagnostic)
    if file is None or found.has_errors:
        return None
    text = format_verified(file)
    if text is None:
        message = f"formatted, {source.name} would be too large to be read again; the text is not changed"
        diagnostics.error(Code.P004, message, Span(source, 0, 0), help="split it into several policies")
    return text


def format_verified(file: ast.File) -> str | None:
    """The formatted text of a file without errors; None if it would be too large to be read again: more lines and commas take room.

    The result is parsed and compared, so formatting can never change the meaning of a policy.
    """
    source, text = file.span.source, format_file(file)
    if text == source.text:
        return text
    if len(text.encode()) > MAX_BYTES:
        return None
    found = Diagnostics()
    again = parse(Source(name=source.name, text=text), found)
    if any(diagnostic.code is Code.P007 for diagnostic in found):
        return None
    if again is None or not ast.is_same_tree(again, file):
        raise AssertionError(f"formatting {source.name} would change its meaning; the text is not changed")
    return text


class _Page:
    """Text as it grows: lines, and where in the source the last thing written ended."""

    def __init__(self, source: Source, comments: PendingComments | None) -> None:
        self.source = source
        self.comments = comments
        self.lines: list[str] = []
        self.last_end = 0

    def written(self, found: Sequence[Statement]) -> str:
        """The whole text."""
        before: Statement | None = None
        for statement in found:
            self._statement(statement, "", blank=before is not None and _blank_line_between(before, statement), first=before is None)
            before = statement
        self._comments(len(self.source.text), "", first=not self.lines)
        return "\n".join(self.lines) + "\n" if self.lines else ""

    def _statement(self, statement: Statement, indent: str, *, blank: bool, first: bool) -> None:
        content_end = statement.end if statement.body is None else statement.head_end
        if blank:
            self._blank()
        commented = self._comments(content_end, indent, first=first)
        if (commented or not first) and self._blank_before(statement.start):
            self._blank()
        self.lines += [f"{indent}{line}" for line in statement.text.split("\n")]
        self._write_comment_after(content_end)
        if statement.body is not None:
            self._body(statement, indent)

    def _body(self, statement: Statement, indent: str) -> None:
        first = True
        for inner in statement.body or ():
            self._statement(inner, indent + INDENT, blank=False, first=first)
            first = False
        self._comments(statement.end, indent + INDENT, first=first)
        self.lines.append(f"{indent}}}")
        self._write_comment_after(statement.end)

    def _comments(self, offset: int, indent: str, *, first: bool) -> bool:
        """True if there were comments before a place; writes them on separate lines, with the blank lines between them."""
        begun = len(self.lines)
        for comment in self.comments.before(offset) if self.comments else ():
            if not first and self._blank_before(comment.start):
                self._blank()
            self.lines.append(f"{indent}{comment.text}")
            self.last_end = comment.end
            first = False
        return len(self.lines) > begun

    def _write_comment_after(self, offset: int) -> None:
        """Write the comment after a place on its line."""
        comment: Span | None = self.comments.comment_after(offset) if self.comments else None
        if comment:
            self.lines[-1] += f"  {comment.text}"
        self.last_end = max(self.last_end, comment.end if comment else offset)

    def _blank(self) -> None:
        if self.lines and self.lines[-1]:
            self.lines.append("")

    def _blank_before(self, offset: int) -> bool:
        return self.comments is not None and self.comments.blank_between(self.last_end, offset)


def _blank_line_between(before: Statement, statement: Statement) -> bool:
    """True if there is always a blank line between two statements of a file: around bodies, and where the kind of item changes."""
    if before.annotates or before.group == statement.group == "policy":
        return False
    return before.group != statement.group or before.body is not None or statement.body is not None


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """One statement: its place in the source, its text, and the statements in its braces where it has some.

    Statements with the same `group` have no blank line between them; an annotation is of the group of what it `annotates`. `head_end` is
    where the opening brace ends.
    """

    start: int
    end: int
    group: str
    text: str
    body: tuple[Statement, ...] | None = None
    head_end: int = 0
    annotates: bool = False


def statements(file: ast.File) -> list[Statement]:
    """The statements of a file in order: imports, the head of the policy, items and tests."""
    found = [_leaf(item, "import", f"import {string(item.path)} as {item.name}") for item in file.imports]
    policy = file.policy
    if policy:
        version = f" version {string(policy.version)}" if policy.version else ""
        found.append(_leaf(policy, "policy", f"policy {string(policy.name)}{version}"))
        found += [_leaf(annotation, "policy", _annotation(annotation)) for annotation in policy.annotations]
        found += _scope(policy)
    for item in sorted((*(policy.items if policy else file.items), *file.tests), key=lambda item: item.span.start):
        statement = _item(item)
        found += [replace(_leaf(each, statement.group, _annotation(each)), annotates=True) for each in item.annotations]
        found.append(statement)
    return found


def _leaf(node: ast.Node, group: str, text: str) -> Statement:
    return Statement(start=node.span.start, end=node.span.end, group=group, text=text)


def _annotation(annotation: ast.Annotation) -> str:
    return f"@{annotation.name}" + (f"({one_line(annotation.value)})" if annotation.value else "")


def _scope(policy: ast.Policy) -> Iterator[Statement]:
    """`for pods where …`; written without a condition only where the first item's annotations would else be the policy's."""
    if policy.scope:
        yield _leaf(policy.scope, "scope", f"for pods where {pretty(policy.scope, 15, INDENT)}")
    elif policy.items and policy.items[0].annotations:
        start = policy.items[0].annotations[0].span.start
        yield Statement(start=start, end=start, group="scope", text="for pods")


def _item(item: ast.Item) -> Statement:  # noqa: C901, PLR0911, PLR0912  # one case per kind
    match item:
        case ast.Param():
            return _leaf(item, "param", _param(item))
        case ast.Let():
            head = f"let {item.name} = "
            return _leaf(item, "let", head + pretty(item.value, len(head), ""))
        case ast.Function():
            head = f"let {item.name}({', '.join(f'{each.name}: {_type(each.type)}' for each in item.parameters)}) = "
            return _leaf(item, "let", head + pretty(item.value, len(head), ""))
        case ast.Metric():
            head = f"metric {item.name}: {_type(item.type)} = "
            return _leaf(item, "metric", head + pretty(item.source, len(head), ""))
        case ast.Workload():
            return _leaf(item, "workload", _workload(item))
        case ast.Filter():
            return _filter(item)
        case ast.Score():
            return _leaf(item, "score", _score(item))
        case ast.DevicePreference():
            return _leaf(item, "score", _device_preference(item))
        case ast.Base():
            return _base(item)
        case ast.Quantum():
            tier = f" tier {one_line(item.tier)}" if item.tier else ""
            return _leaf(item, "setting", f"quantum {one_line(item.value)}{tier}")
        case ast.TieBreak():
            keys = ", ".join(f"{one_line(key.value)} {'desc' if key.descending else 'asc'}" for key in item.keys)
            return _leaf(item, "setting", f"tie_break {keys}")
        case ast.Preemption():
            body = tuple(_leaf(rule, "entry", _victim_rule(rule)) for rule in item.rules)
            return _block(item, "preemption", "preemption", item.span.start, body)
        case ast.Group():
            by = f" by {pretty(item.by, 9, INDENT)}" if item.by else ""
            body = tuple(_leaf(line, "entry", _group_line(line)) for line in item.lines)
            return _block(item, "group", f"group{by}", (item.by.span.end if item.by else item.span.start), body)
        case ast.Permit():
            return _permit(item)
        case ast.Test():
            body = tuple(_leaf(step, "step", _step(step)) for step in item.steps)
            return _block(item, "test", f"test {string(item.title)}", item.title.span.end, body)
    raise TypeError(f"no item of a policy: {item!r}")


def _block(item: ast.Item, group: str, head: str, after: int, body: tuple[Statement, ...]) -> Statement:
    """A statement with a body; the opening brace is the first one after `after`."""
    brace = item.span.source.text.find("{", after, item.span.end)
    return Statement(start=item.span.start, end=item.span.end, group=group, text=f"{head} {{", body=body, head_end=brace + 1)


def _type(kind: ast.TypeName) -> str:
    return f"{kind.name}<{kind.element}>" if kind.element else kind.name


def _param(item: ast.Param) -> str:
    default = f" = {one_line(item.default)}" if item.default else ""
    ends = f" range {one_line(item.low)}..{one_line(item.high)}" if item.low and item.high else ""
    return f"param {item.name}: {_type(item.type)}{default}{ends}"


def _workload(item: ast.Workload) -> str:
    head = f"workload {item.name} = "
    line = head + one_line(item.value)
    if len(line) <= WIDTH or not isinstance(item.value, ast.SetLiteral):
        return line
    return f"{head}[\n" + "".join(f"{INDENT}{pretty(each, len(INDENT), INDENT, 1)},\n" for each in item.value.items) + "]"


def _filter(item: ast.Filter) -> Statement:
    head = f"filter {item.name}"
    if item.when:
        head += f" when {pretty(item.when, len(head) + 6, INDENT)}"
    body = tuple(_leaf(clause, "clause", _clause(clause)) for clause in item.clauses)
    return _block(item, "filter", head, (item.when.span if item.when else item.name_span).end, body)


def _permit(item: ast.Permit) -> Statement:
    head = f"permit {item.name}" + (f" timeout {one_line(item.timeout)}" if item.timeout else "")
    if item.when:
        head += f" when {pretty(item.when, len(head) + 6, INDENT)}"
    body = tuple(_leaf(clause, "clause", _clause(clause)) for clause in item.clauses)
    after = max(part.span.end if part else item.name_span.end for part in (item.timeout, item.when))
    return _block(item, "permit", head, after, body)


def _group_line(line: ast.GroupLine) -> str:
    word = line.word.value
    match line.word:
        case ast.GroupWord.WITHIN:
            parts = [f"{'required' if level.required else 'preferred'} {string(level.key)}" for level in line.levels]
            return f"{word} {', '.join(parts)}"
        case ast.GroupWord.SPREAD_OVER:
            return f"{word} {', '.join(string(key) for key in line.keys)}"
        case ast.GroupWord.DISRUPTION:
            return f"{word} {'group' if line.whole else 'pod'}"
    return f"{word} {pretty(line.value, len(INDENT) + len(word) + 1, '')}" if line.value else word


def _missing(part: ast.OnMissing | None) -> str:
    if part is None:
        return ""
    return f"on missing {one_line(part.points) if part.points else part.action.value}"


def _joined(head: str, parts: Sequence[str], column: int) -> str:
    """A head and its parts on one line, or each part on its own where they do not fit."""
    line = " ".join([head, *parts])
    if "\n" not in line and column + len(line) <= WIDTH:
        return line
    return f"\n{INDENT}".join([head, *parts])


def _clause(clause: ast.Clause) -> str:
    word = "require " if clause.is_require else "reject "
    condition = word + pretty(clause.condition, len(INDENT) + len(word), "")
    message = [f"else {string(clause.message)}"] if clause.message else []
    missing = [_missing(clause.on_missing)] if clause.on_missing else []
    return _joined(condition, [*message, *missing], len(INDENT))


def _score(item: ast.Score) -> str:
    head = f"{item.form.value} {item.name}"
    for word, value in (("tier", item.tier), ("weight", item.weight), ("when", item.when)):
        head += f" {word} {one_line(value)}" if value else ""
    tail = []
    if item.normalize:
        tail.append(f"normalize {item.normalize.value}" + (f"({one_line(item.spread)})" if item.spread else ""))
    if item.on_missing:
        tail.append(_missing(item.on_missing))
    line = " ".join([f"{head} = {one_line(item.value)}", *tail])
    if len(line) <= WIDTH:
        return line
    return f"\n{INDENT}".join([f"{head} =", pretty(item.value, len(INDENT), INDENT), *tail])


def _device_preference(item: ast.DevicePreference) -> str:
    head = f"prefer device {item.name}" + (f" when {one_line(item.when)}" if item.when else "")
    line = f"{head} = {one_line(item.value)}"
    return line if len(line) <= WIDTH else f"{head} =\n{INDENT}{pretty(item.value, len(INDENT), INDENT)}"


def _base(item: ast.Base) -> Statement:
    texts = [_entry(entry) for entry in item.entries]
    line = f"base kubernetes {{ {texts[0] if texts else ''} }}"
    if len(texts) == 1 and "\n" not in line and len(line) <= WIDTH:
        return _leaf(item, "setting", line)
    body = tuple(_leaf(entry, "entry", text) for entry, text in zip(item.entries, texts, strict=True))
    return _block(item, "setting", "base kubernetes", item.span.start, body)


def _victim_rule(rule: ast.VictimRule) -> str:
    word = f"{'only' if rule.is_only else 'never'}_evict when "
    condition = word + pretty(rule.condition, len(INDENT) + len(word), "")
    return _joined(condition, [_missing(rule.on_missing)] if rule.on_missing else [], len(INDENT))


def _entry(entry: ast.BaseEntry) -> str:
    text = entry.plugin + (f" weight {one_line(entry.weight)}" if entry.weight else "")
    return f"{text} with {pretty_object(entry.arguments, len(INDENT) + len(text) + 6, '')}" if entry.arguments else text


def _step(step: ast.TestStep) -> str:  # noqa: PLR0911  # one case per kind
    match step:
        case test_steps.Object():
            head = f"{step.kind.value} {name(step.name)}" + (f" like {name(step.like)}" if step.like is not None else "")
            return _with_fields(head, step.fields)
        case test_steps.Running():
            like = f" like {name(step.like)}" if step.like is not None else ""
            return _with_fields(f"running {name(step.name)}{like} on {name(step.node)}", step.fields)
        case test_steps.Metric():
            return _samples(step)
        case test_steps.Param():
            return f"param {step.name} = {one_line(step.value)}"
        case test_steps.At() | test_steps.Place():
            return f"at {string(step.text)}" if isinstance(step, test_steps.At) else f"place {name(step.pod)}"
        case test_steps.PlaceGroup():
            return f"place group {name(step.group)}"
        case test_steps.Expect():
            return _expect(step)
        case test_steps.ExpectGroup():
            return _expect_group(step)
    raise TypeError(f"no step of a test: {step!r}")


def _with_fields(head: str, fields: Sequence[ast.ObjectField]) -> str:
    return f"{head} {pretty_object(fields, len(INDENT) + len(head) + 1, '')}" if fields else head


def _samples(step: test_steps.Metric) -> str:
    shown = [
        f"{key(node)}: {one_line(value)}" + (f" age {one_line(age)}" if age else "")
        for (node, _), value, age in zip(step.nodes, step.values, step.ages, strict=True)
    ]
    line = f"metric {step.name} {{ {', '.join(shown)} }}" if shown else f"metric {step.name} {{}}"
    if len(INDENT) + len(line) <= WIDTH:
        return line
    return f"metric {step.name} {{\n" + "".join(f"{INDENT}{sample},\n" for sample in shown) + "}"


def _expect(step: test_steps.Expect) -> str:
    pod = f"{key(step.pod)}: " if step.pod is not None else ""
    text = f"expect {pod}{name(step.subject)} {_outcome(step)}"
    return f"{text} message {string(step.message)}" if step.message else text


def _expect_group(step: test_steps.ExpectGroup) -> str:
    text = f"expect group {name(step.group)} {step.outcome.value}" + (f" in {string(step.key)}" if step.key else "")
    return f"{text} message {string(step.message)}" if step.message else text


def _outcome(step: test_steps.Expect) -> str:
    nodes = ", ".join(name(node) for node, _ in step.nodes)
    rule = name(step.rule) if step.rule is not None else ""
    match step.expectation:
        case Expectation.ON | Expectation.NOT_ON:
            return f"{step.expectation.value} {nodes}"
        case Expectation.ON_DEVICE:
            return f"on device {', '.join(quoted(device) for device in step.devices)}"
        case Expectation.REJECTED:
            return f"rejected by {rule}" if rule else "rejected"
    if step.op and step.points:
        return f"scores {rule} {step.op.value} {_points(step.points)}"
    return str(step.expectation.value)


def _points(points: ast.Expr) -> str:
    """The points of an `expect`, in parentheses if the operator has a lower precedence than a sum."""
    looser = isinstance(points, ast.If | ast.Selection) or (isinstance(points, ast.Unary) and points.op is ast.UnaryOp.NOT)
    arithmetic = (ast.BinaryOp.ADD, ast.BinaryOp.SUB, ast.BinaryOp.MUL, ast.BinaryOp.DIV)
    looser = looser or (isinstance(points, ast.Binary) and points.op not in arithmetic)
    return f"({one_line(points)})" if looser else one_line(points)
