package projector

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// formatVersion is the version of this package's keys and values, not of the facts. Any change raises it, and the store is
// then rebuilt.
const formatVersion = 9

// TopicID is Kafka's identifier of a topic: a topic that was deleted and recreated has a different one.
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

// taskRow is the row of a task's head.
type taskRow struct {
	// others is how many other rows the task has.
	others uint64
	// encoding and keys share the bytes of the row.
	encoding, keys []byte
}

// appendTaskLead appends what precedes the encoding in the row of a head.
func appendTaskLead(dst []byte, others int, encoding []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, uint64(others)), uint64(len(encoding)))
}

func readTaskRow(value []byte) (taskRow, error) {
	others, lead := binary.Uvarint(value)
	if lead <= 0 {
		return taskRow{}, fmt.Errorf("%w: a task row of %d bytes contains an invalid number of rows", ErrDamaged, len(value))
	}
	n, more := binary.Uvarint(value[lead:])
	lead += max(more, 0)
	if more <= 0 || n > uint64(len(value)-lead) {
		return taskRow{}, fmt.Errorf("%w: a task row of %d bytes contains an invalid length", ErrDamaged, len(value))
	}
	end := lead + int(n)
	return taskRow{others, value[lead:end:end], value[end:]}, nil
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
