// A table of any length. It is a real table element, but only the visible rows are made.

import { element } from "../dom.js";

const ROW = 27; // pixels, as in style.css
const SPARE = 8; // rows above and below

/**
 * @typedef {object} Column
 * @property {string} key
 * @property {string} title "" if the table cannot be sorted by it
 * @property {boolean} [number]
 * @property {string} [about]
 * @property {function(object): (number|string)} value for sorting and CSV
 * @property {function(object): (Node|string)[]} cell
 */
export class Table {
  /**
   * @param {HTMLElement} box an element that scrolls and is positioned; its other contents are above the table
   * @param {{columns: Column[], label: string, sort: string, choose: function(object): void, chosen: function(object):
   *        boolean}} how
   */
  constructor(box, how) {
    Object.assign(this, { box, rows: [], ...how });
    this.down = true;
    this.head = element("tr");
    this.body = element("tbody");
    this.table = element("table", { "aria-label": this.label }, element("thead", {}, this.head), this.body);
    box.append(this.table);
    box.addEventListener("scroll", () => this.draw());
    this.body.addEventListener("keydown", (event) => this.key(event));
    this.drawHead();
  }

  drawHead() {
    this.head.replaceChildren(...this.columns.map((column) => {
      const sorted = column.key === this.sort;
      return element("th", {
        scope: "col", class: column.number ? "number" : null, title: column.about,
        "aria-sort": !column.title ? null : sorted ? (this.down ? "descending" : "ascending") : "none",
      }, column.title && element("button",
        { type: "button", "data-key": column.key, onclick: () => this.sortBy(column.key) },
        column.title));
    }));
  }

  sortBy(key) {
    const column = this.columns.find((one) => one.key === key);
    this.down = this.sort === key ? !this.down : Boolean(column.number);
    this.sort = key;
    this.drawHead();
    this.set(this.rows);
    this.head.querySelector(`[data-key="${key}"]`).focus();
  }

  set(rows) {
    const column = this.columns.find((one) => one.key === this.sort);
    const sign = this.down ? -1 : 1;
    if (column) {
      const values = new Map(rows.map((row) => [row, column.value(row)]));
      rows.sort((a, b) => {
        const [x, y] = [values.get(a), values.get(b)];
        return sign * (x < y ? -1 : x > y ? 1 : 0) || (a.order ?? 0) - (b.order ?? 0);
      });
    }
    this.rows = rows;
    this.table.setAttribute("aria-rowcount", String(rows.length + 1));
    this.draw(true);
  }

  draw(anew) {
    const first = Math.max(Math.floor((this.box.scrollTop - this.table.offsetTop) / ROW) - SPARE, 0);
    const last = Math.min(first + Math.ceil((this.box.clientHeight || 400) / ROW) + 2 * SPARE, this.rows.length);
    if (!anew && first === this.first && last === this.last) return;
    const focused = this.body.contains(document.activeElement) ?
      Number(document.activeElement.closest("tr").dataset.index) : -1;
    [this.first, this.last] = [first, last];
    this.body.replaceChildren(this.space(first),
      ...this.rows.slice(first, last).map((row, i) => this.row(row, first + i)),
      this.space(this.rows.length - last));
    if (focused >= 0) this.body.querySelector(`tr[data-index="${focused}"] button`)?.focus({ preventScroll: true });
  }

  space(rows) {
    const cell = element("td", { colspan: this.columns.length });
    cell.style.height = rows * ROW + "px";
    return element("tr", { class: "space", "aria-hidden": "true", hidden: !rows }, cell);
  }

  row(row, index) {
    const chosen = this.chosen(row);
    return element("tr", {
      class: chosen ? "chosen" : null, "aria-rowindex": String(index + 2), "data-index": String(index),
      onclick: () => this.choose(row),
    }, ...this.columns.map((column) =>
      element("td", { class: column.number ? "number" : "wide" }, ...column.cell(row))));
  }

  /** The button that chooses a row, so that the keyboard can. */
  button(row, text, title) {
    return element("button", {
      type: "button", class: "link", "aria-pressed": String(this.chosen(row)), title,
      onclick: (event) => {
        event.stopPropagation();
        this.choose(row);
      },
    }, text);
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15, Home: -Infinity, End: Infinity }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const now = Number(event.target.closest("tr").dataset.index);
    const next = Math.min(Math.max(now + step, 0), this.rows.length - 1);
    const top = this.table.offsetTop + next * ROW;
    const room = this.box.clientHeight - 2 * ROW;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top > this.box.scrollTop + room) this.box.scrollTop = top - room;
    this.draw();
    this.body.querySelector(`tr[data-index="${next}"] button`)?.focus({ preventScroll: true });
  }

  /** Everything, for CSV. */
  values() {
    return { columns: this.columns.map((column) => column.title), rows: this.rows.map((row) =>
      this.columns.map((column) => column.value(row))) };
  }
}
