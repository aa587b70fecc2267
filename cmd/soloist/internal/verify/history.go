package verify

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// History writes all that the replicas told, in the order in which it began, as a line of JSON for each event: the form
// of package proof, which can read it, with the ID and the error of an event beside.
func (r *Report) History(w io.Writer) error {
	buf := bufio.NewWriter(w)
	lines := json.NewEncoder(buf)
	for _, e := range r.events {
		if err := lines.Encode(e); err != nil {
			return fmt.Errorf("writing the history: %w", err)
		}
	}
	if err := buf.Flush(); err != nil {
		return fmt.Errorf("writing the history: %w", err)
	}
	return nil
}
