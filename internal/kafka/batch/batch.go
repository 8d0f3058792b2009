package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The layout of a batch of format 2, the only one since Kafka 0.11. All numbers are big-endian.
const (
	lengthAt     = 8
	prefix       = 12 // base offset and length, which the length does not count
	epochAt      = 12
	magicAt      = 16
	crcAt        = 17
	checkedFrom  = 21 // the CRC covers the bytes after it; nothing covers those before it
	attributesAt = 21
	lastDeltaAt  = 23
	firstTimeAt  = 27
	maxTimeAt    = 35
	countAt      = 57
	headerSize   = 61

	format = 2

	attributeCodec         = 7
	attributeAppendTime    = 1 << 3
	attributeTransactional = 1 << 4
	attributeControl       = 1 << 5
	// attributeNoTime is not in the format. The client takes such a batch for one with append time.
	attributeNoTime = 1 << 7
)

// HeaderSize is how many bytes precede the records of a batch.
const HeaderSize = headerSize

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Batch is one whole batch, not decoded yet.
type Batch struct{ raw []byte }

// First is the offset of the first record.
func (b Batch) First() int64 { return int64(binary.BigEndian.Uint64(b.raw)) }

// Next is the offset after the batch.
func (b Batch) Next() int64 { return b.First() + int64(b.LastDelta()) + 1 }

// LastDelta is the last offset minus the first.
func (b Batch) LastDelta() int32 { return int32(binary.BigEndian.Uint32(b.raw[lastDeltaAt:])) }

// Count is the number of records: less than the number of offsets in a compacted topic.
func (b Batch) Count() int32 { return int32(binary.BigEndian.Uint32(b.raw[countAt:])) }

// LeaderEpoch is the epoch of the leader that appended the batch. No checksum covers it.
func (b Batch) LeaderEpoch() int32 { return int32(binary.BigEndian.Uint32(b.raw[epochAt:])) }

// MaxTime is the latest timestamp of a record, in milliseconds.
func (b Batch) MaxTime() int64 { return int64(binary.BigEndian.Uint64(b.raw[maxTimeAt:])) }

// Size is the length in bytes.
func (b Batch) Size() int { return len(b.raw) }

// Transactional says that the batch is part of a transaction: its data, or the marker that ends it.
func (b Batch) Transactional() bool { return b.attributes()&attributeTransactional != 0 }

// Control says that the batch holds a marker and no data.
func (b Batch) Control() bool { return b.attributes()&attributeControl != 0 }

func (b Batch) attributes() uint16 { return binary.BigEndian.Uint16(b.raw[attributesAt:]) }

// firstTime is the base of the records' relative timestamps.
func (b Batch) firstTime() int64 { return int64(binary.BigEndian.Uint64(b.raw[firstTimeAt:])) }

func (b Batch) codec() kgo.CompressionCodecType {
	return kgo.CompressionCodecType(b.attributes() & attributeCodec)
}

func (b Batch) records() []byte { return b.raw[headerSize:] }

func (b Batch) checksumHolds() bool {
	return crc32.Checksum(b.raw[checkedFrom:], castagnoli) == binary.BigEndian.Uint32(b.raw[crcAt:])
}

// cut splits in into its first batch and the rest. ok is false if in does not begin with a whole batch of our format. The checksum is
// not verified.
func cut(in []byte) (b Batch, rest []byte, ok bool) {
	if len(in) < headerSize {
		return b, nil, false
	}
	length := size(in)
	if length < headerSize || length > int64(len(in)) || in[magicAt] != format {
		return b, nil, false
	}
	return Batch{in[:length]}, in[length:], true
}

// size is the length that a batch states in its header.
func size(in []byte) int64 { return int64(int32(binary.BigEndian.Uint32(in[lengthAt:]))) + prefix }

// Parse returns the batch at the start of raw, or an error if it is not whole or its checksum is wrong.
func Parse(raw []byte) (Batch, error) {
	b, _, ok := cut(raw)
	switch {
	case len(raw) < headerSize:
		return Batch{}, errors.New("a batch is cut off")
	case !ok && raw[magicAt] != format && size(raw) >= headerSize && size(raw) <= int64(len(raw)):
		return Batch{}, fmt.Errorf("a batch has format %d instead of %d", raw[magicAt], format)
	case !ok:
		return Batch{}, fmt.Errorf("a batch claims to have %d bytes, but %d are there", size(raw), len(raw))
	case !b.checksumHolds():
		return Batch{}, errors.New("the CRC of a batch is wrong")
	}
	return b, nil
}

// WholeBatchFollows looks anywhere in raw for a whole batch with offset after or higher. If there is one, the bytes before it are
// damage in the middle of a log and not a torn end, whatever a damaged length field says.
func WholeBatchFollows(raw []byte, after int64) bool {
	for i := 0; i+headerSize <= len(raw); i++ {
		if raw[i+magicAt] != format || raw[i] != 0 {
			continue // the first byte of an offset is 0 for the next million years
		}
		if b, _, ok := cut(raw[i:]); ok && b.First() >= after && b.checksumHolds() {
			return true
		}
	}
	return false
}

// record is one record whose headers are not decoded yet.
type record struct {
	time, delta         int64
	key, value, headers []byte
}

// cutRecord accepts only records that the client accepts: all numbers except the time have at most 32 bits, in at most five
// bytes.
func cutRecord(in []byte) (r record, rest []byte, ok bool) {
	length, in, ok := cutInt32(in)
	if !ok || length < 1 || length > int64(len(in)) {
		return r, nil, false
	}
	body, rest := in[1:length], in[length:] // after the attributes, which are unused
	var n int
	if r.time, n = binary.Varint(body); n <= 0 {
		return r, nil, false
	}
	if r.delta, body, ok = cutInt32(body[n:]); ok {
		r.key, body, ok = cutBytes(body)
	}
	if ok {
		r.value, body, ok = cutBytes(body)
	}
	r.headers = body
	return r, rest, ok
}

// cutInt32 returns a zigzag number; most take one byte.
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

// cutBytes returns bytes that follow their length; nil if the length is negative.
func cutBytes(in []byte) (b, rest []byte, ok bool) {
	n, in, ok := cutInt32(in)
	if !ok || n > int64(len(in)) {
		return nil, nil, false
	}
	if n < 0 {
		return nil, in, true
	}
	return in[:n:n], in[n:], true
}
