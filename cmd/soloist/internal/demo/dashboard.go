package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/internal/listen"
	"github.com/soloist-dev/soloist/server"
	"github.com/soloist-dev/soloist/store"
)

// A dashboard shows the demo's store to browsers of this machine, while the demo lasts.
type dashboard struct {
	url    string
	client *soloist.Client
	pages  *server.Server
	server *http.Server
}

// show serves the dashboard on a free port of loopback. Nobody can change anything there.
func show(s store.Store) (*dashboard, error) {
	log := slog.New(slog.DiscardHandler)
	client, err := soloist.New(s, soloist.Config{Replica: "dashboard", Logger: log})
	if err != nil {
		return nil, fmt.Errorf("starting the dashboard: %w", err)
	}
	pages, err := server.New(client, server.Config{Logger: log})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the dashboard: %w", err), client.Close())
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		pages.Drain()
		return nil, errors.Join(fmt.Errorf("starting the dashboard: %w", err), client.Close())
	}
	d := &dashboard{url: "http://" + listener.Addr().String() + "/", client: client, pages: pages, server: listen.NewServer(pages, log)}
	go func() { _ = d.server.Serve(listener) }() // it ends with close
	return d, nil
}

// close ends the streams of events, and waits for the other requests in progress.
func (d *dashboard) close() error {
	d.pages.Drain()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if d.server.Shutdown(ctx) != nil {
		_ = d.server.Close() // a browser that reads slowly does not keep the demo
	}
	return d.client.Close()
}
