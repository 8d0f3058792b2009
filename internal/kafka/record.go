package kafka

import (
	"github.com/sagalog/sagalog/events"
	"github.com/twmb/franz-go/pkg/kgo"
)

// fromKgo converts records without copying keys and values: one allocation for the records, one for all headers.
func fromKgo(in []*kgo.Record) []events.Record {
	if len(in) == 0 {
		return nil
	}
	n := 0
	for _, r := range in {
		n += len(r.Headers)
	}
	out := make([]events.Record, len(in))
	headers := make([]events.Header, 0, n)
	for i, r := range in {
		out[i] = convert(r)
		if len(r.Headers) == 0 {
			continue
		}
		from := len(headers)
		for _, h := range r.Headers {
			headers = append(headers, events.Header(h))
		}
		out[i].Headers = headers[from:len(headers):len(headers)]
	}
	return out
}

func convert(r *kgo.Record) events.Record {
	out := events.Record{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, LeaderEpoch: r.LeaderEpoch,
		Key: r.Key, Value: r.Value, Control: r.Attrs.IsControl(),
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

func toKgo(in []events.Record) []kgo.Record {
	n := 0
	for i := range in {
		n += len(in[i].Headers)
	}
	out := make([]kgo.Record, len(in))
	headers := make([]kgo.RecordHeader, n)
	for i := range in {
		headers = fillKgo(&out[i], &in[i], headers)
	}
	return out
}
