// The page of a job: a bar for each process, curves or a heat map, the sites of all processes, and one process at the
// side.

import { Unpacker } from "../src/data/unpack.js";
import { byId, element, inNextFrame, onResize, option } from "../src/dom.js";
import { formatBytes, formatCount, formatCounted, formatDuration } from "../src/format.js";
import { Theme } from "../src/theme.js";
import { Table } from "../src/views/table.js";
import { Bars } from "./bars.js";
import { Job } from "./data.js";
import { Heat } from "./heat.js";
import { Multiples } from "./multiples.js";
import { Panel } from "./panel.js";

const MANY = 400; // from this many processes on, a heat map is easier to read than curves
const VIEWS = [["curves", "Curves"], ["heat", "Heat map"], ["sites", "Sites"], ["processes", "Processes"]];
const ORDERS = [["rank", "by rank"], ["peak", "highest peak first"], ["end", "most outstanding first"], ["growth", "fastest growth first"]];

function fail(error) {
  byId("error").replaceChildren(element("strong", {}, "This page cannot show its job. "), error instanceof Error ? error.message : String(error));
  byId("error").hidden = false;
  document.documentElement.dataset.ready = "error";
}

const processes = (count) => count === 1 ? "1 process" : `${formatCount(count)} processes`;

class Page {
  constructor(job, title) {
    this.job = job;
    this.timings = {};
    const address = new URLSearchParams(location.hash.slice(1));
    const number = (key) => {
      const n = address.get(key) ? Number(address.get(key)) : -1;
      return Number.isInteger(n) && n >= 0 && n < job.count ? n : -1;
    };
    const chosen = (key, list, other) => list.some(([one]) => one === address.get(key)) ? address.get(key) : other;
    this.state = {
      process: number("process"), other: number("with"), order: chosen("order", ORDERS, "rank"), group: number("group"),
      view: chosen("view", VIEWS, job.count > MANY ? "heat" : "curves"),
      along: job.hasSteps() && address.get("along") !== "clock" ? "step" : "clock", differences: address.has("differences"),
    };
    if (this.state.group >= job.facts.groups.length) this.state.group = -1;
    if (this.state.process < 0 || this.state.other === this.state.process) this.state.other = -1;
    this.bars = new Bars(byId("bars"), job, this.state);
    this.panel = new Panel(job, this.state, this);
    this.later = inNextFrame(() => this.draw());
    this.theme = new Theme({ set: () => this.curves && this.later() });
    this.head(title);
    this.listen();
    for (const id of ["bars", "view"]) onResize(byId(id), () => this.curves && this.paint());
  }

  head(title) {
    const { facts, count } = this.job;
    byId("name").textContent = title;
    byId("command").textContent = facts.groups.slice(0, 3).map((one) => one.name).join(", ") + (facts.groups.length > 3 ? ", …" : "");
    const hosts = new Set(this.job.processes.host.filter(Boolean));
    byId("origin").textContent = [hosts.size === 1 ? [...hosts][0] : hosts.size ? `${formatCount(hosts.size)} hosts` : "",
      formatDuration(facts.duration_ns), formatCounted(facts.events, "event")].filter(Boolean).join(" · ");
    const tile = (name, value, more, warn) => element("div", { class: warn ? "tile warn" : "tile" },
      element("span", { class: "tile-name" }, name), element("strong", {}, value), more ? element("span", { class: "soft" }, more) : "");
    const p = this.job.processes;
    const { highest } = facts;
    const group = highest === null ? null : facts.groups[p.group[highest]];
    byId("tiles").replaceChildren(
      tile("peak", highest === null ? "none" : formatBytes(p.peak[highest]), highest === null ? "" : p.name[highest]),
      ...(group && group.count > 1 ? [tile("median", formatBytes(group.median), `of ${group.name}`)] : []),
      tile("out of line", formatCount(facts.outlier_count), "", facts.outlier_count > 0),
      tile("leaks", facts.verdict === "leak" ? `in ${formatCount(facts.leaking)}` : facts.verdict === "clean" ? "none" : "unknown",
        `of ${processes(count)}`, facts.verdict === "leak"),
      tile("", facts.coverage, "", facts.coverage === "INCOMPLETE"));
    byId("notes").hidden = !facts.notes.length;
    byId("notes").className = facts.coverage === "complete" ? "" : "warn";
    byId("notes").replaceChildren(element("summary", {}, facts.notes.length === 1 ? facts.notes[0] : `${facts.notes.length} notes: ${facts.notes[0]}`),
      element("ul", {}, ...facts.notes.map((note) => element("li", {}, note))));
    byId("odd-key").hidden = !facts.outliers.length;
    byId("leak-key").hidden = facts.verdict !== "leak";
    byId("group").replaceChildren(option(-1, `all ${processes(count)}`), ...facts.groups.map((one, i) => option(i, one.name)));
    byId("group").hidden = facts.groups.length < 2;
    byId("order").replaceChildren(...ORDERS.map(([key, words]) => option(key, words)));
    byId("along").replaceChildren(...(this.job.hasSteps() ? [option("step", "along steps")] : []), option("clock", "along the clock"));
    byId("tabs").replaceChildren(...VIEWS.map(([key, words], i) => element("button",
      { type: "button", role: "tab", "data-view": key, onclick: () => this.set({ view: key }) }, words, element("kbd", {}, String(i + 1)))));
  }

