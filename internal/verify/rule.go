package verify

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/url"
	"sort"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// Rule is the rule by which every reader of a partition tells facts from void records (events/FORMAT.md). It takes the records of
// one partition in order, from the first one on. It is written here a second time on purpose: a check that
// used the engine's fold would share its mistakes.
type Rule struct {
	epoch  events.Epoch
	next   uint64
	broken bool
	// barrier is the lowest level at which a build may still claim.
	barrier int
	// cut says that the log's beginning is gone and no fact has been read yet: the first record is accepted unchecked.
	cut bool
}

// The reasons why a record is void.
const (
	VoidClaim = "late_claim"
	VoidOlder = "claim_below_barrier"
	VoidEpoch = "epoch_over"
	VoidGap   = "behind_a_gap"
	voidCopy  = "copy"
)

// NewRule returns the rule for a log from its first record on. cut says that this record is not the first one that was ever written.
func NewRule(cut bool) *Rule { return &Rule{cut: cut} }

// Epoch returns the epoch of the latest fact.
func (r *Rule) Epoch() events.Epoch { return r.epoch }

// Position returns the position of the latest fact, unless that is a claim, which has none.
func (r *Rule) Position() events.Position {
	return events.Position{Epoch: r.epoch, Sequence: r.next - 1}
}

// Judge returns "" for a fact, and otherwise the reason why the record is void.
func (r *Rule) Judge(f *events.Fact) string {
	if c, ok := f.Body.(*events.PartitionClaimed); ok {
		return r.claim(c.ID, c.Prev, c.Reader)
	}
	void := r.fact(f.Epoch, f.Sequence)
	if b, ok := f.Body.(*events.VersionBarrier); ok && void == "" {
		r.barrier = max(r.barrier, b.Reader)
	}
	return void
}

// JudgeRecord is Judge for a reader that needs few of the facts: it decodes only headers and claims.
func (r *Rule) JudgeRecord(record *events.Record) (string, error) {
	if record.Header(events.HeaderType) == events.TypePrefix+string(events.NamePartitionClaimed) {
		var c events.PartitionClaimed
		if err := json.Unmarshal(record.Value, &c); err != nil {
			return "", fmt.Errorf("decode the claim at offset %d: %w", record.Offset, err)
		}
		return r.claim(c.ID, c.Prev, c.Reader), nil
	}
	at, err := events.PositionOf(record)
	if err != nil {
		return "", fmt.Errorf("decode the position of the record at offset %d: %w", record.Offset, err)
	}
	void := r.fact(at.Epoch, at.Sequence)
	if void == "" && record.Header(events.HeaderType) == events.TypePrefix+string(events.NameVersionBarrier) {
		var b events.VersionBarrier
		if err := json.Unmarshal(record.Value, &b); err != nil {
			return "", fmt.Errorf("decode the barrier at offset %d: %w", record.Offset, err)
		}
		r.barrier = max(r.barrier, b.Reader)
	}
	return void, nil
}

func (r *Rule) claim(id, prev string, reader int) string {
	switch {
	case r.cut && r.epoch.ID == "" && id != "":
		r.epoch.ID = id // its facts carry its ordinal
		return ""
	case prev != r.epoch.ID || id == "" || id == r.epoch.ID:
		return VoidClaim
	case reader < r.barrier:
		return VoidOlder
	}
	*r = Rule{epoch: events.Epoch{N: r.epoch.N + 1, ID: id}, barrier: r.barrier, cut: r.cut}
	return ""
}

func (r *Rule) fact(epoch events.Epoch, sequence uint64) string {
	if r.cut && (r.epoch.ID == "" || r.epoch.ID == epoch.ID) {
		r.epoch, r.next, r.cut = epoch, sequence, false
	}
	switch {
	case r.epoch.N == 0 || epoch != r.epoch:
		return VoidEpoch
	case r.broken || sequence != r.next:
		r.broken = r.broken || sequence > r.next
		return VoidGap
	}
	r.next++
	return ""
}

// tenure is one epoch according to the log.
type tenure struct {
	epoch events.Epoch
	owner string
	// first is the sequence of its first fact, which is 0 unless the log was cut within the epoch.
	first uint64
	// prints are the checksums of its accepted facts, from the first one on: a void record of the same position must be a copy.
	prints []uint32
	// work holds the digests of the work requests that its facts have as effects, in the same order; see effects.go.
	work []uint32
	// runs map sequences to offsets.
	runs []run
}

type run struct {
	sequence uint64
	offset   int64
}

func (t *tenure) accepted(sequence uint64) bool {
	return sequence >= t.first && sequence-t.first < uint64(len(t.prints))
}

