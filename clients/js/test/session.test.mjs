// Sessions against a deployment in memory: what is sent, when, and always as which bytes.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import { memoryStore, Refused, Session, VERSIONS } from "../dist/bandanna.mjs";
import { canonical, Fake, packed, parsed } from "./fake.mjs";

const ARMS = [[1, 0], [0, 1]];
const begun = async (options, more) => {
  const fake = await Fake.made(options);
  const store = memoryStore();
  return { fake, store, session: await Session.open(fake.options_({ store, ...more })) };
};
const refused = (reason) => (error) => error instanceof Refused && error.reason === reason && /^\S.*[.?]$/s.test(error.message);

test("a slot is opened with a zero report, and the final one follows with the reward", async () => {
  const { fake, session } = await begun();
  const decision = await session.act(ARMS);
  const { id } = decision;
  assert.deepEqual(decision, { id, arm: 0, action: 0, publication: 0, takingPart: true, reason: "" });
  const zero = parsed(fake.sent[0]);
  assert.deepEqual([fake.sent.length, zero.version, zero.epoch, zero.round, zero.length], [1, 0, 0, 0, 60]);
  assert.deepEqual(await session.decisions(), [decision]);
  assert.deepEqual(await session.report(decision, 1), { kept: true, pending: false, reason: "" });
  const final = parsed(fake.sent[1]);
  assert.deepEqual([fake.sent.length, final.version, final.slot], [2, 1, zero.slot]);
  assert.notDeepEqual(final.body, zero.body); // coins of its own (equal by chance: 40^-5 or so)
  assert.deepEqual([session.pending, await session.decisions(), session.status], [0, [], "running"]);
});

test("arms have names, stay, or have features of the user", async () => {
  const named = await begun();
  assert.equal((await named.session.act({ left: [0, 1], right: [0.5, 0] })).arm, "right");
  const users = await begun({ arms: { ids: ["a", "b"] }, device: { choose: { kind: "ThompsonChooser", domain: { kind: "LinearReport", features: 2, reward_bound: 1 } } } });
  assert.ok(["a", "b"].includes((await users.session.act([0.2, 0.3])).arm));
  const stay = await begun({ arms: { ids: ["a", "b"], features: [0, 1, 1, 0] } });
  assert.equal((await stay.session.act()).arm, "b");
  for (const [session, contexts] of [
    [named.session, undefined], [named.session, []], [users.session, [[1, 0]]], [users.session, undefined], [stay.session, [[1, 0]]],
  ]) {
    await assert.rejects(session.act(contexts), refused("contexts"));
  }
});

test("the same bytes are sent again until they are acknowledged", async () => {
  const { fake, session } = await begun();
  let lost = 0;
  fake.lose = () => lost++ < 3;
  const decision = await session.act(ARMS);
  assert.equal(new Set(fake.sent.map(packed)).size, 1);
  assert.equal(fake.sent.length, 4);
  lost = 0;
  assert.deepEqual(await session.report(decision, 0.5), { kept: true, pending: false, reason: "" });
  assert.equal(new Set(fake.sent.map(packed)).size, 2);
});

test("killed between sending and acknowledgement, a client sends the same bytes after it is started again", async () => {
  const { fake, store, session } = await begun();
  const decision = await session.act(ARMS);
  fake.lose = () => true;
  assert.deepEqual(await session.report(decision, 1), { kept: false, pending: true, reason: "pending" });
  assert.equal(session.pending, 1);
  const before = fake.sent.at(-1);
  fake.lose = () => false;
  const again = await Session.open(fake.options_({ store }));
  assert.equal(again.pending, 1);
  assert.equal(await again.flush(), 0);
  assert.deepEqual(fake.sent.at(-1), before);
  assert.deepEqual(await again.report(decision.id, 1), { kept: false, pending: false, reason: "over" });
  assert.equal(new Set(fake.sent.map(packed)).size, 2); // one zero report and one final one, ever
});

test("killed while its slot is opened, too; and bytes are stored before they are sent", async () => {
  const { fake, store, session } = await begun();
  let seen;
  fake.fail = async (address, body) => {
    if (!body) return undefined;
    const [key] = await store.keys(`${fake.task}/`);
    seen = (await store.get(key)).value.sending;
    return new Promise(() => undefined); // and then nothing, ever
  };
  void session.act(ARMS);
  while (!seen) await new Promise((resolve) => setTimeout(resolve, 1));
  assert.deepEqual(seen, fake.sent[0]);
  fake.fail = () => undefined;
  const again = await Session.open(fake.options_({ store }));
  assert.deepEqual(await again.decisions(), []); // no arm was chosen yet, and nobody was told of one
  assert.equal(await again.flush(), 0);
  assert.deepEqual(fake.sent.map((body) => parsed(body).version), [0, 0]);
  assert.deepEqual(fake.sent[0], fake.sent[1]);
});

