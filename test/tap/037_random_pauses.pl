# Clients change the same few rows in every way there is, while transactions pause where others may
# come in between (random_pauses.c).  Each notes in its own transaction what it has added, so every
# snapshot, and the end, must add up: no change is lost, none is seen in part, none is seen before
# it is there.  And SERIALIZABLE keeps what holds between two rows, though each transaction looks at
# both and changes one.
#
#   PAUSES_SECONDS=600   how long for each kind of notes (8)
use strict;
use warnings FATAL => 'all';

use File::Copy;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $seconds = $ENV{PAUSES_SECONDS} // 8;
my $rows = 6;

my $node = LeanstoreTest->prepare_node('pauses');
my $library = LeanstoreTest::compile_library('random_pauses',
	'-I' . $node->config_data('--includedir-server'));
my $copy = $library =~ s/\.so$/_again.so/r;
copy($library, $copy) or die;
$node->set_config(shared_preload_libraries => "$library,leanstore_am,$copy",
	deadlock_timeout => '50ms', max_prepared_transactions => 10);
$node->start;

$node->safe_psql('postgres', qq{
	CREATE EXTENSION leanstore_am;
	CREATE TABLE t (id int PRIMARY KEY, a bigint, b bigint, c bigint, d bigint, padding text)
		USING leanstore;
	CREATE INDEX t_c ON t (c);
	INSERT INTO t SELECT g, 0, 0, 0, 0, 'x' FROM generate_series(1, $rows) g;
	CREATE TABLE pairs (id int PRIMARY KEY, e bigint) USING leanstore;
	INSERT INTO pairs SELECT g, 0 FROM generate_series(1, $rows) g;
	CREATE TABLE notes_leanstore (what "char", id int) USING leanstore;
	CREATE TABLE notes_heap (what "char", id int) USING heap;

	-- t's sums are what the notes say, in one snapshot.
	CREATE FUNCTION adds_up(notes regclass) RETURNS void LANGUAGE plpgsql AS \$\$
	DECLARE
		seen record;
		noted record;
	BEGIN
		SELECT count(*) AS n, sum(a) AS a, sum(b) AS b, sum(c) AS c, sum(d) AS d INTO seen FROM t;
		EXECUTE 'SELECT count(*) FILTER (WHERE what = ''a'') AS a,
			count(*) FILTER (WHERE what = ''b'') AS b,
			count(*) FILTER (WHERE what = ''c'') AS c FROM ' || notes INTO noted;
		IF (seen.n, seen.a, seen.b, seen.c, seen.d) IS DISTINCT FROM (${rows}::bigint,
			noted.a::numeric, noted.b::numeric, noted.c::numeric, 0::numeric) THEN
			RAISE 'does not add up: % and %', seen, noted;
		END IF;
		SELECT count(*) AS n, min(e) AS e INTO seen
			FROM (SELECT sum(e) AS e FROM pairs GROUP BY (id - 1) / 2) sums;
		IF seen.n <> $rows / 2 OR seen.e < 0 THEN
			RAISE 'the % pairs fell to %', seen.n, seen.e;
		END IF;
	END \$\$;
});

