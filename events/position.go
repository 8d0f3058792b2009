package events

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Epoch names one ownership of a partition: the ordinal of its valid claim and the claim's random identifier. Its
// text is "<n>-<id>". The zero Epoch is the time before the first claim.
//
// It is not an offset, so that a mirrored log can be folded too. The ordinal alone would not suffice, because two candidates
// would share it: see docs/protocol.md, "The identifier of a claim is fresh".
type Epoch struct {
	N  uint64
	ID string
}

// String returns "<n>-<id>", and "" for the zero Epoch.
func (e Epoch) String() string {
	var b [64]byte
	return string(e.append(b[:0]))
}

func (e Epoch) append(dst []byte) []byte {
	if e == (Epoch{}) {
		return dst
	}
	return append(append(strconv.AppendUint(dst, e.N, 10), '-'), e.ID...)
}

// ParseEpoch reads "<n>-<id>".
func ParseEpoch(s string) (Epoch, error) {
	n, id, ok := strings.Cut(s, "-")
	if !ok || id == "" {
		return Epoch{}, fmt.Errorf("epoch %q is not <n>-<id>", s)
	}
	v, err := strconv.ParseUint(n, 10, 64)
	if err != nil || v == 0 {
		return Epoch{}, fmt.Errorf("epoch %q has no ordinal", s)
	}
	return Epoch{N: v, ID: id}, nil
}

// MarshalText writes "<n>-<id>".
func (e Epoch) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText reads "<n>-<id>"; empty text is the zero Epoch.
func (e *Epoch) UnmarshalText(b []byte) (err error) {
	*e = Epoch{}
	if len(b) > 0 {
		*e, err = ParseEpoch(string(b))
	}
	return err
}

// Position names a fact in its partition: the epoch and the sequence in it. Its text is "<epoch>/<sequence>". The
// zero Position is before every fact.
type Position struct {
	Epoch    Epoch
	Sequence uint64
}

// String returns "<epoch>/<sequence>", and "" for the zero Position.
func (p Position) String() string {
	var b [64]byte
	return string(p.append(b[:0]))
}

func (p Position) append(dst []byte) []byte {
	if p.IsZero() {
		return dst
	}
	return strconv.AppendUint(append(p.Epoch.append(dst), '/'), p.Sequence, 10)
}

// IsZero says whether p is before every fact.
func (p Position) IsZero() bool { return p == Position{} }

// Before orders positions of one log. Epochs of accepted facts are ordered by their ordinal.
func (p Position) Before(q Position) bool {
	if p.Epoch.N != q.Epoch.N {
		return p.Epoch.N < q.Epoch.N
	}
	return p.Sequence < q.Sequence
}

// ParsePosition reads "<epoch>/<sequence>".
func ParsePosition(s string) (Position, error) {
	i := strings.LastIndexByte(s, '/') // the last, since nothing forbids a slash in a claim's identifier
	if i < 0 {
		return Position{}, fmt.Errorf("position %q is not <epoch>/<sequence>", s)
	}
	epoch, err := ParseEpoch(s[:i])
	if err != nil {
		return Position{}, err
	}
	v, err := strconv.ParseUint(s[i+1:], 10, 64)
	if err != nil {
		return Position{}, fmt.Errorf("position %q has no sequence", s)
	}
	return Position{Epoch: epoch, Sequence: v}, nil
}

// MarshalText writes "<epoch>/<sequence>".
func (p Position) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads "<epoch>/<sequence>"; empty text is the zero Position.
func (p *Position) UnmarshalText(b []byte) (err error) {
	*p = Position{}
	if len(b) > 0 {
		*p, err = ParsePosition(string(b))
	}
	return err
}

// Input names an input topic without its namespace, so that a copy of the log in another namespace folds too.
type Input string

// The input topics of an owner.
const (
	Submissions Input = "submissions"
	Reports     Input = "reports"
)

// Inputs lists the input topics. It never changes.
var Inputs = [...]Input{Submissions, Reports}

// Cause says why a fact was decided: an input, a timer, or an earlier fact. Its texts are "s/<partition>/<offset>" and
// "r/<partition>/<offset>" (a record of submissions or reports), "t/<task>/<run>/<path>/<attempt>/<kind>" (a timer; task and
// path percent-encoded), "f/<epoch>/<sequence>", and "d/<offset>" (a record of definitions, for DefinitionAdopted alone: if the
// input were its cause, a crash right after the fact would skip that input).
type Cause string

// CauseDefinition is the cause of a DefinitionAdopted.
func CauseDefinition(offset int64) Cause { return Cause("d/" + strconv.FormatInt(offset, 10)) }

// CauseInput is the cause of a fact that judges the input at these coordinates.
func CauseInput(in Input, partition int32, offset int64) Cause {
	var b [40]byte
	dst := append(b[:0], "s/"...)
	if in == Reports {
		dst = append(b[:0], "r/"...)
	}
	dst = append(strconv.AppendInt(dst, int64(partition), 10), '/')
	return Cause(strconv.AppendInt(dst, offset, 10))
}

// CauseFact is the cause of a fact that follows from an earlier one, or from the state after it.
func CauseFact(p Position) Cause {
	var b [64]byte
	return Cause(p.append(append(b[:0], "f/"...)))
}

// CauseTimer is the cause of a fact that a timer of a task made due. path is empty for a timer of the whole task.
func CauseTimer(task string, run int, path string, attempt int, kind TimerKind) Cause {
	return Cause("t/" + url.PathEscape(task) + "/" + strconv.Itoa(run) + "/" + url.PathEscape(path) + "/" + strconv.Itoa(attempt) + "/" + string(kind))
}

// Input returns the coordinates of the input that the cause names; ok is false for every other cause.
func (c Cause) Input() (in Input, partition int32, offset int64, ok bool) {
	if len(c) < 5 || c[1] != '/' {
		return "", 0, 0, false
	}
	switch c[0] {
	case 's':
		in = Submissions
	case 'r':
		in = Reports
	default:
		return "", 0, 0, false
	}
	p, o, found := strings.Cut(string(c[2:]), "/")
	if !found {
		return "", 0, 0, false
	}
	pn, err := strconv.ParseInt(p, 10, 32)
	if err != nil {
		return "", 0, 0, false
	}
	on, err := strconv.ParseInt(o, 10, 64)
	if err != nil {
		return "", 0, 0, false
	}
	return in, int32(pn), on, true
}
