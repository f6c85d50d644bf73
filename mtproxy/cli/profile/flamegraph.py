"""A flame graph as one HTML file that needs nothing else: no network, no other file.

The tree is data in the page; a script of it draws the visible part, zooms by clicks and marks what
is searched for. Without scripts the page shows the table of functions. Pure.
"""

from __future__ import annotations

import html
import json

from mtproxy.cli.profile import render
from mtproxy.cli.profile.stacks import Profile

#: label number, samples, samples of its own, children
type Node = list[int | list[Node]]


class _Tree:
    """One function below its caller."""

    __slots__ = ("children", "own", "total")

    def __init__(self) -> None:
        self.total = 0
        self.own = 0
        self.children: dict[str, _Tree] = {}


def _grow(profile: Profile) -> _Tree:
    root = _Tree()
    for thread, stack in profile.stacks():
        at = root
        at.total += 1
        for label in (thread, *(frame.label() for frame in stack)):
            below = at.children.get(label)
            if below is None:
                below = at.children[label] = _Tree()
            at = below
            at.total += 1
        at.own += 1
    return root


def _flatten(tree: _Tree, labels: dict[str, int]) -> list[list[int]]:
    """Nodes in order of a walk from the top: depth, label number, samples, own samples. (A nested
    form would be as deep as the stacks are, which not every JSON parser likes.)
    """
    rows = [[0, labels.setdefault("all", len(labels)), tree.total, tree.own]]
    waiting = [(1, label, child) for label, child in _ordered(tree)]
    while waiting:
        depth, label, node = waiting.pop()
        rows.append([depth, labels.setdefault(label, len(labels)), node.total, node.own])
        waiting.extend((depth + 1, name, child) for name, child in _ordered(node))
    return rows


def _ordered(tree: _Tree) -> list[tuple[str, _Tree]]:
    """Children by name, the last first: they are taken from the end."""
    return sorted(tree.children.items(), reverse=True)


def flamegraph(profile: Profile, name: str) -> str:
    """The page. `name` is its title."""
    labels: dict[str, int] = {}
    rows = _flatten(_grow(profile), labels)
    data = {"labels": list(labels), "rows": rows, "interval": profile.interval}
    remarks = [
        f"{profile.sampler}, Python {profile.python}, {profile.rounds} rounds in "
        f"{profile.seconds:.1f} s",
        *profile.notes,
    ]
    parts = {
        "TITLE": html.escape(name),
        "REMARKS": html.escape("; ".join(remarks)),
        "TABLE": html.escape(render.top(profile)),
        # nothing in it can end the script element
        "DATA": json.dumps(data).replace("<", "\\u003c"),
    }
    page = _PAGE
    for word, text in parts.items():
        before, _, after = page.partition(f"@{word}@")
        page = before + text + after
        if word == "TITLE":  # twice: the window's title, and the heading
            page = page.replace("@TITLE@", text, 1)
    return page


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>@TITLE@</title>
<style>
:root { color-scheme: light dark; --bg: #fff; --fg: #222; --dim: #666; --line: #ccc; --hit: #c0f; }
@media (prefers-color-scheme: dark) {
  :root { --bg: #1c1c1e; --fg: #eee; --dim: #999; --line: #444; --hit: #d6f; }
}
* { box-sizing: border-box; }
body { margin: 0; padding: 12px 16px; background: var(--bg); color: var(--fg);
  font: 13px/1.4 system-ui, sans-serif; }
h1 { margin: 0; font-size: 17px; }
p { margin: 2px 0 8px; color: var(--dim); }
header { position: sticky; top: 0; z-index: 2; background: var(--bg); padding-bottom: 6px;
  border-bottom: 1px solid var(--line); }
#bar { display: flex; gap: 8px; align-items: center; flex-wrap: wrap; }
#search { width: 22em; max-width: 60vw; padding: 3px 6px; font: inherit; }
button { padding: 3px 10px; font: inherit; }
#found { color: var(--dim); }
#about { min-height: 2.8em; margin-top: 6px; font: 12px/1.4 ui-monospace, monospace;
  overflow-wrap: anywhere; }
#graph { position: relative; margin-top: 8px; }
#graph div { position: absolute; height: 18px; overflow: hidden; white-space: nowrap;
  padding: 0 3px; font: 11px/17px ui-monospace, monospace; color: #111; cursor: pointer;
  border: solid var(--bg); border-width: 0 1px 1px 0; border-radius: 2px; }
#graph div:hover, #graph div:focus { filter: brightness(0.88); outline: none; }
#graph div.above { opacity: 0.55; }
#graph div.hit { background: var(--hit) !important; color: #fff; }
pre { overflow-x: auto; }
</style>
</head>
<body>
<header>
<h1>@TITLE@</h1>
<p>@REMARKS@</p>
<div id="bar">
<input id="search" type="search" placeholder="search: a word or a regular expression"
 aria-label="search functions">
