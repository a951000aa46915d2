// What the parts of the client make of cases, in Node and in pages.
import * as inside from "../dist/inside.mjs";
import { bytes, packed, Recorded } from "./support.mjs";

const tasks = {
  act({ choose, snapshot, contexts, words }) {
    const entropy = new Recorded(words);
    const rows = contexts.map((row) => Float64Array.from(row));
    const { action, features } = inside.chosen(choose, inside.decoded(snapshot), inside.seenBy(choose, rows), entropy);
    return { action, features: [...features], left: entropy.left };
  },
  encode({ device, values, words }) {
    const entropy = new Recorded(words);
    const message = inside.encoded(device, Float64Array.from(values ?? Array(inside.dimOf(device)).fill(0)), entropy);
    return { message: [...message].map(String), left: entropy.left };
  },
  tell({ tell, device, features, action, reward, words }) {
    const entropy = new Recorded(words);
    const played = { features: Float64Array.from(features), action, reward };
    const values = inside.statisticOf(tell, device, played, entropy);
    const message = device ? inside.encoded(device, values, entropy) : [];
    return { values: [...values], message: [...message].map(String), left: entropy.left };
  },
  domain({ domain }) {
    const { lower, upper, dim } = inside.domainOf(domain);
    return { lower: [...lower], upper: [...upper], dim };
  },
  bounds({ trials, chance, bits }) {
    const { first, low, up } = inside.bounds(trials, chance, BigInt(bits));
    return { first, low: low.map(String), up: up.map(String) };
  },
  async plan({ device, batch }) {
    const { users } = await inside.checkBatch({ device }, batch);
    return { users };
  },
  arms({ batch }) {
    return { arms: Array.from({ length: batch.slots }, (_, place) => inside.armAt(batch, place)) };
  },
  async canonical({ value }) {
    const bytes = inside.canonical(value);
    return { text: new TextDecoder().decode(bytes), digest: await inside.digest(bytes) };
  },
  decoded({ text }) {
    return { value: inside.decoded(text) };
  },
  async seal({ key, content, info }) {
    return { sealed: packed(await inside.sealed(bytes(key), bytes(content), bytes(info))) };
  },
  async share({ message, seed }) {
    const numbers = BigInt64Array.from(message, BigInt);
    const share = await inside.share(numbers, bytes(seed));
    return { share: [...share].map(String), bytes: packed(inside.numbers(share, "<u8")) };
  },
  async report({ slot, plan, round, version, key, body }) {
    const [own, collector] = [bytes(slot.slot), bytes(slot.collector)];
    return { report: packed(await inside.taggedReport({ ...slot, slot: own, collector }, bytes(plan), round, version, key, bytes(body))) };
  },
  async drawn({ device, task, batch, slot, key }) {
    const messages = [];
    const observe = ({ message }) => messages.push([...message].map(String));
    const own = { slot: bytes(slot.slot), collector: bytes(slot.collector), helper: bytes(slot.helper), epoch: batch.epoch };
    const drawing = { task: { device, digest: bytes(task) }, entropy: inside.secure, observe };
    const { bytes: sent } = await inside.drawn(drawing, batch, own, { id: 3, key: bytes(key) }, inside.ZERO);
    return { request: packed(sent), messages };
  },
  // Counts drawn with WebCrypto's words, for tests of their law: how often each value came.
  law({ device, values, draws }) {
    const seen = {};
    for (let k = 0; k < draws; k++) {
      const message = inside.encoded(device, Float64Array.from(values), inside.secure).join();
      seen[message] = (seen[message] ?? 0) + 1;
    }
    return { seen };
  },
  uniforms({ draws }) {
    return { drawn: [...inside.uniforms(inside.secure, draws)] };
  },
};

/** One answer for each case; a refusal is one too. */
export async function answered(cases) {
  const answers = [];
  for (const { what, ...given } of cases) {
    try {
      answers.push(await tasks[what](given));
    } catch (error) {
      answers.push({ error: error.message, reason: error.reason ?? "" });
    }
  }
  return answers;
}
