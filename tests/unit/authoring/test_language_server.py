"""The language server as an editor sees it: a client that starts `wharf lsp` and sends requests."""

import asyncio
import json
import subprocess
import sys

import pytest
from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

from wharfinger.authoring.protocol.server import MAX_MESSAGE_BYTES
from wharfinger.language.files import MAX_BYTES

TEXT = 'policy "x"\n\nlet wide = "😀" == pod.name\n\nfilter f {\n  require wide or node.free.cpu > 1cpu else "full"\n}\n\n'
TEXT += 'test "t" {\n  node a\n  pod p\n  place p\n  expect p on a\n}\n'


async def asked(folder, questions, *arguments):
    """The result of `questions`, called with a client of a server that has opened TEXT, and its document."""
    client = LanguageClient("test", "1")
    said = []

    @client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def published(params):
        said.append(params)

    @client.feature(lsp.WINDOW_SHOW_MESSAGE)
    def shown(params):
        said.append(params)

    @client.feature(lsp.WORKSPACE_APPLY_EDIT)
    def changed(params):
        said.append(params)
        return lsp.ApplyWorkspaceEditResult(applied=True)

    await client.start_io(sys.executable, "-m", "wharfinger", "lsp", *arguments)
    try:
        await client.initialize_async(lsp.InitializeParams(capabilities=lsp.ClientCapabilities(), root_uri=folder.as_uri()))
        client.initialized(lsp.InitializedParams())
        uri = (folder / "x.policy").as_uri()
        client.text_document_did_open(lsp.DidOpenTextDocumentParams(lsp.TextDocumentItem(uri, "policy", 1, TEXT)))
        return await questions(client, lsp.TextDocumentIdentifier(uri), said)
    finally:
        await client.shutdown_async(None)
        client.exit(None)
        await client.stop()


