// The page of `dbinfer label`: shows a row, takes a key for an answer, goes on. Texts are set as texts, never as HTML.
const token = new URLSearchParams(location.search).get("token");
const byId = (id) => document.getElementById(id);
// Letters that mean something else; the order in which classes get the others
const RESERVED = "nrsxz";
const KEYS = [..."1234567890abcdefghijklmnopqrstuvwxyz"].filter((key) => !RESERVED.includes(key));
const AHEAD = 2; // images that are fetched before they are shown
const SMALL = 48; // pixels: below it single ones are shown, as in reports
const GONE = 410;
const LONG = 12; // letters of a class whose button has a line of its own
const work = await ask("/api/work");
const keyed = keysOf(work.classes);
// null: an answer is one label
const { editor = null, KEYS: boxKeys = [] } = work.boxes ? await import(`/boxes.js?token=${token}`) : {};
const images = new Map();
const history = []; // what Backspace takes back: {number, at, value}; without `at` the row was skipped
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
  if (answer.ok) return answer.headers.get("Content-Type").startsWith("image/") ? picture(answer) : answer.json();
  const said = await answer.json();
  throw Object.assign(new Error([said.problem, said.hint].filter(Boolean).join(". ")), said, { status: answer.status });
}

async function picture(answer) {
  const [width, height] = ["X-Image-Width", "X-Image-Height"].map((name) => Number(answer.headers.get(name)));
  return { url: URL.createObjectURL(await answer.blob()), width, height };
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
    const found = ask(`/api/image/${at}`);
    found.catch(() => images.delete(at)); // to be asked for again
    images.set(at, found);
  }
  return images.get(at);
}

