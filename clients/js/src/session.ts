/** A user's session in a task: act, report, and repeat what was not acknowledged with the same bytes. */
import { drawn, type Drawing, type Drawn, type SealKey } from "./bodies.js";
import { type Bytes, packed, unpacked } from "./canonical.js";
import { anyOf, type Choice, chosen, seenBy } from "./choose.js";
import { checkGiven, type Contexts, named } from "./contexts.js";
import type { Plain } from "./domains.js";
import { type Entropy, secure } from "./entropy.js";
import { Refused, unlessUnreachable, Unreachable } from "./errors.js";
import { asked, at, type Fetch, type Shown, uploaded, type Verdict } from "./http.js";
import { indexedStore, type Kept, memoryStore, type Store } from "./outbox.js";
import { armAt, type Batch, byPlace, checkBatch, checkBetween, type Pin, type Publication, readPublication, sealKey } from "./publication.js";
import { FINAL, type Slot, ZERO } from "./report.js";
import { readTask, type Task } from "./task.js";
import { decoded } from "./values.js";

/** An unused slot: epoch, slot, and the collector's proof for the registrar. */
export type Proof = [epoch: number, slot: string, refusal: string];

/** A slot of a batch with the registrar's keys for the collector and, with two mixers, the helper; in base64url. */
export interface Ticket {
  readonly epoch: number;
  readonly slot: string;
  readonly collector: string;
  readonly helper?: string;
}

export interface Options {
  /** The address of the task's analyzer. */
  readonly analyzer: string;
  /** The task's id, which is the hash of its document. */
  readonly task: string;
  /** Ask the host's server, which passes on the registrar's answer: a ticket, or the reason why there is none. */
  readonly tickets: (epoch: number, refused: Proof[]) => Promise<Ticket | { readonly refused: string }>;
  /** The user of this session if several use one device. The name is never sent. */
  readonly person?: string;
  /** The store of decisions and reports. Default: IndexedDB, or memory without it. */
  readonly store?: Store;
  readonly entropy?: Entropy;
  readonly fetch?: Fetch;
  /** Seconds of pauses between attempts. After them, a report waits for `flush`. */
  readonly patience?: number;
  /** For tests: what was drawn, before it is split; and how to wait. */
  readonly observe?: (drawn: Drawn) => void;
  readonly pause?: (seconds: number) => Promise<void>;
}

/** The decision for a user. Its `id` is enough to report the reward later, after a reload too. */
export interface Decision {
  readonly id: string;
  readonly arm: string | number;
  /** The arm's number. */
  readonly action: number;
  /** The number of the publication that it follows from. */
  readonly publication: number;
  /** Whether to report its reward. */
  readonly takingPart: boolean;
  /** Why not: "finished", "exhausted", "participations", "stale", or the registrar's or collector's word; else "". */
  readonly reason: string;
}

/** The fate of a report: kept, pending (`flush` sends it), or neither, with a reason: "closed", "stale", ... */
export interface Outcome {
  readonly kept: boolean;
  readonly pending: boolean;
  readonly reason: string;
}

/**
 * A decision in the outbox.
 *
 *     opening (a zero report waits, or a batch that takes it) -> open -> reporting (the final one waits) -> over
 *
 * `sending` holds the bytes of a request that is not acknowledged. At the end everything is deleted except the epoch of a
 * slot that was or may have been used, which is a participation, or the proof that it was not used.
 */
interface Entry {
  readonly id: string;
  readonly state: "opening" | "open" | "reporting" | "over";
  readonly publication?: number;
  readonly day?: number; // since 1970
  readonly refused?: Proof[];
  readonly arm?: string | number | undefined;
  readonly action?: number | undefined;
  readonly features?: Float64Array | undefined;
  readonly reward?: number | undefined; // NaN: an invalid one, for which nothing is reported
  readonly batch?: Batch | undefined;
  readonly slot?: Slot | undefined;
  readonly key?: SealKey | undefined; // of the zero report; the final one needs no other request
  readonly sending?: Bytes | undefined;
  readonly nothing?: boolean; // the final report is a report of zeros
  readonly epoch?: number; // of a slot, after the end
  readonly reason?: string; // of the end, not kept; "" if the report is
}

type Held = Kept<Entry>;
type Newest = Pin & Shown;

const FIRST_PAUSE = 0.05; // seconds
const LONGEST_PAUSE = 2;
const PATIENCE = 10;
const MOST_PROOFS = 64; // that a registrar reads
const DAYS = 30; // after which a decision without a report is forgotten
const EARLY: Verdict = { reason: "early" };

