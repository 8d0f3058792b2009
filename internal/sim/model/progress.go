package model

import (
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
)

// An agent whose work has a heartbeat sends progress, which lands at once, and gets the acknowledgement later. It acts until the end that
// follows from the last acknowledged progress. It may go on after a report of the attempt, since another instance may have a copy.

// beats lists what the agent of an attempt may do about its progress.
func beats(w *World, list []Action, i int) []Action {
	x := &w.s.works[i]
	switch wk := w.sp.effects[x.effect].work; {
	case x.unanswered > 0:
		list = append(list, Action{kind: actBeatAck, i: int16(i), Progress: true})
	case wk.Heartbeat > 0 && w.left(Beats) && w.sp.cfg.at(w.s.clock) < actsUntil(w, x):
		list = append(list, Action{kind: actBeat, i: int16(i)})
	}
	return list
}

// actsUntil returns the end of an attempt as its agent knows it.
func actsUntil(w *World, x *work) events.Instant {
	wk := w.sp.effects[x.effect].work
	if x.sent == 0 {
		return wk.CompleteBy
	}
	return wk.ActsUntil(w.sp.cfg.at(x.sent - 1))
}

// beat makes an agent send progress.
func beat(w *World, i int) {
	x := &w.s.works[i]
	wk := w.sp.effects[x.effect].work
	p := events.Report{Task: wk.Task, Run: wk.Run, Step: wk.Step, Operation: wk.Operation, Attempt: wk.Attempt, Ticket: wk.Ticket,
		Result: events.ResultProgress, Instance: "agent-1", Progress: []byte("{}")}
	r, err := events.EncodeReport(p, events.Subject{ID: "progress", Source: "/agents", Time: Begin})
	if err != nil {
		panic(err)
	}
	x.unanswered = w.s.clock + 1
	in := input{in: events.Reports, record: r, Input: sim.Input{Kind: sim.InputReport, Task: p.Task, Report: p}, name: "progress of " + w.sp.effects[x.effect].name}
	w.put(wk.Home, w.sp.internInput(in))
}

// beatAnswered gives an agent the acknowledgement of its progress. It comes too late if the attempt has ended.
func beatAnswered(w *World, i int) {
	x := &w.s.works[i]
	if w.sp.cfg.at(w.s.clock) < actsUntil(w, x) {
		acknowledge(w, x)
	}
	x.unanswered = 0
}

func acknowledge(w *World, x *work) {
	//mutant:agent-counts-from-before-sending
	x.sent = min(x.unanswered, w.s.clock+1)
}

// silences checks that no attempt times out before its agent has ended it.
func (j *judge) silences(f *events.Fact, b *events.Timeout) {
	for i := range j.w.s.works {
		x := &j.w.s.works[i]
		wk := j.w.sp.effects[x.effect].work
		if wk.Task != f.Task || wk.Step != b.Step || wk.Operation != b.Operation || wk.Attempt != b.Attempt || wk.Heartbeat == 0 {
			continue
		}
		if t, _ := j.State.Task(f.Task); t == nil || t.Incarnation != wk.Ticket {
			continue
		}
		if end := actsUntil(j.w, x); j.w.sp.cfg.right(f.Time) < end {
			j.w.fail("attempt %d of step %s of %s times out at %s, and its agent acts until %s", b.Attempt, b.Step, f.Task, f.Time, end)
		}
	}
}
