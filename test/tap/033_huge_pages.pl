# The arena is a mapping of its own that the kernel can back with huge pages, unless
# huge_pages = off; also after a process was killed and the server has made its shared
# memory anew.  How much becomes huge is the kernel's choice and only told.
use strict;
use warnings FATAL => 'all';
no warnings 'portable';    # addresses are numbers of more than 32 bits

use LeanstoreTest;
use Test::More;

use constant HUGE_PAGE => 2 * 1024 * 1024;

my $pool = 64 * 1024 * 1024;
my $node = LeanstoreTest->new_node(
	'huge_pages',
	'leanstore.buffer_pool_size' => '64MB',
	'huge_pages' => 'try',
	'shared_buffers' => '16MB',
	'autovacuum' => 'off');

# Shared anonymous mappings with room for the pool that begin, as their files do, on a huge page.
sub arenas
{
	my @found;
	open(my $maps, '<', "/proc/$node->{_pid}/maps") or die "cannot read maps: $!";
	while (<$maps>)
	{
		next unless /^([0-9a-f]+)-([0-9a-f]+) rw-s ([0-9a-f]+) .*\/dev\/zero/;
		my ($from, $to, $offset) = map { hex } ($1, $2, $3);
		push @found, $from if $offset == 0 && $from % HUGE_PAGE == 0 && $to - $from >= $pool;
	}
	close $maps;
	return scalar @found;
}

sub huge_kilobytes
{
	my $sum = 0;
	open(my $smaps, '<', '/proc/' . $node->engine_worker_pid . '/smaps')
		or die "cannot read smaps: $!";
	/^ShmemPmdMapped:\s+(\d+)/ and $sum += $1 while <$smaps>;
	close $smaps;
	return $sum;
}

sub rows_ok
{
	my ($rows, $name) = @_;
	is($node->safe_psql('postgres', q{SELECT count(*), sum(length(filler)) FROM t}),
		"$rows|" . $rows * 1000, $name);
	$node->leanstore_check_ok($name);
}

$node->safe_psql('postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, filler text STORAGE PLAIN) USING leanstore;
	INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 20000) i;});

SKIP:
{
	skip 'the server has huge pages of its own', 2
		if $node->safe_psql('postgres', 'SHOW huge_pages_status') eq 'on';
	is(arenas(), 1, 'the arena can have huge pages');
	$node->kill9_process($node->child_pid('background writer'));
	is(arenas(), 1, 'and after a crash');
}
rows_ok(20000, 'nothing is lost');
$node->safe_psql('postgres',
	q{INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(20001, 40000) i});
note(huge_kilobytes() . ' kB of it are in huge pages');
rows_ok(40000, 'while pages become huge');

# The server's whole segment may begin on a huge page by chance, one time in 512.
$node->set_config(huge_pages => 'off');
my $starts = 0;
do { $node->restart } until arenas() == 0 || ++$starts == 3;
is(arenas(), 0, 'not with huge_pages = off')
	unless $node->safe_psql('postgres', 'SHOW huge_pages_status') eq 'on';
rows_ok(40000, 'nor is anything lost there');
$node->stop('fast');
done_testing();
