// A bar per step: the highest bytes in it, and what it left behind.

import { element } from "../dom.js";
import { addedBySteps, categoriesOfSteps, stepRows } from "../data/steps.js";
import { alongOf } from "../draw/along.js";
import { byteTicks } from "../draw/axis.js";
import { inks } from "../draw/ink.js";
import { categoryColour, css } from "../draw/palette.js";
import { formatBytes, formatCounted, formatDuration } from "../format.js";
import { Table } from "./table.js";

const LEFT = 74;
const HEIGHT = 118;

export class StepsView {
  static id = "steps";
  static title = "Steps";
  static about = "The peak of each step, and what it kept";
  static absent = "This recording has no steps";
  static fits = ({ notes }) => notes.steps.length > 0;
  needs = ["start", "end", "colour"];

  constructor({ recording, store, goToSpan }, box) {
    Object.assign(this, { recording, store, box, goToSpan });
    this.canvas = element("canvas", { class: "bars", role: "img" });
    this.rest = element("div", { class: "under" });
    box.append(this.canvas, this.rest);
    const bytes = (key, title, about) => ({ key, title, about, number: true, value: (row) => row[key],
      cell: (row) => [(key === "kept" && row[key] > 0 ? "+" : row[key] < 0 ? "−" : "") +
        formatBytes(Math.abs(row[key]))] });
    this.table = new Table(this.rest, {
      label: "Steps", sort: "",
      columns: [
        { key: "index", title: "step", number: true, value: (row) => row.index,
          cell: (row) => [this.table.button(row, row.name || String(row.index), "Select this step")] },
        { key: "start", title: "began", number: true, value: (row) => row.start,
          cell: (row) => [formatDuration(row.start * recording.timeUnit)] },
        { key: "life", title: "took", number: true, value: (row) => row.end - row.start,
          cell: (row) => [formatDuration((row.end - row.start) * recording.timeUnit)] },
        bytes("peak", "peak", "the highest bytes from its beginning to its end"),
        bytes("allocated", "allocated"), bytes("freed", "freed"),
        bytes("kept", "kept", "bytes at its end less bytes at its beginning"),
        bytes("endBytes", "at its end"),
        { key: "site", title: "", value: () => "", cell: () => [] },
      ],
      choose: (row) => goToSpan(row.start, row.end),
      chosen: (row) => store.state.window?.[0] === row.start && store.state.window?.[1] === row.end,
    });
    this.canvas.addEventListener("click", (event) => {
      const row = this.rowAt(event);
      if (row) goToSpan(row.start, row.end);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      const row = this.rowAt(event);
      this.canvas.title = row ? `step ${row.index}: peak ${formatBytes(row.peak)}, kept ${formatBytes(row.kept)}` : "";
    });
  }

  show(track) {
    this.track = track;
    this.made = null;
  }

  draw() {
    if (!this.made) {
      this.made = stepRows(this.track, this.recording.notes);
      this.categories = categoriesOfSteps(this.track, this.recording, this.made);
      this.table.set([...this.made]);
    } else {
      this.table.draw(true);
    }
    this.drawBars();
  }

  rowAt(event) {
    const box = this.canvas.getBoundingClientRect();
    return this.made[Math.floor((event.clientX - box.left - LEFT) / this.bar)];
  }

  drawBars() {
    const rows = this.made;
    const ratio = window.devicePixelRatio || 1;
    const width = this.box.clientWidth;
    Object.assign(this.canvas, { width: Math.round(width * ratio), height: Math.round(HEIGHT * ratio) });
    this.canvas.style.height = HEIGHT + "px";
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, HEIGHT);
    const ink = inks("soft", "line", "area", "peak", "accent", "text");
    const most = rows.reduce((max, row) => Math.max(max, row.peak), 1);
    const y = (bytes) => HEIGHT - 18 - bytes / most * (HEIGHT - 28);
    this.bar = Math.min(Math.max(width - LEFT - 10, 10) / rows.length, 60);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const { value, label } of byteTicks(0, most, 3)) {
      context.fillStyle = ink.line;
      context.fillRect(LEFT, Math.round(y(value)), width - LEFT - 10, 1);
      context.fillStyle = ink.soft;
      context.fillText(label, LEFT - 8, y(value));
    }
    const axis = alongOf(this.track, this.store.state);
    const [start, end] = [this.store.state.start, this.store.state.end].map((place) => axis.timeOf(place));
    const top = rows.findIndex((row) => row.peak === most);
    rows.forEach((row, i) => {
      const x = LEFT + i * this.bar;
      const inSight = row.end > start && row.start < end;
      context.globalAlpha = inSight ? 1 : 0.4;
      const gap = this.bar > 4 ? 1 : 0;
      const width = Math.max(this.bar - gap, 0.5);
      if (this.byCategory()) {
        this.drawCategories(context, this.categories[i], x, width, y);
        context.fillStyle = ink.peak;
        if (i === top) context.fillRect(x, y(row.peak) - 4, width, 3);
      } else {
        context.fillStyle = i === top ? ink.peak : ink.area;
        context.fillRect(x, y(row.peak), width, y(0) - y(row.peak));
      }
      context.fillStyle = ink.text;
      context.fillRect(x, y(row.endBytes) - 1, Math.max(this.bar - gap, 0.5), 2);
    });
    context.globalAlpha = 1;
    context.fillStyle = ink.soft;
    context.textAlign = "center";
    const every = Math.ceil(rows.length / Math.max(width / 60, 1));
    for (let i = every === 1 ? 0 : every - 1; i < rows.length; i += every) {
      context.fillText(String(rows[i].index), LEFT + (i + 0.5) * this.bar, HEIGHT - 8);
    }
    this.canvas.setAttribute("aria-label", this.caption());
  }

  byCategory() {
    return this.categories && this.store.state.colour === "category";
  }

  /** Draws the categories stacked in the header's order; blocks without a category are on top. */
  drawCategories(context, bytes, x, width, y) {
    const { categories } = this.recording;
    let below = 0;
    for (const at of [...bytes.keys()].slice(1).concat(0)) {
      if (!bytes[at]) continue;
      context.fillStyle = css(categoryColour(categories[at], categories, this.store.state.dark));
      context.fillRect(x, y(below + bytes[at]), width, y(below) - y(below + bytes[at]));
      below += bytes[at];
    }
  }

  caption() {
    const rows = this.made ?? [];
    if (!rows.length) return "";
    const top = rows.reduce((best, row) => row.peak > best.peak ? row : best);
    const added = addedBySteps(rows);
    return `${formatCounted(rows.length, "step")}; highest peak ${formatBytes(top.peak)} in step ${top.index}` + (added ?
      `; ${added.bytes < 0 ? "−" : "+"}${formatBytes(Math.abs(added.bytes))} from the first one's end to that of step ${added.index}` : "") +
      `${rows.at(-1).toEnd ? `; step ${rows.at(-1).index} lasts to the recording's end, and has all that was freed there` : ""}. ` +
      `Bar: peak${this.byCategory() ? ", by category; red: the highest" : ", the highest one in red"}; line: left at the end.` + (this.recording.header.step_source === "inferred" ?
      " Nobody marked these steps: they follow from the rhythm of allocations." : "");
  }

  values() {
    return this.table.values();
  }
}
