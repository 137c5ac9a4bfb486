// Pointer and keyboard: what each does to the state.

import { SCOPES } from "./data/scope.js";
import { byId } from "./dom.js";
import { ALONG, placesOf } from "./draw/along.js";
import { VIEWS } from "./views/pane.js";

const ZOOM_STEP = 1.3;
const PAN_STEP = 0.12;
export const NO_MOMENT = -2;
const CLICK_SLOP = 4; // pixels that the pointer may move in a click

export class Controls {
  constructor(recording, store, timeline, tip) {
    Object.assign(this, { recording, store, timeline, tip });
    this.over = byId("over");
    this.over.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.over.addEventListener("pointerdown", (event) => this.press(event));
    this.over.addEventListener("pointermove", (event) => this.hover(event));
    this.over.addEventListener("pointerleave", () => this.leave());
    this.over.addEventListener("dblclick", (event) => this.doubleClick(event));
    document.addEventListener("keydown", (event) => this.key(event));
  }

  place(event) {
    const box = this.over.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  /** Shows the window between two places, as far as the axis reaches. */
  moveTo(start, end) {
    const { low, high, least } = this.timeline.along;
    const span = Math.min(Math.max(end - start, least), high - low);
    const at = Math.min(Math.max(start, low), high - span);
    this.store.set({ start: at, end: at + span });
  }

  zoomTime(factor, around) {
    const { start, end } = this.store.state;
    const middle = around ?? (start + end) / 2;
    this.moveTo(middle - (middle - start) * factor, middle + (end - middle) * factor);
  }

  /** The place under the pointer; undefined if the pointer is not over the plot. */
  pointed() {
    return this.pointerX === undefined ? undefined : this.timeline.placeAt(this.pointerX);
  }

  panTime(share) {
    const { start, end } = this.store.state;
    this.moveTo(start + share * (end - start), end + share * (end - start));
  }

  moveBytes(low, high) {
    const top = this.timeline.fullHeight();
    const span = Math.min(Math.max(high - low, 64), top);
    const from = Math.min(Math.max(low, 0), top - span);
    this.store.set(span >= top ? { low: 0, high: null } : { low: from, high: from + span });
  }

  zoomBytes(factor, around) {
    const [low, high] = this.timeline.range();
    const middle = around ?? (low + high) / 2;
    this.moveBytes(middle - (middle - low) * factor, middle + (high - middle) * factor);
  }

  panBytes(share) {
    const [low, high] = this.timeline.range();
    this.moveBytes(low + share * (high - low), high + share * (high - low));
  }

  fit() {
    const { low, high } = this.timeline.along;
    this.store.set({ start: low, end: high, low: 0, high: null });
  }

  /** Moves the peak to the middle and zooms in, so that its blocks can be seen. */
  goToPeak() {
    this.goTo(this.timeline.along.ofState(this.timeline.track.peak.event));
  }

  goToEnd() {
    this.goTo(this.timeline.along.high);
  }

  goTo(place) {
    const { start, end } = this.store.state;
    const { low, high } = this.timeline.along;
    const span = Math.min(end - start, (high - low) / 5);
    this.moveTo(place - span / 2, place + span / 2);
    this.store.set({ low: 0, high: null });
  }

  /** Sets the axis, time or events, and keeps showing the same part. */
  putAlong(along) {
    const { low, high } = this.timeline.along;
    const { start, end } = this.store.state;
    const times = this.timeline.sight();
    this.store.set({ along });
    const axis = this.timeline.along;
    if (start <= low && end >= high) this.moveTo(axis.low, axis.high);
    else this.moveTo(...times.map((time) => axis.ofTime(time)));
  }

  nextAlong() {
    const names = Object.keys(ALONG);
    this.putAlong(names[(names.indexOf(this.store.state.along) + 1) % names.length]);
  }

  clear() {
    this.store.set({ pinned: -1, site: -1, hover: -1, window: null, moment: NO_MOMENT, of: "peak", change: -1 });
  }

  /** Selects a window of time, which every view follows. If they showed no window before, they show the window's moment
   * with most bytes. */
  select(from, to) {
    const { from: least, to: most } = this.recording;
    const window = [Math.max(Math.min(from, to), least), Math.min(Math.max(from, to), most)];
    const { of } = this.store.state;
    this.store.set({ window, of: SCOPES[of].needs === "window" ? of : "window" });
  }

  /** Shows a span of time with some room around it, selected. */
  goToSpan(start, end) {
    this.select(start, end);
    const { along } = this.timeline;
    const [from, to] = [along.ofTime(start), along.ofTime(end)];
    const margin = Math.max(to - from, (along.high - along.low) / 200);
    this.moveTo(from - margin, to + margin);
  }

  /** Pins a block, and moves the window to the block if it is not visible. */
  pin(id) {
    const { track } = this.timeline;
    const { start, end } = this.store.state;
    const [birth, death] = placesOf(track, this.timeline.along, id);
    if (death < start || birth > end) this.moveTo((birth + death - end + start) / 2, (birth + death + end - start) / 2);
    this.store.set({ pinned: id });
  }

  /** The next or previous block of the pinned one's site. */
  sameSite(step) {
    const { pinned } = this.store.state;
    if (pinned < 0) return;
    const { site, count } = this.timeline.track.blocks;
    for (let id = pinned + step; id >= 0 && id < count; id += step) {
      if (site[id] === site[pinned]) {
        this.pin(id);
        return;
      }
    }
  }

  /** The next or previous block at the pinned one's address. */
  sameAddress(step) {
    const { pinned } = this.store.state;
    const next = pinned < 0 ? -1 : this.timeline.track.sameAddress(pinned, step);
    if (next >= 0) this.pin(next);
  }

  /** The moment at which the pinned block was allocated. */
  momentOfBirth() {
    const { pinned } = this.store.state;
    if (pinned < 0) return;
    this.store.set({ moment: this.timeline.track.blocks.birth[pinned], of: "moment", window: null });
  }

  wheel(event) {
    event.preventDefault();
    const [x, y] = this.place(event);
    const lines = event.deltaMode === 1 ? 33 : 1;
    const amount = (event.deltaY || event.deltaX) * lines;
    if (event.shiftKey) this.zoomBytes(1.0015 ** amount, this.timeline.bytesAt(y));
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.panTime(event.deltaX * lines / 1000);
    else this.zoomTime(1.0015 ** amount, this.timeline.placeAt(x));
  }

  press(event) {
    if (event.button !== 0) return;
    const [x, y] = this.place(event);
    const { start, end } = this.store.state;
    const [low, high] = this.timeline.range();
    const zoomed = this.store.state.high !== null;
    const from = this.timeline.timeAt(x);
    const selects = event.shiftKey || this.timeline.onAxis(y);
    let moved = false;
    this.dragging = true;
    this.over.setPointerCapture(event.pointerId);
    const drag = (now) => {
      const [dx, dy] = [this.place(now)[0] - x, this.place(now)[1] - y];
      if (!moved && Math.hypot(dx, dy) < CLICK_SLOP) return;
      moved = true;
      this.tip.hide();
      if (selects) {
        this.select(from, this.timeline.timeAt(x + dx));
        return;
      }
      const shift = dx / this.timeline.width * (end - start);
      this.moveTo(start - shift, end - shift);
      const rise = dy / this.timeline.height * (high - low);
      if (zoomed) this.moveBytes(low + rise, high + rise);
    };
    const stop = (now) => {
      this.over.removeEventListener("pointermove", drag);
      this.dragging = false;
      if (!moved && now.type === "pointerup") this.click(x, y);
    };
    this.over.addEventListener("pointermove", drag);
    this.over.addEventListener("pointerup", stop, { once: true });
    this.over.addEventListener("pointercancel", stop, { once: true });
  }

  click(x, y) {
    const id = this.timeline.pick(x, y);
    if (!this.timeline.inside(x, y)) return;
    this.moment = this.timeline.stateUnder(x);
    this.store.set({ pinned: id === this.store.state.pinned ? -1 : id, moment: this.moment, window: null,
      of: "moment" });
  }

  /** A block fills the window with its life; empty ground shows everything. */
  doubleClick(event) {
    const id = this.timeline.pick(...this.place(event));
    if (id < 0) {
      this.fit();
      return;
    }
    const { track } = this.timeline;
    const [birth, death] = placesOf(track, this.timeline.along, id);
    const margin = (death - birth) * 0.15;
    this.moveTo(birth - margin, death + margin);
    this.store.set({ pinned: id });
  }

  hover(event) {
    if (this.dragging) return;
    const [x, y] = this.place(event);
    const id = this.timeline.pick(x, y);
    this.pointerX = x;
    this.store.set({ hover: id });
    const words = id < 0 && this.timeline.wordsAt(x, y);
    if (id >= 0) this.tip.show(this.timeline.track, id, event.clientX, event.clientY);
    else if (words) this.tip.say(words, event.clientX, event.clientY);
    else this.tip.hide();
  }

  leave() {
    this.pointerX = undefined;
    this.tip.hide();
    this.store.set({ hover: -1 });
  }

  /** Pins the block above or below the pinned one at the clicked moment; the largest block if none is pinned. */
  stepBlock(direction) {
    const { pinned } = this.store.state;
    const { track } = this.timeline;
    const ids = track.cursor.seek(pinned >= 0 ? this.momentOf(pinned) : track.peak.event).ids();
    const at = ids.indexOf(pinned);
    if (at >= 0 && ids[at + direction] !== undefined) this.store.set({ pinned: ids[at + direction] });
    else if (at < 0 && ids.length) {
      this.store.set({ pinned: ids.reduce((best, id) => track.bytesOf(id) > track.bytesOf(best) ? id : best) });
    }
  }

  nextColour() {
    const names = [...byId("colour").options].map((option) => option.value);
    this.store.set({ colour: names[(names.indexOf(this.store.state.colour) + 1) % names.length] });
  }

  /** A state in which the block is live: the last clicked one, else one in the middle of its life. */
  momentOf(id) {
    const { track } = this.timeline;
    const { birth, death } = track.blocks;
    const lives = (state) => birth[id] <= state && (death[id] < 0 || state < death[id]);
    if (this.moment === undefined || !lives(this.moment)) {
      const last = death[id] < 0 ? track.count - 1 : death[id] - 1;
      this.moment = Math.floor((birth[id] + last) / 2);
    }
    return this.moment;
  }

  key(event) {
    if (event.key === "c" && (event.ctrlKey || event.metaKey) && !String(getSelection())) byId("copy-stack")?.click();
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    const help = byId("help");
    if (help.open) return; // the dialog closes itself
    const actions = {
      w: () => this.zoomTime(1 / ZOOM_STEP, this.pointed()), s: () => this.zoomTime(ZOOM_STEP, this.pointed()),
      a: () => this.panTime(-PAN_STEP), d: () => this.panTime(PAN_STEP),
      W: () => this.zoomBytes(1 / ZOOM_STEP), S: () => this.zoomBytes(ZOOM_STEP),
      A: () => this.panBytes(-PAN_STEP), D: () => this.panBytes(PAN_STEP),
      ArrowLeft: () => this.panTime(-PAN_STEP), ArrowRight: () => this.panTime(PAN_STEP),
      ArrowUp: () => this.stepBlock(1), ArrowDown: () => this.stepBlock(-1),
      f: () => this.fit(), p: () => this.goToPeak(), Escape: () => this.clear(), "?": () => help.showModal(),
      ".": () => this.sameSite(1), ",": () => this.sameSite(-1),
      ">": () => this.sameAddress(1), "<": () => this.sameAddress(-1), m: () => this.momentOfBirth(),
      x: () => this.select(...this.timeline.sight()), e: () => this.nextAlong(), t: () => this.strips.toggle(), c: () => this.nextColour(),
      "/": () => byId("search").select(), n: () => this.search.next(1), N: () => this.search.next(-1),
    };
    for (let i = 1; i <= VIEWS.length; i++) actions[i] = () => this.pane.choose(i - 1);
    const action = actions[event.key] ?? (event.shiftKey ? undefined : actions[event.key.toLowerCase()]);
    const scrolls = event.key.startsWith("Arrow") && event.target !== document.body && event.target !== this.over;
    if (!action || scrolls) return;
    event.preventDefault();
    action();
  }
}
