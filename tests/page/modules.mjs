// The modules of the page, for tests without a browser.
import { readFileSync, writeFileSync, mkdtempSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, dirname } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

// Node takes a file as a module by its name or by the nearest package.json: a copy with one beside it.
const source = join(dirname(fileURLToPath(import.meta.url)), "../../page");
const folder = mkdtempSync(join(tmpdir(), "memtrace-page-"));
for (const name of readdirSync(source).filter((n) => n.endsWith(".js"))) writeFileSync(join(folder, name), readFileSync(join(source, name)));
writeFileSync(join(folder, "package.json"), '{"type":"module"}');
export const load = (name) => import(pathToFileURL(join(folder, name)));