def position(text, wanted):
    offset = text.index(wanted)
    line = text.count("\n", 0, offset)
    return lsp.Position(line, len(text[text.rfind("\n", 0, offset) + 1 : offset].encode("utf-16-le")) // 2)


async def every_question(client, document, said):
    here = position(TEXT, "pod.name")
    end = position(TEXT, "\n\nfilter")
    whole = lsp.Range(lsp.Position(0, 0), lsp.Position(20, 0))
    context = lsp.CodeActionContext(diagnostics=[])
    found = {
        "hover": await client.text_document_hover_async(lsp.HoverParams(document, lsp.Position(here.line, here.character + 5))),
        "completion": await client.text_document_completion_async(lsp.CompletionParams(document, end)),
        "signature": await client.text_document_signature_help_async(lsp.SignatureHelpParams(document, here)),
        "definition": await client.text_document_definition_async(lsp.DefinitionParams(document, position(TEXT, "wide or"))),
        "references": await client.text_document_references_async(
            lsp.ReferenceParams(lsp.ReferenceContext(include_declaration=False), document, position(TEXT, "wide ="))
        ),
        "highlight": await client.text_document_document_highlight_async(lsp.DocumentHighlightParams(document, position(TEXT, "wide ="))),
        "prepare": await client.text_document_prepare_rename_async(lsp.PrepareRenameParams(document, position(TEXT, "wide ="))),
        "rename": await client.text_document_rename_async(lsp.RenameParams(document, position(TEXT, "wide ="), "broad")),
        "refused": await client.text_document_rename_async(lsp.RenameParams(document, position(TEXT, "wide ="), "filter")),
        "symbols": await client.text_document_document_symbol_async(lsp.DocumentSymbolParams(document)),
        "workspace": await client.workspace_symbol_async(lsp.WorkspaceSymbolParams("")),
        "folding": await client.text_document_folding_range_async(lsp.FoldingRangeParams(document)),
        "selection": await client.text_document_selection_range_async(lsp.SelectionRangeParams(document, [here])),
        "tokens": await client.text_document_semantic_tokens_full_async(lsp.SemanticTokensParams(document)),
        "some tokens": await client.text_document_semantic_tokens_range_async(
            lsp.SemanticTokensRangeParams(document, lsp.Range(here, end))
        ),
        "hints": await client.text_document_inlay_hint_async(lsp.InlayHintParams(document, whole)),
        "formatting": await client.text_document_formatting_async(
            lsp.DocumentFormattingParams(document, lsp.FormattingOptions(tab_size=2, insert_spaces=True))
        ),
        "actions": await client.text_document_code_action_async(lsp.CodeActionParams(document, whole, context)),
        "lenses": await client.text_document_code_lens_async(lsp.CodeLensParams(document)),
    }
    found["lens"] = [(await client.code_lens_resolve_async(lens)).command.title for lens in found["lenses"]]
    run = found["lenses"][-1].data
    found["run"] = await client.workspace_execute_command_async(lsp.ExecuteCommandParams("wharfinger.runTest", [run["uri"], run["start"]]))
    await client.workspace_execute_command_async(lsp.ExecuteCommandParams("wharfinger.makeTest", [document.uri]))
    changed = lsp.VersionedTextDocumentIdentifier(2, document.uri)
    whole_text = lsp.TextDocumentContentChangeWholeDocument(TEXT.replace("node.free.cpu", "node.free.cup"))
    client.text_document_did_change(lsp.DidChangeTextDocumentParams(changed, [whole_text]))
    while not any(getattr(each, "version", 0) == 2 for each in said):  # noqa: ASYNC110 — what is waited for comes from another process
        await asyncio.sleep(0.02)
    broken = lsp.Range(position(TEXT, "node.free.cpu"), position(TEXT, " > 1cpu"))
    found["fixes"] = await client.text_document_code_action_async(lsp.CodeActionParams(document, broken, context))
    found["said"] = said
    return found


def test_every_question_of_an_editor_is_answered(tmp_path):
    (tmp_path / "x.policy").write_text(TEXT, "utf-8")
    (tmp_path / "other.policy").write_text('policy "other"\nscore s = 1\n', "utf-8")
    found = asyncio.run(asked(tmp_path, every_question, "--snapshot", "openb:default"))
    assert "The pod's name." in found["hover"].contents.value
    assert found["hover"].range.start == position(TEXT, "pod.name")
    assert "name" in {item.label for item in found["completion"].items}
    assert found["signature"] is None
    assert [each.range.start for each in found["definition"]] == [position(TEXT, "wide =")]
    assert [each.range.start for each in found["references"]] == [position(TEXT, "wide or")]
    assert len(found["highlight"]) == 2
    assert found["prepare"].start == position(TEXT, "wide =")
    assert [len(edits) for edits in found["rename"].changes.values()] == [2]
    assert found["refused"] is None
    assert [each.name for each in found["symbols"]] == ["x", "wide", "f", "t"]
    assert {each.name for each in found["workspace"]} == {"x", "wide", "f", "t", "other", "s"}
    assert [(each.start_line, each.end_line) for each in found["folding"]] == [(4, 5), (8, 12)]
    assert found["selection"][0].parent is not None
    assert len(found["tokens"].data) > len(found["some tokens"].data) > 0
    assert [hint.label for hint in found["hints"]] == [": bool"]
    assert not found["formatting"]
    assert [each.title for each in found["actions"]] == ["Make a test from a decision of openb:default"]
    assert found["lens"] == ["passes 1,523 of 1,523 nodes of openb:default for openb/openb-pod-0000", "run this test"]
    assert found["run"] == "passed: t"
    assert "Replace `cup` by `cpu`" in [each.title for each in found["fixes"]]
    diagnostics = [each for each in found["said"] if isinstance(each, lsp.PublishDiagnosticsParams)]
    assert [each.code for each in diagnostics[-1].diagnostics] == ["P302"]
    messages = [each.message for each in found["said"] if isinstance(each, lsp.ShowMessageParams)]
    assert messages == ["`filter` is a word of the language; choose another name", "passed: t"]
    assert [each.label for each in found["said"] if isinstance(each, lsp.ApplyWorkspaceEditParams)] == ["a test from a decision"]


def message(body):
    body = body if isinstance(body, bytes) else json.dumps({"jsonrpc": "2.0", **body}).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def ended(sent):
    """The process `wharf lsp` after its end, with `sent` as its whole input."""
    return subprocess.run([sys.executable, "-m", "wharfinger", "lsp"], input=sent, capture_output=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("sent", "complaint"),
    [
        (b"Content-Length: 99999999999\r\n\r\n{}", "99,999,999,999 bytes; at most 4,194,304"),
        (b"Content-Length: 500\r\n\r\n{}", "closed its output within a message, after 2 of 500 bytes"),
        (b"x" * 5000, "a header of more than 4,096 bytes"),
        (b"{}\r\n", "sends b'{}\\r\\n', which is no header"),
        (b"Content-Length: -2\r\n\r\n{}", "sends b'Content-Length: -2\\r\\n', which is no header"),
    ],
)
def test_a_message_that_is_too_long_or_cut_off_ends_the_server(sent, complaint):
    found = ended(sent)
    assert (found.returncode, found.stdout) == (2, b"")
    assert complaint in found.stderr.decode()
    assert len(found.stderr.splitlines()) == 1


def test_every_request_has_an_answer_however_broken():
    start = {"id": 1, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {}}}
    half = {"uri": "file:///\ud800.policy", "languageId": "policy", "version": 1, "text": 'policy "\udfff"\n'}  # of a pair of code units
    broken = [
        {"id": 2, "method": "no/such"},
        {"id": 3, "method": "textDocument/hover", "params": {"x": 1}},
        {"id": 4, "method": "textDocument/hover"},
        {"id": 5, "method": "workspace/executeCommand", "params": {"command": "no.such"}},
        b"not JSON",
        b"[]",
        b"null",
        {"id": [], "method": "no/such"},
        {"method": "no/such", "params": 3},
        {"method": "textDocument/didOpen", "params": {"textDocument": half}},
        {"method": "textDocument/didOpen", "params": {"textDocument": {**half, "uri": "\ud800"}}},
    ]
    found = ended(b"".join(map(message, [start, *broken, {"id": 9, "method": "shutdown"}, {"method": "exit"}])))
    answers = [json.loads(part[part.index(b"{") :]) for part in found.stdout.split(b"Content-Length")[1:]]
    codes = {answer["id"]: answer.get("error", {}).get("code") for answer in answers if "id" in answer}
    assert codes == {1: None, 2: -32601, 3: -32602, 4: -32602, 5: -32602, 9: None}
    assert b"Traceback" not in found.stderr
    assert all(line.startswith(b"wharf lsp: ") for line in found.stderr.splitlines())


def test_without_the_extra_the_verb_names_it():
    code = "import sys; sys.modules['pygls'] = None; sys.argv = ['wharf', 'lsp']; from wharfinger.__main__ import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 2
    assert "pip install 'wharfinger[lsp]'" in done.stderr


@pytest.mark.parametrize("arguments", [("--snapshot", "/no/such"), ("--snapshot", "x", "--live"), ("--snapshot", __file__)])
def test_a_wrong_cluster_is_a_usage_error(arguments):
    done = subprocess.run(
        [sys.executable, "-m", "wharfinger", "lsp", *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_the_longest_policy_fits_in_a_message():
    """Also where each byte of it is an escape of six, with room for the rest of the message."""
    assert 6 * MAX_BYTES + 2**16 <= MAX_MESSAGE_BYTES
