// The plot: every block of a track as a band over time, with steps, regions and marks above.

import { byId, inNextFrame, onResize } from "../dom.js";
import { alongOf } from "../draw/along.js";
import { axisTop } from "../draw/axis.js";
import { chooseColumns } from "../draw/columns.js";
import { layOut, NOTHING } from "../draw/layout.js";
import { LEFT } from "../draw/ink.js";
import { Overlay, REGION_LANE, STEP_LANE } from "../draw/overlay.js";
import { levelsOf } from "../draw/levels.js";
import { classesOf } from "../draw/colour_by.js";
import { labelOf, MARK_LANE, markLanes } from "../draw/marks.js";
import { Colours, paint } from "../draw/paint.js";
import { formatBytes, formatCount, formatDuration } from "../format.js";

const RIGHT = 10;
const BOTTOM = 26;
const MAX_REGION_LANES = 4;
const MAX_PIXELS = 3e6; // larger pictures are drawn in a lower resolution than the screen's

export class Timeline {
  constructor(recording, store) {
    this.recording = recording;
    this.store = store;
    this.box = byId("plot");
    this.picture = byId("picture");
    this.over = byId("over");
    this.overlay = new Overlay(this);
    this.stale = { layout: true, colours: true };
    this.timings = {};
    this.draw = inNextFrame(() => this.drawNow());
    this.sizeDrawn = onResize(this.box, () => {
      this.stale.layout = true;
      this.drawNow();
    });
    store.subscribe((state, changed) => this.changed(changed));
  }

  /** @param {import("../data/track.js").Track} track */
  show(track) {
    this.track = track;
    this.levels = levelsOf(this.recording, track, this.store.state.track);
    this.lanes = this.recording.notes.lanes.slice(0, MAX_REGION_LANES);
    this.markLanes = markLanes(this.recording.notes.marks, this.store.state.track);
    this.marksTop = 4 + (this.recording.notes.steps.length ? STEP_LANE : 0) + this.lanes.length * REGION_LANE;
    this.top = this.marksTop + 4 + this.markLanes.length * MARK_LANE;
    this.invalidate("layout");
  }

  changed(changed) {
    if (["start", "end", "low", "high", "along"].some((key) => changed.has(key))) this.invalidate("layout");
    else if (["site", "dark", "found", "colour"].some((key) => changed.has(key))) this.invalidate("colours");
    else if (["hover", "pinned", "window", "moment", "change"].some((key) => changed.has(key))) this.draw();
  }

  invalidate(what) {
    this.stale[what] = true;
    this.draw();
  }

  /** The range of the byte axis: the user's, else the whole track. */
  range() {
    const { low, high } = this.store.state;
    return high !== null ? [low, high] : [0, this.fullHeight()];
  }

  /** The upper end of a byte axis that shows the whole track and the lines near it. */
  fullHeight() {
    return axisTop(this.levels.top);
  }

  get along() {
    return alongOf(this.track, this.store.state);
  }

  /** The times at the window's two ends. */
  sight() {
    const { start, end } = this.store.state;
    return [this.along.timeOf(start), this.along.timeOf(end)];
  }

  drawNow() {
    if (!this.track) return;
    const began = performance.now();
    if (this.stale.layout || this.stale.colours) this.classify();
    if (this.stale.layout) this.layOut();
    const laidOut = performance.now();
    if (this.stale.layout || this.stale.colours) this.paint();
    const painted = performance.now();
    this.stale = { layout: false, colours: false };
    this.drawOver();
    this.timings = { layout: laidOut - began, paint: painted - laidOut, over: performance.now() - painted };
    this.store.set({ frame: this.store.state.frame + 1 });
  }

  /** Draws the legend and the words below the plot. They take height from the plot, so they are drawn before it. */
  classify() {
    const classes = classesOf(this.track, this.recording, this.store.state);
    if (this.classes === classes) return;
    this.classes = classes;
    this.coloursFor = null;
    this.legend?.draw();
  }

  layOut() {
    const { start, end } = this.store.state;
    this.sizeDrawn();
    this.width = Math.max(this.box.clientWidth - LEFT - RIGHT, 10);
    this.height = Math.max(this.box.clientHeight - this.top - BOTTOM, 10);
    const wanted = window.devicePixelRatio || 1;
    this.ratio = Math.min(wanted, Math.sqrt(MAX_PIXELS / (this.width * this.height)));
    this.columns = Math.max(1, Math.round(this.width * this.ratio));
    this.rows = Math.max(1, Math.round(this.height * this.ratio));
    Object.assign(this.picture, { width: this.columns, height: this.rows });
    Object.assign(this.picture.style, {
      left: LEFT + "px", top: this.top + "px", width: this.width + "px", height: this.height + "px",
    });
    if (!this.pickBuffer || this.pickBuffer.length !== this.columns * this.rows) {
      this.pickBuffer = new Int32Array(this.columns * this.rows);
      this.image = new ImageData(this.columns, this.rows);
    }
    [this.low, this.high] = this.range();
    const { along } = this;
    this.chosen = chooseColumns(this.track, (place, from) => along.firstAt(place, from), start, end, this.columns);
    layOut(this.track, this.chosen, this.low, this.high, this.columns, this.rows, this.pickBuffer);
    this.inView = this.track.blocksIn(this.chosen.first, this.chosen.last);
  }

