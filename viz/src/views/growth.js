// Growth: each site's live bytes over time. Sites with blocks from the most steps come first.

import { byId, element } from "../dom.js";
import { growthRows, liveCurves } from "../data/growth.js";
import { css, siteColour } from "../draw/palette.js";
import { formatBytes, formatCount, formatCounted, formatDuration } from "../format.js";
import { Table } from "./table.js";

const POINTS = 120;
const CURVES = 200; // most sites with a chart

export class GrowthView {
  static id = "growth";
  static title = "Leaks";
  static about = "What keeps growing, and what was never freed";
  needs = ["colour"];

  constructor({ recording, store }, box) {
    Object.assign(this, { recording, store, box });
    this.findings = element("div", { class: "findings" });
    box.append(this.findings);
    this.table = new Table(box, {
      label: "Growth", sort: "",
      columns: [
        { key: "births", title: "born in", number: true, value: (row) => row.births,
          cell: (row) => [formatCount(row.births)],
          about: recording.notes.steps.length ? "distinct steps in which these blocks were allocated"
            : "distinct parts, of 64 equal ones, of the recording in which these blocks were allocated" },
        { key: "bytes", title: "bytes", number: true, value: (row) => row.bytes,
          cell: (row) => [formatBytes(row.bytes)] },
        { key: "blocks", title: "blocks", number: true, value: (row) => row.blocks,
          cell: (row) => [formatCount(row.blocks)] },
        { key: "chart", title: "live bytes over time", value: (row) => row.bytes, cell: (row) => [this.chart(row)] },
        { key: "end", title: "at the end", number: true, value: (row) => this.endOf(row),
          cell: (row) => [row.order < CURVES ? formatBytes(this.endOf(row)) : ""] },
        { key: "site", title: "site", value: (row) => recording.stacks.describe(row.site).name,
          cell: (row) => this.siteCell(row) },
      ],
      choose: (row) => store.set({ site: store.state.site === row.site ? -1 : row.site }),
      chosen: (row) => store.state.site === row.site,
    });
  }

  endOf(row) {
    return this.curves.get(row.site)?.at(-1) ?? 0;
  }

  show(track) {
    this.track = track;
    this.made = null;
  }

  draw() {
    if (!this.made) {
      this.drawFindings();
      this.made = growthRows(this.track, this.recording, this.track.info.growth_events - 1);
      this.made.forEach((row, i) => { row.order = i; });
      this.curves = liveCurves(this.track, this.made.slice(0, CURVES).map((row) => row.site), POINTS);
      this.table.set([...this.made]);
    } else {
      this.table.draw(true);
    }
  }

  /** The verdict of `memprof leaks`, every track included. */
  drawFindings() {
    const { verdict, reason, findings } = this.recording.header.leaks;
    const words = { clean: "Clean: no site keeps growing", leak: "", unknown: `Not known: ${reason}` }[verdict] ?? "";
    this.findings.replaceChildren(...(words ? [element("p", {}, words)] : []),
      ...findings.map((one) => this.finding(one)));
  }

  finding({ track, site, class: kind, advice, leak, certain, bytes, blocks, bytes_per_step: perStep, first_step: first,
    steps_left: left, holders }) {
    const { stacks, header } = this.recording;
    const { name, place } = stacks.describe(site);
    const here = track === this.store.state.track;
    const verdict = leak ? (certain ? "certain leak" : "probable leak") : "no leak";
    return element("div", { class: leak ? "finding leak" : "finding" },
      element("strong", {}, `+${formatBytes(perStep)} a step`), ` since step ${first}, ${formatBytes(bytes)} in ` +
        `${formatCounted(blocks, "block")} now` +
          (left === null ? "" : `; out of memory in about ${formatCounted(left, "step")}`) + "  ",
      element("button", { type: "button", class: "link inline", disabled: !here,
        onclick: () => this.store.set({ site }) },
        `${name} ${place}`), here ? "" : ` on ${header.tracks[track].id}`,
      ...holders.map((one, i) => this.holder(one, holders.slice(0, i).every(({ advice }) => advice !== one.advice))),
      element("div", { class: "soft" }, `${verdict}, ${kind.replaceAll("_", " ")}: ${advice}`));
  }

  /** @param {boolean} fresh whether its advice has not been given yet */
  holder({ path, kind, certain, blocks, file, line, advice }, fresh) {
    const lead = certain ? "held by " : kind === "unknown" ? "holder " : "probably held by ";
    const at = file === null ? "" : ` (${file.split("/").at(-1)}:${line})`;
    return element("div", {}, lead, element("strong", {}, path), `${at}, ${formatCounted(blocks, "block")}`,
      element("span", { class: "soft" }, advice === null || !fresh ? "" : `  ${advice}`));
  }

  siteCell(row) {
    const { stacks } = this.recording;
    const { name, place } = stacks.describe(row.site);
    const swatch = element("span", { class: "swatch", hidden: this.store.state.colour !== "site" });
    swatch.style.background = css(siteColour(stacks.hash(row.site), this.store.state.dark));
    return [swatch, this.table.button(row, name, "Show this site's blocks only"), " ",
      element("span", { class: "place" }, place)];
  }

  chart(row) {
    const curve = this.curves.get(row.site);
    if (!curve) return element("span");
    const most = Math.max(...curve, 1);
    const points = [...curve].map((bytes, i) => `${i * 2},${20 - bytes / most * 19}`).join(" ");
    const chart = byId("spark").content.firstElementChild.cloneNode(true);
    chart.setAttribute("aria-label",
      `from ${formatBytes(curve[0])} to ${formatBytes(curve.at(-1))}, at most ${formatBytes(most)}`);
    chart.children[0].setAttribute("points", `0,21 ${points} 238,21`);
    chart.children[1].setAttribute("points", points);
    return chart;
  }

  caption() {
    const { track, recording } = this;
    if (!this.made) return "";
    const at = track.info.growth_events ? track.time[track.info.growth_events - 1] : track.from;
    const bytes = this.made.reduce((sum, row) => sum + row.bytes, 0);
    const blocks = this.made.reduce((sum, row) => sum + row.blocks, 0);
    const moment = formatDuration(at * recording.timeUnit);
    const held = blocks ? `${formatBytes(bytes)} in ${formatCounted(blocks, "block")} held at ${moment}, when blocks of most ` +
      "ages were live" : `Nothing was held at ${moment}`;
    return `${held}; ${formatBytes(track.end.bytes)} outstanding at the end`;
  }

  values() {
    return this.table.values();
  }
}
