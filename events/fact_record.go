package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sagalog/sagalog/internal/jsontext"
)

// EncodeFact returns the record of a fact for its partition of <ns>.events; the key is the task ID, or empty for a fact about
// the partition. source is the ce_source, such as "/sagalog/events/3".
func EncodeFact(f *Fact, partition int32, source string) (Record, error) {
	subject := Subject{Source: source, Time: f.Time, Traceparent: f.Traceparent}
	w := newRecordWriter(bodySize(f.Body)+attributeBytes(subject)+f.headerBytes()+len(f.Task), attributeCount(subject)+f.headerCount())
	if writeBody(f.Body, &w.Writer); w.Odd {
		if err := w.Marshalled(0, f.Body); err != nil {
			return Record{}, err
		}
	}
	value := len(w.B)
	w.B = appendFactID(w.B, f, partition)
	kind := bytesOfFact[f.Body.Name()]
	if kind == nil {
		kind = []byte(TypePrefix + string(f.Body.Name()))
	}
	w.attributes(subject, kind)
	w.headerIf(HeaderCause, string(f.Cause))
	w.headerIf(HeaderCauseID, f.CauseID)
	w.headerIf(HeaderCauseHash, f.CauseHash)
	if !f.Watermark.IsZero() {
		w.B = f.Watermark.append(w.B)
		w.mark(HeaderWatermark)
	}
	r := w.record(f.Task, value)
	r.Partition = partition
	if f.Task == "" {
		r.Key = nil
	}
	return r, nil
}

// headerBytes is the approximate size of the values of a fact's own headers, including its ce_id.
func (f *Fact) headerBytes() int {
	const numbers = 56 // of partition, epochs and sequences
	return numbers + 2*len(f.Epoch.ID) + len(f.Cause) + len(f.CauseID) + len(f.CauseHash) + len(f.Watermark.Epoch.ID)
}

func (f *Fact) headerCount() int {
	return count(f.Cause != "") + count(f.CauseID != "") + count(f.CauseHash != "") + count(!f.Watermark.IsZero())
}

// FactID returns the ce_id of a fact: "<partition>/<epoch>/<sequence>", and for the two kinds without an epoch
// "<partition>/claim/<id>" and "<partition>/namespace/<id>".
func FactID(f *Fact, partition int32) string {
	var b [64]byte
	return string(appendFactID(b[:0], f, partition))
}

func appendFactID(dst []byte, f *Fact, partition int32) []byte {
	dst = append(strconv.AppendInt(dst, int64(partition), 10), '/')
	switch b := f.Body.(type) {
	case *PartitionClaimed:
		return append(append(dst, "claim/"...), b.ID...)
	case *NamespaceCreated:
		return append(append(dst, "namespace/"...), b.ID...)
	}
	return f.Position().append(dst)
}

// PositionOf returns the position of a fact, which its ce_id holds after the partition.
func PositionOf(r *Record) (Position, error) { return positionIn(r.Header(HeaderID)) }

// positionIn reads a position out of a fact's ce_id.
func positionIn(id string) (Position, error) {
	_, at, ok := strings.Cut(id, "/")
	if !ok {
		return Position{}, fmt.Errorf("ce_id %q of a fact is not <partition>/<epoch>/<sequence>", Clip(id, maxQuotedBytes))
	}
	return ParsePosition(at)
}

// outsideEpochs says whether facts of that name belong to no epoch, and so have no position.
func outsideEpochs(n Name) bool { return n == NamePartitionClaimed || n == NameNamespaceCreated }

// DecodeFact reads a record of <ns>.events. Its error means that the partition must stop: only owners write there.
//
// If epoch and sequence can be read and the rest cannot, the body is an *Unreadable, and Apply decides whether to stop: only
// the fold can tell whether the record is void, and a void record does not stop the partition. (Suppose that a newer owner
// introduces a new kind of fact with a VersionBarrier, and is deposed before the two land: they land as void records, which an
// older reader must pass.)
func DecodeFact(r *Record) (*Fact, error) { return decodeFact(r, new(Fact), nil) }

// FactReader decodes one fact after another into the same memory, for callers that fold each fact before they read the next:
// State keeps only a fact's texts and JSON, which have their own memory.
type FactReader struct {
	fact Fact
	// The bodies of kinds that occur more than once for a task.
	stepStarted   StepStarted
	stepCompleted StepCompleted
	// known returns a task of the state, so that its ID is used instead of a copy. It may be nil.
	known func(id []byte) *Task
}

