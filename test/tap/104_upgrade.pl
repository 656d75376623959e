# pg_upgrade keeps leanstore tables: rows, large values, indexes of all kinds, in all modes and with
# both logs, also when the log changes on the way.  The new cluster's first writes survive kill -9.
# What cannot be taken over is refused: by the old server while pg_upgrade checks, by the new one
# before anything of the old cluster is touched.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use DocumentedCommands;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $installation = LeanstoreTest::installation();
my @documented = DocumentedCommands::of('docs/operations.md', 'pg_upgrade');

# --- What is upgraded ------------------------------------------------------------

my @tables = qw(plain by_btree parted part_2 loose seen moods pairs words older shapes wide child
	emptied untouched on_heap);

my $schema = q{
	CREATE EXTENSION leanstore_am;
	CREATE EXTENSION citext;
	CREATE COLLATION lower_c (provider = libc, locale = 'C.utf8');
	SET default_table_access_method = leanstore;

	CREATE TABLE plain (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, gone text, n numeric,
		v text, big bytea, d date DEFAULT '2020-02-02', UNIQUE (n, id));
	CREATE INDEX plain_v ON plain (v DESC, n) INCLUDE (d);
	CREATE INDEX plain_expression ON plain ((lower(v))) WHERE id % 3 = 0;
	CREATE INDEX plain_hash ON plain USING hash (v);
	CREATE INDEX plain_brin ON plain USING brin (id);
	CREATE INDEX plain_btree ON plain USING btree (v, id);
	INSERT INTO plain (gone, n, v, big) SELECT 'gone', i % 97, 'v' || i,
		CASE WHEN i % 50 = 0 THEN convert_to(repeat(md5(i::text), 100 * (1 + i % 150)), 'UTF8')
			 WHEN i % 50 = 1 THEN convert_to(repeat('the same ', 2000), 'UTF8') END
		FROM generate_series(1, 3000) i;
	ALTER TABLE plain DROP COLUMN gone;
	ALTER TABLE plain ADD COLUMN later text DEFAULT 'came later';
	UPDATE plain SET v = v || '+', later = NULL WHERE id % 7 = 0;
	DELETE FROM plain WHERE id % 11 = 0;

	SET leanstore.default_index = btree;
	CREATE TABLE by_btree (id int PRIMARY KEY, v text UNIQUE);
	SET leanstore.default_index = leanstore;
	INSERT INTO by_btree SELECT i, i::text FROM generate_series(1, 500) i;

	CREATE TABLE parted (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
	CREATE TABLE part_1 PARTITION OF parted FOR VALUES FROM (0) TO (500);
	CREATE TABLE part_2 PARTITION OF parted FOR VALUES FROM (500) TO (1000);
	CREATE INDEX ON parted (v);
	INSERT INTO parted SELECT i, md5(i::text) FROM generate_series(1, 999) i;

	CREATE UNLOGGED TABLE loose (id int PRIMARY KEY, v text);
	INSERT INTO loose SELECT i, repeat('u', i) FROM generate_series(1, 300) i;
	CREATE MATERIALIZED VIEW seen AS SELECT id, v FROM plain WHERE id < 100;
	CREATE UNIQUE INDEX ON seen (id);

	CREATE TYPE mood AS ENUM ('bad', 'good');
	ALTER TYPE mood ADD VALUE 'so-so' AFTER 'bad';
	ALTER TYPE mood ADD VALUE 'poor' AFTER 'bad';
	ALTER TYPE mood ADD VALUE 'worst' BEFORE 'bad';
	CREATE TYPE moody AS (m mood, n int);
	CREATE TABLE moods (id int PRIMARY KEY, m mood, a mood[], c moody);
	CREATE INDEX ON moods (m);
	CREATE INDEX ON moods (a);
	CREATE INDEX ON moods (c);
	INSERT INTO moods SELECT i, m, ARRAY[m, 'bad'], ROW(m, i)::moody FROM generate_series(1, 200) i,
		LATERAL (SELECT (enum_range(NULL::mood))[1 + i % 5] AS m) x;

	CREATE TABLE words (id int PRIMARY KEY, c citext UNIQUE, l text COLLATE lower_c,
		i text COLLATE "en-x-icu", k text);
	CREATE INDEX ON words (l);
	CREATE INDEX ON words (i);
	CREATE INDEX ON words (k);
	INSERT INTO words SELECT i, 'Word' || i, chr(97 + i % 26) || i, chr(65 + i % 26) || i,
		repeat('long ', 50 + i) || i FROM generate_series(1, 200) i;

	CREATE TABLE shapes (id int PRIMARY KEY, p point, j jsonb, r int4range,
		EXCLUDE USING gist (r WITH &&), EXCLUDE USING leanstore (id WITH =));
	CREATE INDEX ON shapes USING gin (j);
	CREATE INDEX ON shapes USING gist (p);
	CREATE INDEX ON shapes (j);
	INSERT INTO shapes SELECT i, point(i, -i), jsonb_build_object('k', i % 10),
		int4range(10 * i, 10 * i + 5) FROM generate_series(1, 300) i;

	DO $$ BEGIN EXECUTE format('CREATE TABLE wide (id int PRIMARY KEY, %s)',
		(SELECT string_agg(format('c%s int8', i), ', ') FROM generate_series(1, 600) i)); END $$;
	INSERT INTO wide (id, c1, c300, c600) SELECT i, i, i, i FROM generate_series(1, 50) i;
	DO $$ BEGIN EXECUTE format('UPDATE wide SET %s',
		(SELECT string_agg(format('c%s = id * %s', i, i), ', ') FROM generate_series(1, 600) i));
	END $$;

	CREATE TABLE child (id int REFERENCES plain ON DELETE CASCADE, n serial);
	INSERT INTO child SELECT id FROM plain WHERE id % 5 = 0;
	CREATE TABLE emptied (id int PRIMARY KEY, v text);
	INSERT INTO emptied SELECT i, repeat('e', 10000) FROM generate_series(1, 100) i;
	TRUNCATE emptied;
	CREATE TABLE untouched (id int PRIMARY KEY, v text);
	CREATE TABLE on_heap USING heap AS SELECT id, v FROM plain;
	SELECT nextval('plain_id_seq')};

# An order of a user's, which a range needs: a dump has the class before access methods.
my $pairs = q{
	SET default_table_access_method = leanstore;
	CREATE TYPE pair AS (a int, b int);
	CREATE FUNCTION pair_cmp(pair, pair) RETURNS int IMMUTABLE LANGUAGE sql
		RETURN sign(($1).b - ($2).b);
	DO $$ DECLARE o text; f text; BEGIN
		FOR f, o IN VALUES ('lt', '<'), ('le', '<='), ('eq', '='), ('ge', '>='), ('gt', '>') LOOP
			EXECUTE format('CREATE FUNCTION pair_%s(pair, pair) RETURNS bool IMMUTABLE
				LANGUAGE sql RETURN ($1).b %s ($2).b', f, o);
			EXECUTE format('CREATE OPERATOR #%s (FUNCTION = pair_%s, LEFTARG = pair,
				RIGHTARG = pair)', o, f);
		END LOOP;
	END $$;
	CREATE OPERATOR CLASS pair_ops DEFAULT FOR TYPE pair USING btree AS OPERATOR 1 #<,
		OPERATOR 2 #<=, OPERATOR 3 #=, OPERATOR 4 #>=, OPERATOR 5 #>,
		FUNCTION 1 pair_cmp(pair, pair);
	CREATE TYPE pair_range AS RANGE (subtype = pair, subtype_opclass = pair_ops);
	CREATE TABLE pairs (id int PRIMARY KEY, p pair, r pair_range);
	CREATE INDEX ON pairs (p);
	CREATE INDEX ON pairs (r);
	INSERT INTO pairs SELECT i, (i, 1000 - i)::pair, pair_range((0, i)::pair, (0, i + 5)::pair)
		FROM generate_series(1, 200) i;
};

# Strings were ordered by labels once: an index that was built then.
my $older = q{
	CREATE TABLE older (id int PRIMARY KEY, v text COLLATE lower_c) USING leanstore;
	CREATE INDEX older_v ON older (v);
	UPDATE pg_index SET indoption = '0' WHERE indexrelid = 'older_v'::regclass;
	INSERT INTO older SELECT i, md5(i::text) FROM generate_series(1, 500) i};

sub make_cluster
{
	my ($name, $log, %settings) = @_;
	my $node = LeanstoreTest->prepare_node($name, install_path => $installation,
		autovacuum => 'off', 'leanstore.log' => $log,
		# what a dump names a btree index stays one
		'leanstore.replace_btree' => 'on', %settings);
	return $node;
}

# Has a crash, and a transaction before it that was rolled back, in its past.
sub fill
{
	my ($node) = @_;

	$node->start;
	$node->safe_psql('postgres', 'CREATE DATABASE other');
	foreach my $database ('postgres', 'other')
	{
		$node->safe_psql($database, "SET leanstore.replace_btree = off; $schema");
		$node->safe_psql($database, $pairs . $older);
	}
	$node->safe_psql('postgres', 'BEGIN; DELETE FROM plain; ROLLBACK');
	CrashDriver::kill_server($node, 'postmaster');
	$node->start;
	$node->safe_psql('postgres', q{DELETE FROM plain WHERE id = 2999});
	return;
}

# Everything that has to be as it was: rows, as they are and in the order of an index, and of the
# catalogs what the keys of indexes hang on.  Of a long row its beginning and a hash: with hex
# digits of large values it would be tens of megabytes.
my %queries = (
	(map {
		($_ => qq{SELECT CASE WHEN length(r) > 1000 THEN left(r, 200) || ' ' || md5(r) ELSE r END
			FROM (SELECT t::text AS r FROM $_ t) x ORDER BY r COLLATE "C"})
	} @tables),
	indexes => q{
		SELECT indexrelid::regclass, amname, indoption FROM pg_index
		JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam
		WHERE indexrelid > 16383 AND relnamespace = 'public'::regnamespace
		ORDER BY indexrelid::regclass::text},
	enums => 'SELECT oid, enumlabel, enumsortorder FROM pg_enum ORDER BY 1',
	sequence => 'SELECT last_value FROM plain_id_seq',
	ordered => q{
		SET enable_seqscan = off; SET enable_sort = off;
		SELECT v, n FROM plain ORDER BY v DESC, n;
		SELECT m, id FROM moods ORDER BY m, id;
		SELECT id FROM moods WHERE m > 'poor' ORDER BY id;
		SELECT p FROM pairs ORDER BY p USING #<;
		SELECT id FROM pairs WHERE p #= (7, 990)::pair;
		SELECT c FROM words ORDER BY c;
		SELECT l FROM words ORDER BY l;
		SELECT i FROM words ORDER BY i;
		SELECT id FROM words WHERE c = 'WORD77';
		SELECT v FROM older ORDER BY v;
		RESET enable_seqscan; RESET enable_sort});

sub contents
{
	my ($node) = @_;
	my $script = join '', map { "\\echo == $_\n$queries{$_};\n" } sort keys %queries;
	my %found;

	foreach my $database ('postgres', 'other')
	{
		my (undef, %part) = split /^== (\w+)\n/m, $node->safe_psql($database, $script) . "\n";
		$found{"$database.$_"} = $part{$_} // die "no $_" foreach keys %queries;
	}
	return \%found;
}

sub same_ok
{
	my ($found, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @different = grep { ($found->{$_} // '') ne $expected->{$_} } sort keys %$expected;

	return ok(!@different, "all is as it was: $name") || diag join "\n", map {
		my ($is, $was) = map { substr $_ // '', 0, 2000 } $found->{$_}, $expected->{$_};
		"$_ is\n$is\nand was\n$was"
	} @different;
}

# --- Upgrades ---------------------------------------------------------------------

sub upgrade_command
{
	my ($old, $new, @options) = @_;
	my $bin = $old->config_data('--bindir');

	return [ 'pg_upgrade', '-b', $bin, '-B', $bin, '-d', $old->data_dir, '-D', $new->data_dir,
		'-s', $new->host, '-p', $old->port, '-P', $new->port, @options ];
}

sub upgrade
{
	my ($old, $new, @options) = @_;
	my ($out, $error) = ('', '');
	my $done = IPC::Run::run(upgrade_command($old, $new, @options), '>', \$out, '2>', \$error);

	return ($done, $out . $error);
}

# What pg_upgrade has left of the servers' logs behind a failure.
sub logs_of
{
	my ($new) = @_;

	return join '', map { slurp_file($_) }
	  glob $new->data_dir . '/pg_upgrade_output.d/*/log/*.log';
}

# Rows are written before anything else, killed, and written on.
sub first_writes
{
	my ($new, $name) = @_;
	my $before = contents($new);

	$new->safe_psql('postgres', q{
		INSERT INTO plain (n, v, big) SELECT i, 'new', convert_to(repeat('n', 20000 + i), 'UTF8')
			FROM generate_series(1, 100) i;
		UPDATE plain SET v = v || '!' WHERE id < 500;
		DELETE FROM words WHERE id > 150;
		INSERT INTO moods VALUES (1000, 'poor'), (1001, 'worst');
		INSERT INTO older VALUES (1000, 'older'), (1001, '000');
		CREATE TABLE fresh (id int PRIMARY KEY, v text) USING leanstore;
		INSERT INTO fresh SELECT i, repeat('f', 10 * i) FROM generate_series(1, 500) i;
		INSERT INTO on_heap VALUES (0, 'both logs'); INSERT INTO untouched VALUES (1, 'first')});
	my $after = contents($new);
	CrashDriver::kill_server($new, 'postmaster');
	$new->start;
	my $found = contents($new);
	# a crash costs numbers
	delete $after->{'postgres.sequence'};
	same_ok($found, $after, "$name, behind kill -9");
	isnt($found->{'postgres.plain'}, $before->{'postgres.plain'}, '... with what was written');
	is($new->safe_psql('postgres', 'SELECT count(*), sum(length(v)) FROM fresh'), '500|1252500',
		'... and a new table');
	$new->leanstore_check_ok("$name, behind kill -9");
	$new->safe_psql('postgres', q{
		REINDEX TABLE moods; VACUUM plain; VACUUM FULL words; ALTER TABLE child ADD COLUMN x int;
		BEGIN; DELETE FROM plain; ROLLBACK; ALTER TYPE mood ADD VALUE 'fair' AFTER 'so-so';
		INSERT INTO moods VALUES (2000, 'fair')});
	$new->leanstore_check_ok("$name, and written on");
	$new->restart;
	is($new->safe_psql('postgres', q{SELECT id FROM moods WHERE m = 'fair'}), '2000',
		'a clean restart');
	$new->leanstore_check_ok("$name, restarted");
	return;
}

sub upgrade_ok
{
	my ($mode, $old_log, $new_log, @options) = @_;
	my $name = "$mode, from $old_log to $new_log";
	my $old = make_cluster("old_$mode", $old_log);
	my $new = make_cluster("new_$mode", $new_log, 'leanstore.wal_segment_size' => '4MB');

	fill($old);
	my $expected = contents($old);
	# left over from a temporary table of a session that has crashed
	append_to_file($old->data_dir . '/base/5/t3_90000', 'x' x 8192);
	$old->stop;
	my ($done, $output) = upgrade($old, $new, "--$mode", @options);
	if (!$done && $mode eq 'clone' && $output =~ /could not clone file/)
	{
		note "the file system cannot clone files";
		return;
	}
	ok($done, "pg_upgrade --$name") or diag $output, logs_of($new);
	return unless $done;

	$new->start;
	ok(!-e $new->data_dir . '/pg_xact/leanstore_am', 'nothing is left of the handover');
	same_ok(contents($new), $expected, $name);
	$new->leanstore_check_ok($name);
	command_ok([ 'vacuumdb', '-h', $new->host, '-p', $new->port, '--all', '--analyze-in-stages',
			'--missing-stats-only' ], 'what pg_upgrade tells to run');
	first_writes($new, $name);
	$new->stop;
	return ($old, $new, $expected);
}

chdir $PostgreSQL::Test::Utils::tmp_check;
my ($old, $new, $expected) = upgrade_ok('copy', 'engine', 'engine', '--jobs', '2');
$old->start;
ok(!-e $old->data_dir . '/pg_xact/leanstore_am', 'nor in the old cluster');
same_ok(contents($old), $expected, 'the old cluster, behind a copy');
$old->leanstore_check_ok('of the old cluster');
$old->stop;
upgrade_ok('link', 'wal', 'wal');
upgrade_ok('swap', 'engine', 'wal');
upgrade_ok('clone', 'wal', 'engine');

# --- The commands of docs/operations.md -----------------------------------------------

sub documented_upgrade
{
	my $old = make_cluster('documented_old', 'wal');
	my $new = make_cluster('documented_new', 'wal');
	my $bin = $old->config_data('--bindir');
	local @ENV{qw(PGPORTOLD PGPORTNEW PGSOCKETDIR)} = ($old->port, $new->port, $new->host);

	$old->start;
	$old->safe_psql('postgres', qq{CREATE EXTENSION leanstore_am; $pairs;
		CREATE TABLE t (id int PRIMARY KEY) USING leanstore;
		INSERT INTO t SELECT generate_series(1, 100)});
	foreach my $command (@documented)
	{
		DocumentedCommands::run_ok($new, $command, { OLD => $old->data_dir, NEW => $new->data_dir,
			OLD_BIN => $bin, NEW_BIN => $bin });
	}
	$old->_update_pid(0);
	$new->_update_pid(1);
	is($new->safe_psql('postgres', 'SELECT count(*) FROM t'), '100', 'as the document says');
	$new->leanstore_check_ok('as the document says');
	$new->stop;
	return;
}

documented_upgrade();

# --- What cannot be taken over ------------------------------------------------------

my $last = make_cluster('last', 'engine');
my $empty = make_cluster('empty', 'engine');
my $store = $last->data_dir . '/leanstore';

$last->append_conf('postgresql.conf', 'max_prepared_transactions = 2');
$last->start;
$last->safe_psql('postgres', q{
	CREATE EXTENSION leanstore_am;
	CREATE TABLE t (id int PRIMARY KEY, v text COLLATE "C.utf8") USING leanstore;
	CREATE INDEX t_v ON t (v);
	INSERT INTO t SELECT i, i::text FROM generate_series(1, 100) i});
$last->stop;

sub check_like
{
	my ($status, $out, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return command_checks_all(upgrade_command($last, $empty, '--check'), $status, [$out], [qr/^/],
		$name);
}

# In place of a command that pg_upgrade has for it.
sub start_as_upgrade
{
	my ($node) = @_;

	command_ok([ 'pg_ctl', '-w', '-D', $node->data_dir, '-l', $node->logfile, '-o', '-b', 'start' ],
		'a server in the mode of pg_upgrade');
	return;
}

sub stop_as_upgrade
{
	my ($node) = @_;

	command_ok([ 'pg_ctl', '-w', '-D', $node->data_dir, 'stop' ], 'stops');
	return;
}

check_like(0, qr/Clusters are compatible/, 'pg_upgrade --check');

append_to_file("$store/from_backup", '');
check_like(1, qr/cannot be used in a server that was started from a base backup/,
	'a store of a base backup');
unlink "$store/from_backup";

rename "$store/control", "$store/control.kept";
append_to_file("$store/control", 'no control file');
check_like(1, qr/leanstore tables cannot be used: recovery failed/, 'a store that is damaged');
rename "$store/control.kept", "$store/control";

$last->start;
is($last->safe_psql('postgres', 'SELECT count(*) FROM t'), '100', 'all of that did no harm');
$last->safe_psql('postgres', q{BEGIN; INSERT INTO t VALUES (0); PREPARE TRANSACTION 'p'});
$last->stop;
check_like(1, qr/source cluster contains prepared transactions/, 'a prepared transaction');
$last->start;
$last->safe_psql('postgres', q{ROLLBACK PREPARED 'p';
	UPDATE pg_index SET indoption = '2044' WHERE indexrelid = 't_v'::regclass});
$last->stop;
check_like(1, qr/was built with another version of its collation/, 'an index to be rebuilt');
$last->start;
$last->safe_psql('postgres', 'REINDEX INDEX t_v');
$last->stop;

# What the new server says when it makes the first relation.
sub outcome
{
	start_as_upgrade($empty);
	my ($status, $out, $error) = $empty->psql('postgres', q{
		SELECT binary_upgrade_set_next_heap_pg_class_oid('90001'),
			binary_upgrade_set_next_heap_relfilenode('90001');
		CREATE TABLE u (id int) USING leanstore});
	stop_as_upgrade($empty);
	return $error;
}

# From the old cluster to the new one, as pg_upgrade does it, with a change on the way.
sub hand_over
{
	my ($change) = @_;
	my $handed = $empty->data_dir . '/pg_xact/leanstore_am';

	start_as_upgrade($last);
	stop_as_upgrade($last);
	system('rm', '-rf', $handed);
	system('cp', '-R', $last->data_dir . '/pg_xact/leanstore_am', $handed) == 0
	  or die "cannot copy $handed";
	my $state = slurp_file("$handed/store");
	unlink "$handed/store";
	append_to_file("$handed/store", $change->($state));
	return;
}

$empty->start;
$empty->safe_psql('postgres', q{CREATE EXTENSION leanstore_am;
	CREATE TABLE t (id int) USING leanstore; DROP TABLE t});
$empty->stop;
like(outcome(), qr/cannot use leanstore table "u".*has no store of an old cluster/s,
	'without the old store nothing is made');
hand_over(sub { my $state = shift; substr($state, 40, 1) ^= "\1"; return $state });
like(outcome(), qr/The store of the old cluster cannot be taken over: .*is damaged/s,
	'nor with one that is damaged');
hand_over(sub { my $state = shift; substr($state, 8, 4) = pack 'V', 999; return $state });
like(outcome(), qr/cannot be taken over: .*has version 999/s, 'nor with one of another version');

$empty->start;
is($empty->safe_psql('postgres', 'CREATE TABLE t (id int) USING leanstore; SELECT count(*) FROM t'),
	'0', 'a usual start does not care');
CrashDriver::kill_server($empty, 'postmaster');
hand_over(sub { return shift });
like(outcome(), qr/cannot be taken over: the store that is to go was not shut down cleanly/,
	'nor where something would be lost');
done_testing();
