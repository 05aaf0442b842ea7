"""The scopes of the TextMate grammar, by the engine of VS Code."""

import json
import subprocess
from pathlib import Path

import pytest

from tests import editor_files
from wharfinger.language.parse import grammar, tokens
from wharfinger.language.report.diagnostics import Diagnostics, Source

ROOT = Path(__file__).parents[3]
SHIPPED = sorted((ROOT / "policies").glob("*.policy"))
EXAMPLE = r"""policy "web-spread" version "1.0.0"
@owner("platform")
for pods where pod.priority >= 1e3 and not (pod.labels["app"] ?? "") == 'a\n# no comment'
param keep: percent = 10% range 0%..50%  # a comment
param kinds: set<string> = ["a"]
let here = count(pods where it.namespace == pod.namespace, on: node)
filter room when true { require node.free.memory > 2Gi else "only {node.free.memory} of {{2Gi}}" on missing pass }
score s weight 2 = most_allocated(cpu: 1) normalize minmax
base kubernetes { NodeResourcesFit weight 0 }
tie_break node.pod_count desc
test "t" {
  node a { cpu: 500m, memory: 2Gb }
  running one like pod-1 on a
  expect pod.on pending
}
"""
WANTED = {
    "policy": "keyword.other.declaration",
    '"web-spread"': "string.quoted",
    "version": "keyword.other",
    "owner": "entity.name.decorator",
    "1e3": "constant.numeric",
    "and": "keyword.operator.word",
    "not": "keyword.operator.word",
    r"'a": "string.quoted",
    r"\n": "constant.character.escape",
    "# no comment'": "string.quoted",
    "# a comment": "comment.line.number-sign",
    "keep": "entity.name",
    "percent": "support.type",
    "set": "support.type",
    "string": "support.type",
    "10": "constant.numeric",
    "%": "keyword.other.unit",
    "..": "keyword.operator",
    "??": "keyword.operator",
    "count": "support.function",
    "it": "variable.language",
    "namespace": "support.variable.property",
    "free.memory": "support.variable.property",
    "Gi": "keyword.other.unit",
    "true": "constant.language",
    "{{": "constant.character.escape",
    "{": "meta.embedded",
    "pass": "constant.language",
    "minmax": "constant.language",
    "most_allocated": "support.function",
    "NodeResourcesFit": "support.class",
    "desc": "keyword.other",
    "m": "keyword.other.unit",
    "Gb": "invalid.illegal.unit",
    "a": "entity.name.object",
    "running": "keyword.other.test",
    "pending": "keyword.other.test",
    "on": "keyword.other.test",
}


@pytest.fixture(scope="module")
def scopes(extension, tmp_path_factory):
    """A function from files to their pieces with the scopes of each."""

    def read(*files):
        ran = subprocess.run(["node", "tokens.mjs", *map(str, files)], cwd=extension, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        return [[(text, [scope.removesuffix(".policy") for scope in found]) for text, found in pieces] for pieces in json.loads(ran.stdout)]

    return read


def test_each_kind_of_word_has_its_scope(scopes, tmp_path):
    path = tmp_path / "example.policy"
    path.write_text(EXAMPLE)
    (pieces,) = scopes(path)
    missed = {
        word: [found for text, found in pieces if text == word]
        for word, scope in WANTED.items()
        if (scope, True) not in [(each, text == word) for text, found in pieces for each in found]
    }
    assert not missed


def test_a_word_behind_a_dot_or_before_a_colon_is_no_keyword(scopes, tmp_path):
    path = tmp_path / "example.policy"
    path.write_text("let a = b.filter.on + f(on: 1, weight : 2)\n")
    (pieces,) = scopes(path)
    named = {text: found for text, found in pieces if text in {"filter", "on", "weight"}}
    assert set(map(tuple, named.values())) <= {("variable.other.member",), ("variable.other.property",)}


def test_shipped_policies_are_coloured_as_the_parser_reads_them(scopes):
    """Each word of a shipped policy has a scope that fits its terminal, and nothing is marked as a mistake."""
    fitting = {"COMMENT": {"comment"}, "STRING": {"string"}, "NUMBER": {"constant", "keyword"}}
    keywords = set(grammar.terminals().keywords.values())
    for path, pieces in zip(SHIPPED, scopes(*SHIPPED), strict=True):
        source = Source(name=path.name, text=path.read_text("utf-8"))
        at, kinds = 0, {}
        for text, found in pieces:
            at = source.text.index(text, at)
            scoped = {scope.partition(".")[0] for scope in found}
            kinds |= dict.fromkeys(range(at, at + len(text)), scoped)
            at += len(text)
            assert "invalid.illegal.unit" not in found, f"{path.name}: {text}"
        for token in tokens.Lexer(source, Diagnostics()).read():
            if token.type in fitting:
                assert kinds[token.start] & fitting[token.type], f"{path.name}: {token}"
            elif token.type in keywords and token.text in grammar.terminals().reserved:
                fit = {
                    "keyword",
                    "constant",
                    *(("variable",) if token.text == "group" else ()),
                }  # a keyword, and the subjects of expressions
                assert kinds[token.start] & fit, f"{path.name}: {token} {kinds[token.start]}"
            elif token.type == "NAME":
                assert not kinds[token.start] & {"keyword", "comment", "string"}, f"{path.name}: {token}"


def test_every_word_of_the_grammar_has_a_class_of_its_own():
    classes = [set(editor_files.words()[name]) for name in editor_files.SCOPES]
    assert set.union(*classes) >= set(grammar.terminals().keywords)
    assert sum(map(len, classes)) == len(set.union(*classes))
    assert editor_files.SCOPES.keys() == editor_files.GROUPS.keys()
