// Who held the memory at the peak: a table of sites.

import { byId, element } from "../dom.js";
import { css, siteColour } from "../draw/palette.js";
import { sitesAt } from "../data/sites.js";
import { formatBytes, formatCount, formatDuration, formatShare } from "../format.js";

const ROWS = 20;

export class SiteTable {
  constructor(recording, store) {
    this.recording = recording;
    this.store = store;
    this.head = byId("sites-title");
    this.body = byId("sites-body");
    this.more = byId("sites-more");
    this.order = "bytes";
    this.rows = ROWS;
    this.more.addEventListener("click", () => {
      this.rows *= 5;
      this.draw();
    });
    for (const button of document.querySelectorAll("#sites th button")) {
      button.addEventListener("click", () => this.sort(button.dataset.key));
    }
    store.subscribe((state, changed) => {
      if (changed.has("site") || changed.has("dark")) this.draw();
    });
  }

  show(track) {
    this.track = track;
    this.found = sitesAt(track, track.peak.event);
    this.rows = ROWS;
    this.draw();
  }

  sort(key) {
    this.order = key;
    const less = { bytes: (a, b) => b.bytes - a.bytes, blocks: (a, b) => b.blocks - a.blocks }[key];
    this.found.rows.sort((a, b) => less(a, b) || a.site - b.site);
    this.draw();
  }

  draw() {
    if (!this.found) return;
    const { rows, bytes, blocks } = this.found;
    this.head.textContent = `At the peak: ${formatBytes(bytes)} in ${formatCount(blocks)} blocks of ` +
      `${formatCount(rows.length)} sites, at ${formatDuration(this.track.info.peak_ns)}`;
    for (const button of document.querySelectorAll("#sites th button")) {
      button.closest("th").setAttribute("aria-sort", button.dataset.key === this.order ? "descending" : "none");
    }
    const most = rows.reduce((max, row) => Math.max(max, row.bytes), 1);
    this.body.replaceChildren(...rows.slice(0, this.rows).map((row) => this.row(row, bytes, most)));
    const rest = rows.slice(this.rows);
    this.more.hidden = !rest.length;
    const restBytes = rest.reduce((sum, row) => sum + row.bytes, 0);
    this.more.textContent = `Show more: ${formatCount(rest.length)} sites hold another ${formatBytes(restBytes)}`;
  }

  row(row, total, most) {
    const { stacks } = this.recording;
    const { site, dark } = this.store.state;
    const { name, place, inside } = stacks.describe(row.site);
    const swatch = element("span", { class: "swatch" });
    swatch.style.background = css(siteColour(stacks.hash(row.site), dark));
    const bar = element("span", { class: "bar" });
    bar.style.width = 100 * row.bytes / most + "%";
    const chosen = site === row.site;
    const toggle = () => this.store.set({ site: this.store.state.site === row.site ? -1 : row.site });
    return element("tr", { class: chosen ? "chosen" : null, onclick: toggle, "data-site": row.site },
      element("td", { class: "number" }, element("span", { class: "bar-box" }, bar), formatBytes(row.bytes)),
      element("td", { class: "number" }, formatShare(row.bytes, total)),
      element("td", { class: "number" }, formatCount(row.blocks)),
      element("td", { class: "site" }, swatch,
        element("button", {
          type: "button", class: "link", "aria-pressed": String(chosen), title: "Show this site's blocks only",
          onclick: (event) => { event.stopPropagation(); toggle(); },
        }, name), " ", element("span", { class: "place" }, place),
        inside ? element("span", { class: "soft inside" }, inside) : null));
  }
}