test("without a connection decisions are made, rewards are kept, and all is sent later", async () => {
  const { fake, session } = await begun({}, { patience: 0 });
  fake.fail = (address, body) => (body ? Response.json({}, { status: 503 }) : undefined);
  const decision = await session.act(ARMS);
  assert.deepEqual(await session.report(decision, 1), { kept: false, pending: true, reason: "pending" });
  assert.deepEqual([...new Set(fake.sent.map((body) => parsed(body).version))], [0]); // no final one before the zero one
  await assert.rejects(session.report(decision, 0), refused("reward"));
  fake.fail = () => undefined;
  assert.equal(await session.flush(), 0);
  assert.deepEqual(await session.report(decision, 1), { kept: false, pending: false, reason: "over" });
});

test("a full batch's refusal is brought along for a ticket of the next one", async () => {
  const { fake, session } = await begun();
  await fake.fill(0);
  const decision = await session.act(ARMS);
  assert.equal(decision.arm, 0);
  const first = parsed(fake.sent[0]);
  assert.deepEqual(fake.asked, [[0, []], [1, [[0, first.slot, packed(new Uint8Array(16).fill(1))]]]]);
  assert.equal(parsed(fake.sent[1]).epoch, 1);
  assert.deepEqual(await session.report(decision, 1), { kept: true, pending: false, reason: "" });
});

test("where no announced batch has room, the next snapshot chooses again", async () => {
  const { fake, session } = await begun({}, { pause: async () => undefined });
  await fake.fill(0);
  await fake.fill(1);
  let waits = 0;
  fake.fail = async (address, body) => {
    if (!body && address.includes("after=0") && ++waits === 4) {
      fake.theta = [0, 1];
      await fake.publish({ epoch: 2 });
    }
  };
  assert.equal((await session.act(ARMS)).arm, 1);
  assert.deepEqual(fake.asked.map(([epoch]) => epoch), [0, 1, 2]);
});

test("an early report is sent again as it is", async () => {
  const { fake, session } = await begun();
  fake.options.slots = 1;
  fake.slots.set(0, new Map());
  fake.closed.add(0); // so that the batch after it is asked for, and is early
  let tries = 0;
  const taken = fake.taken.bind(fake);
  fake.taken = (body) => {
    if (parsed(body).epoch === 1 && ++tries === 3) fake.fill(0, 1);
    return taken(body);
  };
  await session.act(ARMS);
  const later = fake.sent.filter((body) => parsed(body).epoch === 1);
  assert.equal(later.length, 3);
  assert.equal(new Set(later.map(packed)).size, 1);
});

test("a report for a batch that has closed is not kept, and that is no error", async () => {
  const { fake, session } = await begun();
  const decision = await session.act(ARMS);
  fake.closed.add(0);
  assert.deepEqual(await session.report(decision, 1), { kept: false, pending: false, reason: "closed" });
  assert.deepEqual(await session.report(decision, 1), { kept: false, pending: false, reason: "over" });
  assert.equal(session.pending, 0);
});

test("a batch that is over is not reported into, and what was kept for it is deleted", async () => {
  const { fake, store, session } = await begun();
  const decision = await session.act(ARMS);
  const other = await Session.open(fake.options_({ store, person: "somebody else" }));
  await other.act(ARMS);
  await fake.publish();
  assert.deepEqual(await session.report(decision, 1), { kept: false, pending: false, reason: "closed" });
  assert.equal(await other.flush(), 0); // who never answered
  assert.deepEqual(await other.decisions(), []);
  assert.deepEqual(fake.sent.map((body) => parsed(body).version), [0, 0, 1]); // the collector said so, of the final one
  for (const key of await store.keys(`${fake.task}/`)) assert.equal((await store.get(key)).value.features, undefined);
});

test("a decision that comes too late for its snapshot is stale", async () => {
  const { fake, session } = await begun({}, { patience: 0 });
  fake.fail = (address, body) => (body ? Response.json({}, { status: 503 }) : undefined);
  const decision = await session.act(ARMS);
  fake.fail = () => undefined;
  for (let k = 0; k < 3; k++) await fake.publish();
  assert.equal((await session.report(decision, 1)).pending, true);
  assert.equal(await session.flush(), 0);
  assert.deepEqual(await session.report(decision, 1), { kept: false, pending: false, reason: "over" });
});

