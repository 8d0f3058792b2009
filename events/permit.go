package events

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// TaskPermit is what a task that needs a permit knows of it.
type TaskPermit struct {
	Concurrency
	// N is that of the latest link, 0 before the first.
	N int `json:"n,omitzero"`
	// State is empty if the task has neither a permit nor asked for one.
	State PermitState `json:"state,omitempty"`
	// At is when the permit was granted, or asked for last.
	At Instant `json:"at,omitzero"`
	// BlockedAt is the time of the last PermitBlocked.
	BlockedAt Instant `json:"blocked_at,omitzero"`
}

// PermitState says what a task knows of its permit.
type PermitState string

// The states.
const (
	PermitStateAsked   PermitState = "asked"
	PermitStateGranted PermitState = "granted"
)

// Permitted says whether the task needs no permit, or has it. Otherwise no step starts. Undos need none: they free what others wait for.
func Permitted(t *Task) bool {
	//mutant:step-needs-permit
	return t.Permit == nil || t.Permit.State == PermitStateGranted
}

// PermitLink returns the link with the given number of the task's own permit. It belongs to all runs of the task, which may keep it when the next
// begins, so it names the first.
func PermitLink(t *Task, n int) Link {
	return Link{Task: t.ID, Incarnation: t.Incarnation, Run: 1, N: n}
}

// HasLink says whether the task, or the attempt that the link names, has the link for its permit, whether it waits for it or has got it.
func HasLink(t *Task, l Link) bool {
	if l.Path != "" {
		return !t.State.Ended() && hasStepLink(t, l)
	}
	return !t.State.Ended() && t.Permit != nil && t.Permit.State != "" && l == PermitLink(t, t.Permit.N)
}

// AskPermit returns the fact by which the task asks for its permit, again if it has asked before.
func AskPermit(t *Task) *PermitAsked {
	p := t.Permit
	b := &PermitAsked{Limit: p.Limit, Max: p.Max, Version: t.Version, Priority: t.Priority, Repeat: p.State == PermitStateAsked}
	n := p.N
	//mutant:permit-is-numbered
	if !b.Repeat {
		n++
	}
	b.Link = PermitLink(t, n)
	return b
}

// OpenPermit returns the release of the permit that the task has or waits for, nil without one.
func OpenPermit(t *Task) *PermitReleased {
	p := t.Permit
	if p == nil || p.State == "" {
		return nil
	}
	//mutant:release-says-until-when
	return &PermitReleased{Limit: p.Limit, Link: PermitLink(t, p.N), QuietAt: t.QuietAt}
}

// ReturnPermit returns the answer to a grant of a link that the task does not have; t is nil if the task is not known. A task that ended while
// the clock was wrong keeps that time, so what was left of its quiet time then counts from now on.
func ReturnPermit(t *Task, m *PermitMessage, now Instant) *PermitReturned {
	b := &PermitReturned{Limit: m.Limit, Link: m.Link}
	if t != nil && t.Incarnation == m.Link.Incarnation {
		quiet := t.QuietAt
		if m.Link.Path != "" {
			quiet = t.StepsQuietAt
		}
		b.QuietAt = lasting(quiet, t.EndedAt, now)
	}
	return b
}

// BlockPermit returns the fact that a task which hears again of its permit is parked and keeps others waiting, nil if that is not so, not yet, or was
// said already since the task was parked.
func BlockPermit(t *Task, m *PermitMessage, now Instant) *PermitBlocked {
	b := &PermitBlocked{Limit: m.Limit, Link: m.Link, Waiting: m.Waiting, Since: t.ParkedAt}
	if !blocks(t, b, now) {
		return nil
	}
	return b
}

// blocks says whether the fact fits the task.
func blocks(t *Task, b *PermitBlocked, now Instant) bool {
	p := t.Permit
	return p != nil && b.Link.Path == "" && p.State == PermitStateGranted && HasLink(t, b.Link) && t.State == TaskStateError && b.Since == t.ParkedAt && b.Waiting > 0 &&
		now.Sub(t.ParkedAt) >= BlocksAfter && p.BlockedAt <= t.ParkedAt
}

// UnusedPermit returns the release of a permit that the task gives back before it ends, nil if it keeps it: one that was paused before its
// first step gives it back, and one that is parked, if its workflow says so, and of which no attempt runs. One that is undone waits for none.
func UnusedPermit(t *Task) *PermitReleased {
	p := t.Permit
	if p == nil || p.State == "" {
		return nil
	}
	running, _ := t.RunningStep()
	switch {
	case t.Paused != nil && len(t.Steps) == 0,
		p.State == PermitStateAsked && t.State == TaskStateUndoing,
		p.Parked == PermitRelease && t.State == TaskStateError && running == nil:
		return OpenPermit(t)
	}
	return nil
}

