package events

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ReadyKey is a step that waits only for a place in its agent's window: a row of the queue.
type ReadyKey struct {
	Agent     string    `json:"agent"`
	Function  string    `json:"function,omitempty"`
	Path      string    `json:"path"`
	Operation Operation `json:"operation"`
	// Since orders the steps of equal priority: the time at which the task was accepted.
	Since Instant `json:"since"`
	// Priority is the task's; a higher one runs first.
	Priority int `json:"priority,omitzero"`
}

// Keys hold the data of a task that a store's indexes need. They are stored next to its encoding and are not part of the state
// hash.
type Keys struct {
	State       TaskState `json:"state"`
	Workflow    string    `json:"workflow"`
	SubmittedAt Instant   `json:"submitted_at"`
	EndedAt     Instant   `json:"ended_at,omitzero"`
	// Forget is when the task may be forgotten, if it has ended and its workflow says how long it is remembered.
	Forget Instant           `json:"forget,omitzero"`
	Labels map[string]string `json:"labels,omitempty"`
	// Due is when the owner must look at the task next. Wake is the same for the timers that do not wait for reports.
	Due   Instant    `json:"due,omitzero"`
	Wake  Instant    `json:"wake,omitzero"`
	Ready []ReadyKey `json:"ready,omitempty"`
	// FairBy is the key of the task if it is in a queue: see Ready.FairBy.
	FairBy string `json:"fair_by,omitempty"`
	// Unplanned marks a live task whose row was written without an Agenda, by a fold without an owner: a fact that follows from
	// its state may be missing, so a new owner plans it.
	Unplanned bool `json:"unplanned,omitzero"`
	// Waits count what the steps that are not in the queue wait for. They are empty if the task is unplanned.
	Waits []WaitCount `json:"waits,omitempty"`
}

// keysVersion is the first byte of keys in binary.
const keysVersion = 1

// These bits of one byte say which values follow the state, the workflow and the time of submission.
const (
	keysEnded     = 1
	keysLabels    = 2
	keysDue       = 4
	keysReady     = 8
	keysUnplanned = 16
	keysWake      = 32
	keysWaits     = 64
	keysFairBy    = 128
)

// keyWords are the texts that are encoded in one byte. The byte 0 says that another text follows. The code of a text never
// changes.
var keyWords = [...]string{
	1: string(TaskStatePending), 2: string(TaskStateProcessing), 3: string(TaskStateProcessed), 4: string(TaskStateUndoing), 5: string(TaskStateUndone), 6: string(TaskStateError),
	7: string(Do), 8: string(Undo), 9: string(TaskStateTerminated),
	10: string(WaitingAgent), 11: string(WaitingCapacity), 12: string(WaitingLimit), 13: string(WaitingConcurrency), 14: string(WaitingSignal), 15: string(WaitingChild), 16: string(WaitingSleep),
	17: string(WaitingRetry), 18: string(WaitingCoolDown), 19: string(WaitingQuiet), 20: string(WaitingPaused), 21: string(WaitingNotBefore), 22: string(WaitingOperator), 23: string(TaskStateRejected),
}

var errKeys = errors.New("keys of a task are damaged")

// AppendKeys appends keys in binary: equal keys have the same bytes. All times but the first are differences from the time of
// submission, which take two or three bytes instead of six.
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
	if due := *k.due(); due != 0 {
		dst = binary.AppendVarint(dst, int64(due-k.SubmittedAt))
	}
	if k.Wake != 0 {
		dst = binary.AppendVarint(dst, int64(k.Wake-k.SubmittedAt))
	}
	if len(k.Ready) > 0 {
		dst = binary.AppendUvarint(dst, uint64(len(k.Ready)))
	}
	for i := range k.Ready {
		r := &k.Ready[i]
		dst = appendText(dst, r.Agent)
		dst = appendText(dst, r.Path)
		dst = r.appendOperation(dst)
		dst = binary.AppendVarint(dst, int64(r.Since-k.SubmittedAt))
		dst = binary.AppendVarint(dst, int64(r.Priority))
	}
	if len(k.Waits) > 0 {
		dst = binary.AppendUvarint(dst, uint64(len(k.Waits)))
	}
	for _, w := range k.Waits {
		dst = binary.AppendUvarint(appendWord(dst, string(w.Kind)), uint64(w.N))
	}
	if k.FairBy != "" {
		dst = appendText(dst, k.FairBy)
	}
	return dst
}