test("who answers does not decide who takes part: a reward opens no slot, and asks nobody", async () => {
  const seen = [];
  for (const answers of [true, false]) {
    const { fake, session } = await begun({}, { patience: 0 });
    fake.fail = (address, body) => (body ? Response.json({}, { status: 503 }) : undefined);
    const decision = await session.act(ARMS);
    const asked = [];
    fake.fail = (address) => void asked.push(new URL(address).host);
    if (answers) assert.deepEqual(await session.report(decision, 1), { kept: false, pending: true, reason: "pending" });
    assert.deepEqual(asked, []);
    assert.equal(await session.flush(), 0);
    assert.equal(fake.asked.length, 1);
    seen.push(asked.filter((host) => host !== "analyzer.test"));
  }
  assert.deepEqual(seen, [["shuffler.test", "shuffler.test"], ["shuffler.test"]]);
});

test("no tab acts on an older snapshot than another one has seen", async () => {
  const { fake, store, session } = await begun({ participations: 3 });
  await fake.publish();
  const other = await Session.open(fake.options_({ store }));
  const [first] = fake.published;
  fake.fail = (address) => (address.includes("/snapshot") ? new Response(null, { status: 204 }) : undefined);
  assert.equal((await session.act(ARMS)).publication, 1); // nothing was published since: as if nobody answered
  fake.fail = (address) => (address.includes("/snapshot") ? new Response(first.bytes, { headers: { signature: first.signature, witness: first.witness } }) : undefined);
  await assert.rejects(session.act(ARMS), refused("rollback"));
  fake.fail = (address) => (address.includes("/snapshot") ? Response.json({}, { status: 503 }) : undefined);
  assert.equal((await session.act(ARMS)).publication, 1); // the newest that was seen, in any tab
  assert.equal((await other.act(ARMS)).publication, 1);
  fake.fail = () => undefined;
  assert.equal((await session.act(ARMS)).publication, 1);
});

test("what was private is deleted when a report is over", async () => {
  const { fake, store, session } = await begun();
  const decision = await session.act(ARMS);
  const [key] = await store.keys(`${fake.task}/`);
  assert.deepEqual((await store.get(key)).value.features, Float64Array.of(1, 0));
  await session.report(decision, 1);
  const { value } = await store.get(key);
  for (const name of ["features", "reward", "sending", "batch"]) assert.equal(value[name], undefined);
});

test("a report's tag is of all the rest and of the plan that it was made for, by the ticket's key, which stays", async () => {
  const { fake, session } = await begun();
  await session.report(await session.act(ARMS), 1);
  const [batch] = JSON.parse(new TextDecoder().decode(fake.published[0].bytes)).batches;
  const plan = new Uint8Array(await crypto.subtle.digest("SHA-256", canonical(batch)));
  const own = new Uint8Array(16).fill(7);
  const label = Buffer.from("bandanna/3 tag".padEnd(32, "\0"));
  for (const body of fake.sent) {
    const tag = createHmac("sha256", own).update(label).update(body.slice(4, 20)).update(body.slice(36)).update(plan);
    assert.deepEqual(Buffer.from(body.slice(20, 36)), tag.digest().subarray(0, 16));
    assert.equal(Buffer.from(body).indexOf(own), -1);
  }
});

test("with two mixers a ticket without the helper's key is refused, and nothing is sent", async () => {
  const { fake, session } = await begun({ mixers: 2 });
  const tickets = fake.ticket.bind(fake);
  fake.ticket = async (...asked) => ({ ...(await tickets(...asked)), helper: undefined });
  await assert.rejects(session.act(ARMS), refused("ticket"));
  assert.equal(fake.sent.length, 0);
});

test("nobody takes part more often than the task allows", async () => {
  const { fake, store, session } = await begun();
  await session.act(ARMS);
  for (const each of [session, await Session.open(fake.options_({ store }))]) {
    const { arm, takingPart, reason } = await each.act(ARMS); // whoever takes no part is still given an arm
    assert.deepEqual([arm, takingPart, reason], [0, false, "participations"]);
  }
  const out = await session.act(ARMS);
  assert.deepEqual(await session.report(out, 1), { kept: false, pending: false, reason: "participations" });
  const other = await Session.open(fake.options_({ store, person: "somebody else" }));
  await other.act(ARMS);
  assert.equal(fake.asked.length, 2);
});

test("nor twice in one batch", async () => {
  const { fake, session } = await begun({ participations: 2 });
  const takesPart = async () => (await session.act(ARMS)).takingPart;
  await session.report(await session.act(ARMS), 1);
  assert.equal(await takesPart(), false);
  await fake.publish();
  assert.equal(await takesPart(), true);
  await fake.publish();
  await fake.publish();
  assert.equal(await takesPart(), false);
});

