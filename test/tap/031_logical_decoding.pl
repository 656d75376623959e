# Logical decoding of leanstore tables.  A slot shows for the same statements on heap and on
# leanstore tables the same changes, in the same order; whole tables follow through a subscription
# while the publisher is at work, is killed, and new tables are copied; and so they do to and from
# heap.  PostgreSQL's own tests of test_decoding run in test/conformance.
#
# Environment: KILLS (2; more in a long run), KILL_SEED (random; printed).
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $kills = $ENV{KILLS} // 2;
my $seed = $ENV{KILL_SEED} // int(rand 2**31);
note "KILLS=$kills KILL_SEED=$seed";
srand $seed;

my %settings = (
	wal_level => 'logical', max_wal_senders => 8, max_replication_slots => 8,
	max_prepared_transactions => 10, autovacuum_naptime => '1s',
	logical_decoding_work_mem => '64kB', wal_retrieve_retry_interval => '100ms');
# Which transactions are streamed depends on all that is read meanwhile, so nothing is of chance.
my $publisher = LeanstoreTest->new_node('publisher', %settings, autovacuum => 'off');

# --- The same statements on heap and on leanstore tables show the same ------------------------

my $tables = q{
	CREATE TABLE keyed (id int PRIMARY KEY, n int, t text, big text);
	ALTER TABLE keyed ALTER big SET STORAGE EXTERNAL;
	CREATE TABLE whole (id int, t text, big text);
	ALTER TABLE whole REPLICA IDENTITY FULL;
	ALTER TABLE whole ALTER big SET STORAGE EXTERNAL;
	CREATE TABLE nothing (id int PRIMARY KEY, t text);
	ALTER TABLE nothing REPLICA IDENTITY NOTHING;
	CREATE TABLE by_index (a int NOT NULL, b text NOT NULL, c int, UNIQUE (b, a));
	ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_b_a_key;
	CREATE TABLE keyless (id int, t text);
	CREATE TABLE parts (id int, part int, t text, PRIMARY KEY (id, part))
		PARTITION BY LIST (part);
	CREATE TABLE part_1 PARTITION OF parts FOR VALUES IN (1);
	CREATE TABLE part_2 PARTITION OF parts FOR VALUES IN (2);
	CREATE TABLE generated (id int PRIMARY KEY, d int GENERATED ALWAYS AS (id * 2) STORED,
		gone int);
	CREATE TABLE long_key (k text PRIMARY KEY, n int);
	ALTER TABLE long_key ALTER k SET STORAGE PLAIN;
	CREATE TABLE wide (id int PRIMARY KEY, a text, b text);
	ALTER TABLE wide ALTER a SET STORAGE PLAIN, ALTER b SET STORAGE PLAIN;
	CREATE UNLOGGED TABLE unlogged (id int);
	CREATE FUNCTION big(seed text, n int) RETURNS text LANGUAGE sql IMMUTABLE AS
		$$SELECT string_agg(md5(seed || g), '') FROM generate_series(1, n) g$$};

