# xmin says which transaction wrote a row, and goes on saying so: over restarts and crashes, with
# transactions that stay prepared meanwhile (which makes a start count on with a step), and through
# CLUSTER. Two versions of a row never show the same.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use Test::More;

my $node = LeanstoreTest->new_node('xmin', max_prepared_transactions => 8, autovacuum => 'off');

$node->safe_psql('postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, v int) USING leanstore;
	CREATE TABLE p (id int PRIMARY KEY, v int, written xid8) USING leanstore;
});
my $rows = q{SELECT string_agg(id || ':' || v || ':' || xmin, ' ' ORDER BY id) FROM t};
my $right = q{SELECT count(*) FROM p WHERE xmin::text::bigint <> written::text::bigint};

# What a client that looks for changes by xmin would remember, by row.
my %shown;
sub change
{
	my ($id) = @_;
	my $xmin = $node->safe_psql('postgres',
		"UPDATE t SET v = v + 1 WHERE id = $id RETURNING pg_current_xact_id()");
	is($node->safe_psql('postgres', "SELECT xmin FROM t WHERE id = $id"), $xmin,
		'xmin is who has written');
	is($shown{"$id:$xmin"}++, 0, 'and was shown for no version before');
	return;
}

sub prepare
{
	my ($n) = @_;
	$node->safe_psql('postgres', qq{
		BEGIN; INSERT INTO p VALUES ($n, 0, pg_current_xact_id());
		UPDATE p SET v = v + 1, written = pg_current_xact_id() WHERE id = -$n;
		PREPARE TRANSACTION 'p$n'});
	return;
}

sub restart
{
	my ($how) = @_;
	if ($how eq 'crash')
	{
		CrashDriver::kill_server($node, 'postmaster');
		$node->start;
	}
	else
	{
		$node->stop($how);
		$node->start;
	}
	return;
}

$node->safe_psql('postgres', 'INSERT INTO t SELECT g, 0 FROM generate_series(1, 3) g');
$node->safe_psql('postgres',
	'INSERT INTO p SELECT -g, 0, pg_current_xact_id() FROM generate_series(1, 3) g');
my $round = 0;
foreach my $how (qw(fast crash fast immediate crash))
{
	$round++;
	change(1);
	prepare($round) if $round <= 3;
	$node->safe_psql('postgres', q{COMMIT PREPARED 'p1'}) if $round == 3;
	change(2);
	my $before = $node->safe_psql('postgres', $rows);
	restart($how);
	is($node->safe_psql('postgres', $rows), $before, "$how: every row shows what it did");
	is($node->safe_psql('postgres', $right), 0, "$how: prepared transactions, too");
	$node->safe_psql('postgres', q{ROLLBACK PREPARED 'p2'}) if $round == 2;
	change(1);
}
$node->safe_psql('postgres', q{COMMIT PREPARED 'p3'});
is($node->safe_psql('postgres', $right), 0, 'who has committed after a restart shows his id');
is($node->safe_psql('postgres', 'SELECT count(*) FROM p WHERE id > 0'), 2, 'both are there');

my $before = $node->safe_psql('postgres', $rows);
$node->safe_psql('postgres', 'SET enable_seqscan = on; CLUSTER t USING t_pkey; VACUUM FULL t;
	VACUUM FREEZE t');
is($node->safe_psql('postgres', $rows), $before, 'CLUSTER and VACUUM change nothing');
$node->leanstore_check_ok('at the end');
$node->stop;
done_testing();
