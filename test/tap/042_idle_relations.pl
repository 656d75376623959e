# Many more relations than may be open at a time: idle ones are closed and opened again under
# everything that refers to them, also when the server is killed meanwhile.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $MAX = 64;
my $TABLES = 50;    # two files each

my $node = LeanstoreTest->new_node('idle',
	'leanstore.max_open_relations' => $MAX,
	'leanstore.max_wal_size' => '32MB',
	'leanstore.wal_segment_size' => '1MB',
	max_prepared_transactions => 2,
	max_locks_per_transaction => 500,
	autovacuum => 'off');

sub script
{
	my ($name, $text) = @_;
	my $path = PostgreSQL::Test::Utils::tempdir() . "/$name.sql";

	append_to_file($path, $text);
	return $path;
}

sub open_ok
{
	my ($when) = @_;
	my ($open, $max) = split /\|/,
	  $node->safe_psql('postgres', 'SELECT files_open, files_max FROM leanstore_stat_buffer');

	is($max, $MAX, "the view has the setting $when");
	cmp_ok($open, '<=', $MAX, "as many are open $when");
	return;
}

sub closed
{
	return $node->safe_psql('postgres', 'SELECT files_closed FROM leanstore_stat_buffer');
}

# --- Temporary tables of several sessions -----------------------------------

# A heap table has how many rows each should have.  Subtransactions are rolled back, tables dropped.
my $temporary = script('temporary', <<"EOS");
DO \$\$ DECLARE rows int; BEGIN
	SET LOCAL client_min_messages = error;
	CREATE TEMP TABLE IF NOT EXISTS wanted (t int PRIMARY KEY, rows int) USING heap;
	FOR i IN 1 .. $TABLES LOOP
		EXECUTE format('CREATE TEMP TABLE IF NOT EXISTS t%s (id int PRIMARY KEY) USING leanstore',
			i);
		INSERT INTO wanted VALUES (i, 1) ON CONFLICT (t) DO UPDATE SET rows = wanted.rows + 1;
		EXECUTE format('INSERT INTO t%1\$s SELECT count(*) + 1 FROM t%1\$s', i);
	END LOOP;
	BEGIN
		FOR i IN 1 .. $TABLES LOOP
			EXECUTE format('INSERT INTO t%s SELECT generate_series(1000, 1010)', i);
			EXECUTE format('UPDATE t%s SET id = -id', i);
			EXECUTE format('DELETE FROM t%s WHERE id = -1', i);
		END LOOP;
		RAISE division_by_zero;
	EXCEPTION WHEN division_by_zero THEN NULL;
	END;
	FOR i IN 1 .. $TABLES LOOP
		EXECUTE format('SELECT count(*) FROM t%s WHERE id BETWEEN 1 AND 999', i) INTO rows;
		IF rows IS DISTINCT FROM (SELECT w.rows FROM wanted w WHERE t = i) THEN
			RAISE 'table % has % rows', i, rows;
		END IF;
		IF random() < 0.2 THEN
			EXECUTE format('DROP TABLE t%s', i);
			DELETE FROM wanted WHERE t = i;
		END IF;
	END LOOP;
END \$\$
EOS
like($node->run_pgbench('postgres', qw(-c 4 -j 2 -t 6 -f), $temporary),
	qr/processed: 24\/24/, 'temporary tables of four sessions');
cmp_ok(closed(), '>', 4 * $TABLES, 'relations were closed');
open_ok('with temporary tables');

# --- Killed in the middle ---------------------------------------------------

$node->safe_psql('postgres', qq{
	CREATE TABLE ledger (t int, k int, v int, PRIMARY KEY (t, k)) USING leanstore;
	DO \$\$ BEGIN FOR i IN 1 .. $TABLES LOOP
		EXECUTE format('CREATE TABLE p%s (k serial PRIMARY KEY, v int) USING leanstore', i);
		EXECUTE format('INSERT INTO p%s (v) SELECT 0 FROM generate_series(1, 5)', i);
	END LOOP; END \$\$;
	CREATE UNLOGGED TABLE u (k int) USING leanstore; INSERT INTO u VALUES (1)});

sub in_all
{
	my ($statement) = @_;
	return "DO \$\$ BEGIN FOR i IN 1 .. $TABLES LOOP
		EXECUTE format('$statement', i); END LOOP; END \$\$";
}

# What a query says of the tables, one after the other: a query uses all its relations at once.
sub of_each
{
	my ($query, @tables) = @_;
	my %said;

	@tables = 1 .. $TABLES unless @tables;
	$said{$_} = 1 foreach split /\n/,
	  $node->safe_psql('postgres', join ";\n", map { sprintf $query, $_ } @tables);
	return join ' ', sort keys %said;
}

# Two tables and the ledger in a transaction; some are rolled back.
my $permanent = script('permanent', <<"EOS");
\\set a random(1, $TABLES)
\\set b random(1, $TABLES)
BEGIN;
WITH n AS (INSERT INTO p:a (v) VALUES (:b) RETURNING k)
	INSERT INTO ledger SELECT :a, k, :b FROM n;
WITH n AS (INSERT INTO p:b (v) VALUES (:a) RETURNING k)
	INSERT INTO ledger SELECT :b, k, :a FROM n;
\\set end random(1, 4)
\\if :end = 1
ROLLBACK;
\\else
COMMIT;
\\endif
EOS

