package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/proxy"
	"github.com/sagalog/sagalog/supervisor"
)

const (
	alertsPath      = "/v1/alerts"
	acknowledgePath = alertsPath + "/{id}/acknowledge"
	// alertsWithin is how long other nodes may take for their part.
	alertsWithin = 3 * time.Second
	// MostOpen bounds the open alerts of each node besides parked tasks.
	MostOpen = 1_000
	// MostRead bounds the live tasks that a node reads whole to find soft limits that have passed.
	MostRead = 5_000
)

// Alerts finds what a person must look at, and remembers which alerts somebody has acknowledged.
type Alerts interface {
	// Open returns the open alerts of partitions, at most MostOpen, without those of parked tasks; partial says that there may be more. It adds
	// the alerts of ids that are open, including those of parked tasks. It reads no topic.
	Open(ctx context.Context, partitions []int32, ids []string) (list []Alert, partial bool, err error)
	// Acknowledged returns the acknowledgements by the ID of the alert. Some of these alerts may be over.
	Acknowledged() map[string]Acknowledgement
	// Acknowledge records an acknowledgement, and returns false if the alert has one already. The record is durable on return. The error may be
	// ErrNoAnswer.
	Acknowledge(context.Context, events.AlertAcknowledgement) (changed bool, err error)
	// Raised returns the bounds of the topic of alerts: start <= offset < end.
	Raised(ctx context.Context) (start, end int64, err error)
	// ReadRaised returns the records of that topic with from <= offset < to, in order.
	ReadRaised(ctx context.Context, from, to int64) ([]events.Record, error)
}

// AlertsQuery asks for alerts.
type AlertsQuery struct {
	Kind   []string  `query:"kind,explode" doc:"Only alerts of this kind; several, repeated or with commas between them, mean any of these" example:"parked"`
	Open   bool      `query:"open" default:"true" doc:"false: the newest records of the topic of alerts instead, whether what they say still holds or not"`
	ID     string    `query:"id" doc:"Only the open alert with this ID, if it is open"`
	Limit  pageLimit `query:"limit" default:"100" doc:"Alerts a page"`
	Cursor string    `query:"cursor" doc:"next of the page before"`
}

// wants says whether the query selects a kind.
func (q *AlertsQuery) wants(kind string) bool {
	return len(q.Kind) == 0 || slices.Contains(q.Kind, kind)
}

// AlertList is a page of alerts.
type AlertList struct {
	Alerts  []Alert            `json:"alerts" nullable:"false" doc:"Open alerts: the oldest first, then those of parked tasks in the order of a list of tasks, then the acknowledged ones. Records: the newest first"`
	Next    string             `json:"next,omitempty" doc:"The cursor of the next page; absent on the last. A page may be short, or empty, and still have one"`
	Counts  []AlertCount       `json:"counts,omitempty" doc:"How many alerts are open, by kind, on all pages and whatever the query selects"`
	Partial bool               `json:"partial,omitzero" doc:"There may be more alerts than were looked for, so all counts except that of parked are minimums"`
	Missing []MissingPartition `json:"missing,omitempty" doc:"The partitions whose alerts this page lacks"`
}

// AlertCount is how many alerts of a kind are open.
type AlertCount struct {
	Kind         string `json:"kind"`
	Count        int64  `json:"count"`
	Acknowledged int64  `json:"acknowledged" doc:"How many of these somebody has acknowledged"`
}

// AlertsAnswer is a page of alerts.
type AlertsAnswer struct{ Body AlertList }

// alerts serves the calls about alerts.
type alerts struct {
	*counts
	alerts Alerts
}

func (s *alerts) register(api huma.API) {
	huma.Register(api, needsOwner(api, huma.Operation{
		OperationID: "list-alerts", Method: http.MethodGet, Path: alertsPath, Summary: "List alerts", Tags: []string{"alerts"},
		Description: "Open alerts are derived from the current state of tasks, agents, schedules and limits, so they survive the loss of the topic of alerts. These are open: parked tasks " +
			"(parked); tasks that have not ended although their deadline has passed, and that are not parked (deadline_passed); steps that run or wait, and tasks that live, for " +
			"longer than their remind_after (soft_limit_passed); operations that no live instance offers although steps have waited for them for 30 s (agent_missing); schedules " +
			"whose due times are passed over (schedule_blocked); and concurrency limits for which tasks have been waiting behind a parked task for 15 minutes, as far as the node " +
			"knows that task (concurrency_blocked). The other kinds report something that happened, so they are never open. Tasks past their deadline or a soft limit have no " +
			"index: every five seconds, or less often if it takes long, a node looks at its newest 50,000 live tasks, reads 5,000 of them completely, and shows 1,000; beyond that " +
			"the answer is partial. With open=false, records of a lost topic are missing.",
	}), s.list)
	s.registerAcknowledge(api)
}

func (s *alerts) list(ctx context.Context, in *AlertsQuery) (*AlertsAnswer, error) {
	var kinds []string
	for _, list := range in.Kind {
		kinds = append(kinds, strings.FieldsFunc(list, func(r rune) bool { return r == ',' })...)
	}
	for _, kind := range kinds {
		if !slices.Contains(AlertKinds, kind) {
			return nil, parameterProblem("kind", "is not a kind of alert; the kinds are "+strings.Join(AlertKinds, ", "))
		}
	}
	in.Kind = kinds
	if !in.Open {
		return s.records(ctx, in)
	}
	if _, _, ok := AlertSubject(in.ID); in.ID != "" && !ok {
		return nil, parameterProblem("id", "is not the ID of an alert that can be open")
	}
	asked, ok := s.proxy.Asked(exchangeOf(ctx).r)
	if !ok {
		return nil, parameterProblem(proxy.HeaderPartitions, "is not a list of partitions")
	}
	found, err := s.find(ctx, in.ID, asked)
	if err != nil {
		return nil, err
	}
	if asked == nil {
		if found, err = s.page(ctx, in, found); err != nil {
			return nil, err
		}
	}
	return &AlertsAnswer{found}, nil
}

