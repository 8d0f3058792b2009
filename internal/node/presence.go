package node

import (
	"context"
	"log/slog"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
)

// The times of presence.
const (
	beatEvery = 500 * time.Millisecond
	// silentAfter is how old a beat of a node may be before it counts as gone: three missed beats and some delay.
	silentAfter = 2 * time.Second
	// agentSilentAfter is the same for an instance of an agent, which beats once a second.
	agentSilentAfter = 2500 * time.Millisecond
	// listedFor is how long a silent instance is still shown to people.
	listedFor = time.Minute
	// maxCapacity is more than one instance can work on at once, and too little for a sum to overflow.
	maxCapacity = 100_000
)

// ownedTopic is the key under which a node publishes the partitions that it owns.
const ownedTopic = "events"

// presence follows the beats of agents and nodes.
type presence struct {
	cluster *kafka.Cluster
	topic   string
	log     *slog.Logger
	// self is this node's name.
	self string

	// mu guards the fields below.
	mu sync.Mutex
	// seen holds the latest beats by kind and instance.
	seen map[string]beat
	// since is from when on this node's own beats have come back without a gap: before it, nobody's silence meant anything.
	since time.Time
}

type beat struct {
	events.Presence
	// at is when the beat was read here: clocks of other machines decide nothing.
	at time.Time
}

// Run follows until ctx ends.
func (p *presence) Run(ctx context.Context) error {
	return followAgain(ctx, p.log.With("topic", p.topic), p.follow)
}

func (p *presence) follow(ctx context.Context) error {
	end, err := p.cluster.EndOffset(ctx, p.topic, 0)
	if err != nil {
		return err
	}
	r, err := kafka.NewReader(p.cluster, kafka.ReaderConfig{})
	if err != nil {
		return err
	}
	defer r.Close()
	r.Add(p.topic, 0, end, -1) // older beats say nothing about now
	for {
		fetches, err := r.Poll(ctx)
		if err != nil {
			return err
		}
		for _, f := range fetches {
			if f.Err != nil {
				return f.Err
			}
			for i := range f.Records {
				p.take(&f.Records[i])
			}
		}
	}
}

func (p *presence) take(r *events.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen == nil {
		p.seen = map[string]beat{}
	}
	if len(r.Value) == 0 { // a tombstone says goodbye: it owns nothing more, and was heard just now
		if b, ok := p.seen[string(r.Key)]; ok {
			p.seen[string(r.Key)] = beat{Presence: events.Presence{Kind: b.Kind, Instance: b.Instance}, at: time.Now()}
		}
		return
	}
	b, err := events.DecodePresence(r)
	if err != nil || b.Instance == "" {
		return // anyone may write here; what cannot be read says nothing
	}
	key := b.Kind + "/" + b.Instance
	if key == p.ownKey() && time.Since(p.seen[key].at) > ownBeatWithin {
		p.since = time.Now()
	}
	p.seen[key] = beat{Presence: b, at: time.Now()}
	for k, old := range p.seen {
		if time.Since(old.at) > listedFor {
			delete(p.seen, k)
		}
	}
}

// agents returns the instances of agents that were seen lately.
func (p *presence) agents() []events.Presence {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []events.Presence
	for _, b := range p.seen {
		if b.Kind == events.PresenceAgent {
			list = append(list, b.Presence)
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Instance < list[j].Instance })
	return list
}

// ownBeat returns when this node's own beat was last read.
func (p *presence) ownBeat() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[p.ownKey()].at
}

// ownerOf returns the latest beat of the node that says it owns the partition; false when no living node does.
func (p *presence) ownerOf(partition int32) (events.Presence, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found beat
	for _, b := range p.seen {
		if b.Kind == events.PresenceNode && time.Since(b.at) <= silentAfter && b.at.After(found.at) && slices.Contains(b.Partitions[ownedTopic], partition) {
			found = b
		}
	}
	return found.Presence, !found.at.IsZero()
}

// beatRecord is what this node says of itself.
func (n *Node) beatRecord(owned []int32) (events.Record, error) {
	b := events.Presence{
		Kind: events.PresenceNode, Instance: n.cfg.Name, Node: n.cfg.Name, HTTP: n.advertised(),
		Partitions: map[string][]int32{ownedTopic: owned}, StartedAt: n.startedAt, SeenAt: events.At(time.Now()),
	}
	r, err := events.EncodePresence(b, events.Subject{ID: uuid.NewString(), Source: "/" + n.cfg.Namespace + "/nodes/" + n.cfg.Name, Time: b.SeenAt})
	r.Topic = n.topics.Presence()
	return r, err
}

// beat says every beatEvery that the node lives, at once when what it owns has changed, and tells the owners when agents
// have.
func (n *Node) beat(ctx context.Context) error {
	ticks := time.NewTicker(lookEvery)
	defer ticks.Stop()
	var said time.Time
	var owned []int32
	reached := true
	var told supply
	for {
		if err := n.unreached(); (err == nil) != reached {
			if reached = err == nil; reached {
				n.cfg.Logger.Info("the brokers answer again")
			} else {
				n.cfg.Logger.Error("the brokers cannot be reached; this node goes on by itself when they can", "brokers", n.cfg.Cluster.Brokers(), "error", err)
			}
		}
		now := n.owned()
		if time.Since(said) >= beatEvery || !slices.Equal(now, owned) {
			if r, err := n.beatRecord(now); err == nil {
				n.voice.TryProduce(ctx, r, func(int32, int64, error) {}) // the next beat makes up for a lost one
			}
			said, owned = time.Now(), now
		}
		if s := n.presence.supply(n.partitions); !s.equal(told) {
			n.tell(s)
			told = s
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}

// farewell says goodbye, so that nobody sends this node reads until its silence is noticed.
func (n *Node) farewell() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveWait)
	defer cancel()
	if r, err := n.beatRecord(nil); err == nil {
		r.Value = nil
		_, _ = n.voice.ProduceSync(ctx, r) // without an answer the silence tells
	}
}
