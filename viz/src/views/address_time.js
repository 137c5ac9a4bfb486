// Addresses over time: a block is a box from its birth to its death, as high as it is large; grey is free.

import { element } from "../dom.js";
import { FREE, idsIn, NOTHING, paintRects, Ranges } from "../data/address_time.js";
import { byteTicks } from "../draw/axis.js";
import { inks } from "../draw/ink.js";
import { alongOf, placesOf } from "../draw/along.js";
import { mix, siteColour, word } from "../draw/palette.js";
import { formatBytes, formatCounted } from "../format.js";

const LEFT = 118;
const LEAST = 160; // pixels of height
const MOST = 2e6; // most blocks that are drawn at once

export class AddressTime {
  constructor({ recording, store }, box) {
    Object.assign(this, { recording, store, box });
    this.canvas = element("canvas", { class: "map", role: "img" });
    box.append(this.canvas);
  }

  get along() {
    return alongOf(this.track, this.store.state);
  }

  /** @param {import("../data/track.js").Track} lower the track whose blocks are the segments of `track` */
  draw(track, lower) {
    Object.assign(this, { track, lower });
    const { start, end } = this.store.state;
    const ratio = window.devicePixelRatio || 1;
    const width = this.box.clientWidth - 16;
    const height = Math.max(this.box.clientHeight - 6, LEAST);
    this.columns = Math.max(Math.round((width - LEFT) * ratio), 1);
    this.rows = Math.round(height * ratio);
    Object.assign(this.canvas, { width: Math.round(width * ratio), height: this.rows });
    Object.assign(this.canvas.style, { width: width + "px", height: height + "px" });
    const key = `${start} ${end} ${this.columns} ${this.rows} ${track.info.id} ${this.store.state.along}`;
    if (this.of !== key) {
      this.of = key;
      this.layOut(start, end);
    }
    this.paint(ratio, width, height);
  }

  layOut(start, end) {
    const { along, track, lower } = this;
    const scale = this.columns / (end - start);
    const states = (of) => [start, end].map((place) => of.stateAt(along.timeOf(place)));
    const segments = [...idsIn(lower, ...states(lower))].map((id) => ({ id, address: lower.address(id),
      bytes: lower.bytesOf(id) }));
    this.ranges = new Ranges(segments);
    const ofTime = (time) => (along.ofTime(Math.min(Math.max(time, track.from), track.to)) - start) * scale;
    const rects = segments.map(({ id, address, bytes }) => ({ under: this.ranges.under(address), bytes, id: FREE,
      from: ofTime(lower.birthTime(id)), to: ofTime(lower.deathTime(id)) }));
    const blocks = idsIn(track, along.firstAt(start) - 1, along.firstAt(end) - 1);
    this.tooMany = blocks.length > MOST;
    this.drawn = 0;
    for (let i = 0; i < blocks.length && !this.tooMany; i++) {
      const id = blocks[i];
      const under = this.ranges.under(track.address(id));
      if (under < 0) continue;
      const [from, to] = placesOf(track, along, id).map((place) => (place - start) * scale);
      rects.push({ under, bytes: track.bytesOf(id), id, from, to });
      this.drawn++;
    }
    this.pick = new Int32Array(this.columns * this.rows).fill(NOTHING);
    paintRects(this.pick, this.columns, this.rows, this.ranges.total, rects.filter(({ under }) => under >= 0));
  }

  paint(ratio, width, height) {
    const { dark, site: chosen, hover, pinned, found } = this.store.state;
    const { stacks } = this.recording;
    const { site } = this.track.blocks;
    const ink = inks("soft", "line", "text", "panel");
    const context = this.canvas.getContext("2d");
    const background = dark ? [24, 26, 31] : [255, 255, 255];
    const free = word(dark ? [50, 54, 62] : [217, 220, 225]);
    const strong = word(dark ? [255, 255, 255] : [0, 0, 0]);
    const image = new ImageData(this.columns, this.rows);
    const pixels = new Uint32Array(image.data.buffer);
    const words = [];
    const faint = [];
    for (let i = 0; i < pixels.length; i++) {
      const id = this.pick[i];
      if (id === NOTHING) continue;
      if (id === FREE) {
        pixels[i] = free;
        continue;
      }
      const of = site[id];
      if (words[of] === undefined) {
        const colour = siteColour(stacks.hash(of), dark);
        words[of] = word(colour);
        faint[of] = word(mix(colour, background, 0.8));
      }
      const dim = (chosen >= 0 && of !== chosen) || (found && !found.mask[id]);
      pixels[i] = id === pinned || id === hover ? strong : dim ? faint[of] : words[of];
    }
    context.putImageData(image, Math.round(LEFT * ratio), 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.drawAddresses(context, height, ink);
    this.canvas.setAttribute("aria-label", this.words());
  }

  /** Labels each range with its first address, if there is room; else labels bytes. */
  drawAddresses(context, height, ink) {
    context.font = "11px ui-monospace, monospace";
    context.textAlign = "right";
    context.textBaseline = "bottom";
    context.fillStyle = ink.soft;
    const { starts, below, total } = this.ranges;
    let next = height + 1;
    starts.forEach((address, i) => {
      const y = height - below[i] / total * height;
      if (y > next) return;
      context.fillText("0x" + address.toString(16), LEFT - 8, Math.max(y, 12));
      context.fillRect(LEFT - 6, Math.round(y) - 1, 6, 1);
      next = y - 14;
    });
    for (const { value } of byteTicks(0, total, 3)) {
      context.globalAlpha = 0.12;
      context.fillRect(LEFT, Math.round(height - value / total * height), this.canvas.clientWidth - LEFT, 1);
      context.globalAlpha = 1;
    }
  }

  words() {
    if (this.tooMany) return `More than ${formatCounted(MOST, "block")} are in sight: zoom in to see them.`;
    return `${formatCounted(this.drawn, "block")} over time in ${formatBytes(this.ranges.total)} of addresses; grey is free.`;
  }

  /** {id, address} under a place of the viewport; null outside. */
  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = Math.floor((event.clientX - box.left - LEFT) / (box.width - LEFT) * this.columns);
    const y = Math.floor((event.clientY - box.top) / box.height * this.rows);
    if (x < 0 || y < 0 || x >= this.columns || y >= this.rows || !this.ranges.total) return null;
    const id = this.pick[y * this.columns + x];
    return { id: id < 0 ? -1 : id, free: id === FREE,
      address: Math.floor(this.ranges.addressAt((1 - (y + 0.5) / this.rows) * this.ranges.total)) };
  }
}
