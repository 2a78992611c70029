-- SPDX-License-Identifier: MIT
-- What Lua is tried by: for 5.1 (luajit) and later.
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
local count, words = {}, {}
for line in io.lines(arg[1]) do
	for w in line:gmatch("%a+") do
		if not count[w] then words[#words + 1] = w end
		count[w] = (count[w] or 0) + 1
	end
end
table.sort(words, function(a, b) if count[a] ~= count[b] then return count[a] > count[b] end return a < b end)
for i = 1, 5 do print(words[i], count[words[i]]) end
print(fib(24), #words, string.format("%.10g %5s|%x", math.pi, "ab", 255), ("x"):rep(3, ","))
for _, f in ipairs { function() return nil + 1 end, function() error({ code = 5 }) end, function() return (nil).x end,
		function() error("own", 0) end } do
	local ok, why = pcall(f)
	print(ok, type(why) == "table" and why.code or (tostring(why):gsub("^.-:%d+: ", "")))
end
local co = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i * i) end end)
print(co(), co(), co())
local t = setmetatable({}, { __index = function(_, k) return k .. "!" end, __call = function(_, a) return a * 2 end })
print(t.x, t(21), select("#", 1, 2, 3), pcall(string.rep))
local function deep(n) return 1 + deep(n + 1) end
print((pcall(deep, 0)))
local x = 0
for i = 1, 3000000 do x = (x * 31 + i) % 1000003 end
print(x)
for i = 1, 100000 do local g = { i, tostring(i) } end
collectgarbage()
print(("hello world"):gsub("o", { o = "0" }), ("%d+"):len(), math.floor(-3.5))