export class Session {
  readonly task: Task;
  readonly #options: Options;
  readonly #store: Store;
  readonly #fetch: Fetch;
  #publication: Publication | undefined;
  readonly #waiting = new Set<string>();
  readonly #orphans = new Set<string>(); // decisions without an arm, of a page that ended while it acted
  readonly #drawing: Drawing;
  readonly #prefix: string;

  private constructor(task: Task, options: Options, store: Store, fetch: Fetch) {
    this.task = task;
    this.#options = options;
    this.#store = store;
    this.#fetch = fetch;
    this.#prefix = `${task.id}/${encodeURIComponent(options.person ?? "")}/`;
    this.#drawing = { task, entropy: options.entropy ?? secure, observe: options.observe ?? (() => undefined) };
  }

  /** Read the task, check that its document has this id, and read the outbox. */
  static async open(options: Options): Promise<Session> {
    if (typeof options.tickets !== "function" || typeof options.analyzer !== "string" || typeof options.task !== "string") {
      throw new Refused("options", "open() needs analyzer (an address), task (its id) and tickets (a function).");

    }
    const store = options.store ?? (typeof indexedDB === "undefined" ? memoryStore() : indexedStore());
    const fetch: Fetch = options.fetch ?? ((address, init) => globalThis.fetch(address, init));
    const task = await taskOf(options, store, fetch);
    const session = new Session(task, options, store, fetch);
    for (const value of await session.#values()) {
      session.#note(value);
      if (value.state !== "over" && value.action === undefined) session.#orphans.add(value.id);
    }
    const publication = await session.#newest().catch(unlessUnreachable(undefined)); // what happened can still be reported
    if (publication) await session.#forget(publication);
    return session;
  }

  /** The status in the publication that was read last: running, exhausted or finished; "unknown" before the first. */
  get status(): string {
    return this.#publication?.status ?? "unknown";
  }

  /** The number of reports that are not acknowledged. `flush` sends them again. */
  get pending(): number {
    return this.#waiting.size;
  }

