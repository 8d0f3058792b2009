package verify

import (
	"github.com/sagalog/sagalog/events"
)

// attemptOf names the attempts of one operation of a step.
type attemptOf struct {
	step string
	op   events.Operation
}

// stepPermit is that of an attempt, according to the log.
type stepPermit struct {
	limit         string
	n             int
	granted, used bool
	quiet         events.Instant
	// corrected says that the time of the task was corrected, so that quiet is no longer known to the millisecond.
	corrected bool
}

// stepPermits are those of the attempts of a task, and how many links its steps have had.
type stepPermits struct {
	open  map[attemptOf]*stepPermit
	links int
}

// waits returns the attempt that waits for a permit; false if none does.
func (p *stepPermits) waits() (at attemptOf, so bool) {
	for a, x := range p.open {
		if !x.granted && (!so || a.step < at.step) {
			at, so = a, true
		}
	}
	return at, so
}

func (p *stepPermits) corrected() {
	for _, x := range p.open {
		x.corrected = true
	}
}

// stepPermit returns the permit of the attempt that the link names; nil if the task, which may be nil, has none.
func (s *story) stepPermit(l events.Link) *stepPermit {
	if s == nil {
		return nil
	}
	return s.limits.open[attemptOf{l.Path, l.Operation}]
}

// linkIn returns the link of a fact about a permit of a task or of a step.
func linkIn(b events.Body) (link events.Link) {
	switch b := b.(type) {
	case *events.PermitAsked:
		return b.Link
	case *events.PermitGranted:
		return b.Link
	case *events.PermitReleased:
		return b.Link
	case *events.PermitBlocked:
		return b.Link
	}
	return link
}

// stepPermitted takes a fact about the permit of an attempt.
func stepPermitted(t *telling, link events.Link) {
	at, x, st := attemptOf{link.Path, link.Operation}, t.stepPermit(link), t.step(link.Path)
	wrong := func(format string, args ...any) { t.wrong(CheckAttempts, "permit", link.Path, format, args...) }
	if link.Task != t.story.id || link.Incarnation != t.incarnation || link.Run < 1 || link.Run > t.run {
		wrong("the link names %s, run %d of incarnation %s, and the task is %s, run %d of %s", link.Task, link.Run, link.Incarnation, t.story.id, t.run, t.incarnation)
	}
	runs := st != nil && st.work(link.Operation).running
	switch b := t.fact.Body.(type) {
	case *events.PermitAsked:
		asksForStep(t, b, wrong)
		if x == nil {
			t.story.limits.links = link.N
			if t.story.limits.open == nil {
				t.story.limits.open = map[attemptOf]*stepPermit{}
			}
			t.story.limits.open[at] = &stepPermit{limit: b.Limit, n: link.N}
		}
	case *events.PermitGranted:
		if x == nil || x.granted || x.n != link.N || x.limit != b.Limit {
			wrong("the %s gets permit %d of %s, for which it has not asked", link.Operation, link.N, b.Limit)
			return
		}
		x.granted = true
	case *events.PermitReleased:
		if x == nil || x.n != link.N || x.limit != b.Limit || x.used && runs || !x.corrected && x.quiet != b.QuietAt {
			wrong("the %s gives back permit %d of %s, to be kept until %q, which it does not have, needs still, or must keep for longer", link.Operation, link.N, b.Limit, b.QuietAt.String())
		}
		delete(t.story.limits.open, at)
	default:
		wrong("%s is about the permit of a step", t.fact.Body.Name())
	}
}

