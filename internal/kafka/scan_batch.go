package kafka

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The layout of a batch of format 2 (the only one since Kafka 0.11), as far as Scan and ReadRange look at it.
const (
	batchHead    = 61 // up to the records
	batchLength  = 12 // base offset and length, which the length does not count
	batchControl = 1 << 5
)

// rawBatch is a batch whose records were not taken apart yet.
type rawBatch struct {
	base       int64
	epoch      int32
	attributes int16
	lastDelta  int32
	// time is that of the first record.
	time    int64
	count   int32
	records []byte
}

func (b *rawBatch) control() bool { return b.attributes&batchControl != 0 }

func (b *rawBatch) codec() kgo.CompressionCodecType {
	return kgo.CompressionCodecType(b.attributes & 7)
}

// cutBatch returns the first batch and what follows it; false where no whole one is left.
func cutBatch(in []byte) (b rawBatch, rest []byte, ok bool) {
	if len(in) < batchHead {
		return b, nil, false
	}
	length := int64(int32(binary.BigEndian.Uint32(in[8:]))) + batchLength
	if length < batchHead || length > int64(len(in)) || in[16] != 2 {
		return b, nil, false
	}
	return rawBatch{
		base:       int64(binary.BigEndian.Uint64(in)),
		epoch:      int32(binary.BigEndian.Uint32(in[batchEpochAt:])),
		attributes: int16(binary.BigEndian.Uint16(in[21:])),
		lastDelta:  int32(binary.BigEndian.Uint32(in[23:])),
		time:       int64(binary.BigEndian.Uint64(in[27:])),
		count:      int32(binary.BigEndian.Uint32(in[57:])),
		records:    in[batchHead:length],
	}, in[length:], true
}

// rawRecord is a record whose headers were not taken apart yet.
type rawRecord struct {
	time, delta         int64
	key, value, headers []byte
}

func cutRecord(in []byte) (r rawRecord, rest []byte, err error) {
	length, in, err := cutVarint(in)
	if err != nil || length < 1 || length > int64(len(in)) {
		return r, nil, errBadBatch
	}
	body, rest := in[1:length], in[length:] // behind the attributes, of which none is used
	if r.time, body, err = cutVarint(body); err == nil {
		r.delta, body, err = cutVarint(body)
	}
	if err == nil {
		r.key, body, err = cutBytes(body)
	}
	if err == nil {
		r.value, body, err = cutBytes(body)
	}
	r.headers = body
	return r, rest, err
}

func cutVarint(in []byte) (int64, []byte, error) {
	v, n := binary.Varint(in)
	if n <= 0 {
		return 0, nil, errBadBatch
	}
	return v, in[n:], nil
}

// cutBytes returns bytes with their length before them; nil where that is negative.
func cutBytes(in []byte) (b, rest []byte, err error) {
	n, in, err := cutVarint(in)
	if err != nil || n > int64(len(in)) {
		return nil, nil, errBadBatch
	}
	if n < 0 {
		return nil, in, nil
	}
	return in[:n:n], in[n:], nil
}

// cutShort is cutRecord for who takes nothing that the client would not take: all numbers but the time have 32 bits at
// most, in five bytes at most.
func cutShort(in []byte) (r rawRecord, rest []byte, ok bool) {
	length, in, ok := cutInt32(in)
	if !ok || length < 1 || length > int64(len(in)) {
		return r, nil, false
	}
	body, rest := in[1:length], in[length:] // behind the attributes, of which none is used
	var n int
	if r.time, n = binary.Varint(body); n <= 0 {
		return r, nil, false
	}
	if r.delta, body, ok = cutInt32(body[n:]); ok {
		r.key, body, ok = cutPart(body)
	}
	if ok {
		r.value, body, ok = cutPart(body)
	}
	r.headers = body
	return r, rest, ok
}

// cutInt32 returns a number in zigzag; most have one byte.
func cutInt32(in []byte) (int64, []byte, bool) {
	if len(in) > 0 && in[0] < 0x80 {
		return int64(in[0]>>1) ^ -int64(in[0]&1), in[1:], true
	}
	v, n := binary.Varint(in)
	if n <= 0 || n > binary.MaxVarintLen32 || v != int64(int32(v)) {
		return 0, nil, false
	}
	return v, in[n:], true
}

// cutPart returns bytes with their length before them; nil where that is negative.
func cutPart(in []byte) (b, rest []byte, ok bool) {
	n, in, ok := cutInt32(in)
	if !ok || n > int64(len(in)) {
		return nil, nil, false
	}
	if n < 0 {
		return nil, in, true
	}
	return in[:n:n], in[n:], true
}
