package shedlock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
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
		}
	}
	if shared != 2 {
		t.Errorf("%d records are shared; want the lock's and the job's", shared)
	}
}
