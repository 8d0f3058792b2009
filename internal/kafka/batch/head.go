package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Bytes returns the batch as the broker sent it.
func (b Batch) Bytes() []byte { return b.raw }

// Each calls fn with each whole batch of an answer whose last offset is at or after from, in order, until fn returns false. It returns
// an error for what is not a batch of the current format, or is damaged.
func Each(answer []byte, from int64, fn func(Batch) bool) error {
	for in := answer; !cutOff(in); {
		b, err := Parse(in)
		if err != nil {
			return err
		}
		if in = in[b.Size():]; b.Next()-1 >= from && !fn(b) {
			return nil
		}
	}
	return nil
}

// Whole returns how many bytes at the beginning of raw are whole batches, as their lengths say, and the offset after them.
func Whole(raw []byte) (n int, next int64) {
	for !cutOff(raw[n:]) && size(raw[n:]) >= headerSize {
		next = Batch{raw[n:]}.Next()
		n += int(size(raw[n:]))
	}
	return n, next
}

// Head returns the batch without its records from the offset end on, not compressed. It must have a record before that.
func (u Unpacker) Head(b Batch, end int64) (Batch, error) {
	in := b.records()
	if codec := b.codec(); codec != kgo.CodecNone {
		var err error
		if in, err = u.bounded.Decompress(in, codec); err != nil {
			return Batch{}, fmt.Errorf("unpack the batch at offset %d: %w", b.First(), err)
		}
	}
	var kept, last, latest int64
	rest := in
	for range b.Count() {
		r, next, ok := cutRecord(rest)
		if !ok {
			return Batch{}, fmt.Errorf("the batch at offset %d cannot be decoded", b.First())
		}
		if b.First()+r.delta >= end {
			break
		}
		kept, last, latest, rest = kept+1, r.delta, max(latest, b.firstTime()+r.time), next
	}
	if kept == 0 {
		return Batch{}, errors.New("no record of the batch is before the end")
	}
	raw := slices.Concat(b.raw[:headerSize], in[:len(in)-len(rest)])
	binary.BigEndian.PutUint32(raw[lengthAt:], uint32(len(raw)-prefix))
	binary.BigEndian.PutUint16(raw[attributesAt:], b.attributes()&^attributeCodec)
	binary.BigEndian.PutUint32(raw[lastDeltaAt:], uint32(last))
	if b.attributes()&attributeAppendTime == 0 { // otherwise it is the time of all records
		binary.BigEndian.PutUint64(raw[maxTimeAt:], uint64(latest))
	}
	binary.BigEndian.PutUint32(raw[countAt:], uint32(kept))
	binary.BigEndian.PutUint32(raw[crcAt:], crc32.Checksum(raw[checkedFrom:], castagnoli))
	return Batch{raw}, nil
}
