// What sessions make of cases of tests/clients/js/test_parity.py: {document, task, publication, signature, witness,
// contexts, ticket, reward, answer, words} from stdin; to stdout [{act, report, requests, states, left}].
import { memoryStore, Session } from "../dist/bandanna.mjs";
import { bytes, read, Recorded, written } from "./support.mjs";

const SPECIAL = { nan: NaN, inf: Infinity };
const plain = (value) => (Array.isArray(value) ? value.map(plain) : (SPECIAL[value] ?? value));

async function play({ document, task, publication, signature, witness, contexts, ticket, reward, answer, words }) {
  let requests = [];
  const fetch = async (address, init) => {
    const path = address.split(task)[1];
    requests.push([init.method ?? "GET", path, init.body ? Buffer.from(init.body).toString("base64") : ""]);
    if (path === "") return new Response(bytes(document));
    if (path === "/snapshot") return new Response(bytes(publication), { headers: { signature, witness } });
    return path === "/reports" ? Response.json(answer.body, { status: answer.status }) : Response.json({}, { status: 404 });
  };
  const [store, entropy] = [memoryStore(), new Recorded(words)];
  const options = { analyzer: "http://analyzer.test", task, fetch, store, entropy, tickets: async () => ticket, patience: 0 };
  const said = (error) => ({ error: error.reason === "document" ? "publication" : (error.reason ?? String(error)) });
  let session;
  try {
    session = await Session.open(options);
    requests = [];
  } catch (error) {
    return { unopened: true, act: said(error), requests: requests.slice(1), states: [], left: entropy.left };
  }
  const told = {};
  const decision = await session.act(plain(contexts) ?? undefined).catch((error) => void (told.act = said(error)));
  if (decision) {
    const { action, takingPart, reason } = decision;
    told.act = { action, reason };
    if (takingPart) {
      const { kept, pending, reason } = (told.report = await session.report(decision, plain(reward)).catch(said));
      if (told.report.error === undefined) told.report = { kept, pending, reason: pending ? "" : reason };
    }
  }
  await session.flush().catch((error) => (told.flush = said(error)));
  const states = await Promise.all((await store.keys(`${task}/`)).map(async (key) => (await store.get(key)).value.state));
  return { ...told, requests, states, left: entropy.left };
}

const answers = [];
for (const each of await read()) answers.push(await play(each));
written(answers);
