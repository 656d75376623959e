# Damage is found, named and kept apart.  A flipped bit in a table's or an index's
# file, or wrong bytes under a right checksum, as memory that fails leaves them: a
# session that reads the page gets XX001 with relation, file and page, other tables
# work, and leanstore_check reports it.  A flipped bit in the middle of the log:
# the engine refuses to start from it, rather than lose the commits behind it
# silently; what a crash leaves at the log's end is no damage.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use SealedPage;
use Test::More;

my $PAGE = 4096;
my $node = LeanstoreTest->new_node('damage',
	'leanstore.wal_segment_size' => '1MB',
	'leanstore.checkpoint_timeout' => '1h',
	checkpoint_timeout => '1h',
	autovacuum => 'off');

$node->safe_psql('postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, v text) USING leanstore;
	CREATE TABLE other (id int PRIMARY KEY, v text) USING leanstore;
	INSERT INTO t SELECT i, repeat('t', 300) FROM generate_series(1, 3000) i;
	INSERT INTO other SELECT i, 'o' FROM generate_series(1, 1000) i});
my %file = map { split /\|/ } split /\n/, $node->safe_psql('postgres', q{
	SELECT relname, pg_relation_filepath(oid) FROM pg_class WHERE relname IN ('t', 't_pkey')});

# (SQLSTATE or "ok", everything psql said)
sub outcome
{
	my ($query) = @_;
	my ($status, $out, $error) = $node->psql('postgres', "\\set VERBOSITY verbose\n$query");

	return ('ok', $out) if $status == 0 && $error !~ /ERROR/;
	return ($error =~ /ERROR:  (\w{5})/ ? $1 : 'none', $error);
}

sub flip
{
	my ($path, $offset) = @_;

	open(my $file, '+<:raw', $path) or die "cannot open $path: $!";
	sysseek $file, $offset, 0 or die "cannot seek: $!";
	sysread($file, my $byte, 1) or die "cannot read: $!";
	sysseek $file, $offset, 0;
	syswrite $file, chr(ord($byte) ^ 0x10);
	close $file;
	return;
}

# --- A page ---------------------------------------------------------------------
$node->stop('fast');
my $LEAF = 24;     # where a node says whether it is a leaf,
my $COUNT = 26;    # and how many entries it has
my @DAMAGES = map { [ $_, 'flip' ], [ $_, 'overwrite' ] } 't', 't_pkey';
foreach my $damage (@DAMAGES)
{
	my ($name, $way) = @$damage;
	my $path = $node->data_dir . "/$file{$name}";
	my $pages = (-s $path) / $PAGE;
	# A leaf that is not the first: the others can be read beside it.
	my $damaged;
	open(my $in, '<:raw', $path) or die "cannot open $path: $!";
	foreach my $page (2 .. $pages - 1)
	{
		sysseek $in, $page * $PAGE, 0;
		sysread($in, my $bytes, $PAGE);
		$damaged = $page if substr($bytes, $LEAF, 1) eq "\1";
		last if defined $damaged && $page > $pages / 2;
	}
	close $in;
	my $before;
	if ($way eq 'flip') { flip($path, $damaged * $PAGE + 2000); }
	else { $before = SealedPage::overwrite($path, $damaged, $COUNT, pack 'v', 0x7fff); }
	$node->start;

	my $query = $name eq 't' ? 'SELECT count(v) FROM t'
	  : q{SET enable_seqscan = off; SET enable_bitmapscan = off;
		SELECT count(id) FROM t WHERE id > 0};
	my ($state, $text) = outcome($query);
	is($state, 'XX001', "$name, $way: a damaged page is an error") || diag($text);
	like($text, qr/leanstore relation "$name"/, "$name, $way: which names the relation");
	my $place = qr/File "\Q$file{$name}\E", page $damaged \(offset @{[ $damaged * $PAGE ]}\)/;
	like($text, $place, "$name, $way: and file, page and offset");
	like($text, qr/^LOCATION:  \w+\.[ch]pp:\d+$/m, "$name, $way: and the engine's line");
	($state, $text) = outcome('SELECT leanstore_check($$t$$)');
	is($state, 'XX001', "$name, $way: leanstore_check finds it") || diag($text);
	like($text, qr/page $damaged/, "$name, $way: and names the page");
	my $others = 'SELECT count(*) FROM other; INSERT INTO other VALUES (-1);'
	  . ' DELETE FROM other WHERE id = -1; SELECT leanstore_check($$other$$)';
	is((outcome($others))[0], 'ok', "$name, $way: other tables work");
	($state, $text) = outcome('SELECT v = repeat($$t$$, 300) FROM t WHERE id = 1');
	is("$state $text", 'ok t', "$name, $way: so do other pages of this one");

	$node->stop('fast');
	if ($way eq 'flip') { flip($path, $damaged * $PAGE + 2000); }
	else { SealedPage::overwrite($path, $damaged, $COUNT, $before); }
	$node->start;
	is((outcome($query))[1], 3000, "$name, $way: with the bytes as they were all is there");
	$node->leanstore_check_ok("after $name, $way");
	$node->stop('fast');
}

