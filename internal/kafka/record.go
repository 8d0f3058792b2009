package kafka

import (
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/twmb/franz-go/pkg/kgo"
)

// fillKgo sets the fields of a record to produce. The broker sets offsets and epochs. headers is scratch memory with room for r.Headers.
// fillKgo returns the rest of it.
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

// toKgo converts records into the memory of recs and headers, which grow if needed.
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
