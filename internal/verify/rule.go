package verify

import (
	"hash/crc32"
	"net/url"
	"sort"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// rule is the rule by which every reader tells facts from void records (events/FORMAT.md). It is written here once more
// on purpose: with the engine's fold its mistakes would go unseen.
type rule struct {
	n      uint64
	id     string
	next   uint64
	broken bool
}

// Why a record is void.
const (
	voidClaim = "late_claim"
	voidEpoch = "epoch_over"
	voidGap   = "behind_a_gap"
	voidCopy  = "copy"
)

// judge returns "" for a fact, else why the record is void.
func (r *rule) judge(f *events.Fact) string {
	if c, ok := f.Body.(*events.PartitionClaimed); ok {
		if c.Prev != r.id || c.ID == "" || c.ID == r.id {
			return voidClaim
		}
		*r = rule{n: r.n + 1, id: c.ID}
		return ""
	}
	switch {
	case r.n == 0, f.Epoch.N != r.n, f.Epoch.ID != r.id:
		return voidEpoch
	case r.broken, f.Sequence != r.next:
		r.broken = r.broken || f.Sequence > r.next
		return voidGap
	}
	r.next++
	return ""
}

// tenure is one epoch as the log tells it.
type tenure struct {
	epoch events.Epoch
	owner string
	claim int64
	// prints are the checksums of its accepted facts, by sequence: a void record of the same position must be a copy.
	prints []uint32
	// work are the digests of the work requests that its facts have as effects, by sequence; see work.go.
	work []uint32
	// runs find the offset of a sequence.
	runs []run
}

type run struct {
	sequence uint64
	offset   int64
}

func (t *tenure) accepted(sequence uint64) bool { return sequence < uint64(len(t.prints)) }

// book notes an accepted fact, whose sequence is the next.
func (t *tenure) book(f *events.Fact, r *events.Record) {
	if n := len(t.runs); n == 0 || t.runs[n-1].offset+int64(f.Sequence-t.runs[n-1].sequence) != r.Offset {
		t.runs = append(t.runs, run{f.Sequence, r.Offset})
	}
	t.prints = append(t.prints, printOf(r))
	t.work = append(t.work, 0)
}

// offset finds an accepted fact.
func (t *tenure) offset(sequence uint64) int64 {
	i := sort.Search(len(t.runs), func(i int) bool { return t.runs[i].sequence > sequence }) - 1
	if i < 0 || !t.accepted(sequence) {
		return -1
	}
	return t.runs[i].offset + int64(sequence-t.runs[i].sequence)
}

// printOf is a checksum of all that a record holds but its place.
func printOf(r *events.Record) uint32 {
	sum := crc32.ChecksumIEEE(r.Key)
	sum = crc32.Update(sum, crc32.IEEETable, r.Value)
	for _, h := range r.Headers {
		sum = crc32.Update(sum, crc32.IEEETable, []byte(h.Key))
		sum = crc32.Update(sum, crc32.IEEETable, h.Value)
	}
	return sum
}

// ownership is who owned one partition.
type ownership struct {
	rule    rule
	tenures []*tenure
	byEpoch map[string]*tenure
	// time is that of the latest accepted fact.
	time events.Instant
	void map[string]int
	// broken counts the epochs in which a sequence was missing.
	broken int
}

func newOwnership() *ownership {
	return &ownership{byEpoch: map[string]*tenure{}, void: map[string]int{}}
}

func (o *ownership) current() *tenure {
	if len(o.tenures) == 0 {
		return nil
	}
	return o.tenures[len(o.tenures)-1]
}

// find returns the tenure of a position and whether the log accepted it.
func (o *ownership) find(p events.Position) (*tenure, bool) {
	t := o.byEpoch[p.Epoch.String()]
	return t, t != nil && t.accepted(p.Sequence)
}

// take judges a record. It returns whether it is a fact, and what is wrong with how it came here: a sentence each.
func (o *ownership) take(f *events.Fact, r *events.Record) (accepted bool, wrong []string) {
	was := o.rule.broken
	why := o.rule.judge(f)
	by := writer(r)
	if c, ok := f.Body.(*events.PartitionClaimed); ok {
		if by != c.Owner {
			wrong = append(wrong, "the claim is for node "+strconv.Quote(c.Owner)+", and node "+strconv.Quote(by)+" wrote it")
		}
		if why != "" {
			o.void[why]++
			return false, wrong
		}
		t := &tenure{epoch: events.Epoch{N: o.rule.n, ID: o.rule.id}, owner: c.Owner, claim: r.Offset}
		if old := o.byEpoch[t.epoch.String()]; old != nil {
			wrong = append(wrong, "the claim makes the epoch "+t.epoch.String()+" a second time")
		}
		o.tenures = append(o.tenures, t)
		o.byEpoch[t.epoch.String()] = t
		return true, wrong
	}
	t := o.byEpoch[f.Epoch.String()]
	if t == nil {
		o.void[voidEpoch]++
		return false, append(wrong, "the record is of epoch "+f.Epoch.String()+", which nobody had claimed before it")
	}
	if by != t.owner {
		wrong = append(wrong, "the record is of epoch "+f.Epoch.String()+", which node "+strconv.Quote(t.owner)+" owned, and node "+strconv.Quote(by)+" wrote it")
	}
	if why != "" {
		if t.accepted(f.Sequence) {
			why = voidCopy
			if t.prints[f.Sequence] != printOf(r) {
				wrong = append(wrong, "the record has the position "+f.Position().String()+" of the fact at offset "+strconv.FormatInt(t.offset(f.Sequence), 10)+" and says something else")
			}
		}
		o.void[why]++
		if o.rule.broken && !was {
			o.broken++
		}
		return false, wrong
	}
	return true, append(wrong, o.order(f, r)...)
}

// order books an accepted fact and checks its name, its time, and the position up to which it says that effects are settled.
func (o *ownership) order(f *events.Fact, r *events.Record) (wrong []string) {
	o.current().book(f, r)
	if id := factID(r.Partition, f); r.Header(events.HeaderID) != id {
		wrong = append(wrong, "the fact "+f.Position().String()+" bears the name "+strconv.Quote(r.Header(events.HeaderID))+" instead of "+strconv.Quote(id))
	}
	if f.Time < o.time {
		wrong = append(wrong, "the fact's time "+f.Time.String()+" lies before that of an earlier fact, "+o.time.String())
	}
	o.time = max(o.time, f.Time)
	if s := f.Settled; !s.IsZero() {
		if _, ok := o.find(s); !ok || !s.Before(f.Position()) {
			wrong = append(wrong, "the fact says that effects up to "+s.String()+" are settled, which is no earlier fact")
		}
	}
	return wrong
}

// writer is the node that wrote a fact: the last segment of its ce_source.
func writer(r *events.Record) string {
	source := r.Header(events.HeaderSource)
	node, err := url.PathUnescape(source[strings.LastIndexByte(source, '/')+1:])
	if err != nil {
		return source
	}
	return node
}

// factID is the ce_id that a fact must have.
func factID(partition int32, f *events.Fact) string {
	return strconv.Itoa(int(partition)) + "/" + f.Epoch.String() + "/" + strconv.FormatUint(f.Sequence, 10)
}
