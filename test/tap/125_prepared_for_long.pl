# A transaction stays prepared over crashes, while later ones delete and replace rows and large
# values.  What these leave is not removed before it ends, is not taken for free meanwhile, and is
# removed then, by VACUUM or by a scan.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $noise = q{(SELECT string_agg(md5(id || '/' || i), '' ORDER BY i)
	FROM generate_series(1, 640) i)};

foreach my $log (qw(engine wal))
{
	my $node = LeanstoreTest->new_node($log, 'leanstore.log' => $log,
		max_prepared_transactions => 4, autovacuum => 'off');
	my $state = q{SELECT count(*), sum(n), md5(string_agg(id || md5(t), ',' ORDER BY id)) FROM d};
	my $ghosts = sub {
		my (undef, undef, $messages) = $node->psql('postgres',
			q{SET client_min_messages = debug1; SELECT leanstore_check('d')});
		return $messages =~ /(\d+) ghosts/ ? $1 : undef;
	};
	my $crash = sub {
		CrashDriver::kill_server($node, 'all');
		$node->start;
	};

	$node->safe_psql('postgres', qq{
		CREATE TABLE d (id int PRIMARY KEY, n int, t text STORAGE external) USING leanstore;
		CREATE TABLE p (id int PRIMARY KEY, n int) USING leanstore;
		INSERT INTO p SELECT g, 0 FROM generate_series(1, 10) g;
		INSERT INTO d SELECT id, 0, $noise FROM generate_series(1, 200) id;
		BEGIN;
		UPDATE p SET n = 1;
		UPDATE d SET n = 1, t = 'prepared' WHERE id = 1;
		DELETE FROM d WHERE id = 2;
		INSERT INTO d SELECT id, 1, $noise FROM generate_series(1001, 1010) id;
		PREPARE TRANSACTION 'p'});
	foreach my $round (1 .. 2)
	{
		# ended before the crash, begun behind what is prepared
		$node->safe_psql('postgres', qq{
			DELETE FROM d WHERE id BETWEEN 50 * $round AND 50 * $round + 30;
			UPDATE d SET n = n + 1, t = t || 'x' WHERE id BETWEEN 10 AND 20;
			INSERT INTO d SELECT id, 0, $noise
				FROM generate_series(300 + 20 * $round, 310 + 20 * $round) id});
		my $before = $node->safe_psql('postgres', $state);
		$node->safe_psql('postgres', 'SELECT leanstore_checkpoint()') if $round == 1;
		$crash->();
		is($node->safe_psql('postgres', $state), $before, "$log $round: all is as before");
		$node->leanstore_check_ok("$log $round: behind the crash");
		$node->safe_psql('postgres', 'VACUUM d');
		# values of new rows take no page that is needed
		$node->safe_psql('postgres', qq{
			INSERT INTO d SELECT id, 0, $noise FROM generate_series(500, 540) id;
			DELETE FROM d WHERE id BETWEEN 500 AND 540});
		is($node->safe_psql('postgres', $state), $before, "$log $round: behind new values");
		is($node->safe_psql('postgres', 'SELECT sum(n) FROM p'), 0, "$log $round: it is prepared");
		$node->leanstore_check_ok("$log $round: behind new values");
	}
	# no scan and no cleaner can have removed them before it ends
	isnt($ghosts->(), '0', "$log: deleted rows are there while it is prepared");
	$node->safe_psql('postgres', $log eq 'wal' ? q{ROLLBACK PREPARED 'p'} : q{COMMIT PREPARED 'p'});
	is($node->safe_psql('postgres', q{SELECT (SELECT sum(n) FROM p),
		(SELECT count(*) FROM d WHERE id > 1000 OR t = 'prepared')}),
		$log eq 'wal' ? '0|0' : '10|11', "$log: it has ended");
	if ($log eq 'engine')
	{
		$node->safe_psql('postgres', 'VACUUM d; VACUUM p');
	}
	else
	{
		# a scan removes what no cleaner comes for, when the horizon has passed it
		foreach (1 .. 200)
		{
			$node->safe_psql('postgres', 'SELECT count(*) FROM d');
			last if $ghosts->() eq '0';
			usleep(50_000);
		}
	}
	is($ghosts->(), '0', "$log: and then they are not");
	$node->leanstore_check_ok("$log: ended");
	$crash->();
	$node->leanstore_check_ok("$log: ended, after a crash");
	$node->stop;
}
done_testing();
