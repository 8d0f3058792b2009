package verify_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/stretchr/testify/require"
)

// corruption is one way to damage the engine's recording. do returns the place or the task that the finding must name.
type corruption struct {
	name  string
	check string
	kind  string
	// seen keeps the recorded and stored state hashes, which then reveal the forgery. Otherwise they are removed before
	// the forgery.
	seen bool
	do   func(h *harmed) string
}

// seedsOfEach is how often each corruption is made, each time in another place if there are several.
const seedsOfEach = 4

// TestSeededCorruptionsAreRefuted shows that each check can fail: the right check fails, and its finding names the
// place.
func TestSeededCorruptionsAreRefuted(t *testing.T) {
	base := recording(t)
	t.Run("none", func(t *testing.T) {
		h := harm(t, base, 1)
		require.Equal(t, verify.Proved, h.verify(t).Verdict)
		h.blind()
		r := h.verify(t)
		require.Empty(t, r.Findings, "removing the hashes alone must not be a finding")
	})
	for _, c := range slices.Concat(logCorruptions, taskCorruptions, undoCorruptions, waitCorruptions, permitCorruptions, limitCorruptions, rerunCorruptions, fanOutCorruptions, inputCorruptions, effectCorruptions, ledgerCorruptions) {
		t.Run(c.check+"/"+c.kind+"/"+c.name, func(t *testing.T) {
			for seed := range uint64(seedsOfEach) {
				h := harm(t, base, seed+1)
				if !c.seen {
					h.blind()
				}
				want := c.do(h)
				r := h.verify(t)
				require.Equal(t, verify.Refuted, r.Verdict, "seed %d", seed)
				var shown []string
				named := false
				for _, f := range r.Findings {
					shown = append(shown, f.Kind+": "+f.String())
					named = named || f.Check == c.check && f.Kind == c.kind && names(f, want)
				}
				require.True(t, named, "seed %d: nothing of the check %s names %s:\n%s", seed, c.check, want, fmt.Sprint(shown))
			}
		})
	}
}

func names(f verify.Finding, want string) bool {
	return f.Place.String() == want || f.Task == want || f.Task+"/"+f.Step == want
}

