// How the language server is started: a function of the settings alone, so that it can be tried without an editor.

const { isAbsolute, join } = require("node:path");

/**
 * The command and the arguments that start `wharf lsp`.
 *
 * @param {{path?: string, snapshot?: string}} settings those of `wharfinger`
 * @param {string | undefined} folder the first folder of the workspace; relative paths begin there
 */
function server(settings, folder) {
  const path = (settings.path ?? "").trim() || "wharf";
  const snapshot = (settings.snapshot ?? "").trim();
  const below = (name) => (folder && !isAbsolute(name) && !/^[a-z]+:/i.test(name) ? join(folder, name) : name);
  // A bare name is looked up in $PATH; one with a slash is a file.
  const command = /[\\/]/.test(path) ? below(path) : path;
  return { command, args: ["lsp", ...(snapshot ? ["--snapshot", below(snapshot)] : [])] };
}

module.exports = { server };
