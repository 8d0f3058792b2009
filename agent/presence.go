package agent

import (
	"context"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
)

// lookEvery is how often the instance looks whether owners should hear of it before the next beat: at most so many
// beats come on top.
const lookEvery = 250 * time.Millisecond

// beatLoop says each second what this instance does, and soon when that has changed much. When the stop begins it says
// that it takes no more, and when all has ended it says so for the last time and waits for that.
func (r *Runner) beatLoop(stop context.Context, ended <-chan struct{}) {
	t, looks := time.NewTicker(r.config.BeatEvery), time.NewTicker(lookEvery)
	defer t.Stop()
	defer looks.Stop()
	stopping := stop.Done()
	accepting := true
	said := r.presence(accepting)
	r.beat(said, ignore)
	for {
		select {
		case <-t.C:
			said = r.presence(accepting)
			r.beat(said, ignore)
		case <-looks.C:
			if p := r.presence(accepting); changed(&said, &p) {
				said = p
				r.beat(said, ignore)
			}
		case <-stopping:
			stopping = nil
			accepting = false
			said = r.presence(accepting)
			r.beat(said, ignore)
		case <-ended:
			r.lastBeat()
			return
		}
	}
}

func ignore(error) {}

// changed tells whether owners would send more, less or elsewhere if they knew: an agent's health or partitions are
// others, or its capacity by more than a fifth.
func changed(said, now *events.Presence) bool {
	for _, name := range now.Agents {
		before, after := said.Capacity[name], now.Capacity[name]
		if said.Health[name] != now.Health[name] || !slices.Equal(said.Partitions[name], now.Partitions[name]) ||
			5*max(after-before, before-after) > before {
			return true
		}
	}
	return false
}

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
			p.Capacity[name] = l.exec.limit.capacity(time.Now())
			l.metrics.capacity(p.Capacity[name])
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
