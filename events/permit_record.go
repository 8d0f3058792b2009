package events

import "strings"

// The ce_types of the records by which tasks and limits speak, in <ns>.reports of the partition of the one that is addressed.
const (
	TypePermitAsk     = TypePrefix + "permit.ask"
	TypePermitGrant   = TypePrefix + "permit.grant"
	TypePermitRelease = TypePrefix + "permit.release"
)

// PermitMessage is the value of such a record. All of it stands in the fact whose effect it is.
type PermitMessage struct {
	Limit string `json:"limit"`
	Link  Link   `json:"link"`
	// Max, Version, Priority and Repeat are those of an ask: see PermitAsked.
	Max      int  `json:"max,omitzero"`
	Version  int  `json:"version,omitzero"`
	Priority int  `json:"priority,omitzero"`
	Repeat   bool `json:"repeat,omitzero"`
	// Waiting is that of a grant: see PermitsDecided.
	Waiting int `json:"waiting,omitzero"`
	// QuietAt is that of a release. See QuietFrom.
	QuietAt Instant `json:"quiet_at,omitzero"`
}

// To returns the entity that a record of that type is addressed to: its key, whose home is the partition that judges it.
func (m *PermitMessage) To(kind string) string {
	if kind == TypePermitGrant {
		return m.Link.Task
	}
	return m.Limit
}

// Check says what is wrong with the message, "" if nothing is.
func (m *PermitMessage) Check(kind string) string {
	switch {
	case CheckLimit(m.Limit) != nil:
		return CheckLimit(m.Limit).Error()
	case CheckTaskID(m.Link.Task) != nil || m.Link.Incarnation == "" || m.Link.Run < 1 || m.Link.N < 1:
		return "it must name the limit and the link: the task, its incarnation, its run and n"
	case strings.HasPrefix(m.Limit, NamedPrefix) != (m.Link.Path != "") || m.Link.Path != "" && m.Link.Operation != Do && m.Link.Operation != Undo:
		return "a link of a named limit names a step and its operation, and no other link does"
	case kind == TypePermitAsk && m.Link.Path != "" && (m.Max != 0 || m.Version != 0):
		return "an ask of a named limit does not say how many permits there are"
	case kind == TypePermitAsk && m.Link.Path == "" && (m.Max < 1 || m.Version < 1):
		return "an ask must say how many permits there are, and by which version of the workflow"
	}
	return ""
}

// EncodePermit returns the record of a message of that type. Topic and Partition are left to the caller.
func EncodePermit(kind string, m PermitMessage, s Subject) (Record, error) {
	return encode(m, m.To(kind), kind, m.To(kind), s)
}

// PermitMessageOf returns the message that is the effect of a fact, and its type; false if the fact has none.
func PermitMessageOf(f *Fact) (kind string, m PermitMessage, ok bool) {
	switch b := f.Body.(type) {
	case *PermitAsked:
		return TypePermitAsk, PermitMessage{Limit: b.Limit, Link: b.Link, Max: b.Max, Version: b.Version, Priority: b.Priority, Repeat: b.Repeat}, true
	case *PermitReturned:
		return TypePermitRelease, PermitMessage{Limit: b.Limit, Link: b.Link, QuietAt: b.QuietAt}, true
	case *PermitsDecided:
		if b.Granted == nil {
			return "", PermitMessage{}, false
		}
		return TypePermitGrant, PermitMessage{Limit: b.Limit, Link: *b.Granted, Waiting: b.Waiting}, true
	case *PermitReleased:
		return TypePermitRelease, PermitMessage{Limit: b.Limit, Link: b.Link, QuietAt: b.QuietAt}, true
	}
	if r := releaseOf(f.Body); r != nil {
		return TypePermitRelease, PermitMessage{Limit: r.Limit, Link: r.Link, QuietAt: r.QuietAt}, true
	}
	return "", PermitMessage{}, false
}

// QuietFrom returns until when a limit keeps the permit of a release that it judges at now and that was sent at the given time, by the clock of
// the task's owner. If that clock was far ahead, so is QuietAt; what was left of the quiet time then counts from now on. Otherwise it may be the clock of
// the limit's owner that is behind, and the next owner's may not be.
func (m *PermitMessage) QuietFrom(sent, now Instant) Instant {
	if sent.Sub(now) > TimeCorrectable {
		return now.Add(m.QuietAt.Sub(sent))
	}
	return m.QuietAt
}
