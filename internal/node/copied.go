package node

import (
	"context"
	"fmt"
	"time"

	"github.com/sagalog/sagalog/scheduler"
)

// closedEvery is how often a node looks whether its namespace was closed. Its owners notice that at once.
const closedEvery = time.Second

// halfCopied refuses a namespace that is to be a copy, and is not complete.
func (s *namespace) halfCopied(exists bool) error {
	if x := scheduler.CopyingOf(s.catalog.Catalog); x != nil && !exists {
		return fmt.Errorf("namespace %s is a copy of %s that is not complete: wait until `sagalog namespace copy` has ended. If it was interrupted, delete the topics of this namespace, and copy again", s.name, x.From)
	}
	return nil
}

// closed refuses a namespace that was copied into another one.
func (s *namespace) closed() error {
	if x := scheduler.ClosedOf(s.catalog.Catalog); x != nil {
		return fmt.Errorf("namespace %s was closed, because it was copied to %s: start nodes there. If that copy was given up, `sagalog namespace reopen` takes this namespace back", s.name, x.To)
	}
	return nil
}

// watchClosed ends the node when its namespace is closed: what its API accepted would stay behind.
func (s *namespace) watchClosed(ctx context.Context) error {
	ticks := time.NewTicker(closedEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
			if err := s.closed(); err != nil {
				return err
			}
		}
	}
}
