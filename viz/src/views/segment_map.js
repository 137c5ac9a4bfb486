// The address map at one moment: a line per segment with its blocks and holes. Only the lines in sight are drawn.

import { element } from "../dom.js";
import { inks } from "../draw/ink.js";
import { css, siteColour } from "../draw/palette.js";
import { formatBytes, formatShare } from "../format.js";

const ROW = 18;
const LEFT = 250;

export class SegmentMap {
  constructor({ recording, store }, box) {
    Object.assign(this, { recording, store, box });
    this.canvas = element("canvas", { class: "map lines", role: "img" });
    this.space = element("div", { class: "map-space" }, this.canvas);
    box.append(this.space);
    box.addEventListener("scroll", () => this.paint());
  }

  draw(track, map) {
    this.track = track;
    this.map = map;
    this.widest = map.reduce((most, segment) => Math.max(most, segment.bytes), 1);
    this.paint();
  }

  paint() {
    if (!this.map || this.space.hidden) return;
    const ratio = window.devicePixelRatio || 1;
    const width = this.box.clientWidth - 16;
    const height = Math.max(Math.min(this.box.clientHeight, this.map.length * ROW), ROW);
    this.space.style.height = this.map.length * ROW + "px";
    Object.assign(this.canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    Object.assign(this.canvas.style, { width: width + "px", height: height + "px" });
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    const ink = inks("text", "soft", "line", "panel");
    const first = Math.max(Math.floor(this.box.scrollTop / ROW), 0);
    const last = Math.min(first + Math.ceil(height / ROW) + 1, this.map.length);
    for (let i = first; i < last; i++) this.drawLine(context, this.map[i], i * ROW - this.box.scrollTop, width, ink);
  }

  drawLine(context, segment, y, width, ink) {
    const { dark, hover, pinned, site } = this.store.state;
    const scale = (width - LEFT) / this.widest;
    context.fillStyle = ink.soft;
    context.textAlign = "left";
    context.fillText(`0x${segment.address.toString(16)}`, 4, y + ROW / 2);
    context.textAlign = "right";
    context.fillText(`${formatShare(segment.used, segment.bytes)} of ${formatBytes(segment.bytes)}`, LEFT - 10,
      y + ROW / 2);
    context.fillStyle = ink.line;
    context.fillRect(LEFT, y + 2, Math.max(segment.bytes * scale, 1), ROW - 4);
    for (const block of segment.blocks) {
      const x = LEFT + (block.address - segment.address) * scale;
      const blockSite = this.track.blocks.site[block.id];
      context.fillStyle = css(siteColour(this.recording.stacks.hash(blockSite), dark));
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
  }

  /** {segment, id} under a place of the viewport; null outside. */
  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const segment = this.map?.[Math.floor((event.clientY - box.top + this.box.scrollTop) / ROW)];
    if (!segment) return null;
    const address = segment.address + (event.clientX - box.left - LEFT) / (box.width - LEFT) * this.widest;
    const block = segment.blocks.findLast((one) => one.address <= address);
    return { segment, id: block && address < block.address + block.bytes ? block.id : -1 };
  }
}
