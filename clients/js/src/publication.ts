/** Publications: signed by the task's analyzer, chained, never older than one that was seen; and the plans in them. */
import { type Bytes, canonical, digest, type Json, parsed, sha256, unpacked } from "./canonical.js";
import { Refused } from "./errors.js";
import type { Plan, Task } from "./task.js";

/** The newest publication that this device has seen. */
export interface Pin {
  readonly number: number;
  readonly chain: string;
}

export interface Part {
  readonly arm: number | null;
  readonly form: string;
  readonly dtype: string;
  readonly length: number;
}

/** A batch as it was announced: `rounds` say what reports are made like. */
export interface Batch {
  readonly epoch: number;
  readonly slots: number;
  readonly arms: readonly number[]; // assigned to places: each `plays` times, one after the other or `in_turn`
  readonly plays: readonly number[];
  readonly in_turn: boolean;
  readonly clients: boolean;
  readonly rounds: readonly { readonly parts: readonly Part[] }[];
}

export interface Publication extends Pin {
  readonly status: string;
  readonly epoch: number;
  /** What devices act on, encoded: where places say the arm, nobody reads it. */
  readonly snapshot: string;
  readonly batches: readonly Batch[];
}

/** A publication, if the task's analyzer has signed it and it is no step back behind `pin`. */
export async function readPublication(task: Task, document: Bytes, signature: string, pin?: Pin): Promise<Publication> {
  if (!(await verified(task.keys.analyzer, document, signature))) {
    throw new Refused("signature", "The task's analyzer has not signed this publication: nothing is reported.");
  }
  const content = parsed(document);
  const { number, previous, status, epoch, snapshot, batches } = content;
  const announced = (Array.isArray(batches) ? batches : [{}]) as unknown as Batch[];
  const numbers = [number, epoch, ...announced.flatMap((batch) => [batch.epoch, batch.slots])];
  if (content.task !== task.id || !numbers.every(whole) || typeof snapshot !== "string") {
    throw new Refused("publication", "This is not a publication of the task: nothing is reported.");
  }
  const made = { number: number as number, chain: await digest(document) };
  if (pin) follows(made, previous, pin);
  const open = announced.filter((batch) => batch.rounds.length);
  return { ...made, status: String(status), epoch: epoch as number, snapshot, batches: open };
}

/** Whether it is a whole number that 32 bits can write, as records write epochs. */
const whole = (value: unknown): boolean => (value as number) >>> 0 === value;

function follows(made: Pin, previous: Json | undefined, pin: Pin): void {
  const older = made.number < pin.number;
  const other = made.number === pin.number ? made.chain !== pin.chain : made.number === pin.number + 1 && previous !== pin.chain;
  if (older || other) {
    throw new Refused("rollback", `Publication ${made.number} is older than ${pin.number}, or of another history: nothing is reported.`);
  }
}

/** Whether the owner of a key has signed this. */
export async function verified(publicKey: string | undefined, content: Bytes, signature: string): Promise<boolean> {
  try {
    const key = await crypto.subtle.importKey("raw", unpacked(publicKey, 32), "Ed25519", false, ["verify"]);
    return await crypto.subtle.verify("Ed25519", key, unpacked(signature, 64), content);
  } catch (error) {
    if (error instanceof Refused) return false;
    throw new Refused("browser", `No Ed25519 here (${error}): use a newer browser, and https.`);
  }
}

/** 32 bytes that stand for the plan of a batch. */
export const batchDigest = (batch: Batch): Promise<Bytes> => sha256(canonical(batch as unknown as Json));

/** The plan by which a batch may be reported into: one of the task's, for at most as many people as are in each sum. */
export async function planOf(task: Task, batch: Batch): Promise<Plan> {
  const rounds = await digest(canonical(batch.rounds.map(ofAnyArm) as unknown as Json));
  const plan = task.device.plans.find((each) => each.rounds === rounds && each.users <= leastUsers(batch));
  if (!plan || !batch.arms.length === byPlace(task)) {
    throw new Refused("plan", `Batch ${batch.epoch} has other noise, or fewer people, than the task says: nothing is reported.`);
  }
  return plan;
}

/** Whether the place in a batch says which arm is played. */
export const byPlace = ({ device }: Task): boolean => device.choose.kind === "ByPlace";

/** The arm of a place. */
export function armAt({ arms, plays, in_turn }: Batch, place: number): number {
  const turns = arms.flatMap((arm, k) => Array.from({ length: plays[k] as number }, (_, turn) => ({ arm, turn })));
  if (in_turn) turns.sort((one, other) => one.turn - other.turn);
  return (turns[place] as { arm: number }).arm;
}

/** A round in which everybody reports for the own arm, alike for all of them, as that of one arm. */
function ofAnyArm({ parts }: Batch["rounds"][number]): Batch["rounds"][number] {
  const arms = new Set(parts.map(({ arm }) => arm));
  const kinds = new Map(parts.map((part) => [JSON.stringify({ ...part, arm: null }), { ...part, arm: null }]));
  return { parts: !arms.has(null) && arms.size === parts.length && kinds.size === 1 ? [...kinds.values()] : parts };
}

/** How many people are behind each sum of a batch, at least; 0 if its plan does not add up. */
function leastUsers({ arms, plays, slots, rounds, clients }: Batch): number {
  const reported = rounds.flatMap(({ parts }) => parts.map(({ arm }) => arm));
  const all = reported.every((arm) => arm === null);
  if (clients || !(all || String(reported) === String(arms))) return 0;
  if (arms.length && (plays.length !== arms.length || plays.reduce((sum, each) => sum + each, 0) !== slots)) return 0;
  return all ? slots : Math.min(...plays);
}
