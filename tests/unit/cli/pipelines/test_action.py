"""The steps of `action.yml`, run with bash as GitHub's runner does, on a pull request in a repository that the test makes.

`gh` is a program that keeps comments in a file and answers the requests that the action makes, as GitHub's interface of issues does.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[4]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS = ACTION["runs"]["steps"]
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")

GH = '''#!{python}
"""Comments of issues: GET lists them by pages of 2, POST adds one, PATCH changes one. Refuses writers without the right token."""
import json, os, re, sys
from pathlib import Path

words, flags, free = sys.argv[1:], {{}}, []
while words:
    word = words.pop(0)
    if word in ("--method", "--jq", "--field"):
        flags[word] = words.pop(0)
    elif word in ("--paginate", "--silent"):
        flags[word] = True
    else:
        free.append(word)
verb, path = free
store = Path(os.environ["COMMENTS"])
kept = json.loads(store.read_text())
method = flags.get("--method", "GET")
if method != "GET" and os.environ["GH_TOKEN"] != "writer":
    sys.exit("HTTP 403: Resource not accessible by integration")
listed = re.fullmatch(r"repos/shop/infra/issues/7/comments", path)
one = re.fullmatch(r"repos/shop/infra/issues/comments/([0-9]+)", path)
if method == "GET" and listed:
    mark = re.fullmatch(r'\\.\\[\\] \\| select\\(\\.body \\| startswith\\("(.*)"\\)\\) \\| \\.id', flags["--jq"])[1]
    found = kept if flags.get("--paginate") else kept[:2]
    print("".join(f"{{each['id']}}\\n" for each in found if each["body"].startswith(mark)), end="")
else:
    name, _, file = flags["--field"].partition("=@")
    body = {{name: Path(file).read_text()}}
    if method == "POST" and listed:
        kept.append({{"id": 100 + len(kept)}} | body)
    elif method == "PATCH" and one:
        next(each for each in kept if each["id"] == int(one[1])).update(body)
    else:
        sys.exit("HTTP 404: Not Found")
    store.write_text(json.dumps(kept))
'''

CLUSTER = """apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: small}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}}
- {apiVersion: v1, kind: Node, metadata: {name: large}, status: {allocatable: {cpu: "64", memory: 8Gi, pods: "10"}}}
- {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}}
"""
POLICY = """policy "size"

filter size {
  require node.allocatable.cpu %s 8cpu else "the other size"
}

