/** A deployment as a device reaches it: documents, and uploads that are answered report by report. */
import type { Bytes } from "./canonical.js";
import { parsed } from "./canonical.js";
import { Unreachable } from "./errors.js";
import type { Task } from "./task.js";

export type Fetch = (address: string, init?: RequestInit) => Promise<Response>;

/** What a role shows: a document, with its signature; a publication with the registrar's cosignature too. */
export interface Shown {
  readonly content: Bytes;
  readonly signature: string;
  readonly witness: string;
}

/** What a collector says of a request: kept, or why not, with a proof that the slot was not used. */
export interface Verdict {
  readonly reason?: string;
  readonly refusal?: string;
  readonly place?: number;
}

/** Nothing that a browser keeps goes along, and nothing is kept: either would tell a device from all others. */
const ALIKE: RequestInit = { cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer", redirect: "error" };

/** What a role answers; Unreachable if nothing is, if it has nothing to show, or if somebody asks to come again. */
export async function asked(fetch: Fetch, role: string, address: string, body?: Bytes): Promise<Shown & { readonly status: number }> {
  let answer: Response;
  let content: Bytes;
  try {
    answer = await fetch(address, body ? { ...ALIKE, method: "POST", body } : ALIKE);
    content = new Uint8Array(await answer.arrayBuffer());
  } catch (error) {
    throw new Unreachable(role, (error as Error).name);
  }
  const { status } = answer;
  if (status >= 500 || status === 408 || status === 429 || !(body || status === 200)) throw new Unreachable(role, status);
  const [signature, witness] = ["signature", "witness"].map((name) => answer.headers.get(name) ?? "") as [string, string];
  return { status, content, signature, witness };
}

/** Send reports; the first reason why one is not kept, or their place. */
export async function uploaded(fetch: Fetch, task: Task, body: Bytes): Promise<Verdict> {
  const role = task.mixers ? "shuffler" : "analyzer";
  const { status, content } = await asked(fetch, role, at(task.urls[role], task.id, "/reports"), body);
  const answer = parsed(content);
  if (status === 201) return { place: (answer.places as number[])[0] as number };
  const results = (answer.results ?? []) as unknown as Verdict[];
  return results.find((each) => each.reason) ?? { reason: String(answer.reason ?? status) };
}

/** An address of a role, about the task. */
export const at = (role: string | undefined, task: string, path = ""): string => `${String(role).replace(/\/+$/, "")}/tasks/${task}${path}`;
