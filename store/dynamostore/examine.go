package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
)

// A guard refuses a table that would grant a name twice. It looks once, before the first request, where it may.
type guard struct {
	turn   chan struct{} // of the request that looks
	looked atomic.Bool
	again  atomic.Pointer[time.Time] // when to look again, after it was not allowed to
}

// lookAgain is how long a table that may not be looked at is used until the next attempt: the right may have come. lookAgainFor is how long that may take.
const (
	lookAgain    = time.Minute
	lookAgainFor = time.Second
)

func newGuard() guard { return guard{turn: make(chan struct{}, 1)} }

// used reports whether the table is used without a look until again.
func used(again *time.Time) bool { return again != nil && time.Now().Before(*again) }

func later() *time.Time {
	again := time.Now().Add(lookAgain)
	return &again
}

func (g *guard) check(ctx context.Context, b *backend) error {
	again := g.again.Load()
	switch {
	case g.looked.Load() || used(again):
		return nil
	case again != nil:
		if !g.again.CompareAndSwap(again, later()) {
			return nil // another request looks
		}
		// What answers a look can be away alone, so no other request waits for this one, and this one has time left.
		limit := lookAgainFor
		if end, ok := ctx.Deadline(); ok {
			limit = min(limit, time.Until(end)/2)
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return g.look(ctx, b, func(error) bool { return true })
	}
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done(): // one that looks may have longer
		return wrap("looking at the table", ctx.Err())
	}
	if g.looked.Load() || used(g.again.Load()) {
		return nil
	}
	return g.look(ctx, b, unseen)
}

// look looks at the table. It is used all the same after a failure that is pardoned: doctor says so.
func (g *guard) look(ctx context.Context, b *backend, pardoned func(error) bool) error {
	t, err := b.describe(ctx)
	var global bool
	if err == nil {
		global, err = b.global(ctx, t)
	}
	switch {
	case t != nil && keyProblem(t) != "":
		g.again.Store(nil)
		return fmt.Errorf("dynamostore: %w: the table %s %s", store.ErrSchema, b.table, keyProblem(t))
	case err != nil && pardoned(err):
		g.again.Store(later())
		return nil
	case err != nil:
		return err
	case global:
		g.again.Store(nil)
		return fmt.Errorf("dynamostore: %w: the table %s is a global table, which accepts writes in several regions at once "+
			"and would grant a name twice: use a table in one region", store.ErrUnusable, b.table)
	}
	g.looked.Store(true)
	return nil
}

// unseen reports whether the right to look at the table is missing. With credentials that are not accepted nothing else is allowed either.
func unseen(err error) bool {
	var refusal smithy.APIError
	return errors.As(err, &refusal) && refusal.ErrorCode() == noRight
}

// A sight is what the service reports about the table.
type sight struct {
	table       *types.TableDescription
	tableErr    error
	global      bool
	globalErr   error
	expiring    bool // items are deleted by the table's own time to live
	expiringErr error
	recovery    bool // it can be restored to a point in time
	recoveryErr error
	emulator    bool
}

func (s *Store) look(ctx context.Context) sight {
	var found sight
	b := s.backend
	found.table, found.tableErr = b.describe(ctx)
	if found.tableErr != nil {
		return found
	}
	found.global, found.globalErr = b.global(ctx, found.table)
	found.emulator = emulated(found.table)
	live, err := b.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &b.table})
	if found.expiringErr = err; err == nil && live.TimeToLiveDescription != nil {
		status := live.TimeToLiveDescription.TimeToLiveStatus
		found.expiring = status == types.TimeToLiveStatusEnabled || status == types.TimeToLiveStatusEnabling
	}
	backups, err := b.client.DescribeContinuousBackups(ctx, &dynamodb.DescribeContinuousBackupsInput{TableName: &b.table})
	if found.recoveryErr = err; err == nil && backups.ContinuousBackupsDescription != nil {
		point := backups.ContinuousBackupsDescription.PointInTimeRecoveryDescription
		found.recovery = point != nil && point.PointInTimeRecoveryStatus == types.PointInTimeRecoveryStatusEnabled
	}
	return found
}

