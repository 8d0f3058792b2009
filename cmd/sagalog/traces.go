package main

import (
	"context"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/internal/traces"
)

const checkTraces = "traces"

// traces checks the variables that say how traces are exported.
func (l *localCheck) traces() {
	switch wanted, err := traces.Check(); {
	case err != nil:
		l.add(checkTraces, doctor.StatusFail, err.Error(), "correct the variable, or export no traces (OTEL_TRACES_EXPORTER=none)")
	case wanted:
		l.add(checkTraces, doctor.StatusOK, "traces are exported; the metric sagalog_trace_spans_total shows whether the collector accepts them", "")
	}
}

// openTraces opens the exporter of traces, if the variables name one. Spans bear the name of the node.
func (p *process) openTraces(ctx context.Context, instance string) (err error) {
	p.traces, err = traces.Open(ctx, traces.Config{Instance: instance, Version: version(), Registerer: p.metrics, Logger: p.log})
	return err
}

// nodeTraces returns what makes the spans of a node, or nil.
func (p *process) nodeTraces() node.Traces {
	if p.traces == nil {
		return nil
	}
	return p.traces
}

// agentTrace returns what makes the spans of agents, or nil.
func (p *process) agentTrace() agent.Trace {
	if p.traces == nil {
		return nil
	}
	return p.traces.Call
}
