package sim

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/sagalog/sagalog/events"
)

// Permit is what a record about a permit says, its type, and the time of its fact.
type Permit struct {
	Type string
	Sent events.Instant
	events.PermitMessage
}

// OfPermit returns the input that a record about a permit is.
func OfPermit(r *events.Record, m events.PermitMessage) Input {
	kind := r.Header(events.HeaderType)
	sent, _ := events.ParseInstant(r.Header(events.HeaderTime)) // each record of an owner has it
	return Input{Kind: InputPermit, Task: m.To(kind), Permit: Permit{kind, sent, m}}
}

// quiet is until when the permit of a release is kept that is judged at now: until the time that it says, or, if the release was sent by a clock that was
// far ahead, for as long as it was then.
func (x *Permit) quiet(now events.Instant) events.Instant {
	if x.Sent.Sub(now) > time.Minute {
		return now.Add(x.QuietAt.Sub(x.Sent))
	}
	return x.QuietAt
}

// String says what it is and of which link.
func (x *Permit) String() string {
	what := map[string]string{events.TypePermitAsk: "ask", events.TypePermitGrant: "grant", events.TypePermitRelease: "release"}[x.Type]
	return fmt.Sprintf("the %s %d of %s", what, x.Link.N, x.Link.Task)
}

// released is the release that a fact sends, nil if it sends none.
func released(f *events.Fact) *events.PermitReleased {
	switch b := f.Body.(type) {
	case *events.PermitReleased:
		return b
	case *events.PermitReturned:
		return &events.PermitReleased{Limit: b.Limit, Link: b.Link, QuietAt: b.QuietAt}
	case *events.TaskProcessed:
		return b.Release
	case *events.TaskUndone:
		return b.Release
	case *events.TaskTerminated:
		return b.Release
	}
	return nil
}

// permitOf says what a fact sends about a permit, and to whom; false if nothing.
func permitOf(f *events.Fact) (kind, to string, link events.Link, ok bool) {
	switch b := f.Body.(type) {
	case *events.PermitAsked:
		return events.TypePermitAsk, b.Limit, b.Link, true
	case *events.PermitsDecided:
		if b.Granted == nil {
			return "", "", events.Link{}, false
		}
		return events.TypePermitGrant, b.Granted.Task, *b.Granted, true
	}
	if r := released(f); r != nil {
		return events.TypePermitRelease, r.Limit, r.Link, true
	}
	return "", "", events.Link{}, false
}

// permitTo is the destination of what a fact sends about a permit.
func permitTo(f *events.Fact, partitions int32) string {
	_, to, _, _ := permitOf(f)
	return string(events.Reports) + "/" + strconv.Itoa(int(events.Home(to, partitions)))
}

// SaysPermit checks that a record about a permit says what its fact says.
func SaysPermit(f *events.Fact, r *events.Record, m events.PermitMessage, partitions int32) string {
	kind, to, link, ok := permitOf(f)
	switch {
	case !ok || r.Header(events.HeaderType) != kind || m.Link != link || m.To(kind) != to || string(r.Key) != to:
		return "it says something else than its fact"
	case r.Partition != events.Home(to, partitions):
		return "it goes to another partition than the home of what it is addressed to"
	}
	if b, decides := f.Body.(*events.PermitsDecided); decides && m.Waiting != b.Waiting {
		return "it says another number of tasks that wait than its fact"
	}
	if b, ask := f.Body.(*events.PermitAsked); ask && (m.Max != b.Max || m.Version != b.Version || m.Priority != b.Priority) {
		return "it asks for something else than its fact"
	}
	if x := released(f); x != nil && m.QuietAt != x.QuietAt {
		return "it says another quiet time than its fact"
	}
	return ""
}

