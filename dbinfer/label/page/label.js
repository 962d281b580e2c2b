// The page of `dbinfer label`: shows a row, takes a key for an answer, goes on. Texts are set as texts, never as HTML.
const token = new URLSearchParams(location.search).get("token");
const byId = (id) => document.getElementById(id);
// Letters that mean something else; the order in which classes get the others
const RESERVED = "nrsxz";
const KEYS = [..."1234567890abcdefghijklmnopqrstuvwxyz"].filter((key) => !RESERVED.includes(key));
const AHEAD = 2; // images that are fetched before they are shown
const SMALL = 48; // pixels: below it single ones are shown, as in reports
const LONG = 12; // letters of a class whose button has a line of its own
const work = await ask("/api/work");
const keyed = keysOf(work.classes);
const images = new Map();
const history = []; // what Backspace takes back: {number, at}; without `at` the row was skipped
let number = 0; // of the row that is shown
let order = [...Array(work.rows).keys()], place = 0; // in which rows are shown
let row = null, seen = false, busy = true, began = 0, seconds = 0, given = 0, others = 0, over = false;

async function ask(path, body) {
  const options = { headers: { Authorization: `Bearer ${token}` } };
  if (body) Object.assign(options, { method: "POST", body: JSON.stringify(body) });
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("dbinfer label does not answer any more; start it again, and open the address that it prints");
  }
  if (answer.ok) return answer.headers.get("Content-Type").startsWith("image/") ? answer.blob() : answer.json();
  const said = await answer.json();
  throw Object.assign(new Error([said.problem, said.hint].filter(Boolean).join(". ")), said);
}

// A class of one sign has that key, the others the keys that are left
function keysOf(classes) {
  const found = new Map(classes.filter((name) => KEYS.includes(name.toLowerCase())).map((name) => [name.toLowerCase(), name]));
  const named = new Set(found.values()), left = KEYS.filter((key) => !found.has(key));
  for (const name of classes.filter((name) => !named.has(name))) if (left.length) found.set(left.shift(), name);
  return found;
}

function image(at) {
  if (!images.has(at)) {
    const found = ask(`/api/image/${at}`).then(URL.createObjectURL);
    found.catch(() => images.delete(at)); // to be asked for again
    images.set(at, found);
  }
  return images.get(at);
}

function forget() {
  const near = new Set(order.slice(Math.max(0, place - AHEAD), place + AHEAD + 1));
  for (const [at, found] of images) if (!near.has(at)) {
    images.delete(at);
    found.then(URL.revokeObjectURL, () => {});
  }
}

function button(key, text, after = "") {
  const made = document.createElement("button"), cap = document.createElement("kbd"), name = document.createElement("bdi");
  made.type = "button";
  cap.textContent = key;
  name.textContent = text;
  made.append(cap, name);
  if (after) made.append(Object.assign(document.createElement("small"), { textContent: after }));
  return made;
}

function say(text) {
  byId("message").textContent = text;
  byId("message").hidden = !text;
}

function tell(text) { byId("last").textContent = text; }

function progress() {
  const left = order.length - place;
  byId("place").textContent = left ? `${place + 1} of ${order.length}` : `${order.length} of ${order.length}`;
  byId("progress").max = order.length;
  byId("progress").value = place;
  byId("pace").textContent = given ? `${(seconds / given).toFixed(1)} s an image` : "";
}

async function show() {
  say("");
  progress();
  forget();
  if (place >= order.length) return end();
  byId("end").hidden = true;
  byId("answer-card").hidden = false;
  byId("undo").disabled = !history.length;
  number = order[place];
  [row, seen, busy] = [null, false, true];
  byId("stage").classList.add("waits");
  const wanted = number;
  const [told, picture] = await Promise.allSettled([ask(`/api/row/${wanted}`), image(wanted)]);
  busy = false;
  byId("stage").classList.remove("waits");
  if (told.status === "rejected") return say(`${told.reason.message}. R: try again`);
  row = told.value;
  if (row.answer) {
    others += 1;
    tell(`Row ${row.key}: ${row.answer.who} has labelled it ${row.answer.label} meanwhile.`);
    place += 1;
    return show();
  }
  await draw(picture);
  byId("row").textContent = `Row ${row.key}`;
  proposal();
  document.activeElement?.blur();
  began = performance.now();
  order.slice(place + 1, place + 1 + AHEAD).forEach((at) => image(at).catch(() => {}));
}

