"""The language server, by pygls: receives the requests of the Language Server Protocol and sends the answers of `answers`.

An editor sends the whole text with each change, and sends a request for everything that it shows. A text is analysed at the first request
after a change. Findings are sent a moment after the last change, so they do not delay typing. pygls has no limit for the size of a message.
It does not answer a request that does not fit its type, so the editor waits forever, and it writes a traceback. This server answers such a
request with an error of JSON-RPC 2.0. A message that is too long or cut off ends the server.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from typing import Any, BinaryIO

from lsprotocol import types as lsp
from msgspec import Struct
from pygls import uris
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams, JsonRpcInvalidRequest, JsonRpcMethodNotFound
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol

import wharfinger
from wharfinger.authoring import highlighting, navigation
from wharfinger.authoring.known_cluster import KnownCluster
from wharfinger.authoring.protocol.answers import MAKE_TEST, RUN_TEST, Answers, name_of, uri_of
from wharfinger.errors import UsageError, WharfingerError

FINDINGS_DELAY = 0.25
"""Seconds after the last change at which findings are sent."""
MAX_HEADER_BYTES = 2**12
"""Bytes of one line of a header."""
HEADER = re.compile(rb"(?:Content-Length: *[0-9]+|(?!Content-Length)[!-9;-~]+:[^\r\n]*)?\r?\n?", re.IGNORECASE)
"""One line of a header, or the empty line after the last one; pygls passes over what is none, and waits for ever."""
MAX_MESSAGE_BYTES = 4 * 2**20
"""Bytes of one message, which can need 25 times as much memory. It holds the whole text of a policy: 1.5 MiB if each byte is an escape."""


def server(cluster: KnownCluster | None = None) -> LanguageServer:
    """A language server that is not started yet; completion, hover and lenses read `cluster`."""
    full = lsp.TextDocumentSyncKind.Full
    found = LanguageServer("wharf", wharfinger.__version__, text_document_sync_kind=full, protocol_cls=Protocol)
    answers = Answers(cluster)
    _register_documents(found, answers)
    _register_writing(found, answers)
    _register_navigation(found, answers)
    _register_views(found, answers)
    _register_commands(found, answers)
    return found


class _DiagnosticsSender:
    """Sends the findings about documents a moment after the last change."""

    def __init__(self, found: LanguageServer, answers: Answers) -> None:
        self.found = found
        self.answers = answers
        self.waiting: dict[str, asyncio.TimerHandle] = {}

    def changed(self, uri: str, text: str, version: int, pause: float) -> None:
        """Read a new text, and send the findings about it and about the files that import it."""
        name = name_of(uri)
        self.answers.forget_results(name)
        self.answers.workspace.changed(name, text, version)
        self.soon(name, pause)
        for other in self.answers.workspace.users_of(name):
            self.soon(other.name, pause + FINDINGS_DELAY)

    def soon(self, name: str, pause: float) -> None:
        """Send the findings about a document after a pause; a later call takes the place of this one."""
        if name in self.waiting:
            self.waiting[name].cancel()
        self.waiting[name] = asyncio.get_event_loop().call_later(pause, self._send, name)

    def _send(self, name: str) -> None:
        self.waiting.pop(name, None)
        document = self.answers.workspace.open.get(name)
        if document is not None:
            diagnostics = self.answers.diagnostics(document)
            self.found.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri_of(name), diagnostics, document.version))


def _register_documents(found: LanguageServer, answers: Answers) -> None:
    """Keep the texts of the editor."""
    sender = _DiagnosticsSender(found, answers)

    @found.feature(lsp.INITIALIZED)
    def initialized(params: lsp.InitializedParams) -> None:
        del params
        folders = [path for uri in found.workspace.folders if (path := uris.to_fs_path(uri))]
        answers.workspace.folders = folders or [path for path in [found.workspace.root_path] if path]

    @found.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        sender.changed(params.text_document.uri, params.text_document.text, params.text_document.version, 0.0)

    @found.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def edited(params: lsp.DidChangeTextDocumentParams) -> None:
        change = params.content_changes[-1]
        sender.changed(params.text_document.uri, change.text, params.text_document.version, FINDINGS_DELAY)

    @found.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        answers.workspace.open.pop(name_of(params.text_document.uri), None)
        found.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(params.text_document.uri, []))


def _register_writing(found: LanguageServer, answers: Answers) -> None:
    """Completion, hover, signatures and formatting."""

    @found.feature(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=[".", '"', "'", "@", "{", "[", "("]))
    def complete(params: lsp.CompletionParams) -> lsp.CompletionList | None:
        document = answers.known(params.text_document.uri)
        return None if document is None else answers.completion(document, answers.offset(document, params.position))

    @found.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hovered(params: lsp.HoverParams) -> lsp.Hover | None:
        document = answers.known(params.text_document.uri)
        return None if document is None else answers.hover(document, answers.offset(document, params.position))

    @found.feature(lsp.TEXT_DOCUMENT_SIGNATURE_HELP, lsp.SignatureHelpOptions(trigger_characters=["(", ","]))
    def signature(params: lsp.SignatureHelpParams) -> lsp.SignatureHelp | None:
        document = answers.known(params.text_document.uri)
        return None if document is None else answers.signature_help(document, answers.offset(document, params.position))

    @found.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def format_document(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit] | None:
        document = answers.known(params.text_document.uri)
        return None if document is None else answers.formatting(document)


def _register_navigation(found: LanguageServer, answers: Answers) -> None:
    """Definitions, references and renaming."""

    @found.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def definition(params: lsp.DefinitionParams) -> list[lsp.Location]:
        document = answers.known(params.text_document.uri)
        return [] if document is None else answers.definition(document, answers.offset(document, params.position))

    @found.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    def references(params: lsp.ReferenceParams) -> list[lsp.Location]:
        document = answers.known(params.text_document.uri)
        if document is None:
            return []
        declarations = params.context.include_declaration
        return answers.references(document, answers.offset(document, params.position), declarations=declarations)

    @found.feature(lsp.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    def highlight(params: lsp.DocumentHighlightParams) -> list[lsp.DocumentHighlight]:
        document = answers.known(params.text_document.uri)
        return [] if document is None else answers.highlight(document, answers.offset(document, params.position))

    @found.feature(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
    def prepare(params: lsp.PrepareRenameParams) -> lsp.Range | None:
        document = answers.known(params.text_document.uri)
        place = navigation.renamable(document, answers.offset(document, params.position)) if document is not None else None
        return answers.range(document, *place) if document is not None and place is not None else None

    @found.feature(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
    def rename(params: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
        document = answers.known(params.text_document.uri)
        if document is None:
            return None
        try:
            return answers.rename(document, answers.offset(document, params.position), params.new_name)
        except UsageError as error:
            found.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Error, str(error)))
            return None

    @found.feature(lsp.WORKSPACE_SYMBOL)
    def symbols(params: lsp.WorkspaceSymbolParams) -> list[lsp.WorkspaceSymbol]:
        return answers.workspace_symbols(params.query)


def _register_views(found: LanguageServer, answers: Answers) -> None:
    """Answer about the whole text."""
    legend = lsp.SemanticTokensLegend(list(highlighting.KINDS), list(highlighting.MODIFIERS))

    @found.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def symbols(params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        document = answers.known(params.text_document.uri)
        return [] if document is None else answers.symbols(document)

    @found.feature(lsp.TEXT_DOCUMENT_FOLDING_RANGE)
    def folding(params: lsp.FoldingRangeParams) -> list[lsp.FoldingRange]:
        document = answers.known(params.text_document.uri)
        return [] if document is None else answers.folding(document)

    @found.feature(lsp.TEXT_DOCUMENT_SELECTION_RANGE)
    def selection(params: lsp.SelectionRangeParams) -> list[lsp.SelectionRange]:
        document = answers.known(params.text_document.uri)
        return [] if document is None else answers.selection(document, [answers.offset(document, each) for each in params.positions])

    @found.feature(lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, lsp.SemanticTokensRegistrationOptions(legend=legend, full=True, range=True))
    def tokens(params: lsp.SemanticTokensParams) -> lsp.SemanticTokens:
        document = answers.known(params.text_document.uri)
        return lsp.SemanticTokens(data=[]) if document is None else answers.semantic_tokens(document)

    @found.feature(lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE, lsp.SemanticTokensRegistrationOptions(legend=legend, full=True, range=True))
    def tokens_in_range(params: lsp.SemanticTokensRangeParams) -> lsp.SemanticTokens:
        document = answers.known(params.text_document.uri)
        if document is None:
            return lsp.SemanticTokens(data=[])
        return answers.semantic_tokens(document, answers.offset(document, params.range.start), answers.offset(document, params.range.end))

    @found.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    def hints(params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        document = answers.known(params.text_document.uri)
        if document is None:
            return []
        return answers.inlay_hints(document, answers.offset(document, params.range.start), answers.offset(document, params.range.end))


def _register_commands(found: LanguageServer, answers: Answers) -> None:
    """Changes, lenses and commands."""
    kinds = [lsp.CodeActionKind.QuickFix, lsp.CodeActionKind.RefactorExtract, lsp.CodeActionKind.Source]

    @found.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions(code_action_kinds=kinds))
    def possible(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        document = answers.known(params.text_document.uri)
        if document is None:
            return []
        start, end = answers.offset(document, params.range.start), answers.offset(document, params.range.end)
        return answers.actions(document, start, end, params.context.diagnostics)

    @found.feature(lsp.TEXT_DOCUMENT_CODE_LENS, lsp.CodeLensOptions(resolve_provider=True))
    def shown(params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
        document = answers.known(params.text_document.uri)
        return [] if document is None else answers.lenses(document)

    @found.feature(lsp.CODE_LENS_RESOLVE)
    def resolve(lens: lsp.CodeLens) -> lsp.CodeLens:
        return answers.resolved(lens)

    @found.command(RUN_TEST)
    def run_test(uri: str, start: int) -> str:
        result = answers.run_test(uri, start)
        kind = lsp.MessageType.Info if result.startswith("passed") else lsp.MessageType.Warning
        found.window_show_message(lsp.ShowMessageParams(kind, result))
        capabilities = found.client_capabilities.workspace
        if capabilities is not None and capabilities.code_lens is not None and capabilities.code_lens.refresh_support:
            found.workspace_code_lens_refresh(None)
        return result

    @found.command(MAKE_TEST)
    def make_test(uri: str) -> None:
        try:
            edit = answers.test_edit(uri)
        except WharfingerError as error:
            found.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Warning, str(error)))
            return
        found.workspace_apply_edit(lsp.ApplyWorkspaceEditParams(edit, "a test from a decision"))


class MessageReader:
    """A stream that holds messages to their limits; pygls reads from it. UsageError for a message that is too long, cut off or none."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def readline(self) -> bytes:
        """A line of a header; empty at the end of the stream."""
        line = self._stream.readline(MAX_HEADER_BYTES + 1)
        if len(line) > MAX_HEADER_BYTES:
            raise UsageError(f"the editor sends a header of more than {MAX_HEADER_BYTES:,} bytes; does something else write to wharf lsp?")
        if HEADER.fullmatch(line) is None:
            raise UsageError(f"the editor sends {line[:60]!r}, which is no header of a message; does something else write to wharf lsp?")
        return line

    def read(self, size: int) -> bytes:
        """The `size` bytes of a message; empty at the end of the stream."""
        if size > MAX_MESSAGE_BYTES:
            raise UsageError(f"the editor announces a message of {size:,} bytes; at most {MAX_MESSAGE_BYTES:,} are read")
        body = self._stream.read(size)
        if 0 < len(body) < size:
            raise UsageError(f"the editor closed its output within a message, after {len(body):,} of {size:,} bytes")
        return body