  listen() {
    const bars = byId("bars");
    const tip = byId("tip");
    bars.addEventListener("click", (event) => this.click(this.bars.at(event.offsetX), event));
    bars.addEventListener("pointermove", (event) => {
      const process = this.bars.at(event.offsetX);
      this.tell(process < 0 ? null : { process }, event);
    });
    for (const box of [bars, byId("view")]) box.addEventListener("pointerleave", () => { tip.hidden = true; });
    byId("view").addEventListener("click", (event) => this.click(this.under(event)?.process ?? -1, event));
    byId("view").addEventListener("pointermove", (event) => this.tell(this.under(event), event));
    for (const [id, key] of [["group", "group"], ["order", "order"], ["along", "along"]]) {
      byId(id).addEventListener("change", () => this.set({ [key]: key === "group" ? Number(byId(id).value) : byId(id).value }));
    }
    byId("theme").addEventListener("click", () => this.theme.toggle());
    byId("help-open").addEventListener("click", () => byId("help").showModal());
    byId("search").addEventListener("keydown", (event) => event.key === "Enter" && this.find());
    byId("search").addEventListener("input", () => { byId("search-said").textContent = ""; });
    addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
    if (event.target.matches("input, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const { state } = this;
    const turn = (list, key) => list[(list.findIndex(([one]) => one === state[key]) + 1) % list.length][0];
    const act = {
      "/": () => byId("search").focus(), "?": () => byId("help").showModal(), p: () => this.choose(this.job.facts.highest ?? -1),
      o: () => this.set({ order: turn(ORDERS, "order") }),
      e: () => this.job.hasSteps() && this.set({ along: state.along === "step" ? "clock" : "step" }),
      ArrowLeft: () => this.walk(-1), ArrowRight: () => this.walk(1),
      Escape: () => this.set(state.other >= 0 ? { other: -1 } : { process: -1 }),
    }[event.key] ?? (VIEWS[Number(event.key) - 1] && (() => this.set({ view: VIEWS[Number(event.key) - 1][0] })));
    if (!act) return;
    event.preventDefault();
    act();
  }

  walk(step) {
    const at = this.shown.indexOf(this.state.process);
    const next = at < 0 ? (step > 0 ? 0 : this.shown.length - 1) : Math.min(Math.max(at + step, 0), this.shown.length - 1);
    this.choose(this.shown[next] ?? -1);
  }

  find() {
    const found = this.job.find(byId("search").value);
    const at = found.indexOf(this.state.process);
    byId("search-said").textContent = found.length ? `${(at + 1) % found.length + 1} of ${formatCount(found.length)}` : "nothing has that";
    if (found.length) this.choose(found[(at + 1) % found.length]);
  }

  /** The item of a drawing under the pointer. */
  under(event) {
    const drawing = { curves: this.multiples, heat: this.heat }[this.state.view];
    if (!drawing || event.target !== drawing.canvas) return null;
    return drawing.at(event.offsetX, event.offsetY);
  }

  click(process, event) {
    if (process < 0) return;
    if (event.shiftKey && this.state.process >= 0 && process !== this.state.process) this.compare(process);
    else this.choose(process);
  }

  choose(process) {
    this.set({ process, other: this.state.other === process ? -1 : this.state.other });
  }

  compare(other) {
    this.set({ other: other === this.state.process ? -1 : other });
  }

  swap() {
    this.set({ process: this.state.other, other: this.state.process });
  }

  tell(found, event) {
    const tip = byId("tip");
    tip.hidden = !found;
    if (!found) return;
    const p = this.job.processes;
    const i = found.process;
    const when = found.at === undefined ? "" : this.curves.byStep ? `step ${formatCount(Math.floor(found.at))}` : formatDuration(found.at);
    tip.replaceChildren(element("div", {}, element("strong", {}, p.name[i]), `  ${formatBytes(p.peak[i])} at its peak`),
      element("div", { class: "soft" }, [when && (found.bytes >= 0 ? `${when}: ${formatBytes(found.bytes)}` : when),
        p.verdict[i] === "leak" ? `leak, +${formatBytes(p.growth[i])} a step` : "", p.host[i]].filter(Boolean).join(" · ")));
    const { offsetWidth, offsetHeight } = tip;
    tip.style.left = Math.max(Math.min(event.clientX + 14, innerWidth - offsetWidth - 6), 4) + "px";
    tip.style.top = (event.clientY + 18 + offsetHeight > innerHeight ? event.clientY - 12 - offsetHeight : event.clientY + 18) + "px";
  }

  set(changes) {
    Object.assign(this.state, changes);
    if (this.state.process < 0) this.state.other = -1;
    const address = new URLSearchParams();
    const { process, other, order, group, view, along, differences } = this.state;
    if (process >= 0) address.set("process", process);
    if (other >= 0) address.set("with", other);
    if (group >= 0) address.set("group", group);
    if (order !== "rank") address.set("order", order);
    if (along === "clock" && this.job.hasSteps()) address.set("along", along);
    if (differences) address.set("differences", "");
    address.set("view", view);
    history.replaceState(null, "", "#" + address);
    this.later();
  }

  /* ---- drawing ---- */

  async draw() {
    this.curves = await this.job.curvesAlong(this.state.along);
    this.paint();
    this.firstFrame ??= performance.now();
    document.documentElement.dataset.ready = "true";
  }

  paint() {
    const began = performance.now();
    const { state } = this;
    const key = `${state.order} ${state.group}`;
    if (key !== this.orderKey) {
      this.shown = this.job.ordered(state.order, state.group < 0 ? null : state.group);
      // A launcher without memory has no curve.
      const drawn = this.shown.filter((i) => this.job.processes.peak[i]);
      this.drawn = drawn.length ? drawn : this.shown;
      this.orderKey = key;
    }
    for (const id of ["group", "order", "along"]) byId(id).value = String(state[id]);
    for (const tab of byId("tabs").children) tab.setAttribute("aria-selected", String(tab.dataset.view === state.view));
    this.bars.draw(this.drawn);
    this.view();
    if (this.panelKey !== `${state.process} ${state.other} ${state.along}`) {
      this.panel.draw(this.curves);
      this.panelKey = `${state.process} ${state.other} ${state.along}`;
    } else {
      this.panel.drawCurve();
    }
    this.timings.draw = performance.now() - began;
  }

  view() {
    const { view } = this.state;
    if (this.viewKey !== view) {
      this.viewKey = view;
      const box = element("div", { class: view === "heat" ? "heat-box" : "view" });
      byId("view").replaceChildren(box);
      byId("view-controls").replaceChildren();
      this.multiples = view === "curves" ? new Multiples(box, this.job, this.state) : null;
      this.heat = view === "heat" ? new Heat(box, this.job, this.state) : null;
      this.table = view === "sites" ? this.sites(box) : view === "processes" ? this.list(box) : null;
      if (this.heat) this.heatControls();
    }
    if (this.multiples) {
      this.multiples.draw(this.drawn, this.curves);
      byId("caption").textContent = this.curves.byStep ? "peaks of the steps, all on one scale" : "by the clock, all on one scale";
      const left = this.shown.length - this.drawn.length;
      if (left) byId("caption").textContent += `; ${processes(left)} without memory left out`;
    }
    if (this.heat) {
      this.heat.draw(this.drawn, this.curves, this.state.differences);
      this.heatCaption();
    }
    if (view === "processes") this.table.set(this.shown.slice());
    if (view === "sites") {
      const { sites, site_count: all, other_sites_bytes: rest } = this.job.facts;
      if (!this.table.rows.length) this.table.set(sites.map((site, order) => ({ site, order })));
      else this.table.draw(true);
      byId("caption").textContent = "what all hold at their peaks, merged by stack" + (all > sites.length ?
        `; ${formatCount(all - sites.length)} more hold ${formatBytes(rest)}: memprof peak -n 0 lists all` : "");
    }
  }

  heatControls() {
    const button = element("button", { type: "button", id: "differences", title: "How far each is from the median of that step",
      onclick: () => this.set({ differences: !this.state.differences }) }, "from the median");
    byId("view-controls").replaceChildren(button);
  }

  heatCaption() {
    const { gradient, least, most } = this.heat.scale();
    byId("differences").setAttribute("aria-pressed", String(this.state.differences));
    const bar = element("span", { class: "scale" });
    bar.style.background = gradient;
    byId("caption").replaceChildren(least, bar, most);
  }

  sites(box) {
    const p = this.job.processes;
    const mean = ({ site }) => site[2] / Math.max(site[4], 1);
    return new Table(box, {
      label: "Sites of all processes", sort: "all", choose: ({ site }) => this.choose(site[8]), chosen: ({ site }) => site[8] === this.state.process,
      columns: [
        { key: "all", title: "all", number: true, about: "what all processes hold there together", value: ({ site }) => site[2], cell: ({ site }) => [formatBytes(site[2])] },
        { key: "in", title: "in", number: true, about: "how many processes have the site", value: ({ site }) => site[4], cell: ({ site }) => [formatCount(site[4])] },
        { key: "mean", title: "mean", number: true, value: mean, cell: (row) => [formatBytes(Math.floor(mean(row)))] },
        { key: "least", title: "least", number: true, value: ({ site }) => site[5], cell: ({ site }) => [formatBytes(site[5])] },
        { key: "most", title: "most", number: true, value: ({ site }) => site[7], cell: ({ site }) => [formatBytes(site[7])] },
        { key: "apart", title: "apart", number: true, about: "the most less the least", value: ({ site }) => site[7] - site[5], cell: ({ site }) => [formatBytes(site[7] - site[5])] },
        { key: "by", title: "by", value: ({ site }) => site[8], cell: ({ site }) => [p.name[site[8]]] },
        { key: "site", title: "site", value: ({ site }) => this.job.label(site[0]),
          cell: (row) => [this.table.button(row, this.job.label(row.site[0]), this.job.frames(row.site[0]).map((one) => `${one.name}  ${one.place}`).join("\n"))] },
      ],
    });
  }

  list(box) {
    const p = this.job.processes;
    const most = p.peak.reduce((sum, bytes) => Math.max(sum, bytes), 1);
    byId("caption").textContent = processes(this.shown.length);
    const bytes = (key, title) => ({ key, title, number: true, value: (i) => p[key][i], cell: (i) => [formatBytes(p[key][i])] });
    return new Table(box, {
      label: "Processes", sort: "", choose: (i) => this.choose(i), chosen: (i) => i === this.state.process,
      columns: [
        { key: "name", title: "process", value: (i) => i, cell: (i) => [this.table.button(i, p.name[i], p.path[i])] },
        bytes("peak", "peak"),
        { key: "bar", title: "", value: (i) => p.peak[i], cell: (i) => {
          const bar = element("span", { class: "bar" });
          bar.style.width = 100 * p.peak[i] / most + "%";
          return [element("span", { class: "bar-box" }, bar)];
        } },
        { key: "peak_step", title: "step", number: true, value: (i) => p.peak_step[i], cell: (i) => [p.peak_step[i] ? formatCount(p.peak_step[i]) : ""] },
        bytes("end", "outstanding"), bytes("growth", "a step"),
        { key: "verdict", title: "verdict", value: (i) => p.verdict[i], cell: (i) => [p.verdict[i] === "leak" ? element("strong", { class: "leak" }, "leak") : p.verdict[i]] },
        { key: "host", title: "host", value: (i) => p.host[i], cell: (i) => [p.host[i]] },
      ],
    });
  }
}

async function start() {
  const header = JSON.parse(byId("header").textContent);
  const texts = Array.from({ length: header.scripts }, (_, i) => {
    const part = byId("d" + i);
    const text = part.textContent;
    part.remove(); // the text is not needed twice
    return text;
  });
  const job = await Job.open(new Unpacker(header, texts));
  window.memprof = { job, page: new Page(job, header.title) };
  await window.memprof.page.draw();
}

start().catch(fail);
