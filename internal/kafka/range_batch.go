package kafka

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/sagalog/sagalog/events"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// rangeWalk shows the records of one answer after another. It takes batches apart by itself, because the client makes a
// piece of memory of each header's name, and a fact has ten. It verifies what the client verifies, and where a batch is
// not as a broker of today writes it, the client has the last word on it and its errors.
type rangeWalk struct {
	at   fetchAt
	next int64
	to   int64
	show func(events.Record) error
	// lent says that show keeps nothing of a record but bytes of key and values.
	lent bool
	// headers is room: that of the record before if they are lent, else what is left of a piece.
	headers []events.Header
	names   headerNames
	ended   bool
}

// headersAtOnce is how many headers get one piece of memory, where they are kept.
const headersAtOnce = 512

// answer shows what a broker's answer holds between next and to, and moves next behind it.
func (w *rangeWalk) answer(p *kmsg.FetchResponseTopicPartition) error {
	for in := p.RecordBatches; !w.ended; {
		if cutOff(in) {
			return nil
		}
		b, rest, ok := cutBatch(in)
		if !ok || !w.usual(in[:len(in)-len(rest)], &b) {
			return w.byClient(p)
		}
		in = rest
		last := b.base + int64(b.lastDelta)
		if last < w.next {
			continue
		}
		odd, err := w.batch(&b)
		if err != nil {
			return err
		}
		if odd {
			return w.byClient(p)
		}
		if !w.ended {
			w.next = max(w.next, last+1) // also behind what compaction took
		}
	}
	return nil
}

// cutOff says that no whole batch is left: a broker cuts off where its answer is full.
func cutOff(in []byte) bool {
	if len(in) <= batchMagicAt+1 {
		return true
	}
	length := int64(int32(binary.BigEndian.Uint32(in[batchLengthAt:])))
	return length >= 0 && length+batchPrefix > int64(len(in))
}

// attributeAppendTime says that the batch has one time, which the broker gave it.
const attributeAppendTime = 1 << 3

// usual says whether the walk can read the batch as the client would; raw is all of it.
func (w *rangeWalk) usual(raw []byte, b *rawBatch) bool {
	return crc32.Checksum(raw[batchChecked:], castagnoli) == binary.BigEndian.Uint32(raw[batchCRCAt:]) &&
		b.base >= 0 && b.count >= 0 && b.lastDelta >= 0 && b.attributes&attributeAppendTime == 0
}

// batch shows the records of a batch. odd says that the one at next cannot be read here.
func (w *rangeWalk) batch(b *rawBatch) (odd bool, err error) {
	in := b.records
	if codec := b.codec(); codec != kgo.CodecNone {
		if in, err = w.at.unpack.bounded.Decompress(in, codec); err != nil {
			return true, nil
		}
	}
	if int64(b.count) > int64(len(in)) {
		return true, nil
	}
	record := events.Record{Topic: w.at.topic, Partition: w.at.partition, LeaderEpoch: b.epoch, Control: b.control()}
	for range b.count {
		var r rawRecord
		var ok bool
		if r, in, ok = cutShort(in); !ok {
			return true, nil
		}
		record.Offset = b.base + r.delta
		if record.Offset < w.next {
			continue
		}
		if record.Offset >= w.to {
			w.ended = true
			return false, nil
		}
		at := b.time + r.time
		if at < 0 || at > latestTime {
			return true, nil
		}
		record.Timestamp, record.Key, record.Value = events.Instant(at), r.key, r.value
		if record.Headers, ok = w.cutHeaders(r.headers); !ok {
			return true, nil
		}
		w.next = record.Offset + 1
		if err := w.show(record); err != nil {
			return false, err
		}
	}
	return false, nil
}

// latestTime is the year 2242. The client counts nanoseconds, and what it makes of later times is its own.
const latestTime = int64(1) << 43

func (w *rangeWalk) cutHeaders(in []byte) ([]events.Header, bool) {
	n, in, ok := cutInt32(in)
	if !ok || n < 0 || n > int64(len(in)) {
		return nil, false
	}
	if n == 0 {
		return nil, true
	}
	if w.lent {
		w.headers = w.headers[:0]
	} else if int64(cap(w.headers)-len(w.headers)) < n {
		w.headers = make([]events.Header, 0, max(n, headersAtOnce))
	}
	from := len(w.headers)
	for i := range n {
		var key, value []byte
		if key, in, ok = cutPart(in); ok {
			value, in, ok = cutPart(in)
		}
		if !ok {
			return nil, false
		}
		w.headers = append(w.headers, events.Header{Key: w.names.at(int(i), key), Value: value})
	}
	return w.headers[from:len(w.headers):len(w.headers)], true
}

// byClient has the client read the answer from next on.
func (w *rangeWalk) byClient(p *kmsg.FetchResponseTopicPartition) error {
	at := w.at
	at.offset = w.next
	got, err := at.decode(p)
	if err != nil {
		return fmt.Errorf("read %s/%d from %d: %w", at.topic, at.partition, at.offset, typed(err, at.topic, at.partition, at.offset))
	}
	for _, r := range fromKgo(got.records) {
		if r.Offset >= w.to {
			w.ended = true
			return nil
		}
		w.next = r.Offset + 1
		if err := w.show(r); err != nil {
			return err
		}
	}
	w.next = got.next
	return nil
}

// headerNames has the names of headers without a copy where they were met before: mostly they stand in one order.
type headerNames struct {
	last []string
	all  map[string]string
}

// headerPlaces bounds the places at which the last name is known.
const headerPlaces = 32

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
		if len(n.all) < maxScanKeys {
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
