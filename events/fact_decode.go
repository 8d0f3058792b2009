package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// outsideEpochs says whether facts of that name carry neither epoch nor sequence.
func outsideEpochs(n Name) bool { return n == NamePartitionClaimed || n == NameNamespaceCreated }

// DecodeFact reads a record of <ns>.events. Its error means that the partition must stop: only owners write there.
//
// Where epoch and sequence can be read and the rest cannot, the body is an *Unreadable, and it is Apply that stops:
// only the fold can tell whether the record is void, and a void record stops nobody. (A newer owner switches on a new
// kind of fact by a VersionBarrier, is deposed before both land, and they land as void records: an older reader must
// pass them.)
func DecodeFact(r *Record) (*Fact, error) { return decodeFact(r, new(Fact), nil) }

// FactReader decodes one fact after another into the same memory, for who folds each of them before the next: State
// keeps nothing of a fact but texts and JSON, which have their own.
type FactReader struct {
	fact Fact
	// These are the bodies that come more than once for a task.
	stepStarted   StepStarted
	stepCompleted StepCompleted
	// known gives a task that the state holds, whose ID is taken instead of a copy; nil knows none.
	known func(id []byte) *Task
}

// Reader returns a reader for the facts that this state will fold.
func (s *State) Reader() *FactReader {
	return &FactReader{known: func(id []byte) *Task { return s.tasks[string(id)] }}
}

// Decode is DecodeFact. The fact is good until the next call.
func (d *FactReader) Decode(r *Record) (*Fact, error) {
	d.fact = Fact{}
	return decodeFact(r, &d.fact, d)
}

