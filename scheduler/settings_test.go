package scheduler_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/stretchr/testify/require"
)

func settingsRecord(t *testing.T, offset int64, text string) *events.Record {
	t.Helper()
	var change events.SettingsChange
	require.NoError(t, json.Unmarshal([]byte(text), &change))
	r, err := scheduler.EncodeSettings(change, events.Subject{ID: "1", Source: "/test", Time: events.Instant(offset * 1000)})
	require.NoError(t, err)
	require.Equal(t, "settings", string(r.Key))
	r.Offset = offset
	return &r
}

// Each record changes the settings that it names; the number of the settings is the offset of the last one that set something.
func TestTheCatalogKnowsTheSettingsOfTheNamespace(t *testing.T) {
	t.Parallel()
	c := scheduler.NewCatalog(nil)
	require.Equal(t, scheduler.Recorded{Settings: events.DefaultSettings(), Level: events.FirstLevel}, c.Settings())

	require.NoError(t, c.Apply(settingsRecord(t, 3, `{"settings":{"remember_for":"48h"},"initial":true}`)))
	require.NoError(t, c.Apply(settingsRecord(t, 4, `{"settings":{"remember_for":"24h","task_facts":20},"initial":true}`)), "set already, except task_facts")
	require.NoError(t, c.Apply(settingsRecord(t, 5, `{"settings":{"remember_for":"1h"},"initial":true}`)), "changes nothing")
	require.NoError(t, c.Apply(settingsRecord(t, 6, `{"settings":{"grace":"3s"},"by":"anna"}`)))
	require.NoError(t, c.Apply(definitionRecord(t, head+"  a: {agent: a}", 1000)), "keeps the settings")

	want := events.DefaultSettings()
	want.RememberFor, want.TaskFacts, want.Grace = events.Duration(48*time.Hour), 20, events.Duration(3*time.Second)
	require.Equal(t, scheduler.Recorded{Settings: want, Level: events.FirstLevel, Offset: 6, Set: map[string]scheduler.SettingRecord{
		"remember_for": {Offset: 3, At: 3000}, "task_facts": {Offset: 4, At: 4000}, "grace": {Offset: 6, At: 6000, By: "anna"},
	}}, c.Settings())
	_, ok := c.Current("w")
	require.True(t, ok)
}

// A record that cannot be used changes nothing. A setting of a later version is left out.
func TestARecordOfSettingsThatCannotBeUsedChangesNothing(t *testing.T) {
	t.Parallel()
	c := scheduler.NewCatalog(nil)
	for text, want := range map[string]string{
		`{"settings":{"grace":"3s","remember_for":"1ms"}}`: "definitions, offset 7: remember_for 1ms is not possible",
		`{"settings":{"task_facts":"20"}}`:                 "task_facts 20 is not possible",
	} {
		require.ErrorContains(t, c.Apply(settingsRecord(t, 7, text)), want)
		require.Equal(t, scheduler.Recorded{Settings: events.DefaultSettings(), Level: events.FirstLevel}, c.Settings())
	}
	require.ErrorContains(t, c.Apply(settingsRecord(t, 8, `{"settings":{"grace":"3s","later":1}}`)), `"later" is not a setting`)
	require.EqualValues(t, 8, c.Settings().Offset)
	require.Equal(t, "3s", c.Settings().Settings.Grace.String())
}

// A record raises the level of the namespace and never lowers it. It does not change the number of the settings.
func TestTheLevelOfTheNamespaceNeverFalls(t *testing.T) {
	t.Parallel()
	c := scheduler.NewCatalog(nil)
	created, err := scheduler.EncodeNamespace(scheduler.Namespace{ID: "n", Partitions: 1, Format: 2}, events.Subject{ID: "n", Source: "/test"})
	require.NoError(t, err)
	require.NoError(t, c.Apply(&created))
	require.Equal(t, 2, c.Settings().Level, "made by a newer build")
	require.NoError(t, c.Apply(settingsRecord(t, 3, `{"settings":{"grace":"3s"}}`)))
	require.NoError(t, c.Apply(settingsRecord(t, 4, `{"settings":{},"level":3,"by":"anna"}`)))
	require.NoError(t, c.Apply(settingsRecord(t, 5, `{"settings":{},"level":2}`)))
	got := c.Settings()
	require.Equal(t, 3, got.Level)
	require.Equal(t, scheduler.SettingRecord{Offset: 4, At: 4000, By: "anna"}, got.LevelSet)
	require.EqualValues(t, 3, got.Offset)
}

// The record of a definition names the level that it needs.
func TestARecordNamesTheLevelOfItsDefinition(t *testing.T) {
	t.Parallel()
	src, faults := scheduler.Parse("w.yaml", []byte(head+"  a: {agent: a}"), nil)
	require.Empty(t, faults)
	require.Equal(t, events.FirstLevel, src.Level)
	src.Level = 2
	r, err := scheduler.EncodeDefinition(src, events.Subject{ID: "1", Source: "/test", Time: 1000}, "")
	require.NoError(t, err)
	c := scheduler.NewCatalog(nil)
	require.NoError(t, c.Apply(&r))
	v, _ := c.Current("w")
	require.Equal(t, 2, v.Level)
	r.Headers = append(r.Headers, events.Header{Key: events.HeaderLevel, Value: []byte("x")})
	require.ErrorContains(t, c.Apply(&r), "is not a level")
}
