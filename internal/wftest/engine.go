package wftest

import (
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/virtualowner"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// engine is the owner of a case, with what it asked of others.
type engine struct {
	*virtualowner.Engine
	// works are the requests that no mock has answered yet, and cancelled the children that are to turn back.
	works     []call
	cancelled []events.ChildAnswer
}

// begin is when each case begins.
const begin events.Instant = 1_798_761_600_000 // 2027-01-01T00:00:00Z

// newEngine returns an engine whose owner owns the partition, at the instant begin. No agent makes an attempt wait.
func newEngine(src *scheduler.Source, d *scheduler.Definition) (*engine, error) {
	body, err := events.Marshal(d)
	if err != nil {
		return nil, err
	}
	e := &engine{}
	e.Engine, err = virtualowner.New(virtualowner.Config{
		Begin: begin, Offers: virtualowner.OffersOf(d, virtualowner.Width(d)), Limits: d.Limits(), Sent: e.sent,
		Version: supervisor.Version{Workflow: src.Workflow, Version: 1, Hash: src.Hash, Body: body, Offset: 1, Level: src.Level},
	})
	return e, err
}

// sent notes the work requests, and what the task says to its children.
func (e *engine) sent(a supervisor.Send) error {
	switch a.Kind {
	case events.EffectWork:
		w, _, err := events.DecodeWork(&a.Record)
		if err != nil {
			return err
		}
		e.works = append(e.works, call{w, nil})
	case events.EffectStart, events.EffectChild:
		return e.relative(&a.Record)
	}
	return nil
}
