// The recording in words: the program, its memory, and the gaps.

import { element } from "../dom.js";
import { cutWords } from "../data/cut.js";
import { sumBy } from "../data/scope.js";
import { stepRows } from "../data/steps.js";
import { formatBytes, formatCount, formatCounted, formatDuration, formatExact, formatShare } from "../format.js";

export class SummaryView {
  static id = "summary";
  static title = "Summary";
  static about = "The recording in words, with its coverage";
  needs = [];

  constructor({ recording, store, goToPeak, goToEnd, goToSpan, changeTrack }, box) {
    Object.assign(this, { recording, store, box, goToPeak, goToEnd, goToSpan, changeTrack });
  }

  show(track) {
    this.track = track;
    this.made = false;
  }

  link(text, go) {
    return element("button", { type: "button", class: "link inline", onclick: go }, text);
  }

  draw() {
    if (this.made) return;
    this.made = true;
    this.box.replaceChildren(
      this.part("The peak", this.peak()), this.part("Leaks", this.leaks()), this.part("At the end", this.end()), this.part("Steps", this.steps()),
      ...this.recording.header.device_use.map((use) => this.part(`What ${use.id} was used for`, this.deviceUse(use))),
      this.part("Tracks", this.tracks()), this.part("What was recorded", this.process()),
      this.part("What this recording could see", this.coverage()));
  }

  part(title, content) {
    return content && element("section", {}, element("h3", {}, title), ...content);
  }

  peak() {
    const { track, recording } = this;
    const ids = track.side.seek(track.peak.event).ids();
    const rows = sumBy(track, { ids, from: recording.from, to: recording.to }, (id) => track.blocks.site[id])
      .sort((a, b) => b.bytes - a.bytes);
    const line = (row) => {
      const { name, place, inside } = recording.stacks.describe(row.key);
      return element("li", {}, this.link(`${name} ${place}`,
        () => this.store.set({ site: row.key, view: "sites", of: "peak" })),
        ` ${formatBytes(row.bytes)}, ${formatShare(row.bytes, track.peak.bytes)}, ${formatCounted(row.blocks, "block")}`,
        inside ? element("span", { class: "soft inside" }, inside) : "");
    };
    return [element("p", {}, this.link(formatExact(track.peak.bytes), this.goToPeak),
      ` on ${track.info.id}${recording.timeless ? "" : ` at ${formatDuration(track.info.peak_ns)}`}, in ${formatCounted(ids.length, "block")} of ` +
      `${formatCounted(rows.length, "site")}. Most of it:`), element("ol", {}, ...rows.slice(0, 3).map(line))];
  }

  end() {
    const { end } = this.track;
    return [element("p", {}, this.link(formatExact(end.bytes), this.goToEnd),
      ` in ${formatCounted(end.blocks, "block")} were live when the recording ended.`)];
  }

  /** The verdict of `memprof leaks`, in short: the page's Leaks view has the rest. */
  leaks() {
    const { verdict, reason, findings } = this.recording.header.leaks;
    const { stacks } = this.recording;
    const leaks = findings.filter((one) => one.leak);
    const rest = () => this.link("What grows", () => this.store.set({ view: "growth" }));
    if (!leaks.length) {
      return [element("p", {}, verdict === "clean" ? "None: no site keeps growing. " : `Not known: ${reason}. `, rest())];
    }
    const line = (one) => {
      const { name, place } = stacks.describe(one.site);
      return element("li", {}, element("strong", { class: "leak" }, `+${formatBytes(one.bytes_per_step)} a step`),
        ` since step ${one.first_step}, ${formatBytes(one.bytes)} by now: `, ...this.leakSite(one, `${name} ${place}`),
        ...this.heldBy(one.holders[0]));
    };
    return [element("ol", {}, ...leaks.slice(0, 3).map(line)), element("p", {},
      leaks.length > 3 ? `and ${formatCounted(leaks.length - 3, "more leak")}. ` : "", rest())];
  }

  /** A link to the leaking site, if its track is the one shown. */
  leakSite({ track, site }, text) {
    if (track !== this.store.state.track) return [`${text} on ${this.recording.header.tracks[track].id}`];
    return [this.link(text, () => this.store.set({ view: "growth", site }))];
  }

  /** The first of a leak's holders, and advice about it. */
  heldBy(holder) {
    if (!holder?.certain) return [];
    const { path, file, line, advice } = holder;
    const at = file === null ? "" : ` (${file.split("/").at(-1)}:${line})`;
    return [", held by ", element("strong", {}, path), at,
      element("span", { class: "soft" }, advice === null ? "" : `  ${advice}`)];
  }