test("a ticket that cannot be had leaves nothing behind but the proof that a slot was not used", async () => {
  const { fake, session } = await begun();
  await fake.fill(0);
  const tickets = fake.ticket.bind(fake);
  fake.ticket = async (epoch, proofs) => {
    if (epoch) throw new Error("the host is away");
    return tickets(epoch, proofs);
  };
  await assert.rejects(session.act(ARMS), /the host is away/);
  assert.deepEqual([session.pending, await session.decisions()], [0, []]);
  fake.ticket = tickets;
  await session.act(ARMS);
  assert.deepEqual(fake.asked.at(-1)[1].map(([epoch]) => epoch), [0]);
});

test("whom the registrar gives no ticket is given an arm, and takes no part", async () => {
  const { fake, session } = await begun();
  for (const [given, said] of [[{ refused: "participations" }, "participations"], [null, "ticket"], [undefined, "ticket"]]) {
    fake.ticket = async () => given;
    const { arm, takingPart, reason } = await session.act(ARMS);
    assert.deepEqual([arm, takingPart, reason], [0, false, said]);
  }
  assert.deepEqual([fake.sent.length, session.pending], [0, 0]);
});

test("two tabs that report one decision send one report", async () => {
  const { fake, store, session } = await begun();
  const decision = await session.act(ARMS);
  const tabs = await Promise.all([1, 2, 3].map(() => Session.open(fake.options_({ store }))));
  await Promise.all(tabs.map((tab) => tab.report(decision.id, 1)));
  const finals = fake.sent.filter((body) => parsed(body).version === 1);
  assert.equal(new Set(finals.map(packed)).size, 1);
});

test("a task of another version, or without a section, is refused; so is a document with another hash", async () => {
  for (const [options, reason] of [[{ version: 0 }, "version"], [{ version: 2 }, "version"], [{ device: { version: 0 } }, "version"], [{ device: { version: 2 } }, "version"], [{ device: null }, "device"]]) {
    const fake = await Fake.made(options);
    await assert.rejects(Session.open(fake.options_()), refused(reason));
  }
  assert.deepEqual(VERSIONS, { task: 1, device: 1 });
  const fake = await Fake.made();
  fake.document = fake.document.map((byte, k) => (k === 60 ? byte ^ 1 : byte));
  await assert.rejects(Session.open(fake.options_()), refused("task"));
});

test("publications that the task's registrar has not cosigned are refused", async () => {
  const { fake, store, session } = await begun();
  const good = await fake.publish();
  const stranger = await Fake.made();
  const witnesses = {
    none: "",
    "no signature": "no signature",
    "the analyzer's signature": good.signature,
    "another's": await fake.signed("cosignature", fake.analyzer, canonical({ chain: good.chain, number: good.number })),
    "of another number": await fake.cosigned(good.chain, good.number + 1),
    "of another publication": await fake.cosigned(fake.published[0].chain, good.number),
    "of the one before": fake.published[0].witness,
    "of another kind": await fake.signed("publication", fake.registrar, canonical({ chain: good.chain, number: good.number })),
    "of another task": await stranger.signed("cosignature", fake.registrar, canonical({ chain: good.chain, number: good.number })),
  };
  const own = good.witness;
  for (const [name, witness] of Object.entries(witnesses)) {
    good.witness = witness;
    for (const given of [{ store }, { store: memoryStore() }]) {
      await assert.rejects(Session.open(fake.options_(given)).then((each) => each.act(ARMS)), refused("signature"), name);
    }
    await assert.rejects(session.act(ARMS), refused("signature"), name);
  }
  assert.equal(fake.sent.length, 0);
  good.witness = own;
  assert.equal((await session.act(ARMS)).publication, good.number);
});

test("publications that are not signed, of another task, older, or of another history are refused", async () => {
  const { fake, store, session } = await begun();
  const good = await fake.publish();
  const other = await Session.open(fake.options_({ store, person: "a witness" }));
  const is = async (reason, change) => {
    const made = await fake.publish({ number: good.number + 1, previous: good.chain, ...change });
    if (change.signature) made.signature = change.signature(made.signature);
    for (const each of [session, other]) await assert.rejects(each.act(ARMS), refused(reason));
    await assert.rejects(Session.open(fake.options_({ store })), refused(reason));
    fake.published.pop();
  };
  await is("signature", { signature: (text) => (text[0] === "A" ? "B" : "A") + text.slice(1) });
  await is("signature", { signature: () => "no signature" });
  await is("publication", { task: "another" });
  await is("publication", { number: 2.5 });
  await is("rollback", { previous: packed(new Uint8Array(32)) });
  fake.options.maxAge = 1;
  const twin = await fake.publish({ number: good.number, status: "finished" });
  const fresh = () => Session.open(fake.options_({ store }));
  await assert.rejects(fresh(), refused("rollback")); // two publications of one number
  fake.published[fake.published.indexOf(twin)] = fake.published[0];
  await assert.rejects(fresh(), refused("rollback")); // an older one
  assert.equal(fake.sent.length, 0);
});

