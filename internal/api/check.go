package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/jsontext"
)

// check makes every check of a draft that is possible before it is in the log: it can be read, its workflow and version exist,
// its input fits the schema, and its ID was not used with other content. missing may be nil.
func (s *submissions) check(ctx context.Context, d *draft, missing missingWorkflows) error {
	if err := s.checkContent(ctx, d, missing); err != nil {
		return err
	}
	return s.finish(ctx, d)
}

// checkContent makes the checks that need neither keys nor the task.
func (s *submissions) checkContent(ctx context.Context, d *draft, missing missingWorkflows) error {
	sub, err := parseSubmission(d.data)
	if err == nil {
		err = repeated(d.data)
	}
	if err != nil {
		return err
	}
	if d.id != "" && sub.ID != "" && sub.ID != d.id {
		return problem(http.StatusUnprocessableEntity, codeInvalid, "The submission names another task than the path.",
			ProblemPlace{Pointer: "/id", Message: "differs from the ID in the path"})
	}
	d.submission, d.id = sub, cmp.Or(d.id, sub.ID)
	if d.isNew = d.id == ""; d.isNew {
		d.id = newID()
	}
	sub.ID = d.id
	d.partition = events.Home(d.id, s.partitions)
	if err := s.checkReply(ctx, sub, missing); err != nil {
		return err
	}
	return s.checkDefinition(ctx, d, missing)
}

// finish seals a checked draft, and compares it with the task that has its ID.
func (s *submissions) finish(ctx context.Context, d *draft) error {
	if err := s.seal(ctx, d); err != nil || d.isNew {
		return err // an ID that was just generated cannot be in use
	}
	return s.checkConflict(ctx, d)
}

// checkAll checks a draft and fills in its content hash.
func (s *submissions) checkAll(ctx context.Context, d *draft) error {
	if err := s.check(ctx, d, nil); err != nil {
		return err
	}
	return s.hash(ctx, d)
}

// missingWorkflows remembers, for one bulk submission, which workflows do not exist: finding that out takes a look at the end of
// definitions, and a file with a wrong workflow name has it on every line.
type missingWorkflows map[workflowKey]missingWorkflow

type workflowKey struct {
	name    string
	version int
}

type missingWorkflow struct {
	problem error
	until   time.Time
}

const (
	// missingFor is short, because the workflow may be applied while lines still arrive.
	missingFor = time.Second
	missingMax = 1000
)

func (m missingWorkflows) find(k workflowKey) error {
	if f, ok := m[k]; ok && time.Now().Before(f.until) {
		return f.problem
	}
	return nil
}

// currentKey stands for all current versions.
var currentKey = workflowKey{version: -1}

// refreshed says whether the current versions were looked up for this batch of a bulk submission. A nil map stands for a single
// submission, which looks them up itself.
func (m missingWorkflows) refreshed() bool {
	_, ok := m[currentKey]
	return ok
}

// nextBatch makes the next batch look up the current versions, because its lines may have been written after an apply.
func (m missingWorkflows) nextBatch() { delete(m, currentKey) }

func (m missingWorkflows) add(k workflowKey, problem error) error {
	if m == nil || asProblem(problem).Status != http.StatusNotFound {
		return problem
	}
	if len(m) >= missingMax {
		clear(m)
	}
	m[k] = missingWorkflow{problem, time.Now().Add(missingFor)}
	return problem
}

func parseSubmission(data []byte) (*events.Submission, error) {
	sub, err := events.ParseSubmission(data)
	if err == nil && sub.Schedule != "" {
		return nil, problem(http.StatusUnprocessableEntity, codeInvalid, "The submission cannot be used.", ProblemPlace{Pointer: "/schedule", Message: "is set by the engine: trigger the schedule instead"})
	}
	if err == nil && len(sub.Parent) > 0 {
		return nil, problem(http.StatusUnprocessableEntity, codeInvalid, "The submission cannot be used.", ProblemPlace{Pointer: "/parent", Message: "is set by the engine: only a step of another task starts a child"})
	}
	if err == nil {
		_, err = sub.TimesFrom(events.At(time.Now()), 0)
	}
	if err == nil {
		return sub, nil
	}
	if p := syntaxProblem(data); p != nil {
		return nil, p
	}
	return nil, problem(http.StatusUnprocessableEntity, codeInvalid, "The submission cannot be used.", places(err)...)
}

