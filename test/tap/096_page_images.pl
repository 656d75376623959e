# leanstore.log = wal: WAL has the image of each page that was changed since the engine's last
# checkpoint, as full_page_writes says.
#
# Everything is killed under load; then pages that were changed since a checkpoint are torn, as they
# may be in a copy of the files.  With images the log makes them whole; without, recovery names one.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

use constant { PAGE_BYTES => 4096, KIND_AT => 12, LEAF => 2, META => 1 };

my $node = LeanstoreTest->new_node('page_images',
	'leanstore.log' => 'wal',
	'leanstore.buffer_pool_size' => '16MB',
	'leanstore.checkpoint_timeout' => '1h',
	'leanstore.max_wal_size' => '1GB',
	shared_buffers => '16MB',
	full_page_writes => 'on');

$node->pgbench_init('postgres', 2);
$node->safe_psql('postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, n int, filler text) USING leanstore;
	INSERT INTO t SELECT i, 0, repeat('f', i % 300) FROM generate_series(1, 20000) i});

# Of each page from a place on, of the meta page behind the sector that tells of which store it is.
sub tear
{
	my ($path) = @_;
	my $torn = 0;

	open(my $file, '+<:raw', $path) or die "cannot open $path: $!";
	for (my $page = 0; sysread($file, my $content, PAGE_BYTES) == PAGE_BYTES; $page++)
	{
		my $kind = ord substr($content, KIND_AT, 1);
		next unless $kind == LEAF || $kind == META;
		my $kept = $kind == META ? 512 : 512 * int(rand 8);
		my $garbage = join '', map { chr(int(rand 256)) } 1 .. 64;
		substr($content, $kept) = $garbage x ((PAGE_BYTES - $kept) / 64);
		sysseek $file, $page * PAGE_BYTES, 0;
		syswrite($file, $content) == PAGE_BYTES or die "cannot write $path: $!";
		$torn++;
	}
	close $file or die "cannot close $path: $!";
	return $torn;
}

# All rows are changed behind a checkpoint, with every leaf; the meta page by a reservation of row
# ids.  VACUUM takes the leaves of deleted rows away, which nothing would change.  Returns how many
# pages were torn.
sub change_kill_and_tear
{
	my ($times) = @_;
	my $path = $node->data_dir . '/'
		. $node->safe_psql('postgres', q{SELECT pg_relation_filepath('t')});

	$node->safe_psql('postgres', $_) foreach 'VACUUM t', 'SELECT leanstore_checkpoint()';
	my $load = $node->start_pgbench('postgres', qw(-c 4 -j 1 -T 60));
	$node->poll_query_until('postgres', 'SELECT count(*) > 0 FROM pgbench_history')
		or die 'pgbench does nothing';
	$node->safe_psql('postgres', q{UPDATE t SET n = n + 1}) foreach 1 .. $times;
	$node->safe_psql('postgres', q{INSERT INTO t SELECT -i, 0 FROM generate_series(1, 5000) i;
		DELETE FROM t WHERE id < 0});
	CrashDriver::kill_server($node, 'all');
	$node->finish_pgbench($load);
	return tear($path);
}

foreach my $round (1 .. 3)
{
	cmp_ok(change_kill_and_tear($round), '>', 100, "pages are torn, round $round");
	$node->start;
	is($node->safe_psql('postgres', 'SELECT count(*), sum(n) FROM t'),
		join('|', 20000, 20000 * $round * ($round + 1) / 2), "all rows are there, round $round");
	$node->pgbench_balanced_ok('postgres', "round $round");
	$node->leanstore_check_ok("round $round");
}
cmp_ok($node->safe_psql('postgres',
		q{SELECT count(*) FROM leanstore_wal_inspect() WHERE operation = 'page image'}),
	'>=', 0, 'images have a name');

# --- Without images ---------------------------------------------------------------
$node->append_conf('postgresql.conf', 'full_page_writes = off');
$node->restart;
cmp_ok(change_kill_and_tear(1), '>', 100, 'pages are torn, without images');
my $answers = $node->start(fail_ok => 1)
	&& eval { $node->safe_psql('postgres', 'SELECT count(*) FROM t'); 1 };
ok(!$answers, 'the server does not come up');
like(slurp_file($node->logfile), qr/checksum does not match/, 'and says why');
$node->stop('immediate', fail_ok => 1);

done_testing();
