# leanstore.log = wal: pg_rewind copies from a server that has not written its pages since it was
# promoted.
#
# The engine of a standby stands still while that is promoted, so that PostgreSQL's checkpoint ends
# without it.  What the standby has replayed may not be in its files then, and replay of the rewound
# server begins behind that: it says so, and shows no tables.
use strict;
use warnings FATAL => 'all';

use CopiedServer;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = LeanstoreTest->prepare_node('primary',
	init => { allows_streaming => 1 },
	'leanstore.log' => 'wal',
	wal_log_hints => 'on',
	wal_keep_size => '1GB');
$primary->start;
$primary->safe_psql('postgres', q{
	CREATE EXTENSION leanstore_am;
	CREATE TABLE t (id int PRIMARY KEY, n int) USING leanstore;
	INSERT INTO t SELECT i, 0 FROM generate_series(1, 2000) i});
$primary->backup('backup', backup_options => [ '-c', 'fast' ]);
my $standby = LeanstoreTest->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;
$standby->poll_query_until('postgres', 'SELECT count(*) = 2000 FROM t') or die 'it does not follow';

$primary->safe_psql('postgres', 'UPDATE t SET n = 1');
$primary->safe_psql('postgres', 'CHECKPOINT');
$primary->wait_for_catchup($standby);
my $engine = $standby->safe_psql('postgres',
	q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'leanstore engine worker'});
kill STOP => $engine or die "cannot stop the engine: $!";
my $timeline = 'SELECT timeline_id FROM pg_control_checkpoint()';
my $before = $standby->safe_psql('postgres', $timeline);
$standby->promote;
$standby->poll_query_until('postgres', "SELECT ($timeline) > $before")
  or die 'there is no checkpoint';
kill CONT => $engine or die "cannot continue the engine: $!";
$standby->poll_query_until('postgres', 'SELECT sum(n) = 2000 FROM t') or die 'it is not ready';
ok(-e $standby->data_dir . '/leanstore/unwritten', 'it has a file that says so');

$primary->safe_psql('postgres', 'UPDATE t SET n = 2');
$primary->stop;
CopiedServer::rewind($primary, $standby);
$primary->start;
my ($status, $out, $error) = $primary->psql('postgres', 'SELECT count(*) FROM t');
like($error, qr/leanstore tables cannot be used in a server that was started/,
	'a rewound server without its pages shows no tables');
like(slurp_file($primary->logfile), qr/that had not written all leanstore tables since/,
	'and says why');
$primary->stop;

is($standby->safe_psql('postgres', 'SELECT count(*), sum(n) FROM t'), '2000|2000',
	'the new primary has all rows');
$standby->safe_psql('postgres', 'CHECKPOINT');
ok(!-e $standby->data_dir . '/leanstore/unwritten', 'behind a checkpoint the file is gone');
$standby->leanstore_check_ok('the new primary');
$standby->stop;
done_testing();
