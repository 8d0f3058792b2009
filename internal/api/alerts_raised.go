package api

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

const (
	// raisedChunk is how many records are read at once, and mostRaised how many for one page: alerts of a rare kind must not cost a read of
	// the whole topic.
	raisedChunk = 500
	mostRaised  = 10_000
)

// records answers the newest records of the topic of alerts. The cursor is the offset below which the next page continues, so records that
// arrive meanwhile do not affect it.
func (s *alerts) records(ctx context.Context, in *AlertsQuery) (*AlertsAnswer, error) {
	start, end, err := s.alerts.Raised(ctx)
	if err != nil {
		return nil, notRead(ctx, s.log, "read the bounds of the alerts", err)
	}
	if in.Cursor != "" {
		at, err := strconv.ParseInt(in.Cursor, 10, 64)
		if err != nil || at < 0 {
			return nil, parameterProblem("cursor", "is not a cursor of this list")
		}
		end = min(end, at)
	}
	out := &AlertsAnswer{AlertList{Alerts: []Alert{}}}
	for least := max(start, end-mostRaised); end > least; {
		from := max(least, end-raisedChunk)
		list, err := s.alerts.ReadRaised(ctx, from, end)
		if err != nil {
			return nil, notRead(ctx, s.log, "read alerts", err)
		}
		for i := len(list) - 1; i >= 0; i-- {
			a, ok := raisedAlert(&list[i])
			if !ok || !in.wants(a.Kind) {
				continue
			}
			if out.Body.Alerts = append(out.Body.Alerts, a); len(out.Body.Alerts) == int(in.Limit) {
				out.Body.Next = raisedCursor(start, list[i].Offset)
				return out, nil
			}
		}
		end = from
	}
	out.Body.Next = raisedCursor(start, end)
	return out, nil
}

func raisedCursor(start, at int64) string {
	if at <= start {
		return ""
	}
	return strconv.FormatInt(at, 10)
}

// raisedAlert reads a record of the topic of alerts; false if it holds none.
func raisedAlert(r *events.Record) (a Alert, ok bool) {
	var raised supervisor.Alert
	if r.Control || json.Unmarshal(r.Value, &raised) != nil || raised.Kind == "" {
		return a, false
	}
	a = Alert{
		ID: r.Header(events.HeaderID), Kind: raised.Kind, Task: raised.Task, Workflow: raised.Workflow, Step: raised.Step, Schedule: raised.Schedule, Limit: raised.Limit,
		Agent: raised.Agent, Since: raised.Since, Reason: raised.Reason, Time: raised.Time, Reminder: raised.Reminder,
	}
	if raised.Agent != "" {
		a.Operation = events.Call{Agent: raised.Agent, Function: raised.Function, Operation: raised.Operation}.Verb()
	}
	a.Command = a.command()
	return a, true
}
