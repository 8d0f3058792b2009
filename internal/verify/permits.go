package verify

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/sagalog/sagalog/events"
)

// permit is that of a task, according to the log.
type permit struct {
	events.Concurrency
	n              int
	asked, granted bool
}

func newPermit(b *events.Submitted) *permit {
	if b.Concurrency == nil {
		return nil
	}
	return &permit{Concurrency: *b.Concurrency}
}

// has says whether a step may start.
func (p *permit) has() bool { return p == nil || p.granted }

// next says what moves a task that needs a permit and has none.
func (p *permit) next(s *story) mover {
	if p.asked {
		return mover{kind: string(events.WaitingConcurrency)}
	}
	return mover{kind: "due", since: s.time}
}

func needsPermit(t *telling, step string) {
	if !t.permit.has() {
		t.wrong(CheckAttempts, "no_permit", step, "it starts although the task has no permit of %s", t.permit.Limit)
	}
}

// permitted takes a fact about the task's permit.
func permitted(t *telling) {
	if link := linkIn(t.fact.Body); link.Path != "" {
		stepPermitted(t, link)
		return
	}
	p := t.permit
	if p == nil {
		t.wrong(CheckAttempts, "permit", "", "%s of a task whose workflow has no concurrency", t.fact.Body.Name())
		return
	}
	switch b := t.fact.Body.(type) {
	case *events.PermitAsked:
		if !b.Repeat {
			p.n++
		}
		if p.granted || b.Repeat != p.asked || b.Link != linkOf(t) || b.Limit != p.Limit || b.Max != p.Max || !b.Repeat && (t.back || t.parked || t.paused) {
			t.wrong(CheckAttempts, "permit", "", "it asks for permit %d of %s, but it is %s, has asked: %t, and has a permit: %t", b.Link.N, b.Limit, t.state(), p.asked, p.granted)
		}
		p.asked = true
	case *events.PermitGranted:
		if !p.asked || b.Link != linkOf(t) {
			t.wrong(CheckAttempts, "permit", "", "it gets permit %d of %s, for which it has not asked", b.Link.N, b.Limit)
		}
		p.asked, p.granted = false, true
	case *events.PermitBlocked:
		if !p.granted || !t.parked || b.Link != linkOf(t) || b.Waiting < 1 {
			t.wrong(CheckAttempts, "permit", "", "others are said to wait for permit %d of %s, but it is %s, and has a permit: %t", b.Link.N, b.Limit, t.state(), p.granted)
		}
	case *events.PermitReleased:
		if st, op := t.running(); st != nil {
			t.wrong(CheckAttempts, "permit", st.id, "it gives its permit back while an attempt of the %s runs", op)
		}
		released(t, b)
	}
}

func linkOf(t *telling) events.Link {
	return events.Link{Task: t.story.id, Incarnation: t.incarnation, Run: 1, N: t.permit.n}
}

// released checks that the task gives back what it has or waits for, and nothing else.
func released(t *telling, b *events.PermitReleased) {
	p := t.permit
	switch open := p != nil && (p.asked || p.granted); {
	case open && b == nil:
		t.wrong(CheckAttempts, "permit_kept", "", "%s does not give back the permit of %s, which nobody else gets then", t.fact.Body.Name(), p.Limit)
	case !open && b != nil:
		t.wrong(CheckAttempts, "permit", "", "%s gives back a permit of %s that the task does not have", t.fact.Body.Name(), b.Limit)
	case open && (b.Limit != p.Limit || b.Link != linkOf(t) || b.QuietAt != t.quiet):
		t.wrong(CheckAttempts, "permit", "", "it gives back permit %d of %s, to be kept until %q; it has permit %d of %s, and requests may land until %q", b.Link.N, b.Limit, b.QuietAt.String(), p.n, p.Limit, t.quiet.String())
	}
	if p != nil {
		p.asked, p.granted = false, false
	}
}

// limit is what the log says about the links of a limit.
type limit struct {
	max, version int
	paused       bool
	// defined says that an object defines it, if it is a named limit.
	defined bool
	// rate is that of the object, and given when permits were given since it holds.
	rate  string
	given []events.Instant
	// links holds what is known, and whether it has a permit; endsAt holds the permits that were given back and are kept, and backAt when they
	// were given back.
	links          map[events.Link]bool
	endsAt, backAt map[events.Link]events.Instant
}

// correct follows a correction of the time. A permit that was given back at a wrong time is kept for its whole duration, counted from the corrected time.
func (l *limit) correct(to events.Instant) {
	l.given = nil
	for link, ends := range l.endsAt {
		back := l.backAt[link]
		if back > to && ends > to {
			l.endsAt[link] = to.Add(max(ends.Sub(back), 0))
		}
		l.backAt[link] = min(back, to)
	}
}

// held counts the permits that are not free.
func (l *limit) held() (n int) {
	for _, held := range l.links {
		if held {
			n++
		}
	}
	return n
}

