# A reader that stays open while all large values are replaced again and again: what it should see
# is there, and when it has gone the file gets short again, without VACUUM.
#
# Environment: READER_SECONDS (6), how long it stays.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $seconds = $ENV{READER_SECONDS} // 6;
my $VALUES = 500;

my $node = LeanstoreTest->new_node('reader',
	autovacuum => 'off',
	'leanstore.buffer_pool_size' => '32MB',
	'leanstore.checkpoint_timeout' => '5s');

sub sql { return $node->safe_psql('postgres', $_[0]); }

sub space
{
	my ($column) = @_;

	return sql("SELECT $column FROM leanstore_stat_values WHERE relid = 'docs'::regclass");
}

# Of 2 to 34 KB, so that freed runs of pages do not fit the next values.
sql(qq{
	CREATE FUNCTION content(id int, version int) RETURNS text LANGUAGE sql IMMUTABLE AS
	\$\$ SELECT repeat(md5(id || ':' || version), 64 + (id * 37 + version * 101) % 1000) \$\$;
	CREATE TABLE docs (id int PRIMARY KEY, version int, t text STORAGE external) USING leanstore;
	INSERT INTO docs SELECT i, 0, content(i, 0) FROM generate_series(1, $VALUES) i});
my $script = PostgreSQL::Test::Utils::tempdir() . '/update.sql';
append_to_file($script, "\\set id random(1, $VALUES)\n"
	. "UPDATE docs SET version = version + 1, t = content(id, version + 1) WHERE id = :id;\n");

my $DIGEST = q{SELECT concat_ws(' ', count(*), sum(version),
	md5(string_agg(md5(t), '' ORDER BY id)),
	count(*) FILTER (WHERE t <> content(id, version))) FROM docs};
my $reader = $node->background_psql('postgres', on_error_die => 1,
	timeout => $seconds + 300);
my $before = $reader->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; $DIGEST");
like($before, qr/^$VALUES 0 \w+ 0$/, 'what a reader sees');

my $load = $node->start_pgbench('postgres', '-c', 3, '-T', $seconds + 600, '-f', $script);
my $until = time + $seconds;
my ($looks, $wrong) = (0, 0);
do
{
	usleep(300_000);
	$looks++;
	$wrong++ if $reader->query_safe($DIGEST) ne $before;
} while (time < $until);
$node->stop_pgbench($load);
is($wrong, 0, "it sees the same $looks times while others update");
my ($updates, $largest) = (sql('SELECT sum(version) FROM docs'), space('bytes'));
cmp_ok($updates, '>', $VALUES, 'all values were replaced meanwhile');

$reader->query_safe('COMMIT');
$reader->quit;
my $began = time;
my $LIVE = 'SELECT sum(octet_length(t)) FROM docs';
ok($node->poll_query_until('postgres', "SELECT bytes <= 1.3 * ($LIVE)
	FROM leanstore_stat_values WHERE relid = 'docs'::regclass"),
	'when it has gone the file gets as short as 1.3 of what lives');
note sprintf('%d updates, file %.1f MB with the reader, %.1f MB %.1f s after it, live %.1f MB',
	$updates, $largest / 1e6, space('bytes') / 1e6, time - $began, sql($LIVE) / 1e6);
is(sql('SELECT count(*) FROM docs WHERE t <> content(id, version)'), '0', 'all values are whole');
$node->leanstore_check_ok('after the reader');

$node->stop;
done_testing();