// Capabilities implements store.Prober.
func (s *Store) Capabilities(ctx context.Context) (store.Capabilities, error) {
	if err := casstore.Ready(ctx, s.Store); err != nil {
		return store.Capabilities{}, err
	}
	found := s.look(ctx)
	c := store.Capabilities{
		Backend: "Amazon DynamoDB, table " + s.backend.table,
		Scope:   store.ScopeFleet,
		Durable: store.Promise{Answer: store.Yes, Why: "a write is acknowledged when it is stored in several places of the region"},
		Waiting: store.Promise{Answer: store.No, Why: "a table tells nobody of a release: waiters ask again"},
	}
	if err := found.tableErr; err != nil && !unseen(err) {
		return store.Capabilities{}, err
	}
	if found.emulator {
		c.Backend = "DynamoDB Local (an emulator), table " + s.backend.table
		c.Durable = store.Promise{Answer: store.Unknown, Why: "an emulator may keep its tables in memory"}
	}
	switch {
	case found.tableErr != nil:
		c.Fencing = store.Promise{Answer: store.Unknown, Why: "dynamodb:DescribeTable is not allowed, so it is not known whether this is a global table"}
	case found.globalErr != nil:
		c.Fencing = store.Promise{Answer: store.Unknown, Why: "dynamodb:DescribeGlobalTable is not allowed, so it is not known whether this is a global table of the version 2017.11.29"}
	case found.global:
		c.Fencing = store.Promise{Answer: store.No, Why: "a global table accepts writes in several regions at once"}
	case found.expiringErr != nil && !found.emulator:
		c.Fencing = store.Promise{Answer: store.Unknown, Why: "dynamodb:DescribeTimeToLive is not allowed, so it is not known whether items are deleted with their tokens"}
	case found.expiring:
		c.Fencing = store.Promise{Answer: store.No, Why: "the table's time to live deletes items, and with them their tokens"}
	default:
		c.Fencing = store.Promise{Answer: store.Yes, Why: "each write is conditional on the one before, in one region, and the token is a counter in the item"}
	}
	return c, nil
}

// Examine implements store.Examiner.
func (s *Store) Examine(ctx context.Context) ([]store.Finding, error) {
	if err := casstore.Ready(ctx, s.Store); err != nil {
		return nil, err
	}
	found := s.look(ctx)
	if err := found.tableErr; err != nil {
		if unseen(err) {
			return []store.Finding{{Subject: "table", Found: err.Error(), Level: store.LevelUnknown, Fix: "allow dynamodb:DescribeTable"}}, nil
		}
		return nil, err
	}
	t := found.table
	findings := []store.Finding{
		{Subject: "table", Found: fmt.Sprintf("%s, %s, about %d items", s.backend.table, t.TableStatus, aws.ToInt64(t.ItemCount)), Level: store.LevelOK},
		judge("key", keyProblem(t) == "", "the name", keyProblem(t), store.LevelError, "use a table that `soloist migrate up` has made"),
		judge("deletion protection", aws.ToBool(t.DeletionProtectionEnabled), "on", "off", store.LevelWarning,
			"aws dynamodb update-table --deletion-protection-enabled: with the table all tokens and all marks of what is done would be gone"),
	}
	findings = append(findings,
		ifAllowed("DescribeGlobalTable", found.globalErr, judge("regions", !found.global, "one", "a global table", store.LevelError,
			"use a table in one region: a global table grants a name twice")),
		ifAllowed("DescribeTimeToLive", found.expiringErr, judge("time to live", !found.expiring, "off", "on", store.LevelError,
			"turn it off: it deletes items with their tokens, which would be granted again. Clients forget what may be forgotten")),
		ifAllowed("DescribeContinuousBackups", found.recoveryErr, judge("point-in-time recovery", found.recovery, "on", "off", store.LevelWarning,
			"turn it on, and raise the floor of tokens after a restore: see the page about DynamoDB")))
	if found.emulator {
		findings = append(findings, store.Finding{Subject: "server", Found: "DynamoDB Local, an emulator", Level: store.LevelWarning, Fix: "use it for tests alone"})
	}
	return findings, nil
}

func judge(subject string, good bool, yes, no string, level store.Level, fix string) store.Finding {
	if good {
		return store.Finding{Subject: subject, Found: yes, Level: store.LevelOK}
	}
	return store.Finding{Subject: subject, Found: no, Level: level, Fix: fix}
}

// ifAllowed is what was found, unless the right to find it out is missing.
func ifAllowed(right string, err error, found store.Finding) store.Finding {
	if err == nil {
		return found
	}
	return store.Finding{Subject: found.Subject, Found: err.Error(), Level: store.LevelUnknown, Fix: "allow dynamodb:" + right}
}
