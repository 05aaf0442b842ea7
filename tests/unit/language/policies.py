"""Small policies for tests of the checker."""

from __future__ import annotations

from tests.load_source import load_source
from wharfinger.builtins import CATALOGUE
from wharfinger.language.report.diagnostics import Diagnostics, Source
from wharfinger.language.semantics import typed


def checked(text: str) -> tuple[typed.Policy | None, Diagnostics]:
    """The policy of a text without its first line `policy "p"`, and what was found."""
    diagnostics = Diagnostics()
    source = Source(name="p.policy", text=text if text.startswith(("policy", "import")) else f'policy "p"\n{text}\n')
    return load_source(source, CATALOGUE, diagnostics), diagnostics


def policy(text: str) -> typed.Policy:
    """The policy of a text that has no errors."""
    found, diagnostics = checked(text)
    assert found is not None, [f"{d.code.name} {d.message}" for d in diagnostics]
    return found


def codes(text: str) -> list[str]:
    """The codes of what was found, in order of their places."""
    return [d.code.name for d in checked(text)[1]]


def errors(text: str) -> list[str]:
    """The codes of the errors found."""
    return [d.code.name for d in checked(text)[1] if d.severity.value == "error"]


def value(expression: str, declarations: str = "") -> typed.Expr:
    """The typed form of an expression, as the value of a let."""
    return policy(f"{declarations}\nlet value_under_test = {expression}").lets[-1].value
