/** The task's document. Its id is its hash, so it can come from any server. */
import { type Bytes, digest, type Json, parsed, unpacked } from "./canonical.js";
import { checkDevice } from "./devices.js";
import type { Plain, Vector } from "./domains.js";
import { lacks, Refused } from "./errors.js";
import { checkStatistic } from "./statistics.js";
import { decoded, type Numbers } from "./values.js";

/** Versions of the formats that this client speaks; others are refused. */
export const VERSIONS = { task: 1, device: 1 } as const;

export interface Plan {
  readonly rounds: string;
  readonly users: number;
  readonly devices: readonly (readonly (Plain | null)[])[];
}

/** The document's section for clients without policies. */
export interface ClientTask {
  readonly version: number;
  readonly participations: number;
  readonly choose: Plain;
  readonly tells: readonly (readonly Plain[])[];
  readonly plans: readonly Plan[];
}

/** Fixed arms, with their features unless users have features. */
export interface Arms {
  readonly ids: readonly (string | number)[];
  readonly features?: readonly Vector[];
}

/** The fields of the document that a client reads, under their own names, and the id as 32 bytes. */
export interface Task {
  readonly id: string;
  readonly digest: Bytes;
  readonly title: string;
  /** The guarantee in sentences. */
  readonly promise: string;
  readonly mixers: number;
  readonly max_age: number;
  readonly urls: Readonly<Record<string, string>>;
  readonly keys: Readonly<Record<string, string>>;
  readonly device: ClientTask;
  readonly arms: Arms | undefined;
  readonly [name: string]: unknown;
}

export async function readTask(id: string, document: Bytes): Promise<Task> {
  if ((await digest(document)) !== id) {
    throw new Refused("task", `This is not the document of task ${id}. Check the address.`);
  }
  const content = parsed(document);
  const section = content.device as unknown as ClientTask | null;
  if (section === null) throw lacks("code for this task");
  const versions = [content.version, section?.version];
  if (content.format !== "bandanna task" || String(versions) !== String(Object.values(VERSIONS))) {
    throw new Refused("version", `The task has format ${versions}, not ${Object.values(VERSIONS)}. Use the client of its release.`
);
  }
  section.plans.flatMap((plan) => plan.devices.flat()).forEach(checkDevice);
  section.tells.flat().forEach(checkStatistic);
  return { ...content, id, digest: unpacked(id, 32), arms: armsOf(content.arms as Json) } as unknown as Task;
}

function armsOf(text: Json): Arms | undefined {
  if (text === null) return undefined;
  const [ids, features, ofUsers] = decoded(String(text)) as [(string | number)[], Numbers, boolean];
  const width = features.shape[1] as number;
  const row = (_: unknown, k: number): Vector => (features.data as Vector).slice(k * width, (k + 1) * width);
  return ofUsers ? { ids } : { ids, features: ids.map(row) };
}
