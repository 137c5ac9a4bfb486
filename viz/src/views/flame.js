// The flame graph: which calls led to the memory. A box is a call; its width is the bytes allocated inside it.

import { element, option } from "../dom.js";
import { categoryColour, css, siteColour, textOn } from "../draw/palette.js";
import { FRAMES, flameBoxes, flameTree, frameKey, pathsUnder, UNDER, underFor } from "../data/flame.js";
import { MEASURES, sumBy } from "../data/scope.js";
import { frameName, framePlace, hashName, shortName } from "../data/stacks.js";
import { formatByteTime, formatBytes, formatCounted, formatShare } from "../format.js";

const LINE = 21; // pixels of a row
const LEAST = 2; // pixels of the narrowest box
const ARROWS = ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"];

export class FlameView {
  static id = "flame";
  static title = "Flame graph";
  static about = "Which calls led to the memory";
  scoped = true;
  needs = ["measure", "frames", "under", "inverted"];

  constructor({ recording, store }, box) {
    Object.assign(this, { recording, store, box });
    const choose = (key, values, title) => {
      const select = element("select",
        { title, "aria-label": title, onchange: () => store.set({ [key]: select.value }) },
        ...Object.entries(values).map(([value, { name }]) => option(value, name)));
      return select;
    };
    this.measure = choose("measure", MEASURES, "What a box's width means");
    this.frames = choose("frames", FRAMES, "Which frames are drawn");
    const fitting = underFor(recording);
    this.under = choose("under", Object.fromEntries(fitting.map((key) => [key, UNDER[key]])),
      "What lies under the calls");
    this.under.hidden = fitting.length < 2;
    // With modules below the calls, most calls repeat them: only one line is drawn, unless the user chooses all.
    this.under.addEventListener("change", () => store.set({ frames: store.state.under === "nothing" ? "user" : "line" }));
    this.inverted = element("button", { type: "button", title: "Begin with the innermost call", onclick: () =>
      store.set({ inverted: !store.state.inverted }) }, "Inverted");
    this.chart = element("div", { class: "flame-chart", role: "group", "aria-label": "Flame graph" });
    this.note = element("p", { class: "soft note" });
    box.append(this.chart, this.note);
    this.chart.addEventListener("keydown", (event) => this.key(event));
    this.zoomed = [];
  }

  controls() {
    return [this.measure, this.under, this.frames, this.inverted];
  }

  show(track) {
    this.track = track;
    this.zoomed = [];
  }

  draw(scope) {
    const { measure, frames, under, inverted } = this.store.state;
    this.measure.value = measure;
    this.frames.value = frames;
    this.under.value = underFor(this.recording).includes(under) ? under : "nothing";
    this.inverted.setAttribute("aria-pressed", String(inverted));
    const key = `${measure} ${frames} ${under} ${inverted}`;
    if (this.of !== scope || this.by !== key) {
      [this.of, this.by] = [scope, key];
      const { keyOf, paths } = pathsUnder(this.track, this.recording, under);
      const rows = sumBy(this.track, scope, keyOf);
      this.tree = flameTree(this.recording.stacks, rows.map((row) => ({ ...paths[row.key], value: row[measure] })),
        { frames, inverted });
    }
    this.place();
  }

  /** The call that fills the width. It is found by its path, as the tree may be a new one. */
  top() {
    let node = this.tree;
    for (const key of this.zoomed) {
      const child = node.children.get(key);
      if (!child) break;
      node = child;
    }
    return node;
  }

  place() {
    const top = this.top();
    const above = [];
    for (let node = top.parent; node; node = node.parent) above.unshift(node);
    const width = this.width = this.box.clientWidth || 600;
    const { boxes, hidden } = flameBoxes(top, LEAST / width);
    const depth = boxes.reduce((most, { depth: at }) => Math.max(most, at), 0) + above.length + 1;
    const shown = document.activeElement?.dataset?.path;
    this.chart.style.height = depth * LINE + "px";
    this.chart.replaceChildren(
      ...above.map((node, i) => this.boxOf(node, 0, 1, i, true)),
      ...boxes.map(({ node, left, width: share, depth: at }) =>
        this.boxOf(node, left, share, at + above.length, false)));
    this.placed = [...this.chart.children];
    const focused = shown !== undefined && this.placed.find((one) => one.dataset.path === shown);
    (focused || this.placed[0])?.setAttribute("tabindex", "0");
    if (focused) focused.focus();
    this.note.textContent = !this.tree.value ? "No blocks here." : hidden ?
      `${formatCounted(hidden, "call")} are narrower than two pixels and not drawn; a click widens a call.` : "";
  }

