//go:build unix

package interop

import (
	"fmt"
	"net/url"
	"strconv"
)

// Options say what a peer locks with, and where. The zero values of all but Provider and URL are useful.
type Options struct {
	// Provider is "jdbc" (ShedLock in SQL with usingDbTime), "jdbc-client-time" (the same by the peer's clock), "jedis" or
	// "lettuce" (ShedLock in Redis through that client), "redisson" (RLock), "redisson-fenced" (RFencedLock), "curator" (InterProcessMutex of Curator) or
	// "shedlock-zookeeper" (ShedLock in ZooKeeper).
	Provider string

	// URL is that of the server as stores take it: postgres://, mysql://, redis:// or zk://. What is in its query is left out.
	URL string

	Table    string // of ShedLock in SQL; "" means shedlock
	Columns  string // of ShedLock in SQL: name, lock_until, locked_at, locked_by as the table has them, with commas between; "" means those
	LockedBy string // of ShedLock in SQL; "" means the host's name, which all peers of one host share
	UTC      bool   // of "jdbc-client-time": forceUtcTimeZone; else times are in TimeZone
	JDBC     string // what to put behind the ? of the JDBC URL
	MySQL    bool   // of mysql:// URLs: the driver of MySQL (Connector/J), not that of MariaDB

	Env  string // of ShedLock in Redis; "" means default
	Safe bool   // of ShedLock in Redis: safeUpdate, which looks who holds the lock before it extends or unlocks it

	Connections int    // how many the peer may have; 0 means 10
	TimeZone    string // of the virtual machine, as "America/New_York"; "" means that of the host
	Fast        bool   // let the virtual machine take what it wants, for benchmarks; else it starts sooner and stays small
	ShedLock    string // another release of it, as "6.10.0"; it is fetched and built the first time
}

// arguments are those of the java command.
func (o Options) arguments(classPath string) ([]string, error) {
	args := []string{"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dfile.encoding=UTF-8"}
	if !o.Fast {
		args = append(args, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
	}
	if o.TimeZone != "" {
		args = append(args, "-Duser.timezone="+o.TimeZone)
	}
	args = append(args, "-cp", classPath, "dev.soloist.peer.Peer", o.Provider)
	set := func(name, value string) {
		if value != "" {
			args = append(args, name+"="+value)
		}
	}
	if o.Connections > 0 {
		set("pool", strconv.Itoa(o.Connections))
	}
	at, err := url.Parse(o.URL)
	if err != nil {
		return nil, fmt.Errorf("the URL of the server cannot be read") // the error would quote it, with its password
	}
	switch o.Provider {
	case "jdbc", "jdbc-client-time":
		text, err := o.jdbc(at)
		if err != nil {
			return nil, err
		}
		password, _ := at.User.Password()
		set("url", text)
		set("user", at.User.Username())
		set("password", password)
		set("table", o.Table)
		set("columns", o.Columns)
		set("lockedBy", o.LockedBy)
	default:
		set("url", (&url.URL{Scheme: at.Scheme, User: at.User, Host: at.Host, Path: at.Path}).String())
		set("env", o.Env)
	}
	if o.UTC {
		set("utc", "true")
	}
	if o.Safe {
		set("safe", "true")
	}
	return args, nil
}

// jdbc returns the URL of a database as Java writes it, without user and password.
func (o Options) jdbc(at *url.URL) (string, error) {
	kinds := map[string]string{"postgres": "postgresql", "postgresql": "postgresql", "mysql": "mariadb", "mariadb": "mariadb"}
	kind := kinds[at.Scheme]
	if kind == "" {
		return "", fmt.Errorf("there is no JDBC for %q: use a URL that begins with postgres:// or mysql://", at.Scheme)
	}
	if o.MySQL && kind == "mariadb" {
		kind = "mysql"
	}
	text := "jdbc:" + kind + "://" + at.Host + at.Path
	if o.JDBC != "" {
		text += "?" + o.JDBC
	}
	return text, nil
}
