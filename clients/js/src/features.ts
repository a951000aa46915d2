/**
 * A task's public map from a record to features, as Python's `bandanna.features` computes it, bit for bit. A module of its own:
 * pages that bring numbers do not load it.
 */
import { type Json, sha256, text } from "./canonical.js";
import { Refused } from "./errors.js";

/** What a page knows of a user, or of an arm: numbers, texts, truth values; anything else is missing. */
export type Row = Readonly<Record<string, unknown>>;

/** Features, and what had to be done: by column "outside", "unknown" or "missing"; and whether the vector was clipped. */
export interface Mapped {
  readonly features: Float64Array;
  readonly treated: Readonly<Record<string, string>>;
  readonly clipped: boolean;
}

/** A map that was read: `map(record)` are features for `act`. */
export interface FeatureMap {
  (record: Row): Float64Array;
  readonly dim: number;
  readonly mapped: (record: Row) => Mapped;
}

interface Column {
  readonly kind: "range" | "one-hot" | "hash";
  readonly name: string;
  readonly missing: string;
  readonly low: number;
  readonly high: number;
  readonly outside: string;
  readonly values: readonly (string | number)[];
  readonly unknown: string;
  readonly buckets: number;
  readonly seed: number;
  readonly words: boolean;
}

type Treat = (column: Column, what: "outside" | "unknown" | "missing", how: string) => void;

const CONSTANT = Math.sqrt(0.5);

/** The map of a task's `schema`: a map, or the ranges of features in their order. */
export async function readMap(schema: unknown): Promise<FeatureMap> {
  const content = Object(schema) as { [name: string]: Json };
  const ranges = Array.isArray(content.names);
  if (!ranges && (content.format !== "bandanna features" || content.version !== 1)) {
    throw new Refused("features", "This is not a feature map of this version. Use the client of its release.");
  }
  const columns = (ranges ? ofRanges(content) : content.columns) as unknown as Column[];
  const project = (content.project ?? null) as { dim: number; seed: number } | null;
  const ball = (content.ball ?? null) as { scale: number } | null;
  const width = columns.reduce((sum, column) => sum + widthOf(column), 0);
  const rows = project ? await signs(width, project.dim, project.seed) : null;

  const mapped = (record: Row): Mapped => {
    const treated: Record<string, string> = {};
    const treat: Treat = (column, what, how) => {
      if (how === "refuse") throw new Refused("features", `${column.name} is ${what}, which this task does not take.`);
      treated[column.name] = what;
    };
    const share = 1 / Math.sqrt(columns.length);
    let x = columns.flatMap((column) => ofColumn(column, record[column.name], treat)).map((each) => each * share);
    let clipped = false;
    if (rows) x = rows.map((row) => row.reduce((sum, sign, j) => sum + (x[j] as number) * sign, 0) / Math.sqrt(rows.length));
    if (ball) {
      x = x.map((each) => each * ball.scale);
      const square = x.reduce((sum, each) => sum + each * each, 0);
      const limit = 1 + (x.length + 8) * 2 ** -52;
      clipped = square > limit * limit;
      if (clipped) x = x.map((each) => each / Math.sqrt(square));
    }
    if (content.intercept === true) x = [...x.map((each) => each * CONSTANT), CONSTANT];
    return { features: Float64Array.from(x), treated, clipped };
  };
  const dim = (project?.dim ?? width) + Number(content.intercept === true);
  return Object.assign((record: Row) => mapped(record).features, { dim, mapped });
}

function ofRanges(content: { [name: string]: Json }): Json[] {
  const ranges = content.ranges as { [name: string]: number[] };
  return (content.names as string[]).map((name) => {
    const [low, high] = ranges[name] as [number, number];
    return { kind: "range", name, low, high, outside: "clip", missing: "zero" };
  });
}

const others = (column: Column): boolean => column.unknown === "other" || column.missing === "other";

function widthOf(column: Column): number {
  if (column.kind === "range") return 1;
  return column.kind === "hash" ? column.buckets : column.values.length + Number(others(column));
}

