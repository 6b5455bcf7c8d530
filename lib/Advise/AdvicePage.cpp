//===- AdvicePage.cpp - Advice on one self-contained page -----------------===//

#include "dt/Advise/AdvicePage.h"
#include "dt/Advise/Report.h"
#include "dtrt/report/Page.h"

namespace dt::advise {

namespace {

const char *const kStyle = R"PAGE(svg { max-width: 1060px }
table { border-collapse: collapse; width: 100%;
  font-variant-numeric: tabular-nums }
th { color: var(--soft); font-weight: 500; font-size: 12px }
th, td { text-align: right; padding: 5px 10px; white-space: nowrap;
  border-bottom: 1px solid var(--line) }
th:first-child, td:first-child { text-align: left }
.bar { height: 10px; display: flex; min-width: 160px }
)PAGE";

const char *const kHead = R"PAGE(<header><h1>Which layout next</h1></header>
<div id="notes"></div>
<section><h2>Step against transition</h2>
<p>Down and left is better. <span class="key" style="background:var(--a)">
</span>compiled <span class="key" style="background:var(--d)"></span>estimated
<span class="key" style="background:var(--c)"></span>step of today's layout</p>
<div id="plot"></div></section>
<section><h2>Layouts</h2><table id="rows"></table></section>
<section><h2>Where a step's time goes</h2>
<p><span class="key" style="background:var(--a)"></span>arithmetic
<span class="key" style="background:var(--c)"></span>communication inside
micro-batches <span class="key" style="background:var(--d)"></span>pipeline
bubble <span class="key" style="background:var(--b)"></span>gradients and
optimizer</p><table id="time"></table></section>
</main>
<script>
'use strict';
const advice = )PAGE";