test "sizes" {
  node a { cpu: %s, memory: 1Gi }
  node b { cpu: %s, memory: 1Gi }
  pod web { requests: { cpu: 1cpu } }
  place web
  expect web on a
  expect b rejected by size
}
"""
SMALL, LARGE = POLICY % ("<", "4cpu", "16cpu"), POLICY % (">", "16cpu", "4cpu")


def evaluated(text, contexts):
    """A value of the action with its expressions replaced; knows `&&`, `||`, `!cancelled()` and comparisons, as the runner does."""

    def value(found):
        source = re.sub(r"[a-z_]+(?:\.[a-z_]+)+", lambda name: f"of({name[0]!r})", found[1])
        source = source.replace("!cancelled()", "True").replace("&&", " and ").replace("||", " or ")
        return str(eval(source, {"of": lambda name: read(contexts, name)}))  # the file is our own

    return EXPRESSION.sub(value, text)


def read(contexts, name):
    for part in name.split("."):
        contexts = contexts.get(part) or "" if isinstance(contexts, dict) else ""
    return contexts


class PullRequest:
    """A repository with a commit on `main` and another one that a pull request proposes, and the comments of the request."""

    def __init__(self, folder):
        self.origin, self.own, self.temporary = folder / "origin", folder / "own", folder / "temporary"
        self.comments = folder / "comments.json"
        self.comments.write_text(json.dumps([{"id": 1, "body": "first"}, {"id": 2, "body": "second"}]))
        for made in (self.origin, self.temporary):
            made.mkdir()
        (folder / "gh").write_text(GH.format(python=sys.executable))
        (folder / "gh").chmod(0o755)
        identity = {f"GIT_{who}_{what}": "x@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        self.environment = {
            "PATH": f"{folder}:{os.environ['PATH']}",
            "HOME": str(folder),
            "PYTHONPATH": str(ROOT / "engine"),
            "RUNNER_TEMP": str(self.temporary),
            "GITHUB_WORKSPACE": str(self.own),
            "COMMENTS": str(self.comments),
            **identity,
        }
        self.git(self.origin, "init", "--quiet", "--initial-branch=main")
        self.git(self.origin, "config", "uploadpack.allowAnySHA1InWant", "true")

    def git(self, folder, *words):
        return subprocess.run(["git", *words], cwd=folder, env=self.environment, capture_output=True, text=True, check=True).stdout.strip()

    def commit(self, **files):
        """The commit after changing files in the folder of policies; None removes one."""
        for name, text in files.items():
            path = self.origin / "policies" / f"{name}.policy"
            path.parent.mkdir(exist_ok=True)
            path.unlink(missing_ok=True)
            if text is not None:
                path.write_text(text)
        (self.origin / "cluster.yaml").write_text(CLUSTER)
        self.git(self.origin, "add", "--all")
        self.git(self.origin, "commit", "--quiet", "--allow-empty", "-m", "change")
        return self.git(self.origin, "rev-parse", "HEAD")

    def run(self, base, token="writer", **inputs):
        """The output of the steps that apply; stops as the runner does, except for steps that run after failures too."""
        subprocess.run(["rm", "-rf", self.own], check=True)
        self.git(self.origin.parent, "clone", "--quiet", "--depth=1", f"file://{self.origin}", str(self.own))
        given = {name: EXPRESSION.sub("", each["default"]) for name, each in ACTION["inputs"].items()}
        given |= {"wharf": str(Path(sys.executable).parent / "wharf"), "snapshot": "cluster.yaml", "token": token} | inputs
        request = {"number": 7, "base": {"sha": base}}
        github = {"event": {"pull_request": request}, "repository": "shop/infra", "action_path": str(ROOT)}
        contexts = {"inputs": given, "github": github, "steps": {}}
        failed, printed = False, []
        for step in STEPS:
            condition = step.get("if", "")
            if (failed and "cancelled()" not in condition) or (evaluated(condition, contexts) in {"False", "", "None"} and condition):
                continue
            output, summary = self.temporary / "output", self.temporary / "summary"
            output.write_text("")
            written = {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary)}
            own = {name: evaluated(text, contexts) for name, text in step["env"].items()}
            ran = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=self.own,
                env=self.environment | written | own,
                capture_output=True,
                text=True,
                check=False,
            )
            printed.append(ran.stdout + ran.stderr)
            failed = failed or ran.returncode != 0
            outputs = dict(line.split("=", 1) for line in output.read_text().splitlines())
            contexts["steps"][step.get("id", step["name"])] = {"outputs": outputs}
        return failed, "".join(printed)

    @property
    def bodies(self):
        return [each["body"] for each in json.loads(self.comments.read_text())]


@pytest.fixture
def request_(tmp_path):
    return PullRequest(tmp_path)


def test_a_step_reads_inputs_through_its_environment_alone():
    assert not any(EXPRESSION.search(step["run"]) for step in STEPS)
    used = {name for step in STEPS for text in [*step["env"].values(), step.get("if", "")] for name in re.findall(r"inputs\.(\w+)", text)}
    assert used == set(ACTION["inputs"])


def test_the_comment_says_what_changes_and_is_rewritten(request_):
    base = request_.commit(size=SMALL)
    request_.commit(size=LARGE)
    failed, printed = request_.run(base)
    assert not failed, printed
    *others, own = request_.bodies
    assert others == ["first", "second"]
    assert own.startswith("<!-- wharf diff -->\n### Placement: 1 of 1 pod differs")
    assert "| shop/web | small | large |" in own
    assert "Placement: 1 of 1" in (request_.temporary / "summary").read_text()

    request_.commit(size=SMALL)
    failed, printed = request_.run(base)
    assert not failed, printed
    assert [body.splitlines()[1][:20] for body in request_.bodies[2:]] == ["### Placement: nothi"]


def test_new_policies_are_compared_with_none_and_removed_ones_too(request_):
    base = request_.commit()
    request_.commit(size=LARGE, rest=SMALL.replace('"size"', '"rest"').replace("filter size", "filter size when pod.priority > 5"))
    failed, printed = request_.run(base)
    assert failed, "the test of the second one no longer holds"
    head = request_.commit(rest=None)
    failed, printed = request_.run(base, most="0")
    assert (failed, "no policies" in request_.bodies[-1]) == (False, True), printed
    failed, printed = request_.run(head)
    assert not failed, printed


def test_findings_fail_the_run_and_are_in_it(request_):
    base = request_.commit(size=SMALL)
    request_.commit(size=SMALL.replace("node.", "nod."))
    failed, printed = request_.run(base)
    assert failed
    assert "::error file=policies/size.policy,line=4" in printed
    assert "do not compile cannot be compared" in printed
    assert request_.bodies == ["first", "second"]


def test_a_failing_test_fails_the_run_but_not_the_comment(request_):
    base = request_.commit(size=SMALL)
    request_.commit(size=LARGE.replace("web on a", "web on b"))
    failed, printed = request_.run(base)
    assert (failed, "test-failed" in printed, len(request_.bodies)) == (True, True, 3), printed


def test_a_pull_request_may_mend_what_was_broken(request_):
    base = request_.commit(size=SMALL.replace("node.", "nod."))
    request_.commit(size=SMALL)
    failed, printed = request_.run(base)
    assert (failed, "do not compile cannot be compared" in printed) == (False, True), printed


def test_a_token_that_may_only_read_leaves_the_summary(request_):
    base = request_.commit(size=SMALL)
    request_.commit(size=LARGE)
    failed, printed = request_.run(base, token="reader")
    assert (failed, "::warning title=wharf diff::" in printed, len(request_.bodies)) == (False, True, 2), printed
    assert "Placement" in (request_.temporary / "summary").read_text()


@pytest.mark.parametrize("wrong", [{"policies": "nowhere"}, {"snapshot": "nowhere.yaml"}, {"policies": "$(touch pwned)"}, {"most": "few"}])
def test_wrong_inputs_fail_the_run(request_, wrong):
    base = request_.commit(size=SMALL)
    failed, printed = request_.run(base, **wrong)
    assert failed, printed
    assert not (request_.own / "pwned").exists()
