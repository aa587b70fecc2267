package server

import (
	"context"
	"iter"
	"time"

	"github.com/soloist-dev/soloist"
)

// pageRows is how many rows a page has.
const pageRows = 100

// A Sheet is a part of a list, in the order of the store.
type Sheet[T any] struct {
	Rows    []T
	Search  string
	Total   count     // of all sheets
	Counted time.Time // when
	Begun   bool      // whether others are before it
	Next    string    // the name after which the next begins; "" if this is the last
	Path    string
	Kind    soloist.Kind
	What    string
}

// A source is where the rows of a sheet come from.
type source[T any] struct {
	path  string
	rows  int
	list  func(*soloist.Admin, context.Context) iter.Seq2[T, error]
	kept  *listed[T] // what the watcher has read of the list
	is    func(T) bool
	name  func(T) string
	found func(row T, search string) bool
}

// sheet returns the sheet that a request is for. It reads its rows from the store. If the store takes too long for a page, or all of the list has to
// be searched, they are those that the watcher has read.
func sheet[T any](v *visit, src source[T]) Sheet[T] {
	after := v.URL.Query().Get("after")
	s := Sheet[T]{Search: v.search(), Path: src.path, Begun: after != "", Counted: src.kept.at}
	such := func(row T) bool { return v.maySee(src.name(row)) && src.is(row) && src.found(row, s.Search) }
	s.Total = counted(src.kept, such)
	var err error
	if s.Search == "" || !s.Total.Read {
		ctx, cancel := context.WithTimeout(v.Context, paintWithin)
		defer cancel()
		v.at = time.Now()
		err = s.fill(src, src.list(v.server.client.Admin().Part(v.caller.prefix, after), ctx), such)
		v.took = time.Since(v.at)
		if err == nil {
			return s
		}
		v.reading, v.unread = ctx.Err() != nil, ctx.Err() == nil
	}
	if s.Total.Read {
		v.at, v.took, v.reading = src.kept.at, src.kept.took, false
		_ = s.fill(src, behind(src, after), such) // it yields no error
	}
	return s
}

// fill reads the rows, and whether there are more.
func (s *Sheet[T]) fill(src source[T], all iter.Seq2[T, error], such func(T) bool) error {
	s.Rows, s.Next = nil, ""
	for row, err := range all {
		switch {
		case err != nil:
			return err
		case !such(row):
		case len(s.Rows) == src.rows:
			s.Next = src.name(s.Rows[src.rows-1])
			return nil
		default:
			s.Rows = append(s.Rows, row)
		}
	}
	return nil
}

// behind yields what the watcher has read behind the row of a name, or if it is gone behind those whose names are less. Rows of another kind, which
// have an order of their own, do not count.
func behind[T any](src source[T], after string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		from, greater := 0, 0
		items := src.kept.items
		for i, one := range items {
			switch at := src.name(one); {
			case !src.is(one):
			case at == after:
				from = i + 1
			case at < after:
				greater = i + 1
			}
		}
		if from == 0 && after != "" {
			from = greater
		}
		for _, one := range items[from:] {
			if !yield(one, nil) {
				return
			}
		}
	}
}

func (v *visit) search() string { return v.URL.Query().Get("q") }

// sheetOf returns a sheet with other rows.
func sheetOf[T, U any](s Sheet[T], rows []U) Sheet[U] {
	return Sheet[U]{rows, s.Search, s.Total, s.Counted, s.Begun, s.Next, s.Path, s.Kind, s.What}
}
