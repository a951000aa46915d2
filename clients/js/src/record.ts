/**
 * Reports as they travel: slot(16) mac(16) epoch:u32 round:u16 version:u8 key:u8 body, little-endian.
 *
 * Version 0 is the zero report that opens a slot, 1 the final one. The mac is bound to the plan of the batch.
 */
import { type Bytes, joined } from "./canonical.js";

export const ZERO = 0;
export const FINAL = 1;

export interface Slot {
  readonly slot: Bytes;
  readonly mac: Bytes;
  readonly epoch: number;
}

export function record({ slot, mac, epoch }: Slot, round: number, version: number, key: number, body: Uint8Array): Bytes {
  return joined(slot, mac, little(4, epoch), little(2, round), Uint8Array.of(version, key), body);
}

/** A request of some records, each with its length before it. */
export const request = (records: Uint8Array[]): Bytes => joined(...records.flatMap((each) => [little(4, each.length), each]));

export const little = (length: 2 | 4, value: number): Bytes => Uint8Array.from({ length }, (_, k) => value >>> (8 * k));

/** Numbers as a part of a plan wants them. */
export function numbers(values: Float64Array | BigInt64Array, dtype: string): Bytes {
  const wide = values as BigInt64Array<ArrayBuffer>; // browsers run on little-endian machines
  return new Uint8Array(dtype === "<u4" ? Uint32Array.from(wide, Number).buffer : wide.slice().buffer);
}
