// Package servers starts the servers that stores are tested against: child processes on free ports of 127.0.0.1, with data of
// their own that is removed at the end.
//
// Where SOLOIST_TEST_<NAME>_URL is set, that server is used instead, and left as it is. Where there is neither a URL nor the
// server's program, the test is skipped with a message; with SOLOIST_TEST_REQUIRE set it fails.
//
// Tests that take minutes are skipped unless SOLOIST_TEST_LIVE is set, as make live does.
//
// A server that the tests of a package share is started through Shared, and ended by Main:
//
//	func TestMain(m *testing.M) { servers.Main(m) }
//
//	var redis = servers.Shared(func(t servers.Test) *servers.RedisServer { return servers.Redis(t) })
package servers
