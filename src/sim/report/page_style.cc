#include "sim/report/page.h"

namespace berth::sim {

// Colours: the palette of Okabe and Ito for policies, causes and reasons (told apart with any kind
// of colour vision), a dark-blue-to-yellow scale for fill. Lines also differ in their dashes.
std::string_view page_style() {
  return R"css(
:root{
 --ink:#1b2330;--soft:#5b6676;--rule:#dde2e9;--paper:#fff;--card:#f6f8fa;--p0:#0072b2;
 --p1:#d55e00;--p2:#009e73;--p3:#b0528a;--p4:#a87400;--p5:#3a8fc4;--p6:#5c5c5c;--p7:#7a4f9a;
 --p8:#00807c;--bound:#1b2330;
}
@media (prefers-color-scheme:dark){
  :root{
   --ink:#e8ecf2;--soft:#9aa6b8;--rule:#333d4c;--paper:#12161d;--card:#1b212b;--p0:#4fb3ee;
   --p1:#ff8a3d;--p2:#2fc99b;--p3:#e391c2;--p4:#e8b23a;--p5:#8fd0f5;--p6:#b5b5b5;--p7:#bf9ae0;
   --p8:#4cc7c2;--bound:#e8ecf2;
  }
}
*{box-sizing:border-box}
body{
 margin:0;background:var(--paper);color:var(--ink);
 font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
}
main{max-width:1120px;margin:0 auto;padding:40px 40px 64px}
header{border-bottom:1px solid var(--rule);margin-bottom:28px;padding-bottom:18px}
.kicker{
 margin:0 0 6px;color:var(--soft);font-size:14px;letter-spacing:.04em;text-transform:uppercase;
}
h1{margin:0 0 12px;font-size:32px;line-height:1.22;font-weight:650;text-wrap:balance}
h2{margin:0 0 4px;font-size:21px;font-weight:650}
.lead{margin:0;color:var(--soft);font-size:17px}
.cards{
 display:grid;grid-template-columns:repeat(auto-fit,minmax(215px,1fr));gap:16px;
 margin-bottom:40px;
}
.card{
 background:var(--card);border-radius:8px;border-top:4px solid currentColor;
 padding:14px 18px 16px;
}
.card h2{font-size:16px;color:inherit}
.card p{margin:0;color:var(--soft);font-size:14px}
.card .big{
 color:var(--ink);font-size:34px;font-weight:650;line-height:1.25;
 font-variant-numeric:tabular-nums;
}
.card .big small{font-size:14px;font-weight:400;color:var(--soft)}
.card.bound{color:var(--bound);border-top-style:dashed}
.figure{margin:0 0 44px;break-inside:avoid}
.figure>p{margin:0 0 12px;color:var(--soft);max-width:75ch}
svg{display:block;width:100%;height:auto;overflow:visible}
svg text{fill:var(--ink);font-size:14px}
svg .tick,svg .note{fill:var(--soft);font-size:13px}
svg .label{fill:var(--soft);font-size:13.5px}
svg .group{font-weight:650;font-size:15px}
svg .total{fill:var(--soft);font-size:13.5px}
.grid{stroke:var(--rule);stroke-width:1}
.axis{stroke:var(--soft);stroke-width:1}
.ideal{stroke:var(--soft);stroke-width:1;stroke-dasharray:2 4}
.bound{fill:none;stroke:var(--bound);stroke-width:1.5;stroke-dasharray:7 4}
svg .end{font-weight:600}
svg .boundtext{fill:var(--bound)}
.line{fill:none;stroke:currentColor;stroke-width:2.4;stroke-linejoin:round}
.line.p1{stroke-dasharray:10 3}
.line.p2{stroke-dasharray:3 3}
.line.p3{stroke-dasharray:10 3 3 3}
.line.p4{stroke-dasharray:16 4}
.line.p5{stroke-dasharray:1 3}
.line.p6{stroke-dasharray:6 6}
.line.p7{stroke-dasharray:14 3 2 3 2 3}
.line.p8{stroke-dasharray:5 2}
.band{fill:currentColor;opacity:.16;stroke:none}
.p0{color:var(--p0)}
.p1{color:var(--p1)}
.p2{color:var(--p2)}
.p3{color:var(--p3)}
.p4{color:var(--p4)}
.p5{color:var(--p5)}
.p6{color:var(--p6)}
.p7{color:var(--p7)}
.p8{color:var(--p8)}
svg text.end[class*=" p"]{fill:currentColor}
.i0{--c:#7a3b5e;--t:#fff}
.i1{--c:#d55e00;--t:#fff}
.i2{--c:#e69f00;--t:#1b2330}
.i3{--c:#0072b2;--t:#fff}
.i4{--c:#56b4e9;--t:#1b2330}
.i5{--c:#a9c8dc;--t:#1b2330}
.i6{--c:#009e73;--t:#fff}
.r0{--c:#4a4f57;--t:#fff}
.r1{--c:#e69f00;--t:#1b2330}
.r2{--c:#cc79a7;--t:#1b2330}
.r3{--c:#7a3b5e;--t:#fff}
.r4{--c:#009e73;--t:#fff}
.r5{--c:#0072b2;--t:#fff}
.r6{--c:#d55e00;--t:#fff}
.r7{--c:#56b4e9;--t:#1b2330}
.f0{--c:#ffe945}
.f1{--c:#f0d84c}
.f2{--c:#dcc75f}
.f3{--c:#c4b56c}
.f4{--c:#aea371}
.f5{--c:#979276}
.f6{--c:#838178}
.f7{--c:#6d7072}
.f8{--c:#575d6d}
.f9{--c:#3b496c}
.f10{--c:#0f2f66}
@media (prefers-color-scheme:dark){
  .f10{--c:#23427f}
}
svg [class^=i],svg [class^=r],svg [class^=f]{fill:var(--c)}
svg rect{stroke:var(--paper);stroke-width:1}
svg text.inside{fill:var(--t);font-size:12.5px}
svg text.rowname,svg text.group{fill:var(--ink)}
.legend{
 display:flex;flex-wrap:wrap;gap:4px 20px;list-style:none;margin:0 0 10px;padding:0;
 font-size:14px;
}
.legend li{display:flex;align-items:center;gap:7px}
.legend.scale{gap:0}
.legend.scale li{
 flex-direction:column;width:44px;font-size:13px;gap:2px;color:var(--soft);align-items:stretch;
 text-align:center;
}
.legend.scale .swatch{width:100%;border-radius:0}
.swatch{
 display:inline-block;width:14px;height:14px;border-radius:3px;background:var(--c);flex:none;
}
figure{margin:0 0 20px;break-inside:avoid}
figcaption{font-weight:600;margin-bottom:4px}
.scroll{overflow-x:auto}
table{
 border-collapse:collapse;width:100%;margin-top:14px;font-variant-numeric:tabular-nums;
 font-size:15px;
}
caption{text-align:left;color:var(--soft);font-size:14px;padding-bottom:4px}
th,td{padding:6px 12px;text-align:right;border-bottom:1px solid var(--rule);white-space:nowrap}
th:first-child{text-align:left;padding-left:0}
thead th{color:var(--soft);font-weight:600;font-size:13.5px}
tbody th{font-weight:600}
.aside th,.aside td{color:var(--soft);font-weight:400}
.notes{border-top:1px solid var(--rule);padding-top:22px}
.notes ul{padding-left:20px;max-width:85ch}
.notes li{margin-bottom:8px}
.foot{color:var(--soft);font-size:14px}
.hint{
 position:absolute;pointer-events:none;background:var(--card);border:1px solid var(--rule);
 border-radius:6px;padding:7px 11px;font-size:14px;line-height:1.4;
 font-variant-numeric:tabular-nums;box-shadow:0 2px 10px #0003;white-space:nowrap;
}
.hint .title{font-weight:600}
@media (max-width:700px){
  main{padding:24px 16px}
  h1{font-size:25px}
}
@media print{
  @page{size:A4;margin:14mm}
  :root{
   --ink:#000;--soft:#444;--rule:#ccc;--paper:#fff;--card:#fff;--p0:#0072b2;--p1:#d55e00;
   --p2:#009e73;--p3:#b0528a;--p4:#a87400;--p5:#3a8fc4;--p6:#5c5c5c;--p7:#7a4f9a;--p8:#00807c;
   --bound:#000;
  }
  body{font-size:9.5pt;-webkit-print-color-adjust:exact;print-color-adjust:exact}
  main{max-width:none;padding:0}
  h1{font-size:20pt}
  .card{border:1px solid #ccc;border-top:4px solid currentColor}
  .cards{grid-template-columns:repeat(4,1fr);gap:8px;margin-bottom:20px}
  .card{padding:8px 10px}
  .card .big{font-size:20pt}
  table{font-size:9pt}
  th,td{padding:3px 7px;white-space:normal}
  .scroll{overflow:visible}
  .legend,.card p,.foot{font-size:8.5pt}
  .lead{font-size:10.5pt}
  .figure{margin-bottom:22px}
  .hint{display:none}
  .f10{--c:#0f2f66}
}
)css";
}

// Shows the values under the pointer on a curve. Nothing on the page depends on it.
std::string_view page_script() {
  return R"js(
(function () {
"use strict";
var policies = JSON.parse(document.getElementById("curves").textContent);
var hint = document.createElement("div");
hint.className = "hint";
hint.hidden = true;
document.body.appendChild(hint);

function row(css, text) {
  var line = document.createElement("div");
  line.className = css;
  line.textContent = text;
  hint.appendChild(line);
}

function fill(at) {
  hint.textContent = "";
  row("title", "at " + at + " %");
  policies
    .map(function (p, i) { return {name: p.name, value: p.mean[at], colour: i % 9}; })
    .filter(function (p) { return p.value != null; })
    .sort(function (a, b) { return b.value - a.value; })
    .forEach(function (p) { row("p" + p.colour, p.value.toFixed(2) + "  " + p.name); });
}

function place(e) {
  hint.hidden = false;
  var width = document.documentElement.clientWidth;
  var over = e.pageX + hint.offsetWidth + 24 > width;
  hint.style.left = (over ? e.pageX - hint.offsetWidth - 14 : e.pageX + 14) + "px";
  hint.style.top = (e.pageY + 12) + "px";
}

document.querySelectorAll("svg.curve").forEach(function (svg) {
  var d = svg.dataset, from = +d.from, to = +d.to, left = +d.left, right = +d.right;
  var rule = document.createElementNS("http://www.w3.org/2000/svg", "line");
  rule.setAttribute("class", "axis");
  rule.setAttribute("y1", d.top);
  rule.setAttribute("y2", d.bottom);
  rule.style.display = "none";
  svg.appendChild(rule);

  function leave() {
    hint.hidden = true;
    rule.style.display = "none";
  }
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("pointermove", function (e) {
    var box = svg.getBoundingClientRect();
    var x = (e.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    var at = Math.round(from + (x - left) / (right - left) * (to - from));
    if (at < from || at > to) return leave();
    var px = left + (at - from) / (to - from) * (right - left);
    rule.setAttribute("x1", px);
    rule.setAttribute("x2", px);
    rule.style.display = "";
    fill(at);
    place(e);
  });
});
})();
)js";
}

}  // namespace berth::sim
