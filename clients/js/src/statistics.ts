/** Statistics: features, an arm and a reward become the numbers that a device protects, or a row for a trusted server. */
import { clamp, type Plain, regressionOf, statistic, times, type Vector } from "./domains.js";
import { type Entropy, uniform } from "./entropy.js";
import { lacks } from "./errors.js";

export interface Played {
  readonly features: Vector;
  readonly action: number;
  readonly reward: number;
}

/** Return the statistic of one part of a report; `device` is the part's, null for rows. */
export function statisticOf(tell: Plain, device: Plain | null, { features, action, reward }: Played, entropy: Entropy): Vector {
  if (tell.kind === "Row") return Float64Array.from([...features, reward, action, 0, 1]);
  const within = clamp(reward, 0, 1);
  const domain = device?.domain as Plain;
  switch (tell.kind) {
    case "Regressed":
      return statistic(regressionOf(domain), features, within - (tell.centre as number), action);
    case "Weighted": {
      const x = regressionOf(tell.seen as Plain).inside(features);
      const said = tell.bits ? bit(within, entropy) : within;
      const weights = tell.weights as number[];
      return x.map((each, k) => (said - 0.5) * (each * (weights[k] as number)));
    }
    case "Rewarded": {
      const [low, high] = [tell.low as number, tell.high as number];
      return Float64Array.of(bit((clamp(reward, low, high) - low) / (high - low), entropy));
    }
    case "Public": {
      const x = regressionOf(tell.seen as Plain).inside(features);
      return regressionOf(domain).pack(times(x, tell.scale as number), 0.5, action);
    }
  }
  throw lacks(tell.kind);
}

/** Refuse a statistic that is none of the above. */
export function checkStatistic({ kind }: Plain): void {
  if (!/^(Row|Regressed|Weighted|Rewarded|Public)$/.test(kind)) throw lacks(kind);
}

/** Round a number of [0, 1] to an end by a coin; 0 and 1 need no coin. */

const bit = (share: number, entropy: Entropy): number => (share > 0 && share < 1 ? Number(uniform(entropy) < share) : share);
