/** The bodies of a user's reports: of every round, what was told, protected, and split or not. */
import { type Bytes, joined } from "./canonical.js";
import { dimOf, encoded } from "./devices.js";
import { full, type Plain } from "./domains.js";
import type { Entropy } from "./entropy.js";
import { lacks, Refused } from "./errors.js";
import { sealed } from "./hpke.js";
import { type Batch, batchDigest, checkBatch, type Part } from "./publication.js";
import { label, little, numbers, request, type Slot, taggedReport } from "./report.js";
import { SEED, share } from "./shares.js";
import type { Task } from "./task.js";
import { type Played, statisticOf } from "./statistics.js";

/** For whom seeds are sealed. */
export interface SealKey {
  readonly id: number;
  readonly key: Bytes;
}

/** What a device has drawn for one part of a report, before it is split: it never leaves the device. */
export interface Drawn {
  readonly epoch: number;
  readonly slot: Bytes;
  readonly round: number;
  readonly part: number;
  readonly version: number;
  readonly message: Float64Array | BigInt64Array;
}

export interface Drawing {
  readonly task: Task;
  readonly entropy: Entropy;
  readonly observe: (drawn: Drawn) => void;
}

/** One request, and whether what was played could be told: else it is about nothing. */
export interface Made {
  readonly bytes: Bytes;
  readonly complete: boolean;
}

/**
 * Reports for all rounds of a batch, as one request: of what was played, or of nothing. Fresh noise at every call.
 *
 * Messages about nothing are drawn first: whatever fails when what was played is looked at, they are sent instead.
 */
export async function drawn(with_: Drawing, batch: Batch, slot: Slot, key: SealKey | undefined, version: number, played?: Played): Promise<Made> {
  const { task, entropy, observe } = with_;
  const plan = await checkBatch(task, batch);
  const digest = await batchDigest(batch);
  let complete = true;
  const reports = batch.rounds.map(async ({ parts }, round) => {
    const devices = plan.devices[round] ?? []; // of one part, where everybody reports for the own arm
    const queries = devices.map((device, place) => {
      const [tell, part] = [task.device.tells[round]?.[place], parts[place]];
      if (!tell || !part || (part.form === "row") === !!device) throw lacks("reports as the batch wants them");
      return { tell, part, device };
    });
    let messages: Message[] = queries.map(({ part, device }) => (device ? encoded(device, full(dimOf(device), 0), entropy) : full(part.length, 0)));
    try {
      if (played) messages = queries.map(({ tell, part, device }) => messageOf(tell, device, part.length, entropy, played));
    } catch {
      complete = false;
    }
    const own = queries.map(({ part }) => part);
    messages.forEach((message, place) => {
      observe({ epoch: slot.epoch, slot: slot.slot, round, part: place, version, message });
    });
    const info = joined(label("seed"), task.digest, little(4, slot.epoch), little(2, round), slot.slot, digest);
    return taggedReport(slot, digest, round, version, key?.id ?? 0, await bodyOf(messages, own, key, slot.helper, info));
  });
  return { bytes: request(await Promise.all(reports)), complete };
}

type Message = Float64Array | BigInt64Array;

function messageOf(tell: Plain, device: Plain | null, length: number, entropy: Entropy, played: Played): Message {
  const values = statisticOf(tell, device, played, entropy);
  if (values.length !== (device ? dimOf(device) : length) || !values.every(Number.isFinite)) throw lacks("report of this");
  return device ? encoded(device, values, entropy) : values;
}

/** Numbers of all parts, one after the other; or their shares, and one seed of the others, sealed with the ticket's key. */
async function bodyOf(messages: Message[], parts: readonly Part[], key: SealKey | undefined, helper: Bytes | undefined, info: Bytes): Promise<Bytes> {
  const written = (all: Message[]): Bytes => joined(...parts.map(({ dtype }, k) => numbers(all[k] as Message, dtype)));
  if (parts.every(({ form }) => form === "plain" || form === "row")) return written(messages);
  if (!key || !messages.every((each) => each instanceof BigInt64Array) || parts.some(({ form }) => form !== "shares")) {
    throw lacks("reports as the batch wants them");
  }
  if (!helper) throw new Refused("ticket", "The ticket has no key for the helper. Pass on the whole answer of the registrar.");
  const seed = crypto.getRandomValues(new Uint8Array(SEED));
  const shared = await share(BigInt64Array.from(messages.flatMap((each) => [...each])), seed);
  let end = 0;
  const shares = messages.map(({ length }) => shared.slice(end, (end += length)));
  return joined(written(shares), await sealed(key.key, joined(seed, helper), info));
}
