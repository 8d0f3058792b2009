package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/proxy"
)

const (
	limitsPath = "/v1/limits"
	limitPath  = limitsPath + "/{name}"
	// maxLimits is how many limits a list has, and maxLinks how many holders and waiters of a limit are named.
	maxLimits = 1000
	maxLinks  = 100
	// limitsWithin is how long other nodes may take for their part of the list.
	limitsWithin = 3 * time.Second
)

// Limits knows the limits to which some task has a link. Limits with one name are read by Tasks.
type Limits interface {
	// EachLimit calls use with each limit whose home is one of the partitions, as of their latest commit.
	EachLimit(ctx context.Context, partitions []int32, use func(*events.Limit)) error
}

// LimitDocument is a limit.
type LimitDocument struct {
	Limit     string         `json:"limit" doc:"Its name: that of a named limit, or of a limit of concurrency the workflow, a slash, and the key"`
	Named     bool           `json:"named,omitzero" doc:"Steps name it, and its permits are those of attempts; absent: a limit of concurrency, whose permits are those of tasks"`
	Max       int            `json:"max" doc:"How many permits there are: of a named limit by its object, of another by the newest version of the workflow that a task asked for; 0: only the rate bounds them"`
	Rate      string         `json:"rate,omitempty" doc:"How many permits of a named limit are given in a time" example:"50/s"`
	AppliedAt events.Instant `json:"applied_at,omitzero" format:"date-time" doc:"When the named limit was applied"`
	Changed   bool           `json:"changed,omitzero" doc:"Whether the call changed anything"`
	Held      int            `json:"held" doc:"How many permits are not free"`
	Halted    int            `json:"halted" doc:"How many of the first 100 holders are parked or paused, of those that this node knows"`
	Waiting   int            `json:"waiting" doc:"How many tasks wait for a permit"`
	Paused    *events.Paused `json:"paused,omitempty" doc:"Who paused the limit, since when, and why"`
	Since     events.Instant `json:"since,omitzero" format:"date-time" doc:"Since when the next one waits; absent if this node does not know it"`
	Holders   []LimitLink    `json:"holders,omitempty" doc:"The first 100, in the order in which they asked"`
	Waiters   []LimitLink    `json:"waiters,omitempty" doc:"The first 100, in the order in which they get permits"`
}

// LimitLink is a task that has a permit or waits for one.
type LimitLink struct {
	Task     string           `json:"task"`
	Step     string           `json:"step,omitempty" doc:"The step whose attempt has the permit of a named limit or waits for it"`
	Undo     bool             `json:"undo,omitzero" doc:"It is an attempt to undo the step"`
	Priority int              `json:"priority,omitzero"`
	State    events.TaskState `json:"state,omitempty" doc:"The state of the task; absent if this node does not know the task"`
	Since    events.Instant   `json:"since,omitzero" format:"date-time" doc:"Since when it has the permit or waits for it"`
	Halted   string           `json:"halted,omitempty" enum:"parked,paused" doc:"The task does not go on"`
	HaltedAt events.Instant   `json:"halted_at,omitzero" format:"date-time" doc:"Since when it does not go on"`
	FreeAt   events.Instant   `json:"free_at,omitzero" format:"date-time" doc:"The task has given the permit back, but a request of it may still land until then"`
}

// LimitPath names a limit.
type LimitPath struct {
	Name string `path:"name" doc:"Its name, percent-encoded: that of a named limit, or the workflow, a slash, and the key"`
}

// LimitAnswer is a limit.
type LimitAnswer struct{ Body LimitDocument }

// LimitsQuery asks for limits.
type LimitsQuery struct {
	All bool `query:"all" doc:"Also the limits for which no task waits and that are not paused"`
}

// LimitsList is a list of limits.
type LimitsList struct {
	Limits  []LimitDocument    `json:"limits" nullable:"false" doc:"Those with the most waiting tasks first, at most 1000"`
	More    int                `json:"more,omitzero" doc:"How many limits are left out"`
	Missing []MissingPartition `json:"missing,omitempty" doc:"The partitions whose limits are left out"`
}

// LimitsAnswer is a list of limits.
type LimitsAnswer struct{ Body LimitsList }

// permitLimits answers for the limits of concurrency, and for named ones.
type permitLimits struct {
	documents
	limits Limits
	named  NamedLimits
	proxy  *proxy.Proxy
}

