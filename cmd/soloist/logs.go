package main

import (
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/child"
)

// The formats of logs.
const (
	logText = "text"
	logJSON = "json"
)

// A logs is how a subcommand logs, for people or for programs. Each subcommand has its own, since their defaults differ.
type logs struct{ logFormat, logLevel string }

func (l *logs) logFlags(c *cobra.Command, level string) {
	c.Flags().StringVar(&l.logFormat, "log-format", logText, "messages as text or json, one a line")
	c.Flags().StringVar(&l.logLevel, "log-level", level, "least level of messages: debug, info, warn or error")
}

// logger returns the logger of the subcommand, which writes to a writer. nameKey is what the names of the leases that it
// takes are, in its messages: a message of the client calls them "name", for it does not know.
func (l *logs) logger(to io.Writer, nameKey string) (*slog.Logger, error) {
	options := &slog.HandlerOptions{ReplaceAttr: func(_ []string, attr slog.Attr) slog.Attr {
		if attr.Key == "name" {
			attr.Key = nameKey
		}
		return shownAttr(attr)
	}}
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.logLevel)); err != nil || strings.ContainsAny(l.logLevel, "+-") {
		return nil, usage("--log-level %q: give debug, info, warn or error", l.logLevel)
	}
	options.Level = level
	switch l.logFormat {
	case logText:
		return slog.New(slog.NewTextHandler(to, options)), nil
	case logJSON:
		return slog.New(slog.NewJSONHandler(plainJSONWriter{to}, options)), nil
	}
	return nil, usage("--log-format %q: give text or json", l.logFormat)
}

// A plainJSONWriter escapes in lines of JSON what plainJSON does. Text is escaped by slog's own handler.
type plainJSONWriter struct{ to io.Writer }

func (w plainJSONWriter) Write(line []byte) (int, error) {
	if _, err := w.to.Write(plainJSON(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// shownAttr shows times in UTC, durations rounded, and errors as text.
func shownAttr(attr slog.Attr) slog.Attr {
	switch attr.Value.Kind() {
	case slog.KindTime:
		return slog.String(attr.Key, instant(attr.Value.Time()))
	case slog.KindDuration:
		return slog.String(attr.Key, span(attr.Value.Duration()))
	case slog.KindAny:
		if err, ok := attr.Value.Any().(error); ok {
			return slog.String(attr.Key, err.Error())
		}
	}
	return attr
}

// flushWithin bounds, at the end, the wait for the one that reads the messages or the output.
const flushWithin = 3 * time.Second

// stderr is where messages go: through a funnel, since a reader of them that has stopped reading must not hold up this
// process.
func (a *app) stderr() io.Writer {
	if a.messages == nil {
		a.messages = child.NewFunnel(a.errs, nil)
	}
	return a.messages
}

// flush waits until the messages are written. Nobody is left to be told of those that cannot be.
func (a *app) flush() {
	if a.messages != nil {
		_ = a.messages.Close(flushWithin)
	}
}
