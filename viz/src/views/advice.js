// Changes that would save memory. A change that is switched on is drawn over the plot, with the curve of its replay.

import { changeOf } from "../data/advice.js";
import { copyText, element } from "../dom.js";
import { formatBytes, formatCounted } from "../format.js";

const MOST_ROWS = 500; // the best come first

export class AdviceView {
  static id = "advice";
  static title = "Advice";
  static about = "Changes to the program that would save memory, drawn over the plot";
  static absent = "No change is shown for this track of this page; memprof advise tries them, also of a part or of another track";
  static fits = ({ header }, index) => header.advice?.track === index && header.advice.changes.length > 0;
  needs = ["change"];

  constructor({ recording, store }, box) {
    Object.assign(this, { recording, store, box });
  }

  show(track) {
    this.track = track;
  }

  draw() {
    const { advice } = this.recording.header;
    if (!advice) return;
    const focused = document.activeElement?.dataset.change;
    this.box.replaceChildren(element("table", { "aria-label": "Changes that would save memory" },
      element("thead", {}, element("tr", {}, ...["", "saves", "peak then", "change"].map((text, i) =>
        element("th", { scope: "col", class: i === 1 || i === 2 ? "number" : null }, text)))),
      element("tbody", {}, ...this.recording.changes.slice(0, MOST_ROWS).map((change, i) => this.row(change, i)))),
      element("p", { class: "soft note" }, this.rest(advice)));
    if (focused) this.box.querySelector(`[data-change="${focused}"]`)?.focus();
  }

  row(change, i) {
    const on = this.store.state.change === i;
    const saves = savingOf(change);
    return element("tr", { class: on ? "chosen" : null },
      element("td", {}, element("button", { type: "button", role: "switch", "aria-checked": String(on), "data-change": i,
        disabled: !change.curve, "aria-label": `${i + 1}: ${change.text}`,
        title: change.curve ? "What would be live with it, over the plot" : "Only the best changes are drawn",
        onclick: () => this.store.set({ change: on ? -1 : i }) }, `${i + 1} ${on ? "on" : "off"}`)),
      element("td", { class: "number" }, element("strong", {}, (change.exact ? "" : "~") + formatBytes(saves.bytes))),
      element("td", { class: "number" }, formatBytes(saves.then), element("div", { class: "soft" }, saves.of)),
      element("td", {}, element("div", {}, change.text), this.code(change.code),
        element("div", { class: "soft" }, [change.cost, knownBy(change)].filter(Boolean).join(". "))));
  }

  code(text) {
    if (!text) return null;
    const copy = element("button", { type: "button", class: "link inline", onclick: async () => {
      copy.textContent = await copyText(text) ? "copied" : "not copied";
    } }, "copy");
    return element("div", {}, element("code", {}, text), " ", copy);
  }

  rest({ settings_tried: tried, reserved_peak_bytes: reserved }) {
    const more = this.recording.changes.length - MOST_ROWS;
    return (more > 0 ? `${formatCounted(more, "change")} more: memprof advise -n 0 has all. ` : "") + "Each is drawn alone, and the plot veils what a change of the program saves; memprof advise --capacity puts changes together." +
      (tried || reserved === null ? "" : " Settings of the allocator were not tried for this page: memprof advise does.");
  }

  caption() {
    const { advice } = this.recording.header;
    if (!advice) return "";
    const { peak_bytes: peak, reserved_peak_bytes: reserved, changes } = advice;
    const change = changeOf(this.recording, this.store.state);
    return `${formatBytes(peak)} allocated at the peak` + (reserved === null ? "" : `, ${formatBytes(reserved)} reserved`) +
      (change ? `; with ${this.store.state.change + 1}, ${formatBytes(savingOf(change).then)} ${savingOf(change).of}`
        : `; ${formatCounted(changes.length, "change")} would lower it`);
  }

  values() {
    return { columns: ["saves", "peak then", "of", "change", "how", "cost", "known"],
      rows: this.recording.changes.map((change) => {
        const saves = savingOf(change);
        return [saves.bytes, saves.then, saves.of, change.text, change.code ?? "", change.cost ?? "", knownBy(change)];
      }) };
  }
}

/** The saving in reserved or in allocated bytes, whichever is larger, as in the reports. */
function savingOf(change) {
  const reserves = change.kind === "allocator" || (change.saved_reserved_bytes ?? 0) > change.saved_bytes;
  return reserves ? { bytes: change.saved_reserved_bytes, then: change.reserved_peak_bytes, of: "reserved" }
    : { bytes: change.saved_bytes, then: change.peak_bytes, of: "allocated" };
}

function knownBy({ exact }) {
  return exact ? "Proved by a replay" : "Replayed, estimated in part";
}