function forget() {
  const near = new Set(order.slice(Math.max(0, place - AHEAD), place + AHEAD + 1));
  for (const [at, found] of images) if (!near.has(at)) {
    images.delete(at);
    found.then(({ url }) => URL.revokeObjectURL(url), () => {});
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

// again: what the person has given the row before
async function show(again = null) {
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
  if (told.status === "rejected") {
    ready();
    return say(`${told.reason.message}. R: try again`);
  }
  row = told.value;
  if (row.answer) {
    others += 1;
    tell(`Row ${row.key}: ${row.answer.who} has labelled it${editor ? "" : ` ${row.answer.value}`} meanwhile.`);
    place += 1;
    return show();
  }
  await draw(picture, again ?? row.proposal ?? []);
  byId("row").textContent = `Row ${row.key}`;
  proposal();
  document.activeElement?.blur();
  ready();
  began = performance.now();
  order.slice(place + 1, place + 1 + AHEAD).forEach((at) => image(at).catch(() => {}));
}

// Only now are keys answers: before, another image was seen, or none
function ready() {
  busy = false;
  byId("stage").classList.remove("waits");
}

async function draw(picture, boxes) {
  const shown = byId("image");
  seen = picture.status === "fulfilled";
  if (seen) {
    shown.src = picture.value.url;
    shown.alt = `image of row ${row.key}`;
    try {
      await shown.decode();
      shown.classList.toggle("small", Math.max(shown.naturalWidth, shown.naturalHeight) <= SMALL);
    } catch {
      seen = false;
    }
  }
  shown.hidden = !seen || editor;
  if (editor) {
    editor.element.classList.toggle("hidden", !seen);
    editor.show(picture.value ?? { url: "", width: 1, height: 1 }, seen ? boxes : []);
  }
  byId("problem").hidden = seen;
  byId("problem").textContent = seen ? "" : `${picture.reason?.message ?? "The browser cannot show the image"}. S: skip the row`;
}

function proposal() {
  const accept = byId("accept"), score = row.score === null ? "" : `score ${row.score.toFixed(3)}`;
  const text = editor ? `save ${editor.count} ${editor.count === 1 ? "box" : "boxes"}` : row.proposal;
  accept.hidden = text === null;
  if (text !== null) accept.replaceChildren(...button("↵", text, editor ? "" : score).childNodes);
  const all = byId("classes").querySelectorAll("button");
  const marked = editor ? editor.value[editor.chosen]?.label : row.proposal;
  for (const one of all) one.classList.toggle("proposed", one.dataset.label === marked);
  for (const one of [accept, byId("other"), ...all]) one.disabled = !seen;
  for (const one of [byId("other"), ...all]) one.disabled ||= editor && editor.chosen < 0;
}

// A label was named: for the image, or for the box that is chosen
function named(label) {
  if (!editor) return give(label);
  if (busy || !row || !seen || editor.chosen < 0) return;
  say("");
  editor.name(label);
  learn(label);
}

function accept() {
  if (busy || !row || !seen) return;
  if (!editor) return row.proposal === null || give(row.proposal);
  if (editor.unnamed()) return say("This box has no label. Give it one, or remove it with X");
  return give(editor.value);
}

async function give(value) {
  // an image that nobody saw gets no label
  if (busy || !row || !seen || over) return;
  busy = true;
  const spent = (performance.now() - began) / 1000, what = row;
  try {
    const answer = await ask(`/api/row/${number}`, editor ? { boxes: value } : { label: value });
    history.push({ number, at: answer.at, spent, value });
    [given, seconds] = [given + 1, seconds + spent];
    tell(`Row ${what.key}: ${told(value, what.proposal)}.`);
    if (!editor) learn(value);
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

function told(value, proposal) {
  if (editor) return `${value.length} ${value.length === 1 ? "box" : "boxes"}`;
  return value === proposal || proposal === null ? value : `${value}, not ${proposal}`;
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
    // it has gone already: the next Backspace takes the one before
    if (problem.status === GONE) history.pop();
    return say(problem.message);
  }
  history.pop();
  place = order.lastIndexOf(last.number);
  tell("");
  await show(editor && last.value);
}

function skipped() {
  return [...new Set(history.filter((one) => !one.at).map((one) => one.number))]
    .filter((at) => !history.some((one) => one.number === at && one.at));
}

function end() {
  row = null;
  ready();
  const left = skipped().length;
  byId("answer-card").hidden = true;
  byId("end").hidden = false;
  byId("image").hidden = true;
  editor?.element.classList.add("hidden");
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
    over = false;
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
    proposal();
  }
}

function list() {
  byId("classes").replaceChildren(...[...keyed].map(([key, name]) => {
    const made = button(key.toUpperCase(), name);
    made.dataset.label = name;
    made.setAttribute("aria-keyshortcuts", key.toUpperCase());
    made.classList.toggle("long", name.length > LONG);
    made.onclick = () => named(name);
    return made;
  }));
  const more = work.classes.length - keyed.size;
  if (more > 0) byId("classes").append(Object.assign(document.createElement("p"), { textContent: `/ finds ${more} more` }));
}

function search() {
  if (busy || !row || !seen || (editor && editor.chosen < 0)) return;
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
  named(name);
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
  const first = [["Enter, Space", "accept the proposal"], ["1, 2, a, b ...", "the label beside the key"]];
  const lines = [...(editor ? [["Enter, Space", "save the boxes, and go on"], ...boxKeys] : first), ["/", work.open ? "search for a label, or type a new one" : "search for a label"],
    ["S", "skip the row"],
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
const onRow = { Enter: accept, s: skip, "/": search, r: () => !row && show() };
onRow[" "] = accept;

document.addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]") || event.altKey) return;
  // where a button has the focus, Tab goes on to the next one
  const free = event.key !== "Tab" || document.activeElement === document.body;
  if (editor && row && seen && !busy && free && editor.key(event)) return event.preventDefault();
  if (event.ctrlKey || event.metaKey) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  // a button that has the focus is pressed by these keys
  if ((key === "Enter" || key === " ") && document.activeElement?.tagName === "BUTTON") return;
  const action = always[key] ?? (place >= order.length ? atEnd : onRow)[key] ?? (keyed.has(key) && (() => named(keyed.get(key))));
  if (!action) return;
  event.preventDefault();
  // a key that is held down is one answer
  if (!event.repeat) action();
});
byId("accept").onclick = accept;
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
if (editor) {
  byId("stage").prepend(editor.element);
  editor.begin(work.classes, () => row && proposal());
}
show();
