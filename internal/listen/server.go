package listen

import (
	"log/slog"
	"net/http"
	"time"
)

// NewServer returns a server for h with limits on what a client can make it keep. A handler that takes
// longer than WriteTimeout must set the deadline of its response itself.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
