package mysqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/faults"

	"github.com/go-sql-driver/mysql"
)

// Whichever step of an operation fails, what is told of it is true, and the store works.
func TestEachStepFails(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			cfg := dsn(t, mariadb(t).URL)
			if m.driver != nil {
				m.driver(cfg)
			}
			connector, err := mysql.NewConnector(cfg)
			if err != nil {
				t.Fatal(err)
			}
			faulty := &faults.Driver{}
			db, calm := sql.OpenDB(faulty.Of(connector)), connect(t, mariadb(t).URL, nil)
			t.Cleanup(func() { db.Close() })
			plain := open(t, calm, Config{ShedLock: m.config.ShedLock})
			handle := func(t testing.TB, table string) *Store {
				cfg := m.config
				cfg.Table = table
				s, err := New(db, cfg)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			fresh := func(before func(Config) []string) func(t testing.TB) (s, plain store.Store) {
				return func(t testing.TB) (s, plain store.Store) {
					cfg := Config{ShedLock: m.config.ShedLock, Table: newTable(t)}
					exec(t, calm, before(cfg)...)
					p, err := New(calm, cfg)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { drop(t, calm, p) })
					return handle(t, cfg.Table), p
				}
			}
			refused := faulty.Fault(faults.Way{Name: "refused", Err: &mysql.MySQLError{Number: errLockTimeout, Message: "refused"}, Sends: true})
			conflict := faulty.Fault(faults.Way{Name: "in conflict", Err: &mysql.MySQLError{Number: errDeadlock, Message: "in conflict"}, Instead: "ROLLBACK", Sends: true})
			unsent := faulty.Fault(faults.Way{Name: "not sent", Err: driver.ErrBadConn, Ends: true})
			unanswered := faulty.Fault(faults.Way{Name: "not answered", Err: mysql.ErrInvalidConn, Ends: true, Late: true})
			empty := faulty.Fault(faults.Way{Name: "empty rows", Nulls: true})
			all := map[string][]faults.Fault{ // each where it meets code of its own, for there are many steps
				"compound": {refused, conflict, unsent, unanswered, empty}, "multi": {unanswered}, "steps": {refused, conflict, unsent, unanswered}, "shedlock": {refused, unanswered},
			}
			subject := faults.Subject{
				Open:   func(t testing.TB) store.Store { return handle(t, plain.cfg.Table) },
				Plain:  plain,
				Faults: all[m.name],
				Complete: func(ctx context.Context, s store.Store, c store.Completion) error {
					tx, err := db.BeginTx(ctx, nil)
					if err != nil {
						return err
					}
					if err := s.(*Store).Complete(ctx, tx, c); err != nil {
						_ = tx.Rollback()
						return err
					}
					return store.AsUnknown(tx.Commit())
				},
				Fresh: map[string]func(t testing.TB) (s, plain store.Store){
					"nothing": fresh(func(Config) []string { return nil }),
				},
			}
			if m.config.ShedLock {
				subject.Fresh["a table of ShedLock's"] = fresh(func(cfg Config) []string {
					return []string{strings.Replace(documentedTable, "shedlock", cfg.Table, 1),
						"INSERT INTO " + cfg.Table + " VALUES ('theirs', '2020-01-01', '2020-01-01', 'jvm')"}
				})
			}
			faults.Run(t, subject)
		})
	}
}