// book notes the next accepted fact.
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

// printOf returns a checksum of everything in a record except its place.
func printOf(r *events.Record) uint32 {
	sum := crc32.ChecksumIEEE(r.Key)
	sum = crc32.Update(sum, crc32.IEEETable, r.Value)
	for _, h := range r.Headers {
		sum = crc32.Update(sum, crc32.IEEETable, []byte(h.Key))
		sum = crc32.Update(sum, crc32.IEEETable, h.Value)
	}
	return sum
}

// ownership records who owned one partition.
type ownership struct {
	rule    Rule
	tenures []*tenure
	byEpoch map[string]*tenure
	// time is the time of the latest accepted fact.
	time events.Instant
	void map[string]int
	// broken counts the epochs in which a sequence was missing.
	broken int
	// cut says that the log was cut, so that records may name facts before its beginning.
	cut bool
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

// beforeCut says whether a position lies before the beginning of a log that was cut.
func (o *ownership) beforeCut(p events.Position) bool {
	return o.cut && p.Before(events.Position{Epoch: o.tenures[0].epoch, Sequence: o.tenures[0].first})
}

// older says whether the record is of an epoch before the beginning of a log that was cut, of which nothing is known.
func (o *ownership) older(f *events.Fact) bool {
	return o.cut && len(o.tenures) > 0 && f.Epoch.N < o.tenures[0].epoch.N
}

// judge says whether a record is a fact, and returns a sentence for each thing that is wrong with it.
func (o *ownership) judge(f *events.Fact, r *events.Record) (accepted bool, wrong []string) {
	was := o.rule.broken
	why := o.rule.Judge(f)
	by := Writer(r)
	if c, ok := f.Body.(*events.PartitionClaimed); ok {
		if by != c.Owner {
			wrong = append(wrong, "the claim is for node "+strconv.Quote(c.Owner)+", and node "+strconv.Quote(by)+" wrote it")
		}
		if why != "" {
			o.void[why]++
			return false, wrong
		}
		t := &tenure{epoch: o.rule.epoch, owner: c.Owner}
		if old := o.byEpoch[t.epoch.String()]; old != nil {
			wrong = append(wrong, "the claim makes the epoch "+t.epoch.String()+" a second time")
		}
		o.tenures = append(o.tenures, t)
		o.byEpoch[t.epoch.String()] = t
		return true, wrong
	}
	if o.cut && why == "" && len(o.tenures) == 0 {
		o.tenures = append(o.tenures, &tenure{epoch: f.Epoch, owner: by, first: f.Sequence})
		o.byEpoch[f.Epoch.String()] = o.tenures[0]
	}
	t := o.byEpoch[f.Epoch.String()]
	if t == nil && o.older(f) {
		o.void[VoidEpoch]++
		return false, wrong
	}
	if t == nil {
		o.void[VoidEpoch]++
		return false, append(wrong, "the record is of epoch "+f.Epoch.String()+", which was not claimed before")
	}
	if by != t.owner {
		wrong = append(wrong, "the record is of epoch "+f.Epoch.String()+", which node "+strconv.Quote(t.owner)+" owned, and node "+strconv.Quote(by)+" wrote it")
	}
	if why != "" {
		if t.accepted(f.Sequence) {
			why = voidCopy
			if t.prints[f.Sequence-t.first] != printOf(r) {
				wrong = append(wrong, "the record has the position "+f.Position().String()+" of the fact at offset "+strconv.FormatInt(t.offset(f.Sequence), 10)+" and has another content")
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

// order notes an accepted fact and checks its name, its time, and its watermark.
func (o *ownership) order(f *events.Fact, r *events.Record) (wrong []string) {
	o.current().book(f, r)
	if id := factID(r.Partition, f); r.Header(events.HeaderID) != id {
		wrong = append(wrong, "the fact "+f.Position().String()+" has the name "+strconv.Quote(r.Header(events.HeaderID))+" instead of "+strconv.Quote(id))
	}
	if goesBack(f) {
		o.time = f.Time
	}
	if f.Time < o.time {
		wrong = append(wrong, "the fact's time "+f.Time.String()+" lies before that of an earlier fact, "+o.time.String())
	}
	o.time = max(o.time, f.Time)
	if s := f.Watermark; !s.IsZero() {
		if _, ok := o.find(s); !ok && !o.beforeCut(s) || !s.Before(f.Position()) {
			wrong = append(wrong, "the fact has the watermark "+s.String()+", which is not an earlier fact")
		}
	}
	return wrong
}

// Writer returns the node that wrote a fact: the last segment of its ce_source.
func Writer(r *events.Record) string {
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
