package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/sagalog/sagalog/internal/api"
)

// getPast prints a task as it was at an instant, or at an offset of its partition.
func getPast(s *session, id, at string) error {
	switch {
	case at == "":
		return Usage("--at is empty: give an instant such as 2026-11-21T14:00:00Z or an offset such as 3@1200, or leave it out")
	case s.isSet("wait"):
		return Usage("--at shows the past, so there is nothing to wait for: leave out --wait")
	}
	_, doc, err := s.do(s.cmd.Context(), request{method: http.MethodGet, path: taskPath(id), query: url.Values{"at": {at}}})
	if err != nil {
		return err
	}
	var t api.TaskDocument
	if err := decode(doc, &t); err != nil {
		return err
	}
	return s.one(doc, func(w io.Writer) error {
		if err := showTask(w, &t); err != nil {
			return err
		}
		return showItems(s, w, &t)
	})
}

// asOf names the fact after which a task is shown; "" for the present.
func asOf(at *api.AtDocument) string {
	if at == nil {
		return ""
	}
	return fmt.Sprintf("%s (%d@%d)", instant(at.Time), at.Partition, at.Offset)
}