sub rows_ok
{
	my ($when) = @_;

	is(of_each(q{
		SELECT count(*) FROM (
			(SELECT %1$s, k, v FROM p%1$s WHERE k > 5
				EXCEPT SELECT t, k, v FROM ledger WHERE t = %1$s)
			UNION ALL
			(SELECT t, k, v FROM ledger WHERE t = %1$s
				EXCEPT SELECT %1$s, k, v FROM p%1$s)) d}),
		0, "tables and ledger agree $when");
	is(of_each('SELECT count(*) FROM p%s WHERE k <= 5'), 5,
		"what was not committed is gone $when");
	return;
}

foreach my $kind (qw(all engine_worker postmaster))
{
	my $loser = $node->background_psql('postgres', on_error_stop => 0);
	my $prepared = $node->background_psql('postgres', on_error_stop => 0);
	my $before = closed();

	$loser->query_safe('BEGIN; ' . in_all('DELETE FROM p%s WHERE k = 1'));
	$loser->query_safe(in_all('UPDATE p%s SET k = -k WHERE k = 2'));
	$prepared->query_safe('BEGIN; ' . in_all('UPDATE p%1$s SET v = v + 1 WHERE k = 3')
		  . "; PREPARE TRANSACTION 'p'");
	my $run = $node->start_pgbench('postgres', qw(-c 4 -j 2 -T 60 -f), $permanent);
	$node->poll_query_until('postgres',
		"SELECT files_closed > $before + 200 FROM leanstore_stat_buffer") or die 'none are closed';
	$node->safe_psql('postgres', 'SELECT leanstore_checkpoint()') if $kind ne 'all';
	if ($kind eq 'engine_worker')
	{
		$node->kill9_process($node->engine_worker_pid);
	}
	else
	{
		CrashDriver::kill_server($node, $kind);
		$node->start;
	}
	$node->finish_pgbench($run);
	eval { $_->quit } foreach $loser, $prepared;
	$node->safe_psql('postgres', "COMMIT PREPARED 'p'");
	rows_ok("after $kind");
	open_ok("after $kind");
	$node->leanstore_check_ok("after $kind");
}
is(of_each('SELECT v FROM p%s WHERE k = 3'), 3, 'prepared transactions were kept');
is($node->safe_psql('postgres', 'SELECT count(*) FROM u'), 0, 'the unlogged table is empty');

# --- A clean restart, unlogged rows, drops of what is closed ----------------

my $before = closed();
$node->safe_psql('postgres', 'INSERT INTO u SELECT generate_series(1, 1000)');
$node->safe_psql('postgres', in_all('SELECT count(*) FROM p%s'));
cmp_ok(closed(), '>', $before, 'relations were closed');
$node->restart;
is($node->safe_psql('postgres', 'SELECT sum(k) FROM u'), 500500, 'unlogged rows of a closed file');
rows_ok('after a clean restart');
$node->safe_psql('postgres', "DROP TABLE p$_") foreach grep { $_ % 2 } 1 .. $TABLES;
$node->safe_psql('postgres', "TRUNCATE p$_") foreach grep { $_ % 2 == 0 } 1 .. $TABLES;
is(of_each('SELECT count(*) FROM p%s', grep { $_ % 2 == 0 } 1 .. $TABLES),
	0, 'truncated tables are empty');

# --- All in use, and a wait for a place --------------------------------------

my $session = $node->background_psql('postgres');
my $pid = $session->query_safe('SELECT pg_backend_pid()');
$session->query_safe('SET client_min_messages = warning; '
	  . in_all('CREATE TABLE IF NOT EXISTS p%s (k int PRIMARY KEY, v int) USING leanstore'));
$session->query_safe(in_all('CREATE TABLE q%s (k int) USING leanstore'));
$session->query_safe(in_all('INSERT INTO q%s VALUES (1), (2)'));
$session->query_safe(in_all('INSERT INTO p%s VALUES (1), (2)'));

# A cursor keeps its table open.
my ($status, $out, $error) = $node->psql('postgres', q{
	\set VERBOSITY verbose
	BEGIN;
	} . join('', map { "UPDATE q$_ SET k = 0; " } 1 .. $TABLES)
	  . join('', map { "DECLARE c$_ CURSOR FOR SELECT FROM q$_; FETCH c$_; " } 1 .. $TABLES)
	  . join('', map { "DECLARE d$_ CURSOR FOR SELECT FROM p$_; FETCH d$_; " } 1 .. $TABLES),
	on_error_stop => 1);
is($status, 3, 'a session that uses too many at a time has an error');
like($error,
	qr/53400: .*\d+ of at most $MAX relations are open, \d+ of them in use \(leanstore.max_open_/,
	'which names the setting');
like($error, qr/HINT:  End queries and cursors .* or increase "leanstore.max_open_relations"/,
	'and says what to do');
is(of_each('SELECT sum(k) FROM q%s'), 3, 'others work, and its changes are undone');

# None is closed while the engine worker stands.
my $watcher = $node->background_psql('postgres');
my $worker = $node->engine_worker_pid;
my $seen = 0;
kill 'STOP', $worker or die "cannot stop the engine worker: $!";
$session->query_until(qr/started/,
	"\\echo started\n" . join('', map { "SELECT count(*) FROM p$_;\n" } 1 .. $TABLES));
foreach (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
{
	$seen = $watcher->query_safe("SELECT count(*) FROM pg_stat_activity
		WHERE pid = $pid AND wait_event = 'LeanstoreOpenRelation'");
	last if $seen;
}
kill 'CONT', $worker;
is($seen, 1, 'who waits for a place is seen');
$session->query_safe('SELECT 1');
$_->quit foreach $session, $watcher;
$node->leanstore_check_ok('at the end');
$node->stop;

done_testing();