func (s *permitLimits) register(api huma.API) {
	tags := []string{"limits"}
	list := operation(api, huma.Operation{
		OperationID: "list-limits", Method: http.MethodGet, Path: limitsPath, Summary: "List limits", Tags: tags,
		Description: "All named limits. And a workflow with concurrency has a limit for each key whose tasks run or wait: the list has those for which tasks wait, and those that are paused.",
	})
	huma.Register(api, list, s.list)
	huma.Register(api, needsOwner(api, huma.Operation{
		OperationID: "get-limit", Method: http.MethodGet, Path: limitPath, Summary: "Read a limit", Tags: tags,
		Description: "Which tasks or attempts have its permits, and which wait for one.",
	}), s.get)
	s.registerWaiting(api)
}

// limitKey returns the key of a limit's records by its name in documents.
func limitKey(name string) string {
	if !strings.Contains(name, "/") {
		return events.LimitKey(name)
	}
	return events.ConcurrencyPrefix + name
}

func (s *permitLimits) get(ctx context.Context, in *LimitPath) (*LimitAnswer, error) {
	if all, err := s.named.NamedLimits(ctx); err != nil {
		return nil, notRead(ctx, s.log, "list limits", err)
	} else if known, ok := all[in.Name]; ok {
		d, err := s.describe(ctx, &known)
		return &LimitAnswer{d}, err
	}
	l, err := s.tasks.Limit(ctx, limitKey(in.Name))
	if err != nil {
		return nil, s.log.internal(ctx, "read a limit", err)
	}
	if l == nil {
		return nil, noLimit(in.Name)
	}
	d, err := s.document(ctx, l)
	return &LimitAnswer{d}, err
}

// document returns a limit and what this node knows of its tasks.
func (s *permitLimits) document(ctx context.Context, l *events.Limit) (d LimitDocument, err error) {
	d = LimitDocument{Limit: limitName(l.Name), Named: l.IsNamed(), Max: l.Max, Rate: l.Rate, Paused: l.Paused}
	var holders []*events.Permit
	for x := range l.Permits() {
		if x.Held() {
			holders = append(holders, x)
		}
	}
	slices.SortStableFunc(holders, func(a, b *events.Permit) int {
		switch {
		case a.Asked.Before(b.Asked):
			return -1
		case b.Asked.Before(a.Asked):
			return 1
		}
		return 0
	})
	waiters := l.Waiting()
	d.Held, d.Waiting = len(holders), len(waiters)
	if d.Holders, err = s.links(ctx, holders[:min(len(holders), maxLinks)]); err != nil {
		return d, err
	}
	if d.Waiters, err = s.links(ctx, waiters[:min(len(waiters), maxLinks)]); err != nil {
		return d, err
	}
	for _, x := range d.Holders {
		if x.Halted != "" {
			d.Halted++
		}
	}
	if len(d.Waiters) > 0 {
		d.Since = d.Waiters[0].Since
	}
	return d, nil
}

// links says what is known of each link.
func (s *permitLimits) links(ctx context.Context, list []*events.Permit) (out []LimitLink, err error) {
	for _, x := range list {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		d := LimitLink{Task: x.Link.Task, Step: x.Link.Path, Undo: x.Link.Operation == events.Undo, Priority: x.Priority, FreeAt: x.EndsAt}
		if !s.here(d.Task) {
			out = append(out, d)
			continue
		}
		t, err := s.tasks.Task(ctx, d.Task)
		if err != nil {
			return nil, s.log.internal(ctx, "read a task of a limit", err)
		}
		if t != nil && t.Incarnation == x.Link.Incarnation {
			d.tell(t, x.Link)
		}
		out = append(out, d)
	}
	return out, nil
}

// tell adds what the task says.
func (d *LimitLink) tell(t *events.Task, link events.Link) {
	d.State = t.State
	if link.Path != "" {
		if p := events.StepPermitOf(t, link.Path, link.Operation); p != nil && p.N == link.N {
			d.Since = p.At
		}
	} else if p := t.Permit; p != nil && p.State != "" {
		d.Since = p.At
	}
	switch {
	case t.State == events.TaskStateError:
		d.Halted, d.HaltedAt = "parked", t.ParkedAt
	case t.Paused != nil:
		d.Halted, d.HaltedAt = "paused", t.Paused.Since
	}
}

