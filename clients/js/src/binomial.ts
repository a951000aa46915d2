/**
 * Binomial counts from random words, exact in law: `bandanna.device.inversion`, word by word.
 *
 * A count is the number of k with F(k) <= u for a uniform u, of which 63 bits are drawn first; integers confine F to
 * [low, up] / 2^bits. Where these bits do not decide, more of the same u and a finer table do.
 */
import type { Entropy } from "./entropy.js";

const PART = 1 << 24; // trials in one table; more are drawn in parts and added
const BITS = 63n;

interface Table {
  readonly first: number;
  readonly low: readonly bigint[];
  readonly up: readonly bigint[];
}

const tables = new Map<string, Table>(); // as many as a task has devices

/** `count` independent draws of Bin(trials, chance), for any chance that a float can have. */
export function binomials(trials: number, chance: number, count: number, entropy: Entropy): BigInt64Array {
  const drawn = new BigInt64Array(count);
  for (const [part, times] of [[PART, Math.floor(trials / PART)], [trials % PART, 1]] as const) {
    if (part && times) invert(part, chance, entropy.words(times * count), drawn, entropy);
  }
  return drawn;
}

/** Add one draw for each word to the sums, in turn; further words where one does not decide, after all of these. */
function invert(trials: number, chance: number, words: BigUint64Array, sums: BigInt64Array, entropy: Entropy): void {
  const { first, low, up } = tableOf(trials, chance);
  words.forEach((word, k) => {
    const known = word >> (64n - BITS);
    const place = above(up, known);
    const count = known < (low[place] as bigint) ? first + place : refine(trials, chance, known, entropy);
    sums[k % sums.length] = (sums[k % sums.length] as bigint) + BigInt(count);
  });
}

function refine(trials: number, chance: number, known: bigint, entropy: Entropy): number {
  for (let bits = BITS; ; ) {
    bits += 64n;
    known = (known << 64n) | (entropy.words(1)[0] as bigint);
    const { first, low, up } = bounds(trials, chance, bits);
    const place = above(up, known);
    if (known < (low[place] as bigint)) return first + place;
  }
}

function tableOf(trials: number, chance: number): Table {
  const name = `${trials} ${chance}`;
  const table = tables.get(name) ?? bounds(trials, chance, BITS);
  tables.set(name, table);
  return table;
}

/** low <= 2^bits F(k) <= up for k = first, first + 1, ...: the proof is at `bandanna.device.inversion.bounds`. */
export function bounds(trials: number, chance: number, bits: bigint): Table {
  const [a, c] = ratio(chance);
  const n = BigInt(trials);
  const places = bits + 2n * BigInt(n.toString(2).length) + 8n;
  const mode = ((n + 1n) * a) / c;
  const one = 1n << places;
  const higher = falling(one, mode, n, (k) => [(n - k) * a, (k + 1n) * (c - a)]);
  const lower = falling(one, 0n, mode, (k) => [(mode - k) * (c - a), (n - mode + k + 1n) * a]);
  let total = 0n;
  const sums = [...lower.reverse(), one, ...higher].map((part) => (total += part));
  const slack = n * (n + 1n);
  const whole = 1n << bits;
  const low = sums.map((part) => (part << bits) / (total + slack));
  const up = sums.map((part) => smaller(whole, (((part + slack) << bits) + total - 1n) / total));
  if (mode + BigInt(higher.length) === n) low[low.length - 1] = whole; // F(n) = 1
  return { first: Number(mode) - lower.length, low, up };
}

/** value r_1, value r_1 r_2, ..., each rounded down, to the first zero. */
function falling(value: bigint, begin: bigint, end: bigint, of: (k: bigint) => [bigint, bigint]): bigint[] {
  const values: bigint[] = [];
  for (let k = begin; k < end && value; k++) {
    const [numerator, denominator] = of(k);
    value = (value * numerator) / denominator;
    values.push(value);
  }
  return values;
}

/** The place of the first entry above `known`. */
function above(sorted: readonly bigint[], known: bigint): number {
  let begin = 0;
  for (let end = sorted.length; begin < end; ) {
    const middle = (begin + end) >> 1;
    if ((sorted[middle] as bigint) <= known) begin = middle + 1;
    else end = middle;
  }
  return begin;
}

/** A float as the fraction that it is. */
function ratio(chance: number): [bigint, bigint] {
  let denominator = 1n;
  for (; !Number.isInteger(chance); chance *= 2) denominator *= 2n;
  return [BigInt(chance), denominator];
}

const smaller = (one: bigint, other: bigint): bigint => (one < other ? one : other);
