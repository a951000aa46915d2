// A deployment in memory, as strict as the real one about what it is told; it forgets nothing that was sent.
import { canonical, digest, packed, unpacked } from "../dist/inside.mjs";

const { subtle } = crypto;
const DIM = 2;
const DOMAIN = { kind: "LinearReport", dim: 5, features: DIM, reward_bound: 1 };
const COUNTS = { kind: "Counts", domain: DOMAIN, scale: 8, trials: 40, probability: 0.5 };
const ARRAY = (shape, numbers) => ({
  array: "<f8",
  shape,
  data: Buffer.from(new Float64Array(numbers).buffer).toString("base64"),
});
const LENGTH = { "<u4": 20, "<u8": 120, row: 48 };

/** The chain of a publication. */
export const chained = async (previous, bytes) => digest(new Uint8Array([...(previous ? unpacked(previous, 32) : []), ...new Uint8Array(await subtle.digest("SHA-256", bytes))]));

/** Of options {mixers, maxAge, slots, participations, arms, assigned, device, version, theta}. */
export class Fake {
  sent = []; // bodies of uploads, in order, whether they were answered or not
  asked = []; // [epoch, refused] of tickets
  slots = new Map(); // by epoch: slot -> [zero, final]
  closed = new Set(); // epochs
  published = [];
  fail = () => undefined; // may throw, or give a Response, instead of an answer; called with address and body
  lose = () => false; // whether an answer is lost on its way back

  static async made(options = {}) {
    const fake = new Fake();
    fake.options = { mixers: 1, maxAge: 1, slots: 3, participations: 1, arms: null, ...options };
    const { mixers, maxAge, slots, participations, arms, assigned, device = {}, theta = [1, 0] } = fake.options;
    fake.theta = theta;
    fake.analyzer = await subtle.generateKey("Ed25519", true, ["sign", "verify"]);
    fake.registrar = await subtle.generateKey("Ed25519", true, ["sign", "verify"]);
    fake.helper = await subtle.generateKey("Ed25519", true, ["sign", "verify"]);
    fake.sealing = await subtle.generateKey("X25519", true, ["deriveBits"]);
    const form = mixers === 2 ? "shares" : mixers === 1 ? "plain" : "row";
    const part = { arm: null, form, dtype: { shares: "<u8", plain: "<u4", row: "<f8" }[form], length: form === "row" ? DIM + 4 : 5, stream: null, mixer: form === "row" ? null : "{}" };
    fake.size = 4 + 40 + LENGTH[form === "row" ? "row" : part.dtype];
    const raw = async (pair) => packed(new Uint8Array(await subtle.exportKey("raw", pair.publicKey)));
    fake.rounds = [{ parts: (assigned ?? [null]).map((arm) => ({ ...part, arm })) }];
    const section = {
      version: 1,
      participations,
      choose: assigned ? { kind: "PlaceChooser", features: DIM } : { kind: "ThompsonChooser", domain: DOMAIN },
      tells: [[form === "row" ? { kind: "Row" } : { kind: "Regressed", centre: 0 }]],
      plans: [{ rounds: await digest(canonical([{ parts: [part] }])), users: assigned ? slots / assigned.length : slots, devices: [[form === "row" ? null : COUNTS]] }],
      ...device,
    };
    fake.document = canonical({
      format: "bandanna task",
      version: fake.options.version ?? 1,
      title: "a test",
      mixers,
      max_age: maxAge,
      urls: Object.fromEntries(["analyzer", "shuffler", "helper", "registrar"].map((role) => [role, `http://${role}.test`])),
      keys: { analyzer: await raw(fake.analyzer), helper: await raw(fake.helper), registrar: await raw(fake.registrar), "seal helper": await raw(fake.sealing) },
      device: fake.options.device === null ? null : section,
      arms: arms && JSON.stringify({ tuple: [{ tuple: arms.ids }, ARRAY([arms.ids.length, DIM], arms.features ?? Array(arms.ids.length * DIM).fill(0)), !arms.features] }),
    });
    fake.task = await digest(fake.document);
    await fake.publish();
    return fake;
  }

  get running() {
    return this.published.at(-1).epoch;
  }

  /** The next publication: `change` may spoil it. */
  async publish(change = {}) {
    const number = this.published.length;
    const epoch = change.epoch ?? number;
    const batch = (place) => ({ epoch: epoch + place, episode: epoch + place, slots: this.options.slots, rounds: this.rounds, ...this.assignment(), clients: false });
    const fields = { theta: ARRAY([DIM], this.theta), root: ARRAY([DIM, DIM], Array(DIM * DIM).fill(0)), explore: 0 };
    const content = {
      task: this.task,
      number,
      previous: this.published.at(-1)?.chain ?? "",
      status: "running",
      epoch,
      round: 0,
      state: "",
      snapshot: JSON.stringify({ kind: "Posterior", fields }),
      answers: [],
      batches: this.options.maxAge ? [batch(0), batch(1)] : [batch(0)],
      helper: this.options.rotated ? await this.sealKey() : null,
      ...change,
    };
    const bytes = canonical(content);
    const signature = await this.signed("publication", this.analyzer, bytes);
    const chain = await chained(content.previous, bytes);
    const witness = await this.cosigned(chain, content.number);
    const made = { number: content.number, epoch: content.epoch, bytes, signature, witness, chain };
    this.published.push(made);
    return made;
  }

