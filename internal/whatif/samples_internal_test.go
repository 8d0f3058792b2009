package whatif

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/stretchr/testify/require"
)

var bank = events.Call{Agent: "bank", Operation: events.Do}

// bounded returns samples of the only call of a definition, with other bounds than usual.
func bounded(t *testing.T, most, outputs int) *samples {
	t.Helper()
	src, faults := scheduler.Parse("w.yaml", []byte("workflow: w\nsteps:\n  pay: {agent: bank}\n"), nil)
	require.Empty(t, faults)
	p, err := policyOfSource(src)
	require.NoError(t, err)
	s := newSamples(p.definition)
	s.most, s.outputs = most, outputs
	return s
}

// made is an attempt for tests.
type made struct {
	tries int
	sample
}

const (
	hours      = 8
	outageAt   = 3 * time.Hour
	outageEnds = outageAt + time.Hour
)

// attempts are those of some hours: first ones, and in 100 of them 4 second and 1 third ones; during an outage as many of each. 5 % of first attempts fail, 60 %
// of later ones, and in the outage 90 % of all.
func attempts() (list []made) {
	for second := range hours * 3600 {
		at := time.Duration(second) * time.Second
		down := at >= outageAt && at < outageEnds
		for i, share := range []float64{1, 0.04, 0.01} {
			tries := i + 1
			fails := map[bool]float64{true: 0.05, false: 0.6}[tries == 1]
			if down {
				share, fails = 1, 0.9
			}
			rank := digest(second, tries)
			if unit(mix(rank+1)) >= share {
				continue
			}
			x := sample{at: events.Instant(at.Milliseconds() + int64(unit(mix(rank+2))*1000)), rank: rank, answer: Answer{Result: Completed, Output: json.RawMessage(fmt.Sprint(second))}}
			if unit(mix(rank+3)) < fails {
				x.answer = Answer{Result: Failed}
			}
			list = append(list, made{tries, x})
		}
	}
	return list
}

// failing is the share of failures among draws for attempts between two instants.
func (s *samples) failing(tries int, from, to time.Duration) float64 {
	failed, n := 0.0, 0.0
	for at := from; at < to; at += 7 * time.Second {
		c := s.near(bank, tries, events.Instant(at.Milliseconds()))
		for range 4 {
			n++
			if d := (&drawing{number: int(n)}); d.pick(c, "t", key{"pay", events.Do, tries}).answer.Result == Failed {
				failed++
			}
		}
	}
	return failed / n
}

// A log that is too long for all of its attempts is thinned. What attempts are drawn from fails as often as if all were known: first attempts, later ones, and
// any in an outage.
func TestThinningChangesNoShare(t *testing.T) {
	t.Parallel()
	list := attempts()
	all, thin := bounded(t, len(list), maxOutputs), bounded(t, 4000, maxOutputs)
	for _, x := range list {
		all.add(bank, x.tries, x.sample)
		thin.add(bank, x.tries, x.sample)
	}
	all.sort()
	thin.sort()
	p := thin.pools[bank]
	require.Equal(t, firstWidth, all.pools[bank].width)
	require.Greater(t, p.width, time.Minute)
	require.LessOrEqual(t, len(p.sorted[groupAll]), 4000)
	for _, span := range [][2]time.Duration{{10 * time.Minute, outageAt - 10*time.Minute}, {outageAt + 10*time.Minute, outageEnds - 10*time.Minute}, {outageEnds + 10*time.Minute, hours*time.Hour - 10*time.Minute}} {
		for tries := 1; tries <= 3; tries++ {
			was, is := all.failing(tries, span[0], span[1]), thin.failing(tries, span[0], span[1])
			t.Logf("attempt %d from %v to %v: %.3f of all, %.3f of the kept", tries, span[0], span[1], was, is)
			require.InDelta(t, was, is, 0.05, "attempt %d from %v to %v", tries, span[0], span[1])
		}
	}
}

// Which samples and which outputs are kept does not depend on the order in which partitions are read, and what they take is bounded.
func TestWhatIsKeptIsBoundedInAnyOrder(t *testing.T) {
	t.Parallel()
	const outputs = 50_000
	var before *pool
	list := attempts()
	for range 2 {
		s := bounded(t, 2000, outputs)
		for _, x := range list {
			s.add(bank, x.tries, x.sample)
			s.add(events.Call{Agent: "another workflow's", Operation: events.Do}, x.tries, x.sample)
		}
		s.sort()
		require.Len(t, s.pools, 1)
		p := s.pools[bank]
		size := 0
		for _, out := range p.outputs {
			size += len(out) + outputTakes
		}
		require.Equal(t, p.size, size)
		require.LessOrEqual(t, size, outputs)
		require.Greater(t, size, outputs/4)
		drawn := map[string]bool{}
		for _, x := range p.sorted[groupAll] {
			require.Empty(t, x.answer.Output)
			out := p.outputOf(x.sample)
			require.NotEmpty(t, out)
			drawn[string(out)] = true
		}
		require.Greater(t, len(drawn), 100, "a sample whose output was not kept has that of some other, and not always the same")
		if before != nil {
			require.Equal(t, before, p)
		}
		before = p
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
}

// An output that is larger than all bounds is kept if there is no other.
func TestOneOutputIsKeptWhateverItsSize(t *testing.T) {
	t.Parallel()
	s := bounded(t, 10, 10)
	s.add(bank, 1, sample{rank: 5, answer: Answer{Result: Completed, Output: json.RawMessage(`"large enough"`)}})
	s.sort()
	require.JSONEq(t, `"large enough"`, string(s.pools[bank].outputOf(s.pools[bank].sorted[groupAll][0].sample)))
}
