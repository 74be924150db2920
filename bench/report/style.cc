#include "bench/report/parts.h"

namespace onecopy::bench {

const char kStyle[] = R"(
:root { color-scheme: light; }
body { margin: 0; background: #fff; color: #1a1a1a; font: 16px/1.45 system-ui, sans-serif; }
main { max-width: 1500px; margin: 0 auto; padding: 16px; }
h1 { margin: 0 0 4px; font-size: 28px; }
h2 { margin: 36px 0 6px; font-size: 21px; border-bottom: 2px solid #d0d0d0; padding-bottom: 4px; }
p { margin: 6px 0 10px; max-width: 75ch; }
.runs { margin: 0 0 10px; padding-left: 20px; color: #444; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 14px; width: 100%; }
th, td { text-align: left; padding: 4px 10px 4px 0; vertical-align: top; }
th { border-bottom: 1px solid #888; white-space: nowrap; }
td { border-top: 1px solid #e4e4e4; min-width: 5ch; }
td:first-child { min-width: 22ch; }
td:nth-child(2):not(.long) { white-space: nowrap; }
td.long { min-width: 40ch; overflow-wrap: anywhere; }
th.n, td.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
tr.why td { border-top: 0; padding: 0 0 6px 18px; color: #555; font-size: 13px; overflow-wrap: anywhere; }
.OK, .WAIVED, .FAILED { padding: 0 7px; border-radius: 4px; font-size: 13px; white-space: nowrap; }
.OK { background: #dff2e4; color: #0b4d22; }
.WAIVED { background: #ececec; color: #3d3d3d; }
.FAILED { background: #fbdcdc; color: #7a0c0c; font-weight: 600; }
.counts span { margin-right: 6px; font-size: 15px; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 560px), 1fr)); gap: 20px 32px; }
figure { margin: 8px 0; min-width: 0; }
figcaption { font-weight: 600; margin-bottom: 4px; }
.plot { width: 100%; min-width: 520px; height: auto; display: block; }
.plot text { font: 13px system-ui, sans-serif; fill: #1a1a1a; }
.plot text.title { fill: #444; }
.grid { stroke: #e2e2e2; }
.axis { stroke: #555; }
.level { stroke: #333; stroke-dasharray: 5 4; }
.legend { list-style: none; margin: 4px 0 0; padding: 0; font-size: 13px; display: flex; flex-wrap: wrap; gap: 2px 18px; }
.legend li { display: flex; align-items: center; gap: 6px; }
.legend svg { flex: none; }
)";

}  // namespace onecopy::bench
