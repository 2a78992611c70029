/* SPDX-License-Identifier: MIT */
/*
 * The script inside the SVG flame graph. Frames are <g class="f"> with a <title>, a <rect> and a <text>; their places
 * as drawn are kept in `all`. A click zooms; Ctrl+F, or the word "Search", asks for a regular expression. In the
 * address of the file, "#zoom=" (a frame's number) and "#search=" do the same when it is opened.
 */
#ifndef PROFILE_FLAME_SCRIPT_H
#define PROFILE_FLAME_SCRIPT_H

#define FLAME_CHARACTER 7  /* width of a letter, px */
#define FLAME_ROW       17 /* height of a row, px */

#define FLAME_SCRIPT                                                                                                   \
	"(function () {\n"                                                                                                 \
	"'use strict';\n"                                                                                                  \
	"var svg = document.querySelector('svg.etch-flame'), drawn = +svg.getAttribute('width') - 20, wide = drawn;\n"     \
	"var byId = function (id) { return svg.querySelector('#' + id); };\n"                                              \
	"var all = [].map.call(svg.querySelectorAll('g.f'), function (g, i) {\n"                                           \
	"  var r = g.querySelector('rect');\n"                                                                             \
	"  return {g: g, r: r, t: g.querySelector('text'), n: i, x: +r.getAttribute('x') - 10, w: "                        \
	"+r.getAttribute('width'),\n"                                                                                      \
	"    y: +r.getAttribute('y'), title: g.querySelector('title').textContent};\n"                                     \
	"});\n"                                                                                                            \
	"var name = function (f) { return f.title.replace(/\\n[^]*$/, ''); };\n"                                           \
	"var hint = byId('about').textContent, now = all[0];\n"                                                            \
	"function label(f, w) {\n"                                                                                         \
	"  var room = Math.floor((w - 4) / 7), text = name(f);\n"                                                          \
	"  f.t.textContent = room < 3 ? '' : text.length <= room ? text : text.slice(0, room - 2) + '..';\n"               \
	"}\n"                                                                                                              \
	"function place(f, x, w, faded) {\n"                                                                               \
	"  f.g.style.display = w > 0 ? '' : 'none';\n"                                                                     \
	"  f.g.style.opacity = faded ? 0.5 : 1;\n"                                                                         \
	"  f.r.setAttribute('x', 10 + x);\n"                                                                               \
	"  f.r.setAttribute('width', Math.max(w, 0));\n"                                                                   \
	"  f.t.setAttribute('x', 13 + x);\n"                                                                               \
	"  label(f, w);\n"                                                                                                 \
	"}\n"                                                                                                              \
	"function zoom(to) {\n"                                                                                            \
	"  var slack = 0.001;\n"                                                                                           \
	"  now = to;\n"                                                                                                    \
	"  all.forEach(function (f) {\n"                                                                                   \
	"    var inside = f.x >= to.x - slack && f.x + f.w <= to.x + to.w + slack;\n"                                      \
	"    var around = f.x <= to.x + slack && f.x + f.w >= to.x + to.w - slack;\n"                                      \
	"    if (f.y >= to.y && inside) place(f, (f.x - to.x) * wide / to.w, f.w * wide / to.w, false);\n"                 \
	"    else if (f.y < to.y && around) place(f, 0, wide, true);\n"                                                    \
	"    else place(f, 0, 0, false);\n"                                                                                \
	"  });\n"                                                                                                          \
	"  byId('reset').style.display = to === all[0] ? 'none' : '';\n"                                                   \
	"}\n"                                                                                                              \
	"/* Alone in a window, the picture is as wide as that. */\n"                                                       \
	"function fit() {\n"                                                                                               \
	"  var box = svg.viewBox.baseVal, moved;\n"                                                                        \
	"  if (document.documentElement !== svg) return;\n"                                                                \
	"  moved = Math.max(window.innerWidth - 36, 600) - wide;\n"                                                        \
	"  if (!moved) return;\n"                                                                                          \
	"  wide += moved;\n"                                                                                               \
	"  svg.setAttribute('width', wide + 20);\n"                                                                        \
	"  svg.setAttribute('viewBox', '0 0 ' + (wide + 20) + ' ' + box.height);\n"                                        \
	"  ['reset', 'search', 'matched'].forEach(function (id) { byId(id).setAttribute('x', +byId(id).getAttribute('x') " \
	"+ moved); });\n"                                                                                                  \
	"  zoom(now);\n"                                                                                                   \
	"}\n"                                                                                                              \
	"function search(text) {\n"                                                                                        \
	"  var found = [], sum = 0, end = -1, pattern;\n"                                                                  \
	"  try { pattern = text ? new RegExp(text) : null; } catch (e) { pattern = null; }\n"                              \
	"  all.forEach(function (f) {\n"                                                                                   \
	"    var hit = pattern !== null && pattern.test(name(f));\n"                                                       \
	"    f.g.classList.toggle('hit', hit);\n"                                                                          \
	"    if (hit) found.push(f);\n"                                                                                    \
	"  });\n"                                                                                                          \
	"  /* What is inside another match counts once. */\n"                                                              \
	"  found.sort(function (a, b) { return a.x - b.x || b.w - a.w; });\n"                                              \
	"  found.forEach(function (f) {\n"                                                                                 \
	"    if (f.x + f.w > end + 0.001) { sum += f.x + f.w - Math.max(end, f.x); end = f.x + f.w; }\n"                   \
	"  });\n"                                                                                                          \
	"  byId('matched').textContent = pattern ? 'Matched: ' + (100 * sum / drawn).toFixed(2) + '%' : '';\n"             \
	"}\n"                                                                                                              \
	"function ask() {\n"                                                                                               \
	"  var text = window.prompt('Functions that match (a regular expression; empty: none)', '');\n"                    \
	"  if (text !== null) search(text);\n"                                                                             \
	"}\n"                                                                                                              \
	"all.forEach(function (f) {\n"                                                                                     \
	"  f.g.addEventListener('click', function () { zoom(f); });\n"                                                     \
	"  f.g.addEventListener('mouseover', function () { byId('about').textContent = f.title.replace(/\\n/g, '  '); "    \
	"});\n"                                                                                                            \
	"  f.g.addEventListener('mouseout', function () { byId('about').textContent = hint; });\n"                         \
	"});\n"                                                                                                            \
	"byId('reset').addEventListener('click', function () { zoom(all[0]); });\n"                                        \
	"byId('search').addEventListener('click', ask);\n"                                                                 \
	"window.addEventListener('keydown', function (e) {\n"                                                              \
	"  if ((e.ctrlKey && e.key === 'f') || e.key === '/') { e.preventDefault(); ask(); }\n"                            \
	"  if (e.key === 'Escape') { search(''); zoom(all[0]); }\n"                                                        \
	"});\n"                                                                                                            \
	"window.addEventListener('resize', fit);\n"                                                                        \
	"fit();\n"                                                                                                         \
	"var hash = /[#&]search=([^&]*)/.exec(location.hash);\n"                                                           \
	"if (hash) search(decodeURIComponent(hash[1]));\n"                                                                 \
	"hash = /[#&]zoom=(\\d+)/.exec(location.hash);\n"                                                                  \
	"if (hash && all[+hash[1]]) zoom(all[+hash[1]]);\n"                                                                \
	"})();\n"

#endif
