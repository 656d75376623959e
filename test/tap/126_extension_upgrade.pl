# From version 1.0 of the extension to 1.1: SQL objects and files.  A store of files of version 11
# that was shut down is taken over, with either log; tables work before ALTER EXTENSION UPDATE.
# What cannot be taken over, and the way back, are refused with a message that says what to do.
#
# test/upgrade/run has the old version itself write the store; here only the control file says so.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use SealedPage;
use Test::More;

plan skip_all => 'heap has no files of its own'
  if !-e "$ENV{LEANSTORE_STAGE}/share/extension/leanstore_am--1.0.sql";

my ($VERSION_AT, $CHECKSUM_AT) = (8, 12);

# A function that changes the version of the store's files, and returns the one before.
sub file_version
{
	my ($node, $new) = @_;
	my $path = $node->data_dir . '/leanstore/control';
	my $content = slurp_file($path);
	my $old = unpack 'V', substr($content, $VERSION_AT, 4);

	return $old if !defined $new;
	substr($content, $VERSION_AT, 4) = pack 'V', $new;
	open my $file, '>:raw', $path or die "cannot open $path: $!";
	print {$file} SealedPage::seal($content, $CHECKSUM_AT);
	close $file or die "cannot write $path: $!";
	return $old;
}

# What the extension has, with privileges.
my $objects = q{SELECT pg_describe_object(d.classid, d.objid, 0), p.proacl::text, p.provolatile
	FROM pg_depend d LEFT JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
	WHERE refobjid = (SELECT oid FROM pg_extension WHERE extname = 'leanstore_am') AND deptype = 'e'
	ORDER BY 1};
my $state = q{SELECT count(*), sum(n), md5(string_agg(id || v || md5(coalesce(big, '')), ','
	ORDER BY id)) FROM t};

foreach my $log (qw(engine wal))
{
	my $node = LeanstoreTest->prepare_node($log);
	$node->set_config('leanstore.log' => $log, max_prepared_transactions => 4);
	$node->start;
	$node->safe_psql('postgres', q{
		CREATE EXTENSION leanstore_am VERSION '1.0';
		CREATE TABLE t (id int PRIMARY KEY, n int, v text, big text STORAGE external)
			USING leanstore;
		CREATE INDEX ON t (v);
		INSERT INTO t SELECT i, 0, 'v' || i,
			CASE WHEN i % 100 = 0 THEN repeat(md5(i::text), 300) END
			FROM generate_series(1, 3000) i;
		UPDATE t SET n = n + 1, v = v || '+' WHERE id % 3 = 0;
		DELETE FROM t WHERE id % 7 = 0});
	my $before = $node->safe_psql('postgres', $state);

	$node->stop;
	my $current = file_version($node, 11);
	is($current, 12, "$log: files are of version 12");
	$node->start;
	is($node->safe_psql('postgres', $state), $before, "$log: all is there");
	$node->leanstore_check_ok("$log: taken over");
	$node->safe_psql('postgres', q{UPDATE t SET n = n + 1, v = v || '-' WHERE id % 2 = 0;
		INSERT INTO t SELECT i, 5, 'new', repeat('x', 9000) FROM generate_series(4001, 4050) i});
	my ($status, undef, $error) = $node->psql('postgres', 'SELECT leanstore_version()');
	isnt($status, 0, "$log: 1.0 has no leanstore_version()");
	like($error, qr/does not exist/, "$log: and says so");
	is($node->safe_psql('postgres', q{ALTER EXTENSION leanstore_am UPDATE;
		SELECT extversion FROM pg_extension WHERE extname = 'leanstore_am'}), '1.1',
		"$log: updated");
	is($node->safe_psql('postgres', 'SELECT * FROM leanstore_version()'), '1.1|12|11',
		"$log: versions");
	is($node->safe_psql('postgres', q{SELECT version FROM pg_get_loaded_modules()
		WHERE module_name = 'leanstore_am'}), '1.1', "$log: and of the module");
	$node->safe_psql('postgres', 'CREATE DATABASE fresh TEMPLATE template0');
	$node->safe_psql('fresh', 'CREATE EXTENSION leanstore_am');
	is($node->safe_psql('postgres', $objects), $node->safe_psql('fresh', $objects),
		"$log: it is as a new one");

	$before = $node->safe_psql('postgres', $state);
	CrashDriver::kill_server($node, 'all');
	is(file_version($node), 12, "$log: the first start has written the new version");
	$node->start;
	is($node->safe_psql('postgres', $state), $before, "$log: all is there behind a crash");
	$node->leanstore_check_ok("$log: behind a crash");

	# the way back
	($status, undef, $error) =
		$node->psql('postgres', q{ALTER EXTENSION leanstore_am UPDATE TO '1.0'});
	isnt($status, 0, "$log: the extension has no way back");
	like($error, qr/no update path from version "1.1" to version "1.0"/, "$log: and says so");

	# what a start refuses: a later version, one before the oldest, an old one with a log to recover
	my $refuses = sub {
		my ($version, $message, $what) = @_;
		my $was = file_version($node, $version);
		my $logged = -s $node->logfile;

		ok(!$node->start(fail_ok => 1) || $node->psql('postgres', $state) != 0, "$log: $what");
		ok($node->log_contains($message, $logged), "$log: $what: the log says what to do");
		$node->stop('immediate', fail_ok => 1);
		file_version($node, $was);
	};
	$node->stop;
	$refuses->(13, qr/version 13.*a later version of the engine has used the store/,
		'a later version is refused');
	$refuses->(10, qr/version 10.*start and stop the store with a version.*between/,
		'a version before the oldest is refused');
	$node->start;
	is($node->safe_psql('postgres', $state), $before, "$log: none of this has changed anything");
	$node->safe_psql('postgres', 'UPDATE t SET n = n + 1 WHERE id < 10');
	CrashDriver::kill_server($node, 'all');
	$refuses->(11, qr/version 11 of a store that was not shut down cleanly; start and stop it/,
		'an old version with a log to recover is refused');
	$node->start;
	$node->leanstore_check_ok("$log: in the end");
	$node->stop;
}
done_testing();