  pathOf(node) {
    const path = [];
    for (let at = node; at.parent; at = at.parent) path.unshift(frameKey(at.frame));
    return path;
  }

  boxOf(node, left, width, depth, outer) {
    const path = this.pathOf(node);
    const name = node.frame ? frameName(node.frame) : "all";
    const place = node.frame ? framePlace(node.frame) : "";
    const itself = node.own && node.children.size ? `, ${this.amount(node.own)} in itself` : "";
    const words = `${name}${place ? " " + place : ""}: ${this.amount(node.value)}, ` +
      `${formatShare(node.value, this.tree.value)} of all${itself}`;
    const kind = !node.frame ? "root" : node.frame.group ? "group" : node.frame.backward ? "backward" :
      node.frame.user ? "user" : node.frame.python ? "python" : "native";
    const classes = ["call", kind, outer && "outer", width * this.width < 16 && "narrow", !this.matches(node) && "dim"];
    const box = element("button", {
      type: "button", class: classes.filter(Boolean).join(" "), title: words,
      "aria-label": words, "data-path": path.join("\n\n"), tabindex: "-1",
      onclick: () => this.choose(node, path),
    }, element("span", {}, node.frame ? shortName(node.frame) : name),
    place ? " " : "", place ? element("span", { class: "place" }, place) : "");
    if (node.frame && !node.frame.backward) {
      const colour = this.colourOf(node.frame, name);
      box.style.background = css(colour);
      box.style.color = css(textOn(colour));
    }
    Object.assign(box.style, { left: 100 * left + "%", width: 100 * width + "%", top: depth * LINE + "px" });
    return box;
  }

  /** Boxes below the calls have their colours of the plot. */
  colourOf(frame, name) {
    const { dark } = this.store.state;
    const { categories } = this.recording;
    if (frame.group && (name.startsWith("(") || categories.includes(name))) return categoryColour(name, categories, dark);
    return siteColour(hashName(name + frame.file + frame.module), dark);
  }

  amount(value) {
    const { measure } = this.store.state;
    if (measure === "blocks") return `${formatCounted(value, "block")}`;
    return measure === "time" ? formatByteTime(value * this.recording.timeUnit) : formatBytes(value);
  }

  /** True if the search matches the box's call. */
  matches(node) {
    const words = this.store.state.query.toLowerCase().split(/\s+/).filter((word) => word && !/^[<>=]|^0x/.test(word));
    if (!words.length || !node.frame) return true;
    const text = `${node.frame.function} ${node.frame.file} ${node.frame.module}`.toLowerCase();
    return words.some((word) => text.includes(word));
  }

  /** A click makes a call fill the width, and shows its heaviest site in the plot. */
  choose(node, path) {
    this.zoomed = path;
    this.place();
    this.store.set({ site: node.frame && !node.children.size && node.site >= 0 ? node.site : -1 });
  }

  /** Arrow keys move to the neighbouring boxes. */
  key(event) {
    if (!ARROWS.includes(event.key)) return;
    const now = document.activeElement;
    if (!this.chart.contains(now)) return;
    event.preventDefault();
    event.stopPropagation();
    const middle = (box) => parseFloat(box.style.left) + parseFloat(box.style.width) / 2;
    const row = parseFloat(now.style.top);
    const wanted = { ArrowUp: row - LINE, ArrowDown: row + LINE }[event.key] ?? row;
    const side = { ArrowLeft: -1, ArrowRight: 1 }[event.key] ?? 0;
    const next = this.placed.filter((box) => Math.abs(parseFloat(box.style.top) - wanted) < 1 && box !== now &&
      (!side || Math.sign(middle(box) - middle(now)) === side))
      .sort((a, b) => Math.abs(middle(a) - middle(now)) - Math.abs(middle(b) - middle(now)))[0];
    next?.focus();
  }

  values() {
    const rows = sumBy(this.track, this.of, (id) => this.track.blocks.site[id]);
    return {
      columns: ["bytes", "blocks", "byte seconds", "stack, innermost first"],
      rows: rows.sort((a, b) => b.bytes - a.bytes).map((row) =>
        [row.bytes, row.blocks, row.time * this.recording.timeUnit / 1e9,
        this.recording.stacks.stack(row.key).map((frame) =>
          `${frameName(frame)} ${framePlace(frame)}`.trim()).join(" < ")]),
    };
  }
}
