# Sourced by the benchmarks: a private server on the release build, run as an
# ordinary user in a scratch directory, stopped by its process id at the end.
#
#   bench_main "$@"      re-executes the script as postgres where needed, then
#                        calls the script's own `bench` with the server running
#
# The script sets `settings` (lines for postgresql.conf) before.
set -euo pipefail
export LC_ALL=C

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

sql() { "$bindir/psql" -X -q -A -t -v ON_ERROR_STOP=1 -d "$1" -c "$2"; }

fail() {
	echo "bench: $*" >&2
	grep -E 'PANIC|TRAP:|was terminated by signal' "$work/server.log" | head -n 20 >&2 || true
	exit 1
}

start_server() {
	"$bindir/initdb" -D "$work/data" -A trust -U postgres --encoding=UTF8 --locale=C >"$work/initdb.log" 2>&1 ||
		{ cat "$work/initdb.log" >&2; exit 1; }
	cat >>"$work/data/postgresql.conf" <<-CONF
		listen_addresses = ''
		unix_socket_directories = '$work'
		extension_control_path = '$work/stage/share:\$system'
		dynamic_library_path = '$work/stage/lib:\$libdir'
		shared_preload_libraries = 'leanstore_am'
		$settings
	CONF
	export PGHOST=$work PGUSER=postgres
	"$bindir/pg_ctl" -D "$work/data" -l "$work/server.log" -w -t 120 start >/dev/null ||
		{ tail -n 40 "$work/server.log" >&2; exit 1; }
}

stop_server() {
	"$bindir/pg_ctl" -D "$work/data" -m fast -w -t 120 stop >/dev/null 2>&1 || true
}

# pgbench_server AM SCALE: a new server in place of the one that runs, with pgbench's tables in the database bench.
pgbench_server() {
	stop_server
	rm -rf "$work/data"
	start_server
	"$bindir/createdb" bench
	sql bench 'CREATE EXTENSION leanstore_am'
	PGOPTIONS="-c default_table_access_method=$1" "$bindir/pgbench" -q -i -s "$2" bench 2>"$work/init.log" ||
		{ cat "$work/init.log" >&2; fail "pgbench -i on $1"; }
	checkpoint
}

# Of the server and of the engine.
checkpoint() {
	sql bench 'CHECKPOINT'
	sql bench 'SELECT leanstore_checkpoint()' >/dev/null
}

# Of the numbers in stdin, one in a line.
median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

# Process ids of the running server, the postmaster first.
server_pids() {
	local pid
	pid=$(head -n 1 "$work/data/postmaster.pid")
	echo "$pid"
	ps -o pid= --ppid "$pid"
}

# For the script to replace: when all is over, as who called it.
after_bench() { :; }

bench_main() {
	local pg_config=${PG_CONFIG:-${LEANSTORE_CACHE:-/var/cache/leanstore_am}/pg18-release/bin/pg_config}
	bindir=$("$pg_config" --bindir)
	if [ "${1:-}" = --inside ]; then
		work=$2
		trap stop_server EXIT
		start_server
		bench
		return
	fi
	make --no-print-directory -s -C "$repository" PG_CONFIG="$pg_config" all >/dev/null
	work=$(mktemp -d "${BENCH_DIR:-/tmp}/leanstore_bench.XXXXXX")
	trap 'rm -rf "$work"; after_bench' EXIT
	cp -r "$repository"/build/pg-release/stage "$work/stage"
	cp "$repository/bench/lib.sh" "$0" "$work/"
	mkdir "$work/bench" && mv "$work/lib.sh" "$work/bench/" && mkdir "$work/bench/x" && mv "$work/$(basename "$0")" "$work/bench/x/"
	if [ "$(id -u)" = 0 ]; then
		chown -R postgres "$work"
		runuser -u postgres -- env "PG_CONFIG=$pg_config" "${bench_env[@]}" bash "$work/bench/x/$(basename "$0")" --inside "$work"
	else
		env "${bench_env[@]}" bash "$work/bench/x/$(basename "$0")" --inside "$work"
	fi
}
