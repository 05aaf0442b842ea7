"""The extension for VS Code: what its package holds, how it starts the language server, and its snippets."""

import json
import re
import subprocess
import zipfile

import pytest

from tests.unit.editors.conftest import EXTENSION

MANIFEST = json.loads((EXTENSION / "package.json").read_text("utf-8"))
SNIPPETS = json.loads((EXTENSION / "snippets" / "policy.json").read_text("utf-8"))

VSCODE = """
// An editor that keeps what an extension asks of it; unknown names are classes and functions that do nothing.
const asked = { errors: [], commands: {}, started: [], running: 0 };
const settings = JSON.parse(process.argv[1]);
let changed;
const given = {
  workspace: {
    workspaceFolders: [{ uri: { fsPath: process.cwd() } }],
    getConfiguration: () => ({ get: (name) => settings[name] }),
    onDidChangeConfiguration: (run) => ((changed = run), { dispose() {} }),
  },
  window: { showErrorMessage: async (text) => void asked.errors.push(text) },
  commands: { registerCommand: (name, run) => ((asked.commands[name] = run), { dispose() {} }) },
};
const anything = (kept = {}) =>
  new Proxy(class {}, { get: (target, name) => kept[name] ?? target[name] ?? (typeof name === "string" ? anything() : undefined) });
const vscode = anything(Object.fromEntries(Object.entries(given).map(([name, members]) => [name, anything(members)])));
// A client that starts and stops the program, and says nothing to it.
class LanguageClient {
  constructor(_id, _name, { command, args }) {
    Object.assign(this, { command, args });
  }
  start() {
    return new Promise((resolve, reject) => {
      this.process = require("node:child_process").spawn(this.command, this.args);
      this.process.once("error", reject).once("spawn", () => {
        asked.started.push([this.command, ...this.args]);
        asked.running += 1;
        resolve();
      });
    });
  }
  stop() {
    return new Promise((resolve) => {
      this.process.once("exit", () => ((asked.running -= 1), resolve())).kill();
    });
  }
}
const Module = require("node:module");
const load = Module._load;
const stands = { vscode, "vscode-languageclient/node": { LanguageClient, TransportKind: { stdio: 0 } } };
Module._load = (name, ...rest) => stands[name] ?? load(name, ...rest);
const tell = () => console.log(JSON.stringify({ ...asked, commands: Object.keys(asked.commands) }));
"""