  paint() {
    const { dark, site, colour, found } = this.store.state;
    const background = dark ? [24, 26, 31] : [255, 255, 255];
    const bySite = colour === "site";
    const key = `${dark} ${bySite ? site : -1}`;
    if (this.coloursFor !== key) {
      const isDim = (one) => bySite && site >= 0 && one !== site;
      this.colours = new Colours(this.classes.colours, { dark, background, isDim });
      this.coloursFor = key;
    }
    const mask = bySite || site < 0 ? found?.mask ?? null : this.maskOf(site, found);
    const faintTo = new Int32Array(this.columns);
    const scale = this.rows / (this.high - this.low);
    for (let x = 0; x < this.columns; x++) {
      faintTo[x] = this.rows - Math.round((this.chosen.min[x] - this.low) * scale);
    }
    const pixels = new Uint32Array(this.image.data.buffer);
    paint(pixels, this.pickBuffer, faintTo, this.columns, this.rows, this.classes.of, mask, this.colours, this.idle());
    this.picture.getContext("2d").putImageData(this.image, 0, 0);
  }

  /** paint()'s `idle`, which says what it hatches; null if the recording has no log of operators. */
  idle() {
    if (!this.recording.header.tensors || this.recording.timeless) return null;
    const { start, end } = this.store.state;
    return { usedTo: this.track.usedTo, times: Float64Array.from({ length: this.columns },
      (_, x) => this.along.timeOf(start + (x + 0.5) / this.columns * (end - start))) };
  }

  /** A mask of the blocks that are not dimmed: those of one site, or the search's matches. Not for a site if colours
   * mean sites. */
  maskOf(site, found) {
    const { site: sites } = this.track.blocks;
    return Uint8Array.from(sites, (one, id) => one === site && (!found || found.mask[id]) ? 1 : 0);
  }

  x(time) {
    return this.xAt(this.along.ofTime(time));
  }

  xAt(place) {
    const { start, end } = this.store.state;
    return LEFT + (place - start) / (end - start) * this.width;
  }

  y(bytes) {
    return this.top + this.height - (bytes - this.low) / (this.high - this.low) * this.height;
  }

  placeAt(x) {
    const { start, end } = this.store.state;
    return start + (x - LEFT) / this.width * (end - start);
  }

  timeAt(x) {
    return this.along.timeOf(this.placeAt(x));
  }

  bytesAt(y) {
    return this.low + (this.top + this.height - y) / this.height * (this.high - this.low);
  }

  inside(x, y) {
    return x >= LEFT && x < LEFT + this.width && y >= this.top && y < this.top + this.height;
  }

  /** True if y is above or below the picture, where dragging selects time. */
  onAxis(y) {
    return y < this.top || y >= this.top + this.height;
  }

  /** The block at a place of the box, or -1. */
  pick(x, y) {
    if (!this.pickBuffer || !this.inside(x, y)) return NOTHING;
    const column = Math.min(Math.floor((x - LEFT) * this.ratio), this.columns - 1);
    const row = Math.min(Math.floor((y - this.top) * this.ratio), this.rows - 1);
    return this.pickBuffer[column * this.rows + row];
  }

  /** The name of the step, region or mark at a place above the picture; "" if there is none. */
  wordsAt(x, y) {
    if (y >= this.top || x < LEFT || x > LEFT + this.width) return "";
    const { notes, timeUnit } = this.recording;
    const time = this.timeAt(x);
    const took = ({ start, end }) => formatDuration((end - start) * timeUnit);
    const base = this.marksTop - this.lanes.length * REGION_LANE;
    const lane = this.lanes[Math.floor((y - base) / REGION_LANE)];
    const marks = this.overlay.marks[Math.floor((y - this.marksTop) / MARK_LANE)];
    if (marks) {
      const group = marks.find((one) => one.x - 4 <= x && x <= one.right + 4);
      return group ? labelOf(group) : "";
    }
    if (y < base) {
      const step = notes.stepAt(time);
      return step ? `${step.name || "step " + step.index}, took ${took({ start: step.time, end: step.end })}` : "";
    }
    const region = lane?.regions.findLast(({ start, end }) => start <= time && time < end);
    return region ? `region ${region.name}, took ${took(region)}` : "";
  }

  /** The state that the picture shows at x. */
  stateUnder(x) {
    const column = Math.floor((x - LEFT) * this.ratio);
    return this.chosen.state[Math.min(Math.max(column, 0), this.columns - 1)];
  }

  drawOver() {
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [this.box.clientWidth, this.box.clientHeight];
    const size = { width: Math.round(width * ratio), height: Math.round(height * ratio) };
    if (this.over.width !== size.width || this.over.height !== size.height) Object.assign(this.over, size);
    const context = this.over.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    this.overlay.draw(context);
  }

  /** Describes the picture in words, for screen readers. */
  describe() {
    const [start, end] = this.sight();
    const unit = this.recording.timeUnit;
    const { peak, info } = this.track;
    return `Stacked blocks of ${info.id} from ${formatDuration(start * unit)} to ${formatDuration(end * unit)}. ` +
      `Peak ${formatBytes(peak.bytes)} at ${formatDuration(info.peak_ns)}, ${formatBytes(this.track.end.bytes)} at ` +
      `the end. ${formatCount(this.inView)} of ${formatCount(info.blocks)} blocks are in this window.`;
  }
}