// tooFast notes that a permit is given, and says whether that is one more than the rate allows in some time before it. What is due is due at whole
// milliseconds, and a permit that is given then begins the time of the next: so each may lose the part of a millisecond.
func (l *limit) tooFast(at events.Instant) (more bool) {
	each, _ := events.ParseRate(l.rate)
	if each = each.Truncate(time.Millisecond); each == 0 {
		return false
	}
	l.given = append(l.given, at)
	for i, from := range l.given {
		more = more || at.Sub(from)+events.RateSlack+time.Millisecond < time.Duration(len(l.given)-1-i)*each
	}
	if len(l.given) > maxGiven {
		l.given = l.given[len(l.given)-maxGiven/2:]
	}
	return more
}

// maxGiven bounds the permits of a limit that are compared with the next one.
const maxGiven = 256

// decided takes a fact about the permits of a limit.
func decided(p *partition, f *events.Fact, b *events.PermitsDecided, at Place, input *events.Record) {
	wrong := func(format string, args ...any) {
		p.book.add(Finding{Check: CheckAttempts, Kind: "limit", Place: at, What: fmt.Sprintf("the limit %s ", b.Limit) + fmt.Sprintf(format, args...)})
	}
	if events.Home(b.Limit, p.check.number) != p.number {
		wrong("has its home in partition %d, but its fact is here", events.Home(b.Limit, p.check.number))
	}
	l := limitOf(p, b.Limit)
	if a := b.Asked; a != nil {
		permitInput(p, f, at, input, events.TypePermitAsk, b.Limit, a.Link)
		if _, known := l.links[a.Link]; known {
			wrong("takes an ask of %s that it knows", a.Link.Task)
		}
		l.links[a.Link] = false
		if a.Version > l.version {
			l.max, l.version = a.Max, a.Version
		}
	}
	if e := b.Ending; e != nil {
		permitInput(p, f, at, input, events.TypePermitRelease, b.Limit, e.Link)
		if !l.links[e.Link] {
			wrong("takes back a permit that %s does not have", e.Link.Task)
		}
		l.endsAt[e.Link], l.backAt[e.Link] = e.QuietAt, f.Time
	}
	if x := b.Released; x != nil {
		if _, known := l.links[*x]; !known {
			wrong("forgets a link of %s that it does not know", x.Task)
		}
		if input == nil && f.Time < l.endsAt[*x] {
			wrong("frees the permit of %s at %s, but requests of it may land until %s", x.Task, f.Time, l.endsAt[*x])
		}
		delete(l.links, *x)
		delete(l.backAt, *x)
		delete(l.endsAt, *x)
	}
	if x := b.Granted; x != nil {
		if _, known := l.links[*x]; !known || l.endsAt[*x] != 0 {
			wrong("gives a permit to %s, which does not wait for one", x.Task)
		}
		if waiting := len(l.links) - l.held(); b.Waiting != 0 && b.Waiting != waiting {
			wrong("says that %d tasks wait, and %d do", b.Waiting, waiting)
		}
		if !l.links[*x] && l.paused {
			wrong("gives %s a permit although it is paused", x.Task)
		}
		if bounded := l.max > 0 || l.rate == ""; !l.links[*x] && bounded && l.held() >= l.max {
			wrong("gives %s a permit although %d are held and %d may be", x.Task, l.held(), l.max)
		}
		if !l.links[*x] && l.tooFast(f.Time) {
			wrong("gives %s a permit at %s, faster than its rate %s", x.Task, f.Time, l.rate)
		}
		l.links[*x] = true
	}
	if len(l.links) == 0 && !l.paused && !l.defined {
		delete(p.limits, b.Limit)
	}
}

// ofLimit takes a fact about a limit.
func ofLimit(p *partition, f *events.Fact, at Place, input *events.Record) {
	switch b := f.Body.(type) {
	case *events.PermitReturned:
		permitInput(p, f, at, input, events.TypePermitGrant, b.Limit, b.Link)
	case *events.PermitsDecided:
		decided(p, f, b, at, input)
	case *events.LimitAdopted:
		limitAdopted(p, f, b, at)
	case *events.LimitPaused, *events.LimitResumed:
		limitHeld(p, f, at, input)
	}
}

// limitOf returns what is known about a limit.
func limitOf(p *partition, name string) *limit {
	l := p.limits[name]
	if l == nil {
		l = &limit{links: map[events.Link]bool{}, endsAt: map[events.Link]events.Instant{}, backAt: map[events.Link]events.Instant{}}
		p.limits[name] = l
	}
	return l
}

