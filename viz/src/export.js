// The visible part as a file: the picture as PNG, the view as CSV, its stacks as folded lines.

import { byId, element } from "./dom.js";
import { foldedText } from "./data/flame.js";
import { sumBy } from "./data/scope.js";
import { frameName, framePlace } from "./data/stacks.js";
import { inks } from "./draw/ink.js";

function save(name, blob) {
  const url = URL.createObjectURL(blob);
  const link = element("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

/** A field of CSV. A spreadsheet must not take a name from a recording for a formula. */
export function csvField(value) {
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? "'" + value : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function csvText({ columns, rows }) {
  return [columns, ...rows].map((row) => row.map(csvField).join(",") + "\r\n").join("");
}

export class Exports {
  constructor({ recording, store }, pane, timeline) {
    Object.assign(this, { recording, store, pane, timeline });
    const menu = byId("export");
    const entries = { png: () => this.png(), csv: () => this.csv(), folded: () => this.folded() };
    for (const [name, run] of Object.entries(entries)) {
      byId("export-" + name).addEventListener("click", () => {
        menu.open = false;
        run();
      });
    }
    menu.addEventListener("keydown", (event) => {
      if (event.key === "Escape") menu.open = false;
    });
  }

  name(end) {
    const base = this.recording.header.title.replace(/\.[a-z0-9]+$/i, "").replace(/[^\w.-]+/g, "_") || "memprof";
    return `${base}-${end}`;
  }

  csv() {
    const view = this.pane.view();
    save(this.name(view.constructor.id + ".csv"), new Blob([csvText(view.values())], { type: "text/csv" }));
  }

  folded() {
    const { track, scope } = this.pane;
    const rows = sumBy(track, scope, (id) => track.blocks.site[id]).map((row) => ({ site: row.key, value: row.bytes }));
    const text = foldedText(this.recording.stacks, rows, (frame) => `${frameName(frame)} ${framePlace(frame)}`.trim());
    save(this.name("stacks.folded"), new Blob([text], { type: "text/plain" }));
  }

  png() {
    const over = byId("over");
    const picture = byId("picture");
    const box = byId("plot").getBoundingClientRect();
    const inner = picture.getBoundingClientRect();
    const ratio = over.width / box.width;
    const canvas = element("canvas", { width: over.width, height: over.height });
    const context = canvas.getContext("2d");
    context.fillStyle = inks("panel").panel;
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(picture, (inner.left - box.left) * ratio, (inner.top - box.top) * ratio,
      inner.width * ratio, inner.height * ratio);
    context.drawImage(over, 0, 0);
    canvas.toBlob((blob) => save(this.name("timeline.png"), blob), "image/png");
  }
}
