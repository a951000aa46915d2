/** A deployment as a device reaches it: documents, and uploads that are answered record by record. */
import type { Bytes } from "./canonical.js";
import { parsed, unpacked } from "./canonical.js";
import { Refused, Unreachable } from "./errors.js";
import { verified } from "./publication.js";
import type { SealKey } from "./bodies.js";
import type { Task } from "./task.js";

export type Fetch = (address: string, init?: RequestInit) => Promise<Response>;

/** What a collector says of a request: kept, or why not, with a proof that the slot was not used. */
export interface Verdict {
  readonly reason?: string;
  readonly refusal?: string;
  readonly place?: number;
}

/** What is answered; Unreachable if nothing is, or if somebody asks to come again. */
export async function asked(fetch: Fetch, address: string, body?: Bytes): Promise<{ status: number; content: Bytes; signature: string }> {
  let answer: Response;
  let content: Bytes;
  try {
    answer = await fetch(address, body ? { method: "POST", body, cache: "no-store" } : { cache: "no-store" });
    content = new Uint8Array(await answer.arrayBuffer());
  } catch (error) {
    throw new Unreachable(address, error);
  }
  if (answer.status >= 500 || answer.status === 429) {
    throw new Unreachable(address, answer.status);
  }
  if (!body && !answer.ok) throw new Refused("task", `${address} answers ${answer.status}: is the address right?`);
  return { status: answer.status, content, signature: answer.headers.get("signature") ?? "" };
}

/** Send records; the first reason why one is not kept, or their place. */
export async function uploaded(fetch: Fetch, task: Task, body: Bytes): Promise<Verdict> {
  const { status, content } = await asked(fetch, at(task.urls[task.mixers ? "shuffler" : "analyzer"], task.id, "/reports"), body);
  const answer = parsed(content);
  if (status === 201) return { place: (answer.places as number[])[0] as number };
  const results = (answer.results ?? []) as unknown as Verdict[];
  return results.find((each) => each.reason) ?? { reason: String(answer.reason ?? status) };
}

/** The helper's active key, signed by it; none where nothing is sealed. */
export async function sealKey(fetch: Fetch, task: Task): Promise<SealKey | undefined> {
  if (task.mixers !== 2) return undefined;
  const { content, signature } = await asked(fetch, at(task.urls.helper, task.id, "/keys"));
  const signed = await verified(task.keys.helper, content, signature);
  const keys = (signed ? parsed(content).keys : []) as unknown as { id: number; public: string; state: string }[];
  const active = keys.filter((each) => each.state === "active").pop();
  if (!active) throw new Refused("signature", "The helper has not signed an active key: nothing is reported.");
  return { id: active.id, key: unpacked(active.public, 32) };
}

/** An address of a role, about the task. */
export const at = (role: string | undefined, task: string, path = ""): string => `${String(role).replace(/\/+$/, "")}/tasks/${task}${path}`;
