package verify

import (
	"encoding/json"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// carriedPart takes an entity that is not of a task, with which a log that was cut begins.
func carriedPart(p *partition, row events.PartRow) error {
	switch row.Kind {
	case events.KindDefinition:
		return carriedDefinition(p, row.Encoding)
	case events.KindHeld:
		return carriedHeld(p, row.Encoding)
	case events.KindLimit:
		return carriedLimit(p, row.Encoding)
	case events.KindPermit:
		return carriedPermit(p, row.Encoding)
	case events.KindSchedule:
		return carriedSchedule(p, row.Encoding)
	}
	return fmt.Errorf("an entity of the kind %q is not known", row.Kind)
}

func carriedDefinition(p *partition, encoding []byte) error {
	var e events.Definition
	d := &definition{}
	if err := json.Unmarshal(encoding, &e); err != nil {
		return err
	}
	if err := json.Unmarshal(e.Body, d); err != nil {
		return err
	}
	p.defs[e.Hash] = d
	return nil
}

// carriedHeld takes a held request. Its input is read later, if it is still there.
func carriedHeld(p *partition, encoding []byte) error {
	h := new(events.HeldRequest)
	if err := json.Unmarshal(encoding, h); err != nil {
		return err
	}
	of := p.held[h.Request.Task]
	if of == nil {
		of = map[string]inputPrint{}
		p.held[h.Request.Task] = of
	}
	of[h.Request.ID] = inputPrint{}
	p.carry.held[h.Cause] = h
	return nil
}

func carriedLimit(p *partition, encoding []byte) error {
	var e events.Limit
	if err := json.Unmarshal(encoding, &e); err != nil {
		return err
	}
	l := limitOf(p, e.Name)
	l.max, l.version, l.paused, l.defined, l.rate = e.Max, e.Version, e.Paused != nil, e.Offset != 0, e.Rate
	return nil
}

func carriedPermit(p *partition, encoding []byte) error {
	var e events.Permit
	if err := json.Unmarshal(encoding, &e); err != nil {
		return err
	}
	l := limitOf(p, e.Limit)
	if l.links[e.Link] = e.GrantedAt != 0; e.EndsAt != 0 {
		l.endsAt[e.Link], l.backAt[e.Link] = e.EndsAt, e.GrantedAt
	}
	return nil
}

func carriedSchedule(p *partition, encoding []byte) error {
	var e events.Schedule
	var d struct {
		Overlap events.Overlap `json:"overlap"`
	}
	if err := json.Unmarshal(encoding, &e); err != nil {
		return err
	}
	if err := json.Unmarshal(e.Body, &d); err != nil {
		return err
	}
	x := &timetable{overlap: d.Overlap, paused: e.Paused != nil, began: e.Began, queued: e.Queued, cancels: e.Cancels,
		fired: map[events.Instant]bool{}, running: map[string]bool{}, asked: map[string]bool{}}
	for _, fire := range e.Fires {
		x.fired[fire.Due] = true
	}
	for _, fire := range e.Running {
		x.fired[fire.Due], x.running[fire.Task] = true, true
		if fire.CancelledFor != 0 {
			x.asked[fire.Task] = true
		}
	}
	p.timetables[e.Name] = x
	return nil
}
