// Opens the recording in the page and joins data, views and controls. In a worker, the same script unpacks.

import { DEFAULTS, readAddress, usualFor, writeAddress } from "./address.js";
import { Archive } from "./data/archive.js";
import { Recording } from "./data/recording.js";
import { serve } from "./data/worker.js";
import { Controls, NO_MOMENT } from "./controls.js";
import { ALONG, alongOf } from "./draw/along.js";
import { byId, element, option } from "./dom.js";
import { Exports } from "./export.js";
import { formatBytes, formatCount } from "./format.js";
import { Search } from "./search.js";
import { Store } from "./store.js";
import { Theme } from "./theme.js";
import { BlockPanel } from "./views/block.js";
import { Minimap } from "./views/minimap.js";
import { Legend } from "./views/legend.js";
import { Pane } from "./views/pane.js";
import { Strips } from "./views/strips.js";
import { drawTiles } from "./views/tiles.js";
import { Timeline } from "./views/timeline.js";
import { Tip } from "./views/tip.js";

// Milliseconds after the page's start: parts that are ready by then are drawn in one frame, since one frame is shown
// sooner than two.
const SOON = 500;

// Browsers report this error if an observer of sizes changed a size. They handle the change in the next frame, so
// nothing failed. (https://drafts.csswg.org/resize-observer/#deliver-resize-error)
const SIZES_WAIT = /^ResizeObserver loop /;

function say(...words) {
  byId("error").replaceChildren(...words);
  byId("error").hidden = false;
  document.documentElement.dataset.ready = "error";
}

/** Shows an error on the page, as nobody reads the console. */
function fail(error) {
  const message = error instanceof Error ? error.message : String(error);
  // Browsers throw RangeError if there is no memory for an array.
  const short = error instanceof RangeError ? " The recording is too large for this browser's memory; memprof report " +
    "and memprof peak --from --to tell of it without a page." : "";
  say(element("strong", {}, "This page cannot show its recording. "), message + short);
}

function drawHead(header) {
  byId("name").textContent = header.title;
  byId("command").textContent = header.command.join(" ");
  byId("command").title = header.command.join(" ");
  const when = new Date(header.start_unix_ms);
  byId("origin").textContent = [header.host, header.start_unix_ms ? when.toLocaleString() : "", "memprof " +
    header.version].filter(Boolean).join(" · ");
  byId("in-view").textContent = `reading ${formatCount(header.coverage.events)} events …`;
  byId("tracks").replaceChildren(...header.tracks.map((track, i) =>
    element("option", { value: i }, `${track.id}  ${formatBytes(track.peak_bytes)}`)));
}

/** Waits until a frame was painted. If no frame comes, as in Chromium's --screenshot or in a hidden tab, waits 200
 * ms. */
function afterPaint() {
  return new Promise((go) => {
    requestAnimationFrame(() => setTimeout(go));
    setTimeout(go, 200);
  });
}

class Page {
  constructor(recording, store, theme) {
    this.recording = recording;
    this.store = store;
    this.timeline = new Timeline(recording, store);
    this.tip = new Tip(recording);
    const controls = new Controls(recording, store, this.timeline, this.tip);
    this.controls = controls;
    this.minimap = new Minimap(recording, store, (start, end) => controls.moveTo(start, end));
    const context = {
      recording, store,
      goToPeak: () => controls.goToPeak(), goToEnd: () => controls.goToEnd(),
      goToSpan: (start, end) => controls.goToSpan(start, end), changeTrack: (index) => this.changeTrack(index),
    };
    this.context = context;
    this.panel = new BlockPanel(recording, store, controls);
    this.pane = new Pane(context);
    this.search = new Search(context, controls);
    this.strips = new Strips(context, this.timeline);
    controls.strips = this.strips;
    this.timeline.legend = this.legend = new Legend(context, this.timeline);
    this.exports = new Exports(context, this.pane, this.timeline);
    controls.pane = this.pane;
    controls.search = this.search;
    byId("theme").addEventListener("click", () => theme.toggle());
    byId("fit").addEventListener("click", () => controls.fit());
    byId("help-open").addEventListener("click", () => byId("help").showModal());
    byId("along").replaceChildren(...Object.entries(ALONG).map(([value, { name }]) => option(value, "along: " + name)));
    byId("along").addEventListener("change", (event) => controls.putAlong(event.target.value));
    byId("tracks").addEventListener("change", (event) => this.changeTrack(Number(event.target.value)));
    store.subscribe((state, changed) => this.changed(state, changed));
  }

