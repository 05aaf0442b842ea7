// Bundles the extension into dist/, with the licences of everything that is in it. The same sources give the same bytes.

import { build } from "esbuild";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const { metafile } = await build({
  absWorkingDir: here,
  entryPoints: ["src/extension.js"],
  outfile: "dist/extension.js",
  bundle: true,
  external: ["vscode"],
  platform: "node",
  format: "cjs",
  target: "node20",
  minify: true,
  metafile: true,
});

const packages = [...new Set(Object.keys(metafile.inputs).map((path) => /.*node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[0]).filter(Boolean))];
const told = packages.sort().map((folder) => {
  const { name, version, license } = JSON.parse(readFileSync(join(here, folder, "package.json"), "utf8"));
  const file = readdirSync(join(here, folder)).find((each) => /^licen[cs]e/i.test(each));
  if (!file) throw new Error(`${name} has no licence file`);
  return `${name} ${version} (${license})\n\n${readFileSync(join(here, folder, file), "utf8").trim()}\n`;
});
writeFileSync(join(here, "dist/licenses.txt"), told.join(`\n${"-".repeat(78)}\n\n`));
