/** A message split in two: counts - mask for one mixer, the seed of the mask for the other. Neither says anything. */
import type { Bytes } from "./canonical.js";

export const SEED = 16;

/** A uniform vector modulo 2^64: AES-128 in counter mode from 0, of a seed that is used once. */
export async function mask(seed: Bytes, length: number): Promise<BigInt64Array> {
  const key = await crypto.subtle.importKey("raw", seed, "AES-CTR", false, ["encrypt"]);
  const zeros = new Uint8Array(8 * length);
  const stream = await crypto.subtle.encrypt({ name: "AES-CTR", counter: new Uint8Array(16), length: 128 }, key, zeros);
  return new BigInt64Array(stream); // browsers run on little-endian machines
}

/** message - mask, modulo 2^64. */
export async function share(message: BigInt64Array, seed: Bytes): Promise<BigInt64Array> {
  const masked = await mask(seed, message.length);
  return message.map((each, k) => each - (masked[k] as bigint)); // BigInt64Array wraps
}
