package work

import (
	"context"
	"fmt"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/pause"
)

// namesakes are other processes with the name of this instance. Their heartbeats have another start time.
type namesakes struct {
	cluster  *kafka.Cluster
	topic    string // presence
	instance string
	started  events.Instant
}

// heard listens and returns whether the last heartbeat of a namesake came from a live one. A goodbye means that it has ended.
func (n namesakes) heard(ctx context.Context, listen time.Duration) (alive bool, err error) {
	from, err := n.cluster.EndOffset(ctx, n.topic, 0)
	pause.For(ctx, listen) // also after an error, since the caller asks again
	if err != nil {
		return false, err
	}
	err = n.cluster.ReadRange(ctx, n.topic, 0, from, -1, func(r events.Record) error {
		if string(r.Key) != events.PresenceAgent+"/"+n.instance {
			return nil
		}
		if len(r.Value) == 0 {
			alive = false
			return nil
		}
		// Anyone may write here: an unreadable record means nothing.
		if p, err := events.DecodePresence(&r); err == nil && p.StartedAt != n.started {
			alive = true
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("listen for heartbeats: %w", err)
	}
	return alive, nil
}
