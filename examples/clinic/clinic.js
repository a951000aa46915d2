/** The clinic's page: a patient's numbers stay here, the browser client acts on them and reports with noise. */
import { Session } from "./bandanna.mjs";

const LABELS = {
  age: "Age, years",
  wtkg: "Weight, kg",
  karnof: "Karnofsky score",
  cd40: "CD4 per mm³",
  symptom: "Symptoms of HIV",
  str2: "Treated before",
};
const OUTCOMES = { Better: 1, "No change": 0.5, Worse: 0 }; // rewards
const UNCOUNTED = { participations: "who has taken part before", finished: "when the task is over", exhausted: "when the budget is spent" };
const REFUSED = { closed: "the batch was closed before", other: "another outcome was reported before" };
const PATIENTS = "patients"; // in localStorage: who waits for an outcome; with it the number is deleted
const SALT = "salt"; // in localStorage: of the names under which the client keeps what it must not forget
const HEADER = 4 + 16 + 16 + 8; // of a record with its length: slot, tag, epoch, round, version, key
const SHOWN = 24; // numbers of a report

const $ = (id) => document.getElementById(id);
const about = await (await fetch("/about")).json();
const { columns } = about; // [name, [low, high]], in the order of the features
const sessions = new Map(); // by patient
const known = new Set(JSON.parse(localStorage.getItem(PATIENTS) ?? "[]"));
let busy = false;
let waiting = 0; // reports

/** A column's value to [-1, 1] / sqrt(number of columns): then features have norm at most 1, and nothing is clipped. */
const scaled = (value, [low, high]) => ((2 * (value - low)) / (high - low) - 1) / Math.sqrt(columns.length);

/** A session for a patient, who is a person of the task: reports that wait are found again after a reload. */
function sessionOf(patient) {
  if (!sessions.has(patient)) {
    const { analyzer, task } = about;
    const tickets = (epoch, refused) => ticket(patient, epoch, refused);
    const opening = nameOf(patient).then((person) => Session.open({ analyzer, task, tickets, person, fetch: watched, patience: 2 }));
    sessions.set(patient, opening);
    opening.catch(() => sessions.delete(patient)); // to be tried again
  }
  return sessions.get(patient);
}

/** A name for a patient that no other browser has: a hash of the number, with a salt of this one. */
async function nameOf(patient) {
  const salt = localStorage.getItem(SALT) ?? crypto.randomUUID();
  localStorage.setItem(SALT, salt);
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(`${salt} ${patient}`));
  return Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Of the clinic's own server, which alone may ask the registrar. */
async function ticket(patient, epoch, refused) {
  const answer = await fetch("/tickets", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ patient, epoch, refused }),
  });
  if (answer.status === 401) {
    $("door").hidden = false;
    throw new Error("Sign in first.");
  }
  return answer.json(); // a ticket, or {refused: why}
}

/** `fetch` as the client uses it; whatever is sent away is shown. */
async function watched(address, init) {
  if (!init?.body) return fetch(address, init);
  const row = show(init.body);
  try {
    const answer = await fetch(address, init);
    row.textContent = answer.ok ? "kept" : `refused (${answer.status})`;
    return answer;
  } catch (error) {
    row.textContent = "no answer: the same bytes will be sent again";
    throw error;
  }
}

/** A line for a report on its way; returns the place for what becomes of it. */
function show(body) {
  const bytes = body.slice();
  const numbers = Array.from(new Uint32Array(bytes.buffer, HEADER, Math.floor((bytes.length - HEADER) / 4)));
  const version = bytes[HEADER - 2];
  const state = make("span", { className: "state", textContent: "on its way" });
  const counts = make("code", { textContent: `${numbers.slice(0, SHOWN).join(" ")} and ${numbers.length - SHOWN} more` });
  const title = make("p", { textContent: `${version ? "Report with an outcome" : "Report that says nothing"}: ${bytes.length} bytes to the ${about.collector}, ` });
  title.append(state);
  $("sent").prepend(make("li", {}, title, counts));
  $("nothing").hidden = true;
  return state;
}

async function recommend(event) {
  event.preventDefault();
  const patient = $("number").value.trim();
  const features = columns.map(([name, range]) => scaled(valueOf(name), range));
  await attempt(async () => {
    known.add(patient);
    localStorage.setItem(PATIENTS, JSON.stringify([...known]));
    const session = await sessionOf(patient);
    const { arm, takingPart, reason } = await session.act(features);
    const note = takingPart ? "chosen in this browser from what everybody may see" : `${UNCOUNTED[reason] ?? reason}: nothing is learned from it`;
    $("advice").replaceChildren(
      make("p", { className: "arm", textContent: arm }),
      make("p", { className: "note", textContent: `for ${patient}, ${note}.` }),
    );
    $("patient").reset();
  });
}

