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
)

// Receipt is the answer to a submission or request that the log holds.
type Receipt struct {
	ID        string `json:"id" doc:"The task's ID"`
	Partition int32  `json:"partition" doc:"The task's home partition"`
	Offset    *int64 `json:"offset,omitempty" doc:"Where the input topic holds it; absent where it was there before"`
	Token     string `json:"token" doc:"GET /v1/tasks/{id}?token= answers no older than this"`
	// Request is the ID by which a cancel or retry is deduplicated.
	Request string `json:"request,omitempty" doc:"The ID of the request, for a cancel or retry"`
}

// draft is a submission on its way to the log. check fills it.
type draft struct {
	// data is the object as the client wrote it.
	data []byte
	// id is that of the path, empty for none; behind check it is the task's.
	id         string
	submission *events.Submission
	// content is the hash of the submission, empty until somebody needs it.
	content    string
	definition string
	partition  int32
	// known says that the projection holds this very submission already.
	known bool
}

// check makes every check of a draft that can be made before the log: it can be read, its workflow and version are
// there, its input fits the schema, and no other content holds its ID. missing may be nil.
func (s *Server) check(ctx context.Context, d *draft, missing missingWorkflows) error {
	sub, err := parseSubmission(d.data)
	if err != nil {
		return err
	}
	if d.id != "" && sub.ID != "" && sub.ID != d.id {
		return problem(http.StatusUnprocessableEntity, codeInvalid, "The submission names another task than the path.",
			ProblemPlace{Pointer: "/id", Message: "differs from the ID in the path"})
	}
	d.submission, d.id = sub, cmp.Or(d.id, sub.ID)
	isNew := d.id == ""
	if isNew {
		d.id = newID()
	}
	sub.ID = d.id
	d.partition = events.Home(d.id, s.cfg.Partitions)
	if err := s.checkDefinition(ctx, d, missing); err != nil || isNew {
		return err // nobody can have submitted an ID that was just made
	}
	return s.checkConflict(ctx, d)
}

// missingWorkflows remembers, for one bulk submission, which workflows are not there: finding that out takes a look at
// the end of definitions, and a file that names a workflow wrongly does so on each line.
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
	// missingFor is short, since the workflow may be applied while the lines still come.
	missingFor = time.Second
	missingMax = 1000
)

func (m missingWorkflows) find(k workflowKey) error {
	if f, ok := m[k]; ok && time.Now().Before(f.until) {
		return f.problem
	}
	return nil
}

// stale says whether the submission may mean a version that is not known here yet. Of a bulk submission with a faulty
// input on each line it says so now and then.
func (m missingWorkflows) stale(sub *events.Submission) bool {
	if sub.Version != 0 {
		return false // a version never changes
	}
	looked := workflowKey{sub.Workflow, -1}
	if m == nil {
		return true
	}
	if time.Now().Before(m[looked].until) {
		return false
	}
	m[looked] = missingWorkflow{until: time.Now().Add(missingFor)}
	return true
}

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
	if err == nil {
		return sub, nil
	}
	if p := syntaxProblem(data); p != nil {
		return nil, p
	}
	return nil, problem(http.StatusUnprocessableEntity, codeInvalid, "The submission cannot be used.", places(err)...)
}

func (s *Server) checkDefinition(ctx context.Context, d *draft, missing missingWorkflows) error {
	sub := d.submission
	key := workflowKey{sub.Workflow, sub.Version}
	if p := missing.find(key); p != nil {
		return p
	}
	w, known, err := s.cfg.Definitions.Definition(ctx, sub.Workflow, sub.Version)
	if err != nil {
		return s.internal(ctx, "look up a workflow", err)
	}
	if !known {
		return missing.add(key, s.unknownWorkflow(ctx, sub.Workflow, sub.Version, "/"))
	}
	faults, err := s.cfg.Definitions.CheckInput(ctx, w.Hash, sub.Input)
	if err == nil && len(faults) > 0 && missing.stale(sub) {
		w, faults, err = s.checkAgain(ctx, w, sub, faults)
	}
	if err != nil {
		return s.internal(ctx, "validate an input", err)
	}
	d.definition = w.Hash
	if len(faults) > 0 {
		return problem(http.StatusUnprocessableEntity, codeInvalid,
			fmt.Sprintf("The input does not fit the schema of workflow %s, version %d.", w.Name, w.Version), faultPlaces(faults, "/input")...)
	}
	return nil
}

