# Tables that another store has written are taken over: leanstore_adopt().  After a clean stop of
# that store every row is there as it was, once, with all indexes; what fails on the way,
# damage, a duplicate key or kill -9, leaves the old file as it was and nothing else.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use Digest::MD5;
use File::Copy;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use SealedPage;
use Test::More;

my $node = LeanstoreTest->new_node('adopt', autovacuum => 'off',
	max_prepared_transactions => 2);
my $store = $node->data_dir . '/leanstore';

# (SQLSTATE or "ok", everything psql said)
sub outcome
{
	my ($query) = @_;
	my ($status, $out, $error) = $node->psql('postgres', "\\set VERBOSITY verbose\n$query");

	return ('ok', $out) if $status == 0 && $error !~ /ERROR/;
	return ($error =~ /ERROR:  (\w{5})/ ? $1 : 'none', $error);
}

sub state_is
{
	my ($query, $state, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($got, $text) = outcome($query);

	is($got, $state, $name) || diag($text);
	return $text;
}

# All rows of a table, in one line.
sub rows_of
{
	my ($table) = @_;

	return $node->safe_psql('postgres',
		"SELECT count(*), md5(string_agg(t::text, E'\\n' ORDER BY id)) FROM $table t");
}

sub file_of
{
	my ($table) = @_;

	return $node->data_dir . '/'
	  . $node->safe_psql('postgres', "SELECT pg_relation_filepath('$table')");
}

sub digest
{
	my ($path) = @_;

	open(my $file, '<:raw', $path) or die "cannot open $path: $!";
	return Digest::MD5->new->addfile($file)->hexdigest;
}

# --- What another store has written ------------------------------------------------
$node->safe_psql('postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, k int UNIQUE, v text, big text, n int, gone int)
		USING leanstore;
	CREATE INDEX t_v ON t (v);
	CREATE INDEX t_expression ON t (lower(v)) WHERE id % 2 = 0;
	CREATE INDEX t_btree ON t USING btree (n);
	CREATE INDEX t_brin ON t USING brin (id);
	CREATE FUNCTION large(i int, salt text) RETURNS text LANGUAGE sql AS
	$$ SELECT string_agg(md5(i || salt || j), '') FROM generate_series(1, 200) j $$;
	INSERT INTO t SELECT i, -i, 'V' || i, CASE WHEN i % 50 = 0 THEN large(i, 'a') END, 0, i
		FROM generate_series(1, 6000) i;
	UPDATE t SET n = n + 1 WHERE id % 3 = 0;
	UPDATE t SET id = id + 100000, k = k - 100000 WHERE id % 7 = 0;
	UPDATE t SET big = large(id, 'b') WHERE id % 100 = 0;
	DELETE FROM t WHERE id % 11 = 0;
	ALTER TABLE t DROP gone, ADD later int DEFAULT 42;
	INSERT INTO t SELECT i, -i, 'V' || i, repeat('x', i), 0, i FROM generate_series(7001, 7100) i;
	BEGIN;
	DELETE FROM t WHERE id % 5 = 0;
	INSERT INTO t SELECT i, -i FROM generate_series(8001, 9000) i;
	UPDATE t SET id = id + 500000 WHERE id % 5 = 1;
	ROLLBACK;
	CREATE MATERIALIZED VIEW view USING leanstore AS SELECT id, v FROM t WHERE id < 500;
	CREATE UNIQUE INDEX ON view (id);
	CREATE TABLE unused (id int PRIMARY KEY) USING leanstore;
	CREATE TABLE empty (id int PRIMARY KEY) USING leanstore;
	BEGIN; INSERT INTO empty VALUES (1); ROLLBACK;
	CREATE TABLE damaged (id int PRIMARY KEY, v text) USING leanstore;
	INSERT INTO damaged SELECT i, repeat('d', 300) FROM generate_series(1, 3000) i;
	CREATE TABLE twice (id int, v text) USING leanstore;
	INSERT INTO twice SELECT i / 2, 'twice' FROM generate_series(1, 400) i;
	CREATE TABLE once (id int PRIMARY KEY, v text) USING leanstore;
	INSERT INTO once VALUES (1, 'once');
	-- Building its index waits for whoever has the lock.
	CREATE FUNCTION waits(id int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
	$$ BEGIN PERFORM pg_advisory_xact_lock_shared(43); RETURN id; END $$;
	CREATE TABLE slow (id int, v text) USING leanstore;
	CREATE INDEX ON slow (waits(id));
	INSERT INTO slow SELECT i, 's' FROM generate_series(1, 3000) i;
	CREATE UNLOGGED TABLE unlogged (id int) USING leanstore;
	CREATE TABLE narrow (id int) USING leanstore;
	INSERT INTO narrow VALUES (1);
	CREATE TABLE prepared (id int PRIMARY KEY) USING leanstore;
	INSERT INTO prepared VALUES (1);
	CREATE TABLE parts (id int) PARTITION BY RANGE (id) USING leanstore;
	CREATE TABLE on_heap (id int) USING heap;
	CREATE USER plain});
$node->safe_psql('postgres', q{BEGIN; INSERT INTO prepared VALUES (2); PREPARE TRANSACTION 'p'});
my %rows = map { $_ => rows_of($_) } qw(t view damaged slow);
$node->stop('fast');
rename $store, "$store.lost" or die "cannot rename $store: $!";
$node->start;
my %file = map { $_ => file_of($_) } qw(t view damaged slow twice once narrow);
my %digest = map { $_ => digest($file{$_}) } keys %file;

# The table is refused as before, and its file has not changed.
sub as_it_was
{
	my ($table, $when) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	state_is("SELECT count(*) FROM $table", '55000', "$when: still another store's");
	is(file_of($table), $file{$table}, "$when: in its file");
	is(digest($file{$table}), $digest{$table}, "$when: which is as it was");
	return;
}

like(state_is('SELECT count(*) FROM t', '55000', 'a table of another store is refused'),
	qr/HINT: .*leanstore_adopt\(\)/, 'with a hint that names the function');

# --- Refusals ------------------------------------------------------------------------
state_is(q{SET ROLE plain; SELECT leanstore_adopt('t')}, '42501', 'a plain user is refused');
state_is(q{GRANT EXECUTE ON FUNCTION leanstore_adopt TO plain; SET ROLE plain;
	SELECT leanstore_adopt('t')}, '42501', 'also one that may call the function');
foreach my $what (qw(on_heap t_v t_btree parts unlogged pg_class))
{
	state_is("SELECT leanstore_adopt('$what')", '42809', "$what is no such table");
}
state_is(q{SET default_transaction_read_only = on; SELECT leanstore_adopt('t')}, '25006',
	'a transaction that only reads is refused');
state_is(q{INSERT INTO t (id) SELECT leanstore_adopt('t')}, '55006',
	'a statement that uses the table is refused');
state_is(q{CREATE TABLE new (id int) USING leanstore; INSERT INTO new VALUES (1)}, 'ok',
	'new tables work');
like(state_is(q{SELECT leanstore_adopt('new')}, '55000', 'but have nothing to adopt'),
	qr/belongs to this store/, 'for they are of this store');
as_it_was('t', 'after refusals');

# --- Rolled back, killed ---------------------------------------------------------------
state_is(q{BEGIN; SELECT leanstore_adopt('t'); SELECT 1 / count(*) FROM t; ROLLBACK}, 'ok',
	'the rows are there within the transaction');
as_it_was('t', 'rolled back');

my $holder = $node->background_psql('postgres');
$holder->query_safe('SELECT pg_advisory_lock(43)');
my $adopts = $node->background_psql('postgres', on_error_stop => 0);
$adopts->query_until(qr/started/, "\\echo started\nSELECT leanstore_adopt('slow');\n");
$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_locks
	WHERE locktype = 'advisory' AND NOT granted}) or die 'nobody waits';
