# Tables that an extension makes for itself are heap tables, whatever the default is, unless its
# script says otherwise.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $directory = PostgreSQL::Test::Utils::tempdir();
mkdir "$directory/extension" or die "cannot make a directory: $!";

sub script
{
	my ($version, $text) = @_;
	append_to_file("$directory/extension/toy--$version.sql", $text);
	return;
}
append_to_file("$directory/extension/toy.control", "default_version = '1'\nrelocatable = true\n");
script('1', 'CREATE TABLE toy_own (id int PRIMARY KEY); CREATE TABLE toy_named (id int PRIMARY KEY)
	USING leanstore; CREATE MATERIALIZED VIEW toy_view AS SELECT 1 AS one;');
script('1--2', 'CREATE TABLE toy_later (id int PRIMARY KEY);');
script('2--3', 'CREATE TABLE toy_never (id int); SELECT 1 / 0;');

my $node = LeanstoreTest->new_node('main', default_table_access_method => 'leanstore',
	extension_control_path => "$directory:$ENV{LEANSTORE_STAGE}/share:\$system");
my $methods = q{SELECT string_agg(relname || ' ' || amname, ', ' ORDER BY relname)
	FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relname ~ '^toy_[a-z]*$'};

$node->safe_psql('postgres', 'CREATE EXTENSION toy');
is($node->safe_psql('postgres', $methods), 'toy_named leanstore, toy_own heap, toy_view heap',
	'CREATE EXTENSION');
is($node->safe_psql('postgres',
	"ALTER EXTENSION toy UPDATE TO '2'; CREATE TABLE toy_user (id int); $methods"),
	join(', ', 'toy_later heap', 'toy_named leanstore', 'toy_own heap', 'toy_user leanstore',
		'toy_view heap'),
	'ALTER EXTENSION, and a table behind it in the same session');
is($node->safe_psql('postgres', q{DO $$BEGIN ALTER EXTENSION toy UPDATE TO '3';
	EXCEPTION WHEN division_by_zero THEN NULL; END$$; SHOW default_table_access_method}),
	'leanstore', 'a script that fails leaves the setting as it was');
is($node->safe_psql('postgres', q{BEGIN; DROP EXTENSION toy; CREATE EXTENSION toy;
	CREATE TABLE toy_in (id int); COMMIT;
	SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relname = 'toy_in'}),
	'leanstore', 'a table in the same transaction');
is($node->safe_psql('postgres', q{SET default_table_access_method = heap;
	DROP EXTENSION toy; CREATE EXTENSION toy; SHOW default_table_access_method}), 'heap',
	'another default stays');
$node->leanstore_check_ok('at the end');
$node->stop;
done_testing();
