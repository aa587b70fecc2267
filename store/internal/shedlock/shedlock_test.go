package shedlock_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/shedlock"
	"github.com/soloist-dev/soloist/store/memstore"
)

func TestBare(t *testing.T) {
	for record, want := range map[string]string{
		"lock/report": "report", "job/report": "report", "lock/a/b": "a/b", "lock/lock/x": "lock/x",
		"report": "", "lock/": "", "@ns/lock/report": "", "@lock/lock/report": "", "element/j/1": "", "jobs/report": "", "": "",
	} {
		bare, shared := shedlock.Bare(record)
		if shared != (want != "") || shared && bare != want || !shared && bare != record {
			t.Errorf("Bare(%q) = %q, %t; want %q", record, bare, shared, want)
		}
	}
}

// The records are those that the client really makes.
func TestRecordsOfTheClientAreShared(t *testing.T) {
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	s := memstore.New()
	client, err := soloist.New(s, soloist.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.TryLock(ctx, "report"); err != nil {
		t.Fatal(err)
	}
	ran := make(chan struct{})
	go func() {
		<-ran
		stop()
	}()
	_ = client.Run(ctx, soloist.Job{Name: "report", Schedule: soloist.At(time.Now()), Do: func(context.Context, soloist.Run) error {
		close(ran)
		return nil
	}})
	var shared int
	for r, err := range s.List(context.Background(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if bare, is := shedlock.Bare(r.Name); is && bare == "report" {
			shared++
		} else if strings.Contains(r.Name, "report") {
			t.Errorf("%q is not shared", r.Name)
		} else if shedlock.Check("lock/"+r.Name) == nil {
			t.Errorf("a lock may be called %q, as a record of the client", r.Name)
		}
	}
	if shared != 2 {
		t.Errorf("%d records are shared; want the lock's and the job's", shared)
	}
}

// A lock or a job never has a row that soloist needs for something else.
func TestCheck(t *testing.T) {
	for record, valid := range map[string]bool{
		"lock/report": true, "job/a/b": true, "lock/@scope/package": true, "lock/@/lock/x": true, "lock/@ns": true,
		"lock/actions/": true, "lock/groups": true, "lock/group": true, "lock/group/": true, "lock/lock/x": true,
		"actions": true, "element/j/1": true, "@ns/lock/report": true, "@ns/controls": true, "lock/@ns/lock/": true,
		"lock/actions": false, "job/controls": false, "job/control-of-all": false, "lock/element/j/1": false,
		"lock/leader/eu": false, "lock/@ns/lock/report": false, "job/@ns/job/report": false, "job/@ns/controls": false,
		"lock/@ns/replica/r": false,
	} {
		if err := shedlock.Check(record); valid != (err == nil) || !valid && !errors.As(err, new(*store.InvalidError)) {
			t.Errorf("Check(%q) = %v", record, err)
		}
	}
}

// Every kind of record of the client that is not shared is known here, also one that is new.
func TestCheckKnowsTheKindsOfTheClient(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../../names.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is || !strings.HasPrefix(spec.Names[0].Name, "kind") && !strings.HasPrefix(spec.Names[0].Name, "name") {
			return true
		}
		kind, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		found++
		name := kind
		if strings.HasSuffix(kind, "/") {
			name += "x"
		}
		if _, shared := shedlock.Bare(name); !shared && shedlock.Check("lock/"+name) == nil {
			t.Errorf("a lock may be called %q, as a record of the client", name)
		}
		if shedlock.Check("lock/@ns/"+name) == nil {
			t.Errorf("a lock may be called %q, as a record of the client in a namespace", "@ns/"+name)
		}
		return true
	})
	if found < 12 {
		t.Errorf("%d kinds are in names.go; want 12 at least", found)
	}
}
