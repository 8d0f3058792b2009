package supervisor

import (
	"strconv"

	"github.com/sagalog/sagalog/events"
)

// Alert is the value of a record in <ns>.alerts, which an operator must see.
type Alert struct {
	Kind     string `json:"kind" schema:"words:Alert*"`
	Task     string `json:"task,omitempty"`
	Workflow string `json:"workflow,omitempty"`
	Step     string `json:"step,omitempty"`
	Schedule string `json:"schedule,omitempty"`
	// Limit is set for AlertBlocked: the workflow and the key of the concurrency.
	Limit string `json:"limit,omitempty"`
	// Agent, Function (of an operation with a name) and Operation are set for AlertMissing: what is missing.
	Agent     string           `json:"agent,omitempty"`
	Function  string           `json:"function,omitempty"`
	Operation events.Operation `json:"operation,omitempty"`
	Reason    string           `json:"reason,omitempty"`
	// Reminder is set if the alert is repeated because its task is still parked, since the instant Since: how often it was, with this one.
	// Since is also set for AlertSoftLimit: since when the limit counts.
	Reminder int            `json:"reminder,omitzero"`
	Since    events.Instant `json:"since,omitzero"`
	Time     events.Instant `json:"time"`
	// Of is the ce_id of the fact that raised it; empty for AlertMissing, which no fact raises.
	Of string `json:"of,omitempty"`
}

// The kinds of alerts.
const (
	AlertParked    = "parked"
	AlertUndone    = "undone"
	AlertPermanent = "permanent_failure"
	AlertDeadline  = "deadline_passed"
	AlertEffect    = "effect_failed"
	AlertMissing   = "agent_missing"
	// AlertSoftLimit says that a step or a task is not over at its soft limit, remind_after of its definition.
	AlertSoftLimit = "soft_limit_passed"
	// Of schedules: due times are too old, no task can be submitted for one, and several in a row were passed over.
	AlertScheduleMissed  = "schedule_missed"
	AlertScheduleFailed  = "schedule_failed"
	AlertScheduleBlocked = "schedule_blocked"
	// AlertBlocked says that tasks wait for the permit of a parked task.
	AlertBlocked = "concurrency_blocked"
)

// The headers of a dead letter. The names are those of KIP-1191, which reserves their prefix.
const (
	DeadTopic     = "__dlq.errors.topic"
	DeadPartition = "__dlq.errors.partition"
	DeadOffset    = "__dlq.errors.offset"
	DeadMessage   = "__dlq.errors.message"
	DeadReason    = "__dlq.errors.reason"
	DeadTime      = "__dlq.errors.time"
	DeadFact      = "__dlq.errors.fact"
)

// workTopic is the prefix of the names of agents' topics.
const workTopic = "work."

// work is the effect of a fact that begins an attempt.
func (x *outbox) work(t *events.Task, f *events.Fact) []*effect {
	if t == nil {
		return nil // the task is forgotten, so none of its attempts runs
	}
	w, ok := workOf(f)
	if !ok {
		return nil
	}
	w.Task, w.Ticket, w.Workflow, w.Version = t.ID, t.Incarnation, t.Workflow, t.Version
	w.IdempotencyKey = w.Key(x.cfg.NamespaceID, w.Operation)
	if w.Operation == events.Undo {
		w.Undoes = w.Key(x.cfg.NamespaceID, events.Do)
	}
	started := f.Time
	//mutant:resent-work-has-the-corrected-times
	if at, by := t.Times(w.Step, w.Operation, w.Attempt); at != 0 { // those of the fact, unless the time was corrected since
		started, w.CompleteBy, w.CapBy = corrected(f.Time, at, by, &w)
	}
	w.CompleteWithin = events.Duration(w.CompleteBy.Sub(started))
	w.Home = x.cfg.Partition
	r, err := events.EncodeWork(w, events.Subject{ID: events.FactID(f, x.cfg.Partition), Source: x.source, Time: started, Traceparent: f.Traceparent})
	if err != nil {
		return nil
	}
	r.Partition = x.dispatch.route(t, &w)
	return []*effect{{kind: events.EffectWork, topic: workTopic + w.Agent, record: r, until: w.CompleteBy}}
}

// corrected returns the times of a request that is perhaps sent again. The state knows the start and the complete-by time of its attempt, which
// differ from those of the fact if the time was corrected since. The complete-by time of an attempt with a heartbeat changes with its progress
// too, and a request has the first one.
func corrected(was, started, completeBy events.Instant, w *events.Work) (_, by, cap events.Instant) {
	if w.Heartbeat == 0 {
		return started, completeBy, 0
	}
	return started, started.Add(w.CompleteBy.Sub(was)), started.Add(w.CapBy.Sub(was))
}

// inputEffect is an effect that carries the bytes of an input, which are fetched if they are not in memory.
func (x *outbox) inputEffect(f *events.Fact, kind string, cause events.Cause) []*effect {
	in, _, _, _ := inputOf(f).Input()
	y := &effect{kind: kind, topic: "dlq." + string(in)}
	if kind == events.EffectForward {
		y.topic, y.part = string(in), "/"+strconv.Itoa(int(f.Body.(*events.InputForwarded).To))
	}
	if input, ok := x.inputs[f.Position()]; ok {
		x.complete(f, y, &input)
	} else {
		y.wants = cause
	}
	return []*effect{y}
}

// complete gives an effect the bytes of its input.
func (x *outbox) complete(f *events.Fact, y *effect, input *events.Record) {
	in, _, _, _ := inputOf(f).Input()
	if y.kind == events.EffectForward {
		y.record = forward(f, input, f.Body.(*events.InputForwarded).To)
		return
	}
	y.record = x.deadLetter(f, in, input)
}

