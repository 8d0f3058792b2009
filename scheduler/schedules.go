package scheduler

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// MaxSchedules bounds the schedules of a namespace. All readers ignore a record that would add one more.
const MaxSchedules = 1_000

// ScheduleRecord is the record that applied or deleted a schedule.
type ScheduleRecord struct {
	Schedule string
	Offset   int64
	// At is when it was applied.
	At events.Instant
	// Body is the object of the schedule with every default filled in; nil if the schedule was deleted.
	Body []byte
	// Deleted is the offset of the latest deletion before this record, 0 without one: what begins with this record is another schedule
	// than the deleted one, even for an owner that reads both records at once.
	Deleted int64
}

// Schedules returns the schedules of the namespace by name, and those that were deleted. The map is read-only.
func (c *Catalog) Schedules() map[string]ScheduleRecord { return c.now.Load().schedules }

// ScheduledUpTo returns the offset of the latest record that applied or deleted a schedule, -1 if none exists.
func (c *Catalog) ScheduledUpTo() int64 {
	s := c.now.Load()
	if s.schedules == nil {
		return -1
	}
	return s.scheduledUpTo
}

// applySchedule folds the record of a schedule, or its tombstone.
func (c *Catalog) applySchedule(rec *events.Record, e events.Envelope, data []byte) error {
	name := events.ScheduleOfKey(string(rec.Key))
	r := ScheduleRecord{Schedule: name, Offset: rec.Offset, Body: data}
	s := *c.now.Load()
	known, has := s.schedules[name]
	if r.Deleted = known.Deleted; has && known.Body == nil {
		r.Deleted = known.Offset
	}
	if data == nil {
		if !has || known.Body == nil {
			return nil
		}
		s.scheduled--
	} else {
		d, list := ParseSchedule("", data)
		if d == nil {
			return fmt.Errorf("schedule %q cannot be used: %w", events.Clip(name, maxQuotedBytes), joined(list))
		}
		if d.Schedule != name {
			return fmt.Errorf("the key names schedule %q, and the object %q", events.Clip(name, maxQuotedBytes), d.Schedule)
		}
		var err error
		if r.At, err = appliedAt(e.Time); err != nil {
			return err
		}
		if !has || known.Body == nil {
			if s.scheduled++; s.scheduled > MaxSchedules {
				return fmt.Errorf("schedule %q is ignored: there are %d already", name, MaxSchedules)
			}
		}
	}
	if s.schedules = maps.Clone(s.schedules); s.schedules == nil {
		s.schedules = map[string]ScheduleRecord{}
	}
	s.schedules[name], s.scheduledUpTo = r, rec.Offset
	c.now.Store(&s)
	return nil
}

func joined(list []Fault) error {
	texts := make([]string, len(list))
	for i, f := range list {
		texts[i] = strings.TrimPrefix(f.Path+": "+f.Message, ": ")
	}
	return errors.New(strings.Join(texts, "; "))
}

// SchedulesOf returns the records of the schedules whose home is the partition, in the order of their offsets. Of one that was deleted and
// applied again these are two, the deletion and the latest.
func (c *Catalog) SchedulesOf(partition, partitions int32) (list []ScheduleRecord) {
	for name, r := range c.Schedules() {
		if events.Home(events.ScheduleKey(name), partitions) == partition {
			list = append(list, r)
			if r.Body != nil && r.Deleted > 0 {
				list = append(list, ScheduleRecord{Schedule: name, Offset: r.Deleted})
			}
		}
	}
	slices.SortFunc(list, func(a, b ScheduleRecord) int { return int(a.Offset - b.Offset) })
	return list
}

// EncodeSchedule returns the record that applies a schedule, for <ns>.definitions. Its value is the object with every default filled in.
func EncodeSchedule(d *events.ScheduleDefinition, s events.Subject) (events.Record, error) {
	b, err := events.Marshal(d)
	if err != nil {
		return events.Record{}, err
	}
	return events.Record{Key: []byte(events.ScheduleKey(d.Schedule)), Value: b, Headers: headers(s, events.TypeSchedule, "")}, nil
}

// EncodeScheduleDeletion returns the record that deletes a schedule.
func EncodeScheduleDeletion(name string, s events.Subject) events.Record {
	return events.Record{Key: []byte(events.ScheduleKey(name)), Headers: headers(s, events.TypeSchedule, "")}
}

// ScheduleCount returns how many schedules there are.
func (c *Catalog) ScheduleCount() int { return c.now.Load().scheduled }
