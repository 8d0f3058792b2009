package cron

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Expression is a cron expression. The zero value is never due.
type Expression struct {
	minutes, hours, days, months, weekdays uint64
	// eitherDay says that a day matches if one of its two fields does.
	eitherDay bool
}

// field says what a field may hold.
type field struct {
	name        string
	least, most int
	names       []string // of the values from least on
}

var fields = [5]field{
	{"minute", 0, 59, nil},
	{"hour", 0, 23, nil},
	{"day of month", 1, 31, nil},
	{"month", 1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{"day of week", 0, 7, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// Parse reads an expression such as "0 2 * * MON-FRI".
func Parse(text string) (Expression, error) {
	parts := strings.Fields(text)
	if len(parts) != len(fields) {
		return Expression{}, fmt.Errorf("a cron expression has five fields: minute, hour, day of month, month, day of week; this has %d", len(parts))
	}
	var sets [len(fields)]uint64
	for i, part := range parts {
		set, err := fields[i].parse(part)
		if err != nil {
			return Expression{}, fmt.Errorf("%s: %w", fields[i].name, err)
		}
		sets[i] = set
	}
	e := Expression{minutes: sets[0], hours: sets[1], days: sets[2], months: sets[3], weekdays: sets[4]}
	e.weekdays |= e.weekdays >> 7 & 1 // 7 is Sunday, too
	e.eitherDay = parts[2][0] != '*' && parts[4][0] != '*'
	if e.Next(time.Unix(0, 0), time.UTC).IsZero() {
		return Expression{}, fmt.Errorf("%q is never due: no such day exists", text)
	}
	return e, nil
}

func (f field) parse(text string) (set uint64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		least, most, step := f.least, f.most, 1
		span, by, stepped := strings.Cut(part, "/")
		if stepped {
			if step, err = strconv.Atoi(by); err != nil || step < 1 || step > f.most {
				return 0, fmt.Errorf("%q is not a step from 1 to %d", by, f.most)
			}
		}
		if span != "*" {
			from, to, ranged := strings.Cut(span, "-")
			if least, err = f.value(from); err != nil {
				return 0, err
			}
			switch {
			case ranged:
				if most, err = f.value(to); err != nil {
					return 0, err
				}
				if f.names != nil && f.least == 0 && most == 0 { // to Sunday
					most = 7
				}
			case !stepped:
				most = least
			}
		}
		if least > most {
			return 0, fmt.Errorf("%q ends before it begins", part)
		}
		for v := least; v <= most; v += step {
			set |= 1 << v
		}
	}
	return set, nil
}

func (f field) value(text string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(name, text) {
			return f.least + i, nil
		}
	}
	v, err := strconv.Atoi(text)
	if err != nil || v < f.least || v > f.most {
		return 0, fmt.Errorf("%q is not a value from %d to %d", text, f.least, f.most)
	}
	return v, nil
}

// yearsAhead bounds the search: a 29 February that must be a certain day of the week comes again within it.
const yearsAhead = 41

// Next returns the first instant after the given one at which the expression is due in the time zone, or the zero time if none exists.
func (e Expression) Next(after time.Time, zone *time.Location) time.Time {
	year, month, day := after.In(zone).Date()
	last := year + yearsAhead
	for year <= last {
		if has(e.months, int(month)) && e.matchesDay(year, month, day) {
			for hour := range 24 {
				for minute := range 60 {
					if !has(e.hours, hour) || !has(e.minutes, minute) {
						continue
					}
					if at := resolve(year, month, day, hour, minute, zone); at.After(after) {
						return at
					}
				}
			}
		}
		year, month, day = time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC).Date()
	}
	return time.Time{}
}

func has(set uint64, v int) bool { return set>>v&1 != 0 }

func (e Expression) matchesDay(year int, month time.Month, day int) bool {
	weekday := has(e.weekdays, int(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Weekday()))
	if e.eitherDay {
		return weekday || has(e.days, day)
	}
	return weekday && has(e.days, day)
}

// resolve returns the instant of a time of the day: the first one if there are two, and the next that exists if none exists.
func resolve(year int, month time.Month, day, hour, minute int, zone *time.Location) time.Time {
	wall := time.Date(year, month, day, hour, minute, 0, 0, time.UTC).Unix()
	start, end := time.Date(year, month, day, hour, minute, 0, 0, zone).ZoneBounds()
	var found time.Time
	try := func(in time.Time) { // with the offset that holds at that instant
		at := time.Unix(wall-offset(in), 0).In(zone)
		if offset(at) == offset(in) && (found.IsZero() || at.Before(found)) {
			found = at
		}
	}
	try(time.Date(year, month, day, hour, minute, 0, 0, zone))
	for _, change := range []time.Time{start, end} {
		if !change.IsZero() {
			try(change.Add(-time.Second))
			try(change)
		}
	}
	if !found.IsZero() {
		return found
	}
	for _, change := range []time.Time{start, end} {
		if !change.IsZero() && change.Unix()+offset(change.Add(-time.Second)) <= wall && wall < change.Unix()+offset(change) {
			return change
		}
	}
	return time.Date(year, month, day, hour, minute, 0, 0, zone)
}

func offset(t time.Time) int64 {
	_, seconds := t.Zone()
	return int64(seconds)
}
