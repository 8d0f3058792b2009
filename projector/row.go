package projector

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/sagalog/sagalog/events"
)

// formatVersion is that of the keys and values of this package, not of the facts. A change of any of them raises it,
// and the store is then rebuilt.
const formatVersion = 1

// TopicID is Kafka's identity of a topic: a topic that was deleted and made again has another.
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

// meta is what a partition has beside its rows. Counts are kept here, so that nobody counts rows.
type meta struct {
	Next   int64        `json:"next"`
	Sum    events.Hash  `json:"sum"`
	Runs   []events.Run `json:"runs,omitempty"`
	Anchor Anchor       `json:"anchor,omitzero"`
	// Due counts the tasks with a due row.
	Due       int64                      `json:"due,omitzero"`
	Unplanned int64                      `json:"unplanned,omitzero"`
	States    map[events.TaskState]int64 `json:"states,omitempty"`
	// Ready counts the rows of the queue by agent.
	Ready map[string]int64 `json:"ready,omitempty"`
}

func (m *meta) clone() meta {
	c := *m
	c.States, c.Ready = maps.Clone(m.States), maps.Clone(m.Ready)
	if c.States == nil {
		c.States = map[events.TaskState]int64{}
	}
	if c.Ready == nil {
		c.Ready = map[string]int64{}
	}
	return c
}

// count adds n times what a task's keys weigh; nil keys weigh nothing.
func (m *meta) count(k *events.Keys, n int64) {
	if k == nil {
		return
	}
	add(m.States, k.State, n)
	if k.Due != 0 {
		m.Due += n
	}
	if k.Unplanned {
		m.Unplanned += n
	}
	for i := range k.Ready {
		add(m.Ready, k.Ready[i].Agent, n)
	}
}

// add keeps no zeros, so that equal counts are equal maps.
func add[K comparable](counts map[K]int64, key K, n int64) {
	if counts[key] += n; counts[key] == 0 {
		delete(counts, key)
	}
}

func (m *meta) live() int64 {
	var n int64
	for state, count := range m.States {
		if !state.Ended() {
			n += count
		}
	}
	return n
}

// appendTaskHead writes what stands before the encoding in a task's row.
func appendTaskHead(dst []byte, encoding []byte) []byte {
	return binary.AppendUvarint(dst, uint64(len(encoding)))
}

// splitTaskRow returns the two halves of a task's row, which share its bytes.
func splitTaskRow(value []byte) (encoding, keys []byte, err error) {
	n, head := binary.Uvarint(value)
	if head <= 0 || n > uint64(len(value)-head) {
		return nil, nil, fmt.Errorf("%w: a task's row of %d bytes has a wrong length in it", ErrDamaged, len(value))
	}
	end := head + int(n)
	return value[head:end:end], value[end:], nil
}

func decodeKeys(b []byte) (*events.Keys, error) {
	k := new(events.Keys)
	if err := json.Unmarshal(b, k); err != nil {
		return nil, fmt.Errorf("%w: keys of a task: %w", ErrDamaged, err)
	}
	return k, nil
}

func readPartition(b []byte) int32 { return int32(binary.BigEndian.Uint32(b)) }
