# Unlogged tables are kept by a clean restart and emptied by a crash; temporary
# tables leave nothing behind, however their session ended.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeanstoreTest->new_node('crash', 'leanstore.buffer_pool_size' => '16MB');

$node->safe_psql('postgres', q{
	SET default_table_access_method = leanstore;
	CREATE UNLOGGED TABLE un (id int PRIMARY KEY, v int, t text);
	CREATE INDEX un_v ON un USING btree (v);
	CREATE INDEX un_t ON un USING gin (to_tsvector('simple', t));
	CREATE UNLOGGED TABLE un_never (id int PRIMARY KEY);
	CREATE TABLE logged (id int PRIMARY KEY, t text);
	INSERT INTO logged SELECT i, 'l' FROM generate_series(1, 1000) i;
});
my $state = q{SELECT (SELECT count(*) FROM un), (SELECT coalesce(sum(length(t)), 0) FROM un),
	(SELECT count(*) FROM logged), (SELECT count(*) FROM un_never)};
sub fill
{
	$node->safe_psql('postgres',
		q{INSERT INTO un SELECT i, i, CASE WHEN i % 50 = 0 THEN repeat(md5(i::text), 300)
		ELSE 'u' END FROM generate_series(1, 2000) i; UPDATE un SET v = -v WHERE id % 3 = 0});
	return;
}
sub temp_files
{
	return map { s{.*/base/}{}r } glob $node->data_dir . '/base/[0-9]*/t[0-9]*_[0-9]*';
}

sub emptied_ok
{
	my ($what) = @_;

	is($node->safe_psql('postgres', $state), '0|0|1000|0',
		"$what: unlogged tables are empty, logged ones are not");
	is($node->safe_psql('postgres', q{SET enable_seqscan = off;
		SELECT (SELECT count(*) FROM un WHERE v > 0), (SELECT count(*) FROM un WHERE id > 0),
		(SELECT count(*) FROM un WHERE to_tsvector('simple', t) @@ 'u')}),
		'0|0|0', "$what: so are their indexes");
	fill();
	is($node->safe_psql('postgres', $state), '2000|385960|1000|0',
		"$what: they can be filled again");
	$node->leanstore_check_ok($what);
	return;
}

fill();
$node->restart;
like($node->safe_psql('postgres', $state), qr/^2000\|\d+\|1000\|0$/,
	'a clean restart keeps unlogged tables');
CrashDriver::kill_server($node, 'all');
$node->start;
emptied_ok('all processes killed');
$node->safe_psql('postgres', 'CHECKPOINT');
CrashDriver::kill_server($node, 'postmaster');
$node->start;
emptied_ok('killed after a checkpoint');
CrashDriver::kill_process($node, $node->engine_worker_pid);
emptied_ok('engine worker killed');
$node->stop('immediate');
$node->start;
emptied_ok('immediate stop');

# Made, changed or truncated in the same run as the crash.
$node->safe_psql('postgres', q{
	CREATE UNLOGGED TABLE fresh AS SELECT generate_series(1, 1000) AS id;
	TRUNCATE un;
	INSERT INTO un VALUES (1);
	ALTER TABLE un_never SET LOGGED;
	INSERT INTO un_never VALUES (1);
	CREATE TABLE was_logged (id int) USING leanstore;
	INSERT INTO was_logged VALUES (1);
	ALTER TABLE was_logged SET UNLOGGED});
CrashDriver::kill_server($node, 'all');
$node->start;
is($node->safe_psql('postgres', q{SELECT (SELECT count(*) FROM fresh), (SELECT count(*) FROM un),
	(SELECT count(*) FROM un_never), (SELECT count(*) FROM was_logged)}),
	'0|0|1|0', 'what is unlogged at the crash is empty, what has become logged is not');
$node->leanstore_check_ok('after changes of persistence');

# Temporary tables: gone with the session, with a killed backend, with the server.
my $make = q{SET default_table_access_method = leanstore;
	CREATE TEMP TABLE tmp (id int PRIMARY KEY, t text);
	INSERT INTO tmp SELECT i, repeat('t', 3000) FROM generate_series(1, 3000) i;
	UPDATE tmp SET t = 'x' WHERE id % 2 = 0; SELECT count(*) FROM tmp};
my $session = $node->background_psql('postgres', on_error_stop => 0);
is($session->query($make), '3000', 'a temporary table');
cmp_ok(scalar(temp_files()), '>', 0, 'has files');
$session->quit;
$node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity
	WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()});
is(join(' ', temp_files()), '', 'no file is left when the session has ended');

$session = $node->background_psql('postgres', on_error_stop => 0);
$session->query($make);
CrashDriver::kill_process($node, $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity
	WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()}));
eval { $session->quit };
is($node->safe_psql('postgres', 'SELECT count(*) FROM logged'), '1000',
	'after the crash of its backend');
$node->safe_psql('postgres', $make);
$session = $node->background_psql('postgres', on_error_stop => 0);
$session->query($make);
CrashDriver::kill_server($node, 'all');
eval { $session->quit };
$node->start;
is(join(' ', temp_files()), '', 'no file is left after a crash of the server');
is($node->safe_psql('postgres', $make), '3000', 'new temporary tables can be made');
$node->leanstore_check_ok('after temporary tables');
$node->stop('fast');
done_testing();