// decodeFact decodes into f. d may be nil.
func decodeFact(r *Record, f *Fact, d *FactReader) (*Fact, error) {
	h := readFactHeaders(r)
	h.names(f, d)
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

// nameOf returns a name that bodies knows without a copy.
func nameOf(kind []byte) Name {
	switch Name(kind) {
	case NameSubmitted:
		return NameSubmitted
	case NameStepStarted:
		return NameStepStarted
	case NameStepCompleted:
		return NameStepCompleted
	case NameStepSkipped:
		return NameStepSkipped
	case NameTaskProcessed:
		return NameTaskProcessed
	}
	return Name(kind)
}

// factHeaders are the values of a fact's headers; where one stands twice, the last counts.
type factHeaders struct {
	kind, subject, time, traceparent []byte
	epoch, sequence, settled         []byte
	cause, causeID, causeHash        []byte
	epochText, settledText           string
}

func readFactHeaders(r *Record) (f factHeaders) {
	for i := range r.Headers {
		h := &r.Headers[i]
		switch h.Key {
		case HeaderType:
			f.kind = h.Value
		case HeaderSubject:
			f.subject = h.Value
		case HeaderTime:
			f.time = h.Value
		case HeaderTraceparent:
			f.traceparent = h.Value
		case HeaderEpoch:
			f.epoch = h.Value
		case HeaderSequence:
			f.sequence = h.Value
		case HeaderSettled:
			f.settled = h.Value
		case HeaderCause:
			f.cause = h.Value
		case HeaderCauseID:
			f.causeID = h.Value
		case HeaderCauseHash:
			f.causeHash = h.Value
		}
	}
	return f
}

// names sets what the fact has as text. The task's ID has its own bytes, or those of the task that d knows, since the state
// keeps it; the others are slices of one text.
func (h *factHeaders) names(f *Fact, d *FactReader) {
	if t := d.task(h.subject); t != nil {
		f.Task = t.ID
	} else {
		f.Task = string(h.subject)
	}
	var room [256]byte
	b := append(append(append(room[:0], h.cause...), h.causeID...), h.causeHash...)
	all := string(append(append(append(b, h.traceparent...), h.epoch...), h.settled...))
	cut := func(like []byte) (s string) {
		s, all = all[:len(like)], all[len(like):]
		return s
	}
	f.Cause, f.CauseID, f.CauseHash, f.Traceparent = Cause(cut(h.cause)), cut(h.causeID), cut(h.causeHash), cut(h.traceparent)
	h.epochText, h.settledText = cut(h.epoch), all
}

func (d *FactReader) started() *StepStarted {
	if d == nil {
		return new(StepStarted)
	}
	d.stepStarted = StepStarted{}
	return &d.stepStarted
}

func (d *FactReader) completed() *StepCompleted {
	if d == nil {
		return new(StepCompleted)
	}
	d.stepCompleted = StepCompleted{}
	return &d.stepCompleted
}

func (d *FactReader) task(id []byte) *Task {
	if d == nil || d.known == nil {
		return nil
	}
	return d.known(id)
}

func (f *Fact) readPosition(name Name, h *factHeaders) (err error) {
	if outsideEpochs(name) {
		return nil
	}
	if f.Epoch, err = ParseEpoch(h.epochText); err != nil {
		return err
	}
	f.Sequence, err = strconv.ParseUint(string(h.sequence), 10, 64)
	return err
}

func (f *Fact) readBody(name Name, h *factHeaders, value []byte, d *FactReader) (err error) {
	if !utf8.ValidString(f.Task) { // read back from its encoding, its task would have another ID
		return errors.New("the task's ID is not UTF-8")
	}
	var written bool
	if f.Time, written = parseWritten(h.time); !written {
		if f.Time, err = ParseInstant(string(h.time)); err != nil {
			return err
		}
	}
	if h.settledText != "" {
		if f.Settled, err = ParsePosition(h.settledText); err != nil {
			return err
		}
	}
	if f.Body = usualBody(name, value, d); f.Body != nil {
		return nil
	}
	if f.Body, err = NewBody(name); err != nil {
		return err
	}
	return json.Unmarshal(value, f.Body)
}

// usualBody reads the bodies that make up nearly all facts of a task that goes well. It returns nil for the others, and
// for one that it does not read as encoding/json would.
func usualBody(name Name, value []byte, d *FactReader) Body {
	r := read(value)
	var body Body
	switch name {
	case NameSubmitted:
		b := new(Submitted)
		r.submitted(b)
		body = b
	case NameStepStarted:
		b := d.started()
		r.stepStarted(b)
		body = b
	case NameStepCompleted:
		b := d.completed()
		r.stepCompleted(b)
		body = b
	case NameStepSkipped:
		b := new(StepSkipped)
		r.stepSkipped(b)
		body = b
	case NameTaskProcessed:
		b := new(TaskProcessed)
		r.taskProcessed(b)
		body = b
	default:
		return nil
	}
	if !r.done() {
		return nil
	}
	return body
}

func (r *reader) submitted(b *Submitted) {
	var seen uint64
	for ok := r.begin('{'); ok; ok = r.more('{') {
		n := 0
		switch string(r.name()) {
		case "workflow":
			n = 0
			r.text(&b.Workflow)
		case "version":
			n, b.Version = 1, r.number()
		case "hash":
			n = 2
			r.text(&b.Hash)
		case "input":
			n, b.Input = 3, r.raw()
		case "priority":
			n, b.Priority = 4, r.number()
		case "labels":
			n, b.Labels = 5, r.labels()
		case "deadline":
			n, b.Deadline = 6, r.instant()
		case "content":
			n = 7
			r.text(&b.Content)
		default:
			r.doubt()
		}
		r.once(&seen, n)
	}
}

func (r *reader) stepStarted(b *StepStarted) {
	var seen uint64
	for ok := r.begin('{'); ok; ok = r.more('{') {
		n := 0
		switch string(r.name()) {
		case "step":
			n = 0
			r.text(&b.Step)
		case "agent":
			n = 1
			r.text(&b.Agent)
		case "attempt":
			n, b.Attempt = 2, r.number()
		case "complete_by":
			n, b.CompleteBy = 3, r.instant()
		case "ready_at":
			n, b.ReadyAt = 4, r.instant()
		case "input":
			n, b.Input = 5, r.raw()
		case "condition":
			is := r.flag()
			n, b.Condition = 6, &is
		case "pivot":
			n, b.Pivot = 7, r.flag()
		case "undoable":
			n, b.Undoable = 8, r.flag()
		default:
			r.doubt()
		}
		r.once(&seen, n)
	}
}

func (r *reader) stepCompleted(b *StepCompleted) {
	var seen uint64
	for ok := r.begin('{'); ok; ok = r.more('{') {
		n := 0
		switch string(r.name()) {
		case "step":
			n = 0
			r.text(&b.Step)
		case "attempt":
			n, b.Attempt = 1, r.number()
		case "output":
			n, b.Output = 2, r.raw()
		case "instance":
			n = 3
			r.text(&b.Instance)
		case "ready_at":
			n, b.ReadyAt = 4, r.instant()
		case "started_at":
			n, b.StartedAt = 5, r.instant()
		case "accepted_at":
			n, b.AcceptedAt = 6, r.instant()
		case "finished_at":
			n, b.FinishedAt = 7, r.instant()
		default:
			r.doubt()
		}
		r.once(&seen, n)
	}
}

func (r *reader) stepSkipped(b *StepSkipped) {
	var seen uint64
	for ok := r.begin('{'); ok; ok = r.more('{') {
		n := 0
		switch string(r.name()) {
		case "step":
			n = 0
			r.text(&b.Step)
		case "why":
			n = 1
			r.text(&b.Why)
		case "condition":
			n = 2
			r.text(&b.Condition)
		default:
			r.doubt()
		}
		r.once(&seen, n)
	}
}

func (r *reader) taskProcessed(b *TaskProcessed) {
	var seen uint64
	for ok := r.begin('{'); ok; ok = r.more('{') {
		if string(r.name()) != "output" {
			r.doubt()
		}
		b.Output = r.raw()
		r.once(&seen, 0)
	}
}
