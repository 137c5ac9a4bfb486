// Small helpers for elements. Texts are always inserted as text, never as HTML.

/** element("div", {class: "tile", title: "..."}, "text", child, ...) */
export function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

export function option(value, text) {
  return element("option", { value }, text);
}

export function byId(id) {
  return document.getElementById(id);
}

/** Copies text, even if the browser has no clipboard interface, as some have none for pages opened from disk. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = element("textarea", { class: "offscreen" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

/** Runs `draw` once in the next frame, however often it is asked for. */
export function inNextFrame(draw) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };
}

/** Runs `draw` whenever the size of `box` has changed, before the frame is shown. Otherwise the frame would show the
 * old drawing stretched, and it may be the last one, as in screenshots without a window. Returns a function to call
 * when the present size has been drawn, so that `draw` is not run for it again. */
export function onResize(box, draw) {
  const size = () => `${box.clientWidth} ${box.clientHeight}`;
  let drawn = "";
  new ResizeObserver(() => {
    if (size() !== drawn) draw();
  }).observe(box);
  return () => { drawn = size(); };
}
