package events

import (
	"fmt"
	"strings"
)

// The types of the requests about limits, in <ns>.reports.
const (
	TypeLimitPause  = TypePrefix + "limit.pause"
	TypeLimitResume = TypePrefix + "limit.resume"
)

// LimitRequest is the value of a record in <ns>.reports with one of these types. Its key is the name of the limit.
type LimitRequest struct {
	ID     string `json:"id" schema:"optional"`
	Limit  string `json:"limit"`
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
}

// LimitPaused holds a limit: nobody gets a permit. Those that have one keep it.
type LimitPaused struct {
	Limit   string `json:"limit"`
	Request string `json:"request"`
	Reason  string `json:"reason,omitempty"`
	By      string `json:"by,omitempty"`
}

// LimitResumed lets a limit go on.
type LimitResumed struct {
	Limit   string `json:"limit"`
	Request string `json:"request"`
	Reason  string `json:"reason,omitempty"`
	By      string `json:"by,omitempty"`
}

// CheckLimit returns an error if no limit can have that name.
func CheckLimit(name string) error {
	if strings.HasPrefix(name, NamedPrefix) {
		return checkNamedLimit(name)
	}
	workflow, key, ok := strings.Cut(strings.TrimPrefix(name, ConcurrencyPrefix), "/")
	if !strings.HasPrefix(name, ConcurrencyPrefix) || !ok || workflow == "" || key == "" || len(key) > MaxTaskID || CheckTaskID(workflow) != nil ||
		CheckTaskID(key) != nil && key != "." && key != ".." {
		return fmt.Errorf("%q is not the name of a limit: it is the workflow, a slash, and the key of its concurrency", Clip(name, MaxTaskID))
	}
	return nil
}

// EncodeLimitRequest returns the record of a request about a limit, of one of the types of these, for <ns>.reports.
func EncodeLimitRequest(q LimitRequest, kind string, s Subject) (Record, error) {
	return encode(q, q.Limit, kind, q.Limit, s)
}

// foldLimit takes the facts about a limit.
func foldLimit(s *State, f *Fact) error {
	switch b := f.Body.(type) {
	case *LimitAdopted:
		return adoptLimit(s, f, b)
	case *LimitPaused:
		return pauseLimit(s, f, b)
	case *LimitResumed:
		return resumeLimit(s, b)
	}
	return nil
}

// pauseLimit takes the fact that a limit is paused. A limit that is paused is in the state, even if no link is known to it.
func pauseLimit(s *State, f *Fact, b *LimitPaused) error {
	l := s.Limits.of(b.Limit)
	if l.Paused != nil {
		return fmt.Errorf("%w: the limit %q is paused twice", ErrImpossible, b.Limit)
	}
	l.Paused = &Paused{By: b.By, Since: f.Time, Reason: b.Reason}
	s.touchPart(KindLimit, b.Limit)
	return nil
}

// resumeLimit takes the fact that a limit goes on.
func resumeLimit(s *State, b *LimitResumed) error {
	l := s.Limits.byName[b.Limit]
	if l == nil || l.Paused == nil {
		return fmt.Errorf("%w: the limit %q is resumed and not paused", ErrImpossible, b.Limit)
	}
	l.Paused = nil
	//mutant:resumed-limit-goes-on
	s.Limits.due = 0
	s.Limits.leave(l)
	s.touchPart(KindLimit, b.Limit)
	return nil
}

// leave removes a limit that nothing keeps in the state.
func (all *Limits) leave(l *Limit) {
	if len(l.links) == 0 && l.Paused == nil && l.Offset == 0 {
		delete(all.byName, l.Name)
	}
}
