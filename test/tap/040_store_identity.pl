# Which store a relation file belongs to.  When the engine's directory is lost, or another lies
# in its place, old tables are refused by name (55000) and not shown as empty, new ones
# work, and with the old directory back everything is there.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use Test::More;

my $node = LeanstoreTest->new_node('identity', autovacuum => 'off');
my $store = $node->data_dir . '/leanstore';

# (SQLSTATE or "ok", everything psql said)
sub outcome
{
	my ($query) = @_;
	my ($status, $out, $error) = $node->psql('postgres', "\\set VERBOSITY verbose\n$query");

	return ('ok', $out) if $status == 0 && $error !~ /ERROR/;
	return ($error =~ /ERROR:  (\w{5})/ ? $1 : 'none', $error);
}

$node->safe_psql('postgres', q{
	CREATE TABLE old (id int PRIMARY KEY, v text) USING leanstore;
	INSERT INTO old SELECT i, 'o' FROM generate_series(1, 1000) i;
	CHECKPOINT;
	SELECT leanstore_checkpoint();
	CREATE TABLE logged (id int PRIMARY KEY) USING leanstore;
	INSERT INTO logged SELECT generate_series(1, 1000)});

# --- The directory is lost, with what only the log had ----------------------------
CrashDriver::kill_server($node, 'postmaster');
rename $store, "$store.kept" or die "cannot rename $store: $!";
$node->start;
foreach my $table ('old', 'logged')
{
	my ($state, $error) = outcome("SELECT count(*) FROM $table");
	is($state, '55000', "$table is of another store: refused");
	like($error, qr/"$table".*belongs to another store.*HINT:  Stop the server and put back/s,
		'by name, with a hint');
	like($error, qr/HINT:.*leanstore_adopt\(\)/s, 'which knows the other way');
	is((outcome("INSERT INTO $table VALUES (0)"))[0], '55000', 'nor is it written');
	is((outcome("SELECT leanstore_check('$table')"))[0], '55000', 'nor checked');
}
is((outcome('CREATE TABLE new (id int PRIMARY KEY) USING leanstore;
	INSERT INTO new VALUES (1)'))[0], 'ok', 'new tables work');
is((outcome('BEGIN; TRUNCATE logged; INSERT INTO logged VALUES (1); ROLLBACK'))[0],
	'ok', 'so do emptied ones');
is((outcome('BEGIN; DROP TABLE old; ROLLBACK'))[0], 'ok', 'and it can be dropped');

# --- It comes back -----------------------------------------------------------------
$node->stop('fast');
rename $store, "$store.other" or die "cannot rename $store: $!";
rename "$store.kept", $store or die "cannot rename $store.kept: $!";
$node->start;
is($node->safe_psql('postgres', 'SELECT (SELECT count(*) FROM old), (SELECT count(*) FROM logged)'),
	'1000|1000', 'everything is there, what only the log had included');
is((outcome('SELECT * FROM new'))[0], '55000', 'but not what was made meanwhile');
$node->safe_psql('postgres', 'DROP TABLE new');
$node->leanstore_check_ok('when the directory is back');

done_testing();
