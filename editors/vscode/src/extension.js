// Starts `wharf lsp` and hands it the policies that are open.

const vscode = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");
const { server } = require("./server.js");

let client;

async function start() {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  const settings = vscode.workspace.getConfiguration("wharfinger");
  const { command, args } = server({ path: settings.get("path"), snapshot: settings.get("snapshot") }, folder);
  try {
    client = new LanguageClient(
      "wharfinger",
      "Wharfinger",
      { command, args, transport: TransportKind.stdio, options: { cwd: folder } },
      { documentSelector: [{ scheme: "file", language: "wharfinger-policy" }, { scheme: "untitled", language: "wharfinger-policy" }] },
    );
    await client.start();
  } catch (error) {
    client = undefined;
    const chosen = await vscode.window.showErrorMessage(
      `Wharfinger: ${command} cannot be started (${error.message}). Install it with its extra lsp, for example in a checkout: pipx install '.[lsp]'`,
      "Settings",
    );
    if (chosen) await vscode.commands.executeCommand("workbench.action.openSettings", "wharfinger.path");
  }
}

async function stop() {
  const running = client;
  client = undefined;
  await running?.stop();
}

// One after the other: two changes of the settings in a row must not leave two servers.
let queue = Promise.resolve();
function restart() {
  queue = queue.then(stop).then(start).catch((error) => console.error("wharfinger", error));
  return queue;
}

function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("wharfinger.restart", restart),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (["path", "snapshot"].some((name) => change.affectsConfiguration(`wharfinger.${name}`))) restart();
    }),
  );
  return restart();
}

function deactivate() {
  queue = queue.then(stop);
  return queue;
}

module.exports = { activate, deactivate };