my @steps = (
	insert => q{
		INSERT INTO keyed VALUES (1, 1, 'one', NULL), (2, 2, NULL, big('two', 200));
		INSERT INTO keyed SELECT g, g, repeat('x', g), NULL FROM generate_series(3, 12) g;
		INSERT INTO whole SELECT g, 'whole', big('w', 100) FROM generate_series(1, 3) g;
		INSERT INTO nothing VALUES (1, 'a'), (2, 'b');
		INSERT INTO by_index VALUES (1, 'one', 1), (2, 'two', 2);
		INSERT INTO keyless VALUES (1, 'a'), (2, 'b');
		INSERT INTO unlogged VALUES (1);
		CREATE TEMP TABLE temporary (id int); INSERT INTO temporary VALUES (1)},
	copy => qq{
		COPY keyed (id, t) FROM stdin;\n} . join('', map { "$_\ttext $_\n" } 100 .. 140) . qq{\\.
		COPY whole FROM stdin;\n}
	  . join('', map { "$_\tt\t" . 'y' x 5000 . "$_\n" } 10 .. 16) . "\\.\n",
	'update in place' => q{
		UPDATE keyed SET n = n + 1 WHERE id < 5;
		UPDATE keyed SET big = big('other', 300) WHERE id = 3;
		UPDATE keyed SET t = 'the large value stays' WHERE id IN (2, 3);
		UPDATE whole SET t = 'new' WHERE id = 1;
		UPDATE whole SET big = 'small' WHERE id = 2;
		UPDATE nothing SET t = 'c' WHERE id = 1;
		UPDATE by_index SET c = 7 WHERE a = 1;
		UPDATE keyless SET t = 'c' WHERE id = 1},
	'update of keys' => q{
		UPDATE keyed SET id = id + 1000 WHERE id IN (1, 2, 3);
		UPDATE whole SET id = 77 WHERE id = 1;
		UPDATE nothing SET id = 5 WHERE id = 1;
		UPDATE by_index SET a = 11 WHERE a = 1;
		UPDATE by_index SET b = 'zwei' WHERE a = 2},
	delete => q{
		DELETE FROM keyed WHERE id = 4; DELETE FROM keyed WHERE id = 1002;
		DELETE FROM whole WHERE id = 2; DELETE FROM whole WHERE id = 77;
		DELETE FROM nothing WHERE id = 5;
		DELETE FROM by_index WHERE a = 11;
		DELETE FROM keyless WHERE id = 1},
	'on conflict' => q{
		INSERT INTO keyed VALUES (5, 0, 'conflict', big('c', 150))
			ON CONFLICT (id) DO UPDATE SET t = excluded.t, big = excluded.big;
		INSERT INTO keyed VALUES (5, 0, 'nothing', big('d', 150)), (500, 0, 'new', big('e', 150))
			ON CONFLICT DO NOTHING;
		INSERT INTO keyed VALUES (500, 0, 'again', big('f', 200)), (501, 0, 'new', big('g', 200))
			ON CONFLICT (id) DO UPDATE SET big = excluded.big || 'x'},
	merge => q{
		PREPARE m (int, text) AS
			MERGE INTO keyed USING (VALUES ($1, $2)) AS s (id, t) ON keyed.id = s.id
			WHEN MATCHED AND s.t IS NULL THEN DELETE
			WHEN MATCHED THEN UPDATE SET t = s.t
			WHEN NOT MATCHED THEN INSERT VALUES (s.id, 1, s.t, NULL);
		EXECUTE m (5, 'm'); EXECUTE m (6, NULL); EXECUTE m (600, 'new')},
	subtransactions => q{
		BEGIN; INSERT INTO keyed VALUES (700); SAVEPOINT a; INSERT INTO keyed VALUES (701);
		SAVEPOINT b; UPDATE keyed SET t = 'gone' WHERE id = 700; ROLLBACK TO b;
		UPDATE keyed SET t = 'kept' WHERE id = 701; RELEASE a; COMMIT;
		BEGIN; INSERT INTO keyed VALUES (710); ROLLBACK;
		BEGIN; DELETE FROM keyed WHERE id = 700; SAVEPOINT a;
		CREATE TABLE made AS SELECT g AS id FROM generate_series(1, 3) g; ROLLBACK TO a;
		CREATE TABLE made AS SELECT g AS id FROM generate_series(4, 6) g; SAVEPOINT c;
		INSERT INTO made VALUES (7); COMMIT;
		DO $$BEGIN
			FOR i IN 1 .. 5 LOOP
				BEGIN
					INSERT INTO keyed VALUES (720 + i / 2);
				EXCEPTION WHEN unique_violation THEN
					UPDATE keyed SET n = i WHERE id = 720 + i / 2;
				END;
			END LOOP;
		END$$},
	partitions => q{
		INSERT INTO parts VALUES (1, 1, 'a'), (2, 2, 'b');
		UPDATE parts SET part = 2 WHERE id = 1;
		UPDATE parts SET t = 'c' WHERE id = 2},
	'columns, rewrite' => q{
		INSERT INTO generated (id, gone) VALUES (1, 1), (2, 2);
		ALTER TABLE generated DROP gone;
		ALTER TABLE generated ADD added int DEFAULT 9;
		INSERT INTO generated (id) VALUES (3);
		UPDATE generated SET added = 10 WHERE id = 1;
		ALTER TABLE generated ALTER added TYPE bigint;
		DELETE FROM generated WHERE id = 2},
	'large keys and rows' => q{
		INSERT INTO long_key VALUES (repeat('k', 1500), 1);
		UPDATE long_key SET n = 2;
		UPDATE long_key SET k = repeat('l', 1500);
		INSERT INTO wide VALUES (1, repeat('a', 3000), repeat('b', 3000));
		UPDATE wide SET b = 'short';
		UPDATE wide SET b = repeat('c', 3000), id = 2;
		DELETE FROM wide; DELETE FROM long_key},
	rewrite => q{
		VACUUM FULL keyed; CLUSTER by_index USING by_index_b_a_key;
		UPDATE keyed SET t = 'behind VACUUM FULL' WHERE id = 500;
		BEGIN; UPDATE keyed SET n = 1 WHERE id = 500; ALTER TABLE keyed ALTER n TYPE bigint;
		UPDATE keyed SET n = 2 WHERE id = 500; COMMIT},
	truncate => q{
		TRUNCATE keyless, whole;
		BEGIN; INSERT INTO keyless VALUES (1); TRUNCATE keyless;
		INSERT INTO keyless VALUES (2); COMMIT},
	'two-phase' => q{
		BEGIN; INSERT INTO keyed VALUES (800, 1, 'p', big('p', 100)); PREPARE TRANSACTION 'p';
		INSERT INTO keyed VALUES (801); COMMIT PREPARED 'p';
		BEGIN; DELETE FROM keyed WHERE id = 800; PREPARE TRANSACTION 'q'; ROLLBACK PREPARED 'q'},
	'larger than memory' => q{
		BEGIN;
		INSERT INTO keyed SELECT g, g, 'x', big('m' || g, 20) FROM generate_series(2000, 2300) g;
		SAVEPOINT a; UPDATE keyed SET t = 'y' WHERE id >= 2000; ROLLBACK TO a;
		UPDATE keyed SET t = 'z' WHERE id >= 2200; COMMIT});

