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
}

// PermitState says what a task knows of its permit.
type PermitState string

// The states.
const (
	PermitStateAsked   PermitState = "asked"
	PermitStateGranted PermitState = "granted"
)

// Permitted says whether the task needs no permit, or has it. Otherwise no step starts. Undos need none: they free what others wait for.
func (t *Task) Permitted() bool {
	//mutant:step-needs-permit
	return t.Permit == nil || t.Permit.State == PermitStateGranted
}

// PermitLink returns the link with the given number of the task's own permit.
func (t *Task) PermitLink(n int) Link {
	return Link{Task: t.ID, Incarnation: t.Incarnation, Run: t.Run, N: n}
}

// HasLink says whether the task has the link for its permit, whether it waits for it or has got it.
func (t *Task) HasLink(l Link) bool {
	return !t.State.Ended() && t.Permit != nil && t.Permit.State != "" && l == t.PermitLink(t.Permit.N)
}

// AskPermit returns the fact by which the task asks for its permit, again if it has asked before.
func (t *Task) AskPermit() *PermitAsked {
	p := t.Permit
	b := &PermitAsked{Limit: p.Limit, Max: p.Max, Version: t.Version, Priority: t.Priority, Repeat: p.State == PermitStateAsked}
	n := p.N
	//mutant:permit-is-numbered
	if !b.Repeat {
		n++
	}
	b.Link = t.PermitLink(n)
	return b
}

// OpenPermit returns the release of the permit that the task has or waits for, nil if there is none.
func (t *Task) OpenPermit() *PermitReleased {
	p := t.Permit
	if p == nil || p.State == "" {
		return nil
	}
	//mutant:release-says-until-when
	return &PermitReleased{Limit: p.Limit, Link: t.PermitLink(p.N), QuietAt: t.QuietAt}
}

// UnusedPermit returns the release of a permit that the task gives back before it ends, nil if it keeps it: one that was paused before its
// first step gives it back, and one that is parked, if its workflow says so, and of which no attempt runs. One that is undone waits for none.
func (t *Task) UnusedPermit() *PermitReleased {
	p := t.Permit
	if p == nil || p.State == "" {
		return nil
	}
	running, _ := t.RunningStep()
	switch {
	case t.Paused != nil && len(t.Steps) == 0,
		p.State == PermitStateAsked && t.State == TaskStateUndoing,
		p.Parked == PermitRelease && t.State == TaskStateError && running == nil:
		return t.OpenPermit()
	}
	return nil
}

// permit takes a fact about the permit of a task.
func (t *Task) permit(f *Fact) error {
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
		if b.Repeat != (p.State == PermitStateAsked) || p.State == PermitStateGranted || b.Link != t.PermitLink(n) || !b.Repeat && !t.Starts() {
			return wrong
		}
		p.N, p.State, p.At = n, PermitStateAsked, f.Time
	case *PermitGranted:
		if p.State != PermitStateAsked || !t.HasLink(b.Link) {
			return wrong
		}
		p.State, p.At = PermitStateGranted, f.Time
	case *PermitReleased:
		return t.release(f, b)
	}
	return nil
}

// release takes the release of the task's permit, which the facts that end the task have as a member.
func (t *Task) release(f *Fact, b *PermitReleased) error {
	switch open := t.OpenPermit(); {
	case open == nil && b == nil:
	case open == nil || b == nil || *open != *b:
		return fmt.Errorf("%w: %s of task %q does not release its permit, or another", ErrImpossible, f.Body.Name(), t.ID)
	default:
		t.Permit.State, t.Permit.At = "", 0
	}
	return nil
}

