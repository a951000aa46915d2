/**
 * Where a device keeps what it must not forget: decisions, the bytes of reports until they are acknowledged, its pin.
 *
 * A write names the revision that it replaces, so that two tabs never draw noise for one report twice: the second one
 * finds the first one's bytes, and sends those.
 */
import { Refused } from "./errors.js";

export interface Kept<T> {
  readonly revision: number;
  readonly value: T;
}

export interface Store {
  /** What is kept under a key. */
  get<T>(key: string): Promise<Kept<T> | undefined>;
  /** Keep a value, durably, if `revision` is what is there (0: nothing); whether it was. */
  put<T>(key: string, value: T, revision: number): Promise<boolean>;
  /** All keys that begin so, in order. */
  keys(prefix: string): Promise<string[]>;
}

/** In memory, for tests and for hosts that keep things elsewhere: a reload forgets everything. */
export function memoryStore(): Store {
  const all = new Map<string, Kept<unknown>>();
  return {
    async get<T>(key: string) {
      return structuredClone(all.get(key)) as Kept<T> | undefined;
    },
    async put(key, value, revision) {
      if ((all.get(key)?.revision ?? 0) !== revision) return false;
      all.set(key, structuredClone({ revision: revision + 1, value }));
      return true;
    },
    async keys(prefix) {
      return [...all.keys()].filter((key) => key.startsWith(prefix)).sort();
    },
  };
}

const TABLE = "kept";

/** In the browser's IndexedDB, under a name of a database; it survives reloads and crashes. */
export function indexedStore(name = "bandanna"): Store {
  let opened: Promise<IDBDatabase> | undefined;
  const database = (): Promise<IDBDatabase> =>
    (opened ??= new Promise((resolve, reject) => {
      const request = indexedDB.open(name, 1);
      request.onupgradeneeded = () => request.result.createObjectStore(TABLE);
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => {
        opened = undefined; // to be tried again
        reject(failed(request.error));
      };
    }));

  /** The result of a request, when its transaction is durable. */
  async function within<T>(mode: IDBTransactionMode, work: (table: IDBObjectStore) => IDBRequest): Promise<T> {
    const transaction = (await database()).transaction(TABLE, mode, { durability: "strict" });
    return new Promise((resolve, reject) => {
      const request = work(transaction.objectStore(TABLE));
      transaction.oncomplete = () => resolve(request.result);
      transaction.onabort = () => reject(failed(transaction.error));
    });
  }

  return {
    get: (key) => within("readonly", (table) => table.get(key)),
    keys: (prefix) => within("readonly", (table) => table.getAllKeys(IDBKeyRange.bound(prefix, prefix + "\uffff"))),
    async put(key, value, revision) {
      const fits = (kept?: Kept<unknown>): boolean => (kept?.revision ?? 0) === revision;
      const before = await within<Kept<unknown> | undefined>("readwrite", (table) => {
        const found = table.get(key);
        found.onsuccess = () => fits(found.result) && table.put({ revision: revision + 1, value }, key);
        return found;
      });
      return fits(before);
    },
  };
}

const failed = (error: unknown): Refused =>
  new Refused("storage", `The browser keeps nothing (${error}): allow this page storage, or free some.`);