// needsPermitFact says why a record about a permit cannot be passed without a fact, or "" if it can. (An ask or a release may have been known
// already when it was judged, and its link may have changed since; one that is forgotten is found at rest.)
func (j *Judge) needsPermitFact(x *Permit) string {
	t, _ := j.State.Task(x.Link.Task)
	if x.Type == events.TypePermitGrant && x.Link.Path != "" {
		return j.needsStepPermitFact(x, t)
	}
	if x.Type == events.TypePermitGrant && t != nil && t.Incarnation == x.Link.Incarnation && t.Permit != nil && t.Permit.N == x.Link.N && t.Permit.State == events.PermitStateAsked {
		return "the grant is not taken"
	}
	return ""
}

// Permits checks a fact about a permit against the input that caused it, and against the tasks of all partitions: no limit is exceeded.
// states are those of all partitions before the fact, and now returns the right time of an instant.
func (j *Judge) Permits(f *events.Fact, states []*events.State, right func(events.Instant) events.Instant) {
	switch b := f.Body.(type) {
	case *events.PermitGranted:
		j.causedBy(f, events.TypePermitGrant, b.Limit, b.Link)
		if b.Link.Path == "" {
			j.grants(f, b, states, right)
		}
	case *events.PermitBlocked:
		j.causedBy(f, events.TypePermitGrant, b.Limit, b.Link)
		if t, _ := j.State.Task(f.Task); t != nil && (b.Since != t.ParkedAt || f.Time.Sub(t.ParkedAt) < 15*time.Minute || t.Permit.BlockedAt > t.ParkedAt) {
			j.Fail("task %q is said to keep others waiting too early, or again", f.Task)
		}
	case *events.PermitReturned:
		j.causedBy(f, events.TypePermitGrant, b.Limit, b.Link)
		if t, _ := j.State.Task(b.Link.Task); t != nil && (b.Link.Path != "" && hasStepLink(t, b.Link) ||
			b.Link.Path == "" && t.Incarnation == b.Link.Incarnation && !t.State.Ended() && t.Permit.N == b.Link.N && t.Permit.State != "") {
			j.Fail("task %q returns a permit that it has or waits for", t.ID)
		}
	case *events.PermitsDecided:
		j.decides(f, b)
	case *events.LimitPaused:
		j.pauses(f, b.Limit, events.RequestPause, b.Request)
	case *events.LimitResumed:
		j.pauses(f, b.Limit, events.RequestResume, b.Request)
	case *events.LimitAdopted:
		if x, known := j.Objects.Applied(b.Limit, b.Offset); !known || x.Max != b.Max || x.Rate != b.Rate {
			j.Fail("the limit %s is adopted with %d permits and the rate %q, and its object says %d and %q", b.Limit, b.Max, b.Rate, x.Max, x.Rate)
		}
	case *events.Timeout:
		j.keepsPermit(f, b.Step, b.Operation, b.Attempt, b.QuietAt)
	case *events.CompensationFailed:
		in, _, offset, ok := f.Cause.Input()
		if x, known := j.Input(in, offset); ok && known && x.Kind == InputReport && x.Report.Effect != events.EffectNone && x.Report.Effect != events.EffectDoneUnknown {
			j.keepsPermit(f, b.Step, events.Undo, b.Attempt, b.QuietAt)
		}
	case *events.CompensationStarted:
		j.startsWithin(f, attemptOf{b.Step, events.Undo}, states, right)
	case *events.StepStarted, *events.WaitStarted:
		if b, ok := b.(*events.StepStarted); ok {
			j.startsWithin(f, attemptOf{b.Step, events.Do}, states, right)
		}
		if t, _ := j.State.Task(f.Task); t != nil && t.Permit != nil && t.Permit.State != events.PermitStateGranted {
			j.Fail("a step of task %q starts without a permit", f.Task)
		}
	}
}

// causedBy checks that a fact follows from a record of that type about the link.
func (j *Judge) causedBy(f *events.Fact, kind, limit string, link events.Link) {
	in, _, offset, ok := f.Cause.Input()
	if x, known := j.Input(in, offset); !ok || known && (x.Kind != InputPermit || x.Permit.Type != kind || x.Permit.Limit != limit || x.Permit.Link != link) {
		j.Fail("%s of %s does not follow from %s", f.Body.Name(), link.Task, f.Cause)
	}
}

