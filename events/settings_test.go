package events_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// Each member of Settings can be shown and set, and its default is within its range.
func TestEachSettingCanBeSet(t *testing.T) {
	t.Parallel()
	list := events.SettingList()
	fields := reflect.TypeFor[events.Settings]()
	require.Len(t, list, fields.NumField())
	var s events.Settings
	for i, x := range list {
		name, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
		require.Equal(t, name, x.Name)
		require.NoError(t, x.Set(&s, x.Value(events.DefaultSettings())))
		require.Equal(t, x.Text(events.DefaultSettings()), x.Text(s))
	}
	require.Equal(t, events.DefaultSettings(), s)
	require.NoError(t, s.Check())
	s.RememberFor = events.Duration(time.Millisecond)
	require.ErrorContains(t, s.Check(), "remember_for 1ms is not possible: give a duration from 1s to 87600h, such as 168h")
}

// A refusal names the setting, the value and what is allowed.
func TestASettingOutOfRangeIsRefused(t *testing.T) {
	t.Parallel()
	for name, values := range map[string][]string{
		"remember_for":  {`48`, `"48"`, `"999ms"`, `"87601h"`, `"-1h"`, `null`, `""`, `{}`},
		"payload_bytes": {`0`, `524289`, `"262144"`, `1.5`, `null`, `1e99`},
	} {
		x, err := events.SettingOf(name)
		require.NoError(t, err)
		for _, value := range values {
			s := events.DefaultSettings()
			require.ErrorContains(t, x.Set(&s, json.RawMessage(value)), name, value)
			require.Equal(t, events.DefaultSettings(), s, value)
		}
	}
	_, err := events.SettingOf("remember-for")
	require.EqualError(t, err, `"remember-for" is not a setting; did you mean "remember_for"?`)
}

// An owner that has not read the latest settings cannot bring back older ones.
func TestOlderSettingsAreNotAdoptedAfterNewerOnes(t *testing.T) {
	t.Parallel()
	s := events.NewState(0, nil)
	apply := func(n uint64, offset int64) error {
		_, err := s.Apply(&events.Fact{Epoch: events.Epoch{N: 1, ID: "a"}, Sequence: n, Body: &events.SettingsAdopted{Settings: shorter(), Offset: offset}}, s.Next)
		return err
	}
	_, err := s.Apply(&events.Fact{Body: &events.PartitionClaimed{ID: "a"}}, 0)
	require.NoError(t, err)
	require.NoError(t, apply(0, 0))
	require.NoError(t, apply(1, 5))
	require.EqualValues(t, 5, s.Partition.SettingsOffset)
	require.Equal(t, shorter(), s.Partition.Settings)
	require.ErrorIs(t, apply(2, 4), events.ErrImpossible)
}