var logCorruptions = []corruption{
	{"a recorded hash is wrong", verify.CheckFold, "refused", true, func(h *harmed) string {
		f := h.fact(events.NameStateHash, "")
		f.alter("hash", "00000000000000000000000000000000")
		return f.place()
	}},
	{"an output is changed, and the next recorded hash shows it", verify.CheckFold, "refused", true, func(h *harmed) string {
		last := h.all(topicEvents, func(f found) bool { return nameOf(*f.Record) == events.NameStateHash && f.part == 0 })
		f := h.fact(events.NameStepCompleted, "", func(f found) bool {
			return f.part == 0 && f.index < last[len(last)-1].index
		})
		f.alter("output", map[string]any{"id": "another"})
		next := slices.IndexFunc(last, func(x found) bool { return x.index > f.index })
		return last[next].place()
	}},
	{"a store's hash is wrong", verify.CheckFold, "stored", true, func(h *harmed) string {
		i := h.rng.IntN(len(h.stored))
		h.stored[i].Hash.Lo++
		return fmt.Sprintf("%s/%d@%d", topicEvents, h.stored[i].Partition, h.stored[i].Offset)
	}},
	{"a store's rows are wrong", verify.CheckFold, "rows", true, func(h *harmed) string {
		i := h.rng.IntN(len(h.stored))
		h.stored[i].Rows = &h.altered[i]
		return fmt.Sprintf("%s/%d@%d", topicEvents, h.stored[i].Partition, h.stored[i].Offset)
	}},
	{"a fact cannot be read", verify.CheckFold, "unreadable", false, func(h *harmed) string {
		f := h.fact(events.NameStepStarted, "")
		f.Value = []byte("{half")
		return f.place()
	}},
	{"a record is missing", verify.CheckOwnership, "hole", false, func(h *harmed) string {
		f := h.fact(events.NameStepCompleted, "")
		h.drop(f)
		return fmt.Sprintf("%s/%d@%d", topicEvents, f.part, f.Offset+1)
	}},
	{"the last record is missing", verify.CheckInputs, "no_input", false, func(h *harmed) string {
		// The topic ends earlier. It looks like a topic that was never written further, but its traces in
		// other topics can.
		f := h.fact(events.NameSubmitted, "")
		list := h.topics[topicSubs][f.part]
		h.topics[topicSubs][f.part] = slices.DeleteFunc(slices.Clone(list), func(r events.Record) bool { return r.Offset >= inputOffset(f) })
		return f.place()
	}},
	{"a claim is missing", verify.CheckOwnership, "writer", false, func(h *harmed) string {
		f := h.one(topicEvents, func(f found) bool { return isClaim(*f.Record) && h.accepted(f) })
		h.close(f)
		return f.place() // at the present place of the first fact of its epoch
	}},
	{"another node wrote a fact", verify.CheckOwnership, "writer", false, func(h *harmed) string {
		f := h.fact(events.NameStepStarted, "")
		set(f.Record, events.HeaderSource, "/sagalog/events/0/somebody")
		return f.place()
	}},
	{"a claim names another node than its writer", verify.CheckOwnership, "writer", false, func(h *harmed) string {
		f := h.one(topicEvents, func(f found) bool { return isClaim(*f.Record) && h.accepted(f) })
		f.alter("owner", "somebody")
		return f.place()
	}},
	{"a fact is repeated with other content", verify.CheckOwnership, "writer", false, func(h *harmed) string {
		f := h.fact(events.NameStepCompleted, "")
		again := h.append(topicEvents, f.part, *f.Record)
		again.Headers = slices.Clone(again.Headers)
		again.alter("output", map[string]any{"id": "another"})
		return again.place()
	}},
	{"a fact has another name", verify.CheckOwnership, "writer", false, func(h *harmed) string {
		f := h.fact(events.NameStepCompleted, "")
		set(f.Record, events.HeaderID, "0/1-x/77")
		return f.place()
	}},
	{"time goes back", verify.CheckOwnership, "writer", false, func(h *harmed) string {
		f := h.fact(events.NameStepCompleted, "")
		set(f.Record, events.HeaderTime, "2001-01-01T00:00:00.000Z")
		return f.place()
	}},
	{"effects of later facts are acknowledged", verify.CheckOwnership, "writer", false, func(h *harmed) string {
		f := h.fact(events.NameStepCompleted, "")
		set(f.Record, events.HeaderWatermark, positionOf(f.Record).Epoch.String()+fmt.Sprintf("/%d", positionOf(f.Record).Sequence+1))
		return f.place()
	}},
	{"a fact follows from one that does not exist", verify.CheckOwnership, "cause", false, func(h *harmed) string {
		f := h.fact(events.NameStepStarted, "")
		set(f.Record, events.HeaderCause, "f/77-nobody/3")
		return f.place()
	}},
	{"two neighbours are exchanged", verify.CheckEffects, "phantom_work", false, func(h *harmed) string {
		f := h.fact(events.NameStepStarted, "", func(f found) bool { return f.index > 5 && !isClaim(h.topics[topicEvents][f.part][f.index-1]) })
		before := &h.topics[topicEvents][f.part][f.index-1]
		before.Offset, f.Offset = f.Offset, before.Offset
		*before, *f.Record = *f.Record, *before
		return h.workOf(before).place()
	}},
	{"a claim is forged in the middle", verify.CheckEffects, "phantom_work", false, func(h *harmed) string {
		f := h.fact(events.NameStepStarted, "", func(f found) bool { return f.index > 5 })
		work := h.workOf(f.Record)
		current := ""
		for _, r := range h.topics[topicEvents][f.part][:f.index] {
			if isClaim(r) {
				current = found{Record: &r}.text("id")
			}
		}
		h.insert(f, claim("forged", current, "somebody"))
		return work.place()
	}},
	{"a fact is in another partition", verify.CheckAttempts, "home", false, func(h *harmed) string {
		f := h.fact(events.NameStepStarted, "ok-")
		into := h.fact(events.NameInputsPassed, "", func(x found) bool { return x.part != f.part })
		return h.again(f, into).place()
	}},
}

func claim(id, prev, owner string) events.Record {
	r, err := events.EncodeFact(&events.Fact{Time: 1_800_000_000_000, Body: &events.PartitionClaimed{ID: id, Prev: prev, Owner: owner, Reader: 1}}, 0, "/sagalog/events/0/"+owner)
	if err != nil {
		panic(err)
	}
	return r
}

// inputOffset is the offset of the input that caused a fact.
func inputOffset(f found) int64 {
	_, _, offset, _ := events.Cause(f.Header(events.HeaderCause)).Input()
	return offset
}

// workOf finds the work request of a start.
func (h *harmed) workOf(r *events.Record) found {
	id := r.Header(events.HeaderID)
	for _, topic := range workTopics {
		if list := h.all(topic, func(f found) bool { return f.Header(events.HeaderID) == id }); len(list) > 0 {
			return list[0]
		}
	}
	require.Fail(h.t, "no work request", id)
	return found{}
}

var workTopics = []string{"sagalog.work.stock", "sagalog.work.bank", "sagalog.work.carrier", "sagalog.work.mail"}

// unsend removes the work requests of a start.
func (h *harmed) unsend(r *events.Record) {
	id, n := r.Header(events.HeaderID), 0
	for _, topic := range workTopics {
		n += h.every(topic, func(f found) bool { return f.Header(events.HeaderID) == id }, h.close)
	}
	require.Positive(h.t, n)
}

// labelled picks the acceptance of a submission that says a priority and a label itself.
func (h *harmed) labelled() found {
	return h.fact(events.NameSubmitted, "", func(f found) bool {
		m, _ := h.inputOf(f).body()["labels"].(map[string]any)
		p, _ := h.inputOf(f).body()["priority"].(float64)
		return m["tier"] == "own" && p > 0
	})
}

// inputOf finds the input that caused a fact.
func (h *harmed) inputOf(f found) found {
	in, part, offset, ok := events.Cause(f.Header(events.HeaderCause)).Input()
	require.True(h.t, ok, f.Header(events.HeaderCause))
	return h.one("sagalog."+string(in), func(x found) bool { return x.part == int(part) && x.Offset == offset })
}