  assignment() {
    const arms = this.options.assigned ?? [];
    return { arms, plays: arms.map(() => this.options.slots / arms.length), in_turn: true };
  }

  /** As a role of this task signs a document of a kind. */
  async signed(kind, { privateKey }, bytes) {
    const stated = new Uint8Array([...new TextEncoder().encode(`bandanna ${kind}\n${this.task}\n`), ...bytes]);
    return packed(new Uint8Array(await subtle.sign("Ed25519", privateKey, stated)));
  }

  /** As the helper tells its key of a number. */
  async sealKey(id = 5) {
    const plain = { id, public: packed(new Uint8Array(await subtle.exportKey("raw", this.sealing.publicKey))) };
    return { ...plain, signature: await this.signed("keys", this.helper, canonical(plain)) };
  }

  /** As the registrar signs which publication has a number. */
  cosigned(chain, number) {
    return this.signed("cosignature", this.registrar, canonical({ chain, number }));
  }

  /** What sessions are opened with. */
  options_(more = {}) {
    return {
      analyzer: "http://analyzer.test",
      task: this.task,
      fetch: (address, init) => this.fetch(address, init),
      tickets: (epoch, refused) => this.ticket(epoch, structuredClone(refused)),
      pause: async () => undefined,
      patience: 1,
      ...more,
    };
  }

  async ticket(epoch, refused) {
    this.asked.push([epoch, refused]);
    const slot = packed(crypto.getRandomValues(new Uint8Array(16)));
    return { epoch, slot, collector: packed(new Uint8Array(16).fill(7)), helper: packed(new Uint8Array(16).fill(9)) };
  }

  async fetch(address, { body, cache, credentials, referrerPolicy, redirect, headers } = {}) {
    if (String([cache, credentials, referrerPolicy, redirect, headers]) !== "no-store,omit,no-referrer,error,") throw new Error("a request that says whose it is");
    const { pathname, searchParams } = new URL(address);
    if (body) this.sent.push(body.slice());
    const instead = await this.fail(address, body);
    if (instead) return instead;
    if (pathname.endsWith("/reports")) {
      const answer = this.taken(body);
      if (this.lose(body)) throw new TypeError("the answer is lost");
      return answer;
    }
    if (pathname.endsWith("/snapshot")) {
      const { number, bytes, signature, witness } = this.published.at(-1);
      if (searchParams.has("after") && number <= Number(searchParams.get("after"))) return new Response(null, { status: 204 });
      return new Response(bytes, { headers: { signature, witness } });
    }
    if (pathname.includes("/links/")) {
      const block = Number(pathname.split("/").pop());
      const hashes = await Promise.all(this.published.slice(256 * block, 256 * (block + 1)).map(({ bytes }) => subtle.digest("SHA-256", bytes)));
      return new Response(Buffer.concat(hashes.map((each) => Buffer.from(each))));
    }
    return pathname === `/tasks/${this.task}` ? new Response(this.document) : new Response("{}", { status: 404 });
  }

  /** The collector's verdict about one report. */
  taken(body) {
    const { slot, epoch, version, bytes } = parsed(body);
    const refuse = (reason, proof) =>
      Response.json({ results: [{ reason, error: reason, ...(proof ? { refusal: packed(new Uint8Array(16).fill(epoch + 1)) } : {}) }], reason }, { status: 409 });
    if (body.length !== this.size) return refuse("length");
    const places = this.slots.get(epoch) ?? new Map();
    const kept = () => Response.json({ places: [[...places.keys()].indexOf(slot)] }, { status: 201 });
    this.slots.set(epoch, places);
    const own = places.get(slot);
    const over = this.closed.has(epoch) || epoch < this.running;
    if (!own) {
      if (epoch > this.running && (this.slots.get(this.running)?.size ?? 0) < this.options.slots) return refuse("early");
      if (places.size >= this.options.slots) return refuse("full", true);
      if (over) return refuse("closed", true);
      places.set(slot, []);
    } else if (own[version]) {
      return !version || own[version] === bytes ? kept() : refuse("other"); // one zero report is as good as another
    } else if (over) return refuse("closed");
    places.get(slot)[version] = bytes;
    return kept();
  }

  /** Somebody else takes a slot. */
  async fill(epoch, count = this.options.slots) {
    const places = this.slots.get(epoch) ?? new Map();
    for (let k = 0; k < count; k++) places.set(`other ${k}`, ["zero", "final"]);
    this.slots.set(epoch, places);
  }
}

/** A request of one report. */
export function parsed(body) {
  const view = new DataView(body.buffer, body.byteOffset);
  return {
    length: view.getUint32(0, true),
    slot: packed(body.slice(4, 20)),
    epoch: view.getUint32(36, true),
    round: view.getUint16(40, true),
    version: body[42],
    key: body[43],
    body: body.slice(44),
    bytes: packed(body),
  };
}

export { canonical, packed, unpacked };
