#include "sim/report/week_parts.h"

namespace berth::sim {

// Beside page_style(): what only a week has.
std::string_view week_style() {
  return R"css(
svg.week{margin:0}
.area{fill:currentColor;opacity:.30;stroke:none}
.edge{fill:none;stroke:currentColor;stroke-width:1.6;stroke-linejoin:round}
.asked{fill:var(--soft);opacity:.13;stroke:none}
.entitled{fill:none;stroke:var(--ink);stroke-width:1.7;stroke-linejoin:round}
.deserved{fill:none;stroke:var(--ink);stroke-width:1.3;stroke-dasharray:5 4}
.layer{fill:currentColor;stroke:none}
svg path.layer{stroke:var(--paper);stroke-width:.6}
svg path.layer.none{fill:var(--rule)}
svg path.layer.parts{fill:#b9a36a}
.grid.day{stroke-dasharray:2 3}
.queue{border-top:1px solid var(--rule);padding-top:18px;margin:0 0 36px;break-inside:avoid-page}
.queue>summary{cursor:pointer;list-style-position:outside}
.queue>summary h3{display:inline;margin:0;font-size:18px;font-weight:650}
.queue .path{color:var(--soft);font-size:14px;margin-left:10px}
.queue p{margin:8px 0 6px;max-width:88ch}
.queue h4{margin:20px 0 2px;font-size:15px;font-weight:650}
.pair{display:grid;grid-template-columns:1fr 1fr;gap:8px 28px}
.pair>div>b,.what{font-size:14px;font-weight:600;color:var(--soft)}
thead th{white-space:normal;vertical-align:bottom}
th,td{padding:6px 10px}
td.text,th.text{text-align:left;white-space:normal}
td.text.name{white-space:nowrap}
td.says{text-align:left;white-space:normal;min-width:34ch;line-height:1.4}
td.says small{color:var(--soft)}
.better{color:var(--p2);font-weight:600}
.worse{color:var(--p1);font-weight:600}
.key{display:inline-block;width:26px;height:12px;vertical-align:-1px;margin-right:6px}
.key.used{background:currentColor;opacity:.35;border-top:2px solid currentColor}
.key.want{background:var(--soft);opacity:.22}
.key.fair{border-top:2px solid var(--ink);height:5px}
.key.kept{border-top:2px dashed var(--ink);height:5px}
.swatch[class*=" p"]{background:currentColor}
.swatch.none{background:var(--rule)}
.swatch.parts{background:#b9a36a}
.cards .card p b{color:var(--ink);font-weight:600}
@media (max-width:800px){.pair{grid-template-columns:1fr}}
@media print{
 .cards,.pair{grid-template-columns:1fr 1fr}
 tbody th,tbody td:not(.text):not(.says){white-space:nowrap}
 .queue{break-inside:auto}
 td.says{min-width:0}
}
)css";
}

}  // namespace berth::sim