class Refused(Struct, frozen=True):
    """A request that cannot be understood, and the error that answers it."""

    id: str | int
    error: JsonRpcException


class Protocol(LanguageServerProtocol):
    """The protocol of pygls, with an answer to every request."""

    def structure_message(self, data: dict[str, Any]) -> Any:
        """The message in a JSON object; a Refused for a request that does not fit its type."""
        try:
            return super().structure_message(data)
        except JsonRpcException:
            requester, method = data.get("id"), data.get("method")
            if not isinstance(requester, str | int) or not isinstance(method, str):
                raise
            known = method in self.fm.builtin_features or method in self.fm.features
            return Refused(requester, JsonRpcInvalidParams.of(method) if known else JsonRpcMethodNotFound.of(method))

    def handle_message(self, message: Any) -> None:
        """Answer a message. JsonRpcInvalidRequest for one that is not JSON-RPC, because it has no sender to answer."""
        if isinstance(message, Refused):
            self._send_response(message.id, None, message.error.to_response_error())
        elif not hasattr(message, "jsonrpc"):
            raise JsonRpcInvalidRequest("not a message of JSON-RPC 2.0")
        else:
            super().handle_message(message)


class StderrHandler(logging.Handler):
    """Writes errors of pygls to stderr, one line each or with tracebacks."""

    def __init__(self, *, tracebacks: bool) -> None:
        super().__init__(logging.WARNING)
        self._tracebacks = tracebacks

    def emit(self, record: logging.LogRecord) -> None:
        """Write one complaint."""
        message = self.format(record)
        if not self._tracebacks:
            first, *others = record.getMessage().strip().split("\n")  # pygls writes some tracebacks as part of the message
            error = record.exc_info[1] if record.exc_info else others[-1].strip(" |") if others else ""
            message = first if str(error) in first else f"{first}: {error}"
        sys.stderr.write(f"wharf lsp: {message}\n")
