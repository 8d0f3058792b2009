package node

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
	"golang.org/x/sync/errgroup"
)

const (
	// lookEvery is how often silence is looked for: it adds to each take-over.
	lookEvery = 100 * time.Millisecond
	// ownBeatWithin is how fresh this node's own beat must have come back before the silence of others means anything: a
	// node that was paused, or cut off, has heard nobody.
	ownBeatWithin = 2 * beatEvery
	// rosterEvery is how often the group is asked who its members are.
	rosterEvery = time.Second
	// evictWait bounds one request to the coordinator.
	evictWait = 2 * time.Second
	// evictAgain is how long a member that was removed, or could not be, is left alone, and doubles up to evictAgainMax.
	// One whose beats are lost but who is in the group joins again each time, and each time all partitions would move.
	evictAgain    = time.Second
	evictAgainMax = 30 * time.Second
)

// evict removes silent members from their groups, so that the coordinator moves their partitions at once instead of
// after a session. A wrong suspicion costs a hand-over, never correctness.
func (o *ownership) evict(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	// Apart, so that the groups of agents do not hold up the owners'.
	g.Go(func() error { return o.evictNodes(ctx) })
	g.Go(func() error { return o.evictAgents(ctx) })
	return g.Wait()
}

func (o *ownership) evictNodes(ctx context.Context) error {
	ticks := time.NewTicker(lookEvery)
	defer ticks.Stop()
	seen := roster{}
	asked := time.Time{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
		if time.Since(asked) >= rosterEvery {
			asked = time.Now()
			if members, err := o.members(ctx); err == nil {
				seen.are(members)
			}
		}
		for _, name := range seen.here() {
			m := seen[name]
			silent, heard := o.n.presence.silence(events.PresenceNode+"/"+name, m.since)
			switch {
			case name == o.n.cfg.Name:
			case silent:
				// Who removes a member has not to wait for a heartbeat to learn that partitions are to be shared anew.
				if m.due() && o.remove(ctx, o.groupName(), name) {
					o.group.Rejoin()
				}
			case heard:
				m.next, m.pause = time.Time{}, evictAgain
			}
		}
	}
}

func (o *ownership) evictAgents(ctx context.Context) error {
	ticks := time.NewTicker(lookEvery)
	defer ticks.Stop()
	seen := roster{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
		silent := o.n.presence.silentAgents()
		var names []string
		for _, b := range silent {
			names = append(names, b.Instance)
		}
		seen.are(names)
		for _, b := range silent {
			m := seen[b.Instance]
			if m.gone || !m.due() {
				continue
			}
			m.gone, m.pause = true, evictAgain
			for _, agent := range b.Agents {
				m.gone = o.remove(ctx, o.n.cfg.Namespace+".agents."+agent, b.Instance) && m.gone
			}
		}
	}
}

// roster is who is looked at, by name. It holds those who are not there any more too: who comes back at once after a
// removal is not new.
type roster map[string]*member

type member struct {
	here bool
	// since is when it was first seen, or seen again: it may have had no time to be heard.
	since time.Time
	// next is when it may be removed next, pause what comes then.
	next  time.Time
	pause time.Duration
	// gone says that it was removed and need not be again, as long as it is here.
	gone bool
}

// are makes the names those who are here.
func (r roster) are(names []string) {
	for name, m := range r {
		m.here = m.here && slices.Contains(names, name)
		if !m.here && time.Since(m.next) > evictAgainMax {
			delete(r, name)
		}
	}
	for _, name := range names {
		m := r[name]
		if m == nil {
			m = &member{pause: evictAgain}
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

// due says whether the member may be removed now, and puts the next time off.
func (m *member) due() bool {
	if time.Now().Before(m.next) {
		return false
	}
	m.next = time.Now().Add(m.pause)
	m.pause = min(2*m.pause, evictAgainMax)
	return true
}

func (o *ownership) members(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, evictWait)
	defer cancel()
	return o.n.cfg.Cluster.StaticMembers(ctx, o.groupName())
}

func (o *ownership) remove(ctx context.Context, group, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, evictWait)
	defer cancel()
	log := o.n.cfg.Logger.With("group", group, "member", name)
	if err := o.n.cfg.Cluster.RemoveMember(ctx, group, name); err != nil {
		log.Warn("a silent member could not be removed; it is tried again, and else the group misses it itself", "error", err)
		return false
	}
	log.Warn("a member is silent and was removed: others take over what it had")
	return true
}

func (p *presence) ownKey() string { return events.PresenceNode + "/" + p.self }

// silence says whether nothing was heard of a node for silentAfter, nor since the given instant, while this node heard
// itself all the time: one that was paused or cut off has heard nobody, and when the leader of presence comes back the
// first to reach it hears itself before the others. heard says that a beat came after the given instant.
func (p *presence) silence(key string, since time.Time) (silent, heard bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.isSilent(key, since, silentAfter), p.seen[key].at.After(since)
}

// isSilent is called with mu held.
func (p *presence) isSilent(key string, since time.Time, after time.Duration) bool {
	if time.Since(p.seen[p.ownKey()].at) > ownBeatWithin {
		return false
	}
	for _, later := range []time.Time{p.since, p.seen[key].at} {
		if since.Before(later) {
			since = later
		}
	}
	return time.Since(since) > after
}

// silentAgents returns the last beats of the instances of agents that are silent now.
func (p *presence) silentAgents() []events.Presence {
	p.mu.Lock()
	defer p.mu.Unlock()
	var silent []events.Presence
	for _, key := range slices.Sorted(maps.Keys(p.seen)) {
		if b := p.seen[key]; b.Kind == events.PresenceAgent && p.isSilent(key, b.at, agentSilentAfter) {
			silent = append(silent, b.Presence)
		}
	}
	return silent
}
