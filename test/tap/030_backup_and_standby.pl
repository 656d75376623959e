# A base backup and a standby do not have the contents of leanstore tables.  Both say
# so when they start, and whatever becomes of them afterwards, a leanstore table
# gives an error and never half its rows; heap tables, and those made anew, work.
use strict;
use warnings FATAL => 'all';

use File::Path qw(rmtree);
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'with leanstore.log = wal they have the tables (097, 098)'
  if LeanstoreTest::in_wal();
my $primary = LeanstoreTest->prepare_node('primary', init => { allows_streaming => 1 });
$primary->start;
$primary->safe_psql('postgres', q{CREATE EXTENSION leanstore_am;
	CREATE TABLE on_heap (id int);
	CREATE TABLE t (id int PRIMARY KEY, v text) USING leanstore;
	CREATE INDEX t_v ON t USING btree (v);
	INSERT INTO t SELECT i, 'v' FROM generate_series(1, 1000) i});
$primary->backup('backup');

sub refused_ok
{
	my ($node, $query, $message, $name) = @_;
	my ($status, undef, $error) = $node->psql('postgres', "\\set VERBOSITY verbose\n$query");

	isnt($status, 0, "$name: an error");
	like($error, qr/ERROR:  0A000: $message/, "$name: that says why");
	return;
}

# A server that has leanstore tables in its catalogs and no rows of them.
sub without_contents_ok
{
	my ($node, $name) = @_;
	my $message = 'leanstore tables cannot be used in a server '
		. 'that was started from a base backup or as a standby';

	refused_ok($node, $_, $message, "$name: $_") foreach
		'SELECT count(*) FROM t', 'INSERT INTO t VALUES (5000)', 'SELECT 1 FROM t WHERE id = 1',
		'TABLE later', 'CREATE INDEX ON t (v)';
	$node->safe_psql('postgres', 'INSERT INTO on_heap VALUES (1); CHECKPOINT; VACUUM on_heap;
		CREATE DATABASE another; DROP DATABASE another');
	$node->restart;
	refused_ok($node, 'SELECT count(*) FROM t', $message, "$name, started again");

	# the hint
	$node->safe_psql('postgres', 'DROP TABLE t, later');
	$node->stop;
	ok(-d $node->data_dir . '/leanstore', "$name: there is the directory of the hint");
	rmtree($node->data_dir . '/leanstore');
	$node->start;
	$node->safe_psql('postgres', 'CREATE TABLE t (id int PRIMARY KEY) USING leanstore;
		INSERT INTO t VALUES (1)');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), '1',
		"$name: new tables after the hint was followed");
	$node->leanstore_check_ok($name);
	return;
}

my $says = qr/leanstore tables cannot be used in this server/;

# As a standby, then promoted.
my $standby = LeanstoreTest->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;
ok($standby->log_contains($says), 'a standby says at its start that it has no leanstore tables');
refused_ok($standby, 'SELECT count(*) FROM t',
	'leanstore tables cannot be read on a standby server', 'a standby');
$primary->safe_psql('postgres', q{CREATE TABLE later (id int) USING leanstore;
	INSERT INTO later VALUES (1); INSERT INTO t SELECT i, 'w' FROM generate_series(2001, 3000) i});
$primary->wait_for_catchup($standby);
$standby->promote;
without_contents_ok($standby, 'a promoted standby');
$standby->stop;

# Started by itself.
$primary->backup('later');
my $restored = LeanstoreTest->new('restored');
$restored->init_from_backup($primary, 'later');
$restored->start;
ok($restored->log_contains($says),
	'a base backup says at its start that it has no leanstore tables');
without_contents_ok($restored, 'a base backup');
$restored->stop;

is($primary->safe_psql('postgres', 'SELECT count(*) FROM t'), '2000', 'the primary goes on');
$primary->restart;
is($primary->safe_psql('postgres', 'SELECT count(*) FROM t'), '2000', '... also after a restart');
$primary->leanstore_check_ok('the primary');
done_testing();
