// From blocks per pixel to colours.

import { NOTHING } from "./layout.js";
import { mix, word } from "./palette.js";

const TILE = 32; // the pick buffer is by column and the picture by row; tiles keep both in the cache

/**
 * Colour words per class of blocks: for a block's body, its edge, and the part of a column that was not full all of the
 * column's time. Class i + count is class i dimmed.
 */
export class Colours {
  /**
   * @param {number[][]} colours by class
   * @param {{dark: boolean, background: number[], isDim: function(number): boolean}} look isDim: classes to dim wholly
   */
  constructor(colours, { dark, background, isDim }) {
    this.count = colours.length;
    this.body = new Uint32Array(2 * this.count);
    this.edge = new Uint32Array(2 * this.count);
    this.faint = new Uint32Array(2 * this.count);
    const grey = dark ? [74, 78, 86] : [214, 217, 222];
    for (let i = 0; i < this.count; i++) {
      const dimmed = mix(grey, colours[i], 0.12);
      this.set(i, isDim(i) ? dimmed : colours[i], dark, background);
      this.set(i + this.count, dimmed, dark, background);
    }
  }

  set(at, colour, dark, background) {
    this.body[at] = word(colour);
    this.edge[at] = word(mix(colour, dark ? [0, 0, 0] : [255, 255, 255], dark ? 0.35 : 0.45));
    this.faint[at] = word(mix(colour, background, 0.55));
  }
}

/**
 * @param {Uint32Array} pixels the picture, row by row
 * @param {Int32Array} pick as layOut() fills it
 * @param {Int32Array} faintTo per column: rows above this one (counted from the top) were not filled all the time
 * @param {ArrayLike<number>} classOf per block
 * @param {?Uint8Array} mask per block: 0 dims it
 * @param {?{usedTo: Float64Array, times: Float64Array}} idle per block: when it was last used; -1: not known. Per
 * column: its time. A block is hatched from its last use on
 */
export function paint(pixels, pick, faintTo, width, height, classOf, mask, colours, idle = null) {
  const { body, edge, faint, count } = colours;
  for (let left = 0; left < width; left += TILE) {
    const right = Math.min(left + TILE, width);
    for (let top = 0; top < height; top += TILE) {
      const bottom = Math.min(top + TILE, height);
      for (let x = left; x < right; x++) {
        const at = x * height;
        const solid = faintTo[x];
        for (let y = top; y < bottom; y++) {
          const id = pick[at + y];
          if (id === NOTHING) {
            pixels[y * width + x] = 0;
            continue;
          }
          const look = mask !== null && mask[id] === 0 ? classOf[id] + count : classOf[id];
          // Every block of enough height gets a light line along its top.
          const isEdge = (y === 0 || pick[at + y - 1] !== id) && y + 3 < height && pick[at + y + 3] === id;
          const isHatch = idle !== null && (x + y & 7) < 2 && idle.usedTo[id] >= 0 && idle.times[x] > idle.usedTo[id];
          pixels[y * width + x] = y < solid || isHatch ? faint[look] : isEdge ? edge[look] : body[look];
        }
      }
    }
  }
}
