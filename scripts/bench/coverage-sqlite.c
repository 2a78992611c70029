/* SPDX-License-Identifier: MIT */
/* SQLite at work, for `scripts/bench/run load`: a table in memory, N rows, as many look-ups. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;
int sqlite3_initialize(void), sqlite3_open(const char *, sqlite3 **), sqlite3_close(sqlite3 *);
int sqlite3_exec(sqlite3 *, const char *, void *, void *, char **);
int sqlite3_prepare_v2(sqlite3 *, const char *, int, sqlite3_stmt **, const char **);
int sqlite3_bind_int(sqlite3_stmt *, int, int), sqlite3_step(sqlite3_stmt *), sqlite3_reset(sqlite3_stmt *);
int sqlite3_finalize(sqlite3_stmt *);

#ifdef HOOKED
void etch_up(void);
#else
/* Says that the program is up, and waits until it is armed. */
static void arm(const char *path)
{
	char c;
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, "x", 1) != 1 || close(fd))
		exit(3);
	fd = open(getenv("ETCH_DONE"), O_RDONLY);
	if (fd < 0 || read(fd, &c, 1) != 1)
		exit(4);
	close(fd);
}
#endif

static int times(sqlite3 *db, const char *sql, int n)
{
	sqlite3_stmt *s;
	int err = sqlite3_prepare_v2(db, sql, -1, &s, 0);

	for (int i = 0; i < n && !err; i++) {
		sqlite3_bind_int(s, 1, i);
		while (sqlite3_step(s) == 100)
			;
		err = sqlite3_reset(s);
	}
	return err | sqlite3_finalize(s);
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 10, err = sqlite3_initialize();
	sqlite3 *db;

#ifdef HOOKED
	etch_up();
#else
	if (getenv("ETCH_ARM"))
		arm(getenv("ETCH_ARM"));
#endif
	err |= sqlite3_open(":memory:", &db);
	err |= sqlite3_exec(db, "create table t(k integer primary key, v text); create index i on t(v)", 0, 0, 0);
	err |= times(db, "insert into t(k, v) values(?1, 'value ' || (?1 * 7919 % 1000))", n);
	err |= times(db, "select v, length(v) from t where k = ?1", n);
	err |= times(db, "select count(*) from t where v = 'value ' || ?1", n);
	return err | sqlite3_close(db);
}
