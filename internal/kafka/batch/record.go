package batch

import (
	"sync"
	"unsafe"

	"github.com/sagalog/sagalog/events"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Records converts the client's records without copying keys, values or headers: one allocation for all of them.
func Records(in []*kgo.Record) []events.Record {
	if len(in) == 0 {
		return nil
	}
	out := make([]events.Record, len(in))
	for i, r := range in {
		out[i] = convert(r)
	}
	return out
}

// Recycle is Records for records of a Pool, and returns them to it.
func Recycle(in []*kgo.Record) []events.Record {
	out := Records(in)
	for _, r := range in {
		r.Recycle()
	}
	return out
}

func convert(r *kgo.Record) events.Record {
	out := events.Record{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, LeaderEpoch: r.LeaderEpoch,
		Key: r.Key, Value: r.Value, Headers: convertHeaders(r.Headers), Control: r.Attrs.IsControl(),
	}
	if !r.Timestamp.IsZero() {
		out.Timestamp = events.At(r.Timestamp)
	}
	return out
}

// convertHeaders returns the same memory under our type. Go can convert a pointer from one type to the other, because both have the
// same fields in the same order (otherwise this does not compile). It cannot convert a slice. Copying the headers was half the
// cost of a record.
func convertHeaders(in []kgo.RecordHeader) []events.Header {
	if len(in) == 0 {
		return nil
	}
	return unsafe.Slice((*events.Header)(&in[0]), len(in))
}

// Pool lends readers the records that they decode into. Recycle keeps no reference to them. It implements kgo.PoolRecords, and the
// garbage collector bounds it.
type Pool struct{ free sync.Pool }

// poolLeast is large enough for most batches under load.
const poolLeast = 64

// GetRecords implements kgo.PoolRecords.
func (p *Pool) GetRecords(n int) []kgo.Record {
	if s, ok := p.free.Get().(*[]kgo.Record); ok && cap(*s) >= n {
		return *s
	}
	return make([]kgo.Record, 0, max(n, poolLeast))
}

// PutRecords implements kgo.PoolRecords.
func (p *Pool) PutRecords(s []kgo.Record) { p.free.Put(&s) }