test("a batch with other noise, or fewer people, gets no report, not even a ticket is asked for", async () => {
  const { fake, session } = await begun();
  const rounds = structuredClone(fake.rounds);
  rounds[0].parts[0].mixer = "{another}";
  const batch = { epoch: 1, episode: 1, slots: 3, rounds, arms: [], plays: [], in_turn: false, clients: false };
  await fake.publish({ batches: [batch] });
  await assert.rejects(session.act(ARMS), refused("plan"));
  await fake.publish({ batches: [{ ...batch, rounds: fake.rounds, slots: 2 }] });
  await assert.rejects(session.act(ARMS), refused("plan"));
  assert.deepEqual([fake.sent.length, fake.asked.length, session.pending], [0, 0, 0]);
  await fake.publish({ batches: [{ ...batch, rounds: fake.rounds, arms: [0, 1] }] });
  await assert.rejects(session.act(ARMS), refused("plan"));
  assert.deepEqual([fake.sent.length, fake.asked.length, session.pending], [0, 0, 0]);
  await fake.publish({ batches: [{ ...batch, epoch: 4, rounds: fake.rounds, slots: 4 }] });
  await session.act(ARMS);
});

test("a task that is over gives arms and takes no reports", async () => {
  const { fake, session } = await begun();
  await fake.publish({ status: "finished", batches: [] });
  const { arm, takingPart, reason } = await session.act(ARMS);
  assert.deepEqual([arm, takingPart, reason, session.status], [0, false, "finished", "finished"]);
});

test("tickets of another batch, or that are none, are refused", async () => {
  const { fake, session } = await begun();
  fake.ticket = async () => ({ slot: packed(new Uint8Array(16)), collector: packed(new Uint8Array(16)), epoch: 9 });
  assert.deepEqual(await session.act(ARMS).then(({ takingPart, reason }) => [takingPart, reason]), [false, "ticket"]);
  fake.ticket = async (epoch) => ({ slot: "short", collector: packed(new Uint8Array(16)), epoch });
  await assert.rejects(session.act(ARMS), refused("document"));
  assert.equal(fake.sent.length, 0);
});

test("decisions of others are refused", async () => {
  const { session } = await begun();
  await session.act(ARMS);
  await assert.rejects(session.report("nobody's", 1), refused("decision"));
});

test("a reward that is no number is an error, and what is sent does not tell", async () => {
  const sent = [];
  for (const reward of [1, NaN, Infinity, "1", undefined, null]) {
    const { fake, session } = await begun();
    const decision = await session.act(ARMS);
    const asked = [];
    fake.fail = (address, body) => void asked.push([address.split(fake.task)[1], body?.length]);
    if (reward === 1) assert.equal((await session.report(decision, reward)).kept, true);
    else await assert.rejects(session.report(decision, reward), refused("reward"));
    assert.equal(session.pending, 0);
    sent.push(asked);
  }
  for (const asked of sent) assert.deepEqual(asked, [["/reports", 64]]);
});

test("features that are none are an error when the slot is open, and what is sent does not tell", async () => {
  const asked = async (contexts) => {
    const { fake, session } = await begun();
    const seen = [];
    fake.fail = (address, body) => void seen.push([address.split(fake.task)[1], body?.length]);
    const refusal = await session.act(contexts).then(() => "", (error) => error.reason);
    return [seen, refusal];
  };
  const [fine] = await asked(ARMS);
  assert.deepEqual(fine, [["/snapshot", undefined], ["/reports", 64]]);
  for (const contexts of [[], {}, [[1, 0], [1]], [[NaN, 0]], [["1", 0]], [1, 0], [[1e300, 0]], 5]) {
    assert.deepEqual(await asked(contexts), [fine, "contexts"]);
  }
  assert.deepEqual(await asked(undefined), [[], "contexts"]); // a call that is wrong for everybody
});

test("whatever waits, a page that is opened and a flush ask for one publication", async () => {
  for (const waits of ["nothing", "an answer", "a report"]) {
    const { fake, store, session } = await begun({}, { patience: 0 });
    const decision = waits === "nothing" ? undefined : await session.act(ARMS);
    if (waits === "a report") {
      fake.lose = () => true;
      await session.report(decision, 1);
      fake.lose = () => false;
    }
    const asked = [];
    fake.fail = (address, body) => void (body || asked.push(address.split(fake.task)[1]));
    await session.flush();
    assert.deepEqual(asked, ["/snapshot"]);
    await Session.open(fake.options_({ store }));
    assert.deepEqual(asked, ["/snapshot", "/snapshot"]);
  }
});

