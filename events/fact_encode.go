package events

import "strconv"

// EncodeFact returns the record of a fact for its partition of <ns>.events; key = task ID, none for a fact about the
// partition. source is the ce_source, such as "/sagalog/events/3".
func EncodeFact(f *Fact, partition int32, source string) (Record, error) {
	subject := Subject{Source: source, Time: f.Time, Traceparent: f.Traceparent}
	e := newSealer(bodyBytes(f.Body)+attributeBytes(subject, f.Task)+f.headerBytes(), attributeCount(subject, f.Task)+f.headerCount())
	if !e.body(f.Body) {
		if err := e.marshalled(0, f.Body); err != nil {
			return Record{}, err
		}
	}
	value := len(e.b)
	e.b = appendFactID(e.b, f, partition)
	kind := bytesOfFact[f.Body.Name()]
	if kind == nil {
		kind = []byte(TypePrefix + string(f.Body.Name()))
	}
	e.attributes(subject, kind, f.Task)
	if f.Epoch.N > 0 {
		e.b = f.Epoch.append(e.b)
		e.mark(HeaderEpoch)
		e.b = appendPadded(e.b, f.Sequence)
		e.mark(HeaderSequence)
	}
	e.headerIf(HeaderCause, string(f.Cause))
	e.headerIf(HeaderCauseID, f.CauseID)
	e.headerIf(HeaderCauseHash, f.CauseHash)
	if !f.Settled.IsZero() {
		e.b = f.Settled.append(e.b)
		e.mark(HeaderSettled)
	}
	r := e.record(f.Task, value)
	r.Partition = partition
	if f.Task == "" {
		r.Key = nil
	}
	return r, nil
}

// headerBytes is about what the values of a fact's own headers take, its ce_id included.
func (f *Fact) headerBytes() int {
	const numbers = 56 // of partition, epochs and sequences
	return numbers + 2*len(f.Epoch.ID) + len(f.Cause) + len(f.CauseID) + len(f.CauseHash) + len(f.Settled.Epoch.ID)
}

func (f *Fact) headerCount() int {
	return 2*count(f.Epoch.N > 0) + count(f.Cause != "") + count(f.CauseID != "") + count(f.CauseHash != "") + count(!f.Settled.IsZero())
}

// bodyBytes is about what a body takes.
func bodyBytes(body Body) int {
	switch b := body.(type) {
	case *Submitted:
		return 120 + len(b.Workflow) + len(b.Hash) + len(b.Input) + len(b.Content) + 32*len(b.Labels)
	case *StepStarted:
		return 144 + len(b.Step) + len(b.Agent) + len(b.Input)
	case *StepCompleted:
		return 64 + 42*(count(b.ReadyAt != 0)+count(b.StartedAt != 0)+count(b.AcceptedAt != 0)+count(b.FinishedAt != 0)) + len(b.Step) + len(b.Output) + len(b.Instance)
	case *StepSkipped:
		return 48 + len(b.Step) + len(b.Why) + len(b.Condition)
	case *TaskProcessed:
		return 12 + len(b.Output)
	}
	return 256
}

// body writes the bodies that make up nearly all facts of a task that goes well.
func (e *encoder) body(body Body) bool {
	switch b := body.(type) {
	case *Submitted:
		return e.submitted(b)
	case *StepStarted:
		return e.stepStarted(b)
	case *StepCompleted:
		return e.stepCompleted(b)
	case *StepSkipped:
		e.text(`{"step":`, b.Step)
		e.text(`,"why":`, b.Why)
		e.textIf(`,"condition":`, b.Condition)
		return e.end()
	case *TaskProcessed:
		if len(b.Output) == 0 {
			e.literal("{")
		}
		e.rawIf(`{"output":`, b.Output)
		return e.end()
	}
	return false
}

func (e *encoder) submitted(b *Submitted) bool {
	e.text(`{"workflow":`, b.Workflow)
	e.number(`,"version":`, b.Version)
	e.text(`,"hash":`, b.Hash)
	e.rawIf(`,"input":`, b.Input)
	e.numberIf(`,"priority":`, b.Priority)
	e.labelsIf(`,"labels":`, b.Labels)
	e.instantIf(`,"deadline":`, b.Deadline)
	e.text(`,"content":`, b.Content)
	return e.end()
}

func (e *encoder) stepStarted(b *StepStarted) bool {
	e.text(`{"step":`, b.Step)
	e.text(`,"agent":`, b.Agent)
	e.number(`,"attempt":`, b.Attempt)
	e.instant(`,"complete_by":`, b.CompleteBy)
	e.instantIf(`,"ready_at":`, b.ReadyAt)
	e.rawIf(`,"input":`, b.Input)
	if b.Condition != nil {
		e.b = strconv.AppendBool(append(e.b, `,"condition":`...), *b.Condition)
	}
	e.flagIf(`,"pivot":`, b.Pivot)
	e.flagIf(`,"undoable":`, b.Undoable)
	return e.end()
}

func (e *encoder) stepCompleted(b *StepCompleted) bool {
	e.text(`{"step":`, b.Step)
	e.number(`,"attempt":`, b.Attempt)
	e.rawIf(`,"output":`, b.Output)
	e.textIf(`,"instance":`, b.Instance)
	e.instantIf(`,"ready_at":`, b.ReadyAt)
	e.instantIf(`,"started_at":`, b.StartedAt)
	e.instantIf(`,"accepted_at":`, b.AcceptedAt)
	e.instantIf(`,"finished_at":`, b.FinishedAt)
	return e.end()
}

// FactID returns the ce_id of a fact: "<partition>/<epoch>/<sequence>", and for the two that stand in no epoch
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

// appendPadded writes 12 digits or more, so that a sequence sorts as text: CloudEvents' sequence extension is a string.
func appendPadded(dst []byte, n uint64) []byte {
	for limit := uint64(1e11); n < limit && limit > 1; limit /= 10 {
		dst = append(dst, '0')
	}
	return strconv.AppendUint(dst, n, 10)
}
