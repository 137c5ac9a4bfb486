// The parts of the peak, in short: by category, by module, and the site that holds most.

import { element } from "../dom.js";
import { GROUPS } from "../data/group.js";
import { naturesOf } from "../data/nature.js";
import { sumBy } from "../data/scope.js";
import { sitesAt } from "../data/sites.js";
import { COLOURS } from "../draw/colour_by.js";
import { css } from "../draw/palette.js";
import { formatBytes, formatCounted, formatShare } from "../format.js";

const MOST = 6; // rows of a part
const PARTS = ["category", "modules", "region"];

export class PeakPart {
  constructor(recording, store) {
    Object.assign(this, { recording, store });
  }

  show(track) {
    this.track = track;
    const { rows } = sitesAt(track, track.peak.event);
    this.heaviest = rows.find(({ site }) => this.recording.stacks.headline[site]) ?? rows[0];
    this.isMost = this.heaviest === rows[0];
  }

  /** The words about the site that holds most at the peak: its line, and its blocks' category and module. */
  heaviestWords() {
    const { heaviest, track } = this;
    return {
      title: this.isMost ? "Holds most at the peak" : "Holds most at the peak, of what has a stack",
      text: `${formatBytes(heaviest.bytes)} of ${formatBytes(track.peak.bytes)} in ` +
        formatCounted(heaviest.blocks, "block"),
    };
  }

  /** The category of a site's blocks at the peak; of all its blocks if none is live then. */
  natureOf(site) {
    const { site: sites } = this.track.blocks;
    const of = (ids) => naturesOf(this.track, this.recording, ids, () => 0).get(0);
    const held = of(this.ids().filter((id) => sites[id] === site));
    if (held) return held;
    const all = [];
    for (let id = sites.indexOf(site); id >= 0; id = sites.indexOf(site, id + 1)) all.push(id);
    return of(all);
  }

  ids() {
    return this.track.side.seek(this.track.peak.event).ids();
  }

  /** Bars by category and by module, or by region if the recording has neither. */
  parts() {
    const { recording } = this;
    const fitting = PARTS.filter((group) => GROUPS[group].fits(recording));
    return fitting.filter((group) => group !== "region" || fitting.length === 1).map((group) => this.part(group));
  }

  part(group) {
    const { track, recording, store } = this;
    const scope = { ids: this.ids(), from: track.from, to: track.to };
    const rows = sumBy(track, scope, GROUPS[group].key(track, recording)).sort((a, b) => b.bytes - a.bytes);
    const { dark } = store.state;
    const line = ({ key, bytes }) => {
      const bar = element("span", { class: "bar" });
      bar.style.width = 100 * bytes / (rows[0].bytes || 1) + "%";
      bar.style.background = css(COLOURS[group].colourOf(key, recording, dark, track));
      return element("tr", {},
        element("td", { class: "name", title: key }, element("button", { type: "button", class: "link",
          onclick: () => this.choose(group) }, key)),
        element("td", { class: "number" }, formatBytes(bytes)),
        element("td", { class: "number soft" }, formatShare(bytes, track.peak.bytes)),
        element("td", {}, element("span", { class: "bar-box" }, bar)));
    };
    const rest = rows.slice(MOST);
    return element("table", { class: "made-of", "aria-label": `The peak by ${GROUPS[group].name}` },
      element("caption", {}, `The peak by ${GROUPS[group].name}`),
      element("tbody", {}, ...rows.slice(0, MOST).map(line)),
      rest.length ? element("tfoot", {}, element("tr", {}, element("td", { class: "soft" }, `${rest.length} more`),
        element("td", { class: "number soft" }, formatBytes(rest.reduce((sum, row) => sum + row.bytes, 0))))) : "");
  }

  /** Sets the plot's colours and the table to this grouping. */
  choose(group) {
    this.store.set({ colour: group, group, view: "sites", of: "peak" });
  }
}
