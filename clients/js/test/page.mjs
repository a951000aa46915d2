// Runs the `js` blocks of a page of the documentation, one after the other as one module, against a deployment in memory.
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { Fake } from "./fake.mjs";

const [page, folder] = process.argv.slice(2);
const fake = await Fake.made();
globalThis.fetch = async (address, init) => {
  if (address === "/about") return Response.json({ analyzer: "http://analyzer.test", task: fake.task });
  if (address !== "/tickets") return fake.fetch(address, init);
  const { epoch, refused } = JSON.parse(init.body);
  return Response.json(await fake.ticket(epoch, refused));
};
console.assert = (fine, ...rest) => {
  if (!fine) throw new Error(`an assertion of the page fails ${rest}`);
};

const blocks = [...readFileSync(page, "utf8").matchAll(/^```js\n(.*?)^```$/gms)].map(([, code]) => code);
const client = new URL("../dist/bandanna.mjs", import.meta.url).href;
const file = `${folder}/page.mjs`;
writeFileSync(file, blocks.join("\n").replaceAll('"./bandanna.mjs"', JSON.stringify(client)));
await import(pathToFileURL(file).href);
rmSync(file);
console.log(`${blocks.length} blocks`);
