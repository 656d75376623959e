# Files that VACUUM makes shorter while others fill and empty them survive SIGKILL of the postmaster
# and of all processes: nothing that was committed is lost, recovery redoes the log over pages that
# are gone, and the files are cut again afterwards.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = LeanstoreTest->new_node('cut',
	'autovacuum' => 'off',
	'leanstore.buffer_pool_size' => '16MB',
	'leanstore.wal_segment_size' => '1MB',
	'leanstore.checkpoint_timeout' => '1s');
my $directory = PostgreSQL::Test::Utils::tempdir();

$node->safe_psql('postgres', q{
	CREATE TABLE emptied (id int PRIMARY KEY, v text) USING leanstore;
	CREATE TABLE halved (id int PRIMARY KEY, v text) USING leanstore;
	INSERT INTO halved SELECT i, repeat('h', 300) FROM generate_series(1, 2000) i;
	CREATE TABLE kept (n int PRIMARY KEY, rows int) USING leanstore;
	INSERT INTO kept VALUES (1, 2000)});

my %scripts = (
	fill => q{
BEGIN;
INSERT INTO emptied SELECT i, repeat('e', 300)
	FROM generate_series(1, 1000) i ON CONFLICT DO NOTHING;
INSERT INTO halved SELECT i, repeat('h', 300)
	FROM generate_series(2001, 4000) i ON CONFLICT DO NOTHING;
UPDATE kept SET rows = 4000;
COMMIT;
BEGIN;
DELETE FROM emptied;
DELETE FROM halved WHERE id > 2000;
UPDATE kept SET rows = 2000;
COMMIT;
},
	vacuum => "VACUUM emptied, halved;\n");
foreach my $name (keys %scripts)
{
	open(my $file, '>', "$directory/$name.sql") or die $!;
	print $file $scripts{$name};
	close $file;
}

# Positions of the files' ends, one after the other, to see that they move both ways.
sub sizes
{
	return $node->safe_psql('postgres',
		q{SELECT pg_relation_size('emptied') / 8192, pg_relation_size('emptied_pkey') / 8192});
}

foreach my $how (qw(postmaster all all postmaster all))
{
	my @runs = map { $node->start_pgbench('postgres', '-n', '-c', 1, '-T', 60,
		'-f', "$directory/$_.sql") } sort keys %scripts;
	# The client fills and empties the table by turns, so that rows that are there at all show that
	# it runs.
	$node->poll_query_until('postgres', 'SELECT count(*) > 0 FROM emptied')
		or die 'no load on emptied';
	usleep(300_000 + rand 1_500_000);
	CrashDriver::kill_server($node, $how);
	$node->finish_pgbench($_) foreach @runs;
	$node->start;

	is($node->safe_psql('postgres', q{
		SELECT (SELECT count(*) FROM halved) = rows, (SELECT count(*) FROM emptied) IN (0, 1000),
			(SELECT count(*) FROM halved WHERE id <= 2000) FROM kept}), 't|t|2000',
				"$how: what was committed is there");
	$node->leanstore_check_ok($how);
	$node->safe_psql('postgres', 'DELETE FROM emptied');
	$node->safe_psql('postgres', 'VACUUM emptied');
	is(sizes(), '1|1', "$how: and the files are cut as before");
}

# A cut goes on: with the pages of the log before it gone, and with none of them written.
$node->safe_psql('postgres',
	q{INSERT INTO emptied SELECT i, repeat('e', 300) FROM generate_series(1, 3000) i});
$node->safe_psql('postgres', 'DELETE FROM emptied');
$node->safe_psql('postgres', 'VACUUM emptied');
is(sizes(), '1|1', 'the file is cut');
$node->safe_psql('postgres', q{INSERT INTO emptied VALUES (1, 'after')});
CrashDriver::kill_server($node, 'all');
$node->start;
is($node->safe_psql('postgres', 'SELECT v FROM emptied'), 'after',
	'what came after the cut is there');
$node->leanstore_check_ok('after the cut');
is(sizes(), '1|1', 'redo has not made the file longer');

# A session with the table open is not waited for; one that only reads it is not harmed.
$node->safe_psql('postgres',
	q{INSERT INTO emptied SELECT i, repeat('e', 300) FROM generate_series(2, 3000) i});
my $reader = $node->background_psql('postgres');
$reader->query_safe('BEGIN; SELECT count(*) FROM kept; SELECT 1 FROM emptied LIMIT 1');
$node->safe_psql('postgres', 'DELETE FROM emptied');
my ($out, $err);
$node->psql('postgres', 'VACUUM (VERBOSE) emptied', stderr => \$err);
unlike($err, qr/truncated/, 'nothing is cut under a lock');
$reader->query_safe('COMMIT');
$reader->quit;
$node->safe_psql('postgres', 'VACUUM emptied');
is(sizes(), '1|1', 'afterwards it is');

done_testing();