  /** Shows the window of the address, or of the track before; without either the whole recording. */
  showAgain(track, index) {
    const { state } = this.store;
    const axis = alongOf(track, state);
    const before = this.timeline.track && state.along !== "time" ? this.timeline.sight() : null;
    const wanted = before ? before.map((time) => axis.ofTime(time)) : state.end !== null ? [state.start, state.end] :
      state.along === "time" ? track.busy() : [axis.low, axis.high];
    const [start, end] = wanted.map((place) => Math.min(Math.max(place, axis.low), axis.high));
    this.store.set({ track: index, ...(end > start ? { start, end } : { start: axis.low, end: axis.high }) });
  }

  async changeTrack(index) {
    this.store.set({ hover: -1, pinned: -1, site: -1, low: 0, high: null, moment: NO_MOMENT, of: "peak", found: null });
    await this.showTrack(index);
  }

  async showTrack(index) {
    const track = await this.recording.track(index);
    this.track = track;
    this.showAgain(track, index);
    byId("tracks").value = String(index);
    if (this.store.state.pinned >= track.blocks.count) this.store.set({ pinned: -1 });
    if (this.store.state.moment >= track.count) this.store.set({ moment: NO_MOMENT });
    drawTiles(this.recording, track, this.context);
    this.timeline.show(track);
    if (performance.now() > SOON) {
      await afterPaint(); // paint the picture first
      if (this.track !== track) return;
    }
    for (const part of [this.minimap, this.strips, this.panel, this.pane, this.search]) part.show(track);
    requestAnimationFrame(() => { document.documentElement.dataset.ready ??= "true"; });
  }

  changed(state, changed) {
    if (changed.has("frame")) {
      this.drawn();
      return;
    }
    if (["hover", "dark", "found", "lower"].every((key) => !changed.has(key))) {
      clearTimeout(this.addressTimer);
      this.addressTimer = setTimeout(() => this.keepAddress(), 150);
    }
  }

  /** Writes the state into the address. In the frame of a notebook's cell the page has none. */
  keepAddress() {
    if (location.protocol === "about:") return;
    history.replaceState(null, "", writeAddress(this.store.state, this.recording));
  }

  /** Called after every frame. */
  drawn() {
    const { timeline } = this;
    const { blocks } = timeline.track.info;
    byId("in-view").textContent = `${formatCount(timeline.inView)} of ${formatCount(blocks)} blocks in view, all drawn`;
    byId("along").value = this.store.state.along;
    byId("over").setAttribute("aria-label", timeline.describe());
    this.firstFrame ??= performance.now();
  }
}

async function start() {
  const archive = new Archive(document);
  const { header } = archive;
  drawHead(header);
  if (!header.tracks.length) {
    say("Nothing was recorded: there are no events.");
    return;
  }
  const store = new Store({
    track: header.track, start: 0, end: null, low: 0, high: null, hover: -1, pinned: -1, site: -1, dark: false, frame: 0,
    window: null, moment: NO_MOMENT, found: null, lower: -1, change: -1, ...DEFAULTS,
  });
  const theme = new Theme(store);
  const recording = await Recording.open(archive);
  store.set({ ...usualFor(recording), ...(header.view ? { view: header.view } : {}),
    ...readAddress(location.hash, recording) });
  const page = new Page(recording, store, theme);
  await page.showTrack(store.state.track);
  window.addEventListener("hashchange", () => location.reload());
  window.memprof = {
    recording, store, page,
    /** The block at a place of the viewport, or -1. */
    pick(x, y) {
      const box = byId("over").getBoundingClientRect();
      return page.timeline.pick(x - box.left, y - box.top);
    },
  };
}

if (typeof document === "undefined") {
  serve();
} else {
  window.addEventListener("error", (event) => {
    if (event.error || !SIZES_WAIT.test(event.message)) fail(event.error ?? event.message);
  });
  window.addEventListener("unhandledrejection", (event) => fail(event.reason));
  start().catch(fail);
}
