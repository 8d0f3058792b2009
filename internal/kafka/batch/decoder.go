package batch

import (
	"fmt"

	"github.com/sagalog/sagalog/events"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Decoder shows the records of one partition, one answer of a broker after another. It decodes batches itself, because the client
// allocates the name of each header, and a fact has ten. It makes the same checks as the client. A batch in a form that current
// brokers do not write is left to the client, so the Decoder accepts and rejects the same batches as the client.
type Decoder struct {
	Topic     string
	Partition int32
	// Next is the offset of the next record to show. Decode moves it.
	Next int64
	// End is the offset before which decoding ends.
	End int64
	// Show is called with each record, which is valid during the call only. Its error ends the decoding.
	Show func(*events.Record) error
	// ReuseHeaders says that Show keeps only the bytes of a record's key and values.
	ReuseHeaders bool
	Unpacker     Unpacker

	// headers is free memory. If headers are reused, the next record uses all of it. Otherwise it is the rest of a block.
	headers []events.Header
	names   headerNames
	record  events.Record
	ended   bool
}

// Error is returned by Decode for an unreadable answer of a broker.
type Error struct {
	Topic     string
	Partition int32
	Offset    int64
	Err       error
}

func (e *Error) Error() string {
	return fmt.Sprintf("read %s/%d from %d: %v", e.Topic, e.Partition, e.Offset, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// headersAtOnce is the number of headers that are allocated together if they are not reused.
const headersAtOnce = 512

// Ended says that Decode has reached a record at or after End.
func (d *Decoder) Ended() bool { return d.ended }

// Decode shows the records of an answer between Next and End, and moves Next past them. It returns an error of Show unchanged,
// and an *Error for an unreadable answer.
func (d *Decoder) Decode(p *kmsg.FetchResponseTopicPartition) error {
	for in := p.RecordBatches; !d.ended; {
		if cutOff(in) {
			return nil
		}
		b, rest, ok := cut(in)
		if !ok || !b.usual() {
			return d.decodeByClient(p)
		}
		in = rest
		if b.Next()-1 < d.Next { // not <=: the sum may wrap around
			continue
		}
		odd, err := d.batch(b)
		if err != nil {
			return err
		}
		if odd {
			return d.decodeByClient(p)
		}
		if !d.ended {
			d.Next = max(d.Next, b.Next()) // also past offsets that compaction removed
		}
	}
	return nil
}

// cutOff says that no whole batch is left: a broker cuts off its answer when it is full.
func cutOff(in []byte) bool {
	if len(in) <= magicAt+1 {
		return true
	}
	length := size(in)
	return length >= prefix && length > int64(len(in))
}

// usual says whether a Decoder reads the batch as the client would. With append time all records have the same time, set by the
// broker.
func (b Batch) usual() bool {
	return b.First() >= 0 && b.Count() >= 0 && b.LastDelta() >= 0 && b.attributes()&(attributeAppendTime|attributeNoTime) == 0 && b.checksumHolds()
}

// batch shows the records of a batch. It returns odd if the one at Next cannot be read here.
func (d *Decoder) batch(b Batch) (odd bool, err error) {
	in := b.records()
	if codec := b.codec(); codec != kgo.CodecNone {
		if in, err = d.Unpacker.bounded.Decompress(in, codec); err != nil {
			return true, nil
		}
	}
	if int64(b.Count()) > int64(len(in)) {
		return true, nil
	}
	first, firstTime := b.First(), b.firstTime()
	out := &d.record
	*out = events.Record{Topic: d.Topic, Partition: d.Partition, LeaderEpoch: b.LeaderEpoch(), Control: b.Control()}
	for range b.Count() {
		var r record
		var ok bool
		if r, in, ok = cutRecord(in); !ok {
			return true, nil
		}
		out.Offset = first + r.delta
		if out.Offset < d.Next {
			continue
		}
		if out.Offset >= d.End {
			d.ended = true
			return false, nil
		}
		at := firstTime + r.time
		if at < 0 || at > latestTime {
			return true, nil
		}
		out.Timestamp, out.Key, out.Value = events.Instant(at), r.key, r.value
		if out.Headers, ok = d.cutHeaders(r.headers); !ok {
			return true, nil
		}
		d.Next = out.Offset + 1
		if err := d.Show(out); err != nil {
			return false, err
		}
	}
	return false, nil
}

// latestTime is the year 2248. The client counts in nanoseconds and wraps around soon after.
const latestTime = int64(1) << 43

func (d *Decoder) cutHeaders(in []byte) ([]events.Header, bool) {
	n, in, ok := cutInt32(in)
	if !ok || n < 0 || n > int64(len(in)) {
		return nil, false
	}
	if n == 0 {
		return nil, true
	}
	if d.ReuseHeaders {
		d.headers = d.headers[:0]
	} else if int64(cap(d.headers)-len(d.headers)) < n {
		d.headers = make([]events.Header, 0, max(n, headersAtOnce))
	}
	from := len(d.headers)
	for i := range n {
		var key, value []byte
		if key, in, ok = cutBytes(in); ok {
			value, in, ok = cutBytes(in)
		}
		if !ok {
			return nil, false
		}
		d.headers = append(d.headers, events.Header{Key: d.names.at(int(i), key), Value: value})
	}
	return d.headers[from:len(d.headers):len(d.headers)], true
}

// decodeByClient makes the client read the answer from Next on.
func (d *Decoder) decodeByClient(p *kmsg.FetchResponseTopicPartition) error {
	got, next, err := d.Unpacker.ByClient(p, Position{Topic: d.Topic, Partition: d.Partition, Offset: d.Next})
	if err != nil {
		return &Error{Topic: d.Topic, Partition: d.Partition, Offset: d.Next, Err: err}
	}
	list := Records(got)
	for i := range list {
		r := &list[i]
		if r.Offset >= d.End {
			d.ended = true
			return nil
		}
		d.Next = r.Offset + 1
		if err := d.Show(r); err != nil {
			return err
		}
	}
	d.Next = next
	return nil
}

// Position is where to continue reading.
type Position struct {
	Topic     string
	Partition int32
	Offset    int64
	// Committed leaves out the records of aborted transactions.
	Committed bool
}

// ByClient lets the client decode an answer. It returns the records, markers included, and the offset to read next. The records before an unreadable batch
// are returned without its error, which comes when that offset is read.
func (u Unpacker) ByClient(p *kmsg.FetchResponseTopicPartition, at Position) ([]*kgo.Record, int64, error) {
	isolation := kgo.ReadUncommitted()
	if at.Committed {
		isolation = kgo.ReadCommitted()
	}
	fp, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		KeepControlRecords: true, IsolationLevel: isolation, Offset: at.Offset, Topic: at.Topic, Partition: at.Partition,
	}, p, u.bounded, nil)
	if n := len(fp.Records); fp.Err != nil {
		if n == 0 {
			return nil, 0, fp.Err
		}
		next = fp.Records[n-1].Offset + 1 // the client skips a record of an unknown format
	}
	return fp.Records, next, nil
}

// headerNames returns known names of headers without copying them again: most records have the same headers in the same order.
type headerNames struct {
	last []string
	all  map[string]string
}

const (
	// headerPlaces bounds the header positions for which the last name is remembered.
	headerPlaces = 32
	// headerNamesMax bounds the names that are kept, since anyone can write records with arbitrary header names.
	headerNamesMax = 256
)

// at returns the name of the header at a place.
func (n *headerNames) at(i int, b []byte) string {
	if i < len(n.last) && n.last[i] == string(b) {
		return n.last[i]
	}
	name, ok := n.all[string(b)]
	if !ok {
		name = string(b)
		if n.all == nil {
			n.all = map[string]string{}
		}
		if len(n.all) < headerNamesMax {
			n.all[name] = name
		}
	}
	switch {
	case i < len(n.last):
		n.last[i] = name
	case i == len(n.last) && i < headerPlaces:
		n.last = append(n.last, name)
	}
	return name
}
