package cli

import (
	"context"
	"net/http"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
)

// shownChildren bounds the children whose states task get looks up, and childrenWithin the time for that.
const (
	shownChildren  = 20
	childrenWithin = 5 * time.Second
)

// nameChildren adds the state of each child that the task waits for. A child that cannot be read is shown by its ID alone.
func nameChildren(s *session, t *api.TaskDocument) {
	ctx, stop := context.WithTimeout(s.cmd.Context(), childrenWithin)
	defer stop()
	n := 0
	for i := range t.WaitingFor {
		w := &t.WaitingFor[i]
		if w.Kind != events.WaitingChild || n == shownChildren {
			continue
		}
		n++
		_, doc, err := s.do(ctx, request{method: http.MethodGet, path: taskPath(w.For)})
		var child api.TaskDocument
		if err != nil || decode(doc, &child) != nil {
			continue
		}
		state := child.State
		if state == string(events.TaskStateError) {
			state = "parked"
		}
		if child.Paused != nil {
			state += ", paused"
		}
		if w.For += ", which is " + state; child.Reason != "" {
			w.For += ": " + child.Reason
		}
	}
}
