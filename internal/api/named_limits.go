package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

// NamedLimits knows the objects of named limits. Limits and Tasks know who has their permits.
type NamedLimits interface {
	// NamedLimits returns all of them by name, as of a moment after the call. It returns ErrNoAnswer if the brokers do not answer.
	NamedLimits(ctx context.Context) (map[string]NamedLimit, error)
	// ApplyLimit applies the object, and says whether it changed anything. With faults it changed nothing.
	ApplyLimit(ctx context.Context, draft Draft) (now NamedLimit, changed bool, faults []Fault, err error)
	// LimitUsers returns the workflows whose current version names the limit.
	LimitUsers(name string) (workflows []string)
	// DeleteLimit deletes a limit, and returns false if it does not exist.
	DeleteLimit(ctx context.Context, name string) (bool, error)
}

// NamedLimit is a named limit as it was applied.
type NamedLimit struct {
	events.LimitDefinition
	AppliedAt events.Instant
}

// maxLimitBody bounds the object of a limit in a request.
const maxLimitBody = 4 << 10

// namedLimits applies and deletes named limits.
type namedLimits struct{ *permitLimits }

func (s *namedLimits) register(api huma.API) {
	tags := []string{"limits"}
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "apply-limit", Method: http.MethodPut, Path: limitPath, Summary: "Apply a named limit", Tags: tags,
		Description: "In YAML or JSON. Steps name it with limit, in any workflow, and at most max attempts of them run at a time in the namespace, and at most rate of them start in a time. A new max or rate holds at once: " +
			"attempts that run go on, and no other starts until there is room. A limit that is paused stays paused.",
	}), s.put)
	describeBody(api, limitPath, http.MethodPut, described{nil, map[string]any{"limit": "bank", "max": 20, "rate": "50/s"}, maxLimitBody}, contentJSON, "application/yaml")
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "delete-limit", Method: http.MethodDelete, Path: limitPath, Summary: "Delete a named limit", Tags: tags,
		Description: "409 if the current version of a workflow names it. Steps of older versions that name it wait until a limit with this name is applied again.",
	}), s.delete)
}

// notRead is the answer if objects of the definitions cannot be read or written.
func notRead(ctx context.Context, log logger, act string, err error) error {
	if errors.Is(err, ErrNoAnswer) {
		return problem(http.StatusServiceUnavailable, codeUnavailable, "The Kafka brokers do not answer at the moment. Ask again: a repeat is safe.").retryAfter(time.Second)
	}
	return log.internal(ctx, act, err)
}

func (s *namedLimits) put(ctx context.Context, in *LimitPath) (*LimitAnswer, error) {
	source, err := exchangeOf(ctx).readBody(maxLimitBody, "a limit")
	if err != nil {
		return nil, err
	}
	now, changed, faults, err := s.named.ApplyLimit(ctx, Draft{Name: in.Name, Source: source})
	if err != nil {
		return nil, notRead(ctx, s.log, "apply a limit", err)
	}
	if len(faults) > 0 {
		return nil, problem(http.StatusUnprocessableEntity, codeInvalid, "The limit cannot be applied like this; nothing is changed.", faultPlaces(faults, "")...)
	}
	d, err := s.describe(ctx, &now)
	d.Changed = changed
	return &LimitAnswer{d}, err
}

func (s *namedLimits) delete(ctx context.Context, in *LimitPath) (*LimitAnswer, error) {
	all, err := s.named.NamedLimits(ctx)
	if err != nil {
		return nil, notRead(ctx, s.log, "list limits", err)
	}
	known, ok := all[in.Name]
	if !ok {
		return nil, problem(http.StatusNotFound, codeNotFound, fmt.Sprintf("There is no limit %q.", events.Clip(in.Name, maxReason)))
	}
	if users := s.named.LimitUsers(in.Name); len(users) > 0 {
		return nil, problem(http.StatusConflict, codeConflict,
			fmt.Sprintf("The limit %q cannot be deleted: steps of %s name it. Apply versions of them without it first.", in.Name, strings.Join(users, ", ")))
	}
	d, err := s.describe(ctx, &known)
	if err != nil {
		return nil, err
	}
	if d.Changed, err = s.named.DeleteLimit(ctx, in.Name); err != nil {
		return nil, notRead(ctx, s.log, "delete a limit", err)
	}
	return &LimitAnswer{d}, nil
}

// describe returns a named limit and what this node knows of its permits.
func (s *permitLimits) describe(ctx context.Context, known *NamedLimit) (d LimitDocument, err error) {
	l, err := s.tasks.Limit(ctx, events.LimitKey(known.Limit))
	if err != nil {
		return d, s.log.internal(ctx, "read a limit", err)
	}
	if l == nil {
		l = &events.Limit{Name: events.LimitKey(known.Limit)}
	}
	d, err = s.document(ctx, l)
	d.Max, d.Rate, d.AppliedAt, d.Named = known.Max, known.Rate, known.AppliedAt, true
	return d, err
}

// limitName is the name of a limit in documents.
func limitName(key string) string {
	return strings.TrimPrefix(strings.TrimPrefix(key, events.ConcurrencyPrefix), events.NamedPrefix)
}

// waitsWithin says which limit an attempt waits for, who has its permits, and where in the queue it stands.
func (s documents) waitsWithin(ctx context.Context, t *events.Task, step string, now events.Instant) (string, error) {
	p := waitingPermit(t, step)
	if p == nil {
		return "", nil
	}
	text, err := s.holders(ctx, p.Limit, now)
	if err != nil || !s.here(p.Limit) {
		return text, err
	}
	l, err := s.tasks.Limit(ctx, p.Limit)
	if err != nil || l == nil {
		return text, err
	}
	if l.Offset == 0 {
		text += ": there is no such limit; apply it"
	}
	for i, x := range l.Waiting() {
		if x.Link.Task == t.ID && x.Link.Incarnation == t.Incarnation && x.Link.Path == p.Path && x.Link.Operation == p.Operation && x.Link.N == p.N {
			return text + fmt.Sprintf("; number %d of %d that wait", i+1, len(l.Waiting())), nil
		}
	}
	return text, nil
}

// waitingPermit returns the permit for which an attempt of the step waits.
func waitingPermit(t *events.Task, step string) *events.StepPermit {
	for _, op := range []events.Operation{events.Do, events.Undo} {
		if p := events.StepPermitOf(t, step, op); p != nil && p.State == events.PermitStateAsked {
			return p
		}
	}
	return nil
}
