package node

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
)

// heartbeatEvery is how often a node says that it is alive. lookEvery is how often it looks for a change, which delays each
// take-over.
const (
	heartbeatEvery = 500 * time.Millisecond
	lookEvery      = 100 * time.Millisecond
)

// heartbeat publishes that this node is alive, what it owns and where its API is. It watches the other heartbeats for changes in
// the agents' offers, and for silence of the brokers.
type heartbeat struct {
	ns *namespace
	// producer sends only heartbeats: if they shared a buffer with effects, they would stop with them while a leader is gone, and
	// a live node would be taken for dead.
	producer *kafka.Producer
	owners   *owners
	liveness *liveness
	// unable lists the partitions that this node cannot own now; nil for a node that does not share partitions.
	unable func() []int32
	// http is where other nodes reach the API, empty if this node serves none.
	http string
	log  *slog.Logger
	now  func() time.Time

	denied toldOnce
}

// Run publishes every heartbeatEvery, and at once when the owned partitions have changed.
func (h *heartbeat) Run(ctx context.Context) error {
	ticks := time.NewTicker(lookEvery)
	defer ticks.Stop()
	var sent time.Time
	var sentOwned []int32
	reached := true
	var passedOn offers // nil makes the first round pass the offers on even if there are none
	for {
		if err := h.liveness.unreached(); (err == nil) != reached {
			if reached = err == nil; reached {
				h.log.Info("the brokers answer again")
			} else {
				h.log.Error("the brokers cannot be reached; this node resumes by itself as soon as they answer", "brokers", h.ns.cluster.Brokers(), "error", err)
			}
		}
		h.liveness.lookAtClock()
		owned := h.owners.owned()
		if time.Since(sent) >= heartbeatEvery || !slices.Equal(owned, sentOwned) {
			if r, err := h.record(owned); err == nil {
				h.producer.TryProduce(ctx, r, func(_ int32, _ int64, err error) {
					h.denied.tell(h.log, "others take this node for dead: its heartbeats are refused", err)
				}) // the next heartbeat makes up for a lost one
			}
			sent, sentOwned = time.Now(), owned
		}
		if all := h.liveness.offers(h.ns.partitions).pausing(h.ns.catalog.Paused()); passedOn == nil || !all.equal(passedOn) {
			h.owners.setOffers(all)
			passedOn = all
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}

func (h *heartbeat) record(owned []int32) (events.Record, error) {
	name := h.liveness.self
	b := events.Presence{
		Kind: events.PresenceNode, Instance: name, Node: name, HTTP: h.http,
		Partitions: map[string][]int32{ownedTopic: owned}, Missing: h.owners.published(), Stopped: h.owners.stopped(h.ns.tooOld()), Level: h.ns.maxLevel, StartedAt: events.At(h.liveness.started), SeenAt: events.At(h.now()),
	}
	if h.unable != nil {
		b.Unable = h.unable()
	}
	r, err := events.EncodePresence(b, events.Subject{ID: uuid.NewString(), Source: "/" + h.ns.name + "/nodes/" + name, Time: b.SeenAt})
	r.Topic, r.Timestamp = h.ns.topics.Presence(), b.SeenAt // any other timestamp is the broker's: see skew
	return r, err
}

// goodbye publishes that this node stops, so that no one sends it reads until its silence is noticed.
func (h *heartbeat) goodbye() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveWithin)
	defer cancel()
	if r, err := h.record(nil); err == nil {
		r.Value = nil
		_, _ = h.producer.ProduceSync(ctx, r) // if this fails, the other nodes notice the silence
	}
}
