// Small helpers for elements. Text always goes in as text, never as HTML.

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

/** Copies text also where the clipboard's own interface is missing, as on pages opened from disk in some browsers. */
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

/** Runs `draw` whenever the size of `box` has changed, before that frame is shown. A late drawing is stretched in it,
 * for good if no later frame comes, as in a picture that Chromium takes without a window. Gives what says
 * that the size has been drawn that `box` has now: for that one it is not run again. */
export function onResize(box, draw) {
  const size = () => `${box.clientWidth} ${box.clientHeight}`;
  let drawn = "";
  new ResizeObserver(() => {
    if (size() !== drawn) draw();
  }).observe(box);
  return () => { drawn = size(); };
}
