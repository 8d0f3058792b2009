package node

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
)

const (
	// lookEvery is how often silence is looked for: it adds to each take-over.
	lookEvery = 250 * time.Millisecond
	// ownBeatWithin is how fresh this node's own beat must have come back before the silence of others means anything: a
	// node that was paused, or cut off, has heard nobody.
	ownBeatWithin = beatEvery + 500*time.Millisecond
	// evictWait bounds one request to the coordinator; the next look asks again.
	evictWait = 2 * time.Second
)

// evict removes silent members from their groups, so that the coordinator moves their partitions at once instead of
// after a session. A wrong suspicion costs a hand-over, never correctness.
func (o *ownership) evict(ctx context.Context) error {
	ticks := time.NewTicker(lookEvery)
	defer ticks.Stop()
	var members []string
	asked := time.Time{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
		if time.Since(asked) >= beatEvery {
			asked = time.Now()
			if found, err := o.members(ctx); err == nil {
				members = found
			}
		}
		for _, name := range o.n.presence.silentNodes(members) {
			members = slices.DeleteFunc(members, func(m string) bool { return m == name })
			o.remove(ctx, o.groupName(), name)
		}
		for _, b := range o.n.presence.silentAgents() {
			for _, agent := range b.Agents {
				o.remove(ctx, o.n.cfg.Namespace+".agents."+agent, b.Instance)
			}
		}
	}
}

func (o *ownership) members(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, evictWait)
	defer cancel()
	return o.n.cfg.Cluster.StaticMembers(ctx, o.groupName())
}

func (o *ownership) remove(ctx context.Context, group, member string) {
	ctx, cancel := context.WithTimeout(ctx, evictWait)
	defer cancel()
	log := o.n.cfg.Logger.With("group", group, "member", member)
	if err := o.n.cfg.Cluster.RemoveMember(ctx, group, member); err != nil {
		log.Warn("a silent member could not be removed; it is tried again", "error", err)
		return
	}
	log.Warn("a member is silent and was removed: others take over what it had")
}

func (p *presence) ownKey() string { return events.PresenceNode + "/" + p.self }

// silent says whether nothing was heard since the given instant for silentAfter, while this node heard itself all the
// time: one that was paused or cut off has heard nobody, and when the leader of presence comes back the first to reach
// it hears itself before the others. mu is held.
func (p *presence) silent(last time.Time) bool {
	if time.Since(p.seen[p.ownKey()].at) > ownBeatWithin {
		return false
	}
	if last.Before(p.since) {
		last = p.since
	}
	return time.Since(last) > silentAfter
}

// silentNodes returns those members of whom no beat was read for silentAfter. Of one that was never heard, the silence
// began with the listening.
func (p *presence) silentNodes(members []string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var silent []string
	for _, m := range members {
		if m != p.self && p.silent(p.seen[events.PresenceNode+"/"+m].at) {
			silent = append(silent, m)
		}
	}
	return silent
}

// silentAgents returns the last beats of instances of agents that fell silent, once for each silence.
func (p *presence) silentAgents() []events.Presence {
	p.mu.Lock()
	defer p.mu.Unlock()
	var silent []events.Presence
	for _, key := range slices.Sorted(maps.Keys(p.seen)) {
		b := p.seen[key]
		if b.Kind == events.PresenceAgent && !b.evicted && p.silent(b.at) {
			b.evicted = true
			p.seen[key] = b
			silent = append(silent, b.Presence)
		}
	}
	return silent
}
