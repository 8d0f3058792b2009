package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/scheduler"
)

// tooOld says why this build may own nothing: the namespace has a level that it does not understand. Otherwise it is nil.
func (s *namespace) tooOld() error {
	if level := s.catalog.Settings().Level; level > s.maxLevel {
		return fmt.Errorf("namespace %s: %w", s.name, events.TooOld(level, s.maxLevel))
	}
	return nil
}

// levels returns the live nodes, by name, with the highest level that each understands.
func (l *liveness) levels() (list []api.NodeLevel) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.seen {
		if b.Kind == events.PresenceNode && b.SeenAt != 0 && time.Since(b.at) <= silentAfter { // a goodbye has no time
			list = append(list, api.NodeLevel{Node: b.Instance, Level: max(b.Level, events.FirstLevel)})
		}
	}
	slices.SortFunc(list, func(a, b api.NodeLevel) int { return strings.Compare(a.Node, b.Node) })
	return list
}

// hears says whether every live node must have been heard by now: this node has listened for as long as a node may be silent.
func (l *liveness) hears() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.since.IsZero() && time.Since(l.since) > silentAfter && time.Since(l.seen[l.selfKey()].at) <= ownHeartbeatWithin
}

// Upgrade implements api.Settings.
func (s *settings) Upgrade(ctx context.Context, to int, by string) (now api.NamespaceSettings, changed bool, err error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	if err := s.ns.catalog.upToNow(ctx); err != nil {
		return now, false, noAnswer(err)
	}
	if !s.liveness.hears() {
		return now, false, fmt.Errorf("%w: this node has not heard the others for long enough", api.ErrNoAnswer)
	}
	now = s.known()
	lowest := api.NodeLevel{Node: s.liveness.self, Level: s.ns.maxLevel}
	for _, n := range now.Nodes {
		if n.Level < lowest.Level {
			lowest = n
		}
	}
	switch {
	case to > lowest.Level:
		return now, false, &api.UpgradeRefusedError{To: to, By: lowest}
	case to == 0:
		to = lowest.Level
	}
	if to <= now.Level {
		return now, false, nil
	}
	if err := s.write(ctx, events.SettingsChange{Settings: map[string]json.RawMessage{}, By: by, Level: to}); err != nil {
		return now, false, noAnswer(err)
	}
	return s.known(), true, nil
}

// permitted returns the fault of a definition that needs more than the level of the namespace.
func (d *definitions) permitted(src *scheduler.Source) []api.Fault {
	level := d.ns.catalog.Settings().Level
	if src.Level <= level {
		return nil
	}
	return []api.Fault{{Pointer: pointer(src.NeedsLevel), Message: fmt.Sprintf("needs level %d; the namespace has level %d: run `sagalog namespace upgrade`", src.Level, level)}}
}
