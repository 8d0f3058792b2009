package whatif

import (
	"cmp"
	"encoding/json"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
)

const (
	// bucketSamples is how many samples of a stratum a bucket of time keeps, and maxBuckets how many buckets a call has. When there are more, the buckets
	// become twice as wide. So a call keeps at most 4,096 x 3 x 16 samples, however long the log is.
	bucketSamples = 16
	maxBuckets    = 4096
	// firstWidth is the width of buckets at first: outages last longer.
	firstWidth = time.Second
	// keptOutput is the size of the largest output that a sample keeps. One output of each call is kept whatever its size.
	keptOutput = 16 << 10
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
	mu    sync.Mutex
	pools map[events.Call]*pool
}

func newSamples() *samples { return &samples{pools: map[events.Call]*pool{}} }

// pool are the samples of one call.
type pool struct {
	width   time.Duration
	buckets map[int64]*bucket
	errors  map[string]*events.Error
	// output is that of one completed attempt, which has outputRank.
	output     json.RawMessage
	outputRank uint64
	// firsts and retries are how many attempts there were, and how many of them failed for good.
	firsts, retries share
	// sorted are the samples of each stratum and, at last, of all, by time. They are made when all samples are known.
	sorted [strata + 1][]sample
}

// share is how many of some attempts failed for good.
type share struct{ n, forGood int }

func (s share) of() float64 { return (float64(s.forGood) + 0.5) / (float64(s.n) + 1) }

type bucket [strata][]sample

// add takes a sample. tries is the number of the attempt.
func (s *samples) add(call events.Call, tries int, x sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pools[call]
	if p == nil {
		p = &pool{width: firstWidth, buckets: map[int64]*bucket{}, errors: map[string]*events.Error{}}
		s.pools[call] = p
	}
	to := &p.firsts
	if tries > 1 {
		to = &p.retries
	}
	if to.n++; x.answer.forGood() {
		to.forGood++
	}
	p.share(&x)
	p.put(p.bucket(x.at), stratumOf(tries), x)
	for len(p.buckets) > maxBuckets {
		p.widen()
	}
}

// share replaces what a sample repeats.
func (p *pool) share(x *sample) {
	if x.answer.Result == Completed && len(x.answer.Output) > 0 && (p.output == nil || x.rank < p.outputRank) {
		p.output, p.outputRank = x.answer.Output, x.rank
	}
	if len(x.answer.Output) > keptOutput {
		x.answer.Output = nil
	}
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

func (p *pool) bucket(at events.Instant) int64 { return int64(at) / p.width.Milliseconds() }

func (p *pool) put(number int64, stratum int, x sample) {
	b := p.buckets[number]
	if b == nil {
		b = &bucket{}
		p.buckets[number] = b
	}
	list := b[stratum]
	i, _ := slices.BinarySearchFunc(list, x, func(a, b sample) int { return cmp.Compare(a.rank, b.rank) })
	if i >= bucketSamples {
		return
	}
	b[stratum] = slices.Insert(list[:min(len(list), bucketSamples-1)], i, x)
}

// widen doubles the width of the buckets.
func (p *pool) widen() {
	old := p.buckets
	p.width, p.buckets = 2*p.width, make(map[int64]*bucket, maxBuckets)
	for _, b := range old {
		for stratum, list := range b {
			for _, x := range list {
				p.put(p.bucket(x.at), stratum, x)
			}
		}
	}
}

// sort is called once all samples are there.
func (s *samples) sort() {
	for _, p := range s.pools {
		for _, b := range p.buckets {
			for stratum, list := range b {
				p.sorted[stratum] = append(p.sorted[stratum], list...)
				p.sorted[strata] = append(p.sorted[strata], list...)
			}
		}
		p.buckets = nil
		for i := range p.sorted {
			slices.SortFunc(p.sorted[i], func(a, b sample) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.rank, b.rank)) })
		}
	}
}

// near returns the samples from which an attempt that starts at an instant is drawn; none if there are too few.
//
// The instant matters most: an outage is the same for all. So the samples are the nearest in time. Among those, the ones of the same stratum come first if
// there are enough, then those of any retry, then all. forGood is how much a failure for good counts among them.
func (s *samples) near(call events.Call, tries int, at events.Instant) (list []sample, forGood float64) {
	p := s.pools[call]
	if p == nil {
		return nil, 0
	}
	all := nearestOf(p.sorted[strata], at, around, farthest)
	if len(all) < fewest {
		return nil, 0
	}
	reach, close := reaching(all, at), reaching(nearestOf(all, at, fewest, farthest), at)
	if same := nearestOf(p.sorted[stratumOf(tries)], at, drawnFrom, close); len(same) >= fewest {
		return same, 1
	}
	if tries == 1 {
		return nearestOf(p.sorted[strata], at, drawnFrom, reach), 1
	}
	var retries []sample
	for stratum := 1; stratum < strata; stratum++ {
		retries = append(retries, nearestOf(p.sorted[stratum], at, drawnFrom, close)...)
	}
	if len(retries) >= fewest {
		return retries, 1
	}
	// What fails for good does so mostly at once. So a retry, which did not, does so more seldom than a first attempt.
	return nearestOf(p.sorted[strata], at, drawnFrom, reach), min(1, p.retries.of()/p.firsts.of())
}

// reaching is how far samples are from an instant, and at least nearest.
func reaching(list []sample, at events.Instant) time.Duration {
	reach := nearest
	for i := range list {
		reach = max(reach, list[i].at.Sub(at).Abs())
	}
	return reach
}

// nearestOf returns the n samples that are nearest in time, and no farther than reach. list is sorted by time.
func nearestOf(list []sample, at events.Instant, n int, reach time.Duration) []sample {
	to, _ := slices.BinarySearchFunc(list, at, func(x sample, at events.Instant) int { return cmp.Compare(x.at, at) })
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