// repeated refuses a body in which an object has a name twice: one of the two values would be lost without a word.
func repeated(data []byte) error {
	at, name, found := jsontext.Twice(data)
	if !found {
		return nil
	}
	place := ProblemPlace{Message: fmt.Sprintf("the object has %q twice: remove one of them", events.Clip(name, 100))}
	place.Line, place.Column = position(data, int64(at)+1)
	return problem(http.StatusBadRequest, codeUnreadable, "The submission has a duplicate name in an object.", place)
}

// checkReply refuses a reply topic that the settings do not allow. Another node may have allowed it a moment ago; if that cannot be found
// out, the owner decides.
func (s *submissions) checkReply(ctx context.Context, sub *events.Submission, missing missingWorkflows) error {
	if s.replies(sub.ReplyTo) == nil || !missing.refreshed() && !s.refresh(ctx, missing) {
		return nil
	}
	if err := s.replies(sub.ReplyTo); err != nil {
		return problem(http.StatusUnprocessableEntity, codeInvalid, "The task cannot be answered in the topic of its reply_to.", places(err)...)
	}
	return nil
}

func (s *submissions) checkDefinition(ctx context.Context, d *draft, missing missingWorkflows) error {
	sub := d.submission
	key := workflowKey{sub.Workflow, sub.Version}
	if p := missing.find(key); p != nil {
		return p
	}
	fresh := sub.Version != 0 || missing.refreshed() || s.refresh(ctx, missing)
	w, known, err := s.definitions.Definition(ctx, sub.Workflow, sub.Version)
	if err != nil {
		return s.log.internal(ctx, "look up a workflow", err)
	}
	if !known {
		return missing.add(key, s.workflows.unknown(ctx, sub.Workflow, sub.Version, "/"))
	}
	accepted, faults, err := s.definitions.Accept(ctx, w, sub)
	if err != nil {
		return s.log.internal(ctx, "validate an input", err)
	}
	if fresh {
		d.definition = w.Hash
	}
	if len(faults) == 0 {
		d.subject = accepted.Labels[SubjectLabel]
		return nil
	}
	title := "The input does not fit the schema of workflow %s, version %d."
	if !strings.HasPrefix(faults[0].Pointer, "/input") {
		title = "The labels, the priority or the fair_by that workflow %s, version %d, gives to this task cannot be used."
	}
	return problem(http.StatusUnprocessableEntity, codeInvalid, fmt.Sprintf(title, w.Name, w.Version), faultPlaces(faults, "")...)
}

// refresh reads the definitions up to their end, since another node may have applied a version a moment ago. If it returns
// false, the end is not known: the submission then names no definition, and the owner takes the one that is current.
func (s *submissions) refresh(ctx context.Context, missing missingWorkflows) bool {
	if !s.workflows.refresh(ctx) {
		return false
	}
	if missing != nil {
		missing[currentKey] = missingWorkflow{}
	}
	return true
}

// checkConflict refuses a draft whose ID has other content in the projection, which spares the client a dead letter. If
// the task's partition is elsewhere, only the log decides: a submission does not wait for another node.
func (s *submissions) checkConflict(ctx context.Context, d *draft) error {
	if !s.router.Route(d.partition).Here {
		return nil
	}
	t, err := s.tasks.Task(ctx, d.id)
	if err != nil {
		return s.log.internal(ctx, "look up a task", err)
	}
	if t == nil {
		return nil
	}
	if err := s.hash(ctx, d); err != nil {
		return err
	}
	if t.Content != d.content && !d.knownInClear(t) {
		known, err := s.knownByContent(d, t)
		if _, passes := errors.AsType[*events.NoKeyError](err); passes {
			return nil // nobody can compare them here now: it goes to the log, and the owner decides
		}
		if known {
			d.known = true
			return nil
		}
		if p := erasedProblem(s.keys, t); p != nil { // a repeat cannot be recognised any more
			return p
		}
		return conflictProblem()
	}
	d.known = true
	return nil
}

// hash fills in a checked draft's content hash.
func (s *submissions) hash(ctx context.Context, d *draft) error {
	if d.content != "" {
		return nil
	}
	var err error
	if d.content, err = d.submission.ContentHash(); err != nil {
		return s.log.internal(ctx, "hash a submission", err)
	}
	return nil
}

func conflictProblem() *Problem {
	return problem(http.StatusConflict, codeConflict,
		"A task with this ID was submitted with other content, and the first submission of an ID counts. Choose another ID.",
		ProblemPlace{Pointer: "/id", Message: "is taken by a submission with other content"})
}
