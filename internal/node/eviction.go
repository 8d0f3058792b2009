package node

import (
	"context"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"golang.org/x/sync/errgroup"
)

const (
	// rosterEvery is how often the group is asked who its members are.
	rosterEvery = time.Second
	// evictWithin bounds one request to the coordinator.
	evictWithin = 2 * time.Second
	// evictPause is how long a member is left alone after it was removed or could not be removed. It doubles up to
	// evictPauseMax. A member whose heartbeats are lost joins again each time, and each time all partitions would move.
	evictPause    = time.Second
	evictPauseMax = 30 * time.Second
)

// evict removes silent members from their groups, so that the coordinator moves their partitions at once, without
// waiting for their sessions to time out. A wrong suspicion costs a hand-over, never correctness.
func (m *membership) evict(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	// Two goroutines, so that slow groups of agents do not delay the owners'.
	g.Go(func() error { return m.evictNodes(ctx) })
	g.Go(func() error { return m.evictAgents(ctx) })
	return g.Wait()
}

func (m *membership) evictNodes(ctx context.Context) error {
	seen := roster{}
	asked := time.Time{}
	return every(ctx, lookEvery, func() {
		if time.Since(asked) >= rosterEvery {
			asked = time.Now()
			if members, err := m.members(ctx); err == nil {
				seen.update(members)
			}
		}
		for _, name := range seen.here() {
			at := seen[name]
			silent, heard := m.liveness.silence(events.PresenceNode+"/"+name, at.since)
			switch {
			case name == m.liveness.self:
			case silent:
				// The node that removes a member need not wait for a heartbeat of the group to learn of the rebalance.
				if at.due() && m.remove(ctx, m.groupName(), name) {
					m.group.Rejoin()
				}
			case heard:
				at.next, at.pause = time.Time{}, evictPause
			}
		}
	})
}

func (m *membership) evictAgents(ctx context.Context) error {
	seen := roster{}
	return every(ctx, lookEvery, func() {
		silent := m.liveness.silentAgents()
		var names []string
		for _, b := range silent {
			names = append(names, b.Instance)
		}
		seen.update(names)
		for _, b := range silent {
			at := seen[b.Instance]
			if at.gone || !at.due() {
				continue
			}
			at.gone, at.pause = true, evictPause
			for _, agent := range b.Agents {
				at.gone = m.remove(ctx, kafka.Groups{Namespace: m.ns.name}.Agents(agent), b.Instance) && at.gone
			}
		}
	})
}

// roster holds the observed members, by name. It keeps those that have left for a while: a member that comes back right after its
// removal is not new.
type roster map[string]*member

type member struct {
	here bool
	// since is when it was first seen, or came back: before that, it could not send heartbeats.
	since time.Time
	// next is when it may be removed again, and pause is the pause after that removal.
	next  time.Time
	pause time.Duration
	// gone says that it was removed; it need not be removed again while it is still listed.
	gone bool
}

// update sets the names of the present members.
func (r roster) update(names []string) {
	for name, m := range r {
		m.here = m.here && slices.Contains(names, name)
		if !m.here && time.Since(m.next) > evictPauseMax {
			delete(r, name)
		}
	}
	for _, name := range names {
		m := r[name]
		if m == nil {
			m = &member{pause: evictPause}
			r[name] = m
		}
		if !m.here {
			m.here, m.since, m.gone = true, time.Now(), false
		}
	}
}

func (r roster) here() []string {
	var names []string
	for name, m := range r {
		if m.here {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// due says whether the member may be removed now, and sets when it may be removed next.
func (m *member) due() bool {
	if time.Now().Before(m.next) {
		return false
	}
	m.next = time.Now().Add(m.pause)
	m.pause = min(2*m.pause, evictPauseMax)
	return true
}

func (m *membership) members(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, evictWithin)
	defer cancel()
	return m.ns.cluster.StaticMembers(ctx, m.groupName())
}

func (m *membership) remove(ctx context.Context, group, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, evictWithin)
	defer cancel()
	log := m.ns.log.With("group", group, "member", name)
	if err := m.ns.cluster.RemoveMember(ctx, group, name); err != nil {
		log.Warn("a silent member could not be removed; this node will try again unless the member's session times out first", "error", err)
		return false
	}
	log.Warn("a silent member was removed: others take over its partitions")
	return true
}
