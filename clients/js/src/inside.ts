/** The parts of the client, for tests: `dist/inside.mjs`. */
export * from "./binomial.js";
export * from "./bodies.js";
export * from "./canonical.js";
export * from "./choose.js";
export * from "./contexts.js";
export * from "./devices.js";
export * from "./domains.js";
export * from "./entropy.js";
export * from "./hpke.js";
export * from "./index.js";
export * from "./publication.js";
export * from "./report.js";
export * from "./shares.js";
export * from "./task.js";
export * from "./statistics.js";
export * from "./values.js";
