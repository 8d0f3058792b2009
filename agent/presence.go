package agent

import (
	"context"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
)

// beatLoop says each second what this instance does. When the stop begins it says that it takes no more, and when
// all has ended it says so for the last time and waits for that.
func (r *Runner) beatLoop(stop context.Context, ended <-chan struct{}) {
	t := time.NewTicker(r.config.BeatEvery)
	defer t.Stop()
	stopping := stop.Done()
	accepting := true
	r.beat(r.presence(accepting), ignore)
	for {
		select {
		case <-t.C:
			r.beat(r.presence(accepting), ignore)
		case <-stopping:
			stopping = nil
			accepting = false
			r.beat(r.presence(accepting), ignore)
		case <-ended:
			r.lastBeat()
			return
		}
	}
}

func ignore(error) {}

// lastBeat waits for the broker's answer, since the caller closes the sink next.
func (r *Runner) lastBeat() {
	answered := make(chan struct{})
	r.beat(r.presence(false), func(error) { close(answered) })
	t := time.NewTimer(r.config.Grace)
	defer t.Stop()
	select {
	case <-answered:
	case <-t.C:
	}
}

// beat sends one. A lost one is of no account, and an old one is worth nothing: it ends with the next.
func (r *Runner) beat(p events.Presence, done func(error)) {
	record, err := events.EncodePresence(p, events.Subject{
		ID: p.Instance + "/" + p.SeenAt.String(), Source: "sagalog/agent/" + p.Instance, Time: p.SeenAt,
	})
	if err != nil {
		r.config.Log.Warn("a beat cannot be written", "error", err)
		done(err)
		return
	}
	record.Topic, record.Partition = r.config.Namespace+".presence", 0
	ctx, cancel := context.WithTimeout(context.Background(), max(r.config.BeatEvery, r.config.Grace))
	r.config.Sink.Produce(ctx, record, func(err error) {
		cancel()
		done(err)
	})
}

// presence is what this instance says of itself. One that accepts nothing more has capacity zero and no partitions.
func (r *Runner) presence(accepting bool) events.Presence {
	p := events.Presence{
		Kind: events.PresenceAgent, Instance: r.config.Instance,
		Operations: map[string][]events.Operation{}, Capacity: map[string]int{}, InFlight: map[string]int{},
		Health: map[string]string{}, Partitions: map[string][]int32{},
		StartedAt: events.At(r.started), SeenAt: events.At(time.Now()),
	}
	for _, l := range r.lanes {
		name := l.agent.name
		p.Agents = append(p.Agents, name)
		p.Operations[name] = operationsOf(l.agent)
		p.InFlight[name] = l.inFlight()
		p.Health[name] = l.exec.gate.health()
		p.Capacity[name] = 0
		if accepting {
			p.Capacity[name] = l.agent.concurrency
			partitions := slices.Clone(l.source.Partitions())
			slices.Sort(partitions)
			p.Partitions[name] = partitions
		}
	}
	return p
}

func operationsOf(a *agent) []events.Operation {
	var out []events.Operation
	for _, o := range []events.Operation{events.Do, events.Undo} {
		if a.operations[o] != nil {
			out = append(out, o)
		}
	}
	return out
}
