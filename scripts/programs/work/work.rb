# SPDX-License-Identifier: MIT
# What ruby is tried by.
require 'digest/md5'
require 'digest/sha2'
require 'json'
require 'set'
require 'socket'
require 'stringio'
require 'zlib'

def fib(n) = n < 2 ? n : fib(n - 1) + fib(n - 2)
text = File.read(ARGV[0])
count = text.scan(/\b[a-z]+\b/).tally
puts count.sort_by { |w, n| [-n, w] }.first(5).inspect
packed = Zlib::Deflate.deflate(text)
puts packed.size, Zlib::Inflate.inflate(packed) == text, Digest::SHA256.hexdigest(text)
puts JSON.parse(JSON.generate(count)) == count, fib(20), 3**200, Rational(1, 3) + Complex(1, 2)
[-> { 1 / 0 }, -> { nil.x }, -> { raise 'own' }, -> { Integer('x') }, -> { [].fetch(3) }, -> { throw :ball }].each do |f|
	f.call
rescue StandardError => e
	puts "#{e.class} #{e.message.lines.first}"
end
def deep(n) = deep(n + 1)
begin
	deep(0)
rescue SystemStackError
	puts 'deep'
end
threads = (1..4).map { |n| Thread.new { Digest::MD5.hexdigest('x' * n * 1000) } }
puts threads.map(&:value)
fiber = Fiber.new { 3.times { |i| Fiber.yield i } }
puts Array.new(3) { fiber.resume }.inspect
r, w = IO.pipe
fork { r.close; w.puts "child #{'%05.1f' % 3.14159}"; w.close; exit! 4 }
w.close
puts r.read
Process.wait
puts $?.exitstatus
a, b = UNIXSocket.pair
a.write('x' * 100)
puts b.readpartial(1000).size
puts (1..Float::INFINITY).lazy.map { |i| i * i }.select(&:even?).first(4).inspect, Set[1, 2].superset?(Set[1])
GC.start
case { name: 'etch', size: [1, 2] }
in { name: String => name, size: [first, *] } then puts name, first
end
