// Colours of sites and of other names: a name's hash chooses one of twenty, so that it looks the same in every run.
//
// The twenty were found by search. Any two differ by at least 12 (CIE 1976) for normal sight and for blindness to red,
// green or blue (Machado 2009). Each has a contrast of at least 3 to 1 to the page (WCAG). test/palette.test.js checks
// both.

/** Colours on a light page, and of about the same hue on a dark page. */
export const PALETTE = [
  [[8, 112, 112], [147, 243, 231]],
  [[8, 151, 242], [111, 171, 231]],
  [[21, 112, 203], [63, 111, 207]],
  [[86, 99, 138], [183, 171, 207]],
  [[138, 138, 177], [207, 207, 255]],
  [[112, 86, 164], [147, 135, 171]],
  [[164, 125, 203], [147, 147, 255]],
  [[86, 47, 125], [111, 111, 171]],
  [[112, 34, 99], [195, 75, 123]],
  [[164, 47, 99], [243, 183, 183]],
  [[203, 125, 151], [207, 75, 87]],
  [[151, 8, 60], [219, 135, 159]],
  [[229, 112, 112], [243, 135, 135]],
  [[125, 73, 8], [255, 219, 183]],
  [[86, 60, 21], [171, 135, 27]],
  [[177, 138, 34], [111, 123, 39]],
  [[125, 112, 60], [207, 183, 75]],
  [[151, 151, 73], [219, 231, 111]],
  [[47, 164, 112], [123, 207, 111]],
  [[8, 73, 47], [183, 243, 147]],
];

/** Low to high, distinguished by lightness alone ("viridis", by van der Walt and Smith, CC0). */
const SCALE = [[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129], [92, 200, 99],
  [170, 220, 50], [253, 231, 37]];

/** Moves a colour towards another: 0 keeps it. */
export function mix(colour, other, share) {
  return colour.map((value, i) => Math.round(value + (other[i] - value) * share));
}

export function siteColour(hash, dark) {
  return PALETTE[hash % PALETTE.length][dark ? 1 : 0];
}

// Indices in PALETTE: of any 13, these differ most from each other and from the grey, for the four kinds of sight above.
const APART = [2, 13, 18, 11, 0, 3, 16, 6, 12, 9, 19, 1, 5];
export const APART_COLOURS = APART.length;
const GREY = [[146, 148, 152], [96, 102, 112]];

export function noColour(dark) {
  return GREY[dark ? 1 : 0];
}

/** One of the APART_COLOURS that keep apart best. */
export function apartColour(index, dark) {
  return PALETTE[APART[index % APART.length]][dark ? 1 : 0];
}

/** The few categories of a recording each have a colour of their own. */
export function categoryColour(name, categories, dark) {
  const at = categories.indexOf(name);
  return at > 0 ? apartColour(at - 1, dark) : noColour(dark);
}

/** `count` colours from low to high, without those hard to see on a light or a dark page. */
export function scaleColours(count, dark) {
  const [first, last] = dark ? [2.5, 8] : [1, 7];
  return Array.from({ length: count }, (_, i) => {
    const at = first + i / Math.max(count - 1, 1) * (last - first);
    const low = Math.floor(at);
    return mix(SCALE[low], SCALE[Math.min(low + 1, SCALE.length - 1)], at - low);
  });
}

/** Black or white, whichever can be read better on a colour (WCAG's relative luminance). */
export function textOn(colour) {
  return luminance(colour) > 0.179 ? [0, 0, 0] : [255, 255, 255];
}

/** WCAG's relative luminance. */
export function luminance(colour) {
  const [r, g, b] = colour.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

export function css([red, green, blue]) {
  return `rgb(${red} ${green} ${blue})`;
}

/** A colour as a little-endian RGBA word, as ImageData has it. */
export function word([red, green, blue]) {
  return (0xff000000 | blue << 16 | green << 8 | red) >>> 0;
}
