package scheduler_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

// A definition needs the highest level of its keys. A key counts at its place in the language only, and not in a user's values.
func TestTheLevelOfADefinition(t *testing.T) {
	t.Parallel()
	levels := scheduler.Levels{"steps.*.undo": 2, "description": 3, "steps.*.retry.then": 2, "steps.*.with.undo": 1}
	for body, want := range map[string]struct {
		level int
		key   string
	}{
		`{"workflow":"w","steps":{"a":{"agent":"x"}}}`:                                                          {1, ""},
		`{"workflow":"w","steps":{"a":{"agent":"x"},"b":{"agent":"y","undo":{}}}}`:                              {2, "steps.b.undo"},
		`{"workflow":"w","description":"d","steps":{"b":{"agent":"y","undo":{}}}}`:                              {3, "description"},
		`{"workflow":"w","steps":{"undo":{"agent":"x","with":{"undo":1}}},"output":{"steps":{"a":{"undo":1}}}}`: {1, ""},
		`{"workflow":"w","steps":{"a":{"agent":"x","retry":{"then":"undo"}}}}`:                                  {2, "steps.a.retry.then"},
		`not JSON`: {1, ""},
	} {
		level, key := levels.Of([]byte(body))
		require.Equal(t, want.level, level, body)
		require.Equal(t, want.key, key, body)
	}
	for path, level := range scheduler.KeyLevels() {
		require.LessOrEqual(t, level, events.FormatVersion, "%s: this build does not understand its own key", path)
	}
}