// limitHeld takes the fact that a limit is paused or goes on, and checks that an operator asked for it.
func limitHeld(p *partition, f *events.Fact, at Place, input *events.Record) {
	var name, request string
	kind := events.TypeLimitPause
	switch b := f.Body.(type) {
	case *events.LimitPaused:
		name, request = b.Limit, b.Request
	case *events.LimitResumed:
		name, request, kind = b.Limit, b.Request, events.TypeLimitResume
	}
	wrong := func(check, kind, format string, args ...any) {
		p.wrong(check, kind, at, "%s of the limit %s: "+format, append([]any{f.Body.Name(), name}, args...)...)
	}
	if home := events.Home(name, p.check.number); home != p.number {
		wrong(CheckAttempts, "limit", "its home is partition %d, but its fact is here", home)
	}
	l := limitOf(p, name)
	pauses := kind == events.TypeLimitPause
	if l.paused == pauses {
		wrong(CheckAttempts, "limit", "it is so already")
	}
	if l.paused = pauses; !pauses && len(l.links) == 0 && !l.defined {
		delete(p.limits, name)
	}
	if input == nil {
		if _, _, _, ok := f.Cause.Input(); !ok {
			wrong(CheckInputs, "not_its_input", "the fact follows from %q, and not from a request", f.Cause)
		}
		return
	}
	var q events.LimitRequest
	env, data, err := events.Open(input)
	if err == nil {
		err = json.Unmarshal(data, &q)
	}
	if q.ID == "" {
		q.ID = env.ID
	}
	if err != nil || env.Type != kind || q.Limit != name || q.ID != request {
		wrong(CheckInputs, "not_its_input", "the input %s asks for something else (%v)", f.Cause, err)
	}
}

func isLimitRequest(kind string) bool {
	return kind == events.TypeLimitPause || kind == events.TypeLimitResume
}

// silentLimitRequest checks that a request about a limit needed no fact.
func silentLimitRequest(p *partition, kind string, data []byte, wrong func(task, format string, args ...any)) {
	var q events.LimitRequest
	if err := json.Unmarshal(data, &q); err != nil {
		wrong("", "the record cannot be read (%v)", err)
		return
	}
	if home := events.Home(q.Limit, p.check.number); home != p.number {
		wrong("", "the record belongs in partition %d", home)
	}
	l := p.limits[q.Limit]
	if paused := l != nil && l.paused; paused != (kind == events.TypeLimitPause) {
		wrong("", "the limit %s is paused: %t", q.Limit, paused)
	}
}

// isPermit says whether a record is about a permit.
func isPermit(kind string) bool {
	return kind == events.TypePermitAsk || kind == events.TypePermitGrant || kind == events.TypePermitRelease
}

// grantIn returns the limit and the link of a fact that follows from a grant.
func grantIn(b events.Body) (limit string, link events.Link) {
	switch b := b.(type) {
	case *events.PermitGranted:
		return b.Limit, b.Link
	case *events.PermitBlocked:
		return b.Limit, b.Link
	}
	return "", link
}

// permitInput checks that a fact follows from a record of that type about the link.
func permitInput(p *partition, f *events.Fact, at Place, input *events.Record, kind, limit string, link events.Link) {
	if input == nil {
		if _, _, _, ok := f.Cause.Input(); !ok {
			p.book.add(Finding{Check: CheckInputs, Kind: "not_its_input", Place: at, Task: f.Task, What: fmt.Sprintf("the fact follows from %q, and not from a record about the permit", f.Cause)})
		}
		return
	}
	var m events.PermitMessage
	env, data, err := events.Open(input)
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err != nil || env.Type != kind || m.Limit != limit || m.Link != link {
		p.book.add(Finding{Check: CheckInputs, Kind: "not_its_input", Place: at, Task: f.Task, What: fmt.Sprintf("the fact is that of the input %s, which says something else about permit %d of %s (%v)", f.Cause, link.N, limit, err)})
	}
}

// silentPermit checks that a record about a permit needed no fact.
func silentPermit(p *partition, j *join, passed silence, kind string, data []byte, wrong func(task, format string, args ...any)) {
	var m events.PermitMessage
	if err := json.Unmarshal(data, &m); err != nil {
		wrong("", "the record cannot be read (%v)", err)
		return
	}
	if home := events.Home(m.To(kind), p.check.number); home != p.number {
		wrong("", "the record belongs in partition %d", home)
	}
	s := p.live[m.Link.Task]
	if u := p.carry.toCome(m.Link.Task); s == nil && u != nil && kind == events.TypePermitGrant {
		u.silent = append(u.silent, &silentReport{silence: passed, link: m.Link})
		return
	}
	if kind == events.TypePermitGrant && m.Link.Path != "" {
		if x := s.stepPermit(m.Link); x != nil && s.incarnation == m.Link.Incarnation && s.at < j.since && x.n == m.Link.N && !x.granted {
			wrong(m.Link.Task, "step %q waits for the permit %d of %s", m.Link.Path, m.Link.N, m.Limit)
		}
		return
	}
	if kind == events.TypePermitGrant && s != nil && s.incarnation == m.Link.Incarnation && s.at < j.since && s.permit != nil && s.permit.asked && s.permit.n == m.Link.N {
		wrong(m.Link.Task, "the task waits for the permit %d of %s", m.Link.N, m.Limit)
	}
}