# Changes of one row, each with a note; ROW is its number, NOTES the table.
sub noted
{
	my ($what, $change) = @_;
	return "WITH changed AS ($change RETURNING t.id) INSERT INTO NOTES SELECT '$what', id
		FROM changed;";
}
my %change = (
	update => noted(a => 'UPDATE t SET a = a + 1 WHERE id = ROW'),
	other_column => noted(b => 'UPDATE t SET b = b + 1 WHERE id = ROW'),
	indexed_column => noted(c => 'UPDATE t SET c = c + 1 WHERE id = ROW'),
	by_other_index => noted(a => 'UPDATE t SET a = a + 1
		WHERE c = (SELECT c FROM t WHERE id = ROW)'),
	padding => "UPDATE t SET padding = repeat('x', (random() * 300)::int) WHERE id = ROW;",
	merge => noted(b => 'MERGE INTO t USING (SELECT ROW AS id) v ON t.id = v.id
		WHEN MATCHED THEN UPDATE SET b = b + 1'),
	upsert => noted(a => 'INSERT INTO t VALUES (ROW, 0, 0, 0, 0) ON CONFLICT (id)
		DO UPDATE SET a = t.a + 1'),
	locked => 'SELECT coalesce(max(b), 0) AS old, count(*) AS n '
		. "FROM (SELECT b FROM t WHERE id = ROW FOR UPDATE) l \\gset\n"
		. 'UPDATE t SET b = :old + 1 WHERE id = ROW AND :n = 1; '
		. "INSERT INTO NOTES SELECT 'b', ROW WHERE :n = 1;",
	transfer => 'SELECT count(*) AS n FROM (SELECT FROM t '
		. "WHERE id IN (ROW, ROW % $rows + 1) ORDER BY id FOR UPDATE) l \\gset\n"
		. 'UPDATE t SET d = d + CASE id WHEN ROW THEN 1 ELSE -1 END '
		. "WHERE id IN (ROW, ROW % $rows + 1) AND :n = 2;",
	again => "DO \$\$ DECLARE r t; BEGIN DELETE FROM t WHERE id = ROW RETURNING * INTO STRICT r; "
		. "INSERT INTO t VALUES (r.*); EXCEPTION WHEN no_data_found THEN NULL; END \$\$;",
	key => noted(c => "UPDATE t SET id = -id WHERE id = ROW")
		. "UPDATE t SET id = -id, c = c + 1 WHERE id = -(ROW);",
	savepoint => 'SAVEPOINT s; UPDATE t SET a = a + 100, c = c + 100 WHERE id = ROW; '
		. 'ROLLBACK TO s; ' . noted(a => 'UPDATE t SET a = a + 1 WHERE id = ROW'),
	twice => noted(a => 'UPDATE t SET a = a + 1 WHERE id = ROW')
		. noted(c => 'UPDATE t SET c = c + 1 WHERE id = ROW'),
	nothing => 'UPDATE t SET a = a + 100, c = c + 100 WHERE id = ROW;
		DELETE FROM t WHERE id = ROW % ' . $rows . ' + 1; ROLLBACK;');

# SERIALIZABLE transactions cannot be prepared.
my %prepared = (
	prepared => noted(b => 'UPDATE t SET b = b + 1 WHERE id = ROW')
		. "PREPARE TRANSACTION 'of :client_id'; COMMIT PREPARED 'of :client_id';",
	given_up => "UPDATE t SET a = a + 100, c = c + 100 WHERE id = ROW;
		PREPARE TRANSACTION 'of :client_id'; ROLLBACK PREPARED 'of :client_id';");

# The rows of a pair are not less than nothing together, if the transactions that change them come
# one after the other.
my %serializable = (
	spend => 'SELECT sum(e) AS sum FROM pairs '
		. "WHERE id IN ((ROW - 1) / 2 * 2 + 1, (ROW - 1) / 2 * 2 + 2) \\gset\n"
		. 'UPDATE pairs SET e = e + CASE WHEN :sum > 0 THEN -1 ELSE 2 END WHERE id = ROW;',
	spend_elsewhere => 'SELECT sum(e) AS sum FROM pairs '
		. "WHERE id IN ((ROW - 1) / 2 * 2 + 1, (ROW - 1) / 2 * 2 + 2) \\gset\n"
		. "DELETE FROM pairs WHERE id = ROW RETURNING e \\gset\n"
		. 'INSERT INTO pairs VALUES (ROW, :e + CASE WHEN :sum > 0 THEN -1 ELSE 2 END);',
	spend_all => "SELECT sum(e) AS sum FROM pairs WHERE (id - 1) / 2 = (ROW - 1) / 2 \\gset\n"
		. 'UPDATE pairs SET e = e - :sum WHERE id = ROW;',
	new_key => 'UPDATE pairs SET id = -id WHERE id = ROW; '
		. 'UPDATE pairs SET id = -id WHERE id = -(ROW);');

# In one transaction two snapshots, or one; in one statement always one.
my @readers = (
	"BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT adds_up('NOTES');
		SELECT adds_up('NOTES'); COMMIT;",
	"BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1; SELECT pg_sleep(0.002);
		SELECT adds_up('NOTES'); COMMIT;",
	"BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT adds_up('NOTES'); COMMIT;",
	"SELECT 1 / (t.a = n.a AND t.b = n.b AND t.c = n.c AND t.n = $rows)::int
		FROM (SELECT count(*) AS n, sum(a) AS a, sum(b) AS b, sum(c) AS c FROM t) t,
		(SELECT count(*) FILTER (WHERE what = 'a') AS a, count(*) FILTER (WHERE what = 'b') AS b,
		count(*) FILTER (WHERE what = 'c') AS c FROM NOTES) n;",
	"SET enable_seqscan = off; SELECT 1 / (count(*) = $rows AND sum(d) = 0)::int FROM t
		WHERE id > 0; RESET enable_seqscan;");

sub script
{
	my ($name, $text) = @_;
	my $path = PostgreSQL::Test::Utils::tempdir() . "/$name.sql";

	append_to_file($path, $text);
	return $path;
}

foreach my $notes (qw(leanstore heap))
{
	my @options;
	foreach my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
	{
		my %of_level = (%change, $level eq 'SERIALIZABLE' ? %serializable : %prepared);
		foreach my $name (sort keys %of_level)
		{
			my $commit = (length("$name$level") % 2) ? 'off' : 'on';
			my $text = "\\set row random(1, $rows)\n"
				. "BEGIN ISOLATION LEVEL $level; SET LOCAL synchronous_commit = $commit; "
				. "$of_level{$name} COMMIT;\n";
			$text =~ s/(ROLLBACK|PREPARED 'of :client_id'); COMMIT;/$1;/;
			$text =~ s/\bROW\b/:row/g;
			# No variables in a string.
			$text =~ s/DO \$\$(.*?)\$\$;/my $body = $1; $body =~ s{:row}{(SELECT current_setting('my.row')::int)}g; "SELECT set_config('my.row', :row::text, true); DO \$\$$body\$\$;"/e;
			$text =~ s/NOTES/notes_$notes/g;
			push @options, '-f', script("$notes $name $level" =~ tr/ /_/r, $text) . '@'
				. ($level eq 'READ COMMITTED' || $name =~ /^spend/ ? 3 : 1);
		}
	}
	foreach my $i (0 .. $#readers)
	{
		push @options,
			'-f', script("${notes}_reader_$i", $readers[$i] =~ s/NOTES/notes_$notes/gr) . '@8';
	}
	$node->safe_psql('postgres', 'UPDATE t SET a = 0, b = 0, c = 0, d = 0');
	my $output = eval { $node->run_pgbench('postgres', '-c', 8, '-j', 2, '-T', $seconds,
		'--max-tries=0', @options) };
	ok(defined $output, "notes in $notes: each snapshot adds up") or diag(substr($@, 0, 5000));
	my ($transactions) = ($output // '') =~ /number of transactions actually processed: (\d+)/;
	cmp_ok($transactions // 0, '>', 100, "notes in $notes: transactions have run");
	note("$transactions transactions") if $transactions;
	$node->safe_psql('postgres', "SELECT adds_up('notes_$notes')");
	pass("notes in $notes: the end adds up");
}

$node->leanstore_check_ok('at the end');
$node->stop;
done_testing();
