# SPDX-License-Identifier: MIT
# What perl is tried by: the interpreter, and those modules of it that are compiled.
use strict;
use warnings;
use Data::Dumper;
use Digest::MD5 qw(md5_hex);
use Digest::SHA qw(sha256_hex);
use Encode qw(encode decode);
use List::Util qw(sum reduce shuffle max);
use MIME::Base64;
use POSIX qw(floor strtol);
use Storable qw(freeze thaw);
use Time::HiRes;
use Socket;
use Fcntl;
use IO::Handle;
use Compress::Zlib;
use threads;

$Data::Dumper::Sortkeys = 1;
my (%count, @lines);
open my $in, '<', $ARGV[0] or die "$ARGV[0]: $!";
while (<$in>) {
	chomp;
	push @lines, $_;
	$count{$1}++ while /\b(\w+)\b/g;
}
my @top = (sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count)[0 .. 9];
print "$_ $count{$_}\n" for @top;
my $text = join "\n", sort { length $a <=> length $b || $a cmp $b } @lines;
print md5_hex($text), " ", sha256_hex($text), " ", length(encode_base64($text)), "\n";
(my $changed = $text) =~ s/(\d+)\t(\w+)(?:\s(\w+))?/($3 || '') . ":$2:" . ($1 * 3)/ge;
$changed =~ tr/a-m/n-z/;
print sha256_hex($changed), "\n";
print "nested: $1\n" if "x(a(b)c(d(e)))y" =~ /(\((?:[^()]++|(?1))*+\))/;
print sha256_hex(encode('UTF-16LE', decode('UTF-8', "\xc3\xa5ngstr\xc3\xb6m"))), "\n";
my $tree = { map { $_ => [ 1 .. $_ ] } 1 .. 50 };
print sha256_hex(Dumper(thaw freeze $tree)), " ", sum(map { scalar @$_ } values %$tree), "\n";
my $packed = compress($text);
print length($packed), " ", uncompress($packed) eq $text ? "same" : "other", "\n";
sub fib { my $n = shift; $n < 2 ? $n : fib($n - 1) + fib($n - 2) }
print fib(19), " ", (reduce { $a * $b % 1000003 } 1 .. 500), "\n";
for my $code ('1 / 0', 'die { code => 5 }', 'undef->method', 'use strict; $x = 1;', 'my @a = (1) x 3; "@a[0..2]"') {
	my $value = eval $code;
	print defined $value ? "$value\n" : ref $@ ? "code $@->{code}\n" : $@ =~ s/ at .*//sr . "\n";
}
my @results = map { $_->join } map { my $n = $_; threads->create(sub { sha256_hex("x" x ($n * 1000)) }) } 1 .. 4;
print substr($_, 0, 16), "\n" for @results;
local $SIG{ALRM} = sub { die "alarm\n" };
eval { Time::HiRes::alarm(0.02); select undef, undef, undef, 1 while 1; };
print $@;
pipe my $r, my $w;
if (!fork) { close $r; print $w "child says $_\n" for 1 .. 3; close $w; POSIX::_exit(3) }
close $w;
print <$r>;
wait;
print "exit ", $? >> 8, "\n";
printf "%s %.10g %x %s\n", scalar(strtol('777', 8)), atan2(1, 1) * 4, 0xdeadbeef, join ',', map { sprintf '%03b', $_ } 1 .. 5;
format STDOUT =
@<<<<<<<< @>>>>>>> @##.##
$top[0], $count{$top[0]}, 3.14159
.
write;
