// From blocks per pixel to colours.

import { NOTHING } from "./layout.js";
import { mix, siteColour, word } from "./palette.js";

const TILE = 32; // the pick buffer is by column and the picture by row; tiles keep both in the cache

/** Colour words per site: of a block's body, of its edge, and of what was not there all of the column's time. */
export class Colours {
  /**
   * @param {import("../data/stacks.js").Stacks} stacks
   * @param {{dark: boolean, background: number[], site: number}} look site: the one to show, the rest dimmed; -1: none
   */
  constructor(stacks, { dark, background, site }) {
    this.body = new Uint32Array(stacks.count);
    this.edge = new Uint32Array(stacks.count);
    this.faint = new Uint32Array(stacks.count);
    this.site = new Array(stacks.count);
    const grey = dark ? [74, 78, 86] : [214, 217, 222];
    for (let i = 0; i < stacks.count; i++) {
      let colour = siteColour(stacks.hash(i), dark);
      this.site[i] = colour;
      if (site >= 0 && site !== i) colour = mix(grey, colour, 0.12);
      this.body[i] = word(colour);
      this.edge[i] = word(mix(colour, dark ? [0, 0, 0] : [255, 255, 255], dark ? 0.35 : 0.45));
      this.faint[i] = word(mix(colour, background, 0.55));
    }
  }
}

/**
 * @param {Uint32Array} pixels the picture, row by row
 * @param {Int32Array} pick as layOut() fills it
 * @param {Int32Array} faintTo per column: rows above this one (counted from the top) were not filled all the time
 */
export function paint(pixels, pick, faintTo, width, height, siteOf, colours) {
  const { body, edge, faint } = colours;
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
          const site = siteOf[id];
          // A light line along the top of every block that is high enough to spare one.
          const isEdge = (y === 0 || pick[at + y - 1] !== id) && y + 3 < height && pick[at + y + 3] === id;
          pixels[y * width + x] = y < solid ? faint[site] : isEdge ? edge[site] : body[site];
        }
      }
    }
  }
}
