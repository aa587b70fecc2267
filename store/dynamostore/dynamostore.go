package dynamostore

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
)

// A Store is a store.Store on a table of DynamoDB. It is safe for use by many goroutines at once. It is also a
// store.Chooser, a store.Sweeper, a store.Pinger, a store.Prober, a store.Migrator and a store.Examiner.
type Store struct {
	*casstore.Store

	backend *backend
}

var (
	_ store.Prober   = (*Store)(nil)
	_ store.Migrator = (*Store)(nil)
	_ store.Examiner = (*Store)(nil)
)

// New returns a store on a client that the caller has made. It sends no request. The client's own retries are not used:
// a request is repeated here, where it is known which may be.
func New(client *dynamodb.Client, cfg Config) (*Store, error) {
	if client == nil {
		return nil, &store.InvalidError{What: "client", Value: "nil", Rule: "give a *dynamodb.Client"}
	}
	cfg, err := cfg.filled()
	if err != nil {
		return nil, err
	}
	b := &backend{client: client, table: cfg.Table, guard: newGuard()}
	return &Store{Store: casstore.New(b, casstore.Config{TakeFree: true}), backend: b}, nil
}