  /** Return the decisions that wait for a reward. */
  async decisions(): Promise<Decision[]> {
    const waits = ({ state, reward, action }: Entry): boolean => state !== "over" && reward === undefined && action !== undefined;
    return (await this.#values()).filter(waits).map((entry) => shown(entry));
  }

  /**
   * Open a slot with a zero report and choose an arm.
   *
   * Features are looked at only when the slot is open: a user who is missing from a batch must not reveal them. A decision
   * of a page that ended while it acted is finished first: this one takes its slot.
   */
  async act(contexts?: Contexts): Promise<Decision> {
    const { task } = this;
    const { entropy } = this.#drawing;
    checkGiven(task, contexts);
    let publication = await this.#newest();
    await this.#forget(publication);
    const all = await this.#values();
    const orphan = all.find(({ id, state, action }) => this.#orphans.delete(id) && state !== "over" && action === undefined);
    const entries = all.filter((each) => each !== orphan);
    const refused = entries.flatMap((entry) => (entry.slot ? [] : entry.refused ?? [])).slice(-MOST_PROOFS);
    const id = packed(crypto.getRandomValues(new Uint8Array(12)));
    let held: Held = orphan ? await this.#held(orphan.id) : { revision: 0, value: { id, state: "opening", refused, publication: publication.number, day: today() } };
    const reason = this.#excluded(publication, entries);
    if (reason) held = { ...held, value: { ...held.value, ...over(reason) } };
    else [held, publication] = await this.#begun(held, publication);
    const { ids, rows } = named(task, contexts);
    if (byPlace(task)) return shown(held.value);
    const seen = seenBy(task.device.choose, rows);
    const { action, features } = any(seen, entropy, () => chosen(task.device.choose, decoded(publication.snapshot) as Plain, seen, entropy));
    const choice = { arm: ids[action] as string | number, action, features };
    while (held.value.state !== "over" && held.value.action === undefined) held = await this.#swapped(held, choice);
    return shown({ publication: publication.number, ...choice, ...held.value });
  }

  /** Open a slot as far as possible; an error before anything was sent leaves nothing behind. */
  async #begun(held: Held, publication: Publication): Promise<[Held, Publication]> {
    const { id } = held.value;
    try {
      return await this.#advanced(await this.#swapped(held, {}), publication, true); // before it can be claimed
    } catch (error) {
      const found = await this.#held(id);
      if (found.value.state === "opening" && !found.value.sending) await this.#swapped(found, over("abandoned")); // nobody was told of it
      throw error;
    }
  }

  /** Report the reward of a decision. Its bytes are drawn once, and the first reward is kept. */
  async report(decision: Decision | string, reward: number): Promise<Outcome> {
    if (typeof decision !== "string" && !decision.takingPart) return { kept: false, pending: false, reason: decision.reason };
    const id = typeof decision === "string" ? decision : decision.id;
    let held = await this.#held(id);
    if (held.value.state === "over") return outcome({ ...held.value, reason: "over" });
    const given = Number.isFinite(reward) ? reward : NaN;
    while (held.value.state !== "over" && held.value.reward === undefined) held = await this.#swapped(held, { reward: given });
    const stands = held.value.reward ?? given;
    // Only `act` and `flush` open slots, so that reporting does not decide who takes part; here only the collector is asked.
    if (held.value.state !== "opening") [held] = await this.#advanced(held, await this.#seen());
    // A report was sent or waits in any case, so that sending reveals nothing about the reward.
    if (given !== given) throw new Refused("reward", "reward must be a finite number. A report of zeros was made.");
    if (stands !== given) throw new Refused("reward", "This decision already has another reward. The first reward is kept.");
    if (held.value.nothing) throw new Refused("nothing", "The report could not be computed. A report of zeros was made.");
    return outcome(held.value);
  }

  /** Repeat what was not acknowledged with the same bytes; return how many reports wait. Asks for one publication. */
  async flush(): Promise<number> {
    const errors: unknown[] = [];
    const publication = await this.#newest().catch(unlessUnreachable(undefined));
    if (!publication) return this.pending;
    await this.#forget(publication);
    for (const held of await this.#entries()) {
      await this.#advanced(held, publication).catch((error: unknown) => errors.push(error));
    }
    if (errors.length) throw errors[0];
    return this.pending;
  }

  /** Advance a decision as far as possible; with `waits` nobody knows the arm yet, so the next publication may be awaited. */
  async #advanced(held: Held, publication: Publication | undefined, waits = false): Promise<[Held, Publication]> {
    const pauses = this.#pauses();
    await pauses.next();
    for (;;) {
      const { state, sending, reward, batch, slot } = held.value;
      let next: Partial<Entry> | undefined;
      if (state === "over" || !publication) break;
      if (sending) next = await this.#sent(held.value);
      else if (state === "opening") {
        if (waits && publication.number > (held.value.publication as number)) {
          held = await this.#swapped(held, { publication: publication.number });
          continue;
        }
        const found = await this.#opened(held.value, publication, waits).catch(unlessUnreachable(undefined));
        if (found !== "wait") next = found;
        else if ((await pauses.next()).done) next = late(held.value, publication, this.task) ? over("full") : undefined;
        else {
          publication = await this.#newest(publication.number);
          continue;
        }
      } else if (reward !== undefined) {
        next = publication.epoch > (batch as Batch).epoch ? over("closed") : await this.#final(held.value, slot as Slot, batch as Batch, reward);
      }
      if (!next) break;
      held = await this.#swapped(held, next);
    }
    return [held, publication as Publication];
  }

  /** Draw the final report with coins of its own. */
  async #final({ features, action, key }: Entry, slot: Slot, batch: Batch, reward: number): Promise<Partial<Entry>> {
    const played = { features: features as Float64Array, action: action as number, reward };
    const { bytes, complete } = await drawn(this.#drawing, batch, slot, key, FINAL, played);
    return { state: "reporting", sending: bytes, nothing: !complete };
  }