// permitFact takes a fact about the permit of a task, or of one of its steps.
func permitFact(t *Task, f *Fact) error {
	if link := linkOf(f.Body); link.Path != "" {
		return stepPermitFact(t, f, link)
	}
	p, wrong := t.Permit, fmt.Errorf("%w: %s of task %q", ErrImpossible, f.Body.Name(), t.ID)
	if p == nil {
		return wrong
	}
	switch b := f.Body.(type) {
	case *PermitAsked:
		n := p.N
		if p.State == "" {
			n++
		}
		if b.Repeat != (p.State == PermitStateAsked) || p.State == PermitStateGranted || b.Link != PermitLink(t, n) || !b.Repeat && !t.Starts() {
			return wrong
		}
		p.N, p.State, p.At = n, PermitStateAsked, f.Time
	case *PermitGranted:
		if p.State != PermitStateAsked || !HasLink(t, b.Link) {
			return wrong
		}
		p.State, p.At = PermitStateGranted, f.Time
	case *PermitBlocked:
		if !blocks(t, b, f.Time) {
			return wrong
		}
		p.BlockedAt = f.Time
	case *PermitReleased:
		return releasePermit(t, f, b)
	}
	return nil
}

// linkOf returns the link that a fact about a permit names.
func linkOf(b Body) Link {
	switch b := b.(type) {
	case *PermitAsked:
		return b.Link
	case *PermitGranted:
		return b.Link
	case *PermitReleased:
		return b.Link
	case *PermitBlocked:
		return b.Link
	}
	return Link{}
}

// releasePermit takes the release of the task's permit, which the facts that end the task have as a member.
func releasePermit(t *Task, f *Fact, b *PermitReleased) error {
	switch open := OpenPermit(t); {
	case open == nil && b == nil:
	case open == nil || b == nil || *open != *b:
		return fmt.Errorf("%w: %s of task %q does not release its permit, or another", ErrImpossible, f.Body.Name(), t.ID)
	default:
		t.Permit.State, t.Permit.At = "", 0
	}
	return nil
}

// releaseOf returns the release in a fact that ends a task.
func releaseOf(b Body) *PermitReleased {
	switch b := b.(type) {
	case *TaskProcessed:
		return b.Release
	case *TaskUndone:
		return b.Release
	case *TaskTerminated:
		return b.Release
	}
	return nil
}

// timer returns when the task asks again.
func (p *TaskPermit) timer() (m Timer, ok bool) {
	if p == nil || p.State != PermitStateAsked {
		return Timer{}, false
	}
	return Timer{Due: p.At.Add(RepeatAfter), Kind: TimerPermit}, true
}

// Limits are the limits of a partition to which some link is known, that are paused, or that an object defines.
type Limits struct {
	byName map[string]*Limit
	// due is not later than the first time at which something must be done about a permit.
	due Instant
}

// permitsDecided takes a fact about the permits of a limit.
func permitsDecided(s *State, f *Fact, b *PermitsDecided) error {
	l := s.Limits.byName[b.Limit]
	if a := b.Asked; a != nil {
		if l == nil {
			l = &Limit{Name: b.Limit, links: map[string]*Permit{}}
		}
		if l.Permit(a.Link) != nil || a.Limit != b.Limit || l.IsNamed() != (a.Max == 0) || a.Max < 0 {
			return fmt.Errorf("%w: the limit %q is asked for a link that it knows, or for another limit", ErrImpossible, b.Limit)
		}
		l.adopt(a)
		s.Limits.byName[b.Limit] = l
		l.put(&Permit{Limit: b.Limit, Link: a.Link, Priority: a.Priority, Asked: Position{s.Partition.Epoch, f.Sequence}})
		touchPermit(s, l.Permit(a.Link))
	}
	if l == nil {
		return fmt.Errorf("%w: the limit %q knows no link", ErrImpossible, b.Limit)
	}
	if err := releases(s, f, l, b); err != nil {
		return err
	}
	if b.Granted != nil {
		x := l.Permit(*b.Granted)
		if x == nil || x.EndsAt != 0 || !x.Held() && l.Free(f.Time) == 0 {
			return fmt.Errorf("%w: the limit %q grants what it does not know, or more than it may", ErrImpossible, b.Limit)
		}
		if !x.Held() {
			l.pace(f.Time)
		}
		l.drop(x)
		x.GrantedAt = f.Time
		l.put(x)
		touchPermit(s, x)
	}
	if l.Room() > 0 && l.Next() != nil {
		s.Limits.due = min(s.Limits.due, l.OpensAt())
	}
	s.touchPart(KindLimit, b.Limit)
	s.Limits.leave(l)
	return nil
}

