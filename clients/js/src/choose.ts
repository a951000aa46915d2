/** What a device decides from a public snapshot, with coins of its own: nothing of it leaves the device. */
import { clipped, dot, noConstant, type Plain, regressionOf, type Vector } from "./domains.js";
import { type Entropy, normals, uniform } from "./entropy.js";
import { lacks } from "./errors.js";
import { exponent } from "./devices.js";
import { floats, noSnapshot } from "./values.js";

export interface Choice {
  readonly action: number;
  /** Features of the chosen arm as they were seen: what is reported of them. */
  readonly features: Vector;
}

/** Features of every arm as they are scored and reported; refused where they are none. */
export function seenBy(choose: Plain, contexts: readonly Vector[]): readonly Vector[] {
  const domain = choose.domain as Plain;
  if (choose.kind === "OptimistChooser") return contexts;
  if (choose.kind !== "ThompsonChooser") throw lacks(choose.kind);
  if (domain.kind === "InterceptReport") oneConstant(contexts);
  return contexts.map(regressionOf(domain).seen);
}

/** An arm for one user, of the features of every arm as they are seen; refused where the snapshot does not fit them. */
export function chosen(choose: Plain, snapshot: Plain, seen: readonly Vector[], entropy: Entropy): Choice {
  const share = snapshot.explore as number;
  if (!Number.isFinite(share)) throw noSnapshot();
  const own = (choose.domain as Plain).kind === "PerArmReport";
  const index = (choose.kind === "OptimistChooser" ? optimistic : own ? ownScores : sharedScores)(snapshot, seen, entropy);
  let action = favoured(index, choose.ties !== "first", entropy);
  if (share && uniform(entropy) < share) action = anyOf(seen, entropy);
  return { action, features: seen[action] as Vector };
}

/** The number of an arm, all alike. */
export const anyOf = (arms: readonly unknown[], entropy: Entropy): number => Math.floor(uniform(entropy) * arms.length);

/** theta ~ N(mean, L L^T), score = <x, theta>. */
function sharedScores(snapshot: Plain, seen: readonly Vector[], entropy: Entropy): number[] {
  const d = (seen[0] as Vector).length;
  const root = floats(snapshot.root, d, d);
  const mean = floats(snapshot.theta, d);
  const z = normals(entropy, d);
  const theta = mean.map((each, k) => each + dot(root.subarray(k * d, k * d + d), z));
  return seen.map((x) => dot(x, theta));
}

/** score_k = <x_k, mean_k> + |L_k^T x_k| z_k, of (x, 1). */
function ownScores(snapshot: Plain, seen: readonly Vector[], entropy: Entropy): number[] {
  const arms = seen.length;
  const d = (seen[0] as Vector).length + 1;
  const mean = floats(snapshot.theta, arms, d);
  const root = floats(snapshot.root, arms, d, d);
  const z = normals(entropy, arms);
  return seen.map((features, k) => {
    const x = Float64Array.from([...features, 1]);
    const spread = across(root.subarray(k * d * d), x);
    return dot(x, mean.subarray(k * d, k * d + d)) + Math.sqrt(dot(spread, spread)) * (z[k] as number);
  });
}

/** <x, theta> + radius |x|_{V^{-1}}. */
function optimistic(snapshot: Plain, seen: readonly Vector[]): number[] {
  const d = (seen[0] as Vector).length;
  const theta = floats(snapshot.theta, d);
  if (!(Math.abs(snapshot.radius as number) <= 1e150)) throw noSnapshot(); // whose square is a number too
  const square = (snapshot.radius as number) ** 2;
  const inverse = floats(snapshot.inverse, d, d).map((each) => square * each);
  return seen.map(clipped).map((x) => {
    return dot(x, theta) + Math.sqrt(Math.max(dot(across(inverse, x), x), 0));
  });
}

/** x^T M of a square matrix. */
const across = (matrix: Vector, x: Vector): Vector => x.map((_, j) => dot(x, x.map((__, i) => matrix[i * x.length + j] as number)));

/** An arm whose index is the largest in single precision: the first, or by a coin where several are tied; always one. */
function favoured(index: readonly number[], coin: boolean, entropy: Entropy): number {
  const single = inSingle(index);
  const best = Math.max(...single);
  const tied = single.flatMap((each, arm) => (each === best ? [arm] : []));
  return tied[coin && tied.length > 1 ? anyOf(tied, entropy) : 0] as number;
}

/** To seven digits; beyond single precision, after a division by a power of two; what is no number is the least. */
function inSingle(index: readonly number[]): number[] {
  const finite = index.filter(Number.isFinite).map(Math.abs);
  const shift = finite.some((each) => Math.fround(each) === Infinity) ? exponent(Math.max(1, ...finite)) : 0;
  return index.map((each) => (each === each ? Math.fround(each * 2 ** -shift) : -Infinity));
}

function oneConstant(contexts: readonly Vector[]): void {
  const last = contexts.map((x) => x[x.length - 1] as number);
  if (Math.max(...last) - Math.min(...last) > 1e-9 * Math.max(...last.map(Math.abs))) throw noConstant();
}
