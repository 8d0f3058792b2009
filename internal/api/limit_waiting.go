package api

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

const limitWaitingPath = limitPath + "/waiting"

// WaitingQuery asks for what waits for a limit.
type WaitingQuery struct {
	LimitPath
	Limit  pageLimit `query:"limit" default:"100" doc:"Links a page"`
	Cursor string    `query:"cursor" doc:"next of the page before"`
}

// WaitingList is a page of what waits for a limit.
type WaitingList struct {
	Waiters []LimitLink `json:"waiters" nullable:"false" doc:"In the order in which they get permits: undos first, then by priority, then by who asked first"`
	Waiting int         `json:"waiting" doc:"How many wait, on all pages"`
	Next    string      `json:"next,omitempty" doc:"The cursor of the next page; absent on the last"`
}

// WaitingAnswer is a page of what waits for a limit.
type WaitingAnswer struct{ Body WaitingList }

func (s *permitLimits) registerWaiting(api huma.API) {
	huma.Register(api, needsOwner(api, huma.Operation{
		OperationID: "list-limit-waiting", Method: http.MethodGet, Path: limitWaitingPath, Summary: "List what waits for a limit", Tags: []string{"limits"},
		Description: "All tasks, or attempts, that wait for a permit, in pages. A page continues behind the last link of the page before, even if that has its permit by then.",
	}), s.waiting)
}

func (s *permitLimits) waiting(ctx context.Context, in *WaitingQuery) (*WaitingAnswer, error) {
	after, err := afterLink(in.Name, in.Cursor)
	if err != nil {
		return nil, err
	}
	l, err := s.tasks.Limit(ctx, limitKey(in.Name))
	if err != nil {
		return nil, s.log.internal(ctx, "read a limit", err)
	}
	if l == nil {
		if err := s.known(ctx, in.Name); err != nil {
			return nil, err
		}
		return &WaitingAnswer{WaitingList{Waiters: []LimitLink{}}}, nil // it was applied, and its owner has not read that yet
	}
	list := l.WaitingAfter(after)
	out := WaitingList{Waiting: len(l.Waiting())}
	if most := int(in.Limit); len(list) > most {
		list = list[:most]
		out.Next = linkCursor(in.Name, list[most-1])
	}
	links, err := s.links(ctx, list)
	out.Waiters = append([]LimitLink{}, links...) // a list in JSON, also without an item
	return &WaitingAnswer{out}, err
}

// known refuses the name of a limit that does not exist.
func (s *permitLimits) known(ctx context.Context, name string) error {
	all, err := s.named.NamedLimits(ctx)
	if err != nil {
		return notRead(ctx, s.log, "list limits", err)
	}
	if _, ok := all[name]; ok {
		return nil
	}
	return noLimit(name)
}

func noLimit(name string) error {
	return problem(http.StatusNotFound, codeNotFound,
		fmt.Sprintf("There is no limit %q, and no task has a permit of it or waits for one. The name of a limit of concurrency is the workflow, a slash, and the key.", events.Clip(name, maxReason)))
}

// linkCursor is the place of a link in the order of those that wait for a limit.
func linkCursor(limit string, x *events.Permit) string {
	undo := 0
	if x.Link.Operation == events.Undo {
		undo = 1
	}
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %d %s %s", undo, x.Priority, x.Asked, limit))
}

// afterLink returns the place that a cursor of that limit names, nil for none.
func afterLink(limit, cursor string) (*events.Permit, error) {
	if cursor == "" {
		return nil, nil
	}
	bad := parameterProblem("cursor", "is not a cursor of this list")
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	parts := strings.SplitN(string(b), " ", 4)
	if err != nil || len(parts) != 4 || parts[3] != limit {
		return nil, bad
	}
	x := &events.Permit{}
	if parts[0] == "1" {
		x.Link.Operation = events.Undo
	}
	if x.Priority, err = strconv.Atoi(parts[1]); err != nil {
		return nil, bad
	}
	if x.Asked, err = events.ParsePosition(parts[2]); err != nil {
		return nil, bad
	}
	return x, nil
}
