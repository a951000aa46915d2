/**
 * Reports as they travel: slot(16) tag(16) epoch:u32 round:u16 version:u8 key:u8 body, little-endian.
 *
 * Version 0 is the zero report that opens a slot, 1 the final one. The tag, made with the ticket's key for the collector,
 * is of all the rest and of the plan of the batch.
 */
import { type Bytes, joined, text } from "./canonical.js";
import { hmac } from "./hpke.js";

export const ZERO = 0;
export const FINAL = 1;

/** A place in a batch, and the ticket's keys: the collector's makes tags, the helper's goes into what is sealed for it. */
export interface Slot {
  readonly slot: Bytes;
  readonly epoch: number;
  readonly collector: Bytes;
  readonly helper: Bytes | undefined;
}

/** The bytes of one report, with the tag that its ticket's key makes. */
export async function taggedReport({ slot, epoch, collector }: Slot, plan: Bytes, round: number, version: number, key: number, body: Uint8Array): Promise<Bytes> {
  const tail = joined(little(4, epoch), little(2, round), Uint8Array.of(version, key), body);
  return joined(slot, (await hmac(collector, joined(label("tag"), slot, tail, plan))).slice(0, 16), tail);
}

/** What a hash or a seal is for, as 32 bytes. */
export const label = (purpose: string): Bytes => text(`bandanna/3 ${purpose}`.padEnd(32, "\0"));

/** A request of some reports, each with its length before it. */
export const request = (reports: Uint8Array[]): Bytes => joined(...reports.flatMap((each) => [little(4, each.length), each]));

export const little = (length: 2 | 4, value: number): Bytes => Uint8Array.from({ length }, (_, k) => value >>> (8 * k));

/** Numbers as a part of a plan wants them. */
export function numbers(values: Float64Array | BigInt64Array, dtype: string): Bytes {
  const wide = values as BigInt64Array<ArrayBuffer>; // browsers run on little-endian machines
  return new Uint8Array(dtype === "<u4" ? Uint32Array.from(wide, Number).buffer : wide.slice().buffer);
}
