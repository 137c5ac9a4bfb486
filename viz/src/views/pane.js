// The lower part of the page: one of several views at a time, all about the same blocks.
//
// A view is a class with `static id, title` and `static fits(recording, trackIndex)`. Its constructor takes the
// `context` that every view gets (recording, store, goTo...) and its own element. Its members:
//   show(track)     another track is shown
//   draw(scope)     draws the blocks of the scope, after these or the colours changed; only called while in sight
//   needs           names of further parts of the state; the view is drawn again when one changes
//   controls()      elements next to the tabs
//   caption(scope)  the text above the view; null: none
//   values()        {columns, rows}: the view as a table, for CSV

import { byId, element, inNextFrame, onResize } from "../dom.js";
import { SCOPES, scopeName, scopeOf } from "../data/scope.js";
import { formatBytes, formatCount, formatCounted, formatDuration } from "../format.js";
import { AdviceView } from "./advice.js";
import { FlameView } from "./flame.js";
import { GrowthView } from "./growth.js";
import { SegmentsView } from "./segments.js";
import { SitesView } from "./sites.js";
import { StepsView } from "./steps.js";
import { SummaryView } from "./summary.js";

export const VIEWS = [FlameView, SitesView, StepsView, GrowthView, SegmentsView, SummaryView, AdviceView];
const OF_SCOPE = ["of", "moment", "window", "track"];

export class Pane {
  constructor(context) {
    this.context = context;
    this.store = context.store;
    this.tabs = byId("tabs");
    this.body = byId("view");
    this.views = new Map(VIEWS.map((View) => {
      const box = element("div", { class: "view " + View.id, hidden: true });
      this.body.append(box);
      return [View.id, new View(context, box)];
    }));
    byId("view-keys").textContent = `1 … ${VIEWS.length}`;
    byId("view-names").textContent = VIEWS.map(({ title }) => title.toLowerCase()).join(", ");
    byId("scope").addEventListener("change", (event) => this.store.set({ of: event.target.value }));
    this.draw = inNextFrame(() => this.drawNow());
    this.tabs.addEventListener("keydown", (event) => this.tabKey(event));
    this.sizeDrawn = onResize(this.body, () => this.drawNow());
    this.store.subscribe((state, changed) => {
      const view = this.view();
      if (OF_SCOPE.some((key) => changed.has(key))) this.scope = null;
      else if (changed.has("view")) this.drawTabs();
      else if (!["dark", "site", "query", ...view.needs].some((key) => changed.has(key))) return;
      this.draw();
    });
  }

  /** The visible view: the requested one, if the recording has its data. */
  view() {
    const asked = this.views.get(this.store.state.view);
    return asked && this.fits(asked.constructor) ? asked : this.views.get(SitesView.id);
  }

  show(track) {
    this.track = track;
    this.scope = null;
    for (const view of this.views.values()) view.show(track);
    this.drawTabs();
    this.draw();
  }

  fits(View) {
    return !View.fits || View.fits(this.context.recording, this.store.state.track);
  }

  drawTabs() {
    const shown = this.view().constructor;
    this.tabs.replaceChildren(...VIEWS.map((View, i) => element("button", {
      type: "button", role: "tab", id: "tab-" + View.id, "aria-selected": String(View === shown),
        "aria-controls": "view",
      tabindex: View === shown ? "0" : "-1", disabled: !this.fits(View),
      title: this.fits(View) ? `${View.about} (${i + 1})` : View.absent,
      onclick: () => this.choose(i),
    }, View.title, element("kbd", {}, String(i + 1)))));
    for (const [id, view] of this.views) view.box.hidden = id !== shown.id;
    this.body.setAttribute("aria-labelledby", "tab-" + shown.id);
    byId("view-controls").replaceChildren(...(this.view().controls?.() ?? []));
  }

  /** @param {number} index as the tabs are counted */
  choose(index) {
    if (VIEWS[index] && this.fits(VIEWS[index])) this.store.set({ view: VIEWS[index].id });
  }

  tabKey(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const fitting = VIEWS.filter((View) => this.fits(View));
    const at = fitting.indexOf(this.view().constructor);
    const next = fitting[(at + step + fitting.length) % fitting.length];
    this.store.set({ view: next.id });
    byId("tab-" + next.id).focus();
  }

  drawNow() {
    if (!this.track) return;
    const view = this.view();
    this.scope ??= scopeOf(this.track, this.store.state);
    // Draw the elements above first: they decide how much room the view has.
    this.drawScope(view);
    if (!view.caption) this.drawCaption(view);
    this.sizeDrawn();
    view.draw(this.scope);
    if (view.caption) this.drawCaption(view);
  }

  drawScope(view) {
    const { state } = this.store;
    const select = byId("scope");
    const of = scopeName(state);
    select.hidden = !view.scoped;
    const offered = Object.entries(SCOPES).filter(([, { needs }]) =>
      !needs || (needs === "moment" ? state.moment >= -1 : state.window));
    select.replaceChildren(...offered.map(([name, { name: text }]) =>
      element("option", { value: name, selected: name === of }, text)));
    select.value = of;
  }

  drawCaption(view) {
    const asked = this.views.get(this.store.state.view);
    const absent = asked && asked !== view ? asked.constructor.absent + ". " : "";
    byId("caption").textContent = absent + (view.caption ? view.caption(this.scope) : this.describe(this.scope));
  }

  /** "61.4 GiB in 1 224 blocks, at 12.7 s" */
  describe({ bytes, ids, unknown, at }) {
    const unit = this.context.recording.timeUnit;
    return `${formatBytes(bytes)} in ${formatCounted(ids.length, "block")}` +
      (at === undefined || this.context.recording.timeless ? "" : `, at ${formatDuration(at * unit)}`) +
      (unknown ? `; ${formatCount(unknown)} of unknown size` : "");
  }
}
