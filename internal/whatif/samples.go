package whatif

import (
	"cmp"
	"encoding/json"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

const (
	// bucketSamples is how many samples of a stratum a bucket of time keeps, and maxSamples how many a call keeps in all, however long the log is. When there
	// are more, the buckets become twice as wide.
	bucketSamples = 16
	maxSamples    = 1 << 17
	// firstWidth is the width of buckets at first: outages last longer.
	firstWidth = time.Second
	// maxOutputs is the size of all outputs that a call keeps, each with outputTakes for its place. One is kept whatever its size.
	maxOutputs  = 16 << 20
	outputTakes = 100
	// maxErrors is how many different errors of a call keep their texts.
	maxErrors = 1000

	// around is how many of the nearest samples decide how far near reaches, from nearest to farthest. Fewer would leave more to chance, which the
	// intervals show; with more, samples from within an outage would stand for attempts after it, which nothing shows. fewest is how many there must
	// be, and how many decide how far samples of one stratum are looked for: these must not be farther away than others, for the same reason.
	around   = 10
	fewest   = 5
	nearest  = 2 * time.Second
	farthest = time.Hour
	// drawnFrom is how many samples a draw chooses from at most.
	drawnFrom = 64
)

// strata tell first attempts, second ones and later ones apart: an attempt that follows a failure is more likely to fail than a first one, since some failures
// are about the task and not about the moment.
const strata = 3

func stratumOf(tries int) int { return min(tries, strata) - 1 }

// groups are the strata that an attempt is drawn from: each alone, those of all retries, and all.
var groups = [...][]int{{0}, {1}, {2}, {1, 2}, {0, 1, 2}}

const (
	groupRetries = strata
	groupAll     = strata + 1
)

// sample is an attempt of some task.
type sample struct {
	// at is when it started, and rank a hash of its place in the log. The samples with the lowest ranks are kept: so which are kept depends neither on
	// the order in which partitions are read, nor on when buckets are merged.
	at   events.Instant
	rank uint64
	// queue is from when it was ready until it started, and lasted from there until it ended.
	queue, lasted time.Duration
	answer        Answer
}

// samples are attempts of all tasks, by what was called.
type samples struct {
	mu sync.Mutex
	// pools has those of the calls that the policy makes. Others are not kept.
	pools map[events.Call]*pool
	// most and outputs are maxSamples and maxOutputs; tests have less.
	most, outputs int
}

func newSamples(d *scheduler.Definition) *samples {
	s := &samples{pools: map[events.Call]*pool{}, most: maxSamples, outputs: maxOutputs}
	for i := range d.Steps {
		for _, call := range d.Steps[i].Calls() {
			s.pools[call] = &pool{width: firstWidth, buckets: map[int64]*bucket{}, errors: map[string]*events.Error{}, outputs: map[uint64]json.RawMessage{}, below: math.MaxUint64}
		}
	}
	return s
}

// pool are the samples of one call.
type pool struct {
	width   time.Duration
	buckets map[int64]*bucket
	// kept is how many samples the buckets keep.
	kept   int
	errors map[string]*events.Error
	// outputs are those of the samples whose rank is below a bound, by rank, and size is what they take. ranks are theirs, once all samples are there. If there
	// are none, output is that of one completed attempt, which has outputRank.
	outputs    map[uint64]json.RawMessage
	below      uint64
	size       int
	ranks      []uint64
	output     json.RawMessage
	outputRank uint64
	// firsts and retries are how many attempts there were, and how many of them failed for good.
	firsts, retries share
	// sorted are the samples of each group by time. They are made when all samples are known.
	sorted [len(groups)][]weighted
}

// weighted is a sample of a group. stands is for how many attempts it stands, of which its bucket did not keep the others. Each stratum of a bucket keeps the
// same number of samples, so weight makes up for that: the strata count as much as they have attempts. Times are not weighted: where attempts are
// dense, others would count too little.
type weighted struct {
	*sample
	stands, weight float64
}

// share is how many of some attempts failed for good.
type share struct{ n, forGood int }

func (s share) of() float64 { return (float64(s.forGood) + 0.5) / (float64(s.n) + 1) }

// stratum are the samples of a stratum in a bucket: of seen attempts, those with the lowest ranks.
type stratum struct {
	seen int
	kept []sample
}

type bucket [strata]stratum

// add takes a sample. tries is the number of the attempt.
func (s *samples) add(call events.Call, tries int, x sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pools[call]
	if p == nil {
		return
	}
	to := &p.firsts
	if tries > 1 {
		to = &p.retries
	}
	if to.n++; x.answer.forGood() {
		to.forGood++
	}
	p.share(&x, s.outputs)
	of := &p.bucket(int64(x.at) / p.width.Milliseconds())[stratumOf(tries)]
	of.seen++
	p.keep(of, x)
	for p.kept > s.most {
		p.widen()
	}
}

// share takes what samples may share, or have in common with others, out of a sample.
func (p *pool) share(x *sample, most int) {
	if out := x.answer.Output; len(out) > 0 {
		if p.output == nil || x.rank < p.outputRank {
			p.output, p.outputRank = out, x.rank
		}
		p.keepOutput(x.rank, out, most)
	}
	x.answer.Output = nil
	if e := x.answer.Error; e != nil {
		known := p.errors[string(e.Class)+" "+e.Code]
		if known == nil {
			known = &events.Error{Class: e.Class, Code: e.Code, Message: "as in history: " + e.Code}
			if len(p.errors) < maxErrors {
				p.errors[string(e.Class)+" "+e.Code] = known
			}
		}
		x.answer.Error = known
	}
}

// keepOutput keeps an output if its rank is low enough. If all take too much, half of the ranks lose theirs: which ones does not depend on the order.
func (p *pool) keepOutput(rank uint64, out json.RawMessage, most int) {
	if rank >= p.below {
		return
	}
	p.outputs[rank] = out
	for p.size += len(out) + outputTakes; p.size > most; {
		p.below /= 2
		for rank, out := range p.outputs {
			if rank >= p.below {
				p.size -= len(out) + outputTakes
				delete(p.outputs, rank)
			}
		}
	}
}

// outputOf returns the output of a sample. If it was not kept, it is that of another sample: mostly nothing depends on which.
func (p *pool) outputOf(x *sample) json.RawMessage {
	if out := p.outputs[x.rank]; out != nil {
		return out
	}
	if n := len(p.ranks); n > 0 {
		return p.outputs[p.ranks[x.rank%uint64(n)]]
	}
	return p.output
}

func (p *pool) bucket(number int64) *bucket {
	b := p.buckets[number]
	if b == nil {
		b = &bucket{}
		p.buckets[number] = b
	}
	return b
}

func (p *pool) keep(of *stratum, x sample) {
	i, _ := slices.BinarySearchFunc(of.kept, x, func(a, b sample) int { return cmp.Compare(a.rank, b.rank) })
	if i >= bucketSamples {
		return
	}
	p.kept -= len(of.kept)
	of.kept = slices.Insert(of.kept[:min(len(of.kept), bucketSamples-1)], i, x)
	p.kept += len(of.kept)
}

// widen doubles the width of the buckets.
func (p *pool) widen() {
	old := p.buckets
	p.width, p.buckets, p.kept = 2*p.width, make(map[int64]*bucket, len(old)), 0
	for number, b := range old {
		to := p.bucket(number / 2)
		for i := range b {
			to[i].seen += b[i].seen
			for _, x := range b[i].kept {
				p.keep(&to[i], x)
			}
		}
	}
}

// sort is called once all samples are there.
func (s *samples) sort() {
	for _, p := range s.pools {
		for _, b := range p.buckets {
			for g := range groups {
				p.sorted[g] = append(p.sorted[g], b.group(g)...)
			}
		}
		p.buckets = nil
		for _, list := range p.sorted {
			slices.SortFunc(list, func(a, b weighted) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.rank, b.rank)) })
		}
		p.ranks = slices.Sorted(maps.Keys(p.outputs))
	}
}

