//===- DrawPage.cpp - The page that dt-plan draw fills --------------------===//

#include "DrawPage.h"

namespace dtrt {

const char *const kPageStyle =
    R"PAGE(header small { color: var(--soft); font-family: ui-monospace, monospace }
.cards { display: grid; gap: 12px;
  grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)) }
.card { background: var(--paper); border: 1px solid var(--line);
  border-radius: 10px; padding: 12px 16px }
.card b { display: block; font-size: 19px; font-variant-numeric: tabular-nums }
.card span { color: var(--soft); font-size: 12px }
#calls td { padding: 2px 14px 2px 0; font-variant-numeric: tabular-nums }
.cell:hover, .bar:hover { stroke: var(--ink); stroke-width: 1.5 }
.key:first-child { margin-left: 0 }
#tip { position: fixed; pointer-events: none; padding: 6px 9px; display: none;
  border-radius: 6px; background: var(--ink); color: var(--paper);
  font-size: 12px; white-space: pre }
)PAGE";

const char *const kPageHead =
    R"PAGE(<header><h1 id="title"></h1><small id="digest"></small></header>
<div class="cards" id="cards"></div>
<section><h2>Traffic</h2>
<p>Bytes from each device (row) to each device (column); local copies on the
diagonal.</p><div id="matrix"></div></section>
<section id="callsSection"><h2>Library collectives</h2>
<p>Calls of a library, by wave: what each brings, and how long it takes.</p>
<table id="calls"></table></section>
<section><h2>Ports over time</h2>
<p>One band per device; full colour is busy. <span class="key"
style="background:var(--c)"></span>NIC: out, in <span class="key"
style="background:var(--a)"></span>island: out, in <span class="key"
style="background:var(--b)"></span>pack, unpack <span class="key"
style="background:var(--e)"></span>lower bound</p>
<div id="lanes"></div></section>
<section><h2>Where the time goes</h2>
<p>Until each device's last byte is in place. <span class="key"
style="background:var(--a)"></span>bytes on its busiest port <span class="key"
style="background:var(--c)"></span>latency <span class="key"
style="background:var(--d)"></span>waiting for peers, packs and slots
<span class="key" style="background:var(--e)"></span>lower bound</p>
<div id="spent"></div></section>
<section><h2>Waves</h2>
<p>Width: time of the wave's longest message or call, were each wave alone. Height:
bytes per second of all devices. <span class="key"
style="background:var(--a)"></span>inside nodes <span class="key"
style="background:var(--c)"></span>between nodes</p>
<div id="waves"></div></section>
<section><h2>Memory per device</h2>
<p><span class="key" style="background:var(--a)"></span>source
<span class="key" style="background:var(--b)"></span>destination
<span class="key" style="background:var(--c)"></span>staging; line: peak</p>
<div id="memory"></div></section>
</main>
<div id="tip"></div>
<script>
'use strict';
const plan = )PAGE";

