package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/fence"
)

// replicaHeader names who asks, for the notes of the service alone.
const replicaHeader = "Demo-Replica"

// requestTime bounds a request to the service.
const requestTime = 10 * time.Second

// guarded is the service as a replica sees it.
type guarded struct {
	url       string
	replica   string
	transport *http.Transport
}

// once makes the service write path unless it has done so. A replica may die between the write and its record in the
// store, so its successor must look first. It claims the path before it looks: the one that had the lease earlier can
// write nothing from then on, so what it sees stays true. And if it is itself no longer the holder when it comes to
// write, because work took longer than its lease, the guard refuses, and it is ErrStale.
func (g *guarded) once(lease *soloist.Lease, path string, work func()) error {
	ctx, cancel := context.WithTimeout(context.Background(), requestTime)
	defer cancel()
	client := &http.Client{Transport: fence.Transport{Lease: lease, Base: g.transport}}
	if err := fence.ClaimURL(ctx, client, g.url+path); err != nil {
		return err
	}
	there, err := g.ask(ctx, client, http.MethodGet, path)
	if err != nil {
		return err
	}
	work()
	if there == http.StatusOK {
		return nil
	}
	ctx, cancel = context.WithTimeout(context.Background(), requestTime)
	defer cancel()
	_, err = g.ask(ctx, client, http.MethodPost, path)
	return err
}

// ask makes a request and returns its status if it is one that was to be expected.
func (g *guarded) ask(ctx context.Context, client *http.Client, method, path string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, method, g.url+path, nil)
	if err != nil {
		return 0, fmt.Errorf("asking for %s: %w", path, err)
	}
	request.Header.Set(replicaHeader, g.replica)
	answer, err := client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("asking for %s: %w", path, err)
	}
	defer answer.Body.Close()
	why, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
	switch answer.StatusCode {
	case http.StatusOK, http.StatusNotFound, http.StatusCreated:
		return answer.StatusCode, nil
	case http.StatusPreconditionFailed:
		return answer.StatusCode, fmt.Errorf("writing %s: %w", path, errors.Join(fence.ErrStale, errors.New(strings.TrimSpace(string(why)))))
	}
	return answer.StatusCode, fmt.Errorf("asking for %s: the service answered %s: %s", path, answer.Status, strings.TrimSpace(string(why)))
}