  /** Get a ticket and draw a zero report for the first batch that may take it; nothing, or "wait", if there is none now. */
  async #opened(entry: Entry, publication: Publication, waits: boolean): Promise<Partial<Entry> | "wait" | undefined> {
    const { id, refused = [] } = entry;
    if (publication.status !== "running") return over(publication.status);
    const batch = publication.batches[placeOf(entry, publication)];
    const old = late(entry, publication, this.task);
    if (old && !waits) return over(publication.number === entry.publication ? "full" : "stale");
    if (old || !batch) return waits ? "wait" : undefined; // the next one is announced with the next release
    await checkBatch(this.task, batch);
    const key = await sealKey(this.task, publication);
    const reason = await this.#claimed(id, publication);
    if (reason) return over(reason);
    const ticket = await this.#options.tickets(batch.epoch, refused);
    if (!ticket || "refused" in ticket) return over(ticket?.refused ?? "ticket");
    if (ticket.epoch !== batch.epoch) return over("ticket");
    const { slot: place, collector, helper } = ticket;
    const keys = { collector: unpacked(collector, 16), helper: helper === undefined ? helper : unpacked(helper, 16) };
    const slot = { slot: unpacked(place, 16), epoch: batch.epoch, ...keys };
    return { batch, slot, key, sending: (await drawn(this.#drawing, batch, slot, key, ZERO)).bytes };
  }

  /** Send what waits, with pauses; return the change that follows from the answer, or nothing without an answer. */
  async #sent({ state, sending, slot, batch, refused = [] }: Entry): Promise<Partial<Entry> | undefined> {
    for await (const _ of this.#pauses()) {
      const { reason, refusal, place } = await uploaded(this.#fetch, this.task, sending as Bytes).catch(unlessUnreachable(EARLY));
      if (reason === EARLY.reason) continue;
      if (!reason) return state === "opening" ? { state: "open", sending: undefined, ...this.#placed(batch as Batch, place as number) } : over("");
      if (state !== "opening" || !refusal) return over(reason);
      const { epoch, slot: own } = slot as Slot;
      return { refused: [...refused, [epoch, packed(own), refusal]], slot: undefined, batch: undefined, sending: undefined };
    }
    return undefined;
  }

  /** Yield once for each attempt that patience allows. Pauses are added up; no clock is read. */
  async *#pauses(): AsyncGenerator<void> {
    const { patience = PATIENCE, pause } = this.#options;
    const wait = pause ?? ((seconds: number) => new Promise<void>((resolve) => setTimeout(resolve, 1000 * seconds)));
    for (let waited = 0, next = FIRST_PAUSE; ; waited += next, next = Math.min(2 * next, LONGEST_PAUSE)) {
      yield;
      if (waited >= patience) return;
      await wait(next);
    }
  }

  /** Write a change unless somebody else has written; return what is stored now. */
  async #swapped(held: Held, change: Partial<Entry>): Promise<Held> {
    const { id } = held.value;
    const value = { ...held.value, ...change };
    const { slot, refused } = value;
    const left = value.state === "over" ? { state: value.state, ...(slot ? { epoch: slot.epoch } : refused?.length ? { refused } : {}) } : value;
    const written = await this.#store.put(this.#prefix + id, left, held.revision);
    const now = written ? { revision: held.revision + 1, value } : await this.#held(id);
    this.#note(now.value);
    return now;
  }

  async #held(id: string): Promise<Held> {
    const held = await this.#store.get<Entry>(this.#prefix + id);
    if (!held) throw new Refused("decision", "Unknown decision. Report it on the device, and with the person and task, that made it.");
    return { ...held, value: { ...held.value, id } };
  }

