/** Devices: a statistic becomes a message of whole numbers, hidden among coins drawn here. */
import { binomials } from "./binomial.js";
import { domainOf, origin, reach, type Domain, type Plain, type Vector } from "./domains.js";
import { type Entropy, uniform, uniforms } from "./entropy.js";
import { lacks } from "./errors.js";

/** Return the length of the statistic that a device protects. */
export const dimOf = (device: Plain): number => domainOf(device.domain as Plain).dim;

/** Return the message of a statistic: integers, drawn anew at every call. */
export function encoded(device: Plain, values: Vector, entropy: Entropy): BigInt64Array {
  const domain = domainOf(device.domain as Plain);
  const scale = device.scale as number;
  switch (device.kind) {
    case "Counts": {
      const coins = binomials(device.trials as number, device.probability as number, values.length, entropy);
      return added(onLattice(values, scale, domain, entropy), coins);
    }
    case "Rounded":
      return onLattice(values, scale, domain, entropy);
    case "Copies": {
      const coins = binomials(device.trials as number, 0.5, values.length, entropy);
      return added(integers(values.map((bit) => (device.copies as number) * Math.trunc(bit))), coins);
    }
    case "Answer":
      return integers(values.map((bit) => Number(answer(bit, device.lie as number, entropy))));
    case "Sign": {
      const said = steps(values, reach(domain));
      return answer(0, device.lie as number, entropy) ? said.map((each) => -each) : said;
    }
    case "Plain": {
      const from = origin(domain);
      return steps(values.map((each, k) => each - (from[k] as number)), reach(domain));
    }
    case "Levels":
      return BigInt64Array.from((device.levels as Plain[]).flatMap((level) => [...encoded(level, values, entropy)]));
  }
  throw lacks(device.kind);
}

/** Refuse a device that is none of the above. */
export function checkDevice(device: Plain | null): void {
  if (device && !/^(Counts|Rounded|Copies|Answer|Sign|Plain|Levels)$/.test(device.kind)) throw lacks(device.kind);
  (device?.levels as Plain[] | undefined)?.forEach(checkDevice);
}

/** floor(s (x - lower)) plus a coin of what is left over, at most what the upper end gives. */
function onLattice(values: Vector, scale: number, { lower, upper }: Domain, entropy: Entropy): BigInt64Array {
  const coins = uniforms(entropy, values.length);
  return integers(
    values.map((value, k) => {
      const scaled = scale * Math.max(value - (lower[k] as number), 0);
      const whole = Math.floor(scaled);
      const largest = Math.ceil(scale * ((upper[k] as number) - (lower[k] as number)) * (1 - 1e-12));
      return Math.min(whole + Number((coins[k] as number) < scaled - whole), largest);
    }),
  );
}

/** Draw the randomized response of a number in [0, 1]; one coin decides rounding and lying. */
function answer(value: number, lie: number, entropy: Entropy): boolean {
  return uniform(entropy) < Math.min(Math.max(lie + (1 - 2 * lie) * value, lie), 1 - lie);
}

const FINER = 31; // digits of a value's rest, in steps

/** Return values in [-bound, bound] as whole steps of at most 2^-62 of the bound (`bandanna.numeric.exact_sums.convert_to_steps`). */
function steps(values: Vector, bound: number): BigInt64Array {
  const step = 2 ** (exponent(bound) - 32 - FINER);
  const unit = step * 2 ** FINER;
  return BigInt64Array.from(values, (value) => {
    const whole = nearest(value / unit);
    return (BigInt(whole) << BigInt(FINER)) + BigInt(nearest((value - whole * unit) / step));
  });
}

/** Round to the nearest integer, halves to even, for sizes below 2^51. */

const nearest = (value: number): number => value + 1.5 * 2 ** 52 - 1.5 * 2 ** 52;

/** e with 2^(e-1) <= value < 2^e. */
export function exponent(value: number): number {
  let e = 0;
  while (2 ** e <= value) e++;
  while (2 ** (e - 1) > value) e--;
  return e;
}

const integers = (values: Vector): BigInt64Array => BigInt64Array.from(values, BigInt);

const added = (a: BigInt64Array, b: BigInt64Array): BigInt64Array => a.map((each, k) => each + (b[k] as bigint));
