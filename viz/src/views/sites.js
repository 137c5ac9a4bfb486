// Which sites hold the memory: blocks summed by site, or by the user's grouping.

import { element, option } from "../dom.js";
import { GROUPS, groupsFor, groupText } from "../data/group.js";
import { naturesOf } from "../data/nature.js";
import { sumBy } from "../data/scope.js";
import { apart } from "../data/sites.js";
import { framePlace, shortName } from "../data/stacks.js";
import { blockColour } from "../draw/colour_by.js";
import { css } from "../draw/palette.js";
import { formatBytes, formatByteTime, formatCount, formatShare } from "../format.js";
import { Table } from "./table.js";

const MOST_APART = 1000; // most sites that are distinguished from others of the same name

export class SitesView {
  static id = "sites";
  static title = "Sites";
  static about = "Who holds the memory, as a table";
  scoped = true;
  needs = ["group", "colour"];

  constructor({ recording, store }, box) {
    Object.assign(this, { recording, store, box });
    this.group = element("select", { id: "group", title: "What one row is", onchange: () =>
      store.set({ group: this.group.value }) },
        ...groupsFor(recording).map((name) => option(name, "by " + GROUPS[name].name)));
    this.table = new Table(box, {
      label: "Sites", sort: "bytes", columns: this.columns(),
      choose: (row) => {
        if (store.state.group === "stack") store.set({ site: store.state.site === row.key ? -1 : row.key });
        else this.search(row);
      },
      chosen: (row) => store.state.group === "stack" && store.state.site === row.key,
    });
  }

  columns() {
    const { group } = this.store.state;
    const categories = group !== "category" && this.recording.categories.length > 1;
    return [
      { key: "bytes", title: "bytes", number: true, value: (row) => row.bytes,
        cell: (row) => [this.bar(row), formatBytes(row.bytes)] },
      { key: "share", title: "share", number: true, about: "of all bytes in this table",
        value: (row) => row.bytes / (this.bytes || 1),
        cell: (row) => [formatShare(row.bytes, this.bytes)] },
      { key: "blocks", title: "blocks", number: true, value: (row) => row.blocks,
        cell: (row) => [formatCount(row.blocks)] },
      ...this.recording.timeless ? [] : [{ key: "time", title: "bytes × time", number: true,
          about: "each block's bytes times how long it lives",
        value: (row) => row.time * this.recording.timeUnit / 1e9,
          cell: (row) => [formatByteTime(row.time * this.recording.timeUnit)] }],
      ...categories ? [{ key: "category", title: "category", value: (row) => row.category ?? "",
        cell: (row) => [row.category ?? ""] }] : [],
      { key: "site", title: group === "stack" ? "site" : GROUPS[group].name, value: (row) => this.nameOf(row), cell: (row) => this.siteCell(row) },
    ];
  }

  bar(row) {
    const bar = element("span", { class: "bar" });
    bar.style.width = 100 * row.bytes / this.most + "%";
    return element("span", { class: "bar-box" }, bar);
  }

  nameOf(row) {
    const { group } = this.store.state;
    if (group !== "stack") return groupText(group, row.key, this.recording);
    const { name, place, backward } = this.recording.stacks.describe(row.key);
    return [backward, name, place, row.module].filter(Boolean).join(" ");
  }

  siteCell(row) {
    const { group, colour } = this.store.state;
    if (group !== "stack") {
      return [group === colour ? this.swatch(row) : "", this.table.button(row, this.nameOf(row), "Search for it")];
    }
    const { stacks } = this.recording;
    const { name, place, inside, backward } = stacks.describe(row.key);
    return [this.swatch(row), backward ? element("span", { class: "backward" }, backward + " ") : "",
      this.table.button(row, name, "Show this site's blocks only"), " ",
      element("span", { class: "place" }, place),
      row.module ? element("span", { class: "module" }, row.module) : "",
      inside ? element("span", { class: "soft inside" }, inside) : "", this.apartCell(row)];
  }

  /** The colour of a row's largest block. */
  swatch(row) {
    const swatch = element("span", { class: "swatch" });
    swatch.style.background = css(blockColour(this.track, this.recording, this.store.state, row.largest));
    return swatch;
  }

  /** For a site with another's name: the call in which they differ. */
  apartCell(row) {
    const frame = this.apart.get(row.key);
    return frame ? element("span", { class: "soft inside" },
      `via ${shortName(frame)} ${frame.file ? framePlace(frame) : ""}`) : "";
  }

  /** Searches for a group that is not a site, if the search supports that grouping. */
  search(row) {
    const { group } = this.store.state;
    const word = { function: 1, file: 1, library: 1, module: 1, modules: 1, category: 1 }[group];
    const key = String(row.key).replace(/^backward of /, "");
    const text = group === "size" ? "=" + key : !word || key.startsWith("(") ? "" : /\s/.test(key) ? `"${key}"` : key;
    if (text) this.store.set({ query: this.store.state.query === text ? "" : text });
  }

  controls() {
    return [this.group];
  }

  show(track) {
    this.track = track;
    this.box.scrollTop = 0;
  }

  draw(scope) {
    const { group } = this.store.state;
    this.group.value = group;
    const key = `${group} ${this.track.info.id}`;
    if (this.of !== scope || this.by !== key) {
      this.table.columns = this.columns();
      this.table.drawHead();
      const keyOf = GROUPS[group].key(this.track, this.recording);
      const rows = sumBy(this.track, scope, keyOf);
      const natures = naturesOf(this.track, this.recording, scope.ids, keyOf);
      for (const row of rows) Object.assign(row, natures.get(row.key));
      const first = rows.slice(0, MOST_APART).map((row) => row.key);
      this.apart = group === "stack" ? apart(this.recording.stacks, first) : null;
      for (const row of rows) row.order = Number(row.key) || 0;
      [this.of, this.by, this.bytes] = [scope, key, scope.bytes];
      this.most = rows.reduce((most, row) => Math.max(most, row.bytes), 1);
      this.table.set(rows);
    } else {
      this.table.draw(true);
    }
  }

  values() {
    return this.table.values();
  }
}
