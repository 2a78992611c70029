// SPDX-License-Identifier: MIT
// A program for the compilers of C++: headers that are large, exceptions, threads, numbers.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

struct shape { virtual ~shape() = default; virtual double area() const = 0; };
struct square : shape { double a; explicit square(double a) : a(a) {} double area() const override { return a * a; } };
struct circle : shape { double r; explicit circle(double r) : r(r) {} double area() const override { return 3 * r * r; } };

template <int N> struct sum { static constexpr long value = N + sum<N - 1>::value; };
template <> struct sum<0> { static constexpr long value = 0; };

struct noisy {
	static std::atomic<int> alive;
	noisy() { alive++; }
	~noisy() { alive--; }
};
std::atomic<int> noisy::alive;

static long deep(int n)
{
	noisy here;
	if (!n)
		throw std::range_error("bottom");
	return deep(n - 1) + 1;
}

int main(int argc, char **argv)
{
	std::vector<std::unique_ptr<shape>> shapes;
	for (int i = 1; i < 100; i++)
		i % 2 ? shapes.push_back(std::make_unique<square>(i)) : shapes.push_back(std::make_unique<circle>(i));
	double area = 0;
	for (const auto &s : shapes)
		area += s->area();
	std::cout << std::setprecision(12) << area << ' ' << sum<200>::value << '\n';
	int caught = 0;
	for (int i = 0; i < 300; i++)
		try { deep(i % 20); } catch (const std::exception &e) { caught += std::string(e.what()).size(); }
	std::cout << caught << ' ' << noisy::alive << '\n';
	std::ifstream in(argc > 1 ? argv[1] : "/dev/null");
	std::map<std::string, int> count;
	std::regex word("[a-e]+");
	for (std::string line; std::getline(in, line) && count.size() < 200; )
		for (std::sregex_iterator i(line.begin(), line.end(), word), end; i != end; ++i)
			count[i->str()]++;
	for (const auto &[w, n] : count)
		if (n > 20)
			std::cout << w << ' ' << n << '\n';
	std::vector<std::thread> threads;
	std::atomic<long> total{0};
	for (int t = 0; t < 4; t++)
		threads.emplace_back([&, t] { try { total += deep(t) ; } catch (...) { total += t; } });
	for (auto &t : threads)
		t.join();
	std::ostringstream out;
	out << std::hex << std::showbase << 48879 << ' ' << std::fixed << std::setprecision(3) << std::sqrt(2.0);
	std::cout << total << ' ' << out.str() << '\n';
	std::function<int(int)> f = [&](int n) { return n < 2 ? n : f(n - 1) + f(n - 2); };
	return f(10);
}
