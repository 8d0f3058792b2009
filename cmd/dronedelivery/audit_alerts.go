package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/sagalog/sagalog/supervisor"
)

// effectCounts are the figures of one kind of effects in the summary.
type effectCounts struct {
	Records int `json:"records"`
	// Repeats are records that were sent again, after a crash of their owner.
	Repeats int `json:"repeats"`
	// Unsent are facts without their record, such as an attempt that timed out before its request was acknowledged.
	Unsent int `json:"unsent"`
}

func effectCountsOf(c verify.EffectCounts) effectCounts {
	return effectCounts{Records: c.Records, Repeats: c.Repeats, Unsent: c.Unsent + c.NotYet}
}

// alert is a record of the topic of alerts.
type alert struct {
	place string
	// of is the ce_id of the fact that raised the alert.
	of string
}

// readAlerts reads all alerts. It comes before the log, so that each alert has its fact there.
func readAlerts(ctx context.Context, log verify.Log, namespace string) (all []alert, err error) {
	topic := kafka.Topics{Namespace: namespace}.Alerts()
	err = readTopic(ctx, log, topic, func(r *events.Record) {
		if id := r.Header(events.HeaderID); id != "" && !strings.HasPrefix(id, supervisor.AlertMissing+"/") { // no fact raises a missing-agent alert
			all = append(all, alert{place: fmt.Sprintf("%s/%d at offset %d", topic, r.Partition, r.Offset), of: id})
		}
	})
	return all, err
}

// raisesAlert says whether a fact may have an alert as its effect.
func raisesAlert(f *events.Fact) bool {
	switch b := f.Body.(type) {
	case *events.EffectFailed, *events.TaskParked, *events.TaskReminded, *events.TaskUndone, *events.DeadlinePassed, *events.SoftLimitPassed:
		return true
	case *events.StepFailed:
		return b.Error.Class == events.ClassPermanent
	}
	return false
}

// compareAlerts checks that each alert is the effect of an accepted fact (INV8), and counts.
func (c *comparison) compareAlerts() {
	n := &effectCounts{Records: len(c.alerts)}
	seen := map[string]bool{}
	for _, a := range c.alerts {
		switch {
		case !c.book.alerting[a.of]:
			c.add(disagreement{What: fmt.Sprintf("%s is the effect of %s, which is not an accepted fact that raises an alert", a.place, a.of)})
		case seen[a.of]:
			n.Repeats++
		default:
			seen[a.of] = true
		}
	}
	n.Unsent = len(c.book.alerting) - len(seen)
	c.effects["alerts"] = *n
}
