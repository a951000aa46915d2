/** What a statistic may be: bounds of its coordinates, how features are clipped, how a report is packed. */
import { lacks, Refused } from "./errors.js";

export type Vector = Float64Array;

export interface Domain {
  readonly dim: number;
  readonly lower: Vector;
  readonly upper: Vector;
}

/** Reports for linear regression, of the features of one arm and a reward. */
export interface Regression extends Domain {
  readonly rewardBound: number;
  /** Features as they are scored, and kept for the report. */
  seen(x: Vector): Vector;
  /** Features as a report may have them. */
  inside(x: Vector): Vector;
  /** The report of features inside, a reward and, where arms have blocks, the arm. */
  pack(x: Vector, y: number, arm: number): Vector;
}

export interface Plain {
  readonly kind: string;
  readonly [field: string]: unknown;
}

/** The domain that a task's document describes. */
export function domainOf(plain: Plain): Domain {
  const { kind, dim, features, n_arms, reward_bound, isometric } = plain;
  if (kind === "LinearReport") return linear(features as number, reward_bound as number, isometric as boolean);
  if (kind === "InterceptReport") return intercept(features as number, reward_bound as number);
  if (kind === "PerArmReport") return perArm(features as number, n_arms as number, reward_bound as number);
  if (kind === "Ball") return boxed(full(dim as number, -(plain.bound as number)), full(dim as number, plain.bound as number));
  if (kind === "Bits") return boxed(full(1, 0), full(1, 1));
  throw lacks(kind);
}

/** A domain that features and rewards are reported in. */
export function regressionOf(plain: Plain): Regression {
  const domain = domainOf(plain);
  if (!("pack" in domain)) throw lacks(plain.kind);
  return domain as Regression;
}

/** The statistic of features as they were seen and of a centred reward. */
export function statistic(domain: Regression, x: Vector, y: number, arm: number): Vector {
  return domain.pack(domain.inside(x), clamp(y, -domain.rewardBound, domain.rewardBound), arm);
}

/** Largest change of a single coordinate. */
export const reach = ({ lower, upper }: Domain): number => Math.max(...upper.map((high, k) => high - (lower[k] as number)));

/** The coordinates' values nearest to 0. */
export const origin = ({ lower, upper }: Domain): Vector => lower.map((low, k) => clamp(0, low, upper[k] as number));

/** x y, x_i^2 and, for i < j, sqrt 2 x_i x_j; if not isometric, x_i x_j. */
function linear(features: number, rewardBound: number, isometric = true): Regression {
  const scale = isometric ? Math.SQRT2 : 1;
  const pairs = (features * (features - 1)) / 2;
  const stack = (vector: number, diagonal: number, above: number): Vector =>
    stacked(full(features, vector), full(features, diagonal), full(pairs, above));
  return {
    ...boxed(stack(-rewardBound, 0, -scale / 2), stack(rewardBound, 1, scale / 2)),
    rewardBound,
    seen: clipped,
    inside: unitBall,
    pack: (x, y) => stacked(times(x, y), x.map((each) => each * each), products(x, scale)),
  };
}

/** Features (z, 1) up to scale: z y, y/2, z z^T / 2, z/3. */
function intercept(features: number, rewardBound: number): Regression {
  const p = features - 1;
  const square = linear(p, rewardBound);
  const weighted = (packed: Vector, y: number, z: Vector): Vector =>
    stacked(packed.subarray(0, p), [0.5 * y], times(packed.subarray(p), 0.5), times(z, 1 / 3));
  return {
    ...boxed(weighted(square.lower, -rewardBound, full(p, -1)), weighted(square.upper, rewardBound, full(p, 1))),
    rewardBound,
    seen: (x) => stacked(clipped(slopes(x)), [constant(x)]),
    inside: (x) => stacked(unitBall(slopes(x)), [constant(x)]),
    pack(x, y) {
      const z = x.subarray(0, p);
      y *= x[p] as number;
      return weighted(square.pack(z, y, 0), y, z);
    },
  };
}

