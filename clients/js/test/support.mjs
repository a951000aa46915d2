// What tests share: recorded words, base64, and (in Node) JSON by standard streams.

export const bytes = (text) => Uint8Array.from(atob(text), (unit) => unit.charCodeAt(0));

export const packed = (content) => btoa(String.fromCharCode(...content));

/** Words that somebody has recorded: base64 of 8 bytes each, little-endian. */
export class Recorded {
  #words;
  #used = 0;

  constructor(words) {
    this.#words = new BigUint64Array(bytes(words).buffer);
  }

  words(count) {
    if (count > this.left) throw new Error("more words are drawn than were recorded");
    this.#used += count;
    return this.#words.slice(this.#used - count, this.#used);
  }

  get left() {
    return this.#words.length - this.#used;
  }
}

export async function read() {
  const parts = [];
  for await (const part of process.stdin) parts.push(part);
  return JSON.parse(Buffer.concat(parts).toString());
}

export function written(value) {
  const plain = (_, part) =>
    typeof part === "bigint" ? String(part) : ArrayBuffer.isView(part) ? Array.from(part) : part instanceof Map ? [...part] : part;
  process.stdout.write(JSON.stringify(value, plain) + "\n");
}
