package events

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/sagalog/sagalog/internal/jsontext"
)

// Kind is a kind of entity in the state.
type Kind string

// The kinds of entities.
const (
	KindPartition  Kind = "partition"
	KindDefinition Kind = "definition"
	KindHeld       Kind = "held"
	// KindTask is the head of a task; the other kinds of its rows follow. See "The rows of a task" in the package comment.
	KindTask    Kind = "task"
	KindInput   Kind = "input"
	KindOutput  Kind = "output"
	KindStep    Kind = "step"
	KindRequest Kind = "request"
	// KindLimit is a limit, and KindPermit a link that it knows.
	KindLimit  Kind = "limit"
	KindPermit Kind = "permit"
	// KindSchedule is a schedule, in the partition that is its home.
	KindSchedule Kind = "schedule"
)

// hashEntity returns the first 128 bits of SHA-256 over kind, ID and encoding, separated by NUL.
func hashEntity(k Kind, id string, encoding []byte) Hash {
	var room [2048]byte
	b := append(append(append(append(room[:0], k...), 0), id...), 0)
	if len(encoding) > cap(b)-len(b) { // not to be copied
		return hashOf(sumOf(b, encoding))
	}
	sum := sha256.Sum256(append(b, encoding...))
	return hashOf(&sum)
}

func hashOf(sum *[sha256.Size]byte) Hash {
	return Hash{binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16])}
}

// entityWriter writes entities, one after another, into the same memory, in the form that the state hash covers.
type entityWriter struct{ jsontext.Writer }

// entityBytes is the initial size of its buffer.
const entityBytes = 4 << 10

// write writes kind, ID and encoding, separated by NUL. It returns where the encoding begins.
func (e *entityWriter) write(k Kind, id string, v any) (from int, err error) {
	e.B = e.B[:0]
	return e.add(k, id, v)
}

// add is write, after what was written before.
func (e *entityWriter) add(k Kind, id string, v any) (from int, err error) {
	from = e.begin(k, id)
	return from, e.value(v)
}

// begin writes what precedes the encoding.
func (e *entityWriter) begin(k Kind, id string) (from int) {
	e.B = append(append(append(append(e.B, k...), 0), id...), 0)
	return len(e.B)
}

// value writes an encoding.
func (e *entityWriter) value(v any) (err error) {
	from := len(e.B)
	e.Odd = false
	switch v := v.(type) {
	case *Task:
		v.write(&e.Writer)
	case *Step:
		v.write(&e.Writer)
	case *requestRow:
		v.write(&e.Writer)
	case json.RawMessage:
		e.Raw("", v)
	case *PartitionState:
		v.write(&e.Writer)
	case *HeldRequest:
		v.write(&e.Writer)
	case *Limit:
		v.write(&e.Writer)
	case *Permit:
		v.write(&e.Writer)
	case *Definition:
		v.write(&e.Writer)
	case *Schedule:
		v.write(&e.Writer)
	}
	if e.Odd {
		err = e.Marshalled(from, v)
	}
	return err
}

// hash returns the hash of the entity that was written.
func (e *entityWriter) hash() Hash {
	sum := sha256.Sum256(e.B)
	return hashOf(&sum)
}

// DecodeBrief reads the head of a task without its input, its output and its steps. The result is for lists only; it has no hash.
func DecodeBrief(head []byte) (*Task, error) {
	type members Task // a type without its methods
	var brief struct {
		members
		Input    unread `json:"input"`
		Output   unread `json:"output"`
		Held     unread `json:"held"`
		Requests unread `json:"requests"`
		Steps    unread `json:"steps"`
		Rows     unread `json:"rows"`
	}
	if err := json.Unmarshal(head, &brief); err != nil {
		return nil, fmt.Errorf("read a task of the store: %w", err)
	}
	return (*Task)(&brief.members), nil
}

// unread is a member whose value is skipped.
type unread struct{}

func (*unread) UnmarshalJSON([]byte) error { return nil }
