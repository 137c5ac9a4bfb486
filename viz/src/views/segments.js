// The memory that an allocator got from the layer below, with its blocks and holes, at the moment that is looked at.

import { element } from "../dom.js";
import { addressMap, trackBelow } from "../data/segments.js";
import { css, siteColour } from "../draw/palette.js";
import { inks } from "../draw/overlay.js";
import { formatBytes, formatCounted, formatDuration, formatShare } from "../format.js";

const ROW = 18;
const LEFT = 250;
const MOST = 400; // segments drawn

export class SegmentsView {
  static id = "segments";
  static title = "Segments";
  static about = "Where blocks lie in memory, and the holes between them";
  static absent = "This recording does not hold what the allocator got from the driver";
  static fits = ({ header }, index) => trackBelow(header, index) >= 0;
  scoped = true;
  needs = ["hover", "pinned", "lower"];

  constructor({ recording, store }, box) {
    Object.assign(this, { recording, store, box });
    this.canvas = element("canvas", { class: "map", role: "img" });
    this.tip = element("p", { class: "soft note", "aria-live": "polite" });
    box.append(this.tip, this.canvas);
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("click", (event) => {
      const block = this.at(event)?.block;
      if (block) store.set({ pinned: store.state.pinned === block.id ? -1 : block.id });
    });
  }

  show(track) {
    this.track = track;
    this.lower = null;
    this.map = null;
    this.pointed = false;
    const below = trackBelow(this.recording.header, this.store.state.track);
    if (below < 0) return;
    this.recording.track(below).then((lower) => {
      this.lower = lower;
      this.of = null;
      this.store.set({ lower: below });
    });
  }

  draw(scope) {
    if (!this.lower) {
      if (!SegmentsView.fits(this.recording, this.store.state.track)) this.tip.textContent = SegmentsView.absent + ".";
      this.canvas.hidden = true;
      return;
    }
    this.canvas.hidden = false;
    if (this.of !== scope) {
      this.of = scope;
      this.time = scope.at ?? scope.to;
      this.map = addressMap(this.lower, this.track, this.time);
      this.widest = this.map.reduce((most, segment) => Math.max(most, segment.bytes), 1);
    }
    this.paint();
  }

  paint() {
    const shown = this.map.slice(0, MOST);
    const ratio = window.devicePixelRatio || 1;
    const width = this.box.clientWidth - 16;
    const height = Math.max(shown.length * ROW, ROW);
    Object.assign(this.canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    Object.assign(this.canvas.style, { width: width + "px", height: height + "px" });
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const ink = inks("text", "soft", "line", "panel");
    const { stacks } = this.recording;
    const { dark, hover, pinned, site } = this.store.state;
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    shown.forEach((segment, i) => {
      const y = i * ROW;
      const scale = (width - LEFT) / this.widest;
      context.fillStyle = ink.soft;
      context.fillText(`0x${segment.address.toString(16)}`, 4, y + ROW / 2);
      context.textAlign = "right";
      context.fillText(`${formatShare(segment.used, segment.bytes)} of ${formatBytes(segment.bytes)}`, LEFT - 10,
        y + ROW / 2);
      context.textAlign = "left";
      context.fillStyle = ink.line;
      context.fillRect(LEFT, y + 2, Math.max(segment.bytes * scale, 1), ROW - 4);
      for (const block of segment.blocks) {
        const x = LEFT + (block.address - segment.address) * scale;
        const blockSite = this.track.blocks.site[block.id];
        context.fillStyle = css(siteColour(stacks.hash(blockSite), dark));
        context.globalAlpha = site >= 0 && blockSite !== site ? 0.15 : 1;
        const room = block.bytes * scale;
        context.fillRect(x, y + 2, Math.max(room - (room > 3 ? 1 : 0), 0.6), ROW - 4);
        context.globalAlpha = 1;
        if (block.id === hover || block.id === pinned) {
          context.strokeStyle = ink.text;
          context.lineWidth = 2;
          context.strokeRect(x, y + 1, Math.max(room, 2), ROW - 2);
        }
      }
    });
    this.canvas.setAttribute("aria-label", this.caption());
    if (!this.pointed) {
      this.tip.textContent = "One line per segment, in order of address; grey is free. " +
        "Point at a block to see whose it is.";
    }
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const segment = this.map?.[Math.floor((event.clientY - box.top) / ROW)];
    if (!segment) return null;
    const address = segment.address + (event.clientX - box.left - LEFT) / (box.width - LEFT) * this.widest;
    const block = segment.blocks.findLast((one) => one.address <= address);
    return { segment, block: block && address < block.address + block.bytes ? block : null, address };
  }

  point(event) {
    const found = this.at(event);
    if (!found) return;
    const { segment, block } = found;
    this.pointed = true;
    this.store.set({ hover: block ? block.id : -1 });
    const whose = block ? this.recording.stacks.describe(this.track.blocks.site[block.id]) : null;
    this.tip.textContent = `Segment 0x${segment.address.toString(16)}: ${formatBytes(segment.bytes)}, ` +
      `${formatCounted(segment.blocks.length, "block")} of ${formatBytes(segment.used)}, ` +
      `largest hole ${formatBytes(segment.largest)}. ` +
      (block ? `Here: ${formatBytes(block.bytes)} of ${whose.name} ${whose.place}` : "Here: free");
  }

  caption() {
    if (!this.map) return "";
    const sum = (of) => this.map.reduce((total, segment) => total + of(segment), 0);
    const bytes = sum((segment) => segment.bytes);
    const used = sum((segment) => segment.used);
    const largest = this.map.reduce((most, segment) => Math.max(most, segment.largest), 0);
    const rest = this.map.length > MOST ? `; ${formatCounted(this.map.length - MOST, "segment")} are not drawn` : "";
    return `${formatCounted(this.map.length, "segment")} of ${formatBytes(bytes)} at ` +
      `${formatDuration(this.time * this.recording.timeUnit)}: ${formatBytes(used)} in blocks, ` +
      `${formatBytes(bytes - used)} free, largest hole ${formatBytes(largest)}${rest}`;
  }

  values() {
    return {
      columns: ["address", "bytes", "in blocks", "blocks", "largest hole"],
      rows: (this.map ?? []).map((segment) => ["0x" + segment.address.toString(16), segment.bytes, segment.used,
        segment.blocks.length, segment.largest]),
    };
  }
}
