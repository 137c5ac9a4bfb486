// Who holds the memory: blocks summed by site, or by what the user groups by.

import { element, option } from "../dom.js";
import { css, siteColour } from "../draw/palette.js";
import { GROUPS, groupsFor, groupText } from "../data/group.js";
import { sumBy } from "../data/scope.js";
import { formatBytes, formatByteTime, formatCount, formatShare } from "../format.js";
import { Table } from "./table.js";

export class SitesView {
  static id = "sites";
  static title = "Sites";
  static about = "Who holds the memory, as a table";
  scoped = true;
  needs = ["group"];

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
    return [
      { key: "bytes", title: "bytes", number: true, value: (row) => row.bytes,
        cell: (row) => [this.bar(row), formatBytes(row.bytes)] },
      { key: "share", title: "share", number: true, about: "of all bytes in this table",
        value: (row) => row.bytes / (this.bytes || 1),
        cell: (row) => [formatShare(row.bytes, this.bytes)] },
      { key: "blocks", title: "blocks", number: true, value: (row) => row.blocks,
        cell: (row) => [formatCount(row.blocks)] },
      { key: "time", title: "bytes × time", number: true, about: "each block's bytes times how long it lives",
        value: (row) => row.time * this.recording.timeUnit / 1e9,
          cell: (row) => [formatByteTime(row.time * this.recording.timeUnit)] },
      { key: "site", title: "site", value: (row) => this.nameOf(row), cell: (row) => this.siteCell(row) },
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
    const { name, place } = this.recording.stacks.describe(row.key);
    return place ? `${name} ${place}` : name;
  }

  siteCell(row) {
    const { group, dark } = this.store.state;
    if (group !== "stack") return [this.table.button(row, this.nameOf(row), "Search for it")];
    const { stacks } = this.recording;
    const { name, place, inside } = stacks.describe(row.key);
    const swatch = element("span", { class: "swatch" });
    swatch.style.background = css(siteColour(stacks.hash(row.key), dark));
    return [swatch, this.table.button(row, name, "Show this site's blocks only"), " ",
      element("span", { class: "place" }, place), inside ? element("span", { class: "soft inside" }, inside) : ""];
  }

  /** A group that is not a site is looked for where search can find it. */
  search(row) {
    const { group } = this.store.state;
    const text = { size: "=" + row.key, function: row.key, file: row.key, library: row.key }[group];
    if (text && !/\s/.test(text)) this.store.set({ query: this.store.state.query === text ? "" : text });
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
      const rows = sumBy(this.track, scope, GROUPS[group].key(this.track, this.recording));
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