test("a history that forks after the pinned publication is refused, however many were missed", async () => {
  for (const missed of [1, 2, 3, 300]) {
    const { fake, store } = await begun();
    const [first] = fake.published;
    fake.published[0] = await (async () => {
      const twin = { ...first };
      fake.published.pop();
      return fake.publish({ number: 0, state: "another history" }).then((made) => (fake.published.pop(), { ...made, twin }));
    })();
    for (let k = 0; k < missed; k++) await fake.publish({ epoch: 0 });
    await assert.rejects(Session.open(fake.options_({ store })), refused("rollback"));
    fake.published.splice(0, Infinity, first);
    for (let k = 0; k < missed; k++) await fake.publish({ epoch: 0 });
    assert.equal((await Session.open(fake.options_({ store }))).status, "running");
  }
});

test("what nobody reports on is forgotten when its batch is over, or after 30 days; of the rest the epoch is left", async (t) => {
  const now = Date.now;
  t.after(() => (Date.now = now));
  const { fake, store, session } = await begun();
  await session.act(ARMS);
  const [key] = await store.keys(`${fake.task}/`);
  await fake.publish();
  await Session.open(fake.options_({ store }));
  assert.deepEqual((await store.get(key)).value, { state: "over", epoch: 0 });
  const other = await begun();
  await other.session.act(ARMS);
  const [older] = await other.store.keys(`${other.fake.task}/`);
  await Session.open(other.fake.options_({ store: other.store }));
  assert.equal((await other.store.get(older)).value.state, "open");
  Date.now = () => now() + 31 * 86_400_000;
  await Session.open(other.fake.options_({ store: other.store }));
  assert.deepEqual((await other.store.get(older)).value, { state: "over", epoch: 0 });
});

test("errors name roles, and no address", async () => {
  const { fake, session } = await begun({ mixers: 2 }, { store: memoryStore() });
  fake.fail = () => {
    throw new TypeError("http://analyzer.test refused");
  };
  const fresh = await Session.open(fake.options_({ store: memoryStore() })).catch((error) => error);
  assert.equal(fresh.reason, "unreachable");
  assert.match(fresh.message, /analyzer/);
  assert.doesNotMatch(fresh.message, /:\/\/|\.test/);
  assert.equal(session.pending, 0);
});

test("two mixers: shares; seeds are sealed for the task's key or the published one, and the helper is asked for nothing", async () => {
  for (const [rotated, key] of [[false, 0], [true, 5]]) {
    const [drawn, asked] = [[], []];
    const { fake, session } = await begun({ mixers: 2, rotated }, { observe: (each) => drawn.push(each) });
    fake.fail = (address) => void asked.push(new URL(address).host);
    const decision = await session.act(ARMS);
    await session.report(decision, 1);
    await session.flush();
    assert.deepEqual(fake.sent.map((body) => [parsed(body).version, parsed(body).key, body.length]), [[0, key, 164], [1, key, 164]]);
    assert.deepEqual(drawn.map(({ version, message }) => [version, message.length]), [[0, 5], [1, 5]]);
    assert.deepEqual([...new Set(asked)].sort(), ["analyzer.test", "shuffler.test"]);
  }
  const other = await Fake.made({ mixers: 2, rotated: true });
  other.helper = other.analyzer;
  await other.publish({ epoch: 0 });
  await assert.rejects(Session.open(other.options_()), refused("signature"));
});

test("two mixers: a device that has seen a key of the helper goes back to no older one", async () => {
  const { fake, store } = await begun({ mixers: 2 });
  await fake.publish({ epoch: 0, helper: await fake.sealKey(6) });
  const person = async (name) => Session.open(fake.options_({ store, person: name }));
  await (await person("p")).act(ARMS);
  for (const helper of [await fake.sealKey(5), null]) {
    await fake.publish({ epoch: 0, helper });
    await assert.rejects(person("q"), refused("rollback"));
    fake.published.pop();
  }
  await (await person("q")).act(ARMS);
  assert.deepEqual(fake.sent.map((body) => parsed(body).key), [6, 6]);
});