const char *const kTail = R"PAGE(;
const byId = id => document.getElementById(id);
function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  while (n >= 1024 && unit < 5) { n /= 1024; ++unit; }
  return n.toFixed(unit && n < 100 ? 1 : 0) + ' ' + units[unit];
}
function time(s) {
  return s >= 1 || s === 0 ? s.toFixed(2) + ' s'
    : s >= 1e-3 ? (s * 1e3).toFixed(2) + ' ms' : (s * 1e6).toFixed(1) + ' µs';
}
function line(table, cells, tag) {
  const row = table.insertRow();
  for (const cell of cells) {
    const out = document.createElement(tag || 'td');
    if (cell instanceof Node) out.appendChild(cell);
    else out.textContent = cell;
    row.appendChild(out);
  }
  return row;
}
function node(name, attributes, parent, text) {
  const out = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const key in attributes) out.setAttribute(key, attributes[key]);
  if (text !== undefined) out.textContent = text;
  if (parent) parent.appendChild(out);
  return out;
}
function plot() {
  const width = 1060, height = 360, left = 70, right = 30, bottom = 40, top = 14;
  const svg = node('svg', {viewBox: `0 0 ${width} ${height}`});
  byId('plot').appendChild(svg);
  const xs = advice.rows.map(row => row.transition_s);
  const ys = advice.rows.map(row => row.step_s);
  if (advice.today) ys.push(advice.today.step_s);
  const span = values => {
    const low = Math.min(...values), high = Math.max(...values);
    const pad = (high - low || high || 1) * .08;
    return [Math.max(0, low - pad), high + pad];
  };
  const [x0, x1] = span(xs), [y0, y1] = span(ys);
  const x = v => left + (v - x0) / (x1 - x0) * (width - left - right);
  const y = v => height - bottom - (v - y0) / (y1 - y0) * (height - bottom - top);
  for (let i = 0; i <= 4; ++i) {
    const v = y0 + (y1 - y0) * i / 4, h = x0 + (x1 - x0) * i / 4;
    node('line', {x1: left, x2: width - right, y1: y(v), y2: y(v),
      stroke: 'var(--line)'}, svg);
    node('text', {x: left - 8, y: y(v) + 4, 'text-anchor': 'end'}, svg, time(v));
    node('text', {x: x(h), y: height - bottom + 18, 'text-anchor': 'middle'},
      svg, time(h));
  }
  node('text', {x: width / 2, y: height - 4, 'text-anchor': 'middle'}, svg,
    'transition');
  if (advice.today)
    node('line', {x1: left, x2: width - right, y1: y(advice.today.step_s),
      y2: y(advice.today.step_s), stroke: 'var(--c)',
      'stroke-dasharray': '5 4'}, svg);
  const used = [];
  advice.rows.forEach(row => {
    const dot = node('circle', {cx: x(row.transition_s), cy: y(row.step_s), r: 6,
      fill: row.compiled ? 'var(--a)' : 'var(--d)'}, svg);
    node('title', {}, dot, `${row.name}\nstep ${time(row.step_s)}\ntransition ` +
      time(row.transition_s));
    const far = x(row.transition_s) > width * .7;
    const column = Math.round(x(row.transition_s) / 160);
    const isFree = at => !used.some(u => u[0] === column &&
      Math.abs(u[1] - at) < 12);
    const at = [0, -12, 12, -20, 20].map(d => y(row.step_s) + 4 + d).find(isFree);
    if (at === undefined) return;
    used.push([column, at]);
    node('text', {x: x(row.transition_s) + (far ? -10 : 10), y: at,
      'text-anchor': far ? 'end' : 'start'}, svg, row.name);
  });
}
function rows() {
  const table = byId('rows');
  line(table, ['layout', 'devices', 'step', 'even layers', 'tokens/s', 'memory',
    'moved', 'transition', 'pays after', 'request'], 'th');
  const put = (row, name) => line(table, [name, row.layout.world,
    time(row.step_s), row.even_step_s ? time(row.even_step_s) : '–',
    Math.round(row.tokens_per_s).toLocaleString(), bytes(row.memory_bytes),
    row.moved_bytes === undefined ? '–' : bytes(row.moved_bytes),
    row.transition_s === undefined ? '–'
      : (row.compiled ? '' : '~ ') + time(row.transition_s),
    row.pays_after_steps === undefined ? '–'
      : row.pays_after_steps === null ? 'never'
      : row.pays_after_steps.toLocaleString() + ' steps',
    row.request || '–']);
  if (advice.today) put(advice.today, 'today');
  for (const row of advice.rows)
    put(row, row.name + (row.packed ? ' (packed)' : ''));
}
function spent() {
  const table = byId('time');
  const all = (advice.today ? [Object.assign({name: 'today'}, advice.today)] : [])
    .concat(advice.rows);
  const most = Math.max(...all.map(row => row.step_s));
  for (const row of all) {
    const bar = document.createElement('div');
    bar.className = 'bar';
    const t = row.time;
    for (const [value, colour] of [[t.compute_s, 'a'], [t.communication_s, 'c'],
      [t.bubble_s, 'd'], [t.gradients_s + t.optimizer_s, 'b']]) {
      const part = document.createElement('span');
      part.style.cssText = `width:${value / most * 640}px;background:var(--` +
        colour + ')';
      part.title = time(value);
      bar.appendChild(part);
    }
    line(table, [row.name, bar, time(row.step_s)]);
  }
}
for (const note of advice.notes) {
  const out = document.createElement('p');
  out.textContent = note;
  byId('notes').appendChild(out);
}
plot();
rows();
spent();
</script>
</body>
</html>
)PAGE";

/// JSON inside a script: no text of it may close the script.
std::string inScript(std::string json) {
  std::string out;
  for (char c : json)
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  return out;
}

} // namespace

std::string advicePage(const Job &job, const Advice &advice) {
  return dtrt::pageStart("DynaTrain advice", kStyle) + kHead +
         inScript(adviceJson(job, advice)) + kTail;
}

} // namespace dt::advise
