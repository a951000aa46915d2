/** The bodies of a user's records: of every round, what was told, protected, and split or not. */
import { type Bytes, joined, text } from "./canonical.js";
import { dimOf, encoded } from "./devices.js";
import { full, type Plain } from "./domains.js";
import type { Entropy } from "./entropy.js";
import { lacks } from "./errors.js";
import { sealed } from "./hpke.js";
import { type Batch, batchDigest, type Part, planOf } from "./publication.js";
import { little, numbers, record, request, type Slot } from "./record.js";
import { SEED, share } from "./shares.js";
import type { Task } from "./task.js";
import { type Played, told } from "./tell.js";

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

/** Records for all rounds of a batch, as one request: of what was played, or of nothing. Fresh noise at every call. */
export async function drawn(with_: Drawing, batch: Batch, slot: Slot, key: SealKey | undefined, version: number, played?: Played): Promise<Bytes> {
  const { task, entropy, observe } = with_;
  const plan = await planOf(task, batch);
  const digest = await batchDigest(batch);
  const mac = slot.mac.map((each, k) => each ^ (digest[k] as number)); // counts in a batch of this plan alone
  const records = batch.rounds.map(async ({ parts }, round) => {
    const devices = plan.devices[round] ?? []; // of one part, where everybody reports for the own arm
    const bodies = parts.slice(0, devices.length).map(async (part, place) => {
      const tell = task.device.tells[round]?.[place];
      const device = devices[place] as Plain | null;
      if (!tell || (part.form === "row") === !!device) throw lacks("reports as the batch wants them");
      const message = messageOf(tell, device, part.length, entropy, played);
      observe({ epoch: slot.epoch, slot: slot.slot, round, part: place, version, message });
      const info = joined(text("bandanna seed|"), task.digest, little(4, slot.epoch), little(2, round), little(2, place), slot.slot, digest);
      return bodyOf(message, part, key, info);
    });
    return record({ ...slot, mac }, round, version, key?.id ?? 0, joined(...(await Promise.all(bodies))));
  });
  return request(await Promise.all(records));
}

function messageOf(tell: Plain, device: Plain | null, length: number, entropy: Entropy, played?: Played): Float64Array | BigInt64Array {
  const values = played ? told(tell, device, played, entropy) : full(device ? dimOf(device) : length, 0);
  return device ? encoded(device, values, entropy) : values;
}

async function bodyOf(message: Float64Array | BigInt64Array, part: Part, key: SealKey | undefined, info: Bytes): Promise<Bytes> {
  if (part.form === "plain" || part.form === "row") return numbers(message, part.dtype);
  if (part.form !== "shares" || !key || message instanceof Float64Array) {
    throw lacks("reports as the batch wants them");
  }
  const seed = crypto.getRandomValues(new Uint8Array(SEED));
  return joined(numbers(await share(message, seed), part.dtype), await sealed(key.key, seed, info));
}