/** Of a user who did not answer all is 0; else the last feature counts as 1, whatever it is. */
const constant = (x: Vector): number => (x.every((each) => each === 0) ? 0 : 1);

function slopes(x: Vector): Vector {
  const last = x[x.length - 1] as number;
  const absent = !constant(x);
  const z = x.subarray(0, -1).map((each) => each / (absent ? 1 : last));
  if (!(last > 0 || absent) || !z.every(Number.isFinite)) throw noConstant();
  return z;
}

export const noConstant = (): Refused => new Refused("contexts", "The last feature of all arms must be one constant > 0: use 1.");

/** A block for every arm, all but one zero: (z y, a y) of all arms, then (b z z^T, c z, e) of all arms. */
function perArm(p: number, arms: number, rewardBound: number): Regression {
  const square = linear(p, rewardBound);
  const y2 = rewardBound ** 2;
  const [first, ...others] = [[p, y2], [1, y2], [(p + 1) / 8, 1], [p / 12 + 1 / 4, 1], [1 / 12, 1]].map(([a, s]) =>
    Math.sqrt((a as number) / (s as number)),
  ) as [number, ...number[]];
  const [a, b, c, e] = others.map((each) => Math.sqrt(each / first)) as [number, number, number, number];
  const lead = (packed: Vector, y: number): Vector => stacked(packed.subarray(0, p), [a * y]);
  const rest = (packed: Vector, z: Vector, count: number): Vector =>
    stacked(times(packed.subarray(p), b), times(z, c), [e * count]);
  const every = (packed: Vector, y: number, z: number, count: number): Vector =>
    stacked(...Array<Vector>(arms).fill(lead(packed, y)), ...Array<Vector>(arms).fill(rest(packed, full(p, z), count)));
  const placed = (block: Vector, arm: number): Vector => {
    const blocks = full(arms * block.length, 0);
    blocks.set(block, arm * block.length);
    return blocks;
  };
  return {
    ...boxed(every(square.lower, -rewardBound, -1, 0).map((low) => Math.min(low, 0)), every(square.upper, rewardBound, 1, 1)),
    rewardBound,
    seen: clipped,
    inside: unitBall,
    pack(x, y, arm) {
      const packed = square.pack(x, y, arm);
      return stacked(placed(lead(packed, y), arm), placed(rest(packed, x, 1), arm));
    },
  };
}

/** A vector no longer than 1: itself, unless it is longer by more than rounding errors. */
export function clipped(x: Vector): Vector {
  const limit = 1 + (x.length + 8) * 2 ** -52;
  if (dot(x, x) <= Math.min(limit * limit, 1e300)) return x;
  const peak = Math.max(...x.map(Math.abs));
  const unit = x.map((each) => each / peak); // whose squares are numbers
  const length = Math.sqrt(dot(unit, unit));
  return peak * length <= limit ? x : times(unit, 1 / length);
}

/** Clipped to norm 1, nor longer by rounding errors. */
export function unitBall(x: Vector): Vector {
  const inside = clipped(x);
  const norm = Math.sqrt(dot(inside, inside));
  return norm > 1 ? times(inside, 1 / norm) : inside;
}

export const dot = (a: Vector, b: Vector): number => a.reduce((sum, each, k) => sum + each * (b[k] as number), 0);

export const times = (x: Vector, factor: number): Vector => x.map((each) => each * factor);

export const clamp = (value: number, low: number, high: number): number => Math.min(Math.max(value, low), high);

export const full = (length: number, value: number): Vector => new Float64Array(length).fill(value);

const boxed = (lower: Vector, upper: Vector): Domain => ({ dim: lower.length, lower, upper });

function products(x: Vector, scale: number): number[] {
  const made: number[] = [];
  x.forEach((one, i) => x.subarray(i + 1).forEach((other) => made.push(scale * one * other)));
  return made;
}

function stacked(...parts: ArrayLike<number>[]): Vector {
  return Float64Array.from(parts.flatMap((part) => Array.from(part)));
}
