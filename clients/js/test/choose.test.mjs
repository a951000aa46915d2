// Choices from snapshots that somebody made to learn something: whether they are refused has nothing to do with features.
import assert from "node:assert/strict";
import { test } from "node:test";
import { chosen, Refused, secure, seenBy } from "../dist/inside.mjs";

const DIM = 3;
const ARMS = 4;
const FINITE = [0, 1, -1, 1.7e308, -1.7e308, Number.MAX_VALUE, 1e-320, 1e39, -1e39, 1e200, -1e200];
const FEATURES = [0, 0.1, -0.3, 0.9, 1e-300, 5, -1e100];
const domain = (kind) => ({ kind, features: DIM, n_arms: ARMS, reward_bound: 0.5 });
const CHOICES = [
  ...["LinearReport", "InterceptReport", "PerArmReport"].map((kind) => ({ kind: "ThompsonChooser", domain: domain(kind) })),
  { kind: "OptimistChooser", domain: domain("LinearReport"), ties: "first" },
  { kind: "OptimistChooser", domain: domain("InterceptReport"), ties: "random" },
];

/** Numbers that are the same at every run (a linear congruence: nothing here is secret). */
let state = 7;
const one = (values) => values[Math.floor(((state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32) * values.length)];

function snapshotOf({ kind, domain }, values) {
  const table = (...shape) => ({ shape, data: Float64Array.from({ length: shape.reduce((size, each) => size * each, 1) }, () => one(values)) });
  const own = domain.kind === "PerArmReport";
  const shape = own ? [ARMS, DIM + 1] : [DIM];
  const square = own ? [ARMS, DIM + 1, DIM + 1] : [DIM, DIM];
  const explore = one([0, 0, 0.5, 2, -1]);
  return kind === "ThompsonChooser" ? { theta: table(...shape), root: table(...square), explore } : { theta: table(...shape), inverse: table(...square), radius: one([0, 1, -1, 1e39, 1e149, -1e150]), explore };
}

function contextsOf({ domain }) {
  const row = () => Float64Array.from({ length: DIM }, (_, k) => (domain.kind === "InterceptReport" && k === DIM - 1 ? 1 : one(FEATURES)));
  return Array.from({ length: ARMS }, row);
}

const outcome = (choose, snapshot) => {
  try {
    const { action, features } = chosen(choose, snapshot, seenBy(choose, contextsOf(choose)), secure);
    assert.ok(Number.isInteger(action) && action >= 0 && action < ARMS && features.every(Number.isFinite));
    return "an arm";
  } catch (error) {
    assert.ok(error instanceof Refused, error);
    return error.reason;
  }
};

test("a snapshot of finite numbers always gives an arm, however large they are and whatever the features", () => {
  for (const choose of CHOICES) {
    for (let k = 0; k < 200; k++) {
      const snapshot = snapshotOf(choose, FINITE);
      for (let user = 0; user < 12; user++) assert.equal(outcome(choose, snapshot), "an arm");
    }
  }
});

test("one with a number that is not finite, or of another shape, is refused, whatever the features", () => {
  for (const choose of CHOICES) {
    const second = choose.kind === "ThompsonChooser" ? "root" : "inverse";
    for (let k = 0; k < 60; k++) {
      const snapshot = snapshotOf(choose, FINITE);
      const spoilt = snapshot[one(["theta", second])];
      if (k % 5 === 4) snapshot[choose.kind === "ThompsonChooser" || k % 2 ? "explore" : "radius"] = one([NaN, Infinity, undefined]);
      else if (k % 3) spoilt.data[one([...spoilt.data.keys()])] = one([NaN, Infinity, -Infinity]);
      else spoilt.shape = [...spoilt.shape, 1];
      for (let user = 0; user < 12; user++) assert.equal(outcome(choose, snapshot), "document");
    }
  }
});

test("what is no number is the least, and finite indices are compared as before", () => {
  const snapshot = { theta: { shape: [2], data: Float64Array.of(1.7e308, 1.7e308) }, inverse: { shape: [2, 2], data: Float64Array.of(0, 0, 0, 0) }, radius: 1, explore: 0 };
  const choose = { kind: "OptimistChooser", domain: { kind: "LinearReport", features: 2, reward_bound: 1 }, ties: "first" };
  const arms = [[-0.1, 0], [0.2, 0.1], [0.5, -0.5]].map((row) => Float64Array.from(row));
  assert.equal(chosen(choose, snapshot, arms, secure).action, 1);
  assert.equal(chosen(choose, { ...snapshot, radius: 1e150, inverse: { shape: [2, 2], data: Float64Array.of(0, 1e300, -1e300, 0) } }, arms, secure).action, 0); // all of them none
});
