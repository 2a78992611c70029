# SPDX-License-Identifier: MIT
class Odd < Exception; end
def deep(n : Int32) : Int32
  raise Odd.new("deep") if n == 0
  deep(n - 1) + 1
end
ch = Channel(Int32).new
4.times { |i| spawn { begin; deep(i * 5); rescue Odd; ch.send(i * i); end } }
sum = 0
4.times { sum += ch.receive }
words = {} of String => Int32
"to be or not to be that is the question".split.each { |w| words[w] = (words[w]? || 0) + 1 }
puts sum, words.to_a.sort_by { |k, v| {-v, k} }.first(3), "ab-12 cd-34".gsub(/(\w+)-(\d+)/, "\\2-\\1")
puts (1..300).map { |x| x.to_s }.join.size