  /** Forget decisions without a report whose batch is over, or that are too old. Only this reads a clock. */
  async #forget(publication: Publication): Promise<void> {
    for (const held of await this.#entries()) {
      const { state, reward, day, batch } = held.value;
      const open = state === "open" && reward === undefined;
      const old = Math.abs(today() - (day as number)) > DAYS;
      const passed = open && publication.epoch > (batch as Batch).epoch;
      if ((open || state === "opening") && (old || passed)) await this.#swapped(held, over("closed"));
    }
  }

  async #entries(): Promise<Held[]> {
    const keys = await this.#store.keys(this.#prefix);
    return Promise.all(keys.map((key) => this.#held(key.slice(this.#prefix.length))));
  }

  async #values(): Promise<Entry[]> {
    return (await this.#entries()).map(({ value }) => value);
  }

  #note({ id, state, reward }: Entry): void {
    if (state !== "over" && (state !== "open" || reward !== undefined)) this.#waiting.add(id);
    else this.#waiting.delete(id);
  }

  /**
   * Claim the next slot for a decision before asking for a ticket; return why that is not possible, or "".
   *
   * One decision of a person at a time has the claim, until it has a slot or is over. So two tabs never both take part
   * where one may, nor in one batch.
   */
  async #claimed(id: string, publication: Publication): Promise<string> {
    const key = `claim ${this.#prefix}`;
    for (;;) {
      const claim = await this.#store.get<string>(key);
      const others = (await this.#values()).filter((other) => other.id !== id && (epochOf(other) !== undefined || other.id === claim?.value));
      const reason = this.#excluded(publication, others);
      if (reason || claim?.value === id || (await this.#store.put(key, id, claim?.revision ?? 0))) return reason;
    }
  }

  /** Return why a user takes no part: the task is over, no participation is left, or the batch has the user already. */
  #excluded({ status, batches }: Publication, entries: Entry[]): string {
    if (status !== "running") return status;
    const used = entries.filter((entry) => epochOf(entry) !== undefined || entry.state !== "over").map(epochOf);
    const twice = used.some((own) => own === undefined || batches.some(({ epoch }) => epoch === own));
    return twice || used.length >= this.task.device.participations ? "participations" : "";
  }

  /** Return the arm of a place, if places assign arms. */
  #placed(batch: Batch, place: number): Partial<Entry> {
    if (!byPlace(this.task)) return {};
    const { ids, rows } = named(this.task);
    const action = armAt(batch, place);
    return { arm: ids[action] as string | number, action, features: rows[action] };
  }

  /**
   * Get the publication in force; without an answer, the newest that any tab has seen. It never goes back.
   *
   * All devices send the same request; `after` is the number that the same call was shown.
   */
  async #newest(after?: number): Promise<Publication> {
    const known = await this.#store.get<Newest>(this.#pin);
    const query = after === undefined ? "" : `?after=${after}`;
    try {
      return (this.#publication = await this.#pinned(await this.#get(`/snapshot${query}`), known));
    } catch (error) {
      if (!known || !(error instanceof Unreachable)) throw error;
      return (this.#publication = await readPublication(this.task, known.value));
    }
  }

  #get(path: string): ReturnType<typeof asked> {
    return asked(this.#fetch, "analyzer", at(this.#options.analyzer, this.task.id, path));
  }

  /** Return the newest publication that was seen. */
  async #seen(): Promise<Publication | undefined> {
    const known = await this.#store.get<Newest>(this.#pin);
    return known && readPublication(this.task, known.value);
  }

  async #pinned(shown: Shown, known: Kept<Newest> | undefined): Promise<Publication> {
    for (;;) {
      const publication = await readPublication(this.task, shown, known?.value);
      const { number, chain, key } = publication;
      const { content, signature, witness } = shown;
      if (known && number > known.value.number + 1) {
        await checkBetween(publication, known.value, async (block) => (await this.#get(`/links/${block}`)).content);
      }
      if (known?.value.number === number) return publication;
      if (await this.#store.put(this.#pin, { number, chain, key, content, signature, witness }, known?.revision ?? 0)) return publication;
      known = await this.#store.get<Newest>(this.#pin); // another tab has seen one
      if (known && known.value.number > number) return readPublication(this.task, known.value, publication);
    }
  }

  get #pin(): string {
    return `${this.task.id} pin`;
  }
}

async function taskOf({ analyzer, task }: Options, store: Store, fetch: Fetch): Promise<Task> {
  const kept = await store.get<Bytes>(`${task} task`);
  if (kept) return readTask(task, kept.value);
  const { content } = await asked(fetch, "analyzer", at(analyzer, task));
  const read = await readTask(task, content);
  await store.put(`${task} task`, content, 0);
  return read;
}

const over = (reason: string): Partial<Entry> => ({ state: "over", reason, sending: undefined });

/** The epoch of a slot that is used, or may be. */
const epochOf = ({ slot, epoch }: Entry): number | undefined => slot?.epoch ?? epoch;

/** Return the announced batch to try: the first that has not refused, or the one after all of them. */
function placeOf({ refused = [] }: Entry, { batches }: Publication): number {
  const last = Math.max(-1, ...refused.map(([epoch]) => epoch));
  const place = batches.findIndex(({ epoch }) => epoch > last);
  return place < 0 ? batches.length : place;
}

/** Tell whether a decision would be too old when that batch is learned from. */
const late = (entry: Entry, publication: Publication, { max_age }: Task): boolean =>
  publication.number - (entry.publication as number) + placeOf(entry, publication) > max_age;

/** Days since 1970. */
const today = (): number => Math.floor(Date.now() / 86_400_000);

/** Choose; any arm if the published numbers make that fail, since a failure may depend on the features. */
function any(seen: readonly Float64Array[], entropy: Entropy, choose: () => Choice): Choice {
  try {
    return choose();
  } catch {
    const action = anyOf(seen, entropy);
    return { action, features: seen[action] as Float64Array };
  }
}

function shown({ id, arm, action, publication, reason = "" }: Entry): Decision {
  if (action === undefined) throw new Refused("place", `No arm yet: the place in a batch assigns it (${reason || "unreachable"}). Act again later.`);
  return { id, arm: arm as string | number, action, publication: publication as number, takingPart: !reason, reason };
}

const outcome = ({ reason = "pending" }: Entry): Outcome => ({ kept: !reason, pending: reason === "pending", reason });
