package export

import (
	"context"
	"errors"

	"github.com/sagalog/sagalog/events"
)

// Step is a row of the table of steps: a step, or an item of one, of a run of a task. Steps that have not begun have none.
type Step struct {
	Partition   int32  `parquet:"partition"`
	Task        string `parquet:"task"`
	Run         int32  `parquet:"run"`
	Incarnation string `parquet:"incarnation,optional"`
	Workflow    string `parquet:"workflow,dict"`
	Version     int32  `parquet:"version"`
	Step        string `parquet:"step,dict"`
	Item        *int32 `parquet:"item"`
	// Kind is agent, child, items or wait; of a step that was skipped before it began it is not known.
	Kind     string `parquet:"kind,optional,dict"`
	Agent    string `parquet:"agent,optional,dict"`
	Function string `parquet:"function,optional,dict"`
	Child    string `parquet:"child,optional"`
	State    string `parquet:"state,dict"`
	// OperationState is the state of the undo, if it has begun.
	OperationState string `parquet:"operation_state,optional,dict"`
	// Needs are the steps that it needs; nil if the definition is not known any more.
	Needs []string `parquet:"needs,optional,list"`
	// Condition is the result of its if; nil without one.
	Condition *bool `parquet:"condition"`
	// ReadyAt is since when the first attempt of the run could start. It is nil if no attempt has started.
	ReadyAt    *int64 `parquet:"ready_at,timestamp(millisecond)"`
	StartedAt  *int64 `parquet:"started_at,timestamp(millisecond)"`
	EndedAt    *int64 `parquet:"ended_at,timestamp(millisecond)"`
	CompleteBy *int64 `parquet:"complete_by,timestamp(millisecond)"`
	// Attempts and UndoAttempts are those of the run. StartedAt and CompleteBy are those of the latest attempt.
	Attempts     int32 `parquet:"attempts"`
	UndoAttempts int32 `parquet:"undo_attempts"`
	FailureCount int32 `parquet:"failure_count"`
	CoolDowns    int32 `parquet:"cool_downs"`
	// Touched says that an attempt may have had an effect.
	Touched      bool   `parquet:"touched"`
	Pivot        bool   `parquet:"pivot"`
	Undoable     bool   `parquet:"undoable"`
	UndoneAt     *int64 `parquet:"undone_at,timestamp(millisecond)"`
	ErrorClass   string `parquet:"error_class,optional,dict"`
	ErrorCode    string `parquet:"error_code,optional,dict"`
	ErrorMessage string `parquet:"error_message,optional"`
	Reason       string `parquet:"reason,optional"`
	// Waited is from ReadyAt to the start of that attempt, and Worked from StartedAt to EndedAt, in seconds.
	Waited *float64 `parquet:"waited_s"`
	Worked *float64 `parquet:"worked_s"`
	Input  string   `parquet:"input,optional" is:"json"`
	Output string   `parquet:"output,optional" is:"json"`
}

// Steps exports the table of steps into the directory steps of cfg.Dir, like Tasks.
func Steps(ctx context.Context, cfg Config) (Result, error) {
	return export(ctx, cfg, "steps", func(p int32) (maker[Step], error) {
		return newSteps(&cfg, p)
	}, nil)
}

// steps makes the table of steps.
type steps struct {
	states[Step]
	began beginnings
	// known are the definitions that were read, by hash.
	known map[string]definition
}

// mostKnown bounds the definitions that are kept.
const mostKnown = 1000

func newSteps(cfg *Config, partition int32) (*steps, error) {
	t := &steps{known: map[string]definition{}}
	of, err := newStates(cfg, "steps", partition, func(x *events.Task, _ life) ([]Step, error) {
		rows := stepRows(x, partition, !cfg.NoPayloads)
		return rows, t.complete(x, rows)
	})
	if err != nil {
		return nil, err
	}
	t.states = *of
	began, err := newSpill[beginning](cfg.room("steps"), "begun")
	if err != nil {
		return nil, errors.Join(err, of.close())
	}
	t.began = beginnings{began}
	t.note = t.began.note
	return t, nil
}

func (t *steps) close() error { return errors.Join(t.began.close(), t.states.close()) }

// complete adds to the rows of a task's steps what its state does not say.
func (t *steps) complete(x *events.Task, rows []Step) error {
	began, err := t.began.of(x)
	if err != nil {
		return err
	}
	d, err := t.definition(x.Definition)
	if err != nil {
		return err
	}
	for i, s := range x.Steps {
		row := &rows[i]
		b := began[s.Path]
		row.Condition, row.ReadyAt = b.Condition, at(b.Ready)
		row.Waited = between(row.ReadyAt, at(b.Started))
		row.Needs = d[row.Step].needs
	}
	return nil
}

// definition returns an adopted definition; nil if the state has it no more.
func (t *steps) definition(hash string) (definition, error) {
	if d, ok := t.known[hash]; ok {
		return d, nil
	}
	state := t.folder.State()
	if state.Definition(hash) == nil {
		return nil, nil
	}
	body, err := state.DefinitionBody(hash)
	if err != nil {
		return nil, err
	}
	d, err := readDefinition(body)
	if err != nil {
		return nil, err
	}
	if len(t.known) == mostKnown {
		clear(t.known)
	}
	t.known[hash] = d
	return d, nil
}

func stepRows(t *events.Task, partition int32, payloads bool) (rows []Step) {
	for _, s := range t.Steps {
		row := Step{
			Partition: partition, Task: t.ID, Run: int32(t.Run), Incarnation: t.Incarnation, Workflow: t.Workflow, Version: int32(t.Version), Step: s.Path, Kind: kindOf(s),
			Agent: s.Agent, Function: s.Function, State: string(s.State), StartedAt: at(s.StartedAt), EndedAt: at(s.EndedAt), CompleteBy: at(s.CompleteBy),
			Attempts: int32(s.Attempt - s.EarlierAttempts), FailureCount: int32(s.FailureCount), CoolDowns: int32(s.CoolDowns), Touched: s.Touched, Pivot: s.Pivot, Undoable: s.Undoable,
			Reason: s.Reason, Worked: between(at(s.StartedAt), at(s.EndedAt)),
		}
		if step, index, ok := events.SplitItem(s.Path); ok {
			item := int32(index)
			row.Step, row.Item = step, &item
		}
		if s.ByChild != nil {
			row.Child = s.Child()
		}
		failure := s.Error
		if u := s.Undo; u != nil {
			row.OperationState, row.UndoAttempts = string(u.State), int32(u.Attempt-s.EarlierUndos)
			if u.State == events.StepStateUndone {
				row.UndoneAt = at(u.EndedAt)
			}
			if u.Error != nil {
				failure = u.Error
			}
		}
		if failure != nil {
			row.ErrorClass, row.ErrorCode = string(failure.Class), failure.Code
		}
		if payloads {
			row.Input, row.Output = string(s.Input), string(s.Output)
			if failure != nil {
				row.ErrorMessage = failure.Message
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func kindOf(s *events.Step) string {
	switch {
	case s.Fan != nil:
		return "items"
	case s.ByChild != nil:
		return "child"
	case s.Agent != "":
		return "agent"
	case s.State == events.StepStateSkipped && s.StartedAt == 0:
		return ""
	}
	return "wait"
}
