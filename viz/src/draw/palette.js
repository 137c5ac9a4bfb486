// Colours of sites: from Paul Tol's "muted" scheme and Okabe-Ito's, which stay apart for colour-blind
// eyes; a site takes the one that its hash names, with one of three lightnesses, so that it looks the same in every
// run.

const HUES = [
  [86, 74, 160], [136, 204, 238], [68, 170, 153], [17, 119, 51], [153, 153, 51], [221, 204, 119],
  [204, 102, 119], [136, 34, 85], [170, 68, 153], [230, 159, 0], [0, 114, 178], [213, 94, 0],
];
const LIGHTNESS = [0, 0.16, -0.16];

/** Moves a colour towards another: 0 keeps it. */
export function mix(colour, other, share) {
  return colour.map((value, i) => Math.round(value + (other[i] - value) * share));
}

export function siteColour(hash, dark) {
  const hue = HUES[hash % HUES.length];
  const light = LIGHTNESS[(hash >>> 8) % LIGHTNESS.length] + (dark ? 0.06 : 0.1);
  // Very dark hues vanish on a dark page, very light ones on a light page.
  const luminance = (0.3 * hue[0] + 0.59 * hue[1] + 0.11 * hue[2]) / 255;
  const lift = dark ? Math.max(0, 0.42 - luminance) : Math.min(0, 0.72 - luminance);
  const share = light + lift;
  return share >= 0 ? mix(hue, [255, 255, 255], share) : mix(hue, [0, 0, 0], -share);
}

/** Black or white, whichever can be read better on a colour (WCAG's relative luminance). */
export function textOn(colour) {
  const [r, g, b] = colour.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? [12, 14, 18] : [255, 255, 255];
}

export function css([red, green, blue]) {
  return `rgb(${red} ${green} ${blue})`;
}

/** A colour as a little-endian RGBA word, as ImageData has it. */
export function word([red, green, blue]) {
  return (0xff000000 | blue << 16 | green << 8 | red) >>> 0;
}
