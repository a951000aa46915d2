/** What a host says about the arms, checked before anything is drawn. */
import type { Vector } from "./domains.js";
import { Refused } from "./errors.js";
import type { Task } from "./task.js";

/** Features of every arm, by row or by name; of the user alone, where the task names the arms; nothing, where arms stay. */
export type Contexts = readonly (readonly number[])[] | Readonly<Record<string, readonly number[]>> | readonly number[];

export interface Named {
  readonly ids: readonly (string | number)[];
  readonly rows: readonly Vector[];
}

const LARGEST = 1e100; // whose square is a number too

const dimOf = ({ device }: Task): number => ((device.choose.domain ?? device.choose) as { features: number }).features;

/** Refuse a call that is wrong whatever the features are. */
export function checkGiven(task: Task, contexts?: Contexts): void {
  const { arms } = task;
  if (arms?.features && contexts !== undefined) throw wrong("no contexts: the task's arms have features that stay");
  if (!arms?.features && contexts === undefined) throw wrong(`features, ${dimOf(task)} numbers each`);
}

export function named(task: Task, contexts?: Contexts): Named {
  const { arms } = task;
  const dim = dimOf(task);
  if (arms?.features) return { ids: arms.ids, rows: arms.features };
  if (arms) {
    const row = vector(contexts, dim, "the user's features");
    return { ids: arms.ids, rows: arms.ids.map(() => row) };
  }
  const table = typeof contexts === "object" ? Object.entries(contexts) : [];
  if (!table.length) throw wrong(`the features of every arm, ${dim} numbers each`);
  const ids = table.map(([name], arm) => (Array.isArray(contexts) ? arm : name));
  return { ids, rows: table.map(([name, row]) => vector(row, dim, `the features of arm ${name}`)) };
}

function vector(given: unknown, dim: number, what: string): Vector {
  const row = Array.isArray(given) || given instanceof Float64Array ? Array.from(given as ArrayLike<unknown>) : [];
  if (row.length !== dim || !row.every((each) => typeof each === "number" && Math.abs(each) <= LARGEST)) {
    throw wrong(`${what} as ${dim} finite numbers`);
  }
  return Float64Array.from(row as number[]);
}

const wrong = (wanted: string): Refused => new Refused("contexts", `act() takes ${wanted}.`);