# --- The log --------------------------------------------------------------------
# Positions of the rounds from FROM on, and of the end.
sub rounds
{
	my ($position) = @_;
	my @rounds;

	for (;;)
	{
		push @rounds, $position;
		open(my $in, '<:raw', log_path($position)) or last;
		sysseek $in, $position % 2**20, 0;
		# A header across two segments is skipped over: none of what follows is looked for there.
		(sysread($in, my $header, 32) // 0) == 32 or last;
		my ($magic, $bytes, $lsn_low) = unpack 'a4 x4 V x12 V', $header;
		last if $magic ne 'LSL4' || $lsn_low != $position % 2**32;
		$position += $bytes;
	}
	return @rounds;
}

sub log_path
{
	my ($position) = @_;
	return sprintf '%s/leanstore/wal/%016x', $node->data_dir, int($position / 2**20);
}

$node->start;
$node->safe_psql('postgres', 'SELECT leanstore_checkpoint()');
foreach my $i (1 .. 20)
{
	$node->safe_psql('postgres', "INSERT INTO other VALUES (-$i, 'acknowledged')");
}
my $redo = $node->safe_psql('postgres', 'SELECT log_redo_position FROM leanstore_stat_wal');
CrashDriver::kill_server($node, 'all');
my @rounds = rounds($redo);
cmp_ok(scalar @rounds, '>', 20, 'the log has many rounds');

# In the middle, before many commits that were acknowledged; in a round's header; and in the first
# round.
#
# With leanstore.log = wal the replay of WAL writes these rounds once more, as they were.
foreach my $place (LeanstoreTest::in_wal() ? () : (
	[ $rounds[ @rounds / 2 ] + 60, 'a record' ],
	[ $rounds[ @rounds / 2 ] + 10, 'a header' ], [ $rounds[0] + 50, 'the first round' ]))
{
	my ($position, $what) = @$place;
	my $log_start = -s $node->logfile;

	flip(log_path($position), $position % 2**20);
	$node->start;
	my ($state, $text) = outcome('SELECT count(*) FROM other');
	is($state, 'XX001', "$what damaged: leanstore tables cannot be used") || diag($text);
	like($text, qr/the log is damaged at position \d+/, "$what damaged: the error says so");
	ok($node->log_contains(qr/leanstore recovery failed: the log is damaged at position \d+.*\n.*wal\/[0-9a-f]{16}/,
		$log_start), "$what damaged: the server's log names the file");
	is((outcome('CREATE TABLE IF NOT EXISTS on_heap (id int) USING heap;
		INSERT INTO on_heap VALUES (1)'))[0], 'ok', "$what damaged: heap works");
	CrashDriver::kill_server($node, 'all');
	flip(log_path($position), $position % 2**20);
}

# What a crash in the middle of a write leaves: a part of a round that no client was told of.
my $end = $rounds[-1];
open(my $out, '+<:raw', log_path($end)) or die "cannot open the log: $!";
open(my $in, '<:raw', log_path($rounds[-2])) or die "cannot open the log: $!";
sysseek $in, $rounds[-2] % 2**20, 0;
sysread($in, my $torn, 32);
substr($torn, 24, 4) = pack 'V', $end % 2**32;
sysseek $out, $end % 2**20, 0;
syswrite $out, $torn . ('x' x 30);
close $out;
close $in;
$node->start;
is((outcome(q{SELECT count(*) FROM other WHERE v = 'acknowledged'}))[1], 20,
	'a torn round at the end is no damage, and no acknowledged commit is missing');
$node->leanstore_check_ok('after the crash with a torn round');
$node->stop;
done_testing();
