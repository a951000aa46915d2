/** A light client of Bandanna: `Session.open(...)`, then `act` and `report`. */
export type { Drawn } from "./bodies.js";
export type { Contexts } from "./contexts.js";
export type { Entropy } from "./entropy.js";
export { Refused, Unreachable } from "./errors.js";
export type { Fetch } from "./http.js";
export { indexedStore, type Kept, memoryStore, type Store } from "./outbox.js";
export { type Decision, type Options, type Outcome, type Proof, Session, type Ticket } from "./session.js";
export { type Arms, type ClientTask, type Plan, type Task, VERSIONS } from "./task.js";
