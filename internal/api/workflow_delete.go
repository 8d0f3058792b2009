package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

// WorkflowVersionPath is the path of a version of a workflow.
type WorkflowVersionPath struct {
	WorkflowPath
	Version int `path:"version" minimum:"1" doc:"The version"`
}

// DeletedDocument says what was deleted.
type DeletedDocument struct {
	Name     string `json:"name"`
	Versions []int  `json:"versions" nullable:"false" doc:"The versions that were deleted"`
}

// DeletedAnswer says what was deleted.
type DeletedAnswer struct{ Body DeletedDocument }

func (s *workflows) registerDelete(api huma.API) {
	tags := []string{"workflows"}
	text := "Refused with 409 while a schedule starts it, the current version of another workflow has a step that starts it, or tasks that have not ended use it. " +
		"Submissions that come afterwards are rejected. If the same content is applied again, it gets its version again."
	all := needsOwner(api, huma.Operation{
		OperationID: "delete-workflow", Method: http.MethodDelete, Path: "/v1/workflows/{name}", Summary: "Delete all versions of a workflow", Tags: tags, Description: text,
	})
	one := needsOwner(api, huma.Operation{
		OperationID: "delete-workflow-version", Method: http.MethodDelete, Path: "/v1/workflows/{name}/versions/{version}", Summary: "Delete a version of a workflow", Tags: tags,
		Description: text + " The current version is refused while there are others.",
	})
	huma.Register(api, all, func(ctx context.Context, in *WorkflowPath) (*DeletedAnswer, error) { return s.delete(ctx, in.Name, 0) })
	huma.Register(api, one, func(ctx context.Context, in *WorkflowVersionPath) (*DeletedAnswer, error) {
		return s.delete(ctx, in.Name, in.Version)
	})
}

// delete deletes a version of a workflow, all for version 0. A task that is submitted while the live tasks are counted may still be
// accepted; it ends by the definition that its partition adopted, as all tasks do.
func (s *workflows) delete(ctx context.Context, name string, version int) (*DeletedAnswer, error) {
	s.refresh(ctx)
	w, err := s.workflows.Workflow(ctx, name, version)
	switch {
	case err != nil:
		return nil, s.log.internal(ctx, "look up a workflow", err)
	case w == nil:
		return nil, s.unknown(ctx, name, version, "")
	case version != 0 && w.Current && len(w.Versions) > 1:
		return nil, problem(http.StatusConflict, codePrecondition, fmt.Sprintf(
			"version %d of workflow %s is current: new tasks get it. Apply another version first, or delete the whole workflow", version, name))
	}
	if err := s.refuseScheduled(ctx, name, version); err != nil {
		return nil, err
	}
	if err := s.refuseStarted(ctx, w, version); err != nil {
		return nil, err
	}
	if err := s.refuseUsed(ctx, name, version); err != nil {
		return nil, err
	}
	deleted, err := s.deletions.Delete(ctx, name, version)
	if errors.Is(err, ErrNoAnswer) {
		return nil, problem(http.StatusServiceUnavailable, codeUnavailable,
			"The Kafka brokers do not answer at the moment. Whether the workflow was deleted is not known; GET /v1/workflows says it later.").retryAfter(time.Second)
	}
	if err != nil {
		return nil, s.log.internal(ctx, "delete a workflow", err)
	}
	return &DeletedAnswer{Body: DeletedDocument{Name: name, Versions: deleted}}, nil
}

// refuseScheduled returns a problem if schedules start tasks of the version, of any for version 0.
func (s *workflows) refuseScheduled(ctx context.Context, name string, version int) error {
	all, err := s.schedules.Schedules(ctx)
	if err != nil {
		return notRead(ctx, s.log, "list schedules", err)
	}
	var users []string
	for _, x := range all {
		if x.Workflow == name && (version == 0 || x.Version == version) {
			users = append(users, x.Schedule)
		}
	}
	return neededBy(users, "schedules start tasks of workflow %s: %s. Delete them or apply them with another workflow first", name)
}

// neededBy returns a problem if a workflow has users. text says what they do, with the name of the workflow and those of the users.
func neededBy(users []string, text, name string) error {
	if len(users) == 0 {
		return nil
	}
	slices.Sort(users)
	return problem(http.StatusConflict, codePrecondition, fmt.Sprintf(text, name, strings.Join(users, ", ")))
}

// refuseStarted returns a problem if a step of another workflow, in its current version, starts tasks of the version, of any for version 0.
func (s *workflows) refuseStarted(ctx context.Context, of *Workflow, version int) error {
	name := of.Name
	if len(of.Versions) == 1 {
		version = 0
	}
	all, err := s.workflows.Workflows(ctx)
	if err != nil {
		return notRead(ctx, s.log, "list workflows", err)
	}
	var users []string
	for _, w := range all {
		steps, err := s.definitions.Steps(ctx, w.Hash)
		if err != nil {
			return s.log.internal(ctx, "read the steps of a definition", err)
		}
		if w.Name != name && slices.ContainsFunc(steps, func(x Step) bool {
			return x.Workflow == name && (version == 0 || x.WorkflowVersion == version)
		}) {
			users = append(users, w.Name)
		}
	}
	return neededBy(users, "workflow %s is started by steps of these workflows: %s. Delete them first, or apply versions without such a step", name)
}

// maxUsed bounds how many live tasks are counted before a deletion is refused.
const maxUsed = 1000

// refuseUsed returns a problem if live tasks use a version, any for version 0.
func (s *workflows) refuseUsed(ctx context.Context, name string, version int) error {
	q := Query{
		States:   []events.TaskState{events.TaskStatePending, events.TaskStateProcessing, events.TaskStateUndoing, events.TaskStateError},
		Workflow: name, Fields: []string{"id", "version"}, Brief: true, Limit: MaxLimit,
	}
	if err := s.lists.room.enter(ctx, q, false); err != nil {
		return err
	}
	n := 0
	for more := true; more && n < maxUsed; more = q.Cursor != "" {
		page, err := s.lists.readAll(ctx, q)
		if err != nil {
			return s.log.internal(ctx, "list the tasks of a workflow", err)
		}
		if len(page.Missing) > 0 {
			var missing []int32
			for _, m := range page.Missing {
				missing = append(missing, m.Partition)
			}
			return s.lists.unread(missing)
		}
		for i := range page.Tasks {
			if version == 0 || page.Tasks[i].Version == version {
				n++
			}
		}
		q.Cursor = page.Next
	}
	if n == 0 {
		return nil
	}
	count := fmt.Sprint(n)
	if n >= maxUsed {
		count = fmt.Sprintf("%d or more", maxUsed)
	}
	what := "workflow " + name
	if version != 0 {
		what = fmt.Sprintf("version %d of workflow %s", version, name)
	}
	return problem(http.StatusConflict, codePrecondition, fmt.Sprintf(
		"%s is used by live tasks: %s. Wait until they have ended, or cancel them; see sagalog task list --workflow %s --state pending,processing,undoing,parked", what, count, name))
}