// group returns the samples of a group.
func (b *bucket) group(g int) (list []weighted) {
	seen, kept := 0, 0
	for _, i := range groups[g] {
		seen, kept = seen+b[i].seen, kept+len(b[i].kept)
	}
	for _, i := range groups[g] {
		of := &b[i]
		for n := range of.kept {
			all := float64(len(of.kept))
			list = append(list, weighted{&of.kept[n], float64(of.seen) / all, float64(of.seen*kept) / (all * float64(seen))})
		}
	}
	return list
}

// near returns the samples from which an attempt that starts at an instant is drawn; none if there are too few.
//
// The instant matters most: an outage is the same for all. So the samples are the nearest in time. Among those, the ones of the same stratum come first if
// there are enough, then those of any retry, then all. forGood is how much a failure for good counts among them.
func (s *samples) near(call events.Call, tries int, at events.Instant) choice {
	p := s.pools[call]
	if p == nil {
		return choice{}
	}
	all := nearestOf(p.sorted[groupAll], at, around, farthest)
	if len(all) < fewest {
		return choice{}
	}
	reach := reaching(all, at)
	close := p.close(all, at, reach)
	if same := p.within(stratumOf(tries), at, close, reach); same != nil {
		return choice{same, 1}
	}
	mixed := choice{nearestOf(p.sorted[groupAll], at, drawnFrom, reach), 1}
	if tries == 1 {
		return mixed
	}
	if retries := p.within(groupRetries, at, close, reach); retries != nil {
		return choice{retries, 1}
	}
	// What fails for good does so mostly at once. So a retry, which did not, does so more seldom than a first attempt.
	mixed.forGood = min(1, p.retries.of()/p.firsts.of())
	return mixed
}

