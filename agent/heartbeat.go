package agent

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
)

// lookEvery is how often the instance checks for changes that owners should know about before the next regular heartbeat. It
// also limits how many additional heartbeats there are.
const lookEvery = 250 * time.Millisecond

// heartbeatLoop sends a heartbeat at each interval, and soon after a large change. When the stop begins, the heartbeat says
// that this instance accepts nothing more. The loop returns when all requests have ended.
func (r *Runner) heartbeatLoop(stop context.Context, ended <-chan struct{}) {
	t, looks := time.NewTicker(r.config.HeartbeatEvery), time.NewTicker(lookEvery)
	defer t.Stop()
	defer looks.Stop()
	stopping := stop.Done()
	accepting := true
	last := r.presence(accepting)
	r.heartbeat(last, r.unheard)
	for {
		select {
		case <-t.C:
			last = r.presence(accepting)
			r.heartbeat(last, r.unheard)
		case <-looks.C:
			if p := r.presence(accepting); changed(&last, &p) {
				last = p
				r.heartbeat(last, r.unheard)
			}
		case <-stopping:
			stopping = nil
			accepting = false
			last = r.presence(accepting)
			r.heartbeat(last, r.unheard)
		case <-ended:
			return
		}
	}
}

// changed reports whether owners should send more, send less, or send elsewhere. That is so if an agent's health or partitions
// have changed, or its capacity has changed by more than a fifth.
func changed(last, now *events.Presence) bool {
	for _, name := range now.Agents {
		before, after := last.Capacity[name], now.Capacity[name]
		if last.Health[name] != now.Health[name] || !slices.Equal(last.Partitions[name], now.Partitions[name]) ||
			5*max(after-before, before-after) > before {
			return true
		}
	}
	return false
}

// goodbye deletes this instance's heartbeat, so that it is not taken for a live one until its silence is noticed. It waits for
// the broker's answer, since the caller closes the sink next.
func (r *Runner) goodbye() {
	answered := make(chan struct{})
	r.produce(events.Record{Key: []byte(events.PresenceAgent + "/" + r.config.Instance)}, func(error) { close(answered) })
	t := time.NewTimer(r.config.Grace)
	defer t.Stop()
	select {
	case <-answered:
	case <-t.C:
	}
}

// heartbeat sends one heartbeat. A lost heartbeat does no harm and an old one is useless, so sending is given up when the next
// one is due.
func (r *Runner) heartbeat(p events.Presence, done func(error)) {
	record, err := events.EncodePresence(p, events.Subject{
		ID: p.Instance + "/" + p.SeenAt.String(), Source: "sagalog/agent/" + p.Instance, Time: p.SeenAt,
	})
	if err != nil {
		r.config.Log.Warn("a heartbeat cannot be encoded", "error", err)
		done(err)
		return
	}
	r.produce(record, done)
}

func (r *Runner) produce(record events.Record, done func(error)) {
	record.Topic, record.Partition = r.config.Namespace+".presence", 0
	ctx, cancel := context.WithTimeout(context.Background(), max(r.config.HeartbeatEvery, r.config.Grace))
	r.config.Sink.Produce(ctx, record, func(err error) {
		cancel()
		done(err)
	})
}

// presence describes this instance. One that accepts nothing more has capacity zero and no partitions.
func (r *Runner) presence(accepting bool) events.Presence {
	p := events.Presence{
		Kind: events.PresenceAgent, Instance: r.config.Instance,
		Operations: map[string][]events.Operation{}, Capacity: map[string]int{}, InFlight: map[string]int{},
		Health: map[string]string{}, Partitions: map[string][]int32{},
		StartedAt: events.At(r.started), SeenAt: events.At(time.Now()),
	}
	for _, c := range r.agents {
		name := c.agent.name
		p.Agents = append(p.Agents, name)
		p.Operations[name] = c.agent.offers("")
		if named := c.agent.named(); len(named) > 0 {
			if p.Functions == nil {
				p.Functions = map[string]map[string][]events.Operation{}
			}
			p.Functions[name] = named
		}
		p.InFlight[name] = int(c.running.Load())
		p.Health[name] = c.exec.gate.health()
		if missed := c.missed.list(time.Now()); len(missed) > 0 {
			if p.MissingKeys == nil {
				p.MissingKeys = map[string][]string{}
			}
			p.MissingKeys[name] = missed
		}
		p.Capacity[name] = 0
		if accepting {
			p.Capacity[name] = c.exec.limit.capacity(time.Now())
			c.metrics.capacity(p.Capacity[name])
			partitions := slices.Clone(c.source.Partitions())
			slices.Sort(partitions)
			p.Partitions[name] = partitions
		}
	}
	return p
}

// offers says whether the agent does and undoes an operation; an empty name is the operation without a name.
func (a *agent) offers(operation string) []events.Operation {
	out := []events.Operation{}
	for _, o := range []events.Operation{events.Do, events.Undo} {
		if a.functions[events.Call{Function: operation, Operation: o}] != nil {
			out = append(out, o)
		}
	}
	return out
}

// verbs lists what the agent offers, such as "do capture, undo capture".
func (a *agent) verbs() string {
	var list []string
	for c := range a.functions {
		list = append(list, c.Verb())
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// named returns the operations with a name, and whether the agent does and undoes them.
func (a *agent) named() map[string][]events.Operation {
	out := map[string][]events.Operation{}
	for c := range a.functions {
		if c.Function != "" {
			out[c.Function] = a.offers(c.Function)
		}
	}
	return out
}
