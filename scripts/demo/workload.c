/* SPDX-License-Identifier: MIT */
/*
 * The program of `make demo`: SQLite in one file, its configuration etched, and
 * a workload of queries that reads that configuration in several threads.
 *
 *     workload THREADS ROUNDS [ADDRESS:LENGTH...]
 *     workload 0 ROUNDS [ADDRESS:LENGTH...]
 *
 * It runs the same work three times: as configured at start-up, while the main
 * thread changes settings without a pause, and with every setting changed. No
 * setting it touches may alter a result, so all three checksums must be equal.
 * ADDRESS:LENGTH names an instruction (hex, decimal; as `etch inspect sites` prints
 * it) whose bytes are shown at each step. One JSON object on stdout. With 0 threads
 * the work is done once, by this thread, and nothing is changed: for a count of the
 * instructions of counted_work().
 *
 * SQLite stores to its configuration plainly while it starts, so its sites start
 * as loads: one etch_sync after sqlite3_initialize arms them, and one
 * etch_release before sqlite3_shutdown gives the stores back.
 */
#include "sqlite3.c" /* the marked copy that demo.py made; found by -I */

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define ROWS 1500 /* rows of the table of orders: large enough to split pages and to sort */

extern const char __executable_start[]; /* from the linker: link-time address 0 in a PIE */

static atomic_int g_running;
static unsigned g_rounds;

static void die(const char *what, const char *why)
{
	fprintf(stderr, "workload: %s: %s\n", what, why);
	exit(1);
}

/* ---- the work --------------------------------------------------------------- */

/* FNV-1a, 64 bits. */
static uint64_t sum_bytes(uint64_t sum, const void *data, size_t n)
{
	const unsigned char *p = data;

	while (n--)
		sum = (sum ^ *p++) * 0x100000001b3u;
	return sum;
}

/* Runs statements and folds every value of every row into the sum. */
static uint64_t query(sqlite3 *db, uint64_t sum, const char *sql)
{
	sqlite3_stmt *st;
	int rc, i;

	while (*sql) {
		if (sqlite3_prepare_v2(db, sql, -1, &st, &sql) != SQLITE_OK)
			die(sql, sqlite3_errmsg(db));
		if (!st)
			break;
		while ((rc = sqlite3_step(st)) == SQLITE_ROW)
			for (i = 0; i < sqlite3_column_count(st); i++) {
				const void *text = sqlite3_column_text(st, i);

				sum = sum_bytes(sum, text, (size_t)sqlite3_column_bytes(st, i));
				sum = sum_bytes(sum, "|", 1);
			}
		if (rc != SQLITE_DONE)
			die(sqlite3_sql(st), sqlite3_errmsg(db));
		sqlite3_finalize(st);
	}
	return sum;
}

static uint64_t fill(sqlite3 *db, uint64_t sum, unsigned seed)
{
	sqlite3_stmt *st;
	uint32_t x = seed * 2654435761u + 1;
	unsigned i;

	sum = query(db, sum,
	            "CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT, city TEXT);"
	            "CREATE TABLE orders(id INTEGER PRIMARY KEY, customer INT, amount INT, note TEXT);"
	            "CREATE INDEX orders_customer ON orders(customer);"
	            "CREATE INDEX orders_amount ON orders(amount);"
	            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100)"
	            " INSERT INTO customer SELECT i, printf('customer %03d', i), printf('city %d', i % 7) FROM n;"
	            "BEGIN");
	if (sqlite3_prepare_v2(db, "INSERT INTO orders(customer, amount, note) VALUES(?, ?, ?)", -1, &st, 0) != SQLITE_OK)
		die("prepare", sqlite3_errmsg(db));
	for (i = 0; i < ROWS; i++) {
		char note[40];

		x = x * 1664525u + 1013904223u;
		snprintf(note, sizeof note, "note %08x of order %u", x, i);
		sqlite3_bind_int(st, 1, (int)(x >> 8) % 100 + 1);
		sqlite3_bind_int(st, 2, (int)(x >> 12) % 5000);
		sqlite3_bind_text(st, 3, note, -1, SQLITE_TRANSIENT);
		if (sqlite3_step(st) != SQLITE_DONE)
			die("insert", sqlite3_errmsg(db));
		sqlite3_reset(st);
	}
	sqlite3_finalize(st);
	return query(db, sum, "COMMIT");
}

