package apitest

import (
	"context"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
)

// Settings implements api.Settings.
func (e *Engine) Settings(context.Context) (api.NamespaceSettings, error) {
	if err := e.asked(); err != nil {
		return api.NamespaceSettings{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.namespaceSettings(), nil
}

// namespaceSettings returns the settings after the changes. mu is held.
func (e *Engine) namespaceSettings() api.NamespaceSettings {
	now := api.NamespaceSettings{Settings: events.DefaultSettings(), Offset: int64(len(e.changes)), Set: map[string]api.SettingRecord{}}
	now.Level, now.Nodes = events.FirstLevel, []api.NodeLevel{{Node: "node-a", Level: 3}, {Node: "node-b", Level: 2}}
	for i, change := range e.changes {
		if change.Level > now.Level {
			now.Level, now.LevelSet = change.Level, api.SettingRecord{Offset: int64(i + 1), At: 1_795_269_600_000, By: change.By}
		}
		for _, x := range events.SettingList() {
			if value, named := change.Settings[x.Name]; named && x.Set(&now.Settings, value) == nil {
				now.Set[x.Name] = api.SettingRecord{Offset: int64(i + 1), At: 1_795_269_600_000, By: change.By}
			}
		}
	}
	return now
}

// ChangeSettings implements api.Settings.
func (e *Engine) ChangeSettings(_ context.Context, change events.SettingsChange) (api.NamespaceSettings, bool, error) {
	if err := e.asked(); err != nil {
		return api.NamespaceSettings{}, false, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	was := e.namespaceSettings()
	e.changes = append(e.changes, change)
	now := e.namespaceSettings()
	if changed := now.Settings != was.Settings || len(now.Set) > len(was.Set); changed {
		return now, true, nil
	}
	e.changes = e.changes[:len(e.changes)-1]
	return was, false, nil
}

// Upgrade implements api.Settings, with a node that understands level 2.
func (e *Engine) Upgrade(_ context.Context, to int, by string) (api.NamespaceSettings, bool, error) {
	if err := e.asked(); err != nil {
		return api.NamespaceSettings{}, false, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	was := e.namespaceSettings()
	switch least := was.Nodes[1]; {
	case to > least.Level:
		return was, false, &api.UpgradeRefusedError{To: to, By: least}
	case to == 0:
		to = least.Level
	}
	if to <= was.Level {
		return was, false, nil
	}
	e.changes = append(e.changes, events.SettingsChange{Level: to, By: by})
	return e.namespaceSettings(), true, nil
}
