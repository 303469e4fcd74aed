// SPDX-License-Identifier: BSD-3-Clause
#include "report/html.h"

#include <algorithm>
#include <stdexcept>

#include "report/markup.h"

namespace reprise::detail {

Html text(std::string_view plain) { return {escape(plain)}; }

Html element(std::string_view name, std::string_view style, const Html& content) {
  const std::string tag(name);
  const std::string attribute = style.empty() ? "" : " class=\"" + std::string(style) + "\"";
  return {"<" + tag + attribute + ">" + content.markup + "</" + tag + ">\n"};
}

Html element(std::string_view name, std::string_view style, std::string_view plain) {
  return element(name, style, text(plain));
}

Html section(std::string_view heading, const Html& content) {
  return element("section", "", element("h2", "", heading) + content);
}

Html bar(double share) {
  const double percent = std::clamp(share, 0.0, 1.0) * 100;
  return {"<span class=\"bar\" aria-hidden=\"true\"><i style=\"width:" + short_number(percent) +
          "%\"></i></span>"};
}

Html card(std::string_view key, std::string_view value, std::string_view remark) {
  Html content = element("dt", "", key) + element("dd", "", value);
  if (!remark.empty()) content += element("dd", "remark", remark);
  return element("div", "card", content);
}

void HtmlTable::add_row(const std::vector<Html>& cells, std::string_view style) {
  if (cells.size() != columns_.size()) throw std::logic_error("a row of another number of cells");
  Html row;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i == 0) {
      row += {"<th scope=\"row\" class=\"words\"><span>" + cells[i].markup + "</span></th>"};
    } else if (columns_[i].kind == Kind::words) {
      row += {"<td class=\"words\"><span>" + cells[i].markup + "</span></td>"};
    } else {
      row += {"<td>" + cells[i].markup + "</td>"};
    }
  }
  rows_ += element("tr", style, row);
}

Html HtmlTable::html() const {
  Html heads;
  for (const Column& column : columns_) {
    const bool words = column.kind == Kind::words;
    heads += {"<th scope=\"col\"" + std::string(words ? " class=\"words\"" : "") + ">" +
              escape(column.title) + "</th>"};
  }
  const Html head = element("thead", "", element("tr", "", heads));
  const Html table = element("table", "", head + element("tbody", "", rows_));
  return {"<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"table\">" +
          table.markup + "</div>\n"};
}

std::string_view page_style() {
  return R"css(:root{color-scheme:light dark;--page:#f5f7f9;--card:#fff;--ink:#1b2430;--soft:#5b6776;
--line:#dde2e8;--accent:#0072b2;--good:#00694c;--bad:#b23c00;--fill:#cfe3f1}
@media (prefers-color-scheme:dark){:root{--page:#0e1115;--card:#14181d;--ink:#e8ecf1;--soft:#a3aebb;
--line:#2b323b;--accent:#56b4e9;--good:#4cc9a0;--bad:#ff9a62;--fill:#1d415a}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,Helvetica,Arial,sans-serif}
main{max-width:1140px;margin:0 auto;padding:24px 16px 48px}
h1{font-size:1.7rem;line-height:1.25;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:0 0 4px}
h3{font-size:1rem;margin:0;overflow-wrap:anywhere}
p{margin:0 0 12px;max-width:75ch}
.soft,figcaption{color:var(--soft)}
section{background:var(--card);border:1px solid var(--line);border-radius:10px;
padding:18px 20px;margin-top:16px}
dl{margin:0}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(170px,1fr));gap:12px;margin-top:18px}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:12px 14px;
overflow-wrap:anywhere}
.card dt{color:var(--soft);font-size:.85rem}
.card dd{margin:0;font-size:1.35rem;font-weight:600;line-height:1.3;font-variant-numeric:tabular-nums}
.card dd.remark{font-size:.85rem;font-weight:400;color:var(--soft)}
figure{margin:16px 0 0}
figure+figure{border-top:1px solid var(--line);padding-top:16px}
figcaption{font-size:.9rem;margin-bottom:4px}
svg{display:block;width:100%;height:auto}
svg{--ground:var(--card);--grid:var(--line)}
.legend{display:flex;flex-wrap:wrap;gap:4px 16px;list-style:none;margin:8px 0 0;padding:0;
font-size:.9rem}
svg.swatch{display:inline-block;width:13px;height:13px;margin-right:7px;vertical-align:-1px}
.scroll{overflow-x:auto;margin:8px -4px 0;padding:0 4px}
table{border-collapse:collapse;width:100%;font-size:.88rem;font-variant-numeric:tabular-nums}
th,td{padding:5px 9px;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap;
vertical-align:top}
thead th{color:var(--soft);font-weight:600;vertical-align:bottom}
th:first-child,th.words,td.words{text-align:left}
th:first-child{position:sticky;left:0;background:var(--card);padding-left:0}
tbody th{font-weight:600}
.words>span{display:block;width:max-content;max-width:17rem;white-space:normal;overflow-wrap:anywhere}
tbody tr:last-child>*{border-bottom:0}
tr.plain>*{background:color-mix(in srgb,var(--line) 35%,var(--card))}
.good{color:var(--good)}.bad{color:var(--bad);font-weight:600}
.bar{display:block;height:5px;border-radius:3px;background:var(--line);margin-top:3px;min-width:64px}
.bar i{display:block;height:5px;border-radius:3px;background:var(--accent)}
.deep{color:var(--soft)}
details{margin-top:8px}
summary{cursor:pointer;color:var(--accent)}
code{font:.88rem/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere;
display:block;background:var(--page);border:1px solid var(--line);border-radius:6px;padding:8px 12px;
white-space:pre-wrap;margin:8px 0}
@media (max-width:600px){main{padding:16px 10px 32px}section{padding:14px 12px}
.cards{grid-template-columns:repeat(2,1fr);gap:8px}.card dd{font-size:1.1rem}
.words>span{max-width:34vw}}
@media print{:root{color-scheme:light;--page:#fff;--card:#fff;--ink:#000;--soft:#444;--line:#bbb;
--accent:#0072b2;--good:#00513b;--bad:#8f3000}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
body{font-size:10pt}main{max-width:none;padding:0 1px}
section{border-width:1px 0 0;border-radius:0;padding:8pt 0;margin-top:10pt}
.cards{grid-template-columns:repeat(4,1fr);gap:6pt;margin-top:8pt}.card{padding:4pt 6pt}
.card dd{font-size:12pt}figure svg{max-height:8cm}
details::details-content{content-visibility:visible;display:block}
svg,.legend,.card,tr,h2,h3{break-inside:avoid}h2,h3,figcaption{break-after:avoid}
.scroll{overflow:visible}table{font-size:8pt}th,td{padding:3px 5px}}
)css";
}

}  // namespace reprise::detail
