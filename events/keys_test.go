package events_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sagalog/sagalog/events"
)

func drawKeys(t *rapid.T) events.Keys {
	text := rapid.SampledFrom([]string{"", "a", "north", "ü/c", "p[0]", "\x00{"})
	instant := rapid.Map(rapid.OneOf(rapid.Just(int64(0)), rapid.Just(int64(testStart)), rapid.Int64Range(-1<<45, 1<<47)),
		func(n int64) events.Instant { return events.Instant(n) })
	k := events.Keys{
		State:    rapid.SampledFrom([]events.TaskState{events.TaskStatePending, events.TaskStateProcessing, events.TaskStateProcessed, events.TaskStateUndoing, events.TaskStateUndone, events.TaskStateError, "new"}).Draw(t, "state"),
		Workflow: text.Draw(t, "workflow"), SubmittedAt: instant.Draw(t, "submitted"), EndedAt: instant.Draw(t, "ended"),
		Due: instant.Draw(t, "due"), Wake: instant.Draw(t, "wake"), Unplanned: rapid.Bool().Draw(t, "unplanned"),
	}
	if labels := rapid.MapOfN(text, text, 0, 4).Draw(t, "labels"); len(labels) > 0 {
		k.Labels = labels
	}
	if k.State.Ended() {
		k.Due, k.Forget = 0, k.Due
	}
	for range rapid.IntRange(0, 3).Draw(t, "ready") {
		k.Ready = append(k.Ready, events.ReadyKey{
			Agent: text.Draw(t, "agent"), Function: rapid.SampledFrom([]string{"", "capture"}).Draw(t, "function"), Path: text.Draw(t, "path"), Operation: rapid.SampledFrom([]events.Operation{events.Do, events.Undo, ""}).Draw(t, "op"),
			Since: instant.Draw(t, "since"), Priority: rapid.IntRange(-events.MaxPriority, events.MaxPriority).Draw(t, "priority"),
		})
	}
	for range rapid.IntRange(0, 3).Draw(t, "waits") {
		kinds := append(events.Waitings(), "", "new")
		k.Waits = append(k.Waits, events.WaitCount{Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), N: rapid.IntRange(0, 10_000).Draw(t, "n")})
	}
	return k
}

func TestKeysAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := drawKeys(t)
		b := events.AppendKeys([]byte("before"), &k)
		require.Equal(t, "before", string(b[:6]))
		got, err := events.DecodeKeys(b[6:])
		require.NoError(t, err)
		require.Equal(t, k, *got)
		for n := range b[6:] { // truncated keys are an error
			_, err := events.DecodeKeys(b[6 : 6+n])
			require.Error(t, err)
		}
		_, err = events.DecodeKeys(append(b[6:], 0))
		require.Error(t, err, "trailing bytes are an error")
	})
}

// These bytes are on users' disks: a change would break their stores.
func TestKeysKeepTheirBytes(t *testing.T) {
	t.Parallel()
	k := events.Keys{State: events.TaskStateProcessing, Workflow: "w", SubmittedAt: 1000, EndedAt: 1001, Labels: map[string]string{"b": "2", "a": "1"},
		Due: 1002, Wake: 1003, Unplanned: true, Ready: []events.ReadyKey{{Agent: "g", Path: "p", Operation: events.Undo, Since: 1000, Priority: -1}},
		Waits: []events.WaitCount{{Kind: events.WaitingAgent, N: 3}, {Kind: events.WaitingOperator, N: 1}}}
	require.Equal(t, "\x01\x02\x01w\xd0\x0f\x7f\x02\x02\x01a\x011\x01b\x012\x04\x06\x01\x01g\x01p\x08\x00\x01\x02\x0a\x03\x16\x01", string(events.AppendKeys(nil, &k)))
	k.Ready[0].Function = "f"
	require.Equal(t, "\x01\x02\x01w\xd0\x0f\x7f\x02\x02\x01a\x011\x01b\x012\x04\x06\x01\x01g\x01p\x00\x06undo/f\x00\x01\x02\x0a\x03\x16\x01", string(events.AppendKeys(nil, &k)))
}

func FuzzDecodeKeys(f *testing.F) {
	f.Add([]byte(`{"state":"pending","workflow":"w","submitted_at":"2026-11-21T14:00:00.000Z"}`))
	f.Add([]byte("\x01\x02\x01w\xd0\x0f\x1f\x02\x02\x01a\x011\x01b\x012\x04\x01\x01g\x01p\x08\x00\x01"))
	f.Add([]byte("\x01\x00\x01x\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := events.DecodeKeys(b)
		if err != nil {
			return
		}
		again, err := events.DecodeKeys(events.AppendKeys(nil, k))
		require.NoError(t, err)
		require.Equal(t, k, again)
	})
}
