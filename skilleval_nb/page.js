// What the pages of all widgets are made with. Every text goes into a page as a text node.

// JupyterLab looks for this on the focused element itself; without it `d d` would delete the cell
const GUARD = "data-lm-suppress-shortcuts";

function h(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  fill(node, children);
  if (["BUTTON", "INPUT", "SELECT", "TEXTAREA", "SUMMARY"].includes(node.tagName) || node.hasAttribute("tabindex"))
    node.setAttribute(GUARD, "");
  return node;
}

function fill(node, children) {
  node.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
}

// What keeps the notebook's keys away would keep Ctrl+S away too, and the browser would save the page.
function letSave(root) {
  const listen = (event) => {
    if (root.contains(event.target) && event.target.hasAttribute("data-key"))
      event.target.toggleAttribute(GUARD, !((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "s"));
  };
  window.addEventListener("keydown", listen, true);
  return () => window.removeEventListener("keydown", listen, true);
}

