package node

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka"
)

const (
	// silentAfter is how old a node's latest heartbeat may be before the node counts as gone: three missed ones and some delay.
	silentAfter = 2 * time.Second
	// agentSilentAfter is the same for an instance of an agent, whose heartbeats come once a second.
	agentSilentAfter = 2500 * time.Millisecond
	// ownHeartbeatWithin is how recently this node must have read back its own heartbeat for the silence of others to
	// mean anything: a node that was paused or cut off has heard from no one.
	ownHeartbeatWithin = 2 * heartbeatEvery
	// listedFor is how long a silent instance is still shown to people.
	listedFor = time.Minute
	// reachWithin is how long this node's heartbeats may fail to come back before it counts as cut off from the brokers: a
	// leader that moves takes less, and a load balancer should not wait much longer.
	reachWithin = 5 * time.Second
)

// ownedTopic is the key under which a node publishes the partitions that it owns.
const ownedTopic = "events"

// liveness knows which agents and nodes are alive, by their heartbeats.
type liveness struct {
	cluster *kafka.Cluster
	topic   string
	log     *slog.Logger
	// self is this node's name, started is when it began to listen.
	self    string
	started time.Time
	// now is the clock of the owners, and doubted the reason not to trust it, or nil.
	now     func() time.Time
	doubted atomic.Pointer[error]
	// looked is the latest look at it, nil before the first.
	looked atomic.Pointer[look]

	// mu guards the fields below.
	mu sync.Mutex
	// seen holds the latest heartbeats by kind and instance.
	seen map[string]seenHeartbeat
	// since is when this node's heartbeats began to come back without a gap: before it, silence meant nothing.
	since time.Time
	// namesakeAt is when a heartbeat of another process with this node's name was read.
	namesakeAt time.Time
}

type seenHeartbeat struct {
	events.Presence
	// at is when it was read here: clocks of other machines do not matter.
	at time.Time
	// skew is how far the sender's clock is ahead of this node's, less the time that the heartbeat took.
	skew time.Duration
	// broker is how far the broker's clock is ahead, and stamped says that this is known because the broker set the timestamp.
	// They are set for this node's own heartbeats.
	broker  time.Duration
	stamped bool
}

// Run reads until ctx ends.
func (l *liveness) Run(ctx context.Context) error {
	return readAgain(ctx, l.log.With("topic", l.topic), l.read)
}

func (l *liveness) read(ctx context.Context) error {
	end, err := l.cluster.EndOffset(ctx, l.topic, 0)
	if err != nil {
		return err
	}
	r, err := kafka.NewReader(l.cluster, kafka.ReaderConfig{})
	if err != nil {
		return err
	}
	r.Add(l.topic, 0, end, -1) // older heartbeats do not say who is alive now
	return readAll(ctx, r, func(f *kafka.Fetch) {
		for i := range f.Records {
			l.record(&f.Records[i])
		}
	})
}

func (l *liveness) record(r *events.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen = map[string]seenHeartbeat{}
	}
	if len(r.Value) == 0 { // a tombstone says goodbye: the sender owns nothing any more, and was heard just now
		if b, ok := l.seen[string(r.Key)]; ok {
			l.seen[string(r.Key)] = seenHeartbeat{Presence: events.Presence{Kind: b.Kind, Instance: b.Instance}, at: time.Now()}
		}
		return
	}
	b, err := events.DecodePresence(r)
	if err != nil || b.Instance == "" {
		return // anyone may write here; an unreadable record means nothing
	}
	key := b.Kind + "/" + b.Instance
	if key == l.selfKey() && b.StartedAt != events.At(l.started) {
		l.namesakeAt = time.Now()
	}
	if key == l.selfKey() && time.Since(l.seen[key].at) > ownHeartbeatWithin {
		l.since = time.Now()
	}
	here := events.At(l.now())
	l.seen[key] = seenHeartbeat{
		Presence: b, at: time.Now(), skew: b.SeenAt.Sub(here), broker: r.Timestamp.Sub(b.SeenAt), stamped: r.Timestamp != b.SeenAt,
	}
	if own, beats := l.seen[l.selfKey()]; beats && time.Since(own.at) > ownHeartbeatWithin {
		return // it was stopped or cut off, and has not heard itself again: nobody's silence means anything
	}
	for k, old := range l.seen {
		if time.Since(old.at) > listedFor && time.Since(l.since) > listedFor { // after a gap in its own reading, this node gives the others time to be heard again
			delete(l.seen, k)
		}
	}
}

func (l *liveness) selfKey() string { return events.PresenceNode + "/" + l.self }

// hasNamesake says whether another process with this node's name is alive.
func (l *liveness) hasNamesake() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.namesakeAt) <= silentAfter
}

