/** One person's part in a task: act, report, and send again what was not acknowledged, always as the same bytes. */
import { drawn, type Drawing, type Drawn, type SealKey } from "./bodies.js";
import { type Bytes, packed, unpacked } from "./canonical.js";
import { chosen } from "./choose.js";
import { type Contexts, named } from "./contexts.js";
import type { Plain } from "./domains.js";
import { type Entropy, secure } from "./entropy.js";
import { Refused, unlessUnreachable } from "./errors.js";
import { asked, at, type Fetch, sealKey, uploaded, type Verdict } from "./http.js";
import { indexedStore, type Kept, memoryStore, type Store } from "./outbox.js";
import { armAt, type Batch, byPlace, type Pin, planOf, type Publication, readPublication } from "./publication.js";
import { FINAL, type Slot, ZERO } from "./record.js";
import { readTask, type Task } from "./task.js";
import { decoded } from "./values.js";

/** A batch that took no more slots: epoch, slot and the collector's word for it, as the registrar reads them. */
export type Proof = [epoch: number, slot: string, refusal: string];

/** A slot of a batch, and the registrar's word for it, in base64url. */
export interface Ticket {
  readonly slot: string;
  readonly mac: string;
  readonly epoch: number;
}

export interface Options {
  /** Where the task's analyzer is. */
  readonly analyzer: string;
  /** The task's id, which is the hash of its document. */
  readonly task: string;
  /** Asks the host's server, which alone may ask the registrar; what that says is passed on: a ticket, or why none. */
  readonly tickets: (epoch: number, refused: Proof[]) => Promise<Ticket | { readonly refused: string }>;
  /** Whose session it is, where several people use one device; a name that stays here. */
  readonly person?: string;
  /** Where decisions and reports are kept: the browser's IndexedDB, or memory where there is none. */
  readonly store?: Store;
  readonly entropy?: Entropy;
  readonly fetch?: Fetch;
  /** Seconds of pauses between attempts, before a report is left for `flush`. */
  readonly patience?: number;
  /** For tests: what was drawn, before it is split; and how to wait. */
  readonly observe?: (drawn: Drawn) => void;
  readonly pause?: (seconds: number) => Promise<void>;
}

/** An arm for this person; `id` is enough to report on it later, after a reload too. */
export interface Decision {
  readonly id: string;
  readonly arm: string | number;
  /** The arm's number. */
  readonly action: number;
  /** The number of the publication that was acted on. */
  readonly publication: number;
  /** Whether its reward will be asked for. */
  readonly takingPart: boolean;
  /** Why not: "finished", "exhausted", "participations", "stale", or the registrar's or collector's word; else "". */
  readonly reason: string;
}

/** What became of a report: kept, or pending (`flush` sends it), or neither and why: "closed", "stale", ... */
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
 * `sending` are the bytes of a request that is not acknowledged. Features, reward and bytes are deleted with the end;
 * `slot` stays where it was, or may have been, used: that is a participation.
 */
interface Entry extends Pick<Decision, "id" | "arm" | "action" | "publication"> {
  readonly state: "opening" | "open" | "reporting" | "over";
  readonly refused: Proof[];
  readonly features?: Float64Array | undefined;
  readonly reward?: number | undefined;
  readonly batch?: Batch | undefined;
  readonly slot?: Slot | undefined;
  readonly key?: SealKey | undefined; // that the zero report was sealed for: the final one asks nobody
  readonly sending?: Bytes | undefined;
  readonly reason?: string; // of the end; "" if the report is kept
}

type Held = Kept<Entry>;
type Chosen = Pick<Entry, "arm" | "action" | "publication" | "features">;

const FIRST_PAUSE = 0.05; // seconds
const LONGEST_PAUSE = 2;
const PATIENCE = 10;
const MOST_PROOFS = 64; // that a registrar reads
const EARLY: Verdict = { reason: "early" };

export class Session {
  readonly task: Task;
  readonly #options: Options;
  readonly #store: Store;
  readonly #fetch: Fetch;
  #publication: Publication | undefined;
  readonly #waiting = new Set<string>();
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

