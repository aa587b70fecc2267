package main

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// BenchmarkManyNames takes 100,000 names, or with -short 2,000, in batches of a thousand, extends all of them, lists them, releases them and forgets them, and takes and releases
// one more name while they are there. It reports how many names a second each step takes.
func BenchmarkManyNames(b *testing.B) {
	for _, of := range []backend{etcdBackend(), zookeeperBackend(), consulBackend(), natsBackend()} {
		b.Run(of.name, func(b *testing.B) {
			for range b.N {
				server, err := of.start(b)
				if err != nil {
					b.Fatal(err)
				}
				s, err := of.open(b.Context(), server.url)
				if err != nil {
					b.Fatal(err)
				}
				carry(b, s)
				if err := s.Close(); err != nil {
					b.Error(err)
				}
			}
		})
	}
}

// carry does all steps of BenchmarkManyNames.
func carry(b *testing.B, s store.Store) {
	const batch = 1000
	ctx, ttl := b.Context(), 10*time.Minute
	manyNames := 100_000
	if testing.Short() {
		manyNames = 2 * batch
	}
	claims := make([]store.Claim, manyNames)
	tokens := make([]int64, manyNames)
	for i := range claims {
		claims[i] = store.Claim{Name: fmt.Sprintf("many/%06d", i), Holder: "x", TTL: ttl}
	}
	step := func(what string, do func()) {
		begun := time.Now()
		do()
		b.ReportMetric(float64(manyNames)/time.Since(begun).Seconds(), what+"/s")
	}
	batches := func(do func(from, to int) error) {
		for from := 0; from < manyNames; from += batch {
			if err := do(from, from+batch); err != nil {
				b.Fatal(err)
			}
		}
	}
	step("acquired", func() {
		batches(func(from, to int) error {
			out, err := s.Acquire(ctx, claims[from:to])
			for i, o := range out {
				tokens[from+i], err = o.Grant.Token, errors.Join(err, o.Err)
			}
			return err
		})
	})
	step("extended", func() {
		batches(func(from, to int) error {
			extensions := make([]store.Extension, batch)
			for i, c := range claims[from:to] {
				extensions[i] = store.Extension{Name: c.Name, Holder: c.Holder, Token: tokens[from+i], TTL: ttl}
			}
			errs, err := s.Extend(ctx, extensions)
			return errors.Join(append(errs, err)...)
		})
	})
	step("listed", func() {
		n := 0
		for _, err := range s.List(ctx, "many/") {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != manyNames {
			b.Errorf("%d of %d names were listed", n, manyNames)
		}
	})
	begun := time.Now()
	out, err := s.Acquire(ctx, []store.Claim{{Name: "one more", Holder: "x", TTL: ttl}})
	if err != nil || out[0].Err != nil {
		b.Fatal(out, err)
	}
	errs, err := s.Release(ctx, []store.Release{{Name: "one more", Holder: "x", Token: out[0].Grant.Token}})
	if err := errors.Join(append(errs, err)...); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(time.Since(begun).Microseconds())/1000, "ms-one-more")
	step("released", func() {
		batches(func(from, to int) error {
			releases := make([]store.Release, batch)
			for i, c := range claims[from:to] {
				releases[i] = store.Release{Name: c.Name, Holder: c.Holder, Token: tokens[from+i]}
			}
			errs, err := s.Release(ctx, releases)
			return errors.Join(append(errs, err)...)
		})
	})
	sweeper, ok := store.As[store.Sweeper](s)
	if !ok {
		return
	}
	step("forgotten", func() {
		for forgotten := 0; forgotten < manyNames; {
			n, err := sweeper.Sweep(ctx, batch)
			if err != nil || n == 0 {
				b.Fatalf("%d of %d names were forgotten, and then %d: %v", forgotten, manyNames, n, err)
			}
			forgotten += n
		}
	})
}