static uint64_t round_of_work(unsigned seed)
{
	uint64_t sum = 0xcbf29ce484222325u;
	sqlite3 *db;

	/* An empty name is a private database with a file and a journal of its own. */
	if (sqlite3_open("", &db) != SQLITE_OK)
		die("open", sqlite3_errmsg(db));
	sum = fill(db, sum, seed);
	sum = query(db, sum,
	            "SELECT city, count(*), sum(amount), max(note) FROM customer JOIN orders ON customer = customer.id"
	            " GROUP BY city ORDER BY city;"
	            "SELECT name, total FROM (SELECT customer, sum(amount) AS total FROM orders GROUP BY customer)"
	            " JOIN customer ON id = customer ORDER BY total DESC, name LIMIT 20;"
	            "SELECT sum(amount), min(amount), max(amount) FROM orders;"
	            "SELECT id, note FROM orders WHERE amount BETWEEN 1000 AND 1100 ORDER BY note;"
	            "SELECT id, amount, sum(amount) OVER (PARTITION BY customer ORDER BY id) FROM orders"
	            " ORDER BY id LIMIT 200;"
	            "SELECT count(*), sum(length(replace(upper(note), 'E', ''))) FROM orders WHERE note LIKE '%a%';");
	/* A statement that fails half way is undone from a statement journal. */
	if (sqlite3_exec(db, "INSERT INTO orders SELECT id - 100, 1, 1, 'x' FROM orders WHERE id > 50", 0, 0, 0) !=
	    SQLITE_CONSTRAINT)
		die("conflicting insert", sqlite3_errmsg(db));
	sum = query(db, sum,
	            "SAVEPOINT s; UPDATE orders SET amount = amount + 7, note = note || ' changed' WHERE customer % 3 = 0;"
	            "ROLLBACK TO s; RELEASE s;"
	            "BEGIN; UPDATE orders SET amount = amount * 2 WHERE customer % 5 = 0;"
	            "DELETE FROM orders WHERE id % 11 = 0; COMMIT;"
	            "SELECT count(*), sum(amount), sum(id), group_concat(id) FROM"
	            " (SELECT * FROM orders ORDER BY amount, id LIMIT 300);"
	            "PRAGMA integrity_check;");
	sqlite3_close(db);
	return sum;
}

static void *worker(void *arg)
{
	uint64_t *sum = arg;
	unsigned r;

	for (r = 0; r < g_rounds; r++) {
		uint64_t s = round_of_work((unsigned)*sum + r);

		*sum = sum_bytes(*sum, &s, sizeof s);
	}
	atomic_fetch_sub(&g_running, 1);
	return 0;
}

/* ---- the changes ------------------------------------------------------------ */

static atomic_ulong g_hook_calls, g_enter_calls; /* calls of the methods below */

static void enter_counted(sqlite3_mutex *p)
{
	atomic_fetch_add_explicit(&g_enter_calls, 1, memory_order_relaxed);
	pthreadMutexEnter(p); /* SQLite's own method for POSIX threads */
}

/* No fault, please. */
static int hook(int code)
{
	(void)code;
	atomic_fetch_add_explicit(&g_hook_calls, 1, memory_order_relaxed);
	return SQLITE_OK;
}

/*
 * Settings that say how SQLite works, not what it answers, each with two values.
 * SQLite's own interface refuses to change any of these once it is running. The last
 * two are methods that it calls: one often, one where its own tests simulate faults.
 */
#define SETTINGS(X)                                                                     \
	X(bMemstat, 1, 0)                     /* account for every allocation */              \
	X(bUseCis, 1, 0)                      /* may scan an index in place of a table */     \
	X(nLookaside, 40, 0)                  /* size of each connection's allocation pool */ \
	X(szLookaside, 1200, 512)                                                             \
	X(nStmtSpill, 65536, 1024)            /* when a journal goes from memory to a file */ \
	X(szPma, 250, 10)                     /* pages a sorter keeps before it spills */     \
	X(szMmap, 0, 5ll << 30)               /* bytes of a file to map; too wide for imm32 */ \
	X(iOnceResetThreshold, 0x7ffffffe, 2) /* runs before a statement resets counters */   \
	X(mutex.xMutexEnter, pthreadMutexEnter, enter_counted)                                \
	X(xTestCallback, 0, hook)