// grants checks that fewer tasks than the limit allows are inside: those that have the permit, and those that gave it back while a
// request of theirs may still land.
func (j *Judge) grants(f *events.Fact, b *events.PermitGranted, states []*events.State, right func(events.Instant) events.Instant) {
	own, _ := j.State.Task(b.Link.Task)
	if own == nil || own.Permit == nil {
		return // the fold refuses the fact
	}
	inside := 1
	for _, s := range states {
		s.Loaded(func(t *events.Task) bool {
			if p := t.Permit; t.ID != own.ID && p != nil && p.Limit == b.Limit && (p.State == events.PermitStateGranted || p.State == "" && p.N > 0 && right(t.QuietAt) > right(f.Time)) {
				inside++
			}
			return true
		})
	}
	if inside > own.Permit.Max {
		j.Fail("%d tasks are inside the limit %s at once, and %d may be", inside, b.Limit, own.Permit.Max)
	}
}

// decides checks that a limit decides what its cause says.
func (j *Judge) decides(f *events.Fact, b *events.PermitsDecided) {
	if l := j.State.Limits.Get(b.Limit); l != nil && l.Rate != "" {
		if each, _ := events.ParseRate(l.Rate); l.OpensAt() > f.Time.Add(each+time.Millisecond) {
			j.Fail("stuck task: the limit %s gives its next permit at %s, which is longer after %s than one takes", b.Limit, l.OpensAt(), f.Time)
		}
	}
	switch in, _, offset, ok := f.Cause.Input(); {
	case !ok && (b.Asked != nil || b.Ending != nil):
		j.Fail("the limit %s takes an ask or a release that nobody sent", b.Limit)
	case !ok && b.Released != nil:
		if x := j.State.Limits.Get(b.Limit).Permit(*b.Released); x == nil || x.EndsAt == 0 || f.Time < x.EndsAt {
			j.Fail("the limit %s frees a permit before its time", b.Limit)
		}
	case ok:
		x, known := j.Input(in, offset)
		link := x.Permit.Link
		if !known {
			return
		}
		if x.Kind != InputPermit || x.Permit.Limit != b.Limit ||
			b.Asked != nil && (x.Permit.Type != events.TypePermitAsk || b.Asked.Link != link) ||
			b.Ending != nil && (x.Permit.Type != events.TypePermitRelease || b.Ending.Link != link || b.Ending.QuietAt != x.Permit.quiet(f.Time)) ||
			b.Released != nil && (x.Permit.Type != events.TypePermitRelease || *b.Released != link || x.Permit.quiet(f.Time) > f.Time && j.State.Limits.Get(b.Limit).Permit(link).Held()) {
			j.Fail("what the limit %s decides does not follow from %s", b.Limit, f.Cause)
		}
	}
	if b.Granted != nil {
		j.fair(b)
		x := j.State.Limits.Get(b.Limit).Permit(*b.Granted)
		if (x == nil || !x.Held()) && j.Objects.Given(b.Limit).tooFast(f.Time) {
			j.Fail("the limit %s gives %s a permit faster than its rate allows", b.Limit, b.Granted.Task)
		}
	}
}

// pauses checks that a limit is paused or goes on because somebody asks for it.
func (j *Judge) pauses(f *events.Fact, limit string, verb events.Verb, request string) {
	in, _, offset, ok := f.Cause.Input()
	if x, known := j.Input(in, offset); !ok || known && (x.Kind != InputLimit || x.Task != limit || x.Request.Kind != verb || x.Request.ID != request) {
		j.Fail("%s of %s does not follow from %s", f.Body.Name(), limit, f.Cause)
	}
}

// needsLimitFact says why a request about a limit cannot be passed without a fact, or "" if it can.
func (j *Judge) needsLimitFact(x *Input) string {
	l := j.State.Limits.Get(x.Task)
	if paused := l != nil && l.Paused != nil; paused != (x.Request.Kind == events.RequestPause) {
		return "the request about the limit was not judged"
	}
	return ""
}

