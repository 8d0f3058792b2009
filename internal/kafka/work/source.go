package work

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sagalog/sagalog/agent/transport"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
)

// groupSource is a member of a consumer group as a Source. If the group fences it although no other process has its name, it joins again
// as a new member.
type groupSource struct {
	cluster *kafka.Cluster
	config  kafka.GroupConfig
	topic   string
	others  namesakes

	// joined is when group was made, and wait how long the next fenced member listens before it joins again. Owned by Poll.
	joined time.Time
	wait   time.Duration

	// mu guards group, which is nil between two memberships.
	mu    sync.Mutex
	group *kafka.Group
}

// errFenced is the answer to all questions while no member of this process is in the group.
var errFenced = errors.New("the group has fenced this instance, which has not joined again yet")

// A member that the group fenced listens for rejoinPause, in which three heartbeats of a live process with its name would come, and for
// twice as long each time that it is fenced soon again, up to rejoinPauseMax.
const (
	rejoinPause    = 3 * time.Second
	rejoinPauseMax = 4 * rejoinPause
)

// join makes a member. last is the one that it replaces.
func (s *groupSource) join(last *kafka.Group) error {
	config := s.config
	config.Follows = last
	g, err := kafka.NewGroup(s.cluster, config)
	if err != nil {
		return err
	}
	s.joined = time.Now()
	s.mu.Lock()
	s.group = g
	s.mu.Unlock()
	return nil
}

// member returns the group, or nil between two memberships.
func (s *groupSource) member() *kafka.Group {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.group
}

// leave ignores the answer: a member that failed to leave is removed when its session expires.
func (s *groupSource) leave(ctx context.Context) {
	if g := s.member(); g != nil {
		_ = g.Leave(ctx)
	}
}

func (s *groupSource) Poll(ctx context.Context, most int) ([]events.Record, error) {
	records, err := s.member().Poll(ctx, most)
	switch {
	case errors.Is(err, kafka.ErrFenced):
		err = s.rejoin(ctx, err)
	case errors.Is(err, kafka.ErrClosed), errors.Is(err, kafka.ErrDenied), errors.Is(err, kafka.ErrRecreated):
		err = fmt.Errorf("%w: %w", transport.ErrClosed, err)
	}
	return records, err
}

// rejoin replaces a fenced member, unless another process with its name is alive. The group's word is not enough: it also fences a member
// whose own join was carried out after the member had stopped waiting for the answer.
func (s *groupSource) rejoin(ctx context.Context, fenced error) error {
	last := s.member()
	s.mu.Lock()
	s.group = nil
	s.mu.Unlock()
	last.Close() // it would go on joining, and push the other process out
	if time.Since(s.joined) > rejoinPauseMax {
		s.wait = 0
	}
	for {
		s.wait = min(max(2*s.wait, rejoinPause), rejoinPauseMax)
		s.cluster.Config().Logger.Warn("the group says that another process has joined under this instance's name; joining again unless its heartbeats are heard",
			"pause", s.wait, "error", fenced)
		alive, err := s.others.heard(ctx, s.wait)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case alive:
			return &transport.FencedError{Instance: s.config.InstanceID}
		case err == nil:
			if err := s.join(last); err != nil {
				return fmt.Errorf("%w: %w", transport.ErrClosed, err)
			}
			return nil
		case !kafka.IsPassing(err):
			return fmt.Errorf("%w; the heartbeats of others cannot be read: %w", &transport.FencedError{Instance: s.config.InstanceID}, err)
		}
		fenced = err
	}
}

func (s *groupSource) Assigned(partition int32) transport.Assigned {
	g := s.member()
	from, lost := g.LostFrom(s.topic, partition)
	return transport.Assigned{
		Position: transport.Position(g.Mark(s.topic, partition)), Shared: g.Shared(s.topic, partition), Lost: lost, LostFrom: from,
	}
}

func (s *groupSource) Confirm(ctx context.Context) (map[int32]int64, error) {
	g := s.member()
	if g == nil {
		return nil, errFenced
	}
	held, err := g.Confirm(ctx)
	return held[s.topic], err
}

func (s *groupSource) Commit(ctx context.Context, positions map[int32]transport.Position) (map[int32]transport.Position, error) {
	g := s.member()
	if g == nil {
		return nil, errFenced
	}
	wanted := make(map[int32]kafka.Mark, len(positions))
	for p, m := range positions {
		wanted[p] = kafka.Mark(m)
	}
	stored, err := g.CommitMarks(ctx, kafka.Marks{s.topic: wanted})
	out := make(map[int32]transport.Position, len(positions))
	for p, m := range stored[s.topic] {
		out[p] = transport.Position(m)
	}
	return out, err
}

func (s *groupSource) Partitions() []int32 {
	g := s.member()
	if g == nil {
		return nil
	}
	return g.Assigned()[s.topic]
}