// find returns the open alerts of the partitions that another node asks for, or of all. Of parked tasks it has only those that are acknowledged,
// and the one with that ID.
func (s *alerts) find(ctx context.Context, id string, asked []int32) (AlertList, error) {
	at := s.proxy.Locate()
	var out AlertList
	partitions := asked
	if asked == nil {
		var unknown []int32
		partitions, unknown = readableOf(&at, s.router)
		out.lacks(unknown)
	}
	if err := s.findHere(ctx, id, partitions, &out); err != nil {
		return out, err
	}
	if asked == nil {
		s.askOthers(ctx, id, at.There, &out)
	}
	sayStopped(s.router, out.Missing)
	out.merge(s.alerts.Acknowledged())
	return out, nil
}

func (s *alerts) findHere(ctx context.Context, id string, partitions []int32, out *AlertList) (err error) {
	ids := make([]string, 0, 1)
	for seen := range s.alerts.Acknowledged() {
		ids = append(ids, seen)
	}
	if id != "" {
		ids = append(ids, id)
	}
	if out.Alerts, out.Partial, err = s.alerts.Open(ctx, partitions, ids); err != nil {
		return s.log.internal(ctx, "find open alerts", err)
	}
	if err := s.explain(ctx, out.Alerts); err != nil {
		return err
	}
	if len(partitions) == 0 {
		return nil
	}
	states, _, err := s.counts.counts.Count(ctx, Query{Partitions: partitions}, GroupBy{Kind: "state"})
	if err != nil {
		return s.log.internal(ctx, "count parked tasks", err)
	}
	for _, c := range states {
		if c.Key == string(events.TaskStateError) {
			out.Counts = append(out.Counts, AlertCount{Kind: supervisor.AlertParked, Count: c.Count})
		}
	}
	out.lacks(s.proxy.Unreadable(partitions)) // looked at last: a partition that has left by then may have been incomplete
	return nil
}

func (s *alerts) askOthers(ctx context.Context, id string, there map[proxy.Route][]int32, out *AlertList) {
	ctx, cancel := context.WithTimeout(ctx, alertsWithin)
	defer cancel()
	q := proxy.Question{Path: alertsPath}
	if id != "" {
		q.Query = url.Values{"id": {id}}
	}
	s.proxy.AskEach(ctx, there, q, func(partitions []int32, answer []byte, err error) error {
		var theirs AlertList
		if err == nil {
			err = json.Unmarshal(answer, &theirs)
		}
		if err != nil {
			out.lacks(partitions)
			return err
		}
		out.Alerts = append(out.Alerts, theirs.Alerts...)
		out.Partial = out.Partial || theirs.Partial
		out.Missing = append(out.Missing, theirs.Missing...)
		for _, c := range theirs.Counts {
			if c.Kind == supervisor.AlertParked {
				out.Counts = append(out.Counts, AlertCount{Kind: c.Kind, Count: c.Count})
			}
		}
		return nil
	})
}

func (l *AlertList) lacks(partitions []int32) {
	for _, p := range partitions {
		l.Missing = append(l.Missing, MissingPartition{Partition: p, Reason: codeTakeover})
	}
}

// merge brings the alerts of all nodes into order, says which are acknowledged, and counts them.
func (l *AlertList) merge(acknowledged map[string]Acknowledgement) {
	slices.SortFunc(l.Alerts, byAge)
	named := map[string]bool{}
	counts := map[string]*AlertCount{}
	of := func(kind string) *AlertCount {
		if counts[kind] == nil {
			counts[kind] = &AlertCount{Kind: kind}
		}
		return counts[kind]
	}
	for _, c := range l.Counts {
		of(c.Kind).Count += c.Count
	}
	l.Alerts = slices.DeleteFunc(l.Alerts, func(a Alert) bool { // each node names the agents that are missing
		twice := named[a.ID]
		named[a.ID] = true
		return twice
	})
	for i := range l.Alerts {
		a := &l.Alerts[i]
		c := of(a.Kind)
		if a.Kind != supervisor.AlertParked {
			c.Count++
		}
		if a.Acknowledged = nil; acknowledged[a.ID] != (Acknowledgement{}) {
			seen := acknowledged[a.ID]
			a.Acknowledged = &seen
			c.Acknowledged++
		}
	}
	l.Counts = l.Counts[:0]
	for _, kind := range OpenKinds {
		if c := counts[kind]; c != nil && c.Count > 0 {
			l.Counts = append(l.Counts, *c)
		}
	}
	l.order()
}

// order sorts and names each missing partition once.
func (l *AlertList) order() {
	slices.SortFunc(l.Missing, func(a, b MissingPartition) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), strings.Compare(a.Reason, b.Reason)) // stopped says more than taking-over
	})
	l.Missing = slices.CompactFunc(l.Missing, func(a, b MissingPartition) bool { return a.Partition == b.Partition })
	if l.Alerts == nil {
		l.Alerts = []Alert{}
	}
}