// OfLimit returns the input that a request about a limit is, and its record.
func OfLimit(id, limit string, verb events.Verb, at events.Instant) (Input, events.Record, error) {
	kind := events.TypeLimitPause
	if verb == events.RequestResume {
		kind = events.TypeLimitResume
	}
	q := events.LimitRequest{ID: id, Limit: limit, By: "operator"}
	r, err := events.EncodeLimitRequest(q, kind, events.Subject{ID: id, Source: "/clients", Time: at})
	return Input{Kind: InputLimit, Task: limit, Request: events.Request{ID: id, Kind: verb}}, r, err
}

// fair checks that a permit goes to the link with the highest priority that has waited longest.
func (j *Judge) fair(b *events.PermitsDecided) {
	l := j.State.Limits.Get(b.Limit)
	own := l.Permit(*b.Granted)
	if own != nil && own.Held() {
		if waiting := len(l.Waiting()); b.Waiting != waiting {
			j.Fail("the limit %s says that %d tasks wait, and %d do", b.Limit, b.Waiting, waiting)
		}
		return // it hears of it again
	}
	if l != nil && l.Paused != nil {
		j.Fail("the limit %s gives %s a permit although it is paused", b.Limit, b.Granted.Task)
	}
	priority := 0
	switch {
	case own != nil:
		priority = own.Priority
	case b.Asked != nil:
		priority = b.Asked.Priority
	}
	priority = urgency(b.Granted, priority)
	for x := range l.Permits() {
		urgent := urgency(&x.Link, x.Priority)
		if x != own && !x.Held() && (urgent > priority || urgent == priority && (own == nil || x.Asked.Before(own.Asked))) && (b.Released == nil || *b.Released != x.Link) {
			j.Fail("%s gets a permit of %s before %s, which has waited longer or is more urgent", b.Granted.Task, b.Limit, x.Link.Task)
		}
	}
}

// PermitRest says what is wrong with the permits of a world in which nothing is under way. states are those of all partitions.
func PermitRest(states []*events.State, now events.Instant) string {
	task := func(id string) *events.Task {
		t, _ := states[events.Home(id, int32(len(states)))].Task(id)
		return t
	}
	for _, s := range states {
		for l := range s.Limits.All() {
			if l.Free(now) > 0 && l.Next() != nil {
				return fmt.Sprintf("stuck task: %s waits for %s, of which a permit is free", l.Next().Link.Task, l.Name)
			}
			for x := range l.Permits() {
				needs, has := false, false
				if t := task(x.Link.Task); t != nil && x.Link.Path != "" {
					needs, has = hasStepLink(t, x.Link), hasStepLink(t, x.Link) && events.StepPermitOf(t, x.Link.Path, x.Link.Operation).State == events.PermitStateGranted
				} else if t != nil && events.HasLink(t, x.Link) {
					needs, has = true, t.Permit.State == events.PermitStateGranted
				}
				switch {
				case x.EndsAt != 0 && x.EndsAt <= now:
					return fmt.Sprintf("a permit of %s is not freed at its time", l.Name)
				case x.EndsAt != 0:
				case x.Held() && !needs:
					return fmt.Sprintf("a permit of %s is kept for %s, which does not need it", l.Name, x.Link.Task)
				case needs && x.Held() != has:
					return fmt.Sprintf("stuck task: %s and %s do not agree about the permit", l.Name, x.Link.Task)
				}
				// (A copy of an ask that comes after its release waits until it gets a permit, which goes back then.)
			}
		}
		lost := ""
		s.Loaded(func(t *events.Task) bool {
			if p := t.Permit; p != nil && p.State != "" && !t.State.Ended() && states[events.Home(p.Limit, int32(len(states)))].Limits.Get(p.Limit).Permit(events.PermitLink(t, p.N)) == nil {
				lost = fmt.Sprintf("stuck task: %s does not know the permit of %s", p.Limit, t.ID)
			}
			lost = cmp.Or(lost, unknownStepPermit(states, t))
			return lost == ""
		})
		if lost != "" {
			return lost
		}
	}
	return ""
}
