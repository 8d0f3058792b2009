package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/scheduler"
)

// settings knows the settings of the namespace, and changes them.
type settings struct {
	ns       *namespace
	producer *kafka.Producer
	liveness *liveness

	// changing is held while a change is written, so that the answer says whether it changed something.
	changing sync.Mutex
}

// begin compares the settings that this process was started with, named in given, with those of the namespace. It records those
// that the namespace has not set yet, and refuses different values: the nodes of a namespace must decide alike.
func (s *settings) begin(ctx context.Context, values events.Settings, given []string) error {
	change := events.SettingsChange{Settings: map[string]json.RawMessage{}, Initial: true}
	recorded := s.ns.catalog.Settings()
	for _, x := range events.SettingList() {
		if _, set := recorded.Set[x.Name]; slices.Contains(given, x.Name) && !set {
			change.Settings[x.Name] = x.Value(values)
		}
	}
	if len(change.Settings) > 0 {
		if err := s.write(ctx, change); err != nil {
			return err
		}
		recorded = s.ns.catalog.Settings() // another node's record may have come first
	}
	var wrong []string
	for _, x := range events.SettingList() {
		if slices.Contains(given, x.Name) && x.Text(values) != x.Text(recorded.Settings) {
			wrong = append(wrong, fmt.Sprintf("--%s %s: namespace %s has %s = %s%s. Leave the flag out, or change the setting for all nodes: sagalog namespace set %s=%s",
				strings.ReplaceAll(x.Name, "_", "-"), x.Text(values), s.ns.name, x.Name, x.Text(recorded.Settings), since(recorded.Set[x.Name]), x.Name, x.Text(values)))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("settings belong to the namespace: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// since says who set a setting, and when.
func since(r scheduler.SettingRecord) string {
	text := ""
	if r.At != 0 {
		text += " since " + r.At.String()
	}
	if r.By != "" {
		text += " (set by " + r.By + ")"
	}
	return text
}

// givenSettings returns the names of the settings that a node's configuration names or changes.
func givenSettings(cfg *Config) []string {
	given := slices.Clone(cfg.SettingsSet)
	for _, x := range events.SettingList() {
		if x.Text(cfg.Settings) != x.Text(events.DefaultSettings()) {
			given = append(given, x.Name)
		}
	}
	sort.Strings(given)
	return slices.Compact(given)
}

// write appends a change and reads it back.
func (s *settings) write(ctx context.Context, change events.SettingsChange) error {
	r, err := scheduler.EncodeSettings(change, events.Subject{ID: uuid.NewString(), Source: "/" + s.ns.name + "/settings", Time: events.At(time.Now())})
	if err != nil {
		return err
	}
	r.Topic = s.ns.topics.Definitions()
	at, err := s.producer.ProduceSync(ctx, r)
	if err != nil {
		return fmt.Errorf("record the settings: %w", err)
	}
	return s.ns.catalog.upTo(ctx, at[0]+1)
}

// Settings implements api.Settings.
func (s *settings) Settings(ctx context.Context) (api.NamespaceSettings, error) {
	if err := s.ns.catalog.upToNow(ctx); err != nil {
		return api.NamespaceSettings{}, noAnswer(err)
	}
	return s.known(), nil
}

func (s *settings) known() api.NamespaceSettings {
	recorded := s.ns.catalog.Settings()
	known := api.NamespaceSettings{
		Settings: recorded.Settings, Offset: recorded.Offset, Set: map[string]api.SettingRecord{},
		Level: recorded.Level, LevelSet: api.SettingRecord(recorded.LevelSet), Nodes: s.liveness.levels(),
	}
	for name, r := range recorded.Set {
		known.Set[name] = api.SettingRecord(r)
	}
	return known
}

// ChangeSettings implements api.Settings.
func (s *settings) ChangeSettings(ctx context.Context, change events.SettingsChange) (now api.NamespaceSettings, changed bool, err error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	if err := s.ns.catalog.upToNow(ctx); err != nil {
		return now, false, noAnswer(err)
	}
	recorded, next := s.ns.catalog.Settings(), map[string]json.RawMessage{}
	for name, value := range change.Settings {
		x, err := events.SettingOf(name)
		if err != nil {
			return now, false, err
		}
		wanted := recorded.Settings
		if err := x.Set(&wanted, value); err != nil {
			return now, false, err
		}
		if _, set := recorded.Set[name]; !set || x.Text(wanted) != x.Text(recorded.Settings) {
			next[name] = value
		}
	}
	if len(next) == 0 {
		return s.known(), false, nil
	}
	change.Settings = next
	if err := s.write(ctx, change); err != nil {
		return now, false, noAnswer(err)
	}
	return s.known(), true, nil
}

// replyTopic returns why no task can be answered in a topic, as far as this node knows.
func (s *settings) replyTopic(topic string) error {
	latest := s.ns.catalog.Settings().Settings
	return latest.CheckReplyTopic(s.ns.name, topic)
}

// submissionBytes is the limit of a submission as of now.
func (s *settings) submissionBytes() int { return s.ns.catalog.Settings().Settings.SubmissionBytes }

// follow passes each change of the settings, schedules and limits, and each accepted loss to the owners until ctx ends.
func (s *settings) follow(ctx context.Context, o *owners) error {
	next, handed, limited := int64(0), int64(-1), int64(-1)
	for {
		moved := s.ns.catalog.movement()
		recorded := s.ns.catalog.Settings()
		for _, r := range s.ns.catalog.LossesAfter(next) {
			if next = max(next, r.Offset+1); int(r.Partition) < len(o.shells) {
				o.shells[r.Partition].Accepted()
			}
		}
		for _, shell := range o.shells {
			shell.SetSettings(recorded.Settings, recorded.Offset, recorded.Level)
		}
		if scheduled := s.ns.catalog.ScheduledUpTo(); scheduled != handed {
			handed = scheduled
			o.setSchedules(s.ns.catalog.Catalog)
		}
		if upTo := s.ns.catalog.LimitedUpTo(); upTo != limited {
			limited = upTo
			o.setLimits(s.ns.catalog.Catalog)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-moved:
		}
	}
}