/* Returns etch's error. Each line below compiles to a call of etch_set. */
static int setting_set(unsigned which, int changed)
{
	unsigned i = 0;

#define X(field, first, second)                                                         \
	if (i++ == which)                                                               \
		return etch_set(&sqlite3Config.field, changed ? (second) : (first));
	SETTINGS(X)
#undef X
	return ETCH_EINVAL;
}

enum {
#define X(field, first, second) +1
	SETTING_COUNT = SETTINGS(X)
#undef X
};

struct changes {
	unsigned long made;
	unsigned long failed;
	int error; /* of the last that failed */
};

static void change(struct changes *c, unsigned which, int changed)
{
	int err = setting_set(which, changed);

	if (err) {
		c->failed++;
		c->error = err;
	} else {
		c->made++;
	}
}

/* Workers on the same seeds each time; meanwhile, where c is given, this thread
 * changes one setting after the other until they are done. */
static uint64_t run(unsigned threads, struct changes *c, double *seconds)
{
	pthread_t t[64];
	uint64_t sums[64], sum = 0xcbf29ce484222325u;
	struct timespec a, b;
	uint32_t x = 1;
	unsigned i;

	clock_gettime(CLOCK_MONOTONIC, &a);
	atomic_store(&g_running, (int)threads);
	for (i = 0; i < threads; i++) {
		sums[i] = i + 1;
		if (pthread_create(&t[i], 0, worker, &sums[i]))
			die("pthread_create", "failed");
	}
	while (c && atomic_load(&g_running) > 0) {
		x = x * 1664525u + 1013904223u;
		change(c, (x >> 16) % SETTING_COUNT, (x >> 28) & 1);
		usleep(50); /* some 10,000 changes a second leave the CPUs to the workers */
	}
	for (i = 0; i < threads; i++) {
		pthread_join(t[i], 0);
		sum = sum_bytes(sum, &sums[i], sizeof sums[i]);
	}
	clock_gettime(CLOCK_MONOTONIC, &b);
	*seconds = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
	return sum;
}

/* The work of one worker. */
__attribute__((noinline)) static uint64_t counted_work(void)
{
	uint64_t sum = 1;

	worker(&sum);
	return sum;
}

/* ---- what is seen of it ----------------------------------------------------- */

/* The bytes of the instructions that the command line names. */
static void show_bytes(const char *name, char **sites)
{
	const char *comma = "";
	uintptr_t at;
	unsigned len;

	printf(" \"%s\": [", name);
	for (; *sites; sites++, comma = ", ") {
		if (sscanf(*sites, "%" SCNxPTR ":%u", &at, &len) != 2 || len > 15)
			die(*sites, "not ADDRESS:LENGTH");
		at += (uintptr_t)__executable_start;
		printf("%s\"", comma);
		while (len--)
			printf("%02x", *(const unsigned char *)at++);
		printf("\"");
	}
	printf("],\n");
}

static void show_info(const char *name)
{
	struct etch_info info = {.size = sizeof info};

	if (etch_info(&info))
		die("etch_info", "failed");
	printf(" \"%s\": {\"modules\": %lu, \"sites\": %lu, \"armed\": %lu, \"loads\": %lu, \"fixed\": %lu,"
	       " \"objects\": %lu, \"armed_objects\": %lu, \"patched_at_start\": %lu, \"readonly_pages\": %lu,"
	       " \"calls\": %lu, \"direct\": %lu, \"inline\": %lu, \"indirect\": %lu},\n",
	       name, info.modules, info.sites, info.armed, info.loads, info.fixed, info.objects,
	       info.armed_objects, info.patched_at_start, info.readonly_pages,
	       info.calls, info.calls_direct, info.calls_inline, info.calls_indirect);
}

/* Settings whose effect can be seen: the plan of a query (bUseCis), how many
 * allocations of a new connection came out of its pool (nLookaside), and calls of
 * the counting methods in the run before. */
