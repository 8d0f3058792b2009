package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// errNotAssigned is why a commit is not sent, or a confirmation not asked for: the assignment is not this session's.
var errNotAssigned = errors.New("the partition is not assigned to this member any more")

// membership is whom a group knows a member as. The group refuses requests that name another.
type membership struct {
	member     string
	generation int32
}

func membershipOf(c *kgo.Client) membership {
	member, generation := c.GroupMetadata()
	return membership{member, generation}
}

// follows tells that a member has kept what it had under prev: it took part in the generation of prev and in the next
// one, which does not give its partitions to others before it has given them up. A member that the group forgot while
// it was about to join comes back under a new name, and the client then says nothing of a loss although others may have
// had its partitions between; nor does it for a static member that missed a generation.
func (m membership) follows(prev membership) bool {
	return m.member == prev.member && (m.generation == prev.generation || m.generation == prev.generation+1)
}

// onAssigned begins a session. What was given up for it has gone through onRevoked before.
func (g *Group) onAssigned(now membership, ps Partitions) {
	g.mu.Lock()
	if !now.follows(g.session) {
		for at := range g.assigned {
			g.assign(at)
			delete(g.holdings, at)
			g.interrupted[at] = struct{}{}
		}
	}
	g.session = now
	for topic, partitions := range ps {
		for _, p := range partitions {
			g.assign(place{topic, p})
		}
	}
	g.mu.Unlock()
	select {
	case g.ask <- struct{}{}:
	default:
	}
	if len(ps) > 0 && g.cfg.OnAssigned != nil {
		g.cfg.OnAssigned(maps.Clone(ps))
	}
}

// tear begins a partition anew that has lost records, as if it were assigned again: marks of before must not be committed
// for what has taken their place. What was polled of it already is dropped and read again.
func (g *Group) tear(err error) {
	loss, ok := errors.AsType[*DataLossError](err)
	if !ok {
		return
	}
	at := place{loss.Topic, loss.Partition}
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ours := g.assigned[at]; !ours {
		return
	}
	if before, torn := g.torn[at]; !torn || loss.LostFrom < before {
		g.torn[at] = loss.LostFrom
	}
	g.assign(at)
	delete(g.holdings, at)
	g.interrupted[at] = struct{}{}
	select {
	case g.ask <- struct{}{}:
	default:
	}
}

// assign is called with mu held.
func (g *Group) assign(at place) {
	g.assignments++
	g.assigned[at] = g.assignments
	g.listed = nil
}

func (g *Group) onRevoked(ps Partitions) {
	if len(ps) == 0 {
		return
	}
	_ = g.committing.Acquire(context.Background(), alone) // errs only with its context
	g.mu.Lock()
	g.listed = nil
	for topic, partitions := range ps {
		for _, p := range partitions {
			delete(g.assigned, place{topic, p})
			delete(g.holdings, place{topic, p})
			delete(g.interrupted, place{topic, p})
			delete(g.torn, place{topic, p})
		}
	}
	g.tell()
	g.mu.Unlock()
	g.committing.Release(alone)
	if g.cfg.OnRevoked != nil {
		g.cfg.OnRevoked(maps.Clone(ps))
	}
}

// beforePoll lets the client read interrupted partitions from their marks again, and returns the context of one poll,
// which ends early when there are more of them.
func (g *Group) beforePoll(ctx context.Context) (context.Context, context.CancelFunc) {
	g.mu.Lock()
	var rewind map[string]map[int32]kgo.EpochOffset
	for at := range g.interrupted {
		if held, known := g.holdings[at]; known {
			delete(g.interrupted, at)
			if rewind == nil {
				rewind = make(map[string]map[int32]kgo.EpochOffset)
			}
			if rewind[at.topic] == nil {
				rewind[at.topic] = make(map[int32]kgo.EpochOffset)
			}
			rewind[at.topic][at.partition] = kgo.EpochOffset{Epoch: -1, Offset: held.mark.Next}
		}
	}
	waiting, cancel := context.WithCancel(ctx)
	g.wake = cancel
	g.mu.Unlock()
	if len(rewind) > 0 {
		g.client.SetOffsets(rewind)
	}
	return waiting, cancel
}

// Assignments holds the numbers of assignments, by topic and partition.
type Assignments map[string]map[int32]int64

// Confirm asks the group whether it still knows this member, and returns the assignments that the member had when the
// answer was given. No other member had any of those partitions then; the next one is given it later.
//
// Fetches are not fenced: a member that was paused goes on reading what is another's by now, until it hears of it. It
// has to ask after it has read. For a moment of each rebalance there is no answer but an error.
func (g *Group) Confirm(ctx context.Context) (Assignments, error) {
	// The name before the assignments: should they change between, the old name is refused.
	now := membershipOf(g.client)
	held := make(Assignments)
	g.mu.Lock()
	known := now.follows(g.session)
	for at, id := range g.assigned {
		if held[at.topic] == nil {
			held[at.topic] = make(map[int32]int64)
		}
		held[at.topic][at.partition] = id
	}
	g.mu.Unlock()
	err := errNotAssigned
	if known {
		err = g.heartbeat(ctx, now)
	}
	// A rebalance that is under way has assigned nothing yet.
	if err != nil && !errors.Is(err, kerr.RebalanceInProgress) {
		// That the name is another's says nothing here: we may have joined anew since we looked who we are.
		return nil, fmt.Errorf("confirm the membership in group %s: %w", g.cfg.Group, fromClient(err))
	}
	return held, nil
}

func (g *Group) heartbeat(ctx context.Context, as membership) error {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = g.cfg.Group, as.member, as.generation
	if g.cfg.InstanceID != "" {
		req.InstanceID = &g.cfg.InstanceID
	}
	resp, err := req.RequestWith(ctx, g.client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}
