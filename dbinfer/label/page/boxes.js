// The editor of `dbinfer label --boxes`: boxes over an image, in its pixels, moved by keys or the mouse.
const SVG = "http://www.w3.org/2000/svg";
const COLOURS = 8, GRIP = 10; // kinds of lines in label.css; pixels of the screen around a corner that take hold of it
const svg = document.createElementNS(SVG, "svg");
svg.id = "boxes";
svg.setAttribute("role", "group");
svg.setAttribute("aria-label", "boxes");
let boxes = [], chosen = -1, width = 1, height = 1, url = "", held = null, free = false, last = "", classes = [], changed = () => {};

function made(name, values, text = "") {
  const found = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(values)) found.setAttribute(key, value);
  found.textContent = text;
  return found;
}

// Lines and letters are as thick on the screen however large the image is
function pixel() {
  const drawn = svg.getScreenCTM();
  return drawn && drawn.a ? 1 / drawn.a : 1;
}

function colour(label) {
  const at = classes.indexOf(label);
  return `line-${(at < 0 ? COLOURS : at) % COLOURS}`;
}

function draw() {
  const one = pixel();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren(made("image", { href: url, width, height }), ...boxes.flatMap((box, at) => {
    const kind = `${colour(box.label)}${at === chosen ? " chosen" : ""}`;
    const text = { x: box.x + 4 * one, y: box.y > 20 * one ? box.y - 6 * one : box.y + 18 * one, "stroke-width": 4 * one, class: kind };
    const sides = { x: box.x, y: box.y, width: box.width, height: box.height, class: kind };
    const grips = at === chosen ? corners(box).map(([x, y]) => made("circle", { cx: x, cy: y, r: 5 * one, class: kind })) : [];
    const name = made("text", text, box.label || "no label");
    name.style.fontSize = `${16 * one}px`;
    return [made("rect", { ...sides, class: "halo" }), made("rect", sides), ...grips, name];
  }));
  svg.classList.toggle("small", Math.max(width, height) <= 48);
  changed();
}

function corners({ x, y, width, height }) {
  return [[x, y], [x + width, y], [x, y + height], [x + width, y + height]];
}

// Within the image, and with an area
function fitted(box) {
  const wide = Math.min(Math.max(box.width, 1), width), high = Math.min(Math.max(box.height, 1), height);
  return { ...box, width: wide, height: high, x: Math.min(Math.max(box.x, 0), width - wide), y: Math.min(Math.max(box.y, 0), height - high) };
}

function choose(at) {
  [chosen, free] = [at, at < 0];
  draw();
}

function change(values) {
  if (chosen < 0) return;
  boxes[chosen] = fitted({ ...boxes[chosen], ...values });
  draw();
}

function add(box) {
  boxes.push(fitted({ label: last, ...box }));
  choose(boxes.length - 1);
}

function remove() {
  boxes.splice(chosen, 1);
  choose(Math.min(chosen, boxes.length - 1));
}

function between([x, y], [u, v]) {
  const [left, top, right, low] = [Math.min(x, u), Math.min(y, v), Math.max(x, u), Math.max(y, v)]
    .map((at, side) => Math.min(Math.max(at, 0), side % 2 ? height : width));
  return { x: left, y: top, width: right - left, height: low - top };
}

function place(event) {
  const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  return [at.x, at.y];
}

function grasp(at) {
  const near = GRIP * pixel(), box = boxes[chosen];
  const corner = box ? corners(box).findIndex(([x, y]) => Math.hypot(x - at[0], y - at[1]) <= near) : -1;
  // the corner across stays where it is
  if (corner >= 0) return { kind: "corner", from: corners(box)[3 - corner] };
  const within = boxes.map((one, number) => [one, number])
    .filter(([one]) => at[0] >= one.x && at[0] <= one.x + one.width && at[1] >= one.y && at[1] <= one.y + one.height)
    .sort(([a], [b]) => a.width * a.height - b.width * b.height);
  const held = within.find(([, number]) => number === chosen) ?? within[0];
  return held ? { kind: "move", number: held[1], from: at, box: held[0] } : { kind: "new", from: at };
}

svg.addEventListener("pointerdown", (event) => {
  if (event.button) return;
  event.preventDefault();
  svg.setPointerCapture(event.pointerId);
  held = grasp(place(event));
  if (held.kind === "move") choose(held.number);
});
svg.addEventListener("pointermove", (event) => {
  if (!held) return;
  const at = place(event), far = 3 * pixel();
  if (held.kind === "new" && Math.hypot(at[0] - held.from[0], at[1] - held.from[1]) > far) {
    add(between(held.from, at));
    held.kind = "corner";
  }
  if (held.kind === "corner") change(between(held.from, at));
  if (held.kind === "move") change({ x: held.box.x + at[0] - held.from[0], y: held.box.y + at[1] - held.from[1] });
});
svg.addEventListener("pointerup", () => {
  if (held?.kind === "new") choose(-1);
  held = null;
});
svg.addEventListener("pointercancel", () => { held = null; });
new ResizeObserver(() => url && draw()).observe(svg);

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

function arrow(event) {
  if (chosen < 0 && boxes.length) return choose(0);
  const step = event.ctrlKey || event.metaKey ? 1 : Math.max(1, Math.round(Math.max(width, height) / 100));
  const [right, down] = ARROWS[event.key].map((sign) => sign * step), box = boxes[chosen];
  if (!box) return;
  // an edge stops at that of the image, where a box that is moved would be pushed back
  if (event.shiftKey) change({ width: Math.min(box.width + right, width - box.x), height: Math.min(box.height + down, height - box.y) });
  else change({ x: box.x + right, y: box.y + down });
}

export const KEYS = [["N", "a new box; or draw one with the mouse"], ["Tab, Shift+Tab", "the next box, the one before"],
  ["Arrows", "move the box; with Ctrl by one pixel"], ["Shift+Arrows", "move its right and lower edge"],
  ["1, 2, a, b ...", "the label of the box"], ["Delete, X", "remove the box"],
  ["Esc", "choose no box; Tab then goes to the buttons"]];

export const editor = {
  element: svg,
  // told: called whenever something has changed
  begin(names, told) { [classes, changed] = [names, told]; },
  show(picture, given) {
    [url, width, height] = [picture.url, picture.width, picture.height];
    boxes = structuredClone(given);
    choose(boxes.length ? 0 : -1);
  },
  name(label) {
    last = label;
    change({ label });
  },
  get count() { return boxes.length; },
  get chosen() { return chosen; },
  get value() { return boxes.map(({ label, x, y, width, height }) => ({ label, x, y, width, height })); },
  // Choose the first box without a label; return whether there is one
  unnamed() {
    const at = boxes.findIndex((box) => !box.label);
    if (at >= 0) choose(at);
    return at >= 0;
  },
  // Return whether the key was one of the editor's
  key(event) {
    const key = event.key.toLowerCase();
    if (ARROWS[event.key]) arrow(event);
    else if (event.ctrlKey || event.metaKey) return false;
    else if (event.repeat && key !== "tab") return false;
    else if (key === "tab" && boxes.length && !free) choose((chosen + (event.shiftKey ? boxes.length - 1 : 1)) % boxes.length);
    else if (key === "escape") choose(-1);
    else if ((key === "delete" || key === "x") && chosen >= 0) remove();
    else if (key === "n") add({ x: 3 * width / 8, y: 3 * height / 8, width: width / 4, height: height / 4 });
    else return false;
    return true;
  },
};