  /** Read the task, check that its document is the one that its id names, and look into the outbox. */
  static async open(options: Options): Promise<Session> {
    if (typeof options.tickets !== "function" || typeof options.analyzer !== "string") {
      throw new Refused("options", "open() takes analyzer, an address, and tickets, a function.");
    }
    const store = options.store ?? (typeof indexedDB === "undefined" ? memoryStore() : indexedStore());
    const fetch: Fetch = options.fetch ?? ((address, init) => globalThis.fetch(address, init));
    const task = await taskOf(options, store, fetch);
    const session = new Session(task, options, store, fetch);
    for (const value of await session.#values()) session.#note(value);
    await session.#newest().catch(unlessUnreachable(undefined)); // what happened can still be reported
    return session;
  }

  /** running, exhausted or finished, as of the publication that was read last; "unknown" before the first. */
  get status(): string {
    return this.#publication?.status ?? "unknown";
  }

  /** How many reports wait to be acknowledged: `flush` sends them again. */
  get pending(): number {
    return this.#waiting.size;
  }

  /** Decisions that wait for their reward. */
  async decisions(): Promise<Decision[]> {
    const waits = ({ state, reward, action }: Entry): boolean => state !== "over" && reward === undefined && action >= 0;
    return (await this.#values()).filter(waits).map(shown);
  }

  /** Choose an arm and open a slot with a zero report: whoever acts is counted, whether a reward comes or not. */
  async act(contexts?: Contexts): Promise<Decision> {
    const publication = await this.#newest();
    const again = (newer: Publication): Chosen => this.#chosen(newer, contexts);
    const id = packed(crypto.getRandomValues(new Uint8Array(12)));
    const entries = await this.#values();
    const refused = entries.flatMap(({ slot, refused }) => (slot ? [] : refused)).slice(-MOST_PROOFS);
    const entry: Entry = { id, state: "opening", refused, ...again(publication) };
    const reason = this.#excluded(publication, entries);
    if (reason) return shown({ ...entry, ...over(reason) });
    try {
      const held = await this.#swapped({ revision: 0, value: entry }, {}); // before it can be claimed
      return shown((await this.#advanced(held, again)).value);
    } catch (error) {
      const held = await this.#store.get<Entry>(this.#prefix + id);
      if (held) await this.#swapped(held, over("abandoned")); // nobody was told of it
      throw error;
    }
  }

  /** Report the reward of a decision; its bytes are drawn once, and the first reward stands. */
  async report(decision: Decision | string, reward: number): Promise<Outcome> {
    if (typeof decision !== "string" && !decision.takingPart) return { kept: false, pending: false, reason: decision.reason };
    const id = typeof decision === "string" ? decision : decision.id;
    if (!Number.isFinite(reward)) throw new Refused("reward", "A reward is a finite number.");
    let held = await this.#held(id);
    while (held.value.state !== "over" && held.value.reward === undefined) held = await this.#swapped(held, { reward });
    if (held.value.state !== "over" && held.value.reward !== reward) {
      throw new Refused("reward", "Another reward was reported: the first one stands.");
    }
    // `act` and `flush` open slots: who answers must not be who takes part.
    return outcome((held.value.state === "opening" ? held : await this.#advanced(held)).value);
  }

  /** Send again, as the same bytes, what was not acknowledged; how many reports still wait. */
  async flush(): Promise<number> {
    const errors: unknown[] = [];
    for (const held of await this.#entries()) await this.#advanced(held).catch((error: unknown) => errors.push(error));
    if (errors.length) throw errors[0];
    return this.pending;
  }

  /** As far as it goes now. With `again` nobody knows the arm yet, and a newer snapshot may choose another. */
  async #advanced(held: Held, again?: (newer: Publication) => Chosen): Promise<Held> {
    for (;;) {
      const next = await this.#next(held.value, again).catch(unlessUnreachable(undefined));
      if (!next) return held;
      held = await this.#swapped(held, next);
    }
  }

  /** What follows; nothing if that must wait for somebody else. */
  async #next(entry: Entry, again?: (newer: Publication) => Chosen): Promise<Partial<Entry> | undefined> {
    const { state, sending, reward, batch, slot, key, features, action } = entry;
    if (state === "over") return undefined;
    if (sending) return this.#sent(entry);
    if (state === "opening") return this.#opened(entry, again);
    if (reward === undefined) return (await this.#newest()).epoch > (batch as Batch).epoch ? over("closed") : undefined;
    // From here on nobody but the collector is asked: analyzer and helper would see who answers.
    const played = { features: features as Float64Array, action, reward };
    const bytes = await drawn(this.#drawing, batch as Batch, slot as Slot, key, FINAL, played); // coins of its own
    return { state: "reporting", sending: bytes };
  }

  /** A ticket and a zero report for the first batch that may still take it; nothing if there is none now. */
  async #opened({ id, publication: acted, refused }: Entry, again?: (newer: Publication) => Chosen): Promise<Partial<Entry> | undefined> {
    const last = Math.max(-1, ...refused.map(([epoch]) => epoch));
    for await (const _ of this.#pauses()) {
      const publication = await this.#newest();
      const place = publication.batches.findIndex(({ epoch }) => epoch > last);
      const batch = publication.batches[place];
      if (publication.status !== "running") return over(publication.status);
      if (!batch) continue; // the next one is announced with the next release
      const change = again && publication.number > acted ? again(publication) : { publication: acted };
      if (publication.number - change.publication + place > this.task.max_age) return over("stale");
      await planOf(this.task, batch);
      const reason = await this.#claimed(id, publication);
      if (reason) return over(reason);
      const ticket = await this.#options.tickets(batch.epoch, refused);
      if (!ticket || "refused" in ticket) return over(ticket?.refused ?? "ticket");
      const slot = slotOf(ticket, batch.epoch);
      const key = await sealKey(this.#fetch, this.task);
      return { ...change, batch, slot, key, sending: await drawn(this.#drawing, batch, slot, key, ZERO) };
    }
    return undefined;
  }

  /** Send what waits, with pauses; what follows from the answer, or nothing if there is none. */
  async #sent({ state, sending, slot, batch, refused }: Entry): Promise<Partial<Entry> | undefined> {
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

  /** Attempts, as many as patience allows; pauses are added up, and no clock is read. */
  async *#pauses(): AsyncGenerator<void> {
    const { patience = PATIENCE, pause } = this.#options;
    const wait = pause ?? ((seconds: number) => new Promise<void>((resolve) => setTimeout(resolve, 1000 * seconds)));
    for (let waited = 0, next = FIRST_PAUSE; ; waited += next, next = Math.min(2 * next, LONGEST_PAUSE)) {
      yield;
      if (waited >= patience) return;
      await wait(next);
    }
  }

  /** Write a change, if nobody else has written; what is there now. */
  async #swapped(held: Held, change: Partial<Entry>): Promise<Held> {
    const key = this.#prefix + held.value.id;
    const value = { ...held.value, ...change };
    const written = await this.#store.put(key, value, held.revision);
    const now = written ? { revision: held.revision + 1, value } : await this.#held(held.value.id);
    this.#note(now.value);
    return now;
  }

  async #held(id: string): Promise<Held> {
    const held = await this.#store.get<Entry>(this.#prefix + id);
    if (!held) throw new Refused("decision", `No decision ${id} here: was it another device, person or task?`);
    return held;
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
   * Claim the next slot for a decision, before a ticket is asked for; why it cannot be had, or "".
   *
   * One decision of a person at a time has the claim, until it has a slot or is over: so two tabs never both take part
   * where one may, nor in one batch.
   */
  async #claimed(id: string, publication: Publication): Promise<string> {
    const key = `claim ${this.#prefix}`;
    for (;;) {
      const claim = await this.#store.get<string>(key);
      const others = (await this.#values()).filter((other) => other.id !== id && (other.slot || other.id === claim?.value));
      const reason = this.#excluded(publication, others);
      if (reason || claim?.value === id || (await this.#store.put(key, id, claim?.revision ?? 0))) return reason;
    }
  }

  /** Why somebody takes no part: the task is over, or it was as often as the task allows, or the batch has them. */
  #excluded({ status, batches }: Publication, entries: Entry[]): string {
    if (status !== "running") return status;
    const used = entries.filter(({ state, slot }) => slot || state !== "over");
    const twice = used.some(({ slot }) => !slot || batches.some(({ epoch }) => epoch === slot.epoch));
    return twice || used.length >= this.task.device.participations ? "participations" : "";
  }

  #chosen(publication: Publication, contexts?: Contexts): Chosen {
    const { ids, rows } = named(this.task, contexts);
    if (byPlace(this.task)) return { arm: "", action: -1, features: undefined, publication: publication.number };
    const { action, features } = chosen(this.task.device.choose, decoded(publication.snapshot) as Plain, rows, this.#drawing.entropy);
    return { arm: ids[action] as string | number, action, features, publication: publication.number };
  }

  /** The arm that a place was given, where places say it. */
  #placed(batch: Batch, place: number): Partial<Entry> {
    if (!byPlace(this.task)) return {};
    const { ids, rows } = named(this.task);
    const action = armAt(batch, place);
    return { arm: ids[action] as string | number, action, features: rows[action] };
  }

  /** The publication in force: asked for every time, sent only if it is newer, and never a step back. */
  async #newest(): Promise<Publication> {
    const pin = await this.#store.get<Pin>(`${this.task.id} pin`); // of another tab it may be a newer one
    const known = pin?.value.number === this.#publication?.number ? this.#publication : undefined;
    const after = known ? `?after=${known.number}` : "";
    const asking = asked(this.#fetch, at(this.#options.analyzer, this.task.id, `/snapshot${after}`));
    const answer = await (known ? asking.catch(unlessUnreachable(undefined)) : asking);
    if (known && answer?.status !== 200) return known; // unchanged, or nobody answers
    const { content, signature } = answer as Awaited<typeof asking>;
    return (this.#publication = await this.#pinned(content, signature));
  }

  async #pinned(content: Bytes, signature: string): Promise<Publication> {
    const key = `${this.task.id} pin`;
    for (;;) {
      const pin = await this.#store.get<Pin>(key);
      const publication = await readPublication(this.task, content, signature, pin?.value);
      const { number, chain } = publication;
      if (pin?.value.number === number || (await this.#store.put(key, { number, chain }, pin?.revision ?? 0))) return publication;
    }
  }
}

async function taskOf({ analyzer, task }: Options, store: Store, fetch: Fetch): Promise<Task> {
  const kept = await store.get<Bytes>(`${task} task`);
  if (kept) return readTask(task, kept.value);
  const { content } = await asked(fetch, at(analyzer, task));
  const read = await readTask(task, content);
  await store.put(`${task} task`, content, 0);
  return read;
}

/** The end: what was private is deleted here, and so are bytes. */
const over = (reason: string): Partial<Entry> => ({
  state: "over",
  reason,
  features: undefined,
  reward: undefined,
  batch: undefined,
  sending: undefined,
});

function shown({ id, arm, action, publication, reason = "" }: Entry): Decision {
  if (action < 0) throw new Refused("place", `Places say the arm, and there is none yet (${reason || "unreachable"}): act again later.`);
  return { id, arm, action, publication, takingPart: !reason, reason };
}

const outcome = ({ reason = "pending" }: Entry): Outcome => ({ kept: !reason, pending: reason === "pending", reason });

function slotOf(ticket: Ticket, epoch: number): Slot {
  if (ticket?.epoch !== epoch) throw new Refused("ticket", `tickets(${epoch}, ...) must give {slot, mac, epoch} of batch ${epoch}.`);
  return { slot: unpacked(ticket.slot, 16), mac: unpacked(ticket.mac, 16), epoch };
}
