package projector

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// formatVersion is the version of this package's keys and values, not of the facts. Any change raises it, and the store is
// then rebuilt.
const formatVersion = 5

// TopicID is Kafka's identifier of a topic: a topic that was deleted and recreated has another.
type TopicID [16]byte

// String returns 32 hexadecimal digits.
func (t TopicID) String() string { return hex.EncodeToString(t[:]) }

// MarshalText writes 32 hexadecimal digits.
func (t TopicID) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, t[:]), nil }

// UnmarshalText reads 32 hexadecimal digits.
func (t *TopicID) UnmarshalText(b []byte) error {
	raw, err := hex.DecodeString(string(b))
	if err != nil || len(raw) != len(t) {
		return fmt.Errorf("%q is not a topic ID of 32 hexadecimal digits", b)
	}
	copy(t[:], raw)
	return nil
}

// appendTaskHead appends what precedes the encoding in a task's row.
func appendTaskHead(dst []byte, encoding []byte) []byte {
	return binary.AppendUvarint(dst, uint64(len(encoding)))
}

// splitTaskRow returns the two halves of a task's row, which share its bytes.
func splitTaskRow(value []byte) (encoding, keys []byte, err error) {
	n, head := binary.Uvarint(value)
	if head <= 0 || n > uint64(len(value)-head) {
		return nil, nil, fmt.Errorf("%w: a task row of %d bytes contains an invalid length", ErrDamaged, len(value))
	}
	end := head + int(n)
	return value[head:end:end], value[end:], nil
}

func decodeKeys(b []byte) (*events.Keys, error) {
	k, err := events.DecodeKeys(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return k, nil
}

func readPartition(b []byte) int32 { return int32(binary.BigEndian.Uint32(b)) }

// partitionOf is readPartition for a key that may be too short.
func partitionOf(b []byte) (int32, error) {
	if len(b) < partitionSize {
		return 0, fmt.Errorf("%w: a row has a key that is too short", ErrDamaged)
	}
	return readPartition(b), nil
}
