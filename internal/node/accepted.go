package node

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// losses implements api.Losses.
type losses struct {
	store    *stateStore
	producer *kafka.Producer
	liveness *liveness
}

// Losses implements api.Losses.
func (l *losses) Losses(ctx context.Context) ([]*api.Loss, error) {
	all := make([]int32, l.store.ns.partitions)
	for p := range all {
		all[p] = int32(p)
	}
	list, err := l.store.lost(ctx, all...)
	return list, noAnswer(err)
}

// AcceptLoss implements api.Losses. It refuses a range that is not exactly the current loss, so that nobody gives up records that
// exist.
func (l *losses) AcceptLoss(ctx context.Context, a events.AcceptedLoss) (offset int64, now []*api.Loss, err error) {
	ns := l.store.ns
	if err := ns.catalog.upToNow(ctx); err != nil {
		return 0, nil, noAnswer(err)
	}
	id, err := ns.cluster.TopicID(ctx, ns.topics.Input(a.Input))
	if err != nil {
		return 0, nil, noAnswer(err)
	}
	a.TopicID = projector.TopicID(id).String()
	if r, ok := ns.catalog.AcceptedLoss(a.Input, a.Partition); ok && r.From == a.From && r.To == a.To && r.TopicID == a.TopicID {
		return r.Offset, nil, nil
	}
	if now, err = l.store.lost(ctx, a.Partition); err != nil {
		return 0, nil, noAnswer(err)
	}
	if !api.Covers(now, &a) {
		return 0, now, nil
	}
	if err := l.liveness.allKnowLosses(); err != nil {
		return 0, nil, err
	}
	r, err := scheduler.EncodeLoss(&a, events.Subject{ID: uuid.NewString(), Source: "/" + ns.name + "/settings", Time: events.At(time.Now())})
	if err != nil {
		return 0, nil, err
	}
	at, err := ns.define(ctx, l.producer, "an accepted loss", r)
	return at, nil, err
}

// allKnowLosses returns an OlderNodeError while a live node has a build that stops at the fact of an accepted loss: builds that
// announce no level do not know it.
func (l *liveness) allKnowLosses() error {
	if !l.hears() {
		return fmt.Errorf("%w: this node has not heard the others for long enough", api.ErrNoAnswer)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.seen {
		if b.Kind == events.PresenceNode && b.SeenAt != 0 && time.Since(b.at) <= silentAfter && b.Level == 0 {
			return &api.OlderNodeError{Node: b.Instance}
		}
	}
	return nil
}

// Loss implements supervisor.Log. An acceptance applies only to the topic that it was given for, not to a topic of the same name
// that was created later.
func (l *partitionLog) Loss(ctx context.Context, in events.Input) (supervisor.Loss, error) {
	if err := l.catalog.upToNow(ctx); err != nil {
		return supervisor.Loss{}, err
	}
	topic := l.topics.Input(in)
	id, err := l.cluster.TopicID(ctx, topic)
	if err != nil {
		return supervisor.Loss{}, err
	}
	starts, err := l.cluster.StartOffsets(ctx, kafka.Partitions{topic: {l.partition}})
	if err != nil {
		return supervisor.Loss{}, err
	}
	loss := supervisor.Loss{Start: starts[topic][l.partition]}
	if r, ok := l.catalog.AcceptedLoss(in, l.partition); ok && (r.TopicID == "" || r.TopicID == projector.TopicID(id).String()) {
		loss.Accepted, loss.Offset = &r.AcceptedLoss, r.Offset
	}
	return loss, nil
}