// due returns Due, or Forget if the task has ended: it has no Due then, so the two share a place in the encoding.
func (k *Keys) due() *Instant {
	if k.State.Ended() {
		return &k.Forget
	}
	return &k.Due
}

func (k *Keys) holds() (bits byte) {
	if k.EndedAt != 0 {
		bits |= keysEnded
	}
	if len(k.Labels) > 0 {
		bits |= keysLabels
	}
	if *k.due() != 0 {
		bits |= keysDue
	}
	if k.Wake != 0 {
		bits |= keysWake
	}
	if len(k.Ready) > 0 {
		bits |= keysReady
	}
	if k.Unplanned {
		bits |= keysUnplanned
	}
	if len(k.Waits) > 0 {
		bits |= keysWaits
	}
	if k.FairBy != "" {
		bits |= keysFairBy
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

// appendOperation appends the operation and, behind a slash, its name if it has one.
func (k *ReadyKey) appendOperation(dst []byte) []byte {
	if k.Function == "" {
		return appendWord(dst, string(k.Operation))
	}
	return appendText(append(dst, 0), string(k.Operation)+"/"+k.Function)
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

// DecodeKeys reads the bytes that AppendKeys wrote. The keys share no bytes with b.
func DecodeKeys(b []byte) (*Keys, error) {
	k := new(Keys)
	if len(b) == 0 || b[0] != keysVersion {
		return nil, fmt.Errorf("%w: their version is not one that this build reads", errKeys)
	}
	r := keyReader{rest: b[1:], all: string(b)} // one copy, and all texts are slices of it
	r.keys(k)
	if r.bad || len(r.rest) > 0 {
		return nil, fmt.Errorf("%w: %d bytes", errKeys, len(b))
	}
	return k, nil
}

// keyReader reads values from the front of encoded keys. After the first unreadable value it returns only zeros.
type keyReader struct {
	// rest is the rest of all bytes.
	rest []byte
	all  string
	bad  bool
}

func (r *keyReader) keys(k *Keys) {
	k.State, k.Workflow, k.SubmittedAt = TaskState(r.word()), r.text(), Instant(r.signed())
	holds := r.byte()
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
		*k.due() = k.SubmittedAt + Instant(r.signed())
	}
	if holds&keysWake != 0 {
		k.Wake = k.SubmittedAt + Instant(r.signed())
	}
	if holds&keysReady != 0 {
		k.Ready = make([]ReadyKey, r.count(5))
		for i := range k.Ready {
			x := ReadyKey{Agent: r.text(), Path: r.text()}
			x.Operation, x.Function = r.operation()
			x.Since, x.Priority = k.SubmittedAt+Instant(r.signed()), int(r.signed())
			k.Ready[i] = x
		}
	}
	if holds&keysWaits != 0 {
		k.Waits = make([]WaitCount, r.count(2)) // a word and a number
		for i := range k.Waits {
			k.Waits[i] = WaitCount{Kind: Waiting(r.word()), N: int(r.unsigned())}
		}
	}
	if holds&keysFairBy != 0 {
		if k.FairBy = r.text(); k.FairBy == "" { // equal keys have the same bytes
			r.fail()
		}
	}
	k.Unplanned = holds&keysUnplanned != 0
}

func (r *keyReader) fail() { r.rest, r.bad = nil, true }

// cut returns the next n bytes as a text.
func (r *keyReader) cut(n uint64) string {
	if n > uint64(len(r.rest)) {
		r.fail()
		return ""
	}
	from := len(r.all) - len(r.rest)
	r.rest = r.rest[n:]
	return r.all[from : from+int(n)]
}

func (r *keyReader) byte() byte {
	if s := r.cut(1); s != "" {
		return s[0]
	}
	return 0
}

func (r *keyReader) unsigned() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *keyReader) signed() int64 {
	v := r.unsigned()
	return int64(v>>1) ^ -int64(v&1)
}

// count reads how many items follow, each of at least the given size: damaged keys must not make it allocate memory for a million
// items.
func (r *keyReader) count(least int) int {
	n := r.unsigned()
	if n == 0 || n > uint64(len(r.rest)/least) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *keyReader) text() string { return r.cut(r.unsigned()) }

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

// operation reads what appendOperation wrote.
func (r *keyReader) operation() (Operation, string) {
	op, function, _ := strings.Cut(r.word(), "/")
	return Operation(op), function
}
