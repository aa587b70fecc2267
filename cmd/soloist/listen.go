package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"syscall"

	"github.com/soloist-dev/soloist/internal/listen"
	"github.com/soloist-dev/soloist/store"
)

// An addressFlag is where to listen; its Address is nil if that was not given.
type addressFlag struct{ *listen.Address }

func (f *addressFlag) String() string {
	if f.Address == nil {
		return ""
	}
	return f.Address.String()
}

func (f *addressFlag) Type() string { return "address" }

func (f *addressFlag) Set(text string) error {
	a, err := listen.Parse(text)
	var invalid *store.InvalidError
	if errors.As(err, &invalid) {
		return errors.New(invalid.Rule)
	}
	f.Address = &a
	return err
}

// open listens on the address.
func (f *addressFlag) open() (net.Listener, error) {
	l, err := f.Listen(context.Background())
	for _, wrong := range []error{syscall.EADDRNOTAVAIL, fs.ErrNotExist, fs.ErrExist, syscall.ENOTDIR} {
		if errors.Is(err, wrong) {
			return nil, badConfig(err)
		}
	}
	return l, err
}

// serve serves h on l until the server is closed. To local addresses, requests are for local hosts.
func (f *addressFlag) serve(l net.Listener, h http.Handler, log *slog.Logger) *http.Server {
	if f.Local() {
		h = listen.OnlyHosts(h)
	}
	server := listen.NewServer(h, log)
	log.Info("listening", "address", l.Addr().Network()+" "+l.Addr().String())
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("no longer listening", "err", err)
		}
	}()
	return server
}