const char *const kPageTail = R"PAGE(;
const byId = id => document.getElementById(id);
const tip = byId('tip');
function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  while (n >= 1024 && unit < 5) { n /= 1024; ++unit; }
  return n.toFixed(unit && n < 100 ? 2 : 0) + ' ' + units[unit];
}
function time(s) {
  return s >= 1 ? s.toFixed(2) + ' s'
    : s >= 1e-3 ? (s * 1e3).toFixed(2) + ' ms' : (s * 1e6).toFixed(1) + ' µs';
}
function showTip(event) {
  tip.style.display = 'block';
  tip.style.left = Math.min(event.clientX + 14, innerWidth - 220) + 'px';
  tip.style.top = event.clientY + 14 + 'px';
}
function node(name, attributes, parent, hint) {
  const out = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const key in attributes) out.setAttribute(key, attributes[key]);
  if (hint) {
    out.onmousemove = event => {
      tip.textContent = hint;
      showTip(event);
    };
    out.onmouseleave = () => tip.style.display = 'none';
  }
  if (parent) parent.appendChild(out);
  return out;
}
function canvas(id, width, height) {
  const out = node('svg', {viewBox: `0 0 ${width} ${height}`}, null);
  out.style.maxWidth = width + 'px';
  byId(id).appendChild(out);
  return out;
}
function label(svg, x, y, text, anchor) {
  node('text', {x, y, 'text-anchor': anchor || 'middle'}, svg)
    .textContent = text;
}
function cards() {
  const [destination, local, wire, inter, inPlace] = plan.bytes;
  const moved = plan.waves.reduce((sum, wave) => sum + wave[3], 0);
  const all = [
    [bytes(destination), 'arrive'],
    [bytes(local + inPlace), 'stay on their device'],
    ...(inPlace ? [[bytes(inPlace), 'of them in their place']] : []),
    [bytes(wire), 'on the wire'], [bytes(inter), 'between nodes'],
    [plan.waves.length, 'waves'], [moved, 'messages'],
    ...(plan.calls.length ? [[plan.calls.length, 'library collectives']] : []),
    [time(plan.predicted), 'predicted (bound ' + time(plan.bound) + ')'],
    [plan.proved ? 'proved' : 'not proved', 'coverage, deadlock, memory']];
  for (const [value, name] of all) {
    const card = document.createElement('div');
    card.className = 'card';
    card.appendChild(document.createElement('b')).textContent = value;
    card.appendChild(document.createElement('span')).textContent = name;
    byId('cards').appendChild(card);
  }
}
/// The first of many; the waves' hints have all.
const mostCalls = 200;
function calls() {
  byId('callsSection').hidden = plan.calls.length === 0;
  for (const [wave, what, amount, seconds] of plan.calls.slice(0, mostCalls)) {
    const row = byId('calls').insertRow();
    for (const text of ['wave ' + wave, what, bytes(amount), time(seconds)])
      row.insertCell().textContent = text;
  }
  if (plan.calls.length > mostCalls)
    byId('calls').insertRow().insertCell().textContent =
      `and ${plan.calls.length - mostCalls} more`;
}
/// Of a wave, for its hint.
function callsOf(wave) {
  return plan.calls.filter(call => call[0] === wave)
    .map(call => `\n${call[1]}: ${bytes(call[2])}`).join('');
}
function matrix() {
  const n = plan.labels.length, cell = Math.max(7, Math.min(34, 900 / n));
  const left = 64, top = 24, size = n * cell;
  const svg = canvas('matrix', left + size + 20, top + size + 10);
  const most = Math.max(1, ...plan.matrix.map(row => row[2]));
  node('rect', {x: left, y: top, width: size, height: size,
    fill: 'var(--ground)', stroke: 'var(--line)'}, svg);
  for (const [from, to, amount] of plan.matrix)
    node('rect', {class: 'cell', x: left + to * cell + .5,
      y: top + from * cell + .5, width: cell - 1, height: cell - 1,
      rx: Math.min(3, cell / 6), fill: from === to ? 'var(--b)' : 'var(--a)',
      'fill-opacity': .15 + .85 * Math.sqrt(amount / most)}, svg,
      `${plan.labels[from]} → ${plan.labels[to]}\n${bytes(amount)}`);
  for (let i = plan.perNode; n > plan.perNode && i < n; i += plan.perNode) {
    const line = {stroke: 'var(--soft)', 'stroke-width': .6};
    node('line', {x1: left + i * cell, x2: left + i * cell, y1: top,
      y2: top + size, ...line}, svg);
    node('line', {y1: top + i * cell, y2: top + i * cell, x1: left,
      x2: left + size, ...line}, svg);
  }
  const step = Math.ceil(16 / cell), wide = Math.ceil(44 / cell);
  for (let i = 0; i < n; ++i) {
    const middle = i * cell + cell / 2;
    if (i % step === 0)
      label(svg, left - 8, top + middle + 4, plan.labels[i], 'end');
    if (i % (cell > 26 ? 1 : wide) === 0)
      label(svg, left + middle, top - 8, plan.labels[i]);
  }
}
function waves() {
  const width = 1060, height = 230, left = 70, bottom = 30;
  const svg = canvas('waves', width, height);
  const total = plan.waves.reduce((sum, wave) => sum + wave[4], 0) || 1;
  const rates = plan.waves.map(wave => wave[1] / (wave[4] || 1));
  const most = Math.max(1, ...rates), high = height - bottom - 12;
  for (const part of [0, .5, 1]) {
    const y = height - bottom - part * high;
    node('line', {x1: left, x2: width - 10, y1: y, y2: y,
      stroke: 'var(--line)'}, svg);
    label(svg, left - 8, y + 4, (part * most / 1e9).toFixed(1) + ' GB/s',
      'end');
  }
  let at = 0;
  plan.waves.forEach((wave, i) => {
    const [number, amount, inter, messages, seconds] = wave;
    const x = left + at / total * (width - left - 10);
    const w = Math.max(.6, seconds / total * (width - left - 10) - 1);
    const h = rates[i] / most * high, between = amount ? inter / amount : 0;
    const hint = `wave ${number}\n${bytes(amount)}, ${bytes(inter)} between ` +
      `nodes\n${messages} messages${callsOf(number)}\n` +
      `${time(at)} + ${time(seconds)}`;
    node('rect', {class: 'bar', x, y: height - bottom - h * between, width: w,
      height: h * between, fill: 'var(--c)'}, svg, hint);
    node('rect', {class: 'bar', x, y: height - bottom - h, width: w,
      height: h * (1 - between), fill: 'var(--a)'}, svg, hint);
    at += seconds;
  });
  for (const part of [0, .25, .5, .75, 1])
    label(svg, left + part * (width - left - 10), height - 10,
      time(part * total), part === 1 ? 'end' : 'middle');
}
function boundLine(svg, x, top, bottom) {
  node('line', {x1: x, x2: x, y1: top, y2: bottom, stroke: 'var(--e)',
    'stroke-width': 1.5, 'stroke-dasharray': '4 3'}, svg);
}
function timeAxis(svg, left, width, y, total) {
  for (const part of [0, .25, .5, .75, 1])
    label(svg, left + part * width, y, time(part * total),
      part === 1 ? 'end' : 'middle');
}
function lanes() {
  const n = plan.lanes.length, bins = n ? plan.lanes[0][0].length : 0;
  const used = [0, 1, 2, 3, 4, 5, 6].filter(lane =>
    plan.lanes.some(row => /[^0]/.test(row[lane])));
  const band = Math.max(used.length, Math.min(36, Math.floor(900 / n)));
  const left = 70, width = 980, top = 6, high = n * band;
  const svg = canvas('lanes', left + width + 10, top + high + 26);
  const picture = document.createElement('canvas');
  picture.width = bins;
  picture.height = high;
  const style = getComputedStyle(document.documentElement);
  const colors = ['--c', '--c', '--a', '--a', '--b', '--b', '--b']
    .map(name => style.getPropertyValue(name));
  const pen = picture.getContext('2d');
  plan.lanes.forEach((row, i) => used.forEach((lane, k) => {
    const gap = band > 8 ? 2 : band > 4 ? 1 : 0;
    const y0 = Math.round(k * (band - gap) / used.length);
    const y1 = Math.round((k + 1) * (band - gap) / used.length);
    pen.fillStyle = colors[lane];
    for (let bin = 0; bin < bins; ++bin) {
      const busy = parseInt(row[lane][bin], 36) / 35;
      if (!busy) continue;
      pen.globalAlpha = busy * (lane % 2 ? .75 : 1);
      pen.fillRect(bin, i * band + y0, 1, Math.max(1, y1 - y0));
    }
  }));
  node('rect', {x: left, y: top, width, height: high, fill: 'var(--ground)'},
    svg);
  const image = node('image', {x: left, y: top, width, height: high,
    preserveAspectRatio: 'none', href: picture.toDataURL()}, svg);
  image.style.imageRendering = 'pixelated';
  const names = ['NIC out', 'NIC in', 'island out', 'island in', 'pack',
    'unpack', 'copy'];
  image.onmousemove = event => {
    const box = image.getBoundingClientRect();
    const bin = Math.min(bins - 1,
      Math.floor((event.clientX - box.left) / box.width * bins));
    const i = Math.min(n - 1,
      Math.floor((event.clientY - box.top) / box.height * n));
    tip.textContent = `device ${plan.labels[i]} at ` +
      time((bin + .5) / bins * plan.seconds) + used.map(lane =>
      `\n${names[lane]} ` +
      Math.round(parseInt(plan.lanes[i][lane][bin], 36) / .35) + ' %').join('');
    showTip(event);
  };
  image.onmouseleave = () => tip.style.display = 'none';
  const step = Math.ceil(14 / band);
  for (let i = 0; i < n; i += step)
    label(svg, left - 8, top + i * band + band / 2 + 4, plan.labels[i], 'end');
  boundLine(svg, left + plan.bound / plan.seconds * width, top, top + high);
  timeAxis(svg, left, width, top + high + 18, plan.seconds);
}
function spent() {
  const n = plan.spent.length, bar = Math.max(3, Math.min(18,
    Math.floor(700 / n)));
  const left = 70, width = 980, top = 6, high = n * bar;
  const svg = canvas('spent', left + width + 10, top + high + 26);
  const scale = width / plan.seconds, step = Math.ceil(14 / bar);
  plan.spent.forEach(([busy, latency, end], i) => {
    const late = Math.min(latency, Math.max(0, end - busy));
    const rest = Math.max(0, end - busy - late), y = top + i * bar;
    const hint = `device ${plan.labels[i]}\nbusiest port ${time(busy)}\n` +
      `latency ${time(late)}\nwaiting ${time(rest)}\nends at ${time(end)}`;
    let x = left;
    for (const [amount, color] of [[busy, 'a'], [late, 'c'], [rest, 'd']]) {
      node('rect', {class: 'bar', x, y, width: amount * scale,
        height: Math.max(1, bar - (bar > 4 ? 2 : 1)), fill: `var(--${color})`},
        svg, hint);
      x += amount * scale;
    }
    if (i % step === 0)
      label(svg, left - 8, y + bar / 2 + 4, plan.labels[i], 'end');
  });
  boundLine(svg, left + plan.bound * scale, top, top + high);
  timeAxis(svg, left, width, top + high + 18, plan.seconds);
}
function memory() {
  const width = 1060, height = 250, left = 70, bottom = 28;
  const svg = canvas('memory', width, height);
  const rows = plan.memory, n = Math.max(1, rows.length);
  const most = Math.max(1, plan.deviceLimit,
    ...rows.map(row => Math.max(row[3], row[0] + row[1] + row[2])));
  const high = height - bottom - 12, slot = (width - left - 10) / n;
  for (const part of [0, .5, 1]) {
    const y = height - bottom - part * high;
    node('line', {x1: left, x2: width - 10, y1: y, y2: y,
      stroke: 'var(--line)'}, svg);
    label(svg, left - 8, y + 4, bytes(part * most), 'end');
  }
  rows.forEach(([source, destination, staging, peak], i) => {
    const x = left + i * slot + slot * .1, w = Math.min(slot * .8, 48);
    let y = height - bottom;
    const hint = `device ${plan.labels[i]}\nsource ${bytes(source)}\n` +
      `destination ${bytes(destination)}\nstaging ${bytes(staging)}\n` +
      `peak ${bytes(peak)}`;
    [source, destination, staging].forEach((amount, k) => {
      const h = amount / most * high;
      y -= h;
      node('rect', {class: 'bar', x, y, width: w, height: h,
        fill: `var(--${'abc'[k]})`}, svg, hint);
    });
    const line = height - bottom - peak / most * high;
    node('line', {x1: x - 1, x2: x + w + 1, y1: line, y2: line,
      stroke: 'var(--ink)', 'stroke-width': 2}, svg);
    if (i % Math.ceil(44 / slot) === 0)
      label(svg, x + w / 2, height - 10, plan.labels[i]);
  });
  if (plan.deviceLimit) {
    const y = height - bottom - plan.deviceLimit / most * high;
    node('line', {x1: left, x2: width - 10, y1: y, y2: y,
      stroke: 'var(--c)', 'stroke-dasharray': '5 4'}, svg);
  }
}
byId('title').textContent =
  `${plan.sourceWorld} → ${plan.destinationWorld} ranks`;
byId('digest').textContent = plan.digest + ' · ' + plan.mode;
cards();
calls();
function draw() {
  for (const id of ['matrix', 'lanes', 'spent', 'waves', 'memory'])
    byId(id).textContent = '';
  matrix();
  if (plan.seconds > 0) {
    lanes();
    spent();
    waves();
  }
  memory();
}
draw();
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
</script>
</body>
</html>
)PAGE";

} // namespace dtrt