static void show_effect(const char *name)
{
	sqlite3_stmt *st = 0;
	sqlite3 *db;
	int now, high;
	unsigned long hooks = atomic_exchange(&g_hook_calls, 0), enters = atomic_exchange(&g_enter_calls, 0);

	if (sqlite3_open(":memory:", &db) != SQLITE_OK ||
	    sqlite3_exec(db, "CREATE TABLE t(a, b, c); CREATE INDEX tb ON t(b)", 0, 0, 0) != SQLITE_OK ||
	    sqlite3_prepare_v2(db, "EXPLAIN QUERY PLAN SELECT count(b) FROM t", -1, &st, 0) != SQLITE_OK ||
	    sqlite3_step(st) != SQLITE_ROW)
		die(name, sqlite3_errmsg(db));
	sqlite3_db_status(db, SQLITE_DBSTATUS_LOOKASIDE_HIT, &now, &high, 0);
	printf(" \"%s\": {\"plan\": \"%s\", \"pooled\": %d, \"hook_calls\": %lu, \"enter_calls\": %lu},\n", name,
	       (const char *)sqlite3_column_text(st, 3), high, hooks, enters);
	sqlite3_finalize(st);
	sqlite3_close(db);
}

int main(int argc, char **argv)
{
	struct changes during = {0}, after = {0};
	unsigned threads = argc > 1 ? (unsigned)atoi(argv[1]) : 0, i;
	uint64_t sum[3];
	double seconds[3];
	const char *comma = "";
	const char *error = "";
	int synced;

	if (argc < 3 || threads > 64)
		die("usage", "workload THREADS ROUNDS [ADDRESS:LENGTH...]");
	g_rounds = (unsigned)atoi(argv[2]);
	if (sqlite3_initialize() != SQLITE_OK)
		die("sqlite3_initialize", "failed");
	printf("{\n");
	show_info("info_start");
	show_bytes("bytes_start", argv + 3);
	synced = etch_sync(&sqlite3Config, sizeof sqlite3Config);
	show_info("info_synced");
	show_bytes("bytes_synced", argv + 3);
	if (!threads) {
		printf(" \"sync\": \"%s\",\n", synced ? etch_strerror(synced) : "ok");
		printf(" \"checksum\": \"%016" PRIx64 "\"\n}\n", counted_work());
		return 0;
	}

	sum[0] = run(threads, 0, &seconds[0]);
	show_effect("effect_before");
	sum[1] = run(threads, &during, &seconds[1]);
	for (i = 0; i < SETTING_COUNT; i++)
		change(&after, i, 1);
	show_bytes("bytes_changed", argv + 3);
	show_info("info_changed");
	atomic_store(&g_hook_calls, 0);
	atomic_store(&g_enter_calls, 0);
	sum[2] = run(threads, 0, &seconds[2]);
	show_effect("effect_after");

	if (during.failed)
		error = etch_strerror(during.error);
	if (after.failed)
		error = etch_strerror(after.error);
	printf(" \"sync\": \"%s\",\n", synced ? etch_strerror(synced) : "ok");
	printf(" \"verify\": %ld,\n", etch_verify(0, 0));
	printf(" \"changes\": %lu, \"failed\": %lu, \"error\": \"%s\",\n", during.made + after.made,
	       during.failed + after.failed, error);
	printf(" \"fields\": {");
#define X(field, first, second)                                                         \
	printf("%s\"" #field "\": [%zu, %zu]", comma,                                   \
	       offsetof(struct Sqlite3Config, field), sizeof sqlite3Config.field);      \
	comma = ", ";
	SETTINGS(X)
#undef X
	printf("},\n \"object_size\": %zu, \"sqlite\": \"%s\",\n", sizeof sqlite3Config, SQLITE_VERSION);
	printf(" \"seconds\": [%.3f, %.3f, %.3f],\n", seconds[0], seconds[1], seconds[2]);
	printf(" \"checksums\": [\"%016" PRIx64 "\", \"%016" PRIx64 "\", \"%016" PRIx64 "\"]\n}\n", sum[0], sum[1], sum[2]);

	if (!synced && etch_release(&sqlite3Config, sizeof sqlite3Config))
		die("etch_release", "failed");
	sqlite3_shutdown();
	return 0;
}
