/** HPKE (RFC 9180), base mode, one message: X25519, HKDF-SHA256, AES-128-GCM; opened by `bandanna.deployment.messages.canonical.Opener`. */
import { type Bytes, joined, text } from "./canonical.js";

const KEM = joined(text("KEM"), Uint8Array.of(0, 0x20));
const SUITE = joined(text("HPKE"), Uint8Array.of(0, 0x20, 0, 1, 0, 1));
const VERSION = text("HPKE-v1");
const EMPTY = new Uint8Array(0);

/** `content` sealed for the owner of a key, to be opened with the same `info`: encapsulated key, then ciphertext. */
export async function sealed(publicKey: Bytes, content: Bytes, info: Bytes): Promise<Bytes> {
  const { subtle } = crypto;
  const receiver = await subtle.importKey("raw", publicKey, "X25519", false, []);
  const own = (await subtle.generateKey("X25519", true, ["deriveBits"])) as CryptoKeyPair;
  const shared = new Uint8Array(await subtle.deriveBits({ name: "X25519", public: receiver }, own.privateKey, 256));
  const encapsulated = new Uint8Array(await subtle.exportKey("raw", own.publicKey));
  const agreed = await extract(KEM, EMPTY, "eae_prk", shared);
  const secret = await expand(KEM, agreed, "shared_secret", joined(encapsulated, publicKey), 32);

  const context = joined(
    Uint8Array.of(0),
    await extract(SUITE, EMPTY, "psk_id_hash", EMPTY),
    await extract(SUITE, EMPTY, "info_hash", info),
  );
  const scheduled = await extract(SUITE, secret, "secret", EMPTY);
  const key = await expand(SUITE, scheduled, "key", context, 16);
  const nonce = await expand(SUITE, scheduled, "base_nonce", context, 12);
  const cipher = await subtle.importKey("raw", key, "AES-GCM", false, ["encrypt"]);
  return joined(encapsulated, new Uint8Array(await subtle.encrypt({ name: "AES-GCM", iv: nonce }, cipher, content)));
}

const extract = (suite: Bytes, salt: Bytes, label: string, secret: Bytes): Promise<Bytes> =>
  hmac(salt.length ? salt : new Uint8Array(32), joined(VERSION, suite, text(label), secret));

/** Up to 32 bytes: one block of HKDF. */
async function expand(suite: Bytes, secret: Bytes, label: string, info: Bytes, length: number): Promise<Bytes> {
  const labelled = joined(Uint8Array.of(0, length), VERSION, suite, text(label), info, Uint8Array.of(1));
  return (await hmac(secret, labelled)).slice(0, length);
}

export async function hmac(key: Bytes, content: Bytes): Promise<Bytes> {
  const made = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", made, content));
}
