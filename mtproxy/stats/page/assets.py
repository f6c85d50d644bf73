"""Style and script of the statistics page: written into it, so that it needs no other request.

The script only sorts tables and marks all servers of a form; without it the page does everything
else. Constants.
"""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root{color-scheme:light;--ink:#1d2733;--soft:#5d6b7a;--line:#d5dce4;--head:#eef2f6}
*{box-sizing:border-box}
body{margin:0;font:14px/1.4 system-ui,sans-serif;color:var(--ink);background:#f7f9fb}
header,main,footer{max-width:1700px;margin:0 auto;padding:12px 16px}
h1{font-size:20px;margin:0}h2{font-size:16px;margin:0 0 6px}h2 small,h1 small{font-weight:400;
color:var(--soft);font-size:13px}
a{color:#0b5cad}nav a{display:inline-block;margin:4px 12px 4px 0}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(190px,1fr));gap:2px 16px;
margin:10px 0;padding:0}
.facts div{display:flex;justify-content:space-between;border-bottom:1px dotted var(--line)}
.facts dt{color:var(--soft)}.facts dd{margin:0;font-variant-numeric:tabular-nums}
.note{padding:8px 12px;border-radius:6px;background:#fff3c4;border:1px solid #e0c860}
.note.good{background:#d9f7dc;border-color:#7ccf86}.note.bad{background:#ffd9d9;
border-color:#e39a9a}
.panels{display:grid;grid-template-columns:repeat(auto-fit,minmax(300px,1fr));gap:12px}
.panel,section{background:#fff;border:1px solid var(--line);border-radius:8px;padding:10px 12px;
margin:0 0 14px}
section{overflow-x:auto}section table{font-size:13px}
.idle td{white-space:normal;color:var(--soft)}
.panel table{width:100%}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:3px 6px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line)}
thead th{background:var(--head);font-weight:600;font-size:12px}
thead tr:first-child th{text-align:center;border-left:1px solid var(--line)}
th.name,td.name,td.text,th.text{text-align:left}
th button{all:unset;cursor:pointer}th button:focus-visible{outline:2px solid #0b5cad}
th[aria-sort=ascending] button::after{content:" \\2191"}
th[aria-sort=descending] button::after{content:" \\2193"}
td.name{font-weight:600}td .extra{font-weight:400;color:var(--soft);font-size:12px}
tr.frontend td{background:#e4ebf5}tr.backend td{background:#e9e9ef;font-weight:600}
tr.listener td{background:#f1f5fb}
tr.up td,.key.up{background:#c9f5c9}tr.backup-up td,.key.backup-up{background:#c3dcff}
tr.going-down td,.key.going-down{background:#fdf7a8}
tr.backup-going-down td,.key.backup-going-down{background:#dcb4ff}
tr.going-up td,.key.going-up{background:#ffdb70}
tr.backup-going-up td,.key.backup-going-up{background:#ffb3ff}
tr.down td,.key.down{background:#ff9f9f}tr.maint td,.key.maint{background:#d3a15f}
tr.drain td,.key.drain{background:#7fc4ff}tr.nolb td,.key.nolb{background:#bfe4e8}
tr.unchecked td,.key.unchecked{background:#e3e3e3}
.keys span{display:inline-block;padding:1px 8px;margin:2px 4px 2px 0;border-radius:4px;
border:1px solid var(--line);font-size:12px}
form.scope{display:inline-block}
.act{margin-top:8px}
input,select,.act button,form.scope button{font:inherit;padding:3px 6px}
svg{display:block;width:100%;height:26px}svg .area{fill:#9cc3ee}svg .peak{fill:none;
stroke:#2a6db5;stroke-width:1}
@media (max-width:760px){
header,main,footer{padding:10px}
section thead{display:none}
section table,section tbody,section tr,section td{display:block;width:100%}
section tr{border:1px solid var(--line);border-radius:6px;margin:0 0 8px;overflow:hidden}
section tr::after{content:"";display:block;clear:both}
section td{display:flex;justify-content:space-between;text-align:right;white-space:normal;
border-bottom:1px dotted rgba(0,0,0,.12)}
section td::before{content:attr(data-l);color:#3b4754;padding-right:10px;text-align:left}
section td.name{justify-content:flex-start;gap:10px}section td.name::before{content:none}
section td:empty{display:none}
}
"""

SCRIPT: Final = """
"use strict";
for (const table of document.querySelectorAll("table.proxy")) {
  const body = table.querySelector("tbody.servers");
  if (!body) continue;
  const cell = (row, column) => {
    const td = row.cells[column];
    return td.dataset.v !== undefined ? td.dataset.v : td.textContent.trim();
  };
  for (const button of table.querySelectorAll("th button")) {
    button.addEventListener("click", () => {
      const th = button.parentElement;
      const up = th.getAttribute("aria-sort") === "descending";
      const column = Number(th.dataset.c);
      for (const other of table.querySelectorAll("th[aria-sort]"))
        other.removeAttribute("aria-sort");
      th.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = [...body.rows];
      rows.sort((one, two) => {
        const a = cell(one, column), b = cell(two, column);
        const x = Number(a), y = Number(b);
        const numbers = a !== "" && b !== "" && !Number.isNaN(x) && !Number.isNaN(y);
        const order = numbers ? x - y : a.localeCompare(b, undefined, {numeric: true});
        return up ? order : -order;
      });
      body.append(...rows);
    });
  }
}
for (const box of document.querySelectorAll("input.all")) {
  box.hidden = false;
  box.addEventListener("change", () => {
    for (const one of box.form.querySelectorAll("input[name=s]")) one.checked = box.checked;
  });
}
"""
