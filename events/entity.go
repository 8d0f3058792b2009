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

// The kinds of entities. Later versions add schedules, limits and jobs.
const (
	KindPartition  Kind = "partition"
	KindDefinition Kind = "definition"
	KindTask       Kind = "task"
	KindHeld       Kind = "held"
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
	e.B, e.Odd = append(append(append(append(e.B[:0], k...), 0), id...), 0), false
	from = len(e.B)
	switch v := v.(type) {
	case *Task:
		v.write(&e.Writer)
	case *PartitionState:
		v.write(&e.Writer)
	case *HeldRequest:
		v.write(&e.Writer)
	case *Definition:
		v.write(&e.Writer)
	}
	if e.Odd {
		err = e.Marshalled(from, v)
	}
	return from, err
}

// hash returns the hash of the entity that was written.
func (e *entityWriter) hash() Hash {
	sum := sha256.Sum256(e.B)
	return hashOf(&sum)
}

// DecodeTask reads a task's encoding. The task shares no bytes with it: a store's value is valid only for a moment.
func DecodeTask(b []byte) (*Task, error) {
	t := new(Task)
	r := jsontext.NewReader(b)
	if t.read(&r); !r.Done() {
		t = new(Task)
		if err := json.Unmarshal(b, t); err != nil {
			return nil, fmt.Errorf("read a task of the store: %w", err)
		}
	}
	t.hash = hashEntity(KindTask, t.ID, b)
	return t, nil
}

// DecodeBrief reads a task's encoding without what may be large: the input, the output, the requests and the steps. The
// result is for lists only; it has no hash.
func DecodeBrief(b []byte) (*Task, error) {
	type members Task // without its methods
	var brief struct {
		members
		Input    unread `json:"input"`
		Output   unread `json:"output"`
		Held     unread `json:"held"`
		Requests unread `json:"requests"`
		Steps    unread `json:"steps"`
	}
	if err := json.Unmarshal(b, &brief); err != nil {
		return nil, fmt.Errorf("read a task of the store: %w", err)
	}
	return (*Task)(&brief.members), nil
}

// unread is a member whose value is skipped.
type unread struct{}

func (*unread) UnmarshalJSON([]byte) error { return nil }
