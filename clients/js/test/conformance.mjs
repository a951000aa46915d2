// What every store must do. Runs in Node and in a page:
//
//     import { conformance } from "./conformance.mjs";
//     import { indexedStore } from "./bandanna.mjs";
//     const passed = await conformance((name) => indexedStore(name));      // throws at the first fault
//
// `made(name)` opens the store of a name: another one with the same name finds what the first one kept.

const same = (one, other, what) => {
  const [a, b] = [one, other].map(shown);
  if (a !== b) throw new Error(`${what}: ${a} where ${b} was expected`);
};

const shown = (value) =>
  JSON.stringify(value, (_, part) => (ArrayBuffer.isView(part) ? { [part.constructor.name]: Array.from(part, String) } : part)) ?? "nothing";

const checks = {
  async "nothing is there at first"(made) {
    const store = made();
    same(await store.get("a"), undefined, "get");
    same(await store.keys(""), [], "keys");
  },
  async "what was put is there, under its revision"(made) {
    const store = made();
    same(await store.put("a", { x: [1, "two", null] }, 0), true, "put");
    same(await store.get("a"), { revision: 1, value: { x: [1, "two", null] } }, "get");
    same(await store.put("a", "other", 1), true, "put again");
    same(await store.get("a"), { revision: 2, value: "other" }, "get again");
  },
  async "a write that names another revision changes nothing"(made) {
    const store = made();
    same(await store.put("a", 1, 3), false, "of nothing");
    await store.put("a", 1, 0);
    for (const revision of [0, 2, 7]) same(await store.put("a", 2, revision), false, `revision ${revision}`);
    same(await store.get("a"), { revision: 1, value: 1 }, "get");
  },
  async "of writes at once exactly one wins"(made) {
    const stores = [made(), made(), made()];
    const won = await Promise.all(Array.from({ length: 30 }, (_, k) => stores[k % 3].put("a", k, 0)));
    same(won.filter(Boolean).length, 1, "winners");
    same((await stores[0].get("a")).value, won.indexOf(true), "the winner's value");
  },
  async "bytes and numbers are kept exactly"(made) {
    const store = made();
    const value = { bytes: Uint8Array.from({ length: 256 }, (_, k) => k), numbers: Float64Array.of(0.1, -0, 5e-324, 1e308), none: undefined };
    await store.put("a", value, 0);
    same((await made().get("a")).value, value, "value");
  },
  async "a value is not changed by who put it, nor by who got it"(made) {
    const store = made();
    const value = { bytes: Uint8Array.of(1, 2, 3) };
    await store.put("a", value, 0);
    value.bytes[0] = 9;
    (await store.get("a")).value.bytes[1] = 9;
    same((await store.get("a")).value, { bytes: Uint8Array.of(1, 2, 3) }, "value");
  },
  async "keys are found by how they begin, in order"(made) {
    const store = made();
    for (const key of ["t/b", "t/a", "t", "ta", "u/c", "t/\u00e9", "s/z"]) await store.put(key, 0, 0);
    same(await store.keys("t/"), ["t/a", "t/b", "t/\u00e9"], "keys");
    same((await store.keys("")).length, 7, "all keys");
  },
  async "what was kept is there for the next one of the same name, and for nobody else"(made, another) {
    await made().put("a", "kept", 0);
    same(await made().get("a"), { revision: 1, value: "kept" }, "the same name");
    same(await another().get("a"), undefined, "another name");
  },
};

/** All checks, each with names of its own; what was checked. */
export async function conformance(made) {
  const own = Array.from(crypto.getRandomValues(new Uint8Array(6)), (byte) => byte.toString(16)).join("");
  const passed = [];
  for (const [what, check] of Object.entries(checks)) {
    const name = `conformance ${own} ${passed.length}`;
    try {
      await check(() => made(name), () => made(`${name} other`));
    } catch (error) {
      throw new Error(`${what}: ${error.message}`);
    }
    passed.push(what);
  }
  return passed;
}