  steps() {
    const { notes } = this.recording;
    if (!notes.steps.length) return null;
    const rows = stepRows(this.track, notes);
    if (!rows.length) return null;
    const top = rows.reduce((best, row) => row.peak > best.peak ? row : best);
    return [element("p", {}, `${formatCounted(rows.length, "step")}; the highest peak, ${formatBytes(top.peak)}, is in `,
      this.link(top.name || `step ${top.index}`, () => this.goToSpan(top.start, top.end)), ".")];
  }

  tracks() {
    return [element("table", {}, element("thead", {},
      element("tr", {}, ...["track", "peak", "at the end", "reserved, peak",
      "capacity", "blocks", "events"].map((name) => element("th", { scope: "col" }, name)))),
    element("tbody", {}, ...this.recording.header.tracks.map((info, i) => element("tr", {},
      element("td", {}, this.link(info.id, () => this.changeTrack(i))),
      ...[formatBytes(info.peak_bytes), formatBytes(info.end_bytes), info.reserved_peak_bytes, info.capacity_bytes]
        .map((value) => element("td", { class: "number" }, typeof value === "string" ? value :
          value === null ? "not known" : formatBytes(value))),
      element("td", { class: "number" }, formatCount(info.blocks)),
        element("td", { class: "number" }, formatCount(info.events))))))];
  }

  /** A device's bytes in use, by part, at the moment when this process had most of them. */
  deviceUse({ at_ns: at, in_use_bytes: inUse, handed_out_bytes: handedOut, parts }) {
    const all = inUse ?? handedOut;
    return [element("p", {}, `${formatBytes(all)} ${inUse === null ? "handed out by the driver" : "in use"} at ` +
      `${formatDuration(at)}, ${inUse === null ? "the most; what else is in use there is not known" :
        "when this process had most of it"}:`),
    element("ul", {}, ...parts.map(({ name, bytes }) => element("li", {}, `${name}: ${formatBytes(bytes)}, ` +
      formatShare(bytes, all))))];
  }

  process() {
    const { header } = this.recording;
    const rows = [["command", header.command.join(" ")], ["host", header.host], ["process", header.pid || null],
      ["began", header.start_unix_ms ? new Date(header.start_unix_ms).toLocaleString() : null],
      ["took", this.recording.timeless ? null : formatDuration(header.duration_ns)], ["ended", header.exit]].filter(([, value]) => value);
    return [element("dl", {}, ...rows.flatMap(([name, value]) =>
      [element("dt", {}, name), element("dd", {}, String(value))]))];
  }

  coverage() {
    const { header } = this.recording;
    const { coverage } = header;
    const cut = cutWords(this.recording);
    const blocks = header.tracks.reduce((sum, info) => sum + info.blocks, 0);
    const unknown = header.tracks.reduce((sum, info) => sum + info.unknown_blocks, 0);
    const facts = [
      coverage.complete ? "The recording is complete." : "The recording is not complete.",
      ...(cut.length ? cut : [`All ${formatCounted(blocks, "block")} that it holds are in this page, none left out.`]),
      coverage.dropped ? `${formatCounted(coverage.dropped, "event")} were dropped while recording.` : "",
      unknown ? `${formatCounted(unknown, "block")} have no known size; they count as 0 bytes.` : "",
      coverage.truncated_stacks ? `${formatCount(coverage.truncated_stacks)} stacks are cut.` : "",
      coverage.lost_file_bytes ? `${formatBytes(coverage.lost_file_bytes)} of the file are lost.` : "",
      coverage.unattributed_bytes
        ? `${formatBytes(coverage.unattributed_bytes)} in use on the device are not accounted for.` : "",
      coverage.sources.length ? `Listened to: ${coverage.sources.map((source) => source.name ?? source).join(", ")}.` :
        "",
      ...coverage.notes,
    ].filter(Boolean);
    return [element("ul", {}, ...facts.map((fact) => element("li", {}, fact)))];
  }

  caption() {
    return "";
  }

  values() {
    return {
      columns: ["track", "peak bytes", "peak ns", "end bytes", "blocks", "events"],
      rows: this.recording.header.tracks.map((info) =>
        [info.id, info.peak_bytes, info.peak_ns, info.end_bytes, info.blocks, info.events]),
    };
  }
}
