package agent

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sagalog/sagalog/events"
)

// The ID of a report is what the generic codec makes of it.
func TestTheIDOfAReportIsItsTaskAndJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]{0,20}`), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
		w := events.Work{
			Task: text.Draw(t, "task"), Run: rapid.Int().Draw(t, "run"), Step: text.Draw(t, "step"),
			Operation: events.Operation(text.Draw(t, "operation")), Attempt: rapid.Int().Draw(t, "attempt"),
		}
		instance := text.Draw(t, "instance")
		rest, err := events.Marshal([]any{w.Run, w.Step, w.Operation, w.Attempt, instance})
		require.NoError(t, err)
		require.Equal(t, w.Task+string(rest), newReporter(&Config{Instance: instance}, "a").id(&w))
	})
}

// The variable task of a binding is what the generic codec makes of it.
func TestTheTaskOfABindingIsJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := events.Work{
			Task: rapid.String().Draw(t, "task"), Run: rapid.Int().Draw(t, "run"),
			Workflow: rapid.String().Draw(t, "workflow"), Version: rapid.Int().Draw(t, "version"),
		}
		want, err := events.Marshal(struct {
			ID       string `json:"id"`
			Run      int    `json:"run"`
			Workflow string `json:"workflow"`
			Version  int    `json:"version"`
		}{w.Task, w.Run, w.Workflow, w.Version})
		require.NoError(t, err)
		require.Equal(t, string(want), string(taskOf(&w)))
	})
}

func TestATraceContextIsKeptOrMade(t *testing.T) {
	t.Parallel()
	shape := regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)
	good := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	require.Equal(t, good, traceparentOr(good))
	require.Regexp(t, `^00-[0-9a-f]{32}-[0-9a-f]{16}-01$`, traceparentOr(""))
	require.NotEqual(t, traceparentOr(""), traceparentOr(""))
	rapid.Check(t, func(t *rapid.T) {
		s := []byte(good)
		for range rapid.IntRange(0, 2).Draw(t, "changes") {
			s[rapid.IntRange(0, len(s)-1).Draw(t, "at")] = rapid.SampledFrom([]byte("-0afgFG\n \x00")).Draw(t, "to")
		}
		s = append(s, rapid.SampledFrom([]string{"", "\n", "0", "-"}).Draw(t, "more")...)
		require.Equal(t, shape.Match(s), isTraceparent(string(s)), "%q", s)
	})
}
