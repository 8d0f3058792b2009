package events

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Link names what a task asks of another entity, which may live in another partition: a permit of a limit. Children and the tasks of
// schedules will have links too. N tells apart what the same task asks for several times, one after another; Path and Operation are empty if
// the task asks for itself and not for a step.
//
// The task's fact that makes the link has the ask as its effect, and the other side has a row for the link until the release, which is an
// effect of the task's fact that ends it. Nothing else refers to a link, so each side judges what it gets by the name alone: docs/protocol.md,
// "Links".
type Link struct {
	Task        string    `json:"task"`
	Incarnation string    `json:"incarnation"`
	Run         int       `json:"run"`
	Path        string    `json:"path,omitempty"`
	Operation   Operation `json:"operation,omitempty"`
	N           int       `json:"n"`
}

// RepeatAfter is how long a link waits before its ask, or the answer to it, is sent again. An effect is sent until it is acknowledged, so this
// is for records that an operator gave up.
const RepeatAfter = time.Hour

const (
	// TellAfter is how long a limit waits until it tells a holder again that it has a permit, and how many wait for it. It is shorter than RepeatAfter
	// so that a parked holder learns in time that others wait for it.
	TellAfter = 15 * time.Minute
	// BlocksAfter is how long a task must have been parked until an alert says that others wait for its permit.
	BlocksAfter = 15 * time.Minute
)

// ID returns the name as one text. No part of it but the path can contain a NUL, and the path comes last.
func (l *Link) ID() string {
	return strings.Join([]string{l.Task, l.Incarnation, strconv.Itoa(l.Run), strconv.Itoa(l.N), string(l.Operation), l.Path}, "\x00")
}

// PermitAsked says that the task, or the next attempt of the step that the link names, asks a limit for a permit. Its effect is the ask.
type PermitAsked struct {
	Limit string `json:"limit"`
	Link  Link   `json:"link"`
	// Max is how many permits the limit may give at a time, by the version of the workflow. Both are absent if the limit is a named one.
	Max      int `json:"max,omitzero"`
	Version  int `json:"version,omitzero"`
	Priority int `json:"priority,omitzero"`
	// Repeat says that the task has asked before, and has no answer yet.
	Repeat bool `json:"repeat,omitzero"`
}

// PermitGranted says that the task, or the attempt, has the permit for which it asked.
type PermitGranted struct {
	Limit string `json:"limit"`
	Link  Link   `json:"link"`
}

// PermitReleased says that the task, or the attempt, needs a permit no more, whether it has got it or still waits for it. Its effect is the release. The
// facts that end a task have one as a member.
type PermitReleased struct {
	Limit string `json:"limit"`
	Link  Link   `json:"link"`
	// QuietAt is when no request of any attempt in doubt can land any more: the limit gives the permit to nobody else before it.
	QuietAt Instant `json:"quiet_at,omitzero"`
}

// PermitReturned answers a grant that nobody has asked for or that is not needed any more: its task has ended or is forgotten, or has
// released it. Its effect is the release.
type PermitReturned struct {
	Limit string `json:"limit"`
	Link  Link   `json:"link"`
	// QuietAt is as in PermitReleased, if the task is still known.
	QuietAt Instant `json:"quiet_at,omitzero"`
}

// PermitsDecided changes the permits of a limit. Its effect is the grant. The members are carried out in their order.
type PermitsDecided struct {
	Limit string `json:"limit"`
	// Asked is an ask of a link that the limit does not know.
	Asked *PermitAsked `json:"asked,omitempty"`
	// Ending is the release of a permit that is given to nobody else before its QuietAt.
	Ending *PermitReleased `json:"ending,omitempty"`
	// Released is a link that leaves the limit.
	Released *Link `json:"released,omitempty"`
	// Granted is a link that gets a permit, or that has one and hears of it again.
	Granted *Link `json:"granted,omitempty"`
	// Waiting is how many links wait, if Granted has its permit already.
	Waiting int `json:"waiting,omitzero"`
}

// PermitBlocked says that others wait for the permit of a task that has been parked for BlocksAfter. Its effect is an alert; it comes once each
// time that the task is parked.
type PermitBlocked struct {
	Limit string `json:"limit"`
	Link  Link   `json:"link"`
	// Waiting is how many links wait, and Since when the task was parked.
	Waiting int     `json:"waiting"`
	Since   Instant `json:"since"`
}

// Concurrency says that only some tasks of a kind run at a time: those that have a permit of the limit.
type Concurrency struct {
	// Limit is the name of the limit: see ConcurrencyLimit.
	Limit string `json:"limit"`
	Max   int    `json:"max"`
	// Parked says what a parked task does with its permit.
	Parked ParkedPermit `json:"parked"`
}

// ConcurrencyLimit returns the name of the limit of the tasks of a workflow that share a key.
func ConcurrencyLimit(workflow, key string) string { return ConcurrencyPrefix + workflow + "/" + key }

// ConcurrencyPrefix begins the names of these limits.
const ConcurrencyPrefix = "concurrency/"

// ParkedPermit says what a parked task does with its permit.
type ParkedPermit string

// The two.
const (
	PermitHold    ParkedPermit = "hold"
	PermitRelease ParkedPermit = "release"
)

