/** Randomness is an argument: words of 64 random bits, from WebCrypto unless a test records its own. */

export interface Entropy {
  /** `count` independent random words. */
  words(count: number): BigUint64Array;
}

const MOST = 8192; // words that getRandomValues gives at once

/** From the operating system, by WebCrypto. */
export const secure: Entropy = {
  words(count) {
    const drawn = new BigUint64Array(count);
    for (let begin = 0; begin < count; begin += MOST) crypto.getRandomValues(drawn.subarray(begin, begin + MOST));
    return drawn;
  },
};

/** Multiples of 2^-53 in [0, 1), one word each. */
export function uniforms(entropy: Entropy, count: number): Float64Array {
  return Float64Array.from(entropy.words(count), (word) => Number(word >> 11n) * 2 ** -53);
}

export const uniform = (entropy: Entropy): number => uniforms(entropy, 1)[0] as number;

/** Standard normal numbers (Box and Muller): all first words, then all second ones. */
export function normals(entropy: Entropy, count: number): Float64Array {
  const one = uniforms(entropy, count);
  const two = uniforms(entropy, count);
  return one.map((share, k) => Math.sqrt(-2 * Math.log1p(-share)) * Math.cos(2 * Math.PI * (two[k] as number)));
}