async function report(patient, decision, outcome) {
  await attempt(async () => {
    const { kept, pending, reason } = await (await sessionOf(patient)).report(decision, OUTCOMES[outcome]);
    if (!kept && !pending) throw new Error(`The outcome of ${patient} is not counted: ${REFUSED[reason] ?? reason}.`);
  });
  $("treated-title").focus(); // the button is gone
}

/** Do something, and say what went wrong; then show where things stand. */
async function attempt(work) {
  if (busy) return; // a second click
  busy = true;
  $("problem").hidden = true;
  document.body.setAttribute("aria-busy", "true");
  await work().catch(complain);
  await refresh();
  document.body.removeAttribute("aria-busy");
  busy = false;
}

function complain(error) {
  $("problem").textContent = navigator.onLine ? error.message : "There is no connection: try again later.";
  $("problem").hidden = false;
}

/** Who waits for an outcome, and how many reports wait to be sent. */
async function refresh() {
  const opening = [...known].map(async (patient) => {
    const session = await sessionOf(patient);
    return { patient, session, decisions: await session.decisions() };
  });
  const open = (await Promise.all(opening.map((each) => each.catch(complain)))).filter(Boolean);
  for (const { patient, session, decisions } of open) if (!decisions.length && !session.pending) known.delete(patient);
  localStorage.setItem(PATIENTS, JSON.stringify([...known]));
  const rows = open.flatMap(({ patient, decisions }) => decisions.map((decision) => treated(patient, decision)));
  $("treated").replaceChildren(...rows);
  $("nobody").hidden = rows.length > 0 || open.length < opening.length;
  waiting = open.reduce((sum, { session }) => sum + session.pending, 0);
  const reports = ["nothing waits", "1 report waits to be sent"][waiting] ?? `${waiting} reports wait to be sent`;
  $("line").textContent = `${navigator.onLine ? "Online" : "Offline"}, ${reports}`;
  $("line").classList.toggle("waiting", waiting > 0 || !navigator.onLine);
}

function treated(patient, decision) {
  const buttons = Object.keys(OUTCOMES).map((outcome) => {
    const button = make("button", { type: "button", textContent: outcome, ariaLabel: `${outcome}: ${patient}` });
    button.onclick = () => report(patient, decision, outcome);
    return button;
  });
  const who = make("p", {}, make("strong", { textContent: patient }), ` is given ${decision.arm}. How is the patient now?`);
  return make("li", {}, who, make("p", { className: "buttons" }, ...buttons));
}

/** Send again what was not acknowledged. */
async function flush() {
  for (const opening of sessions.values()) await opening.then((session) => session.flush()).catch(complain);
  await refresh();
}

const valueOf = (name) => ($(name).type === "checkbox" ? Number($(name).checked) : $(name).valueAsNumber);
const isFlag = ([low, high]) => low === 0 && high === 1;

function field([name, range]) {
  const label = make("label", { htmlFor: name, textContent: LABELS[name] ?? name });
  if (isFlag(range)) return make("p", { className: "field flag" }, make("input", { id: name, type: "checkbox" }), label);
  const [min, max] = range;
  const hint = make("small", { id: `${name}-range`, textContent: `${min} to ${max}` });
  const input = make("input", { id: name, type: "number", min, max, required: true, inputMode: "numeric" });
  input.setAttribute("aria-describedby", hint.id);
  return make("p", { className: "field" }, label, input, hint);
}

/** Anybody, drawn evenly from the middle of every range. */
function example() {
  $("number").value = `P-${Math.floor(1e5 + 9e5 * Math.random())}`;
  for (const [name, [low, high]] of columns) {
    if (isFlag([low, high])) $(name).checked = Math.random() < 0.5;
    else $(name).value = Math.round(low + (high - low) * (0.2 + 0.6 * Math.random()));
  }
}

function make(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

$("fields").append(...columns.map(field));
$("promise").textContent = about.promise;
$("door").hidden = about.staff;
$("patient").onsubmit = recommend;
$("example").onclick = example;
$("sign-in").onclick = async () => {
  await fetch("/sign-in", { method: "POST" });
  $("door").hidden = true;
};
addEventListener("online", flush);
addEventListener("offline", refresh);
setInterval(() => navigator.onLine && waiting && flush(), 10_000);
await refresh();
await flush();
