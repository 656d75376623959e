# A row that others share without a gap: a session that wants to change it gets its turn, and leaves
# nothing behind however it ends.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use Test::More;

# Longer than any test: no session goes on because that time is up.
my $node = LeanstoreTest->new_node('turn', deadlock_timeout => '300s');

# Shares the row again and again, and gives it up only when the other session has come to share it
# after this one, or gives way: two of these never leave the row alone of themselves.
$node->safe_psql('postgres', q{
	CREATE TABLE rt (id int PRIMARY KEY, v int) USING leanstore;
	CREATE PROCEDURE share(own int, other int, rounds int, INOUT outcome text)
		LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1 .. rounds LOOP
			PERFORM FROM rt WHERE id = 1 FOR KEY SHARE;
			IF NOT FOUND THEN
				outcome := 'changed';
				RETURN;
			END IF;
			PERFORM pg_advisory_lock(own, i);
			LOOP
				PERFORM pg_stat_clear_snapshot();
				EXIT WHEN EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory'
						AND classid = other AND objid = i + own - 1)
					OR i = rounds
					OR EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'LeanstoreRowTurn');
				PERFORM pg_sleep(0.001);
			END LOOP;
			COMMIT;
		END LOOP;
		outcome := 'shared in all rounds';
	END $$;
});

foreach my $of ('DELETE FROM rt', 'UPDATE rt SET id = 2',
	'SELECT FROM rt WHERE id = 1 FOR UPDATE')
{
	my $change = $of;

	$node->safe_psql('postgres', 'TRUNCATE rt; INSERT INTO rt VALUES (1, 1)');
	my @sharing = map { $node->background_psql('postgres') } 1 .. 2;
	$sharing[0]->query_until(qr/begun/, "\\echo begun\nCALL share(1, 2, 300, '');\n");
	$sharing[1]->query_until(qr/begun/, "\\echo begun\nCALL share(2, 1, 300, '');\n");
	$node->poll_query_until('postgres',
		"SELECT count(*) > 4 FROM pg_locks WHERE locktype = 'advisory'")
	  or die 'they do not share';
	# the session that has locked the row goes on to delete it
	$change = "BEGIN; $change; DELETE FROM rt; COMMIT" if $change =~ /FOR UPDATE/;
	$node->safe_psql('postgres', $change);
	is($_->query(''), 'changed', "$change: got its turn") foreach @sharing;
	$_->quit foreach @sharing;
}

# One shares the row, one waits for it, and the next gives way; that can be interrupted.
$node->safe_psql('postgres', 'TRUNCATE rt; INSERT INTO rt VALUES (1, 1)');
my $share = 'SELECT v FROM rt WHERE id = 1 FOR KEY SHARE';

sub wait_for_row
{
	my $holder = $node->background_psql('postgres');
	my $waiter = $node->background_psql('postgres', on_error_stop => 0);
	$holder->query_safe("BEGIN; $share");
	my $pid = $waiter->query_safe('SELECT pg_backend_pid()');
	$waiter->query_until(qr/begun/, "\\echo begun\nDELETE FROM rt;\n");
	$node->poll_query_until('postgres',
		"SELECT wait_event = 'transactionid' FROM pg_stat_activity WHERE pid = $pid")
	  or die 'it does not wait';
	my ($status, $out, $error) =
	  $node->psql('postgres', "SET statement_timeout = '200ms'; $share");
	like($error, qr/canceling statement due to statement timeout/,
		'a shared lock gives way, and can be interrupted');
	return ($pid, $holder, $waiter);
}

my ($pid, $holder, $waiter) = wait_for_row();
is($node->safe_psql('postgres', "SELECT pg_terminate_backend($pid, 60000)"), 't',
	'who waits is terminated');
is($node->safe_psql('postgres', $share), 1, '... and nobody gives way to it');
$holder->quit;
eval { $waiter->quit };

($pid, $holder, $waiter) = wait_for_row();
$node->kill9_process($pid);
eval { $_->quit } foreach ($holder, $waiter);
is($node->safe_psql('postgres', $share), 1, 'killed: nobody gives way to it after the restart');

$node->stop;
done_testing();
