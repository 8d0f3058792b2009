package whatif

import (
	"encoding/binary"
	"io"
	"math"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
)

func writeUint(w io.Writer, n uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n)
	_, _ = w.Write(b[:]) // of a hash
}

// mix spreads the bits of a hash: FNV leaves those of similar texts similar.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// unit maps a hash to the open interval from 0 to 1.
func unit(x uint64) float64 { return (float64(x>>11) + 0.5) / (1 << 53) }

// drawing is one draw: the same for all tasks.
type drawing struct {
	samples *samples
	seed    uint64
	number  int
}

// choice is what an attempt is drawn from.
type choice struct {
	from []weighted
	// forGood is how much a sample that failed for good counts.
	forGood float64
}

// pick chooses one of some samples for an attempt. Each draw gives every sample another weight (a Bayesian bootstrap), the same for all tasks. So the draws
// differ as much as the shares in the samples are uncertain, and not only as chance among many tasks makes them differ, which would be too little where
// few samples stand for many attempts.
func (d *drawing) pick(c choice, task string, k key) *sample {
	total := 0.0
	weights := make([]float64, len(c.from))
	for i := range c.from {
		weights[i] = -math.Log(unit(mix(c.from[i].rank ^ mix(d.seed^uint64(d.number)*0x9e3779b97f4a7c15))))
		weights[i] *= c.from[i].weight
		if c.from[i].answer.forGood() {
			weights[i] *= c.forGood
		}
		total += weights[i]
	}
	at := total * unit(digest(d.seed, d.number, task, k.path, string(k.op), k.n))
	for i := range c.from {
		if at -= weights[i]; at < 0 {
			return c.from[i].sample
		}
	}
	return c.from[len(c.from)-1].sample
}

// answers says what history has of an operation of a task at other instants: an answer that is about the task and not about the moment. failed is one that
// no retry helps against; completes says that the operation completed, so it does not fail like that.
func answers(t *Trace, k key) (failed *Attempt, completes bool) {
	for _, a := range t.Attempts {
		if a.Path != k.path || a.Operation != k.op {
			continue
		}
		if a.Answer.forGood() {
			failed = a
		}
		completes = completes || a.Answer.Result == Completed
	}
	return failed, completes
}

// longer returns the samples that took longer than an attempt that timed out was allowed to, as far as that is known.
func longer(from []weighted, than time.Duration) []weighted {
	return slices.DeleteFunc(slices.Clone(from), func(x weighted) bool { return x.lasted <= than })
}

// output returns the output of a drawn attempt that completes: that of the same operation in history if it completed later or earlier, or that of the sample.
func (d *drawing) output(t *Trace, k key, call events.Call, x *sample) []byte {
	for _, a := range t.Attempts {
		if a.Path == k.path && a.Operation == k.op && a.Answer.Result == Completed {
			return a.Answer.Output
		}
	}
	return d.samples.pools[call].outputOf(x)
}