test("where places say which arm is played, they do", async () => {
  const options = { assigned: [1, 0], slots: 4, arms: { ids: ["a", "b"], features: [0.1, 0.2, 0.3, 0.4] } };
  const { fake, store, session } = await begun(options);
  const played = [];
  for (const person of ["p", "q", "r"]) played.push(await (await Session.open(fake.options_({ store, person }))).act());
  assert.deepEqual(played.map(({ arm, action }) => [arm, action]), [["b", 1], ["a", 0], ["b", 1]]);
  const second = await Session.open(fake.options_({ store, person: "q" }));
  assert.deepEqual(await second.report(played[1], 1), { kept: true, pending: false, reason: "" });
  fake.lose = () => true;
  await assert.rejects(session.act(), refused("place")); // no place is known, so no arm
  fake.lose = () => false;
  assert.deepEqual([await session.flush(), (await session.decisions()).map(({ arm }) => arm)], [0, ["a"]]); // known by now
  await assert.rejects(session.act(), refused("place")); // and it is in the batch
});

test("killed before it knew its place, a client finds its arm again", async () => {
  const { fake, store, session } = await begun({ assigned: [1, 0], slots: 4, arms: { ids: ["a", "b"], features: [0, 0, 0, 0] } });
  fake.lose = () => true;
  fake.fail = (address, body) => (body && fake.sent.length > 1 ? new Promise(() => undefined) : undefined);
  void session.act();
  while (fake.sent.length < 2) await new Promise((resolve) => setTimeout(resolve, 1));
  [fake.lose, fake.fail] = [() => false, () => undefined];
  const again = await Session.open(fake.options_({ store }));
  assert.deepEqual(await again.decisions(), []);
  await again.flush();
  assert.deepEqual((await again.decisions()).map(({ arm }) => arm), ["b"]);
});

test("central: a row of zeros, then the row itself", async () => {
  const { fake, session } = await begun({ mixers: 0 });
  await session.report(await session.act(ARMS), 0.25);
  const rows = fake.sent.map((body) => [...new Float64Array(parsed(body).body.buffer)]);
  assert.deepEqual(rows, [[0, 0, 0, 0, 0, 0], [1, 0, 0.25, 0, 0, 1]]);
});

test("no clock is read but for the day: hours more or less change nothing", async (t) => {
  class Broken {
    constructor() {
      throw new Error("a clock was read");
    }
    static now() {
      return (hours += 5) * 3_600_000;
    }
  }
  let hours = 0;
  const own = [globalThis.Date, performance.now];
  t.after(() => ([globalThis.Date, performance.now] = own));
  const { fake, session } = await begun({ mixers: 2 });
  [globalThis.Date, performance.now] = [Broken, () => new Broken()];
  const decision = await session.act(ARMS);
  assert.deepEqual(await session.report(decision, 1), { kept: true, pending: false, reason: "" });
  assert.equal(fake.sent.length, 2);
});

/** Tickets as a registrar gives them to one person: the same one for the same batch, for so many batches. */
function registrar(fake, participations) {
  const given = new Map();
  return async (epoch) => {
    if (!given.has(epoch)) {
      if (given.size >= participations) return { refused: "participations" };
      given.set(epoch, fake.ticket(epoch, []));
    }
    return given.get(epoch);
  };
}

/** How many different final reports were sent, and into how many slots. */
function finals(fake) {
  const sent = fake.sent.map(parsed).filter(({ version }) => version === 1);
  return { different: new Set(sent.map(({ bytes }) => bytes)).size, slots: new Set(sent.map(({ slot }) => slot)).size };
}

for (const participations of [1, 2]) {
  test(`tabs that act at once take part once in a batch, where ${participations} may be in all`, async () => {
    for (let delay = 0; delay < 12; delay++) {
      const fake = await Fake.made({ participations });
      const [store, tickets] = [memoryStore(), registrar(fake, participations)];
      const slow = { ...store, put: async (...all) => (await new Promise((resolve) => setTimeout(resolve, (delay * all[0].length) % 3)), store.put(...all)) };
      const tabs = await Promise.all([store, slow, store].map((each) => Session.open(fake.options_({ store: each, tickets }))));
      const decisions = await Promise.all(tabs.map(async (tab, k) => {
        for (let turn = 0; turn < delay * k; turn++) await undefined;
        return tab.act(ARMS);
      }));
      assert.deepEqual(decisions.map(({ reason }) => reason).sort(), ["", "participations", "participations"]);
      await Promise.all(tabs.map((tab, k) => tab.report(decisions[k].id, k).catch(() => undefined)));
      assert.deepEqual(finals(fake), { different: 1, slots: 1 });
      await fake.publish();
      const later = await Promise.all(tabs.map((tab) => tab.act(ARMS)));
      assert.equal(later.filter(({ takingPart }) => takingPart).length, participations - 1);
    }
  });
}

