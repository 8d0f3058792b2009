package export

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/jsontext"
)

// Fact is a row of the table of facts. Its key is partition and offset. Members that are absent in the log are NULL in Parquet, empty in
// CSV and absent in JSON.
type Fact struct {
	Partition int32 `parquet:"partition"`
	Offset    int64 `parquet:"offset"`
	// Time is in milliseconds since 1970, UTC.
	Time  int64  `parquet:"time,timestamp(millisecond)"`
	Epoch string `parquet:"epoch,dict"`
	// Sequence is the place in the epoch; a claim, which begins one, has none.
	Sequence *int64 `parquet:"sequence"`
	Owner    string `parquet:"owner,dict"`
	// Type is the name of the fact, such as StepCompleted.
	Type string `parquet:"type,dict"`
	// Task and what follows describe the task of the fact: its run, where its submission was accepted, and its definition.
	Task        string `parquet:"task,optional"`
	Run         int32  `parquet:"run,optional"`
	Incarnation string `parquet:"incarnation,optional"`
	Workflow    string `parquet:"workflow,optional,dict"`
	Version     int32  `parquet:"version,optional"`
	// Step is the step or, of a fact about an item, the one with the items; Item is the index.
	Step      string `parquet:"step,optional,dict"`
	Item      *int32 `parquet:"item"`
	Attempt   int32  `parquet:"attempt,optional"`
	Operation string `parquet:"operation,optional,dict"`
	By        string `parquet:"by,optional,dict"`
	// CauseTopic, CausePartition and CauseOffset name the input that caused the fact; Cause is the whole cause as the log has it.
	CauseTopic     string `parquet:"cause_topic,optional,dict"`
	CausePartition *int32 `parquet:"cause_partition"`
	CauseOffset    *int64 `parquet:"cause_offset"`
	Cause          string `parquet:"cause,optional"`
	// Data is the body of the fact: JSON.
	Data string `parquet:"data,optional" is:"json"`
}

// about is what the body of a fact says about its step and its task.
type about struct {
	step, operation, by, workflow string
	attempt, version, run         int
}

// read reads the members of a body that are columns. What it does not name, it passes over.
func (a *about) read(value []byte, t *lives) error {
	r := jsontext.NewReader(value)
	r.Raws = jsontext.ShareRaws
	text := func() string {
		b, escaped := r.TextSpan()
		if escaped {
			return r.Unquoted(b)
		}
		return t.shared(b)
	}
	var skipped json.RawMessage
	for ok := r.Begin('{'); ok; ok = r.More('{') {
		switch string(r.Name()) {
		case "step":
			a.step = text()
		case "attempt":
			a.attempt = r.Int()
		case "operation":
			a.operation = text()
		case "by":
			a.by = text()
		case "workflow":
			a.workflow = text()
		case "version":
			a.version = r.Int()
		case "run":
			a.run = r.Int()
		default:
			r.Raw(&skipped)
		}
	}
	if r.Done() {
		return nil
	}
	*a = about{}
	return a.slowly(value)
}

// slowly reads what the quick reader is in doubt about.
func (a *about) slowly(value []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(value, &all); err != nil {
		return fmt.Errorf("read the body: %w", err)
	}
	for name, to := range map[string]any{
		"step": &a.step, "attempt": &a.attempt, "operation": &a.operation, "by": &a.by, "workflow": &a.workflow, "version": &a.version, "run": &a.run,
	} {
		if raw, ok := all[name]; ok {
			_ = json.Unmarshal(raw, to) // a member of that name that is something else is not that column
		}
	}
	return nil
}

// undoes are the facts about the undo of a step that do not name the operation.
var undoes = map[events.Name]bool{
	events.NameCompensationStarted: true, events.NameCompensated: true, events.NameCompensationFailed: true,
}

// does are the facts about the do of a step that do not name the operation.
var does = map[events.Name]bool{
	events.NameStepStarted: true, events.NameStepCompleted: true, events.NameStepFailed: true, events.NameStepProgressed: true,
}

// operationOf returns the operation of a fact, which some name and of others its kind says.
func operationOf(name events.Name, named string) string {
	switch {
	case named == "" && undoes[name]:
		return string(events.Undo)
	case named == "" && does[name]:
		return string(events.Do)
	}
	return named
}

const claimed = events.TypePrefix + string(events.NamePartitionClaimed)

// row makes the row of an accepted fact, whose position is at unless it is a claim. The lives are as before the fact. Key, cause and body stay in the memory
// of the record.
func (t *lives) row(f *Fact, r *events.Record, at events.Position) error {
	kind := t.shared(r.HeaderBytes(events.HeaderType))
	name := events.Name(strings.TrimPrefix(kind, events.TypePrefix))
	a := about{}
	if err := a.read(r.Value, t); err != nil {
		return err
	}
	*f = Fact{
		Partition: r.Partition, Offset: r.Offset, Epoch: t.epochText(at.Epoch), Owner: t.writer(r), Type: string(name),
		Task: textOf(r.Key), Step: a.step, Attempt: int32(a.attempt), Operation: a.operation, By: a.by, Cause: textOf(r.HeaderBytes(events.HeaderCause)), Data: textOf(r.Value),
	}
	when, err := events.ParseInstant(textOf(r.HeaderBytes(events.HeaderTime)))
	if err != nil {
		return fmt.Errorf("read %s: %w", events.HeaderTime, err)
	}
	f.Time = int64(when)
	if kind != claimed {
		f.Sequence = t.long(int64(at.Sequence))
	}
	if step, index, ok := events.SplitItem(a.step); ok {
		item := int32(index)
		f.Step, f.Item = step, &item
	}
	f.Operation = operationOf(name, f.Operation)
	if in, partition, offset, ok := events.Cause(f.Cause).Input(); ok {
		f.CauseTopic, f.CausePartition, f.CauseOffset = t.topics.of(in), t.small(partition), t.long(offset)
	}
	if f.Task == "" {
		return nil
	}
	l, err := t.take(f, r, &a, at)
	if err != nil {
		return err
	}
	f.Run, f.Incarnation, f.Workflow, f.Version = int32(l.run), t.incarnation(l), t.names[l.workflow], int32(l.version)
	return nil
}

// topicNames are the topics of the inputs.
type topicNames struct{ submissions, reports string }

func (t topicNames) of(in events.Input) string {
	if in == events.Submissions {
		return t.submissions
	}
	return t.reports
}
