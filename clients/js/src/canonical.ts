/** Documents as bytes: one JSON text for one value, its hash, and bytes as texts that fit into addresses. */
import { Refused } from "./errors.js";

export type Bytes = Uint8Array<ArrayBuffer>;
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/**
 * Sorted keys, no spaces, ASCII: the bytes of `bandanna.deployment.messages.canonical.dumps`, for whole numbers, texts and flags under
 * ASCII names. Of other values the bytes are others, and a digest that is compared does not agree.
 */
export function canonical(value: Json): Bytes {
  return text(written(value));
}

function written(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(written).join(",")}]`;
  if (typeof value === "string") return ascii(value);
  if (value === null || typeof value !== "object") return String(value);
  const parts = Object.keys(value).sort().map((name) => `${ascii(name)}:${written(value[name] as Json)}`);
  return `{${parts.join(",")}}`;
}

const ascii = (text: string): string =>
  JSON.stringify(text).replace(/[\x7f-\uffff]/g, (unit) => "\\u" + unit.charCodeAt(0).toString(16).padStart(4, "0"));

export async function sha256(content: Bytes): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", content));
}

/** base64url(SHA-256(content)): what tasks, plans and publications are named by. */
export async function digest(content: Bytes): Promise<string> {
  return packed(await sha256(content));
}

/** Bytes as base64url without padding. */
export function packed(content: Uint8Array): string {
  return btoa(String.fromCharCode(...content)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

/** The inverse of `packed` (base64 is read too), of so many bytes. */
export function unpacked(text: unknown, length: number): Bytes {
  const plain = String(text).replace(/-/g, "+").replace(/_/g, "/").replace(/=+$/, "");
  const whole = /^[\w+/]*$/.test(plain) && plain.length % 4 !== 1;
  const content = Uint8Array.from(whole ? atob(plain) : "", (unit) => unit.charCodeAt(0));
  if (content.length !== length) throw new Refused("document", `${length} bytes in base64url were expected.`);
  return content;
}

export const joined = (...parts: Uint8Array[]): Bytes => Uint8Array.from(parts.flatMap((part) => [...part]));

export const text = (content: string): Bytes => new TextEncoder().encode(content);

/** A document of JSON. */
export function parsed(content: Uint8Array): { [name: string]: Json } {
  try {
    return Object(JSON.parse(new TextDecoder().decode(content)));
  } catch {
    throw new Refused("document", "This is not a JSON document. Check the address.");
  }
}
