// The memory that an allocator got from the layer below, with its blocks and holes: at the chosen moment, or over the
// time that the plot shows.

import { element, option } from "../dom.js";
import { addressMap, SEGMENT_LOOKS, trackBelow } from "../data/segments.js";
import { formatBytes, formatCounted, formatDuration } from "../format.js";
import { AddressTime } from "./address_time.js";
import { SegmentMap } from "./segment_map.js";

export class SegmentsView {
  static id = "segments";
  static title = "Segments";
  static about = "Where blocks lie in memory, and the holes between them";
  static absent = "This recording does not hold what the allocator got from the driver";
  static fits = ({ header }, index) => trackBelow(header, index) >= 0;
  needs = ["hover", "pinned", "lower", "segments", "start", "end", "along", "found"];

  constructor({ recording, store }, box) {
    Object.assign(this, { recording, store, box });
    this.look = element("select", { title: "Addresses at a moment, or over the time that the plot shows",
      "aria-label": "Addresses at a moment, or over time", onchange: () => store.set({ segments: this.look.value }) },
      ...Object.entries(SEGMENT_LOOKS).map(([value, { name }]) => option(value, name)));
    this.tip = element("p", { class: "soft note", "aria-live": "polite" });
    const under = element("div", { class: "under" });
    box.append(this.tip, under);
    this.lines = new SegmentMap({ recording, store }, under);
    this.time = new AddressTime({ recording, store }, under);
    under.addEventListener("pointermove", (event) => this.point(event));
    under.addEventListener("pointerleave", () => store.set({ hover: -1 }));
    under.addEventListener("click", (event) => {
      const id = this.shown().at(event)?.id ?? -1;
      if (id >= 0) store.set({ pinned: store.state.pinned === id ? -1 : id });
    });
  }

  get overTime() {
    return this.store.state.segments === "time";
  }

  get scoped() {
    return !this.overTime;
  }

  shown() {
    return this.overTime ? this.time : this.lines;
  }

  controls() {
    return [this.look];
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
    this.look.value = this.store.state.segments;
    this.lines.space.hidden = !this.lower || this.overTime;
    this.time.canvas.hidden = !this.lower || !this.overTime;
    if (!this.lower) return;
    if (this.of !== scope) {
      this.of = scope;
      this.moment = scope.at ?? scope.to;
      this.map = addressMap(this.lower, this.track, this.moment);
    }
    if (this.overTime) this.time.draw(this.track, this.lower);
    else this.lines.draw(this.track, this.map);
    this.shown().canvas.setAttribute("aria-label", this.caption());
    if (!this.pointed) {
      this.tip.textContent = this.overTime ? "Addresses upwards, time as in the plot; grey is free. Point at a block to " +
        "see whose it is." : "One line per segment, in order of address; grey is free. Point at a block to see whose it is.";
    }
  }

  point(event) {
    const found = this.shown().at(event);
    if (!found) return;
    const { segment, id, address, free } = found;
    this.pointed = true;
    this.store.set({ hover: id });
    const whose = id >= 0 ? this.recording.stacks.describe(this.track.blocks.site[id]) : null;
    const here = whose ? `${formatBytes(this.track.bytesOf(id))} of ${whose.name} ${whose.place}` : "";
    this.tip.textContent = segment ? `Segment 0x${segment.address.toString(16)}: ${formatBytes(segment.bytes)}, ` +
      `${formatCounted(segment.blocks.length, "block")} of ${formatBytes(segment.used)}, ` +
      `largest hole ${formatBytes(segment.largest)}. Here: ${here || "free"}` :
      `0x${address.toString(16)}: ${here || (free ? "free" : "not the allocator's at that time")}`;
  }

  caption() {
    if (!this.map) return "";
    if (this.overTime) return this.time.words();
    const sum = (of) => this.map.reduce((total, segment) => total + of(segment), 0);
    const bytes = sum((segment) => segment.bytes);
    const used = sum((segment) => segment.used);
    const largest = this.map.reduce((most, segment) => Math.max(most, segment.largest), 0);
    return `${formatCounted(this.map.length, "segment")} of ${formatBytes(bytes)} at ` +
      `${formatDuration(this.moment * this.recording.timeUnit)}: ${formatBytes(used)} in blocks, ` +
      `${formatBytes(bytes - used)} free, largest hole ${formatBytes(largest)}`;
  }

  values() {
    return {
      columns: ["address", "bytes", "in blocks", "blocks", "largest hole"],
      rows: (this.map ?? []).map((segment) => ["0x" + segment.address.toString(16), segment.bytes, segment.used,
        segment.blocks.length, segment.largest]),
    };
  }
}
