package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/dronedelivery"
	"github.com/sagalog/sagalog/internal/kafka"
)

// effectCounts are the figures of one kind of effects in the summary.
type effectCounts struct {
	Records int `json:"records"`
	// Repeats are records that were sent again, after a crash of their owner.
	Repeats int `json:"repeats"`
	// Unsent are facts without their record: such as an attempt that had its outcome before a new owner came to send it.
	Unsent int `json:"unsent"`
}

// The kinds of effects.
const (
	effectWork    = "work"
	effectDead    = "dead_letters"
	effectForward = "forwards"
	effectAlert   = "alerts"
)

// effect is a record that an owner wrote outside the log of events.
type effect struct {
	kind  string
	place string
	// of names the fact whose effect it is: its ce_id, and for a forward its cause.
	of string
}

// readEffects reads what owners wrote outside. It comes before the log, so that each effect read has its fact there.
func readEffects(ctx context.Context, c *kafka.Cluster, namespace string) ([]effect, error) {
	topics := kafka.Topics{Namespace: namespace}
	var all []effect
	read := func(kind, topic string, of func(*events.Record) string) error {
		err := readTopic(ctx, c, topic, func(r *events.Record) {
			if id := of(r); id != "" {
				all = append(all, effect{kind: kind, place: fmt.Sprintf("%s/%d at offset %d", topic, r.Partition, r.Offset), of: id})
			}
		})
		if errors.Is(err, kafka.ErrUnknownTopic) {
			return nil // an agent that nobody runs has no topic
		}
		return err
	}
	id := func(r *events.Record) string { return r.Header(events.HeaderID) }
	var errs []error
	for _, s := range dronedelivery.Services() {
		errs = append(errs, read(effectWork, topics.Work(s), id))
	}
	errs = append(errs, read(effectAlert, topics.Alerts(), id))
	for _, dead := range []string{topics.DeadSubmissions(), topics.DeadReports()} {
		errs = append(errs, read(effectDead, dead, func(r *events.Record) string { return r.Header("__dlq.errors.fact") }))
	}
	for in, topic := range map[events.Input]string{events.Submissions: topics.Submissions(), events.Reports: topics.Reports()} {
		errs = append(errs, read(effectForward, topic, func(r *events.Record) string { return forwardedFrom(in, r) }))
	}
	return all, errors.Join(errs...)
}

// forwardedFrom is the cause of the fact that sent an input home, "" where it was never sent.
func forwardedFrom(in events.Input, r *events.Record) string {
	at := r.Header(events.HeaderForwardedFrom)
	var partition int32
	var offset int64
	if _, err := fmt.Sscanf(at, "%d/%d", &partition, &offset); err != nil {
		return ""
	}
	return string(events.CauseInput(in, partition, offset))
}

// reach is what a fact may have outside: the name of its effects by kind, none for most facts.
func reach(f *events.Fact, partition int32) map[string]string {
	id := events.FactID(f, partition)
	switch b := f.Body.(type) {
	case *events.StepStarted, *events.UndoStarted:
		return map[string]string{effectWork: id}
	case *events.InputRejected:
		return map[string]string{effectDead: id}
	case *events.InputForwarded:
		return map[string]string{effectForward: string(f.Cause)}
	case *events.EffectFailed:
		if b.Kind == events.EffectForward {
			return map[string]string{effectDead: id, effectAlert: id}
		}
		return map[string]string{effectAlert: id}
	case *events.TaskParked, *events.TaskUndone, *events.DeadlinePassed:
		return map[string]string{effectAlert: id}
	case *events.StepFailed:
		if b.Error.Class == events.ClassPermanent {
			return map[string]string{effectAlert: id}
		}
	}
	return nil
}

// cause is what the log says of a fact that an effect names.
type cause struct {
	accepted bool
	// void is where a record of that name stands that every reader skips.
	void string
	seen int
}

// reaches are the facts that may have effects, by kind and name.
type reaches map[string]map[string]*cause

func (r reaches) of(kind, name string) *cause {
	if r[kind] == nil {
		r[kind] = map[string]*cause{}
	}
	c := r[kind][name]
	if c == nil {
		c = &cause{}
		r[kind][name] = c
	}
	return c
}

// accept and skip book a fact, and a void record.
func (r reaches) accept(f *events.Fact, partition int32) {
	for kind, name := range reach(f, partition) {
		r.of(kind, name).accepted = true
	}
}

func (r reaches) skip(f *events.Fact, partition int32, offset int64) {
	for kind, name := range reach(f, partition) {
		r.of(kind, name).void = fmt.Sprintf("partition %d at offset %d", partition, offset)
	}
}

// compare checks that each effect is one of an accepted fact (INV8), and counts.
func (r reaches) compare(effects []effect, wrong func(disagreement)) map[string]*effectCounts {
	counts := map[string]*effectCounts{}
	for _, kind := range []string{effectWork, effectDead, effectForward, effectAlert} {
		counts[kind] = &effectCounts{}
	}
	for _, e := range effects {
		n := counts[e.kind]
		n.Records++
		c := r[e.kind][e.of]
		switch {
		case c == nil:
			wrong(disagreement{What: fmt.Sprintf("%s is the effect of %s, which the log does not hold", e.place, e.of)})
			continue
		case !c.accepted:
			wrong(disagreement{What: fmt.Sprintf("%s is the effect of %s, which is void: %s", e.place, e.of, c.void)})
		case c.seen > 0:
			n.Repeats++
		}
		c.seen++
	}
	for kind, all := range r {
		for _, c := range all {
			if c.accepted && c.seen == 0 {
				counts[kind].Unsent++
			}
		}
	}
	return counts
}
