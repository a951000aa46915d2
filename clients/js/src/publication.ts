/** Publications: signed by the task's analyzer, cosigned by its registrar, chained, never older than one that was seen; and the plans in them. */
import { type Bytes, canonical, digest, joined, type Json, parsed, sha256, text, unpacked } from "./canonical.js";
import type { SealKey } from "./bodies.js";
import { Refused } from "./errors.js";
import type { Shown } from "./http.js";
import type { Plan, Task } from "./task.js";

/** The newest publication that this device has seen. */
export interface Pin {
  readonly number: number;
  readonly chain: string;
  /** The number of the helper's key that it names. */
  readonly key: number;
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
  readonly episode: number;
  readonly slots: number;
  readonly arms: readonly number[]; // assigned to places: each `plays` times, one after the other or `in_turn`
  readonly plays: readonly number[];
  readonly in_turn: boolean;
  readonly clients: boolean;
  readonly rounds: readonly { readonly parts: readonly Part[] }[];
}

export interface Publication extends Pin {
  readonly previous: string;
  readonly status: string;
  readonly epoch: number;
  /** What devices act on, encoded: where places say the arm, nobody reads it. */
  readonly snapshot: string;
  readonly batches: readonly Batch[];
  /** For which of its keys the helper wants seeds to be sealed; null: for the task's. */
  readonly helper: { readonly id: number; readonly public: string; readonly signature: string } | null;
}

/** A publication, if the task's analyzer has signed and its registrar has cosigned it, and it is no step back behind `pin`. */
export async function readPublication(task: Task, { content: document, signature, witness }: Shown, pin?: Pin): Promise<Publication> {
  if (!(await verified(task.keys.analyzer, task.id, "publication", document, signature))) {
    throw new Refused("signature", "The task's analyzer has not signed this publication. Nothing is reported.");
  }
  const { task: id, number, previous, status, epoch, round, state, snapshot, answers, batches, helper } = parsed(document);
  const texts = [previous, status, state, snapshot].every((each) => typeof each === "string");
  const lists = Array.isArray(answers) && Array.isArray(batches) && batches.every(isBatch);
  const object = typeof helper === "object" && !Array.isArray(helper);
  if (!object || id !== task.id || ![number, epoch, round].every(whole) || !texts || !lists) {
    throw new Refused("publication", "This is not a publication of the task. Nothing is reported.");
  }
  const announced = batches as unknown as Batch[];
  const made = {
    number: number as number,
    chain: await chained(previous as string, await sha256(document)),
    previous: previous as string,
    status: status as string,
    epoch: epoch as number,
    snapshot: snapshot as string,
    batches: announced.filter((batch) => batch.rounds.length),
    helper: helper as Publication["helper"],
  };
  const { chain } = made;
  if (!(await verified(task.keys.registrar, task.id, "cosignature", canonical({ chain, number: made.number }), witness))) {
    throw new Refused("signature", `The task's registrar has not cosigned publication ${made.number}. Nothing is reported.`);
  }
  const signed = { ...made, key: (await sealKey(task, made))?.id ?? 0 };
  if (!pin) return signed;
  if (signed.key < pin.key) throw otherHistory(made, pin); // a key that the helper has put away
  const step = made.number - pin.number;
  if (step < 0 || (!step && made.chain !== pin.chain) || (step === 1 && previous !== pin.chain)) throw otherHistory(made, pin);
  return signed;
}

/** Refuse a publication that does not continue what was seen; `links` fetches a block of hashes of documents. */
export async function checkBetween(made: Publication, pin: Pin, links: (block: number) => Promise<Bytes>): Promise<void> {
  let { chain, number } = pin;
  if (made.number - number > MISSED) throw otherHistory(made, pin);
  for (let block: Bytes | undefined; ++number < made.number; ) {
    const place = number % LINKS;
    if (!block || !place) block = await links((number - place) / LINKS);
    chain = await chained(chain, block.slice(HASH * place, HASH * (place + 1)));
  }
  if (made.previous !== chain) throw otherHistory(made, pin);
}

const LINKS = 256; // hashes of documents in a block
const HASH = 32; // bytes of each
const MISSED = 2 ** 20; // publications that a device may have missed

/** SHA-256 of the chain before and of a document's hash: whoever knows one chain can follow all others by 32 bytes each. */
const chained = async (previous: string, hash: Bytes): Promise<string> => digest(joined(previous ? unpacked(previous, HASH) : text(""), hash));

const otherHistory = (made: { number: number }, pin: Pin): Refused =>
  new Refused("rollback", `Publication ${made.number} is older than ${pin.number}, or of another history. Nothing is reported.`);

