package temporalstore

import (
	"go.temporal.io/api/workflowservice/v1"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
)

// A Store is a store.Store on Temporal. It is safe for concurrent use. It is also a store.Chooser, a store.Sweeper, a
// store.Pinger, a store.Clockless, a store.Prober and a store.Examiner.
type Store struct {
	*casstore.Store

	backend *backend
}

var (
	_ store.Store    = (*Store)(nil)
	_ store.Chooser  = (*Store)(nil)
	_ store.Sweeper  = (*Store)(nil)
	_ store.Pinger   = (*Store)(nil)
	_ store.Prober   = (*Store)(nil)
	_ store.Examiner = (*Store)(nil)
)

// A Client is what the store uses of a client of Temporal. A client.Client of go.temporal.io/sdk is one.
type Client interface {
	WorkflowService() workflowservice.WorkflowServiceClient
}

// New returns a store on a client that the caller has made and closes, after the store. It sends no request. Data converters and interceptors of the
// client are not used: names, holders and states are readable in Temporal's tools. It is an error, store.ErrInvalid, if client is nil or cfg is not
// valid.
func New(client Client, cfg Config) (*Store, error) {
	if client == nil {
		return nil, &store.InvalidError{What: "client", Value: "nil", Rule: "give a client.Client of go.temporal.io/sdk"}
	}
	return open(client.WorkflowService(), cfg, func() error { return nil })
}

func open(service workflowservice.WorkflowServiceClient, cfg Config, closer func() error) (*Store, error) {
	cfg, err := cfg.filled()
	if err != nil {
		return nil, err
	}
	b := &backend{service: service, cfg: cfg, closer: closer}
	return &Store{Store: casstore.New(b, casstore.Config{}), backend: b}, nil
}
