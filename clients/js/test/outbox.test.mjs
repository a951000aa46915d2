// The store in memory; the one of browsers is held to the same suite in a browser.
import assert from "node:assert/strict";
import { test } from "node:test";
import { indexedStore, memoryStore, Refused } from "../dist/bandanna.mjs";
import { conformance } from "./conformance.mjs";

test("the store in memory does what stores must", async () => {
  const stores = new Map();
  const made = (name) => stores.get(name) ?? stores.set(name, memoryStore()).get(name);
  assert.equal((await conformance(made)).length, 8);
});

test("the suite notices a store that forgets revisions", async () => {
  const stores = new Map();
  const made = (name) => stores.get(name) ?? stores.set(name, { ...memoryStore(), put: async () => true }).get(name);
  await assert.rejects(conformance(made), /where .* was expected/);
});

test("a browser that cannot keep anything says so", async (t) => {
  t.after(() => delete globalThis.indexedDB);
  globalThis.indexedDB = {
    open() {
      const request = { error: new Error("QuotaExceededError") };
      queueMicrotask(() => request.onerror());
      return request;
    },
  };
  await assert.rejects(indexedStore().get("a"), (error) => error instanceof Refused && error.reason === "storage");
});
