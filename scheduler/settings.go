package scheduler

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// Recorded holds the settings of a namespace: those that its records have set, and defaults for the rest.
type Recorded struct {
	Settings events.Settings
	// Offset is the offset of the latest record that set one, or 0. It is the number by which partitions adopt them.
	Offset int64
	// Level is the highest level that a record has given the namespace, and LevelSet says which record.
	Level    int
	LevelSet SettingRecord
	// Set holds, by the setting's name, the record that last set it. It is read-only.
	Set map[string]SettingRecord
}

// SettingRecord is the record that set a setting.
type SettingRecord struct {
	Offset int64
	At     events.Instant
	By     string
}

// Settings returns the settings of the namespace.
func (c *Catalog) Settings() Recorded { return c.now.Load().settings }

// applySettings changes settings. A record with a value that is out of range changes nothing. A setting that only a later version
// knows is left out, and the error names it.
func (c *Catalog) applySettings(offset int64, e events.Envelope, data []byte) error {
	var change events.SettingsChange
	if err := json.Unmarshal(data, &change); err != nil {
		return fmt.Errorf("read %s: %w", events.TypeSettings, err)
	}
	at, err := appliedAt(e.Time)
	if err != nil {
		return err
	}
	s := *c.now.Load()
	next, unknown := s.settings, []error{}
	next.Set = maps.Clone(next.Set)
	for _, name := range slices.Sorted(maps.Keys(change.Settings)) {
		x, err := events.SettingOf(name)
		if err != nil {
			unknown = append(unknown, err)
			continue
		}
		if _, set := next.Set[name]; set && change.Initial {
			continue
		}
		if err := x.Set(&next.Settings, change.Settings[name]); err != nil {
			return err
		}
		if next.Set == nil {
			next.Set = map[string]SettingRecord{}
		}
		next.Set[name] = SettingRecord{Offset: offset, At: at, By: change.By}
		next.Offset = offset
	}
	if change.Level > next.Level {
		next.Level, next.LevelSet = change.Level, SettingRecord{Offset: offset, At: at, By: change.By}
	}
	s.settings = next
	c.now.Store(&s)
	return errors.Join(unknown...)
}

// EncodeSettings returns the record of a change of settings for <ns>.definitions.
func EncodeSettings(change events.SettingsChange, s events.Subject) (events.Record, error) {
	b, err := json.Marshal(change)
	if err != nil {
		return events.Record{}, err
	}
	return events.Record{Key: []byte(events.SettingsKey), Value: b, Headers: headers(s, events.TypeSettings, "")}, nil
}
