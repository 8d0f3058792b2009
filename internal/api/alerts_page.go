package api

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// The parts of the list of open alerts, in their order.
const (
	partNew = iota
	partParked
	partSeen
)

// alertPlace is where a page of open alerts begins: in one of the parts behind an alert, or at the cursor of a list of tasks.
type alertPlace struct {
	Part  int            `json:"part"`
	Since events.Instant `json:"since,omitzero"`
	ID    string         `json:"id,omitempty"`
	Tasks string         `json:"tasks,omitempty"`
}

func (p alertPlace) cursor() string { return base64.RawURLEncoding.EncodeToString(encode(p)) }

func alertPlaceAt(cursor string) (p alertPlace, err error) {
	if cursor == "" {
		return p, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || json.Unmarshal(b, &p) != nil || p.Part < partNew || p.Part > partSeen {
		return p, parameterProblem("cursor", "is not a cursor of this list")
	}
	return p, nil
}

// page returns a page of what was found, and of the parked tasks.
func (s *alerts) page(ctx context.Context, in *AlertsQuery, found AlertList) (AlertList, error) {
	at, err := alertPlaceAt(in.Cursor)
	if err != nil {
		return found, err
	}
	all := slices.DeleteFunc(found.Alerts, func(a Alert) bool { return !in.wants(a.Kind) || in.ID != "" && a.ID != in.ID })
	out := found
	out.Alerts = []Alert{}
	if in.ID != "" {
		out.Alerts = append(out.Alerts, all...)
		return out, nil
	}
	fresh := slices.DeleteFunc(slices.Clone(all), func(a Alert) bool { return a.Acknowledged != nil || a.Kind == supervisor.AlertParked })
	seen := slices.DeleteFunc(slices.Clone(all), func(a Alert) bool { return a.Acknowledged == nil })
	limit := int(in.Limit)
	if at.Part == partNew && !out.take(fresh, &at, limit) {
		return out, nil
	}
	if at.Part == partParked {
		if in.wants(supervisor.AlertParked) {
			if done, err := s.parked(ctx, &out, &at, limit); err != nil || !done {
				return out, err
			}
		}
		at = alertPlace{Part: partSeen}
	}
	out.take(seen, &at, limit)
	return out, nil
}

// take adds the alerts of a part behind a place, and moves the place to the next part. It returns false if the page ends before.
func (l *AlertList) take(list []Alert, at *alertPlace, limit int) (all bool) {
	from, found := slices.BinarySearchFunc(list, Alert{Since: at.Since, ID: at.ID}, byAge)
	if found && at.ID != "" {
		from++
	}
	list = list[from:]
	if room := limit - len(l.Alerts); len(list) > room {
		list = list[:room]
		next := alertPlace{Part: at.Part, Since: at.Since, ID: at.ID}
		if room > 0 {
			next.Since, next.ID = list[room-1].Since, list[room-1].ID
		}
		l.Alerts, l.Next = append(l.Alerts, list...), next.cursor()
		return false
	}
	l.Alerts = append(l.Alerts, list...)
	*at = alertPlace{Part: at.Part + 1}
	return true
}

// parked adds the alerts of parked tasks, the newest task first, without those that are acknowledged. It returns false if the page ends before
// the last of them.
func (s *alerts) parked(ctx context.Context, out *AlertList, at *alertPlace, limit int) (done bool, err error) {
	if len(out.Alerts) == limit {
		out.Next = at.cursor()
		return false, nil
	}
	q := Query{States: []events.TaskState{events.TaskStateError}, Fields: []string{"id"}, Brief: true, Limit: limit - len(out.Alerts), Cursor: at.Tasks}
	if err := s.room.enter(ctx, q, false); err != nil {
		return false, err
	}
	list, err := s.readAll(ctx, q)
	if err != nil {
		return false, s.log.internal(ctx, "list parked tasks", err)
	}
	acknowledged := s.alerts.Acknowledged()
	for i := range list.Tasks {
		if a := parkedAlert(&list.Tasks[i]); acknowledged[a.ID] == (Acknowledgement{}) {
			out.Alerts = append(out.Alerts, a)
		}
	}
	out.Missing = append(out.Missing, list.Missing...)
	out.order()
	if list.Next != "" {
		out.Next = alertPlace{Part: partParked, Tasks: list.Next}.cursor()
		return false, nil
	}
	return true, nil
}

func parkedAlert(d *TaskDocument) Alert {
	since := cmp.Or(d.ParkedAt, d.UpdatedAt) // a node of an earlier build does not say since when
	return Alert{Kind: supervisor.AlertParked, Task: d.ID, Workflow: d.Workflow, Since: since, Reason: d.Reason}.Named(since)
}