/** Whether it is a whole number that 32 bits can write, as reports write epochs. */
const whole = (value: unknown): boolean => typeof value === "number" && value >>> 0 === value;

/** Whether the owner of a key has signed this, as a document of this kind and of this task: both are what the caller expects. */
export async function verified(publicKey: string | undefined, task: string, kind: string, content: Bytes, signature: string): Promise<boolean> {
  try {
    const key = await crypto.subtle.importKey("raw", unpacked(publicKey, 32), "Ed25519", false, ["verify"]);
    return await crypto.subtle.verify("Ed25519", key, unpacked(signature, 64), joined(text(`bandanna ${kind}\n${task}\n`), content));
  } catch (error) {
    if (error instanceof Refused) return false;
    throw new Refused("browser", `No Ed25519 here (${error}). Use a newer browser and https.`);
  }
}

/** The helper's key for seeds: the published one, which it has signed, or the task's; none where nothing is sealed. */
export async function sealKey(task: Task, { helper }: Pick<Publication, "helper">): Promise<SealKey | undefined> {
  if (task.mixers !== 2) return undefined;
  const { id, public: key, signature } = helper ?? { id: 0, public: task.keys["seal helper"] as string, signature: "" };
  if (helper && !(await verified(task.keys.helper, task.id, "keys", canonical({ id, public: key }), signature))) {
    throw new Refused("signature", "The task's helper has not signed the key for seeds. Nothing is reported.");
  }
  return { id, key: unpacked(key, 32) };
}

/** 32 bytes that stand for the plan of a batch. */
export const batchDigest = (batch: Batch): Promise<Bytes> => sha256(canonical(batch as unknown as Json));

/** Whether it is a batch as `bandanna.deployment.messages.batch_plan` reads it: these fields and no others, each of its type. */
function isBatch(given: unknown): boolean {
  const batch = given as Batch;
  const integers = (list: unknown): boolean => Array.isArray(list) && list.every(Number.isSafeInteger);
  return (
    has(batch, "arms,clients,episode,epoch,in_turn,plays,rounds,slots") &&
    whole(batch.epoch) &&
    [batch.episode, batch.slots].every(Number.isSafeInteger) &&
    batch.slots > 0 &&
    [batch.in_turn, batch.clients].every((flag) => typeof flag === "boolean") &&
    integers(batch.arms) &&
    integers(batch.plays) &&
    Array.isArray(batch.rounds) &&
    batch.rounds.every((round) => has(round, "parts") && Array.isArray(round.parts) && round.parts.length > 0 && round.parts.every(isPart))
  );
}

function isPart(part: Part & { stream?: unknown; mixer?: unknown }): boolean {
  return (
    has(part, "arm,dtype,form,length,mixer,stream") &&
    [part.arm, part.stream].every((each) => each === null || Number.isSafeInteger(each)) &&
    (part.mixer === null || typeof part.mixer === "string") &&
    ["row", "plain", "shares", "sealed"].includes(part.form) &&
    ["<u4", "<u8", "<i8", "<f8"].includes(part.dtype) &&
    Number.isSafeInteger(part.length) &&
    part.length > 0 &&
    part.length < 2 ** 31
  );
}

const has = (value: unknown, names: string): boolean => !!value && typeof value === "object" && String(Object.keys(value).sort()) === names;

/**
 * The plan by which a batch may be reported into: one of the task's, for at most as many people as are in each sum.
 *
 * `bandanna.deployment.messages.batch_plan` has the same function: both refuse the same batches.
 */
export async function checkBatch(task: Task, batch: Batch): Promise<Plan> {
  const rounds = await digest(canonical(batch.rounds.map(ofAnyArm) as unknown as Json));
  const plan = task.device.plans.find((each) => each.rounds === rounds);
  const known = batch.arms.every((arm) => arm >= 0 && arm < (task.arms?.ids.length ?? Infinity));
  if (!plan || leastUsers(batch) < plan.users || !batch.arms.length === byPlace(task) || !known) {
    throw new Refused("plan", `Batch ${batch.epoch} has other noise, or fewer users, than the task. Nothing is reported.`);
  }
  return plan;
}

/** Whether the place in a batch says which arm is played. */
export const byPlace = ({ device }: Task): boolean => device.choose.kind === "PlaceChooser";

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
  const everybody = reported.every((arm) => arm === null);
  const own = arms.length > 0 && String(reported) === String(arms);
  if (clients || !reported.length || plays.length !== arms.length || !(everybody || own)) return 0;
  const whole = plays.reduce((sum, each) => sum + each, 0) === slots && Math.min(...plays) > 0;
  if (arms.length && !whole) return 0;
  return everybody ? slots : Math.min(...plays);
}
