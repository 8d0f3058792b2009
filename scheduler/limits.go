package scheduler

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/yamltree"
)

// MaxLimits bounds the named limits of a namespace. All readers ignore a record that would add one more.
const MaxLimits = 1_000

// limitKeys are the keys of the object of a limit.
var limitKeys = []string{"limit", "max", "rate"}

// maxLimitBytes is far more than the object of a limit takes.
const maxLimitBytes = 4 << 10

// LimitRecord is the record that applied or deleted a named limit.
type LimitRecord struct {
	events.LimitDefinition
	Offset int64
	// At is when it was applied.
	At events.Instant
	// Deleted says that it was deleted.
	Deleted bool
}

// IsLimit says whether a document is meant as the object of a limit, with or without faults, and not as a workflow.
func IsLimit(data []byte) bool {
	root := yamltree.Read(data)
	_, limit := yamltree.Find(root, "/limit")
	_, workflow := yamltree.Find(root, "/workflow")
	return limit && !workflow
}

// ParseLimit reads the object of a named limit in YAML or JSON and reports every fault at once, by place. name is its name if the object need not
// say it. The definition is nil if any fault is an error.
func ParseLimit(file, name string, data []byte) (*events.LimitDefinition, []Fault) {
	all := &faults{}
	d := openDocument(file, data, all)
	if d == nil {
		return nil, all.sorted()
	}
	def := &events.LimitDefinition{Limit: name}
	m, ok := d.members(d.root, "", limitKeys, " with the keys limit, max and rate")
	if v, has := m["limit"]; has {
		if def.Limit = v.name(); name != "" && def.Limit != name {
			v.fault("is %q, but the URL names the limit %q", abbreviate(def.Limit), abbreviate(name))
		}
	} else if ok && name == "" {
		d.fault(d.root, "", "limit is missing: the name of the limit")
	}
	if name != "" && !validName(name) {
		d.fault(d.root, "", "%q is not the name of a limit: a lower-case letter, then lower-case letters, digits, - and _, up to 64", abbreviate(name))
	}
	if v, has := m["max"]; has {
		def.Max = v.count(bounds{1, events.MaxLimit})
	}
	if v, has := m["rate"]; has {
		def.Rate = v.rate()
	}
	if m["max"].value == nil && m["rate"].value == nil && ok {
		d.fault(d.root, "", "max and rate are missing: how many attempts of the steps that name the limit run at a time, or may start in a time, such as 50/s")
	}
	if len(data) > maxLimitBytes {
		d.fault(d.root, "", "a limit has up to %d bytes, and this has %d", maxLimitBytes, len(data))
	}
	if all.failed() {
		return nil, all.sorted()
	}
	return def, all.sorted()
}

// Limits returns the named limits of the namespace by name, and those that were deleted. The map is read-only.
func (c *Catalog) Limits() map[string]LimitRecord { return c.now.Load().limits }

// LimitedUpTo returns the offset of the latest record that applied or deleted a limit, -1 without one.
func (c *Catalog) LimitedUpTo() int64 {
	at := int64(-1)
	for _, r := range c.Limits() {
		at = max(at, r.Offset)
	}
	return at
}

// LimitCount returns how many limits there are.
func (c *Catalog) LimitCount() (n int) {
	for _, r := range c.Limits() {
		if !r.Deleted {
			n++
		}
	}
	return n
}

// applyLimit folds the record of a limit, or its tombstone.
func (c *Catalog) applyLimit(rec *events.Record, e events.Envelope, data []byte) error {
	name := events.LimitOfKey(string(rec.Key))
	s := *c.now.Load()
	known, has := s.limits[name]
	r := LimitRecord{LimitDefinition: events.LimitDefinition{Limit: name}, Offset: rec.Offset, Deleted: true}
	switch {
	case data == nil && (!has || known.Deleted):
		return nil
	case data != nil:
		d, list := ParseLimit("", name, data)
		if d == nil {
			return fmt.Errorf("limit %q cannot be used: %w", events.Clip(name, maxQuotedBytes), joined(list))
		}
		at, err := appliedAt(e.Time)
		if err != nil {
			return err
		}
		if r = (LimitRecord{LimitDefinition: *d, Offset: rec.Offset, At: at}); (!has || known.Deleted) && c.LimitCount() >= MaxLimits {
			return fmt.Errorf("limit %q is ignored: there are %d already", name, MaxLimits)
		}
	}
	if s.limits = maps.Clone(s.limits); s.limits == nil {
		s.limits = map[string]LimitRecord{}
	}
	s.limits[name] = r
	c.now.Store(&s)
	return nil
}

// LimitsOf returns the records of the limits whose home is the partition, in the order of their offsets.
func (c *Catalog) LimitsOf(partition, partitions int32) (list []LimitRecord) {
	for name, r := range c.Limits() {
		if events.Home(events.LimitKey(name), partitions) == partition {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b LimitRecord) int { return int(a.Offset - b.Offset) })
	return list
}

// Limits returns the limits that the steps name, in order.
func (d *Definition) Limits() (list []string) {
	for i := range d.Steps {
		if d.Steps[i].Limit != "" {
			list = append(list, d.Steps[i].Limit)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// EncodeLimit returns the record that applies a named limit, for <ns>.definitions.
func EncodeLimit(d *events.LimitDefinition, s events.Subject) (events.Record, error) {
	b, err := events.Marshal(d)
	if err != nil {
		return events.Record{}, err
	}
	return events.Record{Key: []byte(events.LimitKey(d.Limit)), Value: b, Headers: headers(s, events.TypeLimit, "")}, nil
}

// EncodeLimitDeletion returns the record that deletes a named limit.
func EncodeLimitDeletion(name string, s events.Subject) events.Record {
	return events.Record{Key: []byte(events.LimitKey(name)), Headers: headers(s, events.TypeLimit, "")}
}
