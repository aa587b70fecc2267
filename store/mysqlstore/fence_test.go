package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/soloist-dev/soloist/fence"
	"github.com/soloist-dev/soloist/fence/sqlfence"

	"github.com/go-sql-driver/mysql"
)

// A resource is the same one for connections with another character set.
func TestFenceInOtherCharacterSets(t *testing.T) {
	ctx := context.Background()
	table := newTable(t)
	guardOf := func(params map[string]string, interpolate bool) *sqlfence.Guard {
		guard, err := sqlfence.New(connect(t, mariadb(t).URL, func(c *mysql.Config) { c.Params, c.InterpolateParams = params, interpolate }),
			sqlfence.Config{Dialect: sqlfence.MySQL, Table: table})
		if err != nil {
			t.Fatal(err)
		}
		return guard
	}
	usual := guardOf(nil, false)
	db := connect(t, mariadb(t).URL, func(*mysql.Config) {})
	exec(t, db, usual.Schema())
	defer exec(t, db, "DROP TABLE "+table)
	token := int64(1)
	for _, params := range []map[string]string{{"character_set_client": "latin1"}, {"character_set_connection": "latin1"}, {"character_set_client": "latin1", "character_set_connection": "utf8mb4"}} {
		for _, interpolate := range []bool{false, true} {
			other := guardOf(params, interpolate)
			token += 10
			for name, one := range map[string][2]*sqlfence.Guard{"first": {usual, other}, "last": {other, usual}} {
				token += 10
				if err := one[0].Claim(ctx, "Bücher/Zürich", token); err != nil {
					t.Errorf("%v, %t, %s: %v", params, interpolate, name, err)
				}
				if err := one[1].Claim(ctx, "Bücher/Zürich", token-1); !errors.Is(err, fence.ErrStale) {
					t.Errorf("%v, %t, %s: a lower token answered %v", params, interpolate, name, err)
				}
			}
		}
	}
}

// The guard on database/sql keeps the order of tokens on these servers, at any isolation level and however rows are counted.
func TestFence(t *testing.T) {
	for _, isolation := range []string{"READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"} {
		for _, found := range []bool{false, true} {
			name := isolation
			if found {
				name += "/found rows"
			}
			t.Run(name, func(t *testing.T) {
				ctx := context.Background()
				db := connect(t, mariadb(t).URL, func(c *mysql.Config) {
					c.ClientFoundRows, c.Params = found, map[string]string{"tx_isolation": "'" + isolation + "'"}
				})
				table := newTable(t)
				guard, err := sqlfence.New(db, sqlfence.Config{Dialect: sqlfence.MySQL, Table: table})
				if err != nil {
					t.Fatal(err)
				}
				exec(t, db, guard.Schema(), "CREATE TABLE "+table+"_written (n INT PRIMARY KEY AUTO_INCREMENT, token BIGINT) ENGINE = InnoDB")
				defer exec(t, db, "DROP TABLE "+table, "DROP TABLE "+table+"_written")
				write := func(tx *sql.Tx, token int64) error {
					_, err := tx.ExecContext(ctx, "INSERT INTO "+table+"_written (token) VALUES ("+intLiteral(token)+")")
					return err
				}
				for _, name := range []string{"a", "a ", "A", "ä", strings.Repeat("x", 255)} { // each is a separate one
					if err := guard.Claim(ctx, name, 7); err != nil {
						t.Fatal(err)
					}
					if err := guard.Claim(ctx, name, 6); !errors.Is(err, fence.ErrStale) {
						t.Errorf("%q: a lower token answered %v", name, err)
					}
					if err := guard.Claim(ctx, name, 7); err != nil {
						t.Errorf("%q: the same token answered %v", name, err)
					}
				}
				if err := guard.Claim(ctx, "b", 1); err != nil {
					t.Fatal(err)
				}
				var group sync.WaitGroup
				for range 8 {
					group.Go(func() {
						for range 20 {
							token := 1 + rand.Int64N(1000)
							err := guard.DoTx(ctx, "b", token, func(tx *sql.Tx) error { return write(tx, token) })
							if err != nil && !errors.Is(err, fence.ErrStale) && !conflict(err) {
								t.Error(err)
							}
						}
					})
				}
				group.Wait()
				rows, err := db.QueryContext(ctx, "SELECT token FROM "+table+"_written ORDER BY n")
				if err != nil {
					t.Fatal(err)
				}
				defer rows.Close()
				var last, n int64
				for rows.Next() {
					var token int64
					if err := rows.Scan(&token); err != nil {
						t.Fatal(err)
					}
					if token < last {
						t.Errorf("token %d was written after %d", token, last)
					}
					last = token
					n++
				}
				if err := rows.Err(); err != nil || n == 0 {
					t.Errorf("%d writes, %v", n, err)
				}
			})
		}
	}
}

// The token of a write that was not committed has been seen, however it ended.
func TestFenceRemembersTokensOfFailedWrites(t *testing.T) {
	ctx := context.Background()
	db := connect(t, mariadb(t).URL, nil)
	table := newTable(t)
	guard, err := sqlfence.New(db, sqlfence.Config{Dialect: sqlfence.MySQL, Table: table})
	if err != nil {
		t.Fatal(err)
	}
	exec(t, db, guard.Schema())
	defer exec(t, db, "DROP TABLE "+table)
	for resource, end := range map[string]func(*sql.Tx) error{
		"error":  func(*sql.Tx) error { return errors.New("failed") },
		"panic":  func(*sql.Tx) error { panic("failed") },
		"Goexit": func(*sql.Tx) error { runtime.Goexit(); return nil },
		"commit": func(tx *sql.Tx) error { return tx.Rollback() },
	} {
		var group sync.WaitGroup
		group.Go(func() {
			defer func() { _ = recover() }()
			if err := guard.DoTx(ctx, resource, 5, end); err == nil {
				t.Errorf("%s: no error", resource)
			}
		})
		group.Wait()
		if err := guard.Claim(ctx, resource, 4); !errors.Is(err, fence.ErrStale) {
			t.Errorf("%s: a lower token answered %v", resource, err)
		}
		if err := guard.Claim(ctx, resource, 5); err != nil {
			t.Errorf("%s: the same token answered %v", resource, err)
		}
	}
}
