// What sessions send for people of a real task: {document, publication, signature, witness, task, people}
// from stdin, people: [{contexts, reward, ticket}]; to stdout [{action, zero, final, drawn}] with requests in base64.
import { Session } from "../dist/bandanna.mjs";
import { bytes, read, written } from "./support.mjs";

const given = await read();

async function play({ contexts, reward, ticket }, place) {
  const sent = [];
  const drawn = [];
  const answer = async (address, init) => {
    const { pathname } = new URL(address);
    if (init?.body) {
      sent.push(Buffer.from(init.body).toString("base64"));
      return Response.json({ places: [place] }, { status: 201 });
    }
    if (pathname.endsWith("/snapshot")) {
      return new Response(bytes(given.publication), { headers: { signature: given.signature, witness: given.witness } });
    }
    return new Response(bytes(given.document));
  };
  const session = await Session.open({
    analyzer: "http://analyzer.test",
    task: given.task,
    fetch: answer,
    tickets: async () => ticket,
    observe: ({ version, part, message }) => drawn.push({ version, part, message: Array.from(message, String) }),
  });
  const decision = await session.act(contexts ?? undefined);
  await session.report(decision, reward);
  const [zero, final] = sent;
  return { action: decision.action, arm: decision.arm, zero, final, drawn };
}

const answers = [];
for (const [place, person] of given.people.entries()) {
  try {
    answers.push(await play(person, place));
  } catch (error) {
    answers.push({ error: error.message, reason: error.reason ?? "" });
  }
}
written(answers);
