"""Policies for tests of proofs, and the check that a counterexample fails when `wharf test` would run it."""

from functools import lru_cache
from pathlib import Path

from wharfinger.builtins import CATALOGUE
from wharfinger.compiler.program import compile_policy
from wharfinger.language.load import TextSet
from wharfinger.language.report.diagnostics import Diagnostics
from wharfinger.policies import policy_tests

FOLDER = Path(__file__).parents[3] / "policies"
BEYOND = {"gang-racks", "gpu-sharing"}
"""Shipped policies that read members of groups or sum up over devices, which is beyond what is modelled."""
MODELLED = sorted(path.stem for path in FOLDER.glob("*.policy") if path.stem not in BEYOND)


def checked(text, name="p.policy"):
    """The typed policy of a text."""
    diagnostics = Diagnostics()
    policy = TextSet(texts={name: text.encode()}).check(name, CATALOGUE, diagnostics).policy
    assert policy is not None, [str(each.message) for each in diagnostics]
    return policy


@lru_cache(maxsize=512)
def compiled(text, name="p.policy"):
    """The compiled policy of a text."""
    return compile_policy(checked(text, name))


def text_of(name):
    """The text of a shipped policy."""
    return (FOLDER / f"{name}.policy").read_text()


def shipped(name):
    """A shipped policy."""
    return compiled(text_of(name), f"{name}.policy")


def fails(policy, answer):
    """True if the counterexample, added to the file that it names, is a valid test that runs and fails."""
    text = policy.policy.source.text
    head = text[: text.index("\ntest ")] if "\ntest " in text else text
    typed = checked(f"{head}\n{answer.counterexample}")
    (result,) = policy_tests.run([typed]).results
    return not result.passed and not any("cannot run" in failure.sentence for failure in result.failures)