async function draw(picture) {
  const shown = byId("image");
  seen = picture.status === "fulfilled";
  if (seen) {
    shown.src = picture.value;
    shown.alt = `image of row ${row.key}`;
    try {
      await shown.decode();
      shown.classList.toggle("small", Math.max(shown.naturalWidth, shown.naturalHeight) <= SMALL);
    } catch {
      seen = false;
    }
  }
  shown.hidden = !seen;
  byId("problem").hidden = seen;
  byId("problem").textContent = seen ? "" : `${picture.reason?.message ?? "The browser cannot show the image"}. S: skip the row`;
}

function proposal() {
  const accept = byId("accept"), score = row.score === null ? "" : `score ${row.score.toFixed(3)}`;
  accept.hidden = row.proposal === null;
  if (row.proposal !== null) accept.replaceChildren(...button("↵", row.proposal, score).childNodes);
  const all = byId("classes").querySelectorAll("button");
  for (const one of all) one.classList.toggle("proposed", one.dataset.label === row.proposal);
  for (const one of [accept, byId("other"), ...all]) one.disabled = !seen;
}

async function give(label) {
  // an image that nobody saw gets no label
  if (busy || !row || !seen || over) return;
  busy = true;
  const spent = (performance.now() - began) / 1000, what = row;
  try {
    const answer = await ask(`/api/row/${number}`, { label });
    history.push({ number, at: answer.at, spent });
    [given, seconds] = [given + 1, seconds + spent];
    tell(label === what.proposal ? `Row ${what.key}: ${label}.` : `Row ${what.key}: ${label}, not ${what.proposal ?? "proposed"}.`);
    learn(label);
  } catch (problem) {
    if (!problem.answer) {
      busy = false;
      return say(problem.message);
    }
    others += 1;
    tell(`Row ${what.key}: ${problem.message}; that label stays.`);
  }
  place += 1;
  await show();
}

function skip() {
  if (busy || over || place >= order.length) return;
  history.push({ number });
  tell(row ? `Row ${row.key} is skipped.` : "");
  place += 1;
  show();
}

async function undo() {
  if (busy || over || !history.length) return;
  const last = history[history.length - 1];
  busy = true;
  try {
    if (last.at) {
      await ask(`/api/row/${last.number}`, { undo: last.at });
      [given, seconds] = [given - 1, seconds - last.spent];
    }
  } catch (problem) {
    busy = false;
    return say(problem.message);
  }
  history.pop();
  place = order.lastIndexOf(last.number);
  tell("");
  await show();
}

function skipped() {
  return [...new Set(history.filter((one) => !one.at).map((one) => one.number))]
    .filter((at) => !history.some((one) => one.number === at && one.at));
}

function end() {
  [row, busy] = [null, false];
  const left = skipped().length;
  byId("answer-card").hidden = true;
  byId("end").hidden = false;
  byId("image").hidden = true;
  byId("problem").hidden = false;
  byId("problem").textContent = "There are no more images.";
  byId("end-title").textContent = left ? "No more rows" : "All rows are done";
  byId("end-text").textContent = `${given} labelled, ${left} skipped${others ? `, ${others} by others` : ""}. The labels are in ${work.into}.`;
  byId("again").hidden = !left;
  byId("end-undo").disabled = !history.length;
  document.activeElement?.blur();
}

function again() {
  const left = skipped();
  if (busy || !left.length) return;
  order = left;
  place = 0;
  history.length = 0;
  show();
}

async function finish() {
  over = true;
  try {
    await ask("/api/finish", {});
  } catch (problem) {
    return say(problem.message);
  }
  byId("end").hidden = true;
  byId("problem").textContent = "Finished. You can close this page.";
}

// A label that was typed has a key from then on
function learn(label) {
  if (work.classes.includes(label)) return;
  work.classes.push(label);
  const key = KEYS.find((one) => !keyed.has(one));
  if (key) {
    keyed.set(key, label);
    list();
  }
}

