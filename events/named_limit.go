package events

import (
	"fmt"
	"strings"
)

// LimitDefinition is the object of a named limit as it was applied. Steps of any workflow name it, and it holds for all of them together.
type LimitDefinition struct {
	Limit string `json:"limit"`
	// Max is how many attempts of these steps may run at a time, zero without a bound. There is a Max, a Rate, or both.
	Max int `json:"max,omitzero"`
	// Rate is how many of them may start in a time, such as 50/s; "" does not limit it.
	Rate string `json:"rate,omitempty"`
}

// MaxLimit bounds the Max of a limit.
const MaxLimit = 100_000

// NamedPrefix begins the names of named limits, wherever they stand beside those of concurrency.
const NamedPrefix = "limit/"

// LimitKey is the name of a named limit in records and in the state, and the key of its records in the definitions. Its home is the partition
// of this key.
func LimitKey(name string) string { return NamedPrefix + name }

// LimitOfKey returns the named limit that a key names, "" if it is not the key of one.
func LimitOfKey(key string) string {
	name, ok := strings.CutPrefix(key, NamedPrefix)
	if !ok {
		return ""
	}
	return name
}

// IsNamed says whether it is a limit that an object defines, and not that of a workflow's concurrency.
func (l *Limit) IsNamed() bool { return strings.HasPrefix(l.Name, NamedPrefix) }

// LimitAdopted brings a named limit into its home partition, replaces its definition, or without a Max and a Rate removes it. A removed limit gives
// no permits. Its pause and its links stay.
type LimitAdopted struct {
	Limit string `json:"limit"`
	// Offset is that of the record of the definitions. It never falls within a partition.
	Offset int64  `json:"offset"`
	Max    int    `json:"max,omitzero"`
	Rate   string `json:"rate,omitempty"`
}

// Removes says that the limit was deleted.
func (b *LimitAdopted) Removes() bool { return b.Max == 0 && b.Rate == "" }

// adoptLimit takes a LimitAdopted.
func adoptLimit(s *State, f *Fact, b *LimitAdopted) error {
	l := s.Limits.byName[b.Limit]
	_, err := ParseRate(b.Rate)
	if b.Offset <= s.Partition.LimitsOffset || LimitOfKey(b.Limit) == "" || b.Max < 0 || err != nil || b.Removes() && (l == nil || l.Offset == 0) {
		return fmt.Errorf("%w: the limit %q is adopted from offset %d after offset %d", ErrImpossible, b.Limit, b.Offset, s.Partition.LimitsOffset)
	}
	if l == nil {
		l = s.Limits.of(b.Limit)
	}
	s.Partition.LimitsOffset = b.Offset
	l.Max, l.Offset = b.Max, b.Offset
	l.changeRate(b.Rate, f.Time)
	if b.Removes() {
		l.Offset = 0
	}
	s.Limits.due = 0
	s.Limits.leave(l)
	s.touchPart(KindLimit, b.Limit)
	return nil
}

// checkNamedLimit returns an error if no named limit can have that key.
func checkNamedLimit(key string) error {
	name := LimitOfKey(key)
	if name == "" || strings.Contains(name, "/") || CheckTaskID(name) != nil {
		return fmt.Errorf("%q is not the name of a limit", Clip(name, MaxTaskID))
	}
	return nil
}
