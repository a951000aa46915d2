// One command makes all of dist/: the client, its types, and its parts for tests.
import { execFileSync } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const here = new URL(".", import.meta.url).pathname;
process.chdir(here);
rmSync("dist", { recursive: true, force: true });
execFileSync(process.execPath, ["node_modules/typescript/bin/tsc", "--declaration", "--emitDeclarationOnly"], { stdio: "inherit" });

const shared = { bundle: true, format: "esm", target: "es2022", platform: "neutral", logLevel: "warning" };
await build({ ...shared, entryPoints: ["src/index.ts"], outfile: "dist/bandanna.mjs", minify: true });
await build({ ...shared, entryPoints: ["src/features.ts"], outfile: "dist/features.mjs", minify: true });
await build({ ...shared, entryPoints: ["src/inside.ts"], outfile: "dist/inside.mjs" });

const types = readFileSync("dist/types/index.d.ts", "utf8").replaceAll('from "./', 'from "./types/');
writeFileSync("dist/bandanna.d.ts", types);
writeFileSync("dist/features.d.ts", 'export * from "./types/features.js";\n');