// inputOf returns the coordinates of the input that the fact judged.
func inputOf(f *events.Fact) events.Cause {
	switch b := f.Body.(type) {
	case *events.InputRejected:
		if b.HeldAt != "" {
			return b.HeldAt
		}
	case *events.EffectFailed:
		return b.Input
	}
	return f.Cause
}

// forward returns the input for its home partition, marked with where it was found and when.
func forward(f *events.Fact, input *events.Record, to int32) events.Record {
	r := events.Record{Partition: to, Key: input.Key, Value: input.Value}
	for _, h := range input.Headers {
		if h.Key != events.HeaderForwardedFrom && h.Key != events.HeaderForwardedAt {
			r.Headers = append(r.Headers, h)
		}
	}
	from := strconv.Itoa(int(input.Partition)) + "/" + strconv.FormatInt(input.Offset, 10)
	r.Headers = append(r.Headers,
		//mutant:forward-says-where-found
		events.Header{Key: events.HeaderForwardedFrom, Value: []byte(from)},
		events.Header{Key: events.HeaderForwardedAt, Value: []byte(f.Time.String())})
	return r
}

const (
	// maxDeadLetter bounds a dead letter, in bytes. The topics of dead letters take 8 MiB.
	maxDeadLetter = 7 << 20
	// headerBytes is the maximum overhead of a header in a record, besides its key and value.
	headerBytes = 16
	// deadPrefix is how much of the value of a larger input its dead letter holds.
	deadPrefix = 64 << 10
)

// deadLetter returns the rejected input, bytes and headers untouched, with the reason and the coordinates. If the input would not
// fit, the dead letter holds a prefix of the value: an input may have several times the size of its record when decompressed, and
// a dead letter that no broker takes would hold back the partition.
func (x *outbox) deadLetter(f *events.Fact, in events.Input, input *events.Record) events.Record {
	reason, detail, headers := events.RejectInternal, "", input.Headers
	switch b := f.Body.(type) {
	case *events.InputRejected:
		reason, detail = b.Reason, b.Detail
		if b.Last > 0 {
			headers = []events.Header{{Key: events.HeaderLast, Value: []byte(strconv.FormatInt(b.Last, 10))}}
		}
	case *events.EffectFailed:
		reason, detail = events.RejectMisplaced, "the broker refused the record in its home partition: "+b.Error
	}
	coordinates := []events.Header{
		{Key: DeadTopic, Value: []byte(x.cfg.Namespace + "." + string(in))},
		{Key: DeadPartition, Value: []byte(strconv.Itoa(int(x.cfg.Partition)))},
		{Key: DeadOffset, Value: []byte(strconv.FormatInt(input.Offset, 10))},
		{Key: DeadReason, Value: []byte(reason)},
		{Key: DeadMessage, Value: []byte(detail)},
		{Key: DeadTime, Value: []byte(f.Time.String())},
		{Key: DeadFact, Value: []byte(events.FactID(f, x.cfg.Partition))},
	}
	r := events.Record{Partition: x.cfg.Partition, Key: input.Key, Value: input.Value}
	if r.Headers = append(append(r.Headers, headers...), coordinates...); fits(&r) {
		return r
	}
	cut := append([]events.Header{{Key: events.HeaderCut, Value: []byte(strconv.Itoa(len(input.Value)))}}, coordinates...)
	r.Value = input.Value[:min(len(input.Value), deadPrefix)]
	if r.Headers = append(append([]events.Header(nil), headers...), cut...); fits(&r) {
		return r
	}
	return events.Record{Partition: x.cfg.Partition, Headers: cut}
}

// coordinatesAlone returns a dead letter with only the coordinates and the size of the input.
func coordinatesAlone(letter *events.Record) events.Record {
	at := len(letter.Headers) - 1
	for letter.Headers[at].Key != DeadTopic { // the input may have headers of these names too, before ours
		at--
	}
	if at > 0 && letter.Headers[at-1].Key == events.HeaderCut {
		return events.Record{Partition: letter.Partition, Headers: letter.Headers[at-1:]}
	}
	cut := events.Header{Key: events.HeaderCut, Value: []byte(strconv.Itoa(len(letter.Value)))}
	return events.Record{Partition: letter.Partition, Headers: append([]events.Header{cut}, letter.Headers[at:]...)}
}

func fits(r *events.Record) bool { return r.Size()+headerBytes*len(r.Headers) <= maxDeadLetter }

// failedEffects returns the effects of EffectFailed: an alert, and for a failed forward also the input's dead letter.
func (x *outbox) failedEffects(t *events.Task, f *events.Fact, b *events.EffectFailed) []*effect {
	var list []*effect
	//mutant:refused-forward-is-dead-letter
	if b.Kind == events.EffectForward {
		list = x.inputEffect(f, events.EffectDeadLetter, b.Input)
	}
	return append(list, x.alert(t, f)...)
}

// alert returns the effect of a fact that raises an alert.
func (x *outbox) alert(t *events.Task, f *events.Fact) []*effect {
	a, raised := AlertOf(f)
	if !raised {
		return nil
	}
	return raise(x, t, f, a)
}

// raise returns the effect that raises the alert a, whose other members it fills in.
func raise(x *outbox, t *events.Task, f *events.Fact, a Alert) []*effect {
	a.Task, a.Time, a.Of = f.Task, f.Time, events.FactID(f, x.cfg.Partition)
	if t != nil {
		a.Workflow = t.Workflow
	}
	r, err := events.EncodeAlert(a, f.Task, events.Subject{ID: a.Of, Source: x.source, Time: f.Time, Traceparent: f.Traceparent})
	if err != nil {
		return nil
	}
	return []*effect{{kind: events.EffectAlert, topic: "alerts", record: r}}
}