// asksForStep checks that an attempt asks for a permit of the limit of its step, once.
func asksForStep(t *telling, b *events.PermitAsked, wrong func(format string, args ...any)) {
	x, r := t.stepPermit(b.Link), t.def.step(b.Link.Path)
	switch {
	case r == nil || r.Limit == "" || b.Limit != events.LimitKey(r.Limit) || b.Max != 0 || b.Version != 0:
		wrong("it asks for a permit of %s, which its definition does not name", b.Limit)
	case b.Repeat != (x != nil) || x != nil && (x.granted || x.n != b.Link.N) || x == nil && b.Link.N != t.story.limits.links+1:
		wrong("the %s asks for permit %d of %s (again: %t) after link %d", b.Link.Operation, b.Link.N, b.Limit, b.Repeat, t.story.limits.links)
	case x == nil && (t.parked || t.paused || t.early.until != 0 || !t.step(b.Link.Path).tolerated() && t.back != (b.Link.Operation == events.Undo)):
		wrong("the %s asks for a permit of %s although the task is %s", b.Link.Operation, b.Limit, t.state())
	}
}

// usesPermit notes what a fact about an attempt does to its permit, and checks that it has one.
func usesPermit(t *telling, body events.Body) {
	switch b := body.(type) {
	case *events.StepStarted:
		startsWithPermit(t, b.Step, events.Do)
	case *events.CompensationStarted:
		startsWithPermit(t, b.Step, events.Undo)
	case *events.StepCompleted:
		endsWithPermit(t, b.Step, events.Do, b.QuietAt)
	case *events.StepFailed:
		endsWithPermit(t, b.Step, events.Do, b.QuietAt)
	case *events.Timeout:
		endsWithPermit(t, b.Step, b.Operation, b.QuietAt)
	case *events.Compensated:
		endsWithPermit(t, b.Step, events.Undo, b.QuietAt)
	case *events.CompensationFailed:
		endsWithPermit(t, b.Step, events.Undo, b.QuietAt)
	case *events.EffectFailed:
		if b.Failed != nil {
			usesPermit(t, b.Failed)
		}
		if b.CompensationFailed != nil {
			usesPermit(t, b.CompensationFailed)
		}
	case *events.TaskProcessed, *events.TaskUndone, *events.TaskTerminated, *events.RunBegun:
		for at, x := range t.story.limits.open {
			t.wrong(CheckAttempts, "permit_kept", at.step, "%s does not give back permit %d of %s, which nobody else gets then", body.Name(), x.n, x.limit)
		}
		t.story.limits.open = nil
	}
}

func startsWithPermit(t *telling, step string, op events.Operation) {
	x, r := t.story.limits.open[attemptOf{step, op}], t.def.step(step)
	switch {
	case r == nil || r.Limit == "":
	case x == nil || !x.granted || x.used:
		t.wrong(CheckAttempts, "no_permit", step, "an attempt of the %s starts without a permit of %s", op, r.Limit)
	default:
		x.used = true
	}
}

func endsWithPermit(t *telling, step string, op events.Operation, quiet events.Instant) {
	if x := t.story.limits.open[attemptOf{step, op}]; x != nil && x.used {
		x.quiet = max(x.quiet, quiet)
	}
}

// limitAdopted takes the object of a named limit.
func limitAdopted(p *partition, f *events.Fact, b *events.LimitAdopted, at Place) {
	wrong := func(format string, args ...any) {
		p.wrong(CheckAttempts, "limit", at, "LimitAdopted of %s: "+format, append([]any{b.Limit}, args...)...)
	}
	if home := events.Home(b.Limit, p.check.number); home != p.number {
		wrong("its home is partition %d, but its fact is here", home)
	}
	if b.Offset <= p.limitsOffset || f.Cause != events.CauseDefinition(b.Offset) {
		wrong("it is that of offset %d, after offset %d", b.Offset, p.limitsOffset)
	}
	p.limitsOffset = b.Offset
	l := limitOf(p, b.Limit)
	if b.Rate != l.rate {
		l.rate, l.given = b.Rate, nil
	}
	if l.max, l.defined = b.Max, !b.Removes(); len(l.links) == 0 && !l.paused && !l.defined {
		delete(p.limits, b.Limit)
	}
}

// waitsWithin returns the step of which an attempt waits for a permit, "" if none does.
func waitsWithin(s *story) string {
	at, _ := s.limits.waits()
	return at.step
}
