/* SPDX-License-Identifier: MIT */
/*
 * The script inside the SVG flame graph (write_svg.c). Frames are g.f elements with a title, a rect and a text, a caller
 * before what it calls. (In an HTML page this text is parsed as markup: there is no less-than sign before a letter.) What else there is to know of them is in the element #data, as JSON:
 *   unit, each: "samples", "ms" or "bytes", and what one of them is in the weights
 *   parent[], self[]: of each frame, its caller's number and its own weight; was[]: in a comparison, the old one
 *   time: null, or {step, count, rows: [{name, use: []}], parts: [[frame, weight, ...], ...]}: weights by span of time
 *         or {at: [], size: [], peak, peakSize, moments: [{at, parts: [frame, weight, ...]}]}: what was live, in ms
 * In the address of the file, "#zoom=" (a frame's number), "#search=", "#invert" and "#time=FROM-TO" (ms) say what is shown.
 */
(function () {
'use strict';
var svg = document.querySelector('svg.etch-flame'), ROW = 17, EDGE = 10, LEAST = 0.08;
var byId = function (id) { return svg.querySelector('#' + id); };
var data = JSON.parse(byId('data').textContent), head = byId('head'), strip = byId('time');
var wide = +svg.getAttribute('width') - 2 * EDGE, top = +byId('all').querySelector('rect').getAttribute('y');
var hint = byId('about').textContent, whole = data.self.reduce(function (a, b) { return a + b; }, 0);

/* ---- trees: nodes with a caller's number below their own ---------------------------------------- */

function node(g, name, parent) {
  return {g: g, r: g.querySelector('rect'), t: g.querySelector('text'), name: name, parent: parent, kids: [], self: 0, was: 0, row: 0};
}
var calls = [].map.call(svg.querySelectorAll('g.f'), function (g, i) {
  var lines = g.querySelector('title').textContent.split('\n'), f = node(g, lines[0], data.parent[i]);
  f.file = lines.length > 2 + !!data.was ? lines[1] : '';
  f.all = data.self[i];
  f.allWas = data.was ? data.was[i] : 0;
  return f;
});
calls.forEach(function (f, i) {
  f.n = i;
  if (i) { calls[f.parent].kids.push(f); f.row = calls[f.parent].row + 1; }
});
var tree = calls, now = calls[0], inverted = null, focus = null, pattern = null, span = null;

/* Gives nodes their totals and places: x and w are shares of the width. */
function layOut(nodes) {
  var i, f, x, all;
  for (i = nodes.length; i--;) {
    f = nodes[i];
    f.total = f.self;
    f.totalWas = f.was;
    f.kids.forEach(function (k) { f.total += k.total; f.totalWas += k.totalWas; });
  }
  all = nodes[0].total || 1;
  nodes[0].x = 0;
  nodes.forEach(function (f) {
    f.w = f.total / all;
    x = f.x;
    f.kids.forEach(function (k) { k.x = x; x += k.total / all; });
  });
}

function shown(weight) {
  var n = weight / data.each;
  if (data.unit === 'samples') { n = Math.round(n); return n + (n === 1 ? ' sample' : ' samples'); }
  if (data.unit === 'ms') return n.toFixed(3) + ' ms';
  return n >= 1e9 ? (n / 1e9).toFixed(2) + ' GB' : n >= 1e6 ? (n / 1e6).toFixed(2) + ' MB' : n >= 1e3 ? (n / 1e3).toFixed(2) + ' KB' : n + ' bytes';
}
function percent(part, all) { return (all ? 100 * part / all : 0).toFixed(2) + '%'; }
function title(f) {
  var text = f.name + (f.file ? '\n' + f.file : '');
  if (!data.was) return text + '\n' + shown(f.total) + ', ' + percent(f.total, tree[0].total);
  /* In a comparison weights are shares: the mean of the old and the new one, and the old one. */
  return text + '\nold ' + percent(f.totalWas, data.each) + ', new ' + percent(2 * f.total - f.totalWas, data.each) +
    '\nchange ' + (f.total >= f.totalWas ? '+' : '') + percent(2 * (f.total - f.totalWas), data.each);
}

/* ---- drawing -------------------------------------------------------------------------------- */

function label(f, w) {
  var letters = Math.floor((w - 4) / 7);
  f.t.textContent = letters < 3 ? '' : f.name.length <= letters ? f.name : f.name.slice(0, letters - 2) + '..';
}
function put(f, x, w, faded) {
  f.g.style.display = w > 0 ? '' : 'none';
  if (!(w > 0)) return;
  f.g.style.opacity = faded ? 0.5 : 1;
  f.r.setAttribute('x', EDGE + x);
  f.r.setAttribute('width', w);
  f.t.setAttribute('x', EDGE + 3 + x);
  label(f, w);
}
function zoom(to) {
  var slack = 1e-9, rows = 0;
  now = to;
  tree.forEach(function (f) {
    var inside = f.row >= to.row && f.x >= to.x - slack && f.x + f.w <= to.x + to.w + slack;
    var around = f.row < to.row && f.x <= to.x + slack && f.x + f.w >= to.x + to.w - slack;
    var w = inside && to.w ? f.w * wide / to.w : around ? wide : 0;
    if (w < LEAST) w = 0;
    put(f, inside && w ? (f.x - to.x) * wide / to.w : 0, w, around);
    if (w && f.row > rows) rows = f.row;
  });
  byId('reset').style.display = to === tree[0] && !span ? 'none' : '';
  size(top + (rows + 1) * ROW + EDGE);
}
function size(height) {
  var least = document.documentElement === svg ? window.innerHeight - 4 : 0;
  height = Math.max(height, least, top + 3 * ROW);
  svg.setAttribute('width', wide + 2 * EDGE);
  svg.setAttribute('height', height);
  svg.setAttribute('viewBox', '0 0 ' + (wide + 2 * EDGE) + ' ' + height);
}
function retitle() { tree.forEach(function (f) { if (f.w * wide >= LEAST) f.g.querySelector('title').textContent = title(f); }); }

/* Alone in a window, the picture is as wide as that. */
function fit() {
  var moved;
  if (document.documentElement !== svg) return;
  moved = Math.max(window.innerWidth - 36, 600) - wide;
  wide += moved;
  ['reset', 'invert', 'search', 'matched'].forEach(function (id) { byId(id).setAttribute('x', +byId(id).getAttribute('x') + moved); });
  drawTime();
  zoom(now);
}
/* The head stays in view. */
function stick() { head.setAttribute('y', Math.max(0, -svg.getBoundingClientRect().top)); }

/* ---- inverted: from what ran to who called it -------------------------------------------------- */

var SVG = 'http://www.w3.org/2000/svg';
function element(name, attributes, parent, text) {
  var e = document.createElementNS(SVG, name);
  Object.keys(attributes).forEach(function (k) { e.setAttribute(k, attributes[k]); });
  if (text !== undefined) e.textContent = text;
  if (parent) parent.appendChild(e);
  return e;
}
function frameNew(like, parent, row) {
  var g = element('g', {class: 'f'}), f, y = top + row * ROW;
  element('title', {}, g, '');
  element('rect', {x: 0, y: y, width: 0, height: ROW - 1, fill: like.r.getAttribute('fill')}, g);
  element('text', {x: 0, y: y + 12}, g, '');
  f = node(g, like.name, parent);
  f.file = like.file;
  f.row = row;
  return f;
}
function invertMake() {
  var out = [], least = calls[0].total * LEAST / wide, work = [], root = frameNew(calls[0], 0, 0);
  root.n = 0;
  root.self = calls[0].self;
  root.was = calls[0].was;
  out.push(root);
  work.push([root, calls.filter(function (f) { return f.n && (f.self || f.was); }).map(function (f) { return [f, f.self, f.was]; })]);
  while (work.length) {
    (function (item) {
      var groups = new Map(), above = item[0];
      item[1].forEach(function (part) {
        var f = part[0], key = f.name + '\n' + f.file, group = groups.get(key);
        if (!group) groups.set(key, group = {like: f, sum: 0, was: 0, parts: []});
        group.sum += part[1];
        group.was += part[2];
        group.parts.push(part);
      });
      Array.from(groups.values()).sort(function (a, b) { return b.sum - a.sum; }).forEach(function (group) {
        var f, up = [];
        if (group.sum < least) { above.self += group.sum; above.was += group.was; return; }
        f = frameNew(group.like, above.n, above.row + 1);
        f.n = out.length;
        out.push(f);
        above.kids.push(f);
        group.parts.forEach(function (part) {
          if (part[0].parent && part[0].n) up.push([calls[part[0].parent], part[1], part[2]]);
          else { f.self += part[1]; f.was += part[2]; }
        });
        if (up.length) work.push([f, up]);
      });
    })(work.pop());
  }
  out.forEach(function (f) { svg.insertBefore(f.g, strip); f.g.node = f; });
  return out;
}
function invert(on) {
  if (inverted) inverted.forEach(function (f) { f.g.remove(); });
  inverted = on ? invertMake() : null;
  tree = inverted || calls;
  calls.forEach(function (f) { if (on) f.g.style.display = 'none'; });
  byId('invert').textContent = on ? 'Callers first' : 'Invert';
  focus = null;
  layOut(tree);
  retitle();
  zoom(tree[0]);
  mark();
}

/* ---- search -------------------------------------------------------------------------------- */

function mark() {
  var found = [], sum = 0, end = -1;
  tree.forEach(function (f) {
    var hit = pattern !== null && pattern.test(f.name);
    f.g.classList.toggle('hit', hit);
    if (hit && f.w) found.push(f);
  });
  /* What is inside another match counts once. */
  found.sort(function (a, b) { return a.x - b.x || b.w - a.w; });
  found.forEach(function (f) { if (f.x + f.w > end + 1e-9) { sum += f.x + f.w - Math.max(end, f.x); end = f.x + f.w; } });
  byId('matched').textContent = pattern ? 'Matched: ' + (100 * sum).toFixed(2) + '%' : '';
}
function search(text) {
  try { pattern = text ? new RegExp(text) : null; } catch (e) { pattern = null; }
  mark();
}
function ask() {
  var text = window.prompt('Functions that match (a regular expression; empty: none)', '');
  if (text !== null) search(text);
}

/* ---- time ---------------------------------------------------------------------------------- */

var time = data.time, BAND = 56, colours = ['#d9822b', '#4c78a8', '#59a14f', '#b279a2', '#e15759', '#76b7b2', '#9c755f', '#8a8a8a'];
function seconds(ms) { return (ms / 1e3).toFixed(ms < 1e4 ? 3 : 2) + ' s'; }
function timeEnd() { return time.step ? time.step * time.count : time.at[time.at.length - 1] || 1; }
function timeX(ms) { return EDGE + ms * wide / timeEnd(); }
function drawArea(points, fill) { element('path', {d: 'M' + points.join('L') + 'Z', fill: fill}, strip); }
function drawUse() {
  var most = 0, base = [], i, k, legend = EDGE;
  for (i = 0; i < time.count; i++) { base[i] = 0; k = 0; time.rows.forEach(function (r) { k += r.use[i]; }); most = Math.max(most, k); }
  time.rows.forEach(function (r, n) {
    var up = [], down = [], colour = colours[n % colours.length];
    for (i = 0; i < time.count; i++) {
      var x0 = timeX(i * time.step).toFixed(1), x1 = timeX((i + 1) * time.step).toFixed(1);
      var y0 = (BAND - base[i] * (BAND - 14) / most).toFixed(1), y1 = (BAND - (base[i] += r.use[i]) * (BAND - 14) / most).toFixed(1);
      up.push(x0 + ',' + y1, x1 + ',' + y1);
      down.unshift(x1 + ',' + y0, x0 + ',' + y0);
    }
    drawArea(up.concat(down), colour);
    element('rect', {x: legend, y: 2, width: 9, height: 9, fill: colour}, strip);
    element('text', {x: legend + 13, y: 11}, strip, r.name);
    legend += 13 + 7 * r.name.length + 14;
  });
  element('text', {x: EDGE + wide, y: 11, 'text-anchor': 'end'}, strip, 'at most ' + most.toFixed(2) + ' ' + time.what + '; ' + seconds(timeEnd()));
}
function drawSize() {
  var most = time.peakSize, points = [EDGE + ',' + BAND], last = BAND;
  time.size.forEach(function (s) { most = Math.max(most, s); });
  time.at.forEach(function (at, i) {
    var x = timeX(at).toFixed(1);
    points.push(x + ',' + last);
    last = (BAND - time.size[i] * (BAND - 14) / (most || 1)).toFixed(1);
    points.push(x + ',' + last);
  });
  points.push((EDGE + wide) + ',' + last, (EDGE + wide) + ',' + BAND);
  drawArea(points, '#7fa8d1');
  element('line', {id: 'peak', x1: timeX(time.peak), x2: timeX(time.peak), y1: 12, y2: BAND, stroke: '#c0392b'}, strip);
  element('text', {x: EDGE, y: 10}, strip, 'heap over time; peak ' + shown(time.peakSize) + ' at ' + seconds(time.peak));
  element('text', {x: EDGE + wide, y: 10, 'text-anchor': 'end'}, strip, seconds(timeEnd()));
}
function drawTime() {
  if (!time) return;
  strip.textContent = '';
  element('rect', {id: 'band', x: EDGE, y: 0, width: wide, height: BAND, fill: '#f3f3ea'}, strip);
  if (time.step) drawUse(); else drawSize();
  element('rect', {id: 'span', x: 0, y: 12, width: 0, height: BAND - 12, fill: '#000', 'fill-opacity': 0.18, 'pointer-events': 'none'}, strip);
  if (span) drawSpan();
}
function drawSpan() {
  var x = timeX(span.from), s = byId('span');
  s.setAttribute('x', x);
  s.setAttribute('width', Math.max(timeX(span.to) - x, 2));
}
function weigh(parts) {
  calls.forEach(function (f) { f.self = 0; f.was = 0; });
  for (var i = 0; i < parts.length; i += 2) calls[parts[i]].self += parts[i + 1];
}
/* Shows the weights of a span of time, or of a moment: that with a number, or the nearest to `from`; null: of all. */
function choose(from, to, number) {
  var first, last, i, best;
  if (from === null || !time) {
    span = null;
    calls.forEach(function (f) { f.self = f.all; f.was = f.allWas; });
  } else if (time.step) {
    first = Math.max(0, Math.min(time.count - 1, Math.floor(from / time.step)));
    last = Math.max(first + 1, Math.min(time.count, Math.ceil(to / time.step)));
    span = {from: first * time.step, to: last * time.step};
    weigh([].concat.apply([], time.parts.slice(first, last)));
  } else if (time.moments.length) {
    best = number || 0;
    for (i = 1; number === undefined && i < time.moments.length; i++)
      if (Math.abs(time.moments[i].at - from) < Math.abs(time.moments[best].at - from)) best = i;
    span = {from: time.moments[best].at, to: time.moments[best].at, moment: best};
    weigh(time.moments[best].parts);
  }
  drawTime();
  layOut(calls);
  invert(inverted !== null);
  byId('about').textContent = hint = !span ? byId('about').getAttribute('data-hint') :
    (span.to > span.from ? seconds(span.from) + ' to ' + seconds(span.to) : 'at ' + seconds(span.from)) + ': ' + shown(calls[0].total);
}
function step(by) {
  var length;
  if (!time) return;
  if (!time.step) {
    length = span ? span.moment + by : by > 0 ? 0 : time.moments.length - 1;
    length = Math.max(0, Math.min(time.moments.length - 1, length));
    if (time.moments.length) choose(0, 0, length);
    return;
  }
  length = span ? span.to - span.from : time.step;
  choose(Math.max(0, Math.min(timeEnd() - length, span ? span.from + by * length : by > 0 ? 0 : timeEnd() - length)),
         Math.max(length, Math.min(timeEnd(), span ? span.to + by * length : by > 0 ? length : timeEnd())));
}
function timeAt(e) {
  var box = svg.getBoundingClientRect();
  return Math.max(0, Math.min(timeEnd(), (e.clientX - box.left - EDGE) * timeEnd() / wide));
}
var dragged = null;
if (time) {
  strip.addEventListener('mousedown', function (e) { dragged = timeAt(e); e.preventDefault(); });
  window.addEventListener('mouseup', function (e) {
    var from = dragged, to;
    if (from === null) return;
    to = timeAt(e);
    dragged = null;
    choose(Math.min(from, to), Math.max(from, to) + (time.step ? 1e-6 : 0));
  });
}

/* ---- the pointer and the keyboard ------------------------------------------------------------ */

function say(f) { byId('about').textContent = f ? title(f).replace(/\n/g, '  ') : hint; }
function frameOf(e) { var g = e.target.closest && e.target.closest('g.f'); return g ? g.node : null; }
calls.forEach(function (f) { f.g.node = f; });
svg.addEventListener('click', function (e) { var f = frameOf(e); if (f) zoom(f); });
svg.addEventListener('mouseover', function (e) { var f = frameOf(e); if (f) say(f); });
svg.addEventListener('mouseout', function (e) { if (frameOf(e)) say(focus); });
function point(f) {
  if (focus) focus.g.classList.remove('focus');
  focus = f;
  if (f) f.g.classList.add('focus');
  say(f);
}
function walk(key) {
  var f = focus || now, beside = f.n ? tree[f.parent].kids.filter(function (k) { return k.w; }) : [f], at = beside.indexOf(f);
  if (!focus) return point(f);
  if (key === 'ArrowUp') return point(f.n ? tree[f.parent] : f);
  if (key === 'ArrowDown') return point(f.kids.reduce(function (a, b) { return !a || b.w > a.w ? b : a; }, null) || f);
  return point(beside[at + (key === 'ArrowRight' ? 1 : -1)] || f);
}
function reset() { point(null); search(''); if (span) choose(null); zoom(tree[0]); }
byId('reset').addEventListener('click', function () { if (span) choose(null); zoom(tree[0]); });
byId('search').addEventListener('click', ask);
byId('invert').addEventListener('click', function () { invert(!inverted); });
window.addEventListener('keydown', function (e) {
  if ((e.ctrlKey && e.key === 'f') || e.key === '/') { e.preventDefault(); ask(); return; }
  if (e.ctrlKey || e.altKey || e.metaKey) return;
  if (e.key === 'Escape') reset();
  else if (e.key === 'i') invert(!inverted);
  else if (e.key === '[' || e.key === ']') step(e.key === ']' ? 1 : -1);
  else if (e.key === 'Enter' && focus) zoom(focus);
  else if (/^Arrow/.test(e.key)) { e.preventDefault(); walk(e.key); }
});
window.addEventListener('resize', fit);
window.addEventListener('scroll', stick);

choose(null);
fit();
stick();
var hash = /[#&]time=([\d.]+)-([\d.]+)/.exec(location.hash);
if (hash) choose(+hash[1], +hash[2]);
if (/[#&]invert/.test(location.hash)) invert(true);
hash = /[#&]search=([^&]*)/.exec(location.hash);
if (hash) search(decodeURIComponent(hash[1]));
hash = /[#&]zoom=(\d+)/.exec(location.hash);
if (hash && tree[+hash[1]]) zoom(tree[+hash[1]]);
})();