<button id="reset" type="button">whole graph</button>
<span id="found"></span>
</div>
<div id="about" aria-live="polite"></div>
</header>
<noscript><p>The graph needs scripts. The functions:</p><pre>@TABLE@</pre></noscript>
<main id="graph"></main>
<script id="data" type="application/json">@DATA@</script>
<script>
"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const graph = document.getElementById("graph"), about = document.getElementById("about");
  const search = document.getElementById("search"), found = document.getElementById("found");
  const HEIGHT = 18;
  const nodes = [], path = [];
  for (const [depth, label, total, own] of data.rows) {
    path.length = depth;
    const parent = depth ? path[depth - 1] : null;
    const start = parent ? parent.next : 0;
    const node = { depth, text: data.labels[label], total, own, parent, start, next: start };
    if (parent) parent.next += total;
    path.push(node);
    nodes.push(node);
  }
  const root = nodes[0];
  let zoomed = root, pattern = null;

  function color(node) {
    if (node.depth === 0) return "#bbb";
    if (node.depth === 1) return "#8fb4dc";
    const file = (node.text.match(/\\((.*?)(:\\d+)?\\)$/) || ["", ""])[1];
    let hash = 0;
    for (const c of node.text) hash = (hash * 31 + c.charCodeAt(0)) >>> 0;
    const hue = file.startsWith("mtproxy/") ? 22 + hash % 30 : 90 + hash % 60;
    return "hsl(" + hue + " " + (65 + hash % 20) + "% " + (66 + hash % 10) + "%)";
  }
  function percent(part, whole) { return (100 * part / (whole || 1)).toFixed(2) + " %"; }
  function describe(node) {
    let text = node.text + ": " + percent(node.total, root.total) + " of all";
    if (zoomed !== root && node.depth >= zoomed.depth) {
      text += ", " + percent(node.total, zoomed.total) + " of what is shown";
    }
    text += ", " + node.total + " samples";
    if (data.interval) text += ", about " + (node.total * data.interval).toFixed(2) + " s";
    return text + "; itself " + percent(node.own, root.total);
  }
  function draw() {
    const left = zoomed.start, width = zoomed.total || 1, least = width / 2000;
    const piece = document.createDocumentFragment();
    let deepest = 0;
    for (const node of nodes) {
      const above = node.depth < zoomed.depth;
      const end = node.start + node.total;
      if (above ? !(node.start <= left && end >= left + width)
        : node.start < left || end > left + width || node.total < least) continue;
      if (node.depth === zoomed.depth && node !== zoomed) continue;
      const box = document.createElement("div");
      box.style.left = above ? "0" : 100 * (node.start - left) / width + "%";
      box.style.width = above ? "100%" : 100 * node.total / width + "%";
      box.style.top = node.depth * HEIGHT + "px";
      box.style.background = color(node);
      box.textContent = node.text;
      box.tabIndex = 0;
      if (above) box.classList.add("above");
      if (pattern && node.depth && pattern.test(node.text)) box.classList.add("hit");
      box.title = describe(node);
      box.addEventListener("mouseenter", () => { about.textContent = describe(node); });
      box.addEventListener("focus", () => { about.textContent = describe(node); });
      box.addEventListener("click", () => zoom(node));
      box.addEventListener("keydown", (event) => { if (event.key === "Enter") zoom(node); });
      piece.append(box);
      deepest = Math.max(deepest, node.depth);
    }
    graph.replaceChildren(piece);
    graph.style.height = (deepest + 1) * HEIGHT + "px";
    count();
  }
  function zoom(node) {
    zoomed = node;
    about.textContent = describe(node);
    draw();
  }
  function count() {
    if (!pattern) { found.textContent = ""; return; }
    let total = 0, end = -1;
    for (const node of nodes) {
      if (node.start < end && node.start + node.total <= end || !node.depth) continue;
      if (node.start < zoomed.start) continue;
      if (node.start + node.total > zoomed.start + zoomed.total) continue;
      if (!pattern.test(node.text)) continue;
      total += node.total;
      end = node.start + node.total;
    }
    found.textContent = "matched: " + percent(total, zoomed.total);
  }
  search.addEventListener("input", () => {
    const text = search.value;
    try { pattern = text ? new RegExp(text, "i") : null; }
    catch { pattern = new RegExp(text.replace(/[.*+?^${}()|[\\]\\\\]/g, "\\\\$&"), "i"); }
    draw();
  });
  document.getElementById("reset").addEventListener("click", () => zoom(root));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") zoom(root);
    if ((event.ctrlKey || event.metaKey) && event.key === "f") {
      event.preventDefault();
      search.focus();
    }
  });
  // what an address asks for after "#": s=pattern
  const asked = new URLSearchParams(location.hash.slice(1));
  if (asked.get("s")) {
    search.value = asked.get("s");
    search.dispatchEvent(new Event("input"));
  }
  zoom(root);
})();
</script>
</body>
</html>
"""
