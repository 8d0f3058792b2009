package api

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
)

// namedHolders is how many tasks that hold the permits of a limit are named.
const namedHolders = 3

// holders says which limit a task waits for, and which tasks hold its permits: "payment/c-17: held by order-9 (parked 3h)". The limit and
// the holders may be in partitions that are not here; what is not known is left out.
func (s documents) holders(ctx context.Context, limit string, now events.Instant) (string, error) {
	text := limitName(limit)
	if !s.here(limit) {
		return text, nil
	}
	l, err := s.tasks.Limit(ctx, limit)
	if err != nil {
		return "", s.log.internal(ctx, "read a limit", err)
	}
	if l != nil && l.Paused != nil {
		text += ", paused by " + pausedBy(cmp.Or(l.Paused.By, "an operator"), l.Paused.Reason)
	}
	if l != nil && l.Rate != "" && l.Room() > 0 {
		return text + ": its rate is " + l.Rate, nil
	}
	var names []string
	held := 0
	for x := range l.Permits() {
		if !x.Held() {
			continue
		}
		if held++; held > namedHolders {
			continue
		}
		name := x.Link.Task
		if s.here(name) {
			t, err := s.tasks.Task(ctx, name)
			if err != nil {
				return "", s.log.internal(ctx, "read a task that holds a permit", err)
			}
			name += halted(t, now)
		}
		names = append(names, name)
	}
	if held == 0 {
		return text, nil
	}
	if held > namedHolders {
		names = append(names, fmt.Sprintf("%d more", held-namedHolders))
	}
	return text + ": held by " + strings.Join(names, ", "), nil
}

// here says whether this node has the partition of a task or of a limit.
func (s documents) here(id string) bool {
	return s.cluster.Route(events.Home(id, s.partitions)).Readable()
}

// halted says since when a task that holds a permit does not go on, "" if it does.
func halted(t *events.Task, now events.Instant) string {
	switch {
	case t == nil:
	case t.State == events.TaskStateError:
		return " (parked " + events.Duration(now.Sub(t.ParkedAt).Truncate(time.Second)).String() + ")"
	case t.Paused != nil:
		return " (paused " + events.Duration(now.Sub(t.Paused.Since).Truncate(time.Second)).String() + ")"
	}
	return ""
}
