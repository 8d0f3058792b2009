package verify_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/stretchr/testify/require"
)

// No one can detect these changes from the log alone, so without more evidence the verdict is "proved". If a stored
// state shows the change, the verdict is "refuted".
func TestSomeDamageNeedsMoreThanTheLog(t *testing.T) {
	base := recording(t)
	// The node may have stopped before it committed its last facts, so the test also uses a store that holds all facts.
	whole := base.verify(t).Partitions[0]
	store := verify.Stored{Where: "another node", Partition: whole.Partition, Offset: whole.End, Hash: whole.Hash}
	for name, tt := range map[string]struct {
		do func(h *harmed)
		// state says that the stored and recorded hashes show the change.
		state bool
	}{
		"the end of the log is cut off, without traces elsewhere": {func(h *harmed) {
			list := h.topics[topicEvents][0]
			h.topics[topicEvents][0] = list[:len(list)-1]
		}, true},
		"the text of a reason is changed": {func(h *harmed) {
			f := h.fact(events.NameTaskParked, "park-")
			f.alter("reason", "something else")
		}, true},
		"a late claim is added": {func(h *harmed) {
			h.append(topicEvents, 0, claim("late", "long-ago", "somebody"))
		}, false},
		"a call without an effect is missing in a ledger": {func(h *harmed) {
			i := slices.IndexFunc(h.calls, func(c verify.Call) bool { return c.Outcome == "refused" })
			h.calls = slices.Delete(h.calls, i, i+1)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := harm(t, base, 3)
			h.blind()
			tt.do(h)
			r := h.verify(t)
			require.Equal(t, verify.Proved, r.Verdict, "%v", r.Findings)
			h = harm(t, base, 3)
			h.stored = append(slices.Clone(h.stored), store)
			tt.do(h)
			r = h.verify(t)
			require.Equal(t, tt.state, r.Verdict == verify.Refuted, "%v", r.Findings)
		})
	}
}

// shorten deletes the first records of each partition of a topic, but never the last.
func (h *harmed) shorten(topic string, most int) {
	for p, list := range h.topics[topic] {
		h.topics[topic][p] = list[min(most, max(len(list)-1, 0)):]
	}
}

// Records that nobody needed any more are gone: what is proved is said of the rest. What facts say of acknowledged submissions counts.
func TestATrimmedTopicIsProvedWithoutWhatIsTrimmed(t *testing.T) {
	base := recording(t)
	for topic, says := range map[string]string{
		topicSubs:                 "the records before offset 2 are trimmed",
		"sagalog.reports":         "the records before offset 2 are trimmed",
		"dlq.sagalog.submissions": "are gone",
		"sagalog.work.stock":      "the records before offset",
	} {
		t.Run(topic, func(t *testing.T) {
			h := harm(t, base, 1)
			h.shorten(topic, 2)
			r := h.verify(t, func(c *verify.Config) { c.Ledgers = nil })
			require.Empty(t, r.Findings)
			require.Equal(t, verify.Proved, r.Verdict, "%+v", r.Checks)
			var trimmed []string
			for _, c := range r.Checks {
				trimmed = append(trimmed, c.Trimmed...)
			}
			require.Contains(t, strings.Join(trimmed, "\n"), topic+"/")
			require.Contains(t, strings.Join(trimmed, "\n"), says)
		})
	}
}

func TestALogThatIsCutIsNotProved(t *testing.T) {
	base := recording(t)
	h := harm(t, base, 1)
	h.shorten(topicEvents, 2)
	r := h.verify(t, func(c *verify.Config) { c.Acknowledged, c.Ledgers = nil, nil })
	require.Empty(t, r.Findings)
	require.Equal(t, verify.Incomplete, r.Verdict)
	var unable []string
	for _, c := range r.Checks {
		unable = append(unable, c.Unable...)
	}
	require.Contains(t, strings.Join(unable, "\n"), topicEvents+"/")
	require.Contains(t, strings.Join(unable, "\n"), "the facts before it are gone")
}

func TestAnIncompleteNamespaceIsNotProved(t *testing.T) {
	base := recording(t)
	h := harm(t, base, 1)
	h.topics[topicEvents] = h.topics[topicEvents][:1]
	_, err := verify.Run(t.Context(), verify.Config{Log: &h.memory, Topics: topicsOf("sagalog")})
	require.ErrorIs(t, err, verify.ErrNothing)
	require.ErrorContains(t, err, "sagalog.events has 1 partitions, but the namespace was created with 2")
}

func TestOnePartitionAndOneTask(t *testing.T) {
	base := recording(t)
	one := int32(1)
	r := base.verify(t, func(c *verify.Config) { c.Partition = &one })
	require.Equal(t, verify.Proved, r.Verdict, "%v", r.Findings)
	require.Len(t, r.Partitions, 1)
	for _, task := range []string{"park-1", "late-2", "early-1"} {
		r = base.verify(t, func(c *verify.Config) { c.Task = task })
		require.Equal(t, verify.Proved, r.Verdict, "%v", r.Findings)
		require.Contains(t, r.Explained[0]+r.Explained[1], task)
		require.Greater(t, len(r.Explained), 3)
	}
	require.Contains(t, base.verify(t, func(c *verify.Config) { c.Task = "nobody" }).Explained[0], "has no such task")
}
