package node

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/supervisor"
)

const (
	// missingAfter is how long steps wait for an agent before people are alerted: an agent that is only restarted is back sooner.
	missingAfter = 30 * time.Second
	// missingEvery is how often a node looks whether its steps wait for an agent.
	missingEvery = time.Second
)

// operation is an operation of an agent.
type operation struct {
	agent string
	op    events.Operation
}

func (o operation) String() string { return fmt.Sprintf("%s of agent %q", o.op, o.agent) }

// missingAgents raises the alert that steps wait for an agent of which no instance lives. Nodes tell each other by their
// heartbeats what they wait for, and the node that waits longest raises the alert, so that there is one for each operation.
type missingAgents struct {
	ns       *namespace
	producer *kafka.Producer
	owners   *owners
	liveness *liveness
	metrics  *taskMetrics
	log      *slog.Logger
	// said holds what the log has a line about, and the alert if this node raises it.
	said map[operation]bool
}

// look compares what is missing now with what was said.
func (m *missingAgents) look(ctx context.Context) {
	now := m.owners.missing()
	for of, since := range now {
		if waited := events.At(time.Now()).Sub(since); waited >= missingAfter && !m.said[of] {
			m.say(ctx, of, since)
		}
	}
	for of := range m.said {
		if _, still := now[of]; !still {
			delete(m.said, of)
			m.log.Info("no step waits for a missing agent any more", "agent", of.agent, "operation", of.op)
		}
	}
}

func (m *missingAgents) say(ctx context.Context, of operation, since events.Instant) {
	m.said[of] = true
	m.log.Warn("steps wait for an agent: no live instance offers the operation; start one, or correct the name in the workflow",
		"agent", of.agent, "operation", of.op, "since", since)
	if m.liveness.waitsLonger(of, since) {
		return
	}
	r, err := m.alert(of, since)
	if err == nil {
		_, err = m.producer.ProduceSync(ctx, r)
	}
	if err == nil {
		m.metrics.alerted(supervisor.AlertMissing)
	} else if ctx.Err() == nil {
		delete(m.said, of) // the next look tries again
		m.log.Warn("the alert about a missing agent was not written; it is tried again", "agent", of.agent, "error", err)
	}
}

func (m *missingAgents) alert(of operation, since events.Instant) (events.Record, error) {
	a := supervisor.Alert{
		Kind: supervisor.AlertMissing, Agent: of.agent, Operation: of.op, Time: events.At(time.Now()),
		Reason: fmt.Sprintf("steps have waited since %s for the operation %s; no live instance offers it", since, of),
	}
	r, err := events.EncodeAlert(a, "", events.Subject{
		ID:     strings.Join([]string{supervisor.AlertMissing, of.agent, string(of.op), since.String()}, "/"),
		Source: "/" + m.ns.name + "/nodes/" + m.liveness.self, Time: a.Time,
	})
	r.Topic = m.ns.topics.Alerts()
	return r, err
}
