package supervisor_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

// reads is an instance of alpha that reads the given partitions of its work topic.
func reads(name string, capacity int, partitions ...int32) supervisor.Target {
	return supervisor.Target{Instance: name, Partitions: partitions, Capacity: capacity, Do: true, Undo: true}
}

// offers is what the instances of alpha offer.
func offers(window int, targets ...supervisor.Target) map[string]supervisor.Offer {
	return map[string]supervisor.Offer{"alpha": {Window: window, Do: true, Undo: true, Targets: targets}}
}

func full(t supervisor.Target) supervisor.Target  { t.Full = true; return t }
func probe(t supervisor.Target) supervisor.Target { t.Probe = true; return t }

// undoes is an older build of the agent that does not offer the do of the step.
func undoes(t supervisor.Target) supervisor.Target { t.Do = false; return t }

// sick has an open breaker.
func sick(t supervisor.Target) supervisor.Target { t.Capacity = 0; return t }

// TestWorkGoesToInstancesThatCanTakeIt starts eight attempts in partition 0 of four.
func TestWorkGoesToInstancesThatCanTakeIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		targets []supervisor.Target
		want    map[int32]int
	}{
		"nobody publishes":                           {nil, map[int32]int{0: 8}},
		"one reads all partitions":                   {[]supervisor.Target{reads("a", 8, 0, 1, 2, 3)}, map[int32]int{0: 8}},
		"one that does not read the home":            {[]supervisor.Target{reads("b", 8, 1, 3)}, map[int32]int{1: 8}},
		"two, and the one at home has room":          {[]supervisor.Target{reads("a", 32, 0, 2), reads("b", 32, 1, 3)}, map[int32]int{0: 8}},
		"two share by capacity":                      {[]supervisor.Target{reads("a", 16, 0, 2), reads("b", 16, 1, 3)}, map[int32]int{0: 4, 1: 4}},
		"a small one gets less":                      {[]supervisor.Target{reads("a", 4, 0, 2), reads("b", 28, 1, 3)}, map[int32]int{0: 1, 1: 7}},
		"nobody has room: by capacity":               {[]supervisor.Target{reads("a", 4, 0, 2), reads("b", 4, 1, 3)}, map[int32]int{0: 4, 1: 4}},
		"a full one gets nothing":                    {[]supervisor.Target{full(reads("a", 32, 0, 2)), reads("b", 32, 1, 3)}, map[int32]int{1: 8}},
		"all are full":                               {[]supervisor.Target{full(reads("a", 4, 0, 2)), full(reads("b", 4, 1, 3))}, map[int32]int{0: 4, 1: 4}},
		"one that probes its service":                {[]supervisor.Target{probe(reads("a", 32, 0, 2)), reads("b", 32, 1, 3)}, map[int32]int{0: 1, 1: 7}},
		"a probe gets work from its partitions only": {[]supervisor.Target{reads("a", 32, 0, 2), probe(reads("b", 32, 1, 3))}, map[int32]int{0: 8}},
		"all probe their services":                   {[]supervisor.Target{probe(reads("a", 4, 0, 2)), probe(reads("b", 4, 1, 3))}, map[int32]int{0: 4, 1: 4}},
		"one does not offer the operation":           {[]supervisor.Target{undoes(reads("a", 32, 0, 2)), reads("b", 4, 1, 3)}, map[int32]int{1: 8}},
		"the only one that offers it is sick":        {[]supervisor.Target{undoes(reads("a", 32, 0, 2)), sick(reads("b", 4, 1, 3))}, map[int32]int{1: 8}},
		"a sick one gets nothing":                    {[]supervisor.Target{sick(reads("a", 32, 0, 2)), reads("b", 4, 1, 3)}, map[int32]int{1: 8}},
		"a probe comes before a sick one":            {[]supervisor.Target{sick(reads("a", 32, 0, 2)), probe(reads("b", 1, 1, 3))}, map[int32]int{1: 8}},
		"three":                                      {[]supervisor.Target{reads("a", 8, 0), reads("b", 16, 1, 3), reads("c", 8, 2)}, map[int32]int{0: 2, 1: 4, 2: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, oneStep)
			b.partitions = 4
			a := b.candidate("A").own()
			a.o.SetOffers(b.now, offers(64, c.targets...))
			for _, id := range home(4, 8) {
				b.submit(id, "one", "")
			}
			a.run()
			require.Equal(t, c.want, spread(a, 0))
		})
	}
}

