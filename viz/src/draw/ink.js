// Shared by everything that is drawn on a canvas.

export const LEFT = 74; // where the picture begins, in pixels

/** The page's colours, by the names that style.css gives them. */
export function inks(...names) {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue("--" + name).trim()]));
}
