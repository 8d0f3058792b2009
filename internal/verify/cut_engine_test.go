package verify_test

import (
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/stretchr/testify/require"
)

var allCuts = flag.Bool("verify.cuts", false, "try every carry and every corruption of a log that is cut, and not only some")

// span is a carry: the offsets of its first and last fact.
type span struct {
	part       int
	begin, end int64
}

var (
	onceCarried sync.Once
	withCarries *recorded
)

// carriedRecording is a run with a carry each second.
func carriedRecording(t *testing.T) *recorded {
	t.Helper()
	onceCarried.Do(func() { withCarries = play(t, events.Duration(4*time.Second)) })
	require.NotNil(t, withCarries, "the recording failed")
	return withCarries
}

// carried returns the complete carries of the recording.
func (w *recorded) carried() (list []span) {
	for p, records := range w.topics[topicEvents] {
		begun := int64(-1)
		for i := range records {
			switch nameOf(records[i]) {
			case events.NameCarryBegun:
				begun = records[i].Offset
			case events.NameCarryEnded:
				list = append(list, span{p, begun, records[i].Offset})
			}
		}
	}
	return list
}

// TestTheLogOfTheEngineIsProvedFromEachCarryOn cuts the log of the engine, with its stores, ledgers, work requests and acknowledged submissions.
func TestTheLogOfTheEngineIsProvedFromEachCarryOn(t *testing.T) {
	base := carriedRecording(t)
	carries := base.carried()
	require.NotEmpty(t, carries)
	for i, c := range carries {
		if !*allCuts && i%3 > 0 {
			continue
		}
		cut := *base
		cut.memory = *base.memory.cut(int32(c.part), c.begin, false)
		r := cut.verify(t)
		require.Empty(t, r.Findings, "%+v", c)
		require.Equal(t, verify.Proved, r.Verdict, "%+v: %+v", c, r.Checks)
	}
	t.Logf("%d carries", len(carries))
}

// TestSeededCorruptionsOfACutLogAreRefuted makes the same corruptions in a log that is cut at a carry before them.
func TestSeededCorruptionsOfACutLogAreRefuted(t *testing.T) {
	base := carriedRecording(t)
	all := slices.Concat(logCorruptions, taskCorruptions, undoCorruptions, waitCorruptions, permitCorruptions, limitCorruptions, rerunCorruptions, fanOutCorruptions, inputCorruptions, effectCorruptions, ledgerCorruptions)
	hits, stopped, missed := 0, 0, []string{}
	for i, c := range all {
		if !*allCuts && i%8 > 0 {
			continue
		}
		h := harm(t, base, 1)
		if !c.seen {
			h.blind()
		}
		want := c.do(h)
		before, at := h.before(base)
		if !before {
			continue // no carry ended before it
		}
		h.memory = *h.memory.cut(int32(at.part), at.begin, false)
		r := h.verify(t)
		said := slices.Concat(r.Findings, r.Warnings) // whether an epoch before the cut was claimed cannot be known
		if slices.ContainsFunc(said, func(f verify.Finding) bool { return f.Check == c.check && f.Kind == c.kind && names(f, want) }) {
			hits++
			continue
		}
		// A forged claim makes the next carry refuse, and where the fold stops, nothing is said of the requests behind it.
		if c.kind == "phantom_work" && r.Verdict == verify.Refuted && slices.ContainsFunc(r.Findings, func(f verify.Finding) bool { return f.Check == "fold" && f.Kind == "refused" }) {
			stopped++
			continue
		}
		shown := fmt.Sprintf(" cut %+v", at)
		for _, f := range r.Findings {
			shown += "\n  " + f.Kind + ": " + f.String()
		}
		missed = append(missed, c.check+"/"+c.kind+"/"+c.name+" "+want+shown)
	}
	t.Logf("%d of %d corruptions are behind a carry; the fold stopped at %d others", hits, len(all), stopped)
	require.Empty(t, missed)
	require.Greater(t, hits, 2*stopped)
}

// before returns the latest carry that ended before the first record of events that was changed, in its partition.
func (h *harmed) before(base *recorded) (ok bool, at span) {
	plain := harm(h.t, base, 1)
	plain.blind()
	for p := range h.topics[topicEvents] {
		changed := int64(-1)
		for i, r := range h.topics[topicEvents][p] {
			if i >= len(plain.topics[topicEvents][p]) {
				break
			}
			if w := plain.topics[topicEvents][p][i]; string(w.Value) != string(r.Value) || !slices.EqualFunc(w.Headers, r.Headers, func(a, b events.Header) bool { return a.Key == b.Key && string(a.Value) == string(b.Value) }) {
				changed = r.Offset
				break
			}
		}
		for _, c := range base.carried() {
			if c.part == p && changed >= 0 && c.end < changed && (!ok || c.begin > at.begin) {
				ok, at = true, c
			}
		}
	}
	return ok, at
}
