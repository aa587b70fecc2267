package main

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"
)

// What a service manager can be told.
const (
	managerReady     = "READY=1"
	managerReloading = "RELOADING=1"
	managerStopping  = "STOPPING=1"
)

// managerPatience bounds the time for which a service manager that reads nothing holds the process up.
const managerPatience = time.Second

// tellManager reports a state to the service manager that has started the process, such as systemd: by a datagram to the socket in
// $NOTIFY_SOCKET (sd_notify(3)). Without that variable nobody wants to know.
func (a *app) tellManager(log *slog.Logger, state string) {
	socket := a.env("NOTIFY_SOCKET")
	if socket == "" {
		return
	}
	if err := sendState(socket, state); err != nil {
		log.Warn("the service manager is not told what the process does", "state", state, "err", err)
	}
}

// sendState sends a datagram to a socket: a path, or @ and an abstract name of Linux.
func sendState(socket, state string) error {
	if !strings.HasPrefix(socket, "/") && !strings.HasPrefix(socket, "@") {
		return fmt.Errorf("$NOTIFY_SOCKET %q: it begins neither with / nor with @", socket)
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetWriteDeadline(time.Now().Add(managerPatience)); err != nil {
		return err
	}
	_, err = conn.Write([]byte(state))
	return err
}
