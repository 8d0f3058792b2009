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
		for _, name := range o.n.presence.silentNodes(members, o.n.cfg.Name) {
			members = slices.DeleteFunc(members, func(m string) bool { return m == name })
			o.remove(ctx, o.groupName(), name)
		}
		for _, b := range o.n.presence.silentAgents(o.n.cfg.Name) {
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

// attentive says whether this node reads its own beats back; mu is held.
func (p *presence) attentive(self string) bool {
	own, ok := p.seen[events.PresenceNode+"/"+self]
	return ok && time.Since(own.at) <= ownBeatWithin && time.Since(p.since) > silentAfter
}

// silentNodes returns those members of whom no beat was read for silentAfter, while this node's own beats come back.
func (p *presence) silentNodes(members []string, self string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.attentive(self) {
		return nil
	}
	var silent []string
	for _, m := range members {
		// Of a member that was never heard the silence began when the listening did.
		if b := p.seen[events.PresenceNode+"/"+m]; m != self && time.Since(b.at) > silentAfter {
			silent = append(silent, m)
		}
	}
	return silent
}

// silentAgents returns the last beats of instances of agents that fell silent, once for each silence.
func (p *presence) silentAgents(self string) []events.Presence {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.attentive(self) {
		return nil
	}
	var silent []events.Presence
	for _, key := range slices.Sorted(maps.Keys(p.seen)) {
		b := p.seen[key]
		if b.Kind == events.PresenceAgent && !b.evicted && time.Since(b.at) > silentAfter {
			b.evicted = true
			p.seen[key] = b
			silent = append(silent, b.Presence)
		}
	}
	return silent
}
