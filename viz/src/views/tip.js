// The short text next to the pointer.

import { byId, element } from "../dom.js";
import { formatBytes, formatDuration } from "../format.js";

export class Tip {
  constructor(recording) {
    this.recording = recording;
    this.box = byId("tip");
  }

  /** @param {number} x @param {number} y of the viewport */
  show(track, id, x, y) {
    if (id !== this.shown || this.box.hidden) {
      this.shown = id;
      this.box.replaceChildren(...this.content(track, id));
      this.box.hidden = false;
    }
    this.put(x, y);
  }

  put(x, y) {
    const { offsetWidth, offsetHeight } = this.box;
    const left = x + 16 + offsetWidth > window.innerWidth ? x - 12 - offsetWidth : x + 16;
    const top = y + 18 + offsetHeight > window.innerHeight ? y - 12 - offsetHeight : y + 18;
    this.box.style.left = Math.max(left, 4) + "px";
    this.box.style.top = Math.max(top, 4) + "px";
  }

  /** Shows words in place of a block. */
  say(text, x, y) {
    this.shown = -1;
    this.box.replaceChildren(text);
    this.box.hidden = false;
    this.put(x, y);
  }

  hide() {
    this.box.hidden = true;
  }

  content(track, id) {
    const { recording } = this;
    const { name, place, inside, backward } = this.recording.stacks.describe(track.blocks.site[id]);
    const lived = formatDuration(track.life(id) * this.recording.timeUnit);
    return [
      element("div", {}, element("strong", {}, track.sizeKnown(id) ? formatBytes(track.bytesOf(id)) : "size unknown"),
        recording.timeless ? "" : track.deathTime(id) === Infinity ? `  live at the end, for ${lived}` : `  lived ${lived}`),
      element("div", {}, backward ? backward + " " : "", name, " ", element("span", { class: "place" }, place)),
      element("div", { class: "soft" }, [recording.categories[track.category(id)], recording.modules[track.module(id)]]
        .filter(Boolean).join(", in ")),
      element("div", { class: "soft" }, recording.words[track.tensor(id)] ?? ""),
      inside ? element("div", { class: "soft" }, inside) : element("div"),
    ];
  }
}
