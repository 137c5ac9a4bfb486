// The line of figures under the title.

import { cutWords } from "../data/cut.js";
import { byId, element } from "../dom.js";
import { formatBytes, formatCount, formatCounted, formatDuration } from "../format.js";

function tile(name, value, note, go, warn = false) {
  const inner = [element("span", { class: "tile-name" }, name), element("strong", {}, value),
    element("span", { class: "soft" }, note)];
  const look = warn ? "tile warn" : "tile";
  return go ? element("button", { type: "button", class: look, onclick: go }, ...inner)
    : element("div", { class: look }, ...inner);
}

/** Gaps of the recording, in the words of the reports. */
function drawNotes({ complete, notes }) {
  const box = byId("notes");
  box.hidden = !notes.length;
  box.open = !complete;
  box.classList.toggle("warn", !complete);
  box.replaceChildren(
    element("summary", {}, notes.length === 1 ? "1 note on this recording" : `${notes.length} notes on this recording`),
    element("ul", {}, ...notes.map((note) => element("li", {}, note))));
}

export function drawTiles(recording, track, { store, goToPeak, goToEnd }) {
  const { header } = recording;
  const { info, peak } = track;
  const reserved = info.reserved_peak_bytes;
  const step = peak.event < 0 ? undefined : recording.notes.stepAt(track.time[peak.event]);
  byId("tiles").replaceChildren(...[
    tile("peak", formatBytes(peak.bytes),
      [recording.timeless ? "" : `at ${formatDuration(info.peak_ns)}`, step ? step.name || "step " + step.index : ""]
        .filter(Boolean).join(", "), goToPeak),
    tile("at the end", formatBytes(track.end.bytes), `${formatCounted(track.end.blocks, "block")}`, goToEnd),
    reserved === null ? null : tile("reserved, peak", formatBytes(reserved),
      `${formatBytes(Math.max(reserved - peak.bytes, 0))} over`),
    ...recording.samples.filter(({ device, name }) => name === "device, in use" && info.id.startsWith(device + "/"))
      .map(({ most }) => tile("device, peak", formatBytes(most),
        info.capacity_bytes ? `of ${formatBytes(info.capacity_bytes)}` : "in use by everybody")),
    tile("leaks", header.leaks.verdict === "unknown" ? "unknown" : String(header.leaks.count), "",
      () => store.set({ view: "growth" }), header.leaks.count > 0),
    recording.timeless ? null : tile("duration", formatDuration(header.duration_ns), header.exit),
    tile("blocks", formatCount(info.blocks), `${formatCounted(info.events, "event")}`),
    tile("recording", header.coverage.complete ? "complete" : "not complete", "", () => store.set({ view: "summary" }),
      !header.coverage.complete),
  ].filter(Boolean));
  drawNotes(header.coverage);
  const cut = cutWords(recording);
  byId("cut").hidden = !cut.length;
  byId("cut").textContent = cut.join(" ");
}
