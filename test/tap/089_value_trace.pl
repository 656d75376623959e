# leanstore.trace_values notes what is stored out of line and deleted, and nothing else; the
# simulator of the value log reads it.  A trace has a limit, and no statement fails for it.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $RECORD = 64;
my $CONVERTER = "$ENV{LEANSTORE_STAGE}/value_log";
die "$CONVERTER is missing: run the tests by make test-tap" unless -x $CONVERTER;

my $node = LeanstoreTest->new_node('traces', autovacuum => 'off');
my $traces = $node->data_dir . '/leanstore/traces';
my $folder = PostgreSQL::Test::Utils::tempdir();
$node->safe_psql('postgres', q{
	CREATE FUNCTION noise(seed int, n int) RETURNS text LANGUAGE sql IMMUTABLE AS
	$$ SELECT substr(string_agg(md5(seed::text || '/' || i), '' ORDER BY i), 1, n)
		FROM generate_series(1, n / 32 + 1) i $$;
	CREATE TABLE docs (id int PRIMARY KEY, t text STORAGE external, u text STORAGE external)
		USING leanstore;
	CREATE TABLE heap_docs (id int PRIMARY KEY, t text STORAGE external) USING heap});

# Runs SQL in a session of its own that writes the trace NAME.
sub traced
{
	my ($name, $sql) = @_;
	$node->safe_psql('postgres', "SET leanstore.trace_values = '$name'; $sql");
	return;
}

# The records of the server's file, as lists of operation, bytes, and number of the value.
sub records_of
{
	my ($name) = @_;
	my $bytes = slurp_file("$traces/$name");
	return map { [ (unpack 'a4 L< Q< Q< L< L< L< L< L< L< L< C', $_)[ 11, 7, 6 ] ] }
		unpack "(a$RECORD)*", $bytes;
}

# (exit code, output and errors) of the simulator.
sub simulator
{
	my ($out, $error) = ('', '');
	IPC::Run::run([ $CONVERTER, @_ ], '>', \$out, '2>', \$error);
	return ($? >> 8, $out . $error);
}

# The converter's figures by their names, and the simulator's records as lists of operation, key,
# and bytes.
sub converted
{
	my ($name) = @_;
	my $out = "$folder/$name";
	my ($status, $line) = simulator('convert', '--trace', "$traces/$name", '--out', $out);
	is($status, 0, "$name is converted") or diag($line);
	my %figures = map { /^(.*) (\d+)$/ } split /, /, $line;
	my $bytes = slurp_file($out);
	my @writes = map { [ (unpack 'Q< Q< Q< Q< L< C', $_)[ 5, 1, 4 ] ] }
		unpack '(a40)*', substr($bytes, 16);
	return (\%figures, @writes);
}

# --- Off is off, and only the superuser turns it on -----------------------------------
$node->safe_psql('postgres', q{INSERT INTO docs VALUES (-1, noise(1, 5000));
	UPDATE docs SET t = noise(2, 5000); DELETE FROM docs});
ok(!-e $traces, 'off writes nothing');
$node->safe_psql('postgres', 'CREATE ROLE user_1 LOGIN');
my $set_by_user = q{SET ROLE user_1; SET leanstore.};
foreach my $setting ("trace_values = 'a'", 'trace_values_size = 1000')
{
	my ($status, $out, $error) = $node->psql('postgres', $set_by_user . $setting);
	like($error, qr/permission denied to set parameter/, "a user may not set $setting");
}
foreach my $name ('../a', 'a/b', '/tmp/a', '.', 'a.b', 'off', 'on', 'x' x 64)
{
	my ($status, $out, $error) = $node->psql('postgres', "SET leanstore.trace_values = '$name'");
	like($error, qr/invalid value for parameter "leanstore.trace_values"/, "no trace: $name");
}

# --- What was done is what is told ----------------------------------------------------
# Sizes are bytes as stored, so SQL can count them.  A column that an update leaves alone, and heap,
# are not in the trace.
traced('work', q{
	INSERT INTO docs SELECT i, noise(i, 2500 + i), noise(-i, 5000 + i)
		FROM generate_series(1, 40) i;
	INSERT INTO heap_docs SELECT i, noise(i, 9000) FROM generate_series(1, 10) i});
