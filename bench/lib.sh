# Sourced by the benchmarks: a private server on the release build, run as an
# ordinary user in a scratch directory, stopped by its process id at the end.
#
#   bench_main "$@"      re-executes the script as postgres where needed, then
#                        calls the script's own `bench` with the server running
#
# The script sets `settings` (lines for postgresql.conf) before, and `servers` (names)
# where it compares servers with each other: then `turn NAME` says whose turn it is.
set -euo pipefail
export LC_ALL=C
servers=${servers:-.}

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

sql() { "$bindir/psql" -X -q -A -t -v ON_ERROR_STOP=1 -d "$1" -c "$2"; }

fail() {
	echo "bench: $*" >&2
	grep -E 'PANIC|TRAP:|was terminated by signal' "$work/server.log" | head -n 20 >&2 || true
	exit 1
}

# Where the server is that the functions are about, and whose socket clients find.
use_server() {
	home=$work/$1
	export PGHOST=$home PGUSER=postgres
}

start_server() {
	"$bindir/initdb" -D "$home/data" -A trust -U postgres --encoding=UTF8 --locale=C >"$work/initdb.log" 2>&1 ||
		{ cat "$work/initdb.log" >&2; exit 1; }
	cat >>"$home/data/postgresql.conf" <<-CONF
		listen_addresses = ''
		unix_socket_directories = '$home'
		extension_control_path = '$work/stage/share:\$system'
		dynamic_library_path = '$work/stage/lib:\$libdir'
		shared_preload_libraries = 'leanstore_am'
		$settings
	CONF
	"$bindir/pg_ctl" -D "$home/data" -l "$work/server.log" -w -t 120 start >/dev/null ||
		{ tail -n 40 "$work/server.log" >&2; exit 1; }
}

stop_server() {
	"$bindir/pg_ctl" -D "$home/data" -m fast -w -t 120 stop >/dev/null 2>&1 || true
}

# To the postmaster before its children are looked for: it starts nobody then.  One of them may end in between.
signal_server() {
	local pid
	pid=$(server_pid) || return 0
	kill "-$1" "$pid" 2>/dev/null || true
	child_pids "$pid" | xargs -r kill "-$1" 2>/dev/null || true
}

# turn NAME: this server goes on, the others stand still until it is theirs.  So each does its own vacuuming, analysing and writing
# of pages in its own time.
turn() {
	local name
	for name in $servers; do
		use_server "$name"
		if [ "$name" = "$1" ]; then signal_server CONT; else signal_server STOP; fi
	done
	use_server "$1"
}

# own_database AM: on its turn, in the server of that name, a database of that name whose tables are of that kind.
own_database() {
	turn "$1"
	"$bindir/createdb" "$1"
	sql "$1" 'CREATE EXTENSION leanstore_am'
	sql "$1" "ALTER DATABASE \"$1\" SET default_table_access_method = '$1'"
}

start_servers() {
	local name
	for name in $servers; do
		use_server "$name"
		mkdir -p -m 700 "$home"
		start_server
	done
}

stop_servers() {
	local name
	for name in $servers; do
		use_server "$name"
		signal_server CONT
		stop_server
	done
}

# pgbench_server AM SCALE: a new server in place of the one that runs, with pgbench's tables in the database bench.
pgbench_server() {
	stop_server
	rm -rf "$home/data"
	start_server
	"$bindir/createdb" bench
	sql bench 'CREATE EXTENSION leanstore_am'
	PGOPTIONS="-c default_table_access_method=$1" "$bindir/pgbench" -q -i -s "$2" bench 2>"$work/init.log" ||
		{ cat "$work/init.log" >&2; fail "pgbench -i on $1"; }
	checkpoint bench
}

# checkpoint DATABASE: of the server and of the engine.
checkpoint() {
	sql "$1" CHECKPOINT
	sql "$1" 'SELECT leanstore_checkpoint()' >/dev/null
}

# Of the numbers in stdin, one in a line.
median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

# The postmaster's process id, if it runs; and those of the processes it has started.
server_pid() { head -n 1 "$home/data/postmaster.pid" 2>/dev/null; }
child_pids() { ps -o pid= --ppid "$1"; }

# For the script to replace: when all is over, as who called it; $work is still there.
after_bench() { :; }

end_bench() {
	if [ -n "$child" ]; then
		kill -TERM "$child" 2>/dev/null || true
		wait "$child" 2>/dev/null || true
	fi
	after_bench
	rm -rf "$work"
}

bench_main() {
	local pg_config=${PG_CONFIG:-${LEANSTORE_CACHE:-/var/cache/leanstore_am}/pg18-release/bin/pg_config} status=0
	local -a command
	bindir=$("$pg_config" --bindir)
	unset PGHOST PGPORT PGDATABASE PGDATA PGOPTIONS PGSERVICE
	trap 'exit 130' INT TERM HUP
	if [ "${1:-}" = --inside ]; then
		work=$2
		trap stop_servers EXIT
		start_servers
		bench
		return
	fi
	make --no-print-directory -s -C "$repository" PG_CONFIG="$pg_config" all >/dev/null
	work=$(mktemp -d "${BENCH_DIR:-/tmp}/leanstore_bench.XXXXXX")
	child=""
	trap end_bench EXIT
	cp -r "$repository"/build/pg-release/stage "$work/stage"
	cp "$repository/bench/lib.sh" "$0" "$work/"
	mkdir "$work/bench" && mv "$work/lib.sh" "$work/bench/" && mkdir "$work/bench/x" && mv "$work/$(basename "$0")" "$work/bench/x/"
	command=(env "PG_CONFIG=$pg_config" "${bench_env[@]}" bash "$work/bench/x/$(basename "$0")" --inside "$work")
	if [ "$(id -u)" = 0 ]; then
		chown -R postgres "$work"
		command=(runuser -u postgres -- "${command[@]}")
	fi
	"${command[@]}" </dev/null &
	child=$!
	wait "$child" || status=$?
	child=""
	return "$status"
}