// home returns IDs of tasks whose home is partition 0 of the given number of partitions.
func home(partitions int32, n int) (ids []string) {
	for i := 0; len(ids) < n; i++ {
		if id := fmt.Sprintf("t%05d", i); events.Home(id, partitions) == 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// spread counts the work requests sent to each partition, from the given request on.
func spread(c *candidate, from int) map[int32]int {
	n := map[int32]int{}
	for _, s := range c.sent[from:] {
		if s.Kind == events.EffectWork {
			n[s.Record.Partition]++
		}
	}
	return n
}

// TestASlowInstanceGetsWhatItCanDo has two instances. One answers immediately, the other not at all.
func TestASlowInstanceGetsWhatItCanDo(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	b.partitions = 4
	a := b.candidate("A").own()
	a.o.SetOffers(b.now, offers(8, reads("slow", 16, 0, 2), reads("quick", 16, 1, 3)))
	for _, id := range home(4, 400) {
		b.submit(id, "one", "")
	}
	a.run()
	for from := 0; from < len(a.sent); {
		answered := a.sent[from:]
		from = len(a.sent)
		for _, s := range answered {
			if w, _, err := events.DecodeWork(&s.Record); err == nil && s.Record.Partition == 1 {
				b.done(w.Task, w.Step, w.Attempt)
			}
		}
		a.run()
	}
	require.Equal(t, map[int32]int{0: 4, 1: 396}, spread(a, 0))
}

// TestARepeatedRequestSaysTheSameWhereverItGoes takes over after the request's instance has gone.
func TestARepeatedRequestSaysTheSameWhereverItGoes(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	b.partitions = 4
	a := b.candidate("A").own()
	id := home(4, 1)[0]
	b.submit(id, "one", "")
	a.run()
	c := b.candidate("C")
	c.o.SetOffers(b.now, offers(64, reads("b", 8, 1)))
	c.own()
	c.pass(100 * time.Millisecond)
	first, again := a.sentTo("work.alpha"), c.sentTo("work.alpha")
	require.Len(t, first, 1)
	require.Len(t, again, 1)
	require.EqualValues(t, 0, first[0].Partition)
	require.EqualValues(t, 1, again[0].Partition)
	again[0].Partition = 0
	for i, h := range again[0].Headers {
		if h.Key == events.HeaderSource { // the node that sends it
			again[0].Headers[i] = first[0].Headers[i]
		}
	}
	require.Equal(t, first[0], again[0])
	// Two instances may have the request. If one reports no effect, the other may still have had one.
	b.failed(id, "only", 1, events.ClassPermanent, events.EffectNone)
	c.run()
	require.Equal(t, events.EffectInDoubt, last[*events.StepFailed](b).Effect)
}

// TestAReturningInstanceIsCountedFromZero: attempts are counted by the instance's name, and a new epoch begins at zero.
func TestAReturningInstanceIsCountedFromZero(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	b.partitions = 4
	a := b.candidate("A").own()
	ids := home(4, 24)
	both := offers(64, reads("a", 16, 0, 2), reads("b", 16, 1, 3))
	a.o.SetOffers(b.now, both)
	for _, id := range ids[:4] {
		b.submit(id, "one", "")
	}
	a.run()
	require.Equal(t, map[int32]int{0: 4}, spread(a, 0))
	a.o.SetOffers(b.now, both) // no change: a has four
	b.submit(ids[4], "one", "")
	a.run()
	require.Equal(t, map[int32]int{1: 1}, spread(a, 4))
	a.o.SetOffers(b.now, offers(64, reads("b", 16, 0, 1, 2, 3)))
	for _, id := range ids[5:9] {
		b.submit(id, "one", "")
	}
	a.run()
	require.Equal(t, map[int32]int{0: 4}, spread(a, 5))
	a.o.SetOffers(b.now, both) // it returns under another name
	for _, id := range ids[9:13] {
		b.submit(id, "one", "")
	}
	a.run()
	require.Equal(t, map[int32]int{0: 4}, spread(a, 9))
	for _, id := range ids[:13] {
		b.done(id, "only", 1)
	}
	a.run()
	for _, id := range ids[13:21] {
		b.submit(id, "one", "")
	}
	a.run()
	require.Equal(t, map[int32]int{0: 4, 1: 4}, spread(a, 13))
}