func releases(s *State, f *Fact, l *Limit, b *PermitsDecided) error {
	if e := b.Ending; e != nil {
		x := l.Permit(e.Link)
		if x == nil || !x.Held() || x.EndsAt != 0 {
			return fmt.Errorf("%w: the limit %q ends a permit that nobody has", ErrImpossible, b.Limit)
		}
		x.GrantedAt, x.EndsAt = f.Time, e.QuietAt
		touchPermit(s, x)
	}
	if b.Released != nil {
		x := l.Permit(*b.Released)
		if x == nil {
			return fmt.Errorf("%w: the limit %q does not know the link that it releases", ErrImpossible, b.Limit)
		}
		l.drop(x)
		s.touchPart(KindPermit, x.id())
	}
	return nil
}

func touchPermit(s *State, x *Permit) {
	s.touchPart(KindPermit, x.id())
	if due := x.due(); due != 0 {
		s.Limits.due = min(s.Limits.due, due)
	}
}

// Get returns a limit to which some link is known, that is paused, or that an object defines; nil otherwise.
func (all *Limits) Get(name string) *Limit { return all.byName[name] }

// All yields these limits in the order of their names.
func (all *Limits) All() iter.Seq[*Limit] {
	return func(yield func(*Limit) bool) {
		for _, name := range slices.Sorted(maps.Keys(all.byName)) {
			if !yield(all.byName[name]) {
				return
			}
		}
	}
}

// Due returns the permits about which something must be done at that time: a holder hears of it again, a permit becomes free, or one is free
// and the first that waits gets it. It looks at all limits only when one may be due.
func (all *Limits) Due(at Instant) (list []*Permit) {
	if len(all.byName) == 0 || at < all.due {
		return nil
	}
	all.due = lastInstant
	for _, l := range all.byName {
		if x := l.Next(); x != nil && l.Free(at) > 0 {
			list, all.due = append(list, x), 0
		} else if x != nil && l.Room() > 0 {
			all.due = min(all.due, l.OpensAt())
		}
		for _, x := range l.links {
			if due := x.due(); due != 0 {
				if all.due = min(all.due, due); due <= at {
					list = append(list, x)
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b *Permit) int { return strings.Compare(a.id(), b.id()) })
	return list
}

// put adds a link.
func (l *Limit) put(x *Permit) {
	l.links[x.Link.ID()] = x
	if x.Held() {
		l.held++
		return
	}
	at, _ := slices.BinarySearchFunc(l.waiting, x, (*Permit).before)
	l.waiting = slices.Insert(l.waiting, at, x)
}

// drop removes a link.
func (l *Limit) drop(x *Permit) {
	delete(l.links, x.Link.ID())
	if x.Held() {
		l.held--
		return
	}
	if at, ok := slices.BinarySearchFunc(l.waiting, x, (*Permit).before); ok {
		l.waiting = slices.Delete(l.waiting, at, at+1)
	}
}

// restore adds a link of a snapshot.
func (all *Limits) restore(x *Permit) { all.of(x.Limit).put(x) }

// ReadLimit returns the limit of a row and of those of its links.
func ReadLimit(row []byte, permits [][]byte) (*Limit, error) {
	l := &Limit{links: map[string]*Permit{}}
	if err := json.Unmarshal(row, l); err != nil {
		return nil, err
	}
	for _, b := range permits {
		x := new(Permit)
		if err := json.Unmarshal(b, x); err != nil {
			return nil, err
		}
		l.put(x)
	}
	return l, nil
}

// of returns the limit with that name. Its rows and those of its links come in any order.
func (all *Limits) of(name string) *Limit {
	l := all.byName[name]
	if l == nil {
		l = &Limit{Name: name, links: map[string]*Permit{}}
		all.byName[name] = l
	}
	return l
}

// permit returns the entity with that ID.
func (all *Limits) permit(id string) *Permit {
	limit, link, _ := strings.Cut(id, "\x00") // no name of a limit has a NUL
	if l := all.byName[limit]; l != nil {
		return l.links[link]
	}
	return nil
}

// correctPermits takes a correction of the time.
func correctPermits(s *State, to Instant) {
	s.Limits.due = 0
	for _, l := range s.Limits.byName {
		if l.Paused != nil && l.Paused.Since > to {
			l.Paused.Since = to
			s.touchPart(KindLimit, l.Name)
		}
		//mutant:corrected-rate-goes-on
		if l.correctPace(to) {
			s.touchPart(KindLimit, l.Name)
		}
		for _, x := range l.links {
			if x.GrantedAt > to || x.EndsAt > to {
				x.EndsAt = lasting(x.EndsAt, x.GrantedAt, to)
				x.GrantedAt = min(x.GrantedAt, to)
				s.touchPart(KindPermit, x.id())
			}
		}
	}
}