def run(folder, script, *words):
    ran = subprocess.run(["node", "-e", script, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_the_package_holds_what_the_manifest_names_and_nothing_else(extension):
    with zipfile.ZipFile(extension / "wharfinger.vsix") as package:
        held = {name.removeprefix("extension/") for name in package.namelist() if name.startswith("extension/")}
        bundle = package.read("extension/dist/extension.js").decode()
        assert package.read("extension/LICENSE.txt") == (EXTENSION.parents[1] / "LICENSE").read_bytes()
    contributes = MANIFEST["contributes"]
    named = [MANIFEST["main"], *(each["path"] for part in ("grammars", "snippets") for each in contributes[part])]
    named += [each["configuration"] for each in contributes["languages"]]
    assert held == {"package.json", "readme.md", "LICENSE.txt", "dist/licenses.txt", *(name.removeprefix("./") for name in named)}
    assert set(re.findall(r'require\("([^"]+)"\)', bundle)) <= {"vscode", *NODE}, "the bundle needs a package that it does not hold"


NODE = {"assert", "child_process", "crypto", "fs", "net", "node:path", "os", "path", "process", "readline", "url", "util"}


def test_the_lock_file_names_no_addresses():
    lock = json.loads((EXTENSION / "package-lock.json").read_text("utf-8"))
    assert not [name for name, each in lock["packages"].items() if "resolved" in each]
    assert all(each.get("integrity") for name, each in lock["packages"].items() if name)


SERVER = 'const { server } = require("./src/server.js"); console.log(JSON.stringify(server(...JSON.parse(process.argv[1]))))'
STARTS = [
    ([{}, "/work"], "wharf", []),
    ([{"path": "", "snapshot": " "}, None], "wharf", []),
    ([{"path": "wharf-dev"}, "/work"], "wharf-dev", []),
    ([{"path": ".venv/bin/wharf", "snapshot": "a/b.json"}, "/work"], "/work/.venv/bin/wharf", ["--snapshot", "/work/a/b.json"]),
    ([{"path": "/opt/wharf", "snapshot": "/a.json"}, "/work"], "/opt/wharf", ["--snapshot", "/a.json"]),
    ([{"snapshot": "openb:default"}, "/work"], "wharf", ["--snapshot", "openb:default"]),
    ([{"snapshot": "a.json"}, None], "wharf", ["--snapshot", "a.json"]),
]


@pytest.mark.parametrize(("given", "command", "arguments"), STARTS)
def test_settings_say_how_the_server_starts(extension, given, command, arguments):
    assert run(extension, SERVER, json.dumps(given)) == {"command": command, "args": ["lsp", *arguments]}


def test_a_program_that_is_not_there_is_named_with_the_remedy(extension):
    activate = """
    const extension = require("./src/extension.js");
    extension.activate({ subscriptions: [] }).then(extension.deactivate).then(tell);
    """
    answer = run(extension, VSCODE + activate, json.dumps({"path": "/nowhere/wharf", "snapshot": ""}))
    assert answer["commands"] == [each["command"] for each in MANIFEST["contributes"]["commands"]]
    (said,) = answer["errors"]
    assert "/nowhere/wharf cannot be started" in said
    assert "pipx install '.[lsp]'" in said


def test_changes_of_the_settings_leave_one_server(extension):
    (extension / "server").write_text("#!/bin/sh\nexec sleep 60\n")
    (extension / "server").chmod(0o755)
    change = """
    const extension = require("./src/extension.js");
    const change = (name) => changed({ affectsConfiguration: (asked) => asked === name });
    extension.activate({ subscriptions: [] }).then(() => {
      settings.snapshot = "a.json";
      change("wharfinger.snapshot");
      change("wharfinger.trace.server");
      settings.snapshot = "";
      change("wharfinger.snapshot");
      return asked.commands["wharfinger.restart"]();
    }).then(async () => {
      asked.left = asked.running;
      await extension.deactivate();
      tell();
    });
    """
    answer = run(extension, VSCODE + change, json.dumps({"path": "./server", "snapshot": ""}))
    assert (answer["left"], answer["running"], answer["errors"]) == (1, 0, [])
    assert answer["started"] == [[str(extension / "server"), "lsp"]] * 4  # the settings were read once both had been changed


def test_the_bundle_is_complete(extension):
    loaded = """
    delete stands["vscode-languageclient/node"];
    console.log(JSON.stringify(Object.keys(require("./dist/extension.js")).sort()));
    """
    assert run(extension, VSCODE + loaded, "{}") == ["activate", "deactivate"]


def expanded(body):
    """The text of a snippet as it is inserted, with what is proposed at each stop."""
    text, former = "\n".join(body), None
    proposed = dict(re.findall(r"\$\{(\d+):((?:[^{}]|\{[^{}]*\})*)\}", text))
    while text != former:
        former, text = text, re.sub(r"\$\{(\d+):((?:[^{}$]|\{[^{}]*\})*)\}", lambda stop: proposed[stop[1]], text)
    return text.replace("$0", "")


@pytest.mark.parametrize("name", SNIPPETS)
def test_a_snippet_is_a_valid_piece_of_a_policy(wharf, tmp_path, name):
    text = expanded(SNIPPETS[name]["body"])
    assert "$" not in text
    used = {
        "Param": "filter f { require node.free.cpu > node.allocatable.cpu * keep_free }",
        "Let": "score s weight 1 = -count(siblings, on: node) normalize minmax",
    }
    used["Metric"] = "score s weight 1 = curve(cpu5m, 0% -> 0, 100% -> 100) on missing 0"
    used["Test"] = "score s weight 1 = least_allocated()"
    head = "" if name == "Policy" else 'policy "p"\n\n'
    path = tmp_path / "p.policy"
    path.write_text(head + (used.get(name, "") + "\n\n" + text if name == "Test" else text + "\n\n" + used.get(name, "")))
    _, out, err = wharf("check", "--format", "json", path)
    findings = [each for each in json.loads(out)["diagnostics"] if each["severity"] == "error"]
    assert (findings, err) == ([], ""), path.read_text()
    if name == "Test":
        assert wharf("test", path)[0] == 0
