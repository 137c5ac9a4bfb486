// The line of figures under the title.

import { byId, element } from "../dom.js";
import { formatBytes, formatCount, formatDuration } from "../format.js";

function tile(name, value, note, go) {
  const inner = [element("span", { class: "tile-name" }, name), element("strong", {}, value),
    element("span", { class: "soft" }, note)];
  return go ? element("button", { type: "button", class: "tile", onclick: go }, ...inner)
    : element("div", { class: "tile" }, ...inner);
}

/** What a recording could and could not see, in a few words and in full. */
export function coverageWords(header) {
  const { coverage } = header;
  const facts = [];
  if (coverage.cut) facts.push("the file is cut");
  if (coverage.lost_file_bytes) facts.push(`${formatBytes(coverage.lost_file_bytes)} of the file are damaged`);
  if (coverage.dropped) facts.push(`${formatCount(coverage.dropped)} events dropped`);
  if (coverage.unknown_frees) facts.push(`${formatCount(coverage.unknown_frees)} frees of blocks never seen`);
  if (coverage.missed_frees) facts.push(`${formatCount(coverage.missed_frees)} frees missed`);
  if (coverage.truncated_stacks) facts.push(`${formatCount(coverage.truncated_stacks)} stacks cut`);
  return { complete: coverage.complete, facts, notes: coverage.notes };
}

export function drawTiles(recording, track, goToPeak, goToEnd) {
  const { header } = recording;
  const { info } = track;
  const coverage = coverageWords(header);
  const reserved = info.reserved_peak_bytes;
  byId("tiles").replaceChildren(...[
    tile("peak", formatBytes(track.peak.bytes), `at ${formatDuration(info.peak_ns)}`, goToPeak),
    tile("at the end", formatBytes(track.end.bytes), `${formatCount(track.end.blocks)} blocks`, goToEnd),
    reserved === null ? null : tile("reserved, peak", formatBytes(reserved),
      `${formatBytes(Math.max(reserved - track.peak.bytes, 0))} over`),
    tile("duration", formatDuration(header.duration_ns), header.exit),
    tile("blocks", formatCount(info.blocks), `${formatCount(info.events)} events`),
    tile("recording", coverage.complete ? "complete" : "not complete",
      [...coverage.facts, ...coverage.notes].join("; ")),
  ].filter(Boolean));
  byId("tiles").lastElementChild.classList.toggle("warn", !coverage.complete);
}
