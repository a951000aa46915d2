/** The task's document: immutable, and named by its hash, so that it can come from anybody. */
import { type Bytes, digest, type Json, parsed, unpacked } from "./canonical.js";
import { suited } from "./devices.js";
import type { Plain, Vector } from "./domains.js";
import { lacks, Refused } from "./errors.js";
import { tellable } from "./tell.js";
import { decoded, type Numbers } from "./values.js";

/** Versions of the formats that this client speaks; others are refused. */
export const VERSIONS = { task: 1, device: 1 } as const;

export interface Plan {
  readonly rounds: string;
  readonly users: number;
  readonly devices: readonly (readonly (Plain | null)[])[];
}

/** What a client that has no policy must know. */
export interface ClientTask {
  readonly version: number;
  readonly participations: number;
  readonly choose: Plain;
  readonly tells: readonly (readonly Plain[])[];
  readonly plans: readonly Plan[];
}

/** Arms that stay. `features` are those of the arms; without them, users bring theirs. */
export interface Arms {
  readonly ids: readonly (string | number)[];
  readonly features?: readonly Vector[];
}

/** What the document says, under its own names (those that a client looks at), and its id as 32 bytes. */
export interface Task {
  readonly id: string;
  readonly digest: Bytes;
  readonly title: string;
  /** What is promised, to whom, in sentences. */
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
    throw new Refused("task", `This is not the document of task ${id}: is the address right?`);
  }
  const content = parsed(document);
  const leaflet = content.device as unknown as ClientTask | null;
  if (leaflet === null) throw lacks("code for this task");
  const versions = [content.version, leaflet?.version];
  if (content.format !== "bandanna task" || String(versions) !== String(Object.values(VERSIONS))) {
    throw new Refused("version", `The task has format ${versions}, not ${Object.values(VERSIONS)}: use the client of its release.`);
  }
  leaflet.plans.flatMap((plan) => plan.devices.flat()).forEach(suited);
  leaflet.tells.flat().forEach(tellable);
  return { ...content, id, digest: unpacked(id, 32), arms: armsOf(content.arms as Json) } as unknown as Task;
}

function armsOf(text: Json): Arms | undefined {
  if (text === null) return undefined;
  const [ids, features, ofUsers] = decoded(String(text)) as [(string | number)[], Numbers, boolean];
  const width = features.shape[1] as number;
  const row = (_: unknown, k: number): Vector => (features.data as Vector).slice(k * width, (k + 1) * width);
  return ofUsers ? { ids } : { ids, features: ids.map(row) };
}