function list() {
  byId("classes").replaceChildren(...[...keyed].map(([key, name]) => {
    const made = button(key.toUpperCase(), name);
    made.dataset.label = name;
    made.setAttribute("aria-keyshortcuts", key.toUpperCase());
    made.classList.toggle("long", name.length > LONG);
    made.onclick = () => give(name);
    return made;
  }));
  const more = work.classes.length - keyed.size;
  if (more > 0) byId("classes").append(Object.assign(document.createElement("p"), { textContent: `/ finds ${more} more` }));
}

function search() {
  if (busy || !row || !seen) return;
  byId("text").value = "";
  find();
  byId("search").showModal();
}

function find() {
  const text = byId("text").value.trim(), low = text.toLowerCase();
  const fits = work.classes.filter((name) => name.toLowerCase().includes(low));
  fits.sort((a, b) => b.toLowerCase().startsWith(low) - a.toLowerCase().startsWith(low));
  const lines = fits.slice(0, 50).map((name) => [name, name]);
  if (work.open && text && !work.classes.includes(text)) lines.push([text, `new label: ${text}`]);
  byId("found").replaceChildren(...lines.map(([name, shown], at) => {
    const line = document.createElement("li");
    Object.assign(line, { textContent: shown, id: `found-${at}`, onclick: () => chosen(name) });
    line.dataset.label = name;
    line.setAttribute("role", "option");
    return line;
  }));
  mark(0);
}

function mark(at) {
  const lines = [...byId("found").children];
  lines.forEach((line, each) => line.setAttribute("aria-selected", each === at));
  lines[at]?.scrollIntoView({ block: "nearest" });
  byId("text").setAttribute("aria-activedescendant", lines[at]?.id ?? "");
}

function chosen(name) {
  byId("search").close();
  give(name);
}

function searching(event) {
  const lines = [...byId("found").children];
  const at = lines.findIndex((line) => line.getAttribute("aria-selected") === "true");
  if (event.key === "ArrowDown") mark(Math.min(at + 1, lines.length - 1));
  else if (event.key === "ArrowUp") mark(Math.max(at - 1, 0));
  else if (event.key === "Enter" && lines[at] && !event.isComposing) chosen(lines[at].dataset.label);
  else return;
  event.preventDefault();
}

function help() {
  const lines = [["Enter, Space", "accept the proposal"], ["1, 2, a, b ...", "the label beside the key"],
    ["/", work.open ? "search for a label, or type a new one" : "search for a label"], ["S", "skip the row"],
    ["Backspace, Z", "back: take the last answer back"], ["?", "these keys"]];
  byId("keys").tBodies[0].replaceChildren(...lines.map(([key, does]) => {
    const line = document.createElement("tr");
    line.insertCell().append(...key.split(", ").flatMap((one, at) => {
      const cap = Object.assign(document.createElement("kbd"), { textContent: one });
      return at ? [" ", cap] : [cap];
    }));
    line.insertCell().textContent = does;
    return line;
  }));
  byId("help").showModal();
}

const atEnd = { Enter: finish, r: again };
const always = { Backspace: undo, z: undo, "?": help };
const onRow = { Enter: () => row?.proposal != null && give(row.proposal), s: skip, "/": search, r: () => !row && show() };
onRow[" "] = onRow.Enter;

document.addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]") || event.ctrlKey || event.metaKey || event.altKey) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  // a button that has the focus is pressed by these keys
  if ((key === "Enter" || key === " ") && document.activeElement?.tagName === "BUTTON") return;
  const action = always[key] ?? (place >= order.length ? atEnd : onRow)[key] ?? (keyed.has(key) && (() => give(keyed.get(key))));
  if (!action) return;
  event.preventDefault();
  // a key that is held down is one answer
  if (!event.repeat) action();
});
byId("accept").onclick = onRow.Enter;
byId("other").onclick = search;
byId("skip").onclick = skip;
byId("undo").onclick = byId("end-undo").onclick = undo;
byId("again").onclick = again;
byId("finish").onclick = finish;
byId("help-button").onclick = help;
byId("text").oninput = find;
byId("search").onkeydown = searching;

byId("table").textContent = work.table;
byId("who").textContent = work.who;
document.title = `label ${work.table}`;
list();
show();