foreach my $method (qw(heap leanstore))
{
	$publisher->safe_psql('postgres', "CREATE DATABASE on_$method");
	$publisher->safe_psql("on_$method", 'CREATE EXTENSION leanstore_am');
	$publisher->safe_psql('postgres',
		"ALTER DATABASE on_$method SET default_table_access_method = $method");
	$publisher->safe_psql("on_$method", $tables);
	# the second tells of a prepared transaction when it is prepared
	$publisher->safe_psql("on_$method", qq{
		SELECT pg_create_logical_replication_slot('${method}_slot', 'test_decoding');
		SELECT pg_create_logical_replication_slot('${method}_two_phase', 'test_decoding', false,
			true)});
}

sub changes
{
	my ($method, $slot, $options) = @_;

	return $publisher->safe_psql("on_$method",
		"SELECT data FROM pg_logical_slot_get_changes('${method}_$slot', NULL, NULL,
			'include-xids', '0', 'skip-empty-xacts', '1' $options)");
}

sub same_ok
{
	my ($name, $slot, $options) = @_;
	my $expected = changes('heap', $slot, $options);
	my $got = changes('leanstore', $slot, $options);
	my $first = 0;
	# where a block ends is a matter of memory
	my @expected = grep { !/^(opening|closing) a streamed block/ } split /\n/, $expected;
	my @got = grep { !/^(opening|closing) a streamed block/ } split /\n/, $got;

	# a table that is written anew is read in the order of its rows, which have moved or not
	if ($name =~ /rewrite/)
	{
		@expected = sort @expected;
		@got = sort @got;
	}
	$first++ while $first < @got && $first < @expected && $got[$first] eq $expected[$first];
	ok(@expected > 2 && $first == @expected && $first == @got, $name)
	  or diag(scalar(@expected) . ' and ' . scalar(@got) . ' lines; the first that differ:',
		substr($expected[$first] // '', 0, 300), "\n", substr($got[$first] // '', 0, 300));
	return;
}

while (my ($name, $statements) = splice @steps, 0, 2)
{
	$publisher->safe_psql("on_$_", $statements) foreach qw(heap leanstore);
	same_ok("$name: the same changes", 'slot', ", 'include-rewrites', '1'");
}
same_ok('streamed while they run, and prepared', 'two_phase', ", 'stream-changes', '1'");

# Changes that came from another server, which a slot can leave out.
foreach my $method (qw(heap leanstore))
{
	$publisher->safe_psql("on_$method", qq{
		SELECT pg_replication_origin_create('from_$method');
		SELECT pg_replication_origin_session_setup('from_$method');
		INSERT INTO keyless VALUES (1, 'from elsewhere');
		SELECT pg_replication_origin_session_reset();
		INSERT INTO keyless VALUES (2, 'own'), (3, 'own')});
}
same_ok('without those of another origin', 'slot', ", 'only-local', '1'");
same_ok('with them', 'two_phase', '');
# A function in an index that changes another table: between a row that is inserted speculatively
# and its confirmation (IMAGE-2).
$publisher->safe_psql('on_leanstore', q{
	CREATE TABLE noted (id int, t text);
	CREATE FUNCTION insert_noted(id int) RETURNS int LANGUAGE plpgsql AS
		$$BEGIN INSERT INTO noted VALUES (id, big('n', 100)); RETURN id; END$$;
	CREATE FUNCTION note(id int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
		$$BEGIN RETURN insert_noted(id); END$$;
	CREATE TABLE with_function (id int PRIMARY KEY, big text);
	CREATE INDEX ON with_function (note(id));
	INSERT INTO with_function VALUES (1, big('f', 200)) ON CONFLICT (id) DO NOTHING});
my $shown = changes('leanstore', 'slot', '');
is(join(' ', $shown =~ /table public\.(\w+): INSERT: id\[integer\]:1 \w+\[text\]:'\w{3200,6400}'/g),
	'noted with_function', 'a function in an index that changes another table');
$publisher->safe_psql('on_leanstore', 'DROP TABLE with_function, noted');

unlike($publisher->safe_psql('on_leanstore', q{
	SELECT pg_logical_emit_message(true, 'nothing', 'x');
	SELECT data FROM pg_logical_slot_get_changes('leanstore_slot', NULL, NULL)}),
	qr/keyless|unlogged|temporary/, 'what was read once does not come again');
$publisher->safe_psql("on_$_", "SELECT pg_drop_replication_slot('${_}_slot');
	SELECT pg_drop_replication_slot('${_}_two_phase')") foreach qw(heap leanstore);

# --- Subscriptions under load, with kills -----------------------------------------------------

my $subscriber = LeanstoreTest->new_node('subscriber', %settings,
	max_logical_replication_workers => 8, max_worker_processes => 16);
my $followed = q{
	CREATE TABLE account (id int PRIMARY KEY, balance bigint, t text, big text);
	CREATE TABLE seen (client int, n bigint, t text);
	ALTER TABLE seen REPLICA IDENTITY FULL;
	CREATE TABLE on_heap (id int PRIMARY KEY, n bigint) USING heap;
	CREATE TABLE parts (id int, part int, n bigint) PARTITION BY LIST (part);
	CREATE TABLE part_1 PARTITION OF parts FOR VALUES IN (1);
	CREATE TABLE part_2 PARTITION OF parts FOR VALUES IN (2) USING heap;
	ALTER TABLE part_1 REPLICA IDENTITY FULL;
	ALTER TABLE part_2 REPLICA IDENTITY FULL;
	CREATE TABLE late_1 (id int PRIMARY KEY, n bigint);
	CREATE TABLE late_2 (id int PRIMARY KEY, n bigint);
	CREATE TABLE late_3 (id int PRIMARY KEY, n bigint)};

foreach my $node ($publisher, $subscriber)
{
	$node->safe_psql('postgres', "SET default_table_access_method = leanstore; $followed");
}
# It sees each row before it is changed, as a trigger of the apply worker does.
$subscriber->safe_psql('postgres', q{
	CREATE FUNCTION mark() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
			NEW.n := NEW.n + 0 * OLD.n;
			RETURN NEW;
		END$$;
	CREATE TRIGGER mark BEFORE UPDATE OR DELETE ON late_1 FOR EACH ROW EXECUTE FUNCTION mark();
	ALTER TABLE late_1 ENABLE ALWAYS TRIGGER mark});
$publisher->safe_psql('postgres', q{
	CREATE SEQUENCE place;
	CREATE FUNCTION big(seed text, n int) RETURNS text LANGUAGE sql IMMUTABLE AS
		$$SELECT string_agg(md5(seed || g), '') FROM generate_series(1, n) g$$;
	INSERT INTO account SELECT g, 0, 'from the start', big(g::text, g % 100)
		FROM generate_series(1, 500) g;
	INSERT INTO on_heap SELECT g, 0 FROM generate_series(1, 100) g;
	INSERT INTO parts SELECT g, 1 + g % 2, 0 FROM generate_series(1, 100) g;
	INSERT INTO late_1 SELECT g, 0 FROM generate_series(1, 500) g;
	INSERT INTO late_2 TABLE late_1; INSERT INTO late_3 TABLE late_1;
	CREATE PUBLICATION p FOR TABLE account, seen, on_heap, parts});
my $changed = q{
INSERT INTO seen SELECT :client_id, nextval('place'), repeat('x', 100)
	FROM generate_series(1, :some);
UPDATE account SET balance = balance + 1, t = 'changed' WHERE id = least(:a, :b);
-- taken back
UPDATE account SET balance = balance - 1, big = big(:a::text, :some) WHERE id = greatest(:a, :b);
UPDATE on_heap SET n = n + 1 WHERE id = :c;
UPDATE parts SET n = n + 1, part = 3 - part WHERE id = :c AND :some < 20;
UPDATE late_1 SET n = n + 1 WHERE id = least(:a, :b);
UPDATE late_2 SET n = n + 1 WHERE id = least(:a, :b);
UPDATE late_3 SET n = n + 1 WHERE id = least(:a, :b);
UPDATE late_1 SET n = n - 1 WHERE id = greatest(:a, :b);
UPDATE late_2 SET n = n - 1 WHERE id = greatest(:a, :b);
UPDATE late_3 SET n = n - 1 WHERE id = greatest(:a, :b);
};
my $taken_back = q{
BEGIN
	UPDATE account SET balance = balance - 100 WHERE id = greatest(:a, :b);
	UPDATE late_1 SET n = n + 100 WHERE id = least(:a, :b);
	RAISE EXCEPTION '';
EXCEPTION WHEN raise_exception THEN NULL;
END;
};

# PostgreSQL 18.6 takes the subtransactions of a transaction that has rolled back for streamed when
# it runs out of memory (ReorderBufferTruncateTXN), and with assertions pgoutput ends at their
# ends: on heap, too.  So no transaction with subtransactions is cut short here: while they run
# nothing is killed, and each is one statement, which goes on when its client has gone.
my %script = (
	whole => "BEGIN; $changed COMMIT;\n",
	'with subtransactions' =>
		'DO $$BEGIN ' . $changed =~ s/-- taken back/$taken_back/r . 'END$$;' . "\n");

sub start_load
{
	my ($name) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/work.sql';

	append_to_file($file, join("\n", '\set a random(1, 500)', '\set b random(1, 500)',
		'\set c random(1, 100)', '\set some random(1, 60)', $script{$name}));
	return $publisher->start_pgbench('postgres', qw(-c 4 -R 80 -T 600 -f), $file);
}

sub end_load
{
	my ($load) = @_;

	my $output = $publisher->stop_pgbench($load);
	die "the load fails: $output" if $output =~ /error/i;
	$publisher->poll_query_until('postgres', q{SELECT NOT EXISTS (
		SELECT FROM pg_stat_activity WHERE application_name = 'pgbench')})
	  or die 'the load does not end';
	return;
}
my $load = start_load('with subtransactions');
my $connection = $publisher->connstr . ' dbname=postgres';
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION s CONNECTION '$connection' PUBLICATION p
	WITH (streaming = parallel)");

# The sum of all balances is 0 in each transaction, so in each copy and behind each change: IMAGE-1.
sub wait_for_copies
{
	$subscriber->poll_query_until('postgres',
		q{SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel})
	  or die 'the tables are not copied';
	return;
}
wait_for_copies();
foreach my $table (qw(late_1 late_2 late_3))
{
	$publisher->safe_psql('postgres', "ALTER PUBLICATION p ADD TABLE $table");
	$subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION s REFRESH PUBLICATION');
	wait_for_copies();
	is($subscriber->safe_psql('postgres', "SELECT count(*), sum(n) FROM $table"), '500|0',
		"$table is copied with whole transactions");
}

$subscriber->safe_psql('postgres', $_) foreach ('ALTER SUBSCRIPTION s DISABLE',
	'ALTER SUBSCRIPTION s SET (two_phase = on)', 'ALTER SUBSCRIPTION s ENABLE');
end_load($load);
$load = start_load('whole');

foreach my $round (1 .. $kills)
{
	usleep(300_000 + rand 700_000);
	CrashDriver::kill_server($publisher, $round % 2 ? 'all' : 'postmaster');
	$publisher->finish_pgbench($load);
	$publisher->start;
	$load = start_load('whole');
	my $before = $subscriber->safe_psql('postgres', 'SELECT coalesce(max(n), 0) FROM seen');
	ok($subscriber->poll_query_until('postgres',
		"SELECT EXISTS (SELECT FROM seen WHERE n > $before)"),
		"kill $round of the publisher: the subscriber goes on");
	is($subscriber->safe_psql('postgres',
		'SELECT count(*), sum(balance), (SELECT sum(n) FROM late_1) FROM account'), '500|0|0',
		"kill $round: whole transactions only");
}
end_load($load);
$publisher->safe_psql('postgres', q{
	BEGIN; INSERT INTO account VALUES (1001, 0, 'prepared', big('p', 500));
	PREPARE TRANSACTION 'p'});
$publisher->wait_for_catchup('s');
is($subscriber->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'), '1',
	'a transaction is prepared there, too');
$publisher->safe_psql('postgres', q{COMMIT PREPARED 'p'});
$publisher->wait_for_catchup('s');
foreach my $table (qw(account seen on_heap parts late_1 late_2 late_3))
{
	my $digest = "SELECT count(*), md5(string_agg(x::text, ';' ORDER BY x::text)) FROM $table x";
	is($subscriber->safe_psql('postgres', $digest), $publisher->safe_psql('postgres', $digest),
		"$table is the publisher's after $kills kills");
}

# --- Publications of all tables and of schemas, row filters and lists of columns -------------

$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION s');
$_->safe_psql('postgres', 'TRUNCATE account, seen') foreach ($publisher, $subscriber);
$publisher->safe_psql('postgres', q{
	DROP PUBLICATION p;
	CREATE PUBLICATION everything FOR ALL TABLES WITH (publish_via_partition_root = true);
	CREATE PUBLICATION schema FOR TABLES IN SCHEMA public;
	DROP PUBLICATION everything; DROP PUBLICATION schema;
	CREATE PUBLICATION p FOR TABLE account (id, balance) WHERE (balance > 10),
		TABLE seen WHERE (n < 5)});
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION s CONNECTION '$connection' PUBLICATION p");
wait_for_copies();
$publisher->safe_psql('postgres', q{
	ALTER TABLE account REPLICA IDENTITY FULL;
	INSERT INTO account VALUES (1, 5, 'no'), (2, 11, 'yes'), (3, 12, 'yes')});
$publisher->safe_psql('postgres', q{
	ALTER PUBLICATION p SET TABLE account WHERE (balance > 10), seen WHERE (n < 5);
	UPDATE account SET balance = 20 WHERE id = 1;
	UPDATE account SET balance = 1 WHERE id = 2;
	UPDATE account SET t = 'still' WHERE id = 3;
	INSERT INTO seen VALUES (1, 4, 'yes'), (1, 5, 'no')});
$publisher->wait_for_catchup('s');
is($subscriber->safe_psql('postgres', 'SELECT id, balance FROM account ORDER BY id'), "1|20\n3|12",
	'a row filter: updates become insertions and deletions');
is($subscriber->safe_psql('postgres', 'SELECT client, n FROM seen'), '1|4',
	'a row filter of a table without a key');
$publisher->safe_psql('postgres', 'TRUNCATE account');
$publisher->wait_for_catchup('s');
is($subscriber->safe_psql('postgres', 'SELECT count(*) FROM account'), '0', 'TRUNCATE follows');

my ($status, undef, $error) = $publisher->psql('postgres', q{
	CREATE TABLE no_key (id int) USING leanstore; INSERT INTO no_key VALUES (1);
	CREATE PUBLICATION q FOR TABLE no_key; UPDATE no_key SET id = 2});
like($error, qr/cannot update table "no_key" because it does not have a replica identity/,
	'without a replica identity the server refuses, as with heap');

$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION s');
$_->leanstore_check_ok('at the end') foreach ($publisher, $subscriber);
$_->stop foreach ($subscriber, $publisher);
done_testing();
