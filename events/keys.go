package events

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// ReadyKey is a step that waits only for a place in its agent's window: a row of the queue.
type ReadyKey struct {
	Agent     string    `json:"agent"`
	Path      string    `json:"path"`
	Operation Operation `json:"operation"`
	// Since orders the steps of equal priority: the time at which the task was accepted.
	Since Instant `json:"since"`
	// Priority is the task's; a higher one runs first.
	Priority int `json:"priority,omitzero"`
}

// Keys are what a store's indexes need to know of a task. They stand beside its encoding and are no part of the
// state hash.
type Keys struct {
	State       TaskState         `json:"state"`
	Workflow    string            `json:"workflow"`
	SubmittedAt Instant           `json:"submitted_at"`
	EndedAt     Instant           `json:"ended_at,omitzero"`
	Labels      map[string]string `json:"labels,omitempty"`
	// Due is when the owner must look at the task next.
	Due   Instant    `json:"due,omitzero"`
	Ready []ReadyKey `json:"ready,omitempty"`
	// Unplanned marks a live task that was folded from the log and not by its owner's decision: a follow-up may be
	// due, so a new owner plans it.
	Unplanned bool `json:"unplanned,omitzero"`
}

// keysVersion is the first byte of keys in binary.
const keysVersion = 1

// What follows the state, the workflow and the time of submission, as bits of one byte.
const (
	keysEnded     = 1
	keysLabels    = 2
	keysDue       = 4
	keysReady     = 8
	keysUnplanned = 16
	keysAll       = 31
)

// keyWords are the texts that a byte stands for. The byte 0 stands for a text that is not among them and follows.
// A code that was written once is never given to another text.
var keyWords = [...]string{
	1: string(Pending), 2: string(Processing), 3: string(Processed), 4: string(Undoing), 5: string(Undone), 6: string(Parked),
	7: string(Do), 8: string(Undo),
}

var errKeys = errors.New("keys of a task are damaged")

// AppendKeys appends keys in binary: equal keys have the same bytes. Times but the first are differences from that of
// the submission, which take two or three bytes instead of six.
func AppendKeys(dst []byte, k *Keys) []byte {
	dst = append(dst, keysVersion)
	dst = appendWord(dst, string(k.State))
	dst = appendText(dst, k.Workflow)
	dst = binary.AppendVarint(dst, int64(k.SubmittedAt))
	dst = append(dst, k.holds())
	if k.EndedAt != 0 {
		dst = binary.AppendVarint(dst, int64(k.EndedAt-k.SubmittedAt))
	}
	if len(k.Labels) > 0 {
		dst = appendLabels(dst, k.Labels)
	}
	if k.Due != 0 {
		dst = binary.AppendVarint(dst, int64(k.Due-k.SubmittedAt))
	}
	if len(k.Ready) > 0 {
		dst = binary.AppendUvarint(dst, uint64(len(k.Ready)))
	}
	for i := range k.Ready {
		r := &k.Ready[i]
		dst = appendText(dst, r.Agent)
		dst = appendText(dst, r.Path)
		dst = appendWord(dst, string(r.Operation))
		dst = binary.AppendVarint(dst, int64(r.Since-k.SubmittedAt))
		dst = binary.AppendVarint(dst, int64(r.Priority))
	}
	return dst
}

func (k *Keys) holds() (bits byte) {
	if k.EndedAt != 0 {
		bits |= keysEnded
	}
	if len(k.Labels) > 0 {
		bits |= keysLabels
	}
	if k.Due != 0 {
		bits |= keysDue
	}
	if len(k.Ready) > 0 {
		bits |= keysReady
	}
	if k.Unplanned {
		bits |= keysUnplanned
	}
	return bits
}

func appendLabels(dst []byte, labels map[string]string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(labels)))
	if len(labels) == 1 {
		for name, value := range labels {
			dst = appendText(appendText(dst, name), value)
		}
		return dst
	}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		dst = appendText(appendText(dst, name), labels[name])
	}
	return dst
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendWord(dst []byte, s string) []byte {
	for code := 1; code < len(keyWords); code++ {
		if keyWords[code] == s {
			return append(dst, byte(code))
		}
	}
	return appendText(append(dst, 0), s)
}

// DecodeKeys reads what AppendKeys wrote. They share no bytes with b.
func DecodeKeys(b []byte) (*Keys, error) {
	k := new(Keys)
	if len(b) == 0 || b[0] != keysVersion {
		return nil, fmt.Errorf("%w: they are of no version that this one reads", errKeys)
	}
	r := keyReader{rest: string(b[1:])} // one copy, of which all texts are slices
	r.keys(k)
	if r.bad || r.rest != "" {
		return nil, fmt.Errorf("%w: %d bytes", errKeys, len(b))
	}
	return k, nil
}

// keyReader cuts values from the front of keys. Behind the first that it cannot read it gives zeros.
type keyReader struct {
	rest string
	bad  bool
}

func (r *keyReader) keys(k *Keys) {
	k.State, k.Workflow, k.SubmittedAt = TaskState(r.word()), r.text(), Instant(r.signed())
	holds := r.byte()
	if holds&^keysAll != 0 {
		r.fail()
	}
	if holds&keysEnded != 0 {
		k.EndedAt = k.SubmittedAt + Instant(r.signed())
	}
	if holds&keysLabels != 0 {
		n := r.count(2) // two lengths at least
		k.Labels = make(map[string]string, n)
		for range n {
			name := r.text()
			k.Labels[name] = r.text()
		}
	}
	if holds&keysDue != 0 {
		k.Due = k.SubmittedAt + Instant(r.signed())
	}
	if holds&keysReady != 0 {
		k.Ready = make([]ReadyKey, r.count(5))
		for i := range k.Ready {
			k.Ready[i] = ReadyKey{Agent: r.text(), Path: r.text(), Operation: Operation(r.word()),
				Since: k.SubmittedAt + Instant(r.signed()), Priority: int(r.signed())}
		}
	}
	k.Unplanned = holds&keysUnplanned != 0
}

func (r *keyReader) fail() { r.rest, r.bad = "", true }

func (r *keyReader) byte() byte {
	if r.rest == "" {
		r.fail()
		return 0
	}
	c := r.rest[0]
	r.rest = r.rest[1:]
	return c
}

func (r *keyReader) unsigned() (v uint64) {
	for shift := uint(0); shift < 64; shift += 7 {
		c := r.byte()
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			if shift == 63 && c > 1 {
				break
			}
			return v
		}
	}
	r.fail()
	return 0
}

func (r *keyReader) signed() int64 {
	v := r.unsigned()
	return int64(v>>1) ^ -int64(v&1)
}

// count reads how many things follow, each of at least so many bytes: damage must not ask for the memory of a million.
func (r *keyReader) count(least int) int {
	n := r.unsigned()
	if n == 0 || n > uint64(len(r.rest)/least) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *keyReader) text() string {
	n := r.unsigned()
	if n > uint64(len(r.rest)) {
		r.fail()
		return ""
	}
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

func (r *keyReader) word() string {
	switch code := r.byte(); {
	case code == 0:
		return r.text()
	case int(code) < len(keyWords):
		return keyWords[code]
	}
	r.fail()
	return ""
}