func (s *permitLimits) list(ctx context.Context, in *LimitsQuery) (*LimitsAnswer, error) {
	asked, ok := s.proxy.Asked(exchangeOf(ctx).r)
	if !ok {
		return nil, parameterProblem(proxy.HeaderPartitions, "is not a list of partitions")
	}
	at := s.proxy.Locate()
	partitions, unknown := asked, []int32(nil)
	if asked == nil {
		partitions, unknown = readableOf(&at, s.cluster)
	}
	out := &LimitsAnswer{}
	if err := s.listHere(ctx, in, partitions, &out.Body); err != nil {
		return nil, err
	}
	if asked == nil {
		out.Body.lacks(unknown)
		s.askOthers(ctx, in, at.There, &out.Body)
		sayStopped(s.cluster, out.Body.Missing)
	}
	out.Body.sort()
	return out, nil
}

// readableOf returns the partitions that this node reads, including those that nobody owns, and those that no node can answer for.
func readableOf(at *proxy.Placement, router proxy.Router) (here, unknown []int32) {
	here = at.Here
	for _, p := range at.Nowhere {
		if router.Route(p).Readable() {
			here = append(here, p)
		} else {
			unknown = append(unknown, p)
		}
	}
	return here, unknown
}

// lacks names partitions whose limits are left out.
func (l *LimitsList) lacks(partitions []int32) {
	for _, p := range partitions {
		l.Missing = append(l.Missing, MissingPartition{Partition: p, Reason: codeTakeover})
	}
}

// sort brings the limits with the most waiting tasks to the front, and cuts the list.
func (l *LimitsList) sort() {
	slices.SortFunc(l.Limits, func(a, b LimitDocument) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), strings.Compare(a.Limit, b.Limit))
	})
	if n := len(l.Limits); n > maxLimits {
		l.More += n - maxLimits
		l.Limits = l.Limits[:maxLimits]
	}
	slices.SortFunc(l.Missing, func(a, b MissingPartition) int { return cmp.Compare(a.Partition, b.Partition) })
}

// listHere adds the limits of partitions that are here. It counts the links of all of them, and looks at the tasks of those that it shows.
func (s *permitLimits) listHere(ctx context.Context, in *LimitsQuery, partitions []int32, out *LimitsList) error {
	type brief struct {
		name    string
		waiting int
	}
	var all []brief
	err := s.limits.EachLimit(ctx, partitions, func(l *events.Limit) {
		if n := len(l.Waiting()); n > 0 || in.All || l.Paused != nil || l.IsNamed() {
			all = append(all, brief{l.Name, n})
		}
	})
	if err != nil {
		return s.log.internal(ctx, "list limits", err)
	}
	slices.SortFunc(all, func(a, b brief) int {
		return cmp.Or(cmp.Compare(b.waiting, a.waiting), strings.Compare(a.name, b.name))
	})
	if n := len(all); n > maxLimits {
		out.More, all = n-maxLimits, all[:maxLimits]
	}
	out.Limits = make([]LimitDocument, 0, len(all))
	for _, b := range all {
		l, err := s.tasks.Limit(ctx, b.name)
		if err != nil {
			return s.log.internal(ctx, "read a limit", err)
		}
		if l == nil { // its last task has ended since
			continue
		}
		d, err := s.document(ctx, l)
		if err != nil {
			return err
		}
		d.Holders, d.Waiters = nil, nil
		out.Limits = append(out.Limits, d)
	}
	if away := s.proxy.Unreadable(partitions); len(away) > 0 { // looked at last: a partition that has left by then may have been incomplete
		out.Limits = slices.DeleteFunc(out.Limits, func(d LimitDocument) bool { return slices.Contains(away, events.Home(limitKey(d.Limit), s.partitions)) })
		out.lacks(away)
	}
	return nil
}

// askOthers adds the limits of partitions that other nodes have. Those for which no node answers are named.
func (s *permitLimits) askOthers(ctx context.Context, in *LimitsQuery, there map[proxy.Route][]int32, out *LimitsList) {
	ctx, cancel := context.WithTimeout(ctx, limitsWithin)
	defer cancel()
	q := proxy.Question{Path: limitsPath}
	if in.All {
		q.Query = map[string][]string{"all": {"true"}}
	}
	s.proxy.AskEach(ctx, there, q, func(partitions []int32, answer []byte, err error) error {
		var theirs LimitsList
		if err == nil {
			err = json.Unmarshal(answer, &theirs)
		}
		if err != nil {
			out.lacks(partitions)
			return err
		}
		out.Limits = append(out.Limits, theirs.Limits...)
		out.More += theirs.More
		return nil
	})
}
