// Many people, each with a browser client of their own, against a running deployment.
//
//     node crowd.mjs < config.json > record.json
//
// config: {analyzer, task, registrar, token,             where the task is, and the host's token for tickets
//          users: [{name, contexts, rewards}],           rewards by arm; null: opens a slot and never answers
//          concurrency, patience, kill}                  kill: the share of people who die before an answer and come back
// record: {users: [{name, arm, action, takingPart, reason, kept, pending}],
//          drawn: [{epoch, slot, round, part, version, message}],     all that was drawn, before it is split
//          sent: {slot: [distinct zero requests, distinct final ones]}, retries, deaths}
import { memoryStore, Session } from "../dist/bandanna.mjs";
import { read, written } from "./support.mjs";

const { analyzer, task, registrar, token, users, concurrency = 32, patience = 60, kill = 0 } = await read();
const drawn = [];
const sent = new Map();
let retries = 0;
let deaths = 0;

/** The host's server: only it has the token. */
function ticketsOf(user) {
  return async (epoch, refused) => {
    const body = JSON.stringify({ tickets: [{ user, epoch, ...(refused.length ? { refused } : {}) }] });
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const answer = await fetch(`${registrar}/tasks/${task}/tickets`, { method: "POST", headers, body });
    if (![200, 409, 429].includes(answer.status)) throw new Error(`the registrar answers ${answer.status}: ${await answer.text()}`);
    return (await answer.json()).tickets[0];
  };
}

const DEAD = Symbol("dead");

/** One life of a device: it may die when a request has arrived and its answer has not; only its store is left. */
function life(dies) {
  let end;
  const death = new Promise((resolve) => (end = () => resolve(DEAD)));
  const connection = async (address, init) => {
    if (init?.body) note(init.body);
    const answer = await fetch(address, init);
    if (!init?.body || !dies()) return answer;
    await answer.arrayBuffer();
    end();
    return new Promise(() => undefined);
  };
  return { death, connection };
}

/** Do something, in as many lives as it takes. */
async function survived(options, dies, work) {
  for (;;) {
    const { death, connection } = life(dies);
    const session = await Session.open({ ...options, fetch: connection });
    const done = await Promise.race([work(session), death]);
    if (done !== DEAD) return done;
    deaths++;
  }
}

function note(body) {
  const slot = Buffer.from(body.slice(4, 20)).toString("base64url");
  const known = sent.get(slot) ?? [new Set(), new Set()];
  const requests = known[body[42]];
  const bytes = Buffer.from(body).toString("base64");
  if (requests.has(bytes)) retries++;
  requests.add(bytes);
  sent.set(slot, known);
}

async function play({ name, contexts, rewards }) {
  let left = Math.random() < kill ? 2 : 0;
  const dies = () => left-- > 0;
  const options = {
    analyzer,
    task,
    store: memoryStore(),
    patience,
    tickets: ticketsOf(name),
    observe: ({ slot, message, ...rest }) => drawn.push({ ...rest, slot: Buffer.from(slot).toString("base64url"), message: Array.from(message, String) }),
  };
  const decision = await survived(options, dies, async (session) => {
    const [known] = await session.decisions();
    if (!known) return session.act(contexts);
    await session.flush();
    return known;
  });
  const { arm, action, takingPart, reason } = decision;
  if (rewards === null || !takingPart) return { name, arm, action, takingPart, reason, kept: false, pending: false };
  const outcome = await survived(options, dies, (session) => session.report(decision.id, rewards[action]));
  return { name, arm, action, takingPart, ...outcome };
}

const waiting = [...users];
const played = [];
async function worker() {
  for (let user = waiting.shift(); user; user = waiting.shift()) played.push(await play(user));
}
await Promise.all(Array.from({ length: concurrency }, worker));
written({ users: played, drawn, sent: Object.fromEntries([...sent].map(([slot, [zero, final]]) => [slot, [zero.size, final.size]])), retries, deaths });
