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

// errNotAssigned says that a commit or a confirmation is not sent, because the assignment belongs to an earlier session.
var errNotAssigned = errors.New("the partition is not assigned to this member any more")

// membership is the identity of a member within its group. The group refuses requests with any other identity.
type membership struct {
	member     string
	generation int32
}

func membershipOf(c *kgo.Client) membership {
	member, generation := c.GroupMetadata()
	return membership{member, generation}
}

// follows reports whether a member has kept the partitions that it had under prev. It has if its generation is still that of prev
// or the next one, because a group does not reassign a partition before the member that had it in the last generation has given
// it up. A member that the group forgot while it was joining comes back under a new ID; then the client reports no loss, although
// others may have had its partitions in between. The same holds for a static member that missed a generation.
func (m membership) follows(prev membership) bool {
	return m.member == prev.member && (m.generation == prev.generation || m.generation == prev.generation+1)
}

// onAssigned begins a session. The partitions given up for it went through onRevoked before.
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

// invalidate treats a partition that lost records as if it were assigned again: earlier marks must not be committed for the records that
// replaced them. Records of it that were already polled are dropped and read again.
func (g *Group) invalidate(err error) {
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

func (g *Group) lastAssignment() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.assignments
}

func (g *Group) onRevoked(ps Partitions) {
	if len(ps) == 0 {
		return
	}
	_ = g.committing.Acquire(context.Background(), alone) // fails only with its context
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
	g.notify()
	g.mu.Unlock()
	g.committing.Release(alone)
	if g.cfg.OnRevoked != nil {
		g.cfg.OnRevoked(maps.Clone(ps))
	}
}

// beforePoll makes the client read interrupted partitions from their marks again. It returns the context of one poll, which ends early
// when more partitions are interrupted.
func (g *Group) beforePoll(ctx context.Context) (context.Context, context.CancelFunc) {
	g.mu.Lock()
	rewind := map[string]map[int32]kgo.EpochOffset{}
	for at := range g.interrupted {
		if held, known := g.holdings[at]; known {
			delete(g.interrupted, at)
			set(rewind, at, kgo.EpochOffset{Epoch: -1, Offset: held.mark.Next})
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

// Assignments holds the assignment numbers by topic and partition.
type Assignments map[string]map[int32]int64

// Confirm asks the group whether it still knows this member, and returns the assignments that the member had when the group answered.
// No other member had any of those partitions then.
//
// Fetches are not fenced: a member that was paused keeps reading partitions that belong to another by now. So it must call Confirm
// after it has read. During a rebalance Confirm fails for a moment.
func (g *Group) Confirm(ctx context.Context) (Assignments, error) {
	// Read the identity before the assignments: if they change in between, the group refuses the old identity.
	now := membershipOf(g.client)
	held := make(Assignments)
	g.mu.Lock()
	known := now.follows(g.session)
	for at, id := range g.assigned {
		set(held, at, id)
	}
	g.mu.Unlock()
	err := errNotAssigned
	if known {
		err = g.heartbeat(ctx, now)
	}
	// A rebalance that is under way has not reassigned anything yet.
	if err != nil && !errors.Is(err, kerr.RebalanceInProgress) {
		// FencedInstanceID is not final here: we may have joined again since membershipOf.
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
