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
	// missingAfter is how long steps wait for an agent before an alert is raised. An agent that is merely being restarted is back
	// sooner.
	missingAfter = 30 * time.Second
	// missingEvery is how often a node checks whether its steps wait for a missing agent.
	missingEvery = time.Second
	// alertedAfter is how long beyond missingAfter another node must have waited to count as having alerted: a node that dies
	// before it alerts must not keep the others silent.
	alertedAfter = 5 * missingEvery
	// forgetAfter ends a missing spell in which nobody waits any more. It is longer than a partition takes to move, because
	// meanwhile nobody publishes what the partition's steps wait for.
	forgetAfter = 5 * time.Minute
	// maxSaid bounds the operations that are remembered: anyone may write heartbeats.
	maxSaid = 10_000
)

// missingAgents raises an alert when steps wait for an operation that no live instance offers. Nodes publish in their heartbeats
// what they wait for, and the node that has waited longest raises the alert, so that there is only one for each operation.
type missingAgents struct {
	ns       *namespace
	producer *kafka.Producer
	owners   *owners
	liveness *liveness
	metrics  *taskMetrics
	log      *slog.Logger
	// said holds the operations that were already logged and alerted, by this node or another, and when steps last waited for
	// them. The next owner of a partition does not repeat the alert: the spell ends only when an instance offers the operation.
	said map[events.Call]time.Time
}

// look compares what is missing now with what was reported earlier.
func (m *missingAgents) look(ctx context.Context) {
	offered := m.liveness.offers(m.ns.partitions)
	for of := range m.liveness.alerted() {
		if len(m.said) < maxSaid {
			m.said[of] = time.Now()
		}
	}
	for of, since := range m.owners.missing() {
		if _, said := m.said[of]; said {
			m.said[of] = time.Now()
		} else if events.At(time.Now()).Sub(since) >= missingAfter {
			m.say(ctx, of, since)
		}
	}
	for of, last := range m.said {
		if offered.offered(of) || time.Since(last) > forgetAfter {
			delete(m.said, of)
			m.log.Info("steps no longer wait for this operation", "agent", of.Agent, "operation", of.Verb())
		}
	}
}

func (m *missingAgents) say(ctx context.Context, of events.Call, since events.Instant) {
	m.said[of] = time.Now()
	m.log.Warn("steps are waiting for an agent: no live instance offers the operation; start one, or correct the agent's name in the workflow",
		"agent", of.Agent, "operation", of.Verb(), "since", since)
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
		m.log.Warn("the alert about a missing agent was not written; trying again", "agent", of.Agent, "error", err)
	}
}

func (m *missingAgents) alert(of events.Call, since events.Instant) (events.Record, error) {
	a := supervisor.Alert{
		Kind: supervisor.AlertMissing, Agent: of.Agent, Function: of.Function, Operation: of.Operation, Time: events.At(time.Now()),
		Reason: fmt.Sprintf("steps have been waiting since %s for the operation %s; no live instance offers it", since, of),
	}
	r, err := events.EncodeAlert(a, "", events.Subject{
		ID:     strings.Join([]string{supervisor.AlertMissing, of.Queue(), string(of.Operation), since.String()}, "/"),
		Source: "/" + m.ns.name + "/nodes/" + m.liveness.self, Time: a.Time,
	})
	r.Topic = m.ns.topics.Alerts()
	return r, err
}
