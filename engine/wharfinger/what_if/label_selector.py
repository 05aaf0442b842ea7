"""Label selectors of the command line, in the text form of `kubectl -l`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wharfinger.compiler.interpreter import holds
from wharfinger.errors import UsageError
from wharfinger.language.semantics.selector import SelectorError, parse_selector

Selects = Callable[[Mapping[str, str]], bool]
"""Returns True for labels that a selector selects."""


def selector(text: str) -> Selects:
    """The test that a selector stands for. UsageError for one that is empty, which would select everything, or cannot be read."""
    if not text.strip():
        raise UsageError("the selector is empty; it would select everything")
    try:
        requirements = parse_selector(text)
    except SelectorError as error:
        raise UsageError(f"the selector {text}: {error}") from error
    return lambda labels: all(holds(requirement, labels.get(requirement.key)) for requirement in requirements)