// Limit is the entity of a limit to which some link is known, that is paused, or that an object defines. It leaves the state by the fact after
// which nothing of that holds.
type Limit struct {
	Name string `json:"name"`
	// Max is that of the newest version of the workflow that has asked, Version. That of a named limit is its object's, zero while none is known.
	Max     int `json:"max"`
	Version int `json:"version"`
	// Offset is that of the record of the definitions that Max is from; zero if no object defines the limit.
	Offset int64 `json:"offset,omitzero"`
	// Rate is that of the object of a named limit. With a Rate, a Max of zero does not bound how many permits there are.
	Rate string `json:"rate,omitempty"`
	// PacedFrom and Paced say when the next permit is due by the rate: the time of Paced permits after PacedFrom.
	PacedFrom Instant `json:"paced_from,omitzero"`
	Paced     int     `json:"paced,omitzero"`
	// Paused is nil unless an operator has paused the limit.
	Paused *Paused `json:"paused,omitempty"`

	links   map[string]*Permit
	waiting []*Permit // in the order in which they get permits
	held    int
}

// Permit is the entity of a link that a limit knows. Its ID is the name of the limit, a NUL, and the ID of the link.
type Permit struct {
	Limit    string `json:"limit"`
	Link     Link   `json:"link"`
	Priority int    `json:"priority,omitzero"`
	// Asked is the position of the fact by which it came.
	Asked Position `json:"asked"`
	// GrantedAt is when the permit was given, or when its holder last heard of it; zero while the link waits.
	GrantedAt Instant `json:"granted_at,omitzero"`
	// EndsAt is when a permit that was released is free.
	EndsAt Instant `json:"ends_at,omitzero"`
}

func (x *Permit) id() string { return x.Limit + "\x00" + x.Link.ID() }

// Held says whether the link has a permit.
func (x *Permit) Held() bool { return x.GrantedAt != 0 }

// due returns when something must be done about the permit, zero if nothing must.
func (x *Permit) due() Instant {
	switch {
	case x.EndsAt != 0:
		return x.EndsAt
	case x.Held():
		return x.GrantedAt.Add(TellAfter)
	}
	return 0
}

// before is the order in which links get permits: undos first, since they free what others wait for, then by priority, then by arrival.
func (x *Permit) before(y *Permit) int {
	if (x.Link.Operation == Undo) != (y.Link.Operation == Undo) {
		if x.Link.Operation == Undo {
			return -1
		}
		return 1
	}
	if x.Priority != y.Priority {
		return cmp.Compare(y.Priority, x.Priority)
	}
	switch {
	case x.Asked.Before(y.Asked):
		return -1
	case y.Asked.Before(x.Asked):
		return 1
	}
	return 0 // no fact brings two
}

// Permit returns what the limit knows of a link, nil if it does not know it.
func (l *Limit) Permit(link Link) *Permit {
	if l == nil {
		return nil
	}
	return l.links[link.ID()]
}

// Permits yields what the limit knows of its links, in no order of meaning.
func (l *Limit) Permits() iter.Seq[*Permit] {
	return func(yield func(*Permit) bool) {
		if l == nil {
			return
		}
		for _, id := range slices.Sorted(maps.Keys(l.links)) {
			if !yield(l.links[id]) {
				return
			}
		}
	}
}

// Free returns how many permits may be given at that time, counted without the rate: it opens for one after the other.
func (l *Limit) Free(at Instant) int { return l.free(l.held, at) }

func (l *Limit) free(held int, at Instant) int {
	//mutant:rate-is-kept
	if at < l.OpensAt() {
		return 0
	}
	return l.room(held)
}

// Room returns how many permits may be given as soon as the rate of the limit allows it.
func (l *Limit) Room() int { return l.room(l.held) }

func (l *Limit) room(held int) int {
	//mutant:paused-limit-gives-nothing
	if l.Paused != nil {
		return 0
	}
	if l.Max == 0 && l.Rate != "" {
		return 1
	}
	return max(0, l.Max-held)
}

// Next returns the link that gets the next permit, nil if none waits.
func (l *Limit) Next() *Permit {
	if l == nil || len(l.waiting) == 0 {
		return nil
	}
	return l.waiting[0]
}

// Waiting returns the links that wait, in the order in which they get permits. The slice is the limit's.
func (l *Limit) Waiting() []*Permit { return l.waiting }

// WaitingAfter returns the links that get their permits after x would get one, in that order; all that wait if x is nil. Of x the operation of
// its link, its priority, and Asked are read.
func (l *Limit) WaitingAfter(x *Permit) []*Permit {
	if x == nil {
		return l.waiting
	}
	return l.waiting[sort.Search(len(l.waiting), func(i int) bool { return x.before(l.waiting[i]) < 0 }):]
}

// FreeWith returns how many permits are free at that time once the ask is known, before it gets one.
func (l *Limit) FreeWith(a *PermitAsked, at Instant) int {
	var with Limit
	if l != nil {
		with = *l
	}
	with.adopt(a)
	return with.Free(at)
}

// NextWith returns the link that gets the next permit once the ask is known.
func (l *Limit) NextWith(a *PermitAsked) *Link {
	if l == nil || len(l.waiting) == 0 {
		return &a.Link
	}
	last := &Permit{Link: a.Link, Priority: a.Priority, Asked: l.waiting[0].Asked} // of two with the same right, the one that waits
	if last.before(l.waiting[0]) < 0 {
		return &a.Link
	}
	return &l.waiting[0].Link
}

// FreeWithout returns how many permits are free at that time without those of a link.
func (l *Limit) FreeWithout(x *Permit, at Instant) int {
	if x.Held() {
		return l.free(l.held-1, at)
	}
	return l.Free(at)
}

// adopt takes the number of permits from an ask, if no newer version has asked.
func (l *Limit) adopt(a *PermitAsked) {
	if a.Version > l.Version {
		l.Max, l.Version = a.Max, a.Version
	}
}
