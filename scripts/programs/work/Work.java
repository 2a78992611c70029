// SPDX-License-Identifier: MIT
// What a Java machine is tried by: interpreter, compilers, collector, signals, its libraries.
import java.io.*;
import java.math.BigInteger;
import java.net.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.security.MessageDigest;
import java.util.*;
import java.util.concurrent.*;
import java.util.regex.*;
import java.util.stream.*;
import java.util.zip.*;

public class Work {
	static int scale;

	static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

	static String digest(byte[] data) throws Exception {
		return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(data)).substring(0, 16);
	}

	static void text(String path) throws Exception {
		String text = Files.readString(Path.of(path));
		Map<String, Long> count = Pattern.compile("\\b[a-z]+\\b").matcher(text).results()
			.collect(Collectors.groupingBy(MatchResult::group, TreeMap::new, Collectors.counting()));
		System.out.println(count.entrySet().stream().sorted(Map.Entry.<String, Long>comparingByValue().reversed())
			.limit(5).map(Object::toString).collect(Collectors.joining(" ")));
		byte[] data = text.getBytes(StandardCharsets.UTF_8);
		ByteArrayOutputStream packed = new ByteArrayOutputStream();
		try (GZIPOutputStream out = new GZIPOutputStream(packed)) { out.write(data); }
		byte[] back = new GZIPInputStream(new ByteArrayInputStream(packed.toByteArray())).readAllBytes();
		System.out.println(packed.size() + " " + Arrays.equals(back, data) + " " + digest(data));
	}

	static int depth(int n) { return 1 + depth(n + 1); }

	/* Null pointers and divisions are signals in compiled code: they come often enough to be compiled. */
	static void errors() {
		int nulls = 0, divisions = 0, bounds = 0;
		int[][] arrays = {null, {1}, new int[5]};
		for (int i = 0; i < 60 * scale; i++) {
			try { nulls += arrays[i % 3].length > 9 ? 1 : 0; } catch (NullPointerException e) { nulls++; }
			try { divisions += 7 / (i % 4) > 9 ? 1 : 0; } catch (ArithmeticException e) { divisions++; }
			try { bounds += new int[3][i % 5].length > 4 ? 1 : "abc".charAt(i % 4) > 'z' ? 1 : 0; } catch (StringIndexOutOfBoundsException e) { bounds++; }
		}
		System.out.println(nulls + " " + divisions + " " + bounds);
		try { depth(0); } catch (StackOverflowError e) { System.out.println("deep"); }
		try { Object o = "x"; Integer i = (Integer) o; } catch (ClassCastException e) { System.out.println("cast"); }
		try { System.loadLibrary("nonesuch"); } catch (UnsatisfiedLinkError e) { System.out.println("link"); }
	}

	static void threads() throws Exception {
		ExecutorService pool = Executors.newFixedThreadPool(3);
		List<Future<Integer>> all = new ArrayList<>();
		for (int n = 10; n < 26; n++) { final int m = n; all.add(pool.submit(() -> fib(m))); }
		for (Future<Integer> f : all) System.out.print(f.get() + " ");
		pool.shutdown();
		System.out.println(IntStream.range(0, 200000).parallel().filter(i -> i % 7 == 3).asLongStream().sum());
	}

	static void garbage() {
		Map<Integer, String> live = new HashMap<>();
		for (int i = 0; i < 2000 * scale; i++) live.put(i % 20000, "v" + i);
		System.gc();
		System.out.println(live.size() + " " + live.get(7));
	}

	static void talk() throws Exception {
		try (ServerSocket s = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
			Thread t = new Thread(() -> { try (Socket c = s.accept()) { c.getOutputStream().write("hello".getBytes()); } catch (IOException e) { System.out.println(e); } });
			t.start();
			try (Socket c = new Socket(s.getInetAddress(), s.getLocalPort())) { System.out.println(new String(c.getInputStream().readAllBytes())); }
			t.join();
		}
		Process p = new ProcessBuilder("sort", "-r").start();
		try (OutputStream o = p.getOutputStream()) { o.write("1\n2\n3\n".getBytes()); }
		System.out.println(new String(p.getInputStream().readAllBytes()).replace('\n', ' ') + p.waitFor());
	}

	public static void main(String[] args) throws Exception {
		scale = Integer.parseInt(args[1]);
		System.out.println(fib(scale > 100 ? 30 : 20) + " " + BigInteger.TWO.pow(2000).mod(BigInteger.valueOf(1000000007)));
		double x = 0;
		for (int i = 1; i < 1000 * scale; i++) x += Math.sin(i) / i;
		System.out.println(x);
		text(args[0]);
		errors();
		threads();
		garbage();
		talk();
		System.exit(3);
	}
}
