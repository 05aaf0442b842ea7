"""The text of a policy read again, with more in it: conditions of a statement, and the test that refutes one.

A condition is checked as a filter of the policy would be, so it may use the policy's lets, params and metrics, and mistakes in it get the
same diagnostics.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from wharfinger.builtins import CATALOGUE
from wharfinger.compiler import reads
from wharfinger.compiler.program import CompiledPolicy, resolve
from wharfinger.errors import UsageError, WharfingerError
from wharfinger.language import ast
from wharfinger.language.check import check
from wharfinger.language.files import imported
from wharfinger.language.format import format_source
from wharfinger.language.parse.parser import parse, parse_expression
from wharfinger.language.report.codes import Severity
from wharfinger.language.report.diagnostics import Diagnostics, PolicyError, Source
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.describe import value_text
from wharfinger.language.semantics.types import Shape
from wharfinger.policies import policy_tests
from wharfinger.policies.scenario import Attempt, Scenario

CONDITION_NAME = "condition_of_statement_"


class EditablePolicy:
    """A compiled policy with its syntax tree, to which conditions and tests can be added."""

    def __init__(self, compiled: CompiledPolicy) -> None:
        self.compiled = compiled
        self.policy = compiled.policy
        self._diagnostics = Diagnostics()
        file = parse(self.policy.source, self._diagnostics)
        if file is None or file.policy is None:
            raise UsageError(f"{self.policy.source.name} cannot be read again")
        self._file = replace(file, tests=())
        self._policy = file.policy
        libraries = {source.name: source for source in self.policy.imports}
        self._libraries = {key: parse(libraries[key], self._diagnostics) for key in self._keys(file, libraries)}

    def _keys(self, file: ast.File, libraries: Mapping[str, Source]) -> list[str]:
        def fetch(key: str) -> ast.File | str:
            found = parse(libraries[key], self._diagnostics) if key in libraries else None
            return found or "it cannot be read again"

        return [key for key, found in imported(file, fetch, self._diagnostics, "") if found is not None]

    def _checked(self, file: ast.File, diagnostics: Diagnostics) -> typed.Policy | None:
        return check(file, CATALOGUE, diagnostics, self._libraries, self.policy.authority)

    def conditions(self, texts: Mapping[str, str], about_pods: frozenset[str]) -> tuple[typed.Policy, dict[str, typed.Expr]]:
        """The policy and the conditions in `texts`, both typed together; the keys are the origins of the texts (`--for`).

        Those of `about_pods` may not read the node. Raises PolicyError for a condition that is wrong.
        """
        diagnostics = Diagnostics()
        filters = [self._as_filter(name, text, index, diagnostics) for index, (name, text) in enumerate(texts.items())]
        _raise_for(diagnostics, texts)
        items = (*self._policy.items, *(each for each in filters if each is not None))
        policy = self._checked(replace(self._file, policy=replace(self._policy, items=items)), diagnostics)
        _raise_for(diagnostics, texts)
        if policy is None:
            raise UsageError(f"{self.policy.source.name} cannot be checked with the conditions of the statement")
        added = {rule.name: rule.clauses[0].condition for rule in policy.filters if rule.name.startswith(CONDITION_NAME)}
        found = {name: added[f"{CONDITION_NAME}{index}"] for index, name in enumerate(texts)}
        for name in about_pods & found.keys():
            if _shape(found[name], policy) > Shape.POD:
                raise UsageError(f"{name} {texts[name]!r}: this condition is about the pod alone, and reads the node or the cluster")
        return replace(policy, filters=tuple(rule for rule in policy.filters if not rule.name.startswith(CONDITION_NAME))), found

    def _as_filter(self, name: str, text: str, index: int, diagnostics: Diagnostics) -> ast.Filter | None:
        if not text.strip():
            raise UsageError(f"{name}: the condition is empty")
        source = Source(name=name, text=text)
        condition = parse_expression(source, 0, len(text), diagnostics)
        if condition is None:
            return None
        on_missing = ast.OnMissing(span=condition.span, action=ast.MissingAction.REJECT, points=None)
        clause = ast.Clause(span=condition.span, is_require=True, condition=condition, message=None, on_missing=on_missing)
        rule = f"{CONDITION_NAME}{index}"
        return ast.Filter(span=condition.span, annotations=(), name=rule, name_span=condition.span, when=None, clauses=(clause,))

    def settings(self) -> list[str]:
        """The lines of a test that give the params the values they were compiled with."""
        plain = {param.name: param.default for param in self.policy.params if param.default is not None}
        defaults = resolve(self.policy, {name: self.compiled.params[name] for name in self.compiled.params if name not in plain})
        own = {param.name: param.type for param in self.policy.params}
        return [
            f"param {name} = {value_text(value, own[name].element or own[name].kind)}"
            for name, value in self.compiled.params.items()
            if name not in plain or value != defaults[name]
        ]

    def tried(self, test: str) -> Trial | None:
        """The outcome of a test block as a test of the policy; None if the policy cannot hold it, or it cannot run."""
        diagnostics = Diagnostics()
        parsed = parse(Source(name="counterexample", text=test), diagnostics)
        if parsed is None or diagnostics.has_errors:
            return None
        policy = self._checked(replace(self._file, tests=parsed.tests), diagnostics)
        if policy is None or not policy.tests:
            return None
        try:
            scenario = Scenario(policy, policy.tests[0])
            for step in policy.tests[0].steps:
                scenario.follow(step)
        except WharfingerError:
            return None
        if scenario.last is None:
            return None
        return Trial(policy=policy, passed=policy_tests.run([policy]).results[0].passed, attempt=scenario.last)


class Trial(Struct, frozen=True, kw_only=True):
    """A test block that ran: whether it passed, and how its pod was placed."""

    policy: typed.Policy
    passed: bool
    attempt: Attempt

    def rejected_by(self, name: str) -> frozenset[str]:
        """The filters that reject a node, those of the policy by their names, those of Kubernetes by theirs."""
        row = self.attempt.snapshot.row(name)
        if row is None:
            return frozenset()
        return frozenset(found.plugin.removeprefix(f"{self.policy.name}/") for found in self.attempt.decision.diagnosis.at(row))


def formatted(test: str) -> str:
    """A test block as `wharf fmt` writes it."""
    return format_source(Source(name="counterexample", text=test), Diagnostics()) or test


def _raise_for(diagnostics: Diagnostics, texts: Mapping[str, str]) -> None:
    """Raise PolicyError for errors in the conditions of a statement."""
    about = Diagnostics()
    for diagnostic in diagnostics:
        if diagnostic.span.source.name in texts and diagnostic.severity is Severity.ERROR:
            about.add(diagnostic)
    if len(about):
        raise PolicyError(about)


def _shape(expr: typed.Expr, policy: typed.Policy) -> Shape:
    parts = list(reads.walk(expr, {let.name: let.value for let in policy.lets}))
    shapes = [part.type.shape for part in parts if part is expr or isinstance(part, typed.LetRef)]
    shapes += [Shape.NODE] if any(isinstance(part, typed.Aggregate) for part in parts) else []
    return max(Shape.POD if shape is Shape.ITEM else shape for shape in shapes)
