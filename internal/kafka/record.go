package kafka

import (
	"slices"
	"sync"
	"unsafe"

	"github.com/sagalog/sagalog/events"
	"github.com/twmb/franz-go/pkg/kgo"
)

// fromKgo converts records without copying keys, values or headers: one allocation for all of them.
func fromKgo(in []*kgo.Record) []events.Record {
	if len(in) == 0 {
		return nil
	}
	out := make([]events.Record, len(in))
	for i, r := range in {
		out[i] = convert(r)
	}
	return out
}

// takeKgo is fromKgo for records of recordPool, which it gives back.
func takeKgo(in []*kgo.Record) []events.Record {
	out := fromKgo(in)
	for _, r := range in {
		r.Recycle()
	}
	return out
}

// ourHeaders is the same headers under the name that we have for them. The language converts a pointer from one to the
// other, because the two have the same fields in the same order (else this does not compile); it has no word for doing
// so with a slice, and copying them was half of what a record cost.
func ourHeaders(in []kgo.RecordHeader) []events.Header {
	if len(in) == 0 {
		return nil
	}
	return unsafe.Slice((*events.Header)(&in[0]), len(in))
}

// recordPool lends readers the records that they decode into, of which takeKgo keeps nothing. It implements
// kgo.PoolRecords.
type recordPool struct{ free sync.Pool }

// readPool is for all readers. It is bounded, as the garbage collector empties it.
var readPool recordPool

// GetRecords implements kgo.PoolRecords.
func (p *recordPool) GetRecords(n int) []kgo.Record {
	if s, ok := p.free.Get().(*[]kgo.Record); ok && cap(*s) >= n {
		return *s
	}
	return make([]kgo.Record, 0, max(n, readPoolLeast))
}

// PutRecords implements kgo.PoolRecords.
func (p *recordPool) PutRecords(s []kgo.Record) { p.free.Put(&s) }

// readPoolLeast has most batches under load find a slice that is large enough.
const readPoolLeast = 64

func convert(r *kgo.Record) events.Record {
	out := events.Record{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, LeaderEpoch: r.LeaderEpoch,
		Key: r.Key, Value: r.Value, Headers: ourHeaders(r.Headers), Control: r.Attrs.IsControl(),
	}
	if !r.Timestamp.IsZero() {
		out.Timestamp = events.At(r.Timestamp)
	}
	return out
}

// fillKgo sets what is produced; offsets and epochs are the broker's to give. headers is scratch space with room for
// r.Headers; what is left of it is returned.
func fillKgo(dst *kgo.Record, r *events.Record, headers []kgo.RecordHeader) []kgo.RecordHeader {
	*dst = kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value}
	if r.Timestamp != 0 {
		dst.Timestamp = r.Timestamp.Time()
	}
	n := len(r.Headers)
	if n == 0 {
		return headers
	}
	for i, h := range r.Headers {
		headers[i] = kgo.RecordHeader(h)
	}
	dst.Headers = headers[:n:n]
	return headers[n:]
}

// toKgo converts records into the room of recs and headers, which grow where it is too little, and returns it.
func toKgo(in []events.Record, recs []kgo.Record, headers []kgo.RecordHeader) ([]kgo.Record, []kgo.RecordHeader) {
	n := 0
	for i := range in {
		n += len(in[i].Headers)
	}
	recs, headers = slices.Grow(recs[:0], len(in))[:len(in)], slices.Grow(headers[:0], n)[:n]
	left := headers
	for i := range in {
		left = fillKgo(&recs[i], &in[i], left)
	}
	return recs, headers
}
