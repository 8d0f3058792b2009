package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
)

// position finds where a stream begins.
func (w *webhooks) position(s *webhookStream, stored kafka.Stored, known bool) error {
	if known {
		err := s.resume(stored, time.Now())
		if err == nil {
			return nil
		}
		*s = webhookStream{place: s.place}
		w.log.Error("the stored position of the webhook is not in our format; continuing from the end of the log, so earlier messages are not delivered",
			"topic", s.topic, "partition", s.partition, "offset", stored.Next, "error", err)
		return w.toEnd(s)
	}
	var err error
	if !w.start {
		err = w.toEnd(s)
	} else if err = w.toStart(s); errors.Is(err, errNoCarry) {
		w.log.Error("the log begins in the middle, where nothing says who may write to it; the webhook continues from its end, so earlier messages are not delivered",
			"topic", s.topic, "partition", s.partition, "error", err)
		err = w.toEnd(s)
	}
	if err == nil {
		w.log.Info("the webhook has no stored position, and begins here", "topic", s.topic, "partition", s.partition, "offset", s.next)
	}
	return err
}

// toEnd sets a stream to the end of the log, as far as this node has folded it.
func (w *webhooks) toEnd(s *webhookStream) error {
	if s.topic == w.ns.topics.Alerts() {
		ctx, cancel := context.WithTimeout(context.Background(), webhookLast)
		defer cancel()
		end, err := w.ns.cluster.EndOffset(ctx, s.topic, s.partition)
		if err == nil {
			s.moveTo(end, authority{})
		}
		return err
	}
	part := w.store.Partition(s.partition)
	snap, _, _, err := part.Snapshot()
	if err != nil {
		return err
	}
	state, err := events.OpenStateAt(w.ns.maxLevel, s.partition, snap, part.Loader())
	if err == nil {
		s.moveTo(state.Next, authorityOf(&state.Partition))
	}
	return err
}

var errNoCarry = errors.New("the log does not begin with CarryBegun: facts are lost")

// toStart sets a stream to where the log begins. If it was cut there, its first record says who may write to it.
func (w *webhooks) toStart(s *webhookStream) error {
	ctx, cancel := context.WithTimeout(context.Background(), webhookLast)
	defer cancel()
	start, err := w.ns.cluster.StartOffset(ctx, s.topic, s.partition)
	if err != nil {
		return err
	}
	if start == 0 || s.topic == w.ns.topics.Alerts() {
		s.moveTo(start, authority{})
		return nil
	}
	r, err := w.ns.cluster.ReadAt(ctx, s.topic, s.partition, start)
	if err != nil {
		return err
	}
	f, err := events.DecodeFact(&r)
	if err != nil {
		return err
	}
	b, ok := f.Body.(*events.CarryBegun)
	if !ok {
		return fmt.Errorf("%w (offset %d has %s)", errNoCarry, start, f.Body.Name())
	}
	var p events.PartitionState
	if err := json.Unmarshal(b.State, &p); err != nil {
		return fmt.Errorf("read the state in CarryBegun at offset %d: %w", start, err)
	}
	s.moveTo(start, authorityOf(&p))
	return nil
}

// interrupted resumes reading after an error.
func (w *webhooks) interrupted(s *webhookStream, cause error) {
	s.added = 0
	log := w.log.With("topic", s.topic, "partition", s.partition, "offset", s.next, "error", cause)
	if !errors.As(cause, new(*kafka.OutOfRangeError)) && !errors.As(cause, new(*kafka.DataLossError)) {
		w.often.Warn("reading the log for the webhook was interrupted; trying again",
			"topic", s.topic, "partition", s.partition, "offset", s.next, "error", cause)
		return
	}
	from := &webhookStream{place: s.place}
	if err := w.toStart(from); err == nil && from.next > s.next {
		s.moveTo(from.next, from.log)
		log.Error("the log was cut beyond the position of the webhook; continuing where it begins now, so messages before that are not delivered", "begin", s.next)
		return
	}
	if err := w.toEnd(s); err != nil {
		s.due = false // it has no position; the one of the last commit stays
		w.leave(s)    // the next look begins it once more
		return
	}
	log.Error("the position of the webhook is outside the log; continuing from the end of the log, so earlier messages are not delivered", "end", s.next)
}

// check finds a stream that regards all facts as void because its position names an epoch that the log does not have: records were lost, or the position is
// that of another log. The node's state is of the log as it is.
func (w *webhooks) check(s *webhookStream) {
	if s.topic == w.ns.topics.Alerts() {
		return
	}
	part := w.store.Partition(s.partition)
	_, epoch, _, err := part.Claim() // before Next: a claim that is folded in between must not count
	if err != nil || !s.astray(part.Next(), epoch) {
		return
	}
	log := w.log.With("topic", s.topic, "partition", s.partition, "offset", s.next, "epoch", s.log.epoch, "log_epoch", epoch)
	if err := w.toEnd(s); err != nil {
		return // the next look tries again
	}
	w.unread(s)
	log.Error("the position of the webhook names an epoch that the log does not have; continuing from the end of the log, so messages since the position was stored may be missing", "end", s.next)
}
