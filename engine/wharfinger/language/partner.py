"""A policy file and the file of its tests: `X.policy` and `X_test.policy` beside it."""

from __future__ import annotations

from dataclasses import replace

from wharfinger.language import ast

SUFFIX = ".policy"
TEST_SUFFIX = "_test.policy"
NONE_MEANT = "NO-POLICIES"
"""A file of this name in a folder, or a key in a ConfigMap, says that having no policies is meant. What it holds is not read."""


def partner_of(name: str) -> str | None:
    """The file of the tests of a policy file, or the policy file of a file of tests."""
    if name.endswith(TEST_SUFFIX):
        return name.removesuffix(TEST_SUFFIX) + SUFFIX
    return name.removesuffix(SUFFIX) + TEST_SUFFIX if name.endswith(SUFFIX) else None


def only_tests(file: ast.File) -> bool:
    """Whether a file holds tests and nothing that they could be tests of."""
    return file.policy is None and not file.items and bool(file.tests)


def with_tests(file: ast.File, partner: ast.File | None) -> ast.File:
    """A file together with the tests kept beside it, if `partner` is a file of tests."""
    return replace(file, tests=file.tests + partner.tests) if partner is not None and only_tests(partner) else file