// agents returns the instances of agents that were seen lately. Of one whose heartbeats have stopped, the last health means nothing now.
func (l *liveness) agents() []events.Presence {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []events.Presence
	for key, b := range l.seen {
		if b.Kind != events.PresenceAgent {
			continue
		}
		p := b.Presence
		if l.isSilent(key, b.at, agentSilentAfter) {
			p.Health = map[string]string{}
			for agent := range p.Capacity {
				p.Health[agent] = api.HealthSilent
			}
		}
		list = append(list, p)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Instance < list[j].Instance })
	return list
}

// unreached returns an error if the brokers do not answer.
func (l *liveness) unreached() error {
	l.mu.Lock()
	last := l.seen[l.selfKey()].at
	l.mu.Unlock()
	if last.Before(l.started) {
		last = l.started
	}
	if since := time.Since(last); since > reachWithin {
		return fmt.Errorf("the brokers have not answered for %s, or this process was stopped: this node decides nothing until they do", since.Round(time.Second))
	}
	return nil
}

// waitsLonger says whether a step of another live node has waited longer for the operation than any step of this node. If both
// have waited equally long, the node whose name sorts first counts as the longer one, so that only one raises the alert.
func (l *liveness) waitsLonger(of events.Call, since events.Instant) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.seen {
		if b.Kind != events.PresenceNode || b.Instance == l.self || time.Since(b.at) > silentAfter {
			continue
		}
		for _, m := range b.Missing {
			if m.Call() == of && !m.Behind && (m.Since < since || m.Since == since && b.Instance < l.self) {
				return true
			}
		}
	}
	return false
}

// alerted returns the operations for which another live node has waited so long that there was an alert. Both instants are of that
// node's clock.
func (l *liveness) alerted() map[events.Call]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := map[events.Call]bool{}
	for _, b := range l.seen {
		if b.Kind != events.PresenceNode || b.Instance == l.self || time.Since(b.at) > silentAfter {
			continue
		}
		for _, m := range b.Missing {
			if !m.Behind && b.SeenAt.Sub(m.Since) >= missingAfter+alertedAfter {
				list[m.Call()] = true
			}
		}
	}
	return list
}

// missing returns the operations that steps of any live node wait for, each with the earliest start of a wait.
func (l *liveness) missing() (list []events.Missing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.seen {
		if b.Kind == events.PresenceNode && time.Since(b.at) <= silentAfter {
			list = append(list, b.Missing...)
		}
	}
	return earliest(list)
}

// ownerOf returns the latest heartbeat of the node that says it owns the partition; false if no live node does.
func (l *liveness) ownerOf(partition int32) (events.Presence, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found seenHeartbeat
	for _, b := range l.seen {
		if b.at.After(found.at) && b.claims(partition) {
			found = b
		}
	}
	return found.Presence, !found.at.IsZero()
}

// nodeOf returns the heartbeat of a live node if it claims to own the partition.
func (l *liveness) nodeOf(partition int32, name string) (events.Presence, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.seen[events.PresenceNode+"/"+name]
	return b.Presence, b.claims(partition)
}

// claimedByOther says whether a live node other than this one and the named one claims to own the partition.
func (l *liveness) claimedByOther(partition int32, name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.seen {
		if b.Instance != l.self && b.Instance != name && b.claims(partition) {
			return true
		}
	}
	return false
}

// claims says whether this is the heartbeat of a live node that claims to own the partition.
func (b *seenHeartbeat) claims(partition int32) bool {
	return b.Kind == events.PresenceNode && time.Since(b.at) <= silentAfter && slices.Contains(b.Partitions[ownedTopic], partition)
}

// silence says whether a node sent nothing for silentAfter, nor since the given instant, while this node received its own
// heartbeats all the time: a node that was paused or cut off has heard from no one, and when the leader of the topic comes
// back, the first node to reach it hears itself before the others. heard says that a heartbeat came after the given
// instant.
func (l *liveness) silence(key string, since time.Time) (silent, heard bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isSilent(key, since, silentAfter), l.seen[key].at.After(since)
}

// isSilent is called with mu held.
func (l *liveness) isSilent(key string, since time.Time, after time.Duration) bool {
	if time.Since(l.seen[l.selfKey()].at) > ownHeartbeatWithin {
		return false
	}
	for _, later := range []time.Time{l.since, l.seen[key].at} {
		if since.Before(later) {
			since = later
		}
	}
	return time.Since(since) > after
}

// liveAgents returns the last heartbeats of the instances of agents that are not silent.
func (l *liveness) liveAgents() (list []events.Presence) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, b := range l.seen {
		if b.Kind == events.PresenceAgent && !l.isSilent(key, b.at, agentSilentAfter) {
			list = append(list, b.Presence)
		}
	}
	return list
}

// silentAgents returns the last heartbeats of the instances of agents that are silent now.
func (l *liveness) silentAgents() []events.Presence {
	l.mu.Lock()
	defer l.mu.Unlock()
	var silent []events.Presence
	for _, key := range slices.Sorted(maps.Keys(l.seen)) {
		if b := l.seen[key]; b.Kind == events.PresenceAgent && l.isSilent(key, b.at, agentSilentAfter) {
			silent = append(silent, b.Presence)
		}
	}
	return silent
}
