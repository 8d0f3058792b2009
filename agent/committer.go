package agent

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sagalog/sagalog/agent/internal/offsets"
	"github.com/sagalog/sagalog/agent/transport"
)

// committer commits the positions of one agent's partitions.
type committer struct {
	source  transport.Source
	offsets *offsets.Tracker
	timeout time.Duration
	log     *slog.Logger
	// wanted asks for a commit now.
	wanted chan struct{}

	// mu guards waiting, the finishes that the next commit is to cover.
	mu      sync.Mutex
	waiting []*durableFinish
}

// durableFinish is a request that is finished only once a commit covers it.
type durableFinish struct {
	places []offsets.Place
	by     time.Time
	// covered receives the answer. It is buffered because the caller may have stopped waiting.
	covered chan bool
}

func newCommitter(source transport.Source, t *offsets.Tracker, timeout time.Duration, log *slog.Logger) *committer {
	return &committer{source: source, offsets: t, timeout: timeout, log: log, wanted: make(chan struct{}, 1)}
}

// finishDurably finishes a request with the next commit, which is made at once. The channel says whether the commit covers
// it; if not, it is unfinished until by.
func (c *committer) finishDurably(places []offsets.Place, by time.Time) <-chan bool {
	f := &durableFinish{places: places, by: by, covered: make(chan bool, 1)}
	c.mu.Lock()
	c.waiting = append(c.waiting, f)
	c.mu.Unlock()
	select {
	case c.wanted <- struct{}{}:
	default:
	}
	return f.covered
}

// commit commits what is due. Durable finishes that arrive during a commit wait for the next one.
func (c *committer) commit() {
	c.mu.Lock()
	waiting := c.waiting
	c.waiting = nil
	c.mu.Unlock()
	now := time.Now()
	c.offsets.Retain(c.source.Partitions)
	for _, f := range waiting {
		c.offsets.FinishDurably(f.places)
	}
	c.store(c.offsets.Due(now))
	for _, f := range waiting {
		f.covered <- c.offsets.SettleDurable(f.places, f.by)
	}
}

func (c *committer) store(due map[int32]transport.Position) {
	if len(due) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	stored, err := c.source.Commit(ctx, due)
	if err != nil {
		// At worst work is done twice. The next interval tries again.
		c.log.Warn("committing offsets failed, trying again", "error", err)
		return
	}
	c.offsets.Acknowledge(stored)
}
