// Bundles the editor into one file for the package, with the licences of everything that is in it. The same sources give the same bytes.

import { build } from "esbuild";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const target = process.argv[2] ?? join(here, "../../engine/wharfinger/web/playground/static");

const { outputFiles, metafile } = await build({
  absWorkingDir: here,
  entryPoints: ["src/editor.js"],
  bundle: true,
  format: "esm",
  minify: true,
  charset: "utf8",
  target: "es2022",
  legalComments: "none",
  metafile: true,
  write: false,
  banner: { js: "// Made by editors/playground; the licences of what is in it are in editor.licenses.txt." },
});

const packages = [...new Set(Object.keys(metafile.inputs).map((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]).filter(Boolean))].sort();
const licences = packages.map((name) => {
  const folder = join(here, "node_modules", name), { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
  if (!file) throw new Error(`${name} has no licence file`);
  return `${name} ${version} (${license})\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
});

writeFileSync(join(target, "editor.js"), outputFiles[0].contents);
writeFileSync(join(target, "editor.licenses.txt"), licences.join(`\n${"-".repeat(78)}\n\n`));
