<?php // SPDX-License-Identifier: MIT
// What php is tried by.
function fib($n) { return $n < 2 ? $n : fib($n - 1) + fib($n - 2); }
function gen() { for ($i = 0; $i < 5; $i++) yield $i => $i ** 3; }
$text = file_get_contents($argv[1]);
preg_match_all('/\b[a-z]+\b/', $text, $m);
$count = array_count_values($m[0]);
ksort($count);
arsort($count);
print_r(array_slice($count, 0, 5));
foreach (['md5', 'sha256', 'sha3-256', 'crc32b', 'xxh3'] as $h) echo $h, ' ', hash($h, $text), "\n";
echo fib(22), ' ', json_encode(iterator_to_array(gen())), ' ', strlen(gzcompress($text)), "\n";
foreach ([fn() => 1 % 0, fn() => nosuch(), fn() => throw new LogicException('own'), fn() => [] > (object)[], fn() => strlen()] as $f) {
	try { var_dump($f()); } catch (Throwable $e) { echo get_class($e), ' ', $e->getMessage(), "\n"; }
}
usort($m[0], fn($a, $b) => strlen($b) <=> strlen($a) ?: strcmp($a, $b));
echo $m[0][0], ' ', unserialize(serialize($count)) == $count ? 'same' : 'other', ' ', date('c', 1e9), "\n";
$o = new class { public function __get($n) { return "magic $n"; } };
echo $o->x, ' ', preg_replace_callback('/\d+/', fn($m) => $m[0] * 2, 'a1b22'), ' ', sprintf('%08.3f|%-6s|%x', M_PI, 'ab', 255), "\n";
