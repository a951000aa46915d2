/** Values as `bandanna.storage.encoding` writes them: numbers, texts, arrays, and frozen values with their kind. */
import { unpacked } from "./canonical.js";
import { Refused } from "./errors.js";

/** An array of numbers, row by row. */
export interface Numbers {
  readonly shape: readonly number[];
  readonly data: Float64Array | BigInt64Array;
}

const SPECIAL: Record<string, number> = { inf: Infinity, "-inf": -Infinity };

/** A value from its text. Tuples are arrays, dictionaries are Maps, a frozen value is its fields with `kind`. */
export function decoded(text: string): unknown {
  try {
    return read(JSON.parse(text));
  } catch {
    throw new Refused("document", "The document has an unknown value. Use a newer client.");
  }
}

function read(plain: any): unknown {
  if (Array.isArray(plain)) return plain.map(read);
  if (plain === null || typeof plain !== "object") return plain;
  switch (Object.keys(plain).join()) {
    case "float":
      return SPECIAL[plain.float] ?? NaN;
    case "tuple":
      return plain.tuple.map(read);
    case "dict":
      return new Map(plain.dict.map(read));
    case "array,shape,data":
      return array(plain.array, plain.shape, plain.data);
    case "kind,fields":
      return { ...Object.fromEntries(Object.entries(plain.fields).map(([name, part]) => [name, read(part)])), kind: plain.kind };
  }
  throw plain; // said above
}

function array(dtype: string, shape: number[], data: string): Numbers {
  const { buffer } = unpacked(data, 8 * shape.reduce((size, length) => size * length, 1));
  if (dtype === "<f8") return { shape, data: new Float64Array(buffer) }; // browsers run on little-endian machines
  if (dtype === "<i8") return { shape, data: new BigInt64Array(buffer) };
  throw dtype; // said above
}

/** A table of finite float64 with these lengths; refused if it is another. */
export function floats(value: unknown, ...shape: number[]): Float64Array {
  const given = value as Partial<Numbers> | undefined;
  if (!(given?.data instanceof Float64Array) || String(given.shape) !== String(shape) || !given.data.every(Number.isFinite)) {
    throw noSnapshot();
  }
  return given.data;
}

export const noSnapshot = (): Refused => new Refused("document", "The snapshot does not fit the arms.");