/** Truth values are 0 and 1; what is no number is NaN. */
const numberOf = (value: unknown): number =>
  typeof value === "number" ? value : typeof value === "boolean" ? Number(value) : NaN;

function ofColumn(column: Column, value: unknown, treat: Treat): number[] {
  if (column.kind === "range") return [inRange(column, numberOf(value), treat)];
  return column.kind === "hash" ? hashed(column, value, treat) : oneHot(column, value, treat);
}

function inRange(column: Column, value: number, treat: Treat): number {
  if (Number.isNaN(value)) {
    treat(column, "missing", column.missing);
    return 0;
  }
  if (value < column.low || value > column.high) treat(column, "outside", column.outside);
  return 2 * ((Math.min(Math.max(value, column.low), column.high) - column.low) / (column.high - column.low)) - 1;
}

function oneHot(column: Column, value: unknown, treat: Treat): number[] {
  const plain = typeof value === "string" ? value : numberOf(value);
  const missing = typeof plain === "number" && Number.isNaN(plain);
  let place = column.values.indexOf(plain);
  if (place < 0) {
    const how = missing ? column.missing : column.unknown;
    treat(column, missing ? "missing" : "unknown", how);
    if (how === "other") place = column.values.length;
  }
  return Array.from({ length: widthOf(column) }, (_, k) => Number(k === place));
}

function hashed(column: Column, value: unknown, treat: Treat): number[] {
  const counts: number[] = new Array(column.buckets).fill(0);
  const tokens = tokensOf(value, column.words);
  if (tokens === null) treat(column, "missing", column.missing);
  for (const token of tokens ?? []) {
    const h = mixed((crc32(token) + column.seed) >>> 0);
    const bucket = (h >>> 1) % column.buckets;
    counts[bucket] = (counts[bucket] as number) + (h & 1 ? -1 : 1);
  }
  const length = Math.sqrt(counts.reduce((sum, count) => sum + count * count, 0));
  return length > 0 ? counts.map((count) => count / length) : counts;
}

/** "t" and the bytes of each word, or "n" and those of a number; null for what is neither. */
function tokensOf(value: unknown, words: boolean): number[][] | null {
  if (typeof value === "string") {
    const bytes = [...text(value)];
    return (words ? wordsOf(bytes) : [bytes]).map((word) => [116, ...word]);
  }
  const number = numberOf(value);
  if (Number.isNaN(number)) return null;
  const bytes = new DataView(new ArrayBuffer(8));
  bytes.setFloat64(0, number + 0); // -0 + 0 = 0
  return [[110, ...new Uint8Array(bytes.buffer)]];
}

/** Longest runs of ASCII letters and digits, capitals made small, and of bytes above 127. */
function wordsOf(bytes: readonly number[]): number[][] {
  const words: number[][] = [[]];
  for (const byte of bytes) {
    const small = byte >= 65 && byte <= 90 ? byte + 32 : byte;
    const inside = small > 127 || (small >= 48 && small <= 57) || (small >= 97 && small <= 122);
    if (inside) (words[words.length - 1] as number[]).push(small);
    else words.push([]);
  }
  return words.filter((word) => word.length);
}

function crc32(bytes: readonly number[]): number {
  let rest = 0xffffffff;
  for (const byte of bytes) {
    rest ^= byte;
    for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? 0xedb88320 ^ (rest >>> 1) : rest >>> 1;
  }
  return (rest ^ 0xffffffff) >>> 0;
}

/** The last step of MurmurHash3. */
function mixed(h: number): number {
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/** A row of signs for each output, from the bits of SHA-256. */
async function signs(inputs: number, outputs: number, seed: number): Promise<number[][]> {
  const rows: number[][] = [];
  for (let i = 0; i < outputs; i++) {
    const row: number[] = [];
    for (let block = 0; row.length < inputs; block++) {
      const bytes = await sha256(text(`bandanna project/${seed}/${i}/${block}`));
      bytes.forEach((byte) => {
        for (let bit = 7; bit >= 0; bit--) row.push((byte >> bit) & 1 ? -1 : 1);
      });
    }
    rows.push(row.slice(0, inputs));
  }
  return rows;
}