// Reader returns a reader for the facts that this state will fold.
func (s *State) Reader() *FactReader {
	return &FactReader{known: func(id []byte) *Task { return s.tasks[string(id)] }}
}

// Decode is DecodeFact. The fact is valid until the next call.
func (d *FactReader) Decode(r *Record) (*Fact, error) {
	d.fact = Fact{}
	return decodeFact(r, &d.fact, d)
}

// decodeFact decodes into f. d may be nil.
func decodeFact(r *Record, f *Fact, d *FactReader) (*Fact, error) {
	h := factHeaders{attributes: readAttributes(r)}
	h.names(r.Key, f, d)
	kind, ok := bytes.CutPrefix(h.kind, []byte(TypePrefix))
	if !ok {
		return nil, fmt.Errorf("%w: ce_type %q at offset %d of partition %d", ErrUnknownFact, h.kind, r.Offset, r.Partition)
	}
	name := nameOf(kind)
	if err := f.readPosition(name, &h); err != nil {
		return nil, fmt.Errorf("%s at offset %d of partition %d: %w", name, r.Offset, r.Partition, err)
	}
	if err := f.readBody(name, &h, r.Value, d); err != nil {
		err = fmt.Errorf("%s at offset %d of partition %d: %w", name, r.Offset, r.Partition, err)
		if outsideEpochs(name) {
			return nil, err
		}
		f.Body = &Unreadable{Kind: name, Err: err}
	}
	return f, nil
}

// factHeaders are the headers of a fact, and two of them as texts.
type factHeaders struct {
	attributes
	idText, watermarkText string
}

// names sets the fact's texts. The task's ID has its own memory, or shares it with the task that d knows, since the state keeps
// it. The other texts are slices of one string.
func (h *factHeaders) names(key []byte, f *Fact, d *FactReader) {
	if t := d.task(key); t != nil {
		f.Task = t.ID
	} else {
		f.Task = string(key)
	}
	var room [256]byte
	b := append(append(append(room[:0], h.cause...), h.causeID...), h.causeHash...)
	all := string(append(append(append(b, h.traceparent...), h.id...), h.watermark...))
	cut := func(like []byte) (s string) {
		s, all = all[:len(like)], all[len(like):]
		return s
	}
	f.Cause, f.CauseID, f.CauseHash, f.Traceparent = Cause(cut(h.cause)), cut(h.causeID), cut(h.causeHash), cut(h.traceparent)
	h.idText, h.watermarkText = cut(h.id), all
}

// body returns an empty body.
func (d *FactReader) body(name Name) (Body, error) {
	switch {
	case d != nil && name == NameStepStarted:
		d.stepStarted = StepStarted{}
		return &d.stepStarted, nil
	case d != nil && name == NameStepCompleted:
		d.stepCompleted = StepCompleted{}
		return &d.stepCompleted, nil
	}
	return NewBody(name)
}

func (d *FactReader) task(id []byte) *Task {
	if d == nil || d.known == nil {
		return nil
	}
	return d.known(id)
}

func (f *Fact) readPosition(name Name, h *factHeaders) error {
	if outsideEpochs(name) {
		return nil
	}
	at, err := positionIn(h.idText)
	f.Epoch, f.Sequence = at.Epoch, at.Sequence
	return err
}

func (f *Fact) readBody(name Name, h *factHeaders, value []byte, d *FactReader) (err error) {
	if !utf8.ValidString(f.Task) { // the task would have a different ID when read back from its encoding
		return errors.New("the task's ID is not UTF-8")
	}
	var written bool
	if f.Time, written = parseWritten(h.time); !written {
		if f.Time, err = ParseInstant(string(h.time)); err != nil {
			return err
		}
	}
	if h.watermarkText != "" {
		if f.Watermark, err = ParsePosition(h.watermarkText); err != nil {
			return err
		}
	}
	if f.Body, err = d.body(name); err != nil {
		return err
	}
	r := jsontext.NewReader(value)
	if readBody(f.Body, &r); r.Done() {
		return nil
	}
	if f.Body, err = NewBody(name); err != nil {
		return err
	}
	return json.Unmarshal(value, f.Body)
}