// thinned says that some attempts are not among the samples, over longer times than count.
func (p *pool) thinned() bool { return p.width > firstWidth }

// close is how far the nearest attempts are, as many as fewest. all are the nearest samples, no farther than reach: if there were more attempts, this is
// how far they were on average.
func (p *pool) close(all []weighted, at events.Instant, reach time.Duration) time.Duration {
	if p.thinned() {
		return max(nearest, time.Duration(float64(reach)*fewest/standing(all)))
	}
	return reaching(nearestOf(all, at, fewest, farthest), at)
}

// within returns the samples of a group that are close; nil if there were too few attempts of it that close. Of a log that was thinned, that is how many there
// were on average within reach, and samples that are farther stand for them.
func (p *pool) within(group int, at events.Instant, close, reach time.Duration) []weighted {
	list := nearestOf(p.sorted[group], at, drawnFrom, close)
	if len(list) >= fewest {
		return list
	}
	if !p.thinned() {
		return nil
	}
	were := standing(nearestOf(p.sorted[group], at, drawnFrom, reach)) * close.Seconds() / reach.Seconds()
	list = nearestOf(p.sorted[group], at, around, reach+p.width)
	if math.Round(were) < fewest || len(list) < fewest {
		return nil
	}
	return list
}

// standing is for how many attempts some samples stand.
func standing(list []weighted) (n float64) {
	for i := range list {
		n += list[i].stands
	}
	return n
}

// reaching is how far samples are from an instant, and at least nearest.
func reaching(list []weighted, at events.Instant) time.Duration {
	reach := nearest
	for i := range list {
		reach = max(reach, list[i].at.Sub(at).Abs())
	}
	return reach
}

// nearestOf returns the n samples that are nearest in time, and no farther than reach. list is sorted by time.
func nearestOf(list []weighted, at events.Instant, n int, reach time.Duration) []weighted {
	to, _ := slices.BinarySearchFunc(list, at, func(x weighted, at events.Instant) int { return cmp.Compare(x.at, at) })
	from := to
	for to-from < n {
		before, after := reach+1, reach+1
		if from > 0 {
			before = at.Sub(list[from-1].at)
		}
		if to < len(list) {
			after = list[to].at.Sub(at)
		}
		switch {
		case min(before, after) > reach:
			return list[from:to]
		case before <= after:
			from--
		default:
			to++
		}
	}
	return list[from:to]
}

// digest hashes what names a random choice.
func digest(parts ...any) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			h.Write([]byte(p))
			h.Write([]byte{0})
		case uint64:
			writeUint(h, p)
		case int:
			writeUint(h, uint64(p))
		}
	}
	return mix(h.Sum64())
}
