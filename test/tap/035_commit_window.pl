# Between the moment when others can see a transaction and its COMMIT callback the
# engine still has it on its list of active ones.  A snapshot taken in between sees
# it whole: an update must not mix what it has read by that snapshot with the version
# before, or it takes back what the other one has committed.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $PAUSE_MS = 700;

my $node = LeanstoreTest->new_node('window');
my $module = LeanstoreTest::compile_library('pause_at_commit',
	'-I' . $node->config_data('--includedir-server'));

$node->safe_psql('postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, a int, b int, padding text) USING leanstore;
	CREATE INDEX t_b ON t (b);
	CREATE FUNCTION same() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
	CREATE TABLE heap_t (id int) USING heap;
});
my $writer = $node->background_psql('postgres');
$writer->query_safe("LOAD '$module'");

# Runs SQL in a transaction that pauses as said above; returns when others can see it.
sub begin_window
{
	my ($sql) = @_;
	my $xid = $writer->query_safe("BEGIN; $sql; SET LOCAL pause_at_commit.milliseconds = $PAUSE_MS;
		SELECT pg_current_xact_id()");

	$writer->query_until(qr/committing/, "\\echo committing\nCOMMIT;\n");
	$node->poll_query_until('postgres', "SELECT pg_xact_status('$xid')", 'committed')
		or die 'the transaction is not seen';
	return;
}

my %change = (
	'UPDATE' => q{UPDATE t SET b = b + 1 WHERE id = 1},
	'UPDATE of another column' => q{UPDATE t SET padding = padding || 'x' WHERE id = 1},
	'UPDATE by sequential scan' => q{SET enable_indexscan = off; SET enable_bitmapscan = off;
		UPDATE t SET b = b + 1 WHERE id = 1},
	'UPDATE by TID' => q{UPDATE t SET b = b + 1 WHERE ctid = (SELECT ctid FROM t WHERE id = 1)},
	'UPDATE at REPEATABLE READ' => q{SET default_transaction_isolation = 'repeatable read';
		UPDATE t SET b = b + 1 WHERE id = 1},
	'UPDATE at SERIALIZABLE' => q{SET default_transaction_isolation = 'serializable';
		UPDATE t SET b = b + 1 WHERE id = 1},
	'SELECT FOR UPDATE, then UPDATE' => q{BEGIN; SELECT a FROM t WHERE id = 1 FOR UPDATE;
		UPDATE t SET b = b + 1 WHERE id = 1; COMMIT},
	'MERGE' => q{MERGE INTO t USING (VALUES (1)) v(id) ON t.id = v.id
		WHEN MATCHED THEN UPDATE SET b = t.b + 1},
	'INSERT ON CONFLICT' => q{INSERT INTO t VALUES (1, 0, 0, '') ON CONFLICT (id)
		DO UPDATE SET b = t.b + 1});
foreach my $trigger (0, 1)
{
	$node->safe_psql('postgres',
		'CREATE TRIGGER same BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION same()') if $trigger;
	foreach my $also ('', 'INSERT INTO heap_t VALUES (1)')
	{
		foreach my $what (sort keys %change)
		{
			my $name = $what . ($trigger ? ', with a trigger' : '')
				. ($also ? ', behind both logs' : '');

			$node->safe_psql('postgres', q{DELETE FROM t; INSERT INTO t VALUES (1, 0, 0, '')});
			begin_window("UPDATE t SET a = a + 1; $also");
			my ($status, $out, $err) = $node->psql('postgres', $change{$what});
			# A SERIALIZABLE transaction may be refused, and has changed nothing then.
			if ($status != 0)
			{
				like($err, qr/could not serialize/, "$name: refused");
				is($node->safe_psql('postgres', q{SELECT a, b, length(padding) FROM t}), '1|0|0',
					"$name: nothing is lost");
				next;
			}
			is($node->safe_psql('postgres', q{SELECT a, b + length(padding) FROM t}), '1|1',
				"$name: both changes are there");
		}
	}
}

$writer->quit;
$node->leanstore_check_ok('at the end');
$node->stop;
done_testing();