// checkAgain validates an input that did not fit once more, if another node has applied a version since.
func (s *Server) checkAgain(ctx context.Context, old Definition, sub *events.Submission, faults []Fault) (Definition, []Fault, error) {
	s.refresh(ctx)
	w, known, err := s.cfg.Definitions.Definition(ctx, sub.Workflow, sub.Version)
	if err != nil || !known || w.Hash == old.Hash {
		return old, faults, err
	}
	faults, err = s.cfg.Definitions.CheckInput(ctx, w.Hash, sub.Input)
	return w, faults, err
}

// unknownWorkflow names the nearest workflow, or the versions that there are.
func (s *Server) unknownWorkflow(ctx context.Context, name string, version int, pointer string) error {
	list, err := s.cfg.Definitions.Workflows(ctx)
	if err != nil {
		return s.internal(ctx, "list workflows", err)
	}
	names := make([]string, len(list))
	for i, w := range list {
		names[i] = w.Name
		if w.Name == name {
			text := fmt.Sprintf("workflow %s has no version %d; its versions are %v", name, version, w.Versions)
			return workflowProblem(text, pointer, "version")
		}
	}
	if len(names) == 0 {
		return workflowProblem("no workflow is known yet; apply one first", pointer, "workflow")
	}
	return workflowProblem(fmt.Sprintf("no workflow has the name %q; %s", name, events.Suggest(name, names)), pointer, "workflow")
}

func workflowProblem(text, pointer, member string) error {
	p := problem(http.StatusNotFound, codeWorkflow, strings.ToUpper(text[:1])+text[1:]+".")
	if pointer != "" {
		p.Errors = []ProblemPlace{{Pointer: pointer + member, Message: text}}
	}
	return p
}

// checkConflict spares a client the dead letter where the projection already holds another content for the ID. Where the
// task's partition is elsewhere, the log alone decides: a submission waits for no other node.
func (s *Server) checkConflict(ctx context.Context, d *draft) error {
	if !s.cfg.Cluster.Route(d.partition).Here {
		return nil
	}
	t, err := s.cfg.Tasks.Task(ctx, d.id)
	if err != nil {
		return s.internal(ctx, "look up a task", err)
	}
	if t == nil {
		return nil
	}
	if err := s.hash(ctx, d); err != nil {
		return err
	}
	if t.Content != d.content {
		return conflictProblem()
	}
	d.known = true
	return nil
}

// hash fills in the content of a checked draft.
func (s *Server) hash(ctx context.Context, d *draft) error {
	if d.content != "" {
		return nil
	}
	var err error
	if d.content, err = d.submission.ContentHash(); err != nil {
		return s.internal(ctx, "hash a submission", err)
	}
	return nil
}

func conflictProblem() *Problem {
	return problem(http.StatusConflict, codeConflict,
		"A task with this ID was submitted with other content, and the first submission of an ID stands. Choose another ID.",
		ProblemPlace{Pointer: "/id", Message: "is taken by a submission with other content"})
}

func (s *Server) receipt(d *draft, offset int64) Receipt {
	r := Receipt{ID: d.id, Partition: d.partition}
	r.Token = token{events.Submissions, d.partition, offset, d.content}.String()
	if offset >= 0 {
		r.Offset = &offset
	}
	return r
}

// submit is the whole way of one submission. urlID is the ID of the path, empty for POST.
func (s *Server) submit(ctx context.Context, x exchange, urlID string) (*ReceiptAnswer, error) {
	if err := x.acceptsJSON(); err != nil {
		return nil, err
	}
	data, err := x.readBody(s.cfg.SubmissionBytes, "a submission")
	if err != nil {
		return nil, err
	}
	d := draft{data: data, id: urlID}
	if err := s.check(ctx, &d, nil); err != nil {
		return nil, err
	}
	if err := s.hash(ctx, &d); err != nil {
		return nil, err
	}
	if d.known {
		return &ReceiptAnswer{Status: http.StatusOK, Location: taskPath(d.id), Body: s.receipt(&d, -1)}, nil
	}
	offset, err := s.append(ctx, s.record(&d, x.r.Header.Get("traceparent")))
	if err != nil {
		return nil, err
	}
	return &ReceiptAnswer{Status: http.StatusAccepted, Location: taskPath(d.id), Body: s.receipt(&d, offset)}, nil
}

// internal logs an error of ours and returns what the client is told. A client that hung up is not an error.
func (s *Server) internal(ctx context.Context, act string, err error) error {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if ctx.Err() == nil {
		s.cfg.Logger.Error("the API could not "+act, "error", err)
	}
	return asProblem(err)
}