$node->safe_psql('postgres', 'SELECT leanstore_checkpoint()');
CrashDriver::kill_server($node, 'all');
eval { $_->quit } foreach $holder, $adopts;
$node->start;
as_it_was('slow', 'killed on the way');
is((outcome(q{SELECT leanstore_adopt('slow')}))[1], 3000, 'afterwards it is adopted');
is(rows_of('slow'), $rows{slow}, 'as it was');

# --- Adopted ---------------------------------------------------------------------------
my $count = $rows{t} =~ s/\|.*//sr;
is((outcome(q{SELECT leanstore_adopt('t')}))[1], $count, 'a table is adopted');
is(rows_of('t'), $rows{t}, 'every row is there, once, with its large values');
is((outcome(q{SELECT leanstore_adopt('view')}))[1], $rows{view} =~ s/\|.*//sr, 'a view is');
is(rows_of('view'), $rows{view}, 'with its rows');
is((outcome(q{SELECT leanstore_adopt('empty')}))[1], 0, 'so is an empty table');
is((outcome('SELECT count(*) FROM unused'))[1], 0, 'one that was never used can be read');
like(state_is(q{SELECT leanstore_adopt('t')}, '55000', 'not a second time'),
	qr/belongs to this store/, 'for it is of this store now');
foreach my $table (qw(t view empty slow))
{
	state_is("SELECT leanstore_check('$table')", 'ok', "leanstore_check finds no fault in $table");
}
ok(!-s $file{t}, 'the old file has gone');
my $by_index = q{SET enable_seqscan = off; SET enable_bitmapscan = off;
	SELECT id, n, later, length(big) FROM t WHERE};
is((outcome("$by_index k = -100007"))[1], '100007|0|42|', 'a moved row is found by its key');
is((outcome("$by_index v = 'V300'"))[1], '300|1|42|6400', 'one with a large value by its index');
state_is(q{INSERT INTO t VALUES (100007)}, '23505', 'the primary key holds');
state_is(q{INSERT INTO t SELECT i, -i, 'new' FROM generate_series(20001, 20100) i;
	DELETE FROM t WHERE v = 'new'; UPDATE t SET n = n; REFRESH MATERIALIZED VIEW view}, 'ok',
	'it is written as any other');

# --- Damage, and a duplicate key ------------------------------------------------------------
my $page = 100;
my $COUNT = 26;    # where a node says how many entries it has
my $before = SealedPage::overwrite($file{damaged}, $page, $COUNT, pack 'v', 0x7fff);
$digest{damaged} = digest($file{damaged});
my $relative = $file{damaged} =~ s/.*(?=base\/)//r;
my $text = state_is(q{SELECT leanstore_adopt('damaged')}, 'XX001', 'a damaged page is an error');
like($text, qr/leanstore relation "damaged"/, 'which names the relation');
like($text, qr/File "\Q$relative\E", page $page \(/, 'and file and page');
as_it_was('damaged', 'after damage was met');
SealedPage::overwrite($file{damaged}, $page, $COUNT, $before);
is((outcome(q{SELECT leanstore_adopt('damaged')}))[1], 3000, 'with the page as it was it is not');
is(rows_of('damaged'), $rows{damaged}, 'with all rows');

copy($file{twice}, $file{once}) or die "cannot copy: $!";
$digest{once} = digest($file{once});
state_is(q{SELECT leanstore_adopt('once')}, '23505', 'duplicate keys are found');
as_it_was('once', 'after duplicate keys');
is((outcome(q{ALTER TABLE once DROP CONSTRAINT once_pkey; SELECT leanstore_adopt('once')}))[1], 400,
	'without the key they are adopted');

copy($file{twice}, $file{narrow}) or die "cannot copy: $!";
$digest{narrow} = digest($file{narrow});
like(state_is(q{SELECT leanstore_adopt('narrow')}, 'XX001', 'rows of another table are damage'),
	qr/2 attributes/, 'as far as they tell');
as_it_was('narrow', 'after rows of another table');

# What would undo it is lost.
state_is(q{ROLLBACK PREPARED 'p'}, 'ok', 'a transaction that was prepared in the other store ends');
is((outcome(q{SELECT leanstore_adopt('prepared')}))[1], 2, 'its changes count as made');

# --- It lasts ----------------------------------------------------------------------------------
CrashDriver::kill_server($node, 'all');
$node->start;
is(rows_of('t'), $rows{t}, 'after a crash every row is there');
is(rows_of('damaged'), $rows{damaged}, 'in the other table, too');
state_is(q{DROP TABLE twice, narrow, unlogged}, 'ok', 'what is not wanted is dropped');
$node->leanstore_check_ok('after a crash');

# --- After a crash of the other store -------------------------------------------------------
# What its log would have told is gone: rows of a transaction that had not ended are there.
my $open = $node->background_psql('postgres');
$open->query_safe(q{BEGIN; INSERT INTO empty VALUES (1), (2)});
$node->safe_psql('postgres', 'SELECT leanstore_checkpoint(); CHECKPOINT');
$node->safe_psql('postgres', q{CREATE TABLE claimed (id int PRIMARY KEY) USING leanstore;
	INSERT INTO claimed VALUES (1)});
CrashDriver::kill_server($node, 'all');
eval { $open->quit };
rename $store, "$store.crashed" or die "cannot rename $store: $!";
$node->start;
is((outcome(q{SELECT leanstore_adopt('empty')}))[1], 2, 'after a crash the rows that were written');
is((outcome('SELECT count(*) FROM empty'))[1], 2, 'are adopted, also uncommitted ones');
state_is(q{SELECT leanstore_check('empty')}, 'ok', 'and the table is sound');
like(state_is(q{SELECT leanstore_adopt('claimed')}, '55000', 'what was in the log only is lost'),
	qr/in the log of its store only.*HINT: .*TRUNCATE/s, 'and the error says so');
state_is(q{TRUNCATE claimed; INSERT INTO claimed VALUES (2)}, 'ok', 'emptied it can be used');
$node->stop;
done_testing();