// Release makes a fact that ends the task release its permit.
func Release(t *Task, b Body) {
	switch b := b.(type) {
	case *TaskProcessed:
		b.Release = t.OpenPermit()
	case *TaskUndone:
		b.Release = t.OpenPermit()
	}
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

// permitsDecided takes a fact about the permits of a limit.
func (s *State) permitsDecided(f *Fact, b *PermitsDecided) error {
	l := s.limits[b.Limit]
	if a := b.Asked; a != nil {
		if l == nil {
			l = &Limit{Name: b.Limit, links: map[string]*Permit{}}
		}
		if l.Permit(a.Link) != nil || a.Limit != b.Limit || a.Max < 1 {
			return fmt.Errorf("%w: the limit %q is asked for a link that it knows, or for another limit", ErrImpossible, b.Limit)
		}
		l.adopt(a)
		s.limits[b.Limit] = l
		l.put(&Permit{Limit: b.Limit, Link: a.Link, Priority: a.Priority, Asked: Position{s.Partition.Epoch, f.Sequence}})
		s.touchPermit(l.Permit(a.Link))
	}
	if l == nil {
		return fmt.Errorf("%w: the limit %q knows no link", ErrImpossible, b.Limit)
	}
	if err := s.releases(f, l, b); err != nil {
		return err
	}
	if b.Granted != nil {
		x := l.Permit(*b.Granted)
		if x == nil || x.EndsAt != 0 || !x.Held() && l.Free() == 0 {
			return fmt.Errorf("%w: the limit %q grants what it does not know, or more than it may", ErrImpossible, b.Limit)
		}
		l.drop(x)
		x.GrantedAt = f.Time
		l.put(x)
		s.touchPermit(x)
	}
	if l.Free() > 0 && l.Next() != nil {
		s.permitsDue = 0
	}
	s.touchPart(KindLimit, b.Limit)
	if len(l.links) == 0 {
		delete(s.limits, b.Limit)
	}
	return nil
}

func (s *State) releases(f *Fact, l *Limit, b *PermitsDecided) error {
	if e := b.Ending; e != nil {
		x := l.Permit(e.Link)
		if x == nil || !x.Held() || x.EndsAt != 0 {
			return fmt.Errorf("%w: the limit %q ends a permit that nobody has", ErrImpossible, b.Limit)
		}
		x.GrantedAt, x.EndsAt = f.Time, e.QuietAt
		s.touchPermit(x)
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

func (s *State) touchPermit(x *Permit) {
	s.touchPart(KindPermit, x.id())
	if due := x.due(); due != 0 {
		s.permitsDue = min(s.permitsDue, due)
	}
}

// Limit returns a limit to which some link is known, nil otherwise.
func (s *State) Limit(name string) *Limit { return s.limits[name] }

// Limits yields the limits to which some link is known, in the order of their names.
func (s *State) Limits() iter.Seq[*Limit] {
	return func(yield func(*Limit) bool) {
		for _, name := range slices.Sorted(maps.Keys(s.limits)) {
			if !yield(s.limits[name]) {
				return
			}
		}
	}
}

// DuePermits returns the permits about which something must be done at that time: a holder is told again, a permit becomes free, or one is free
// and the first that waits gets it. It looks at all limits only when one may be due.
func (s *State) DuePermits(at Instant) (list []*Permit) {
	if len(s.limits) == 0 || at < s.permitsDue {
		return nil
	}
	s.permitsDue = lastInstant
	for _, l := range s.limits {
		if x := l.Next(); x != nil && l.Free() > 0 {
			list, s.permitsDue = append(list, x), 0
		}
		for _, x := range l.links {
			if due := x.due(); due != 0 {
				if s.permitsDue = min(s.permitsDue, due); due <= at {
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

// restorePermit adds a link of a snapshot.
func (s *State) restorePermit(x *Permit) {
	s.limitOf(x.Limit).put(x)
}

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

// limitOf returns the limit with that name. Its rows and those of its links come in any order.
func (s *State) limitOf(name string) *Limit {
	l := s.limits[name]
	if l == nil {
		l = &Limit{Name: name, links: map[string]*Permit{}}
		s.limits[name] = l
	}
	return l
}

// permitOf returns the entity with that ID.
func (s *State) permitOf(id string) *Permit {
	limit, link, _ := strings.Cut(id, "\x00") // no name of a limit has a NUL
	if l := s.limits[limit]; l != nil {
		return l.links[link]
	}
	return nil
}

// correctPermits takes a correction of the time.
func (s *State) correctPermits(to Instant) {
	s.permitsDue = 0
	for _, l := range s.limits {
		for _, x := range l.links {
			if x.GrantedAt > to || x.EndsAt > to {
				x.EndsAt = lasting(x.EndsAt, x.GrantedAt, to)
				x.GrantedAt = min(x.GrantedAt, to)
				s.touchPart(KindPermit, x.id())
			}
		}
	}
}