my $inserted = $node->safe_psql('postgres', 'SELECT count(*) * 2 || \'|\' ||
	sum(octet_length(t) + octet_length(u)) FROM docs');
traced('work', 'UPDATE docs SET u = noise(id + 100, 6000 + id) WHERE id <= 20');
traced('work', 'UPDATE docs SET t = noise(id + 200, 2600 + id), u = noise(id + 300, 7000 + id)
	WHERE id BETWEEN 11 AND 20');
my $updated = $node->safe_psql('postgres', 'SELECT sum(6000 + id) + sum(CASE WHEN id > 10
	THEN 2600 + id + 7000 + id ELSE 0 END) FROM docs WHERE id <= 20');
my $deleted = $node->safe_psql('postgres', 'SELECT count(*) * 2 FROM docs WHERE id % 4 = 0');
traced('work', 'DELETE FROM docs WHERE id % 4 = 0');

my ($puts, $put_bytes) = split /\|/, $inserted;
my @records = records_of('work');
is(scalar(grep { $_->[0] == 1 } @records), $puts + 40, 'each value that was stored');
is(eval { my $sum = 0; $sum += $_->[1] foreach grep { $_->[0] == 1 } @records; $sum },
	$put_bytes + $updated, 'with its size');
is(scalar(grep { $_->[0] == 2 } @records), 40 + $deleted, 'each that was deleted');
my ($figures, @writes) = converted('work');
is_deeply({ %$figures{qw(records new replacing deleted keys sessions tables), 'left out'} }, {
	records => scalar @records, new => $puts, replacing => 40, deleted => $deleted,
	'left out' => 0, keys => $puts, sessions => 4, tables => 1 }, 'the converter adds it up');
my %left;
foreach my $write (@writes)
{
	$left{ $write->[1] } = $write->[2];
	delete $left{ $write->[1] } if $write->[0] == 2;
}
is(join(' ', sort { $a <=> $b } values %left), $node->safe_psql('postgres',
	q{SELECT string_agg(n::text, ' ' ORDER BY n)
		FROM docs, unnest(ARRAY[octet_length(t), octet_length(u)]) n}),
	'the keys that are left have the values that are left');

# --- Keys: an update is one, wherever its row lies; rollback -----------------------------
traced('keys', q{
	INSERT INTO docs VALUES (100, noise(1, 3000));
	UPDATE docs SET t = noise(2, 3100), id = 101 WHERE id = 100;
	BEGIN; UPDATE docs SET t = noise(3, 3200) WHERE id = 101; ROLLBACK;
	UPDATE docs SET t = noise(4, 3300) WHERE id = 101;
	INSERT INTO docs VALUES (101, noise(5, 3400)) ON CONFLICT (id) DO UPDATE SET t = excluded.t;
	UPDATE docs SET u = 'small' WHERE id = 101;
	UPDATE docs SET t = 'small' WHERE id = 101});
($figures, @writes) = converted('keys');
is(join(' ', map { ($_->[0] == 1 ? '+' : '-') . "$_->[1]/$_->[2]" } @writes),
	'+0/3000 +0/3100 +0/3200 +0/3300 +0/3400 -0/0', 'updates of a row are one key');

# --- A table that is written anew keeps its keys ------------------------------------------
traced('anew', q{CREATE TABLE anew (id int, t text STORAGE external) USING leanstore;
	INSERT INTO anew SELECT i, noise(i, 3000 + i) FROM generate_series(1, 5) i;
	UPDATE anew SET t = noise(id, 4000) WHERE id = 1;
	VACUUM FULL anew});
($figures, @writes) = converted('anew');
is("$figures->{keys} $figures->{deleted} $figures->{'left out'}", '5 0 0', 'VACUUM FULL: the keys');
is(scalar @writes, 11, 'are written once more');

# --- All sessions at once, by the configuration file --------------------------------------
$node->safe_psql('postgres', q{ALTER SYSTEM SET leanstore.trace_values = 'all'});
$node->reload;
$node->poll_query_until('postgres', q{SELECT current_setting('leanstore.trace_values') = 'all'});
append_to_file("$folder/updates.sql", q{\set id random(1, 39)
	UPDATE docs SET t = noise((random() * 1000000)::int, 2100 + :id) WHERE id = :id;
});
$node->run_pgbench('postgres', qw(-c 4 -j 2 -t 100 -f), "$folder/updates.sql");
$node->safe_psql('postgres', 'ALTER SYSTEM RESET leanstore.trace_values');
$node->reload;
$node->poll_query_until('postgres', q{SELECT current_setting('leanstore.trace_values') = ''});
($figures, @writes) = converted('all');
my $traced = -s "$traces/all";
is($figures->{sessions}, 4, 'sessions that write at once');
is($figures->{'left out'} + $figures->{deleted}, 0, 'no update of theirs falls apart');
is($figures->{records}, 2 * $figures->{replacing}, 'each is a put and a deletion');
my %last = map { $_->[1] => $_->[2] } @writes;
is(join(' ', sort { $a <=> $b } values %last), $node->safe_psql('postgres',
	q{SELECT string_agg(octet_length(t)::text, ' ' ORDER BY octet_length(t)) FROM docs
		WHERE octet_length(t) BETWEEN 2101 AND 2139}),
	'the last of each key is what is there');
$node->safe_psql('postgres', 'UPDATE docs SET t = noise(id, 2200) WHERE id = 1');
is(-s "$traces/all", $traced, 'off again');

my ($status, $out) = simulator('run', '--trace', "$folder/all", '--policy', 'age,sepbit',
	'--segment-kib', 64);
is($status, 0, 'the simulator runs on it') or diag($out);
like($out, qr/\tsepbit\t/, 'with each policy');

# --- The limit ----------------------------------------------------------------------------
my $log_start = -s $node->logfile;
$node->set_config('leanstore.trace_values' => 'limited', 'leanstore.trace_values_size' => '2kB');
$node->reload;
$node->poll_query_until('postgres',
	q{SELECT current_setting('leanstore.trace_values') = 'limited'});
$node->run_pgbench('postgres', qw(-c 4 -j 2 -t 50 -f), "$folder/updates.sql");
my $size = -s "$traces/limited";
cmp_ok($size, '>=', 2048, 'a trace has its size');
cmp_ok($size, '<=', 2048 + 3 * $RECORD, 'and no more than what sessions wrote at once');
my $log = slurp_file($node->logfile, $log_start);
is(scalar(() = $log =~ /has reached leanstore\.trace_values_size/g), 1, 'the log tells it once');
$node->safe_psql('postgres', q{SET leanstore.trace_values_size = '3kB';
	UPDATE docs SET t = noise(id, 2300) WHERE id <= 3});
cmp_ok(-s "$traces/limited", '>=', 2048 + 6 * $RECORD, 'it goes on with a higher limit');
$node->set_config('leanstore.trace_values' => '');
$node->reload;
$node->poll_query_until('postgres', q{SELECT current_setting('leanstore.trace_values') = ''});

# --- A trace that cannot be written --------------------------------------------------------
mkdir "$traces/folder" or die "cannot make a folder: $!";
symlink("$folder/elsewhere", "$traces/link") or die "cannot make a link: $!";
foreach my $name ('folder', 'link')
{
	$log_start = -s $node->logfile;
	traced($name, 'UPDATE docs SET t = noise(id, 2400) WHERE id <= 3');
	$log = slurp_file($node->logfile, $log_start);
	is(scalar(() = $log =~ /LOG:  could not open trace of values "$name"/g), 1,
		'a statement does not fail for its trace, and the log tells it once');
}
ok(!-e "$folder/elsewhere", 'nothing is written elsewhere');
is($node->safe_psql('postgres', q{SELECT count(*) FROM docs WHERE t = noise(id, 2400)}), '3',
	'its work is done');

# --- Damage ----------------------------------------------------------------------------------
my $good = slurp_file("$traces/work");
foreach my $damage ([ 'a changed bit', substr($good, 0, 100) . '~' . substr($good, 101) ],
	[ 'a missing end', substr($good, 0, -1) ], [ 'a record of zeros', $good . "\0" x $RECORD ],
	[ 'no record', '' ])
{
	my ($what, $bytes) = @$damage;
	open(my $file, '>:raw', "$folder/damaged") or die "cannot write: $!";
	print $file $bytes;
	close $file;
	($status, $out) = simulator('convert', '--trace', "$folder/damaged", '--out', "$folder/none");
	like($out, qr/damaged: (record \d+ has|no records)/, "$what is named");
	is($status, 1, 'and refused');
}
ok(!-e "$folder/none", 'nothing comes of it');
$node->leanstore_check_ok('at the end');
$node->stop;
done_testing();