test("a claim is given back by a decision that ends without a slot, and kept by one that waits", async () => {
  const { fake, store, session } = await begun();
  fake.ticket = async () => ({ refused: "tomorrow" });
  assert.equal((await session.act(ARMS)).reason, "tomorrow");
  fake.ticket = async () => {
    throw new Error("the host is away");
  };
  await assert.rejects(session.act(ARMS), /the host is away/);
  let asked = 0;
  fake.ticket = async () => {
    asked++;
    return new Promise(() => undefined); // killed while it waits for a ticket
  };
  void session.act(ARMS);
  while (!asked) await new Promise((resolve) => setTimeout(resolve, 1));
  delete fake.ticket;
  const again = await Session.open(fake.options_({ store }));
  const decision = await again.act(ARMS); // what the page that was killed has begun
  assert.ok(decision.takingPart);
  assert.equal((await again.act(ARMS)).reason, "participations");
  assert.equal(await again.flush(), 0);
  assert.deepEqual((await again.decisions()).map(({ id }) => id), [decision.id]);
  assert.deepEqual(fake.sent.map((body) => parsed(body).version), [0]);
});

test("whoever reports asks nobody but the collector, after a reload too", async () => {
  for (const mixers of [1, 2]) {
    const { fake, store, session } = await begun({ mixers });
    const decision = await session.act(ARMS);
    const again = await Session.open(fake.options_({ store }));
    const asked = [];
    fake.fail = (address) => void asked.push(new URL(address).host);
    assert.equal((await again.report(decision.id, 1)).kept, true);
    assert.deepEqual(asked, ["shuffler.test"]);
    assert.deepEqual(fake.sent.map((body) => parsed(body).key), [0, 0]);
  }
});

test("announced batches have whole numbers that reports can write", async () => {
  const { fake, session } = await begun();
  const batch = { epoch: 1, episode: 1, slots: 3, rounds: fake.rounds, arms: [], plays: [], in_turn: false, clients: false };
  for (const change of [{ epoch: 5.5 }, { epoch: -1 }, { epoch: 2 ** 32 }, { epoch: 2 ** 32 + 5 }, { epoch: "1" }, { epoch: null }, { slots: 3.5 }, { slots: -3 }, { slots: "3" }]) {
    await fake.publish({ batches: [{ ...batch, ...change }] });
    await assert.rejects(session.act(ARMS), refused("publication"));
    fake.published.pop();
  }
  await fake.publish({ batches: {} });
  await assert.rejects(session.act(ARMS), refused("publication"));
  fake.published.pop();
  assert.deepEqual([fake.sent.length, fake.asked.length], [0, 0]);
  await fake.publish({ batches: [{ ...batch, epoch: 2 ** 32 - 1 }] });
  fake.taken = () => Response.json({ places: [0] }, { status: 201 });
  await session.act(ARMS);
  assert.equal(parsed(fake.sent[0]).epoch, 2 ** 32 - 1);
});

test("zero reports have noise: more than the offset, and not all alike", async () => {
  const { fake, store } = await begun();
  for (const person of ["p", "q", "r"]) await (await Session.open(fake.options_({ store, person }))).act(ARMS);
  const bodies = fake.sent.map((body) => new Uint32Array(parsed(body).body.buffer));
  assert.equal(bodies.length, 3);
  for (const body of bodies) assert.ok(body[2] > 0 && body[3] > 0); // squares, whose offset is 0: by chance 6 / 2^40
  assert.ok(new Set(bodies.map(String)).size > 1); // 5 sums of 40 coins, each alike with probability 0.09: by chance below 1e-9
});

test("every share has a mask of its own, and none is bare", async () => {
  const drawn = [];
  const { fake, store } = await begun({ mixers: 2 });
  for (const person of ["p", "q"]) {
    const session = await Session.open(fake.options_({ store, person, observe: (each) => drawn.push(each) }));
    await session.report(await session.act(ARMS), 1);
  }
  const masks = fake.sent.map((body, k) => {
    const share = new BigInt64Array(parsed(body).body.slice(0, 40).buffer);
    return String(share.map((each, place) => drawn[k].message[place] - each));
  });
  assert.equal(new Set([...masks, "0,0,0,0,0"]).size, 5);
  assert.equal(new Set(fake.sent.map((body) => packed(parsed(body).body.slice(40)))).size, 4);
});

test("a session without a function for tickets, or an address, is refused with a sentence", async () => {
  const fake = await Fake.made();
  for (const change of [{ tickets: undefined }, { tickets: "https://host.test/tickets" }, { analyzer: undefined }]) {
    await assert.rejects(Session.open(fake.options_(change)), refused("options"));
  }
});
