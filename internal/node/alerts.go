package node

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/proxy"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

const (
	// lateFor is the least time for which the list of late tasks is reused, and lateShare the multiple of the time that it took to make it: each open
	// page asks every two seconds, and looking at 40,000 tasks takes about a second.
	lateFor   = 5 * time.Second
	lateShare = 20
	// lateKept bounds the looks that are remembered.
	lateKept = 4
	// mostHolders bounds the holders of a limit that are searched for a parked one.
	mostHolders = 100
)

// alerts implements api.Alerts. Open alerts are derived from the projection and the heartbeats, so they survive the loss of the topic of alerts.
type alerts struct {
	*tasks
	defs     *definitions
	liveness *liveness
	owners   *owners
	producer *kafka.Producer
	router   proxy.Router

	closed closedAlerts

	// mu guards late, and is held while late is computed.
	mu sync.Mutex
	// late holds the latest looks, one for each set of partitions: clients ask for others than the nodes do.
	late []lateTasks
}

// Open implements api.Alerts.
func (a *alerts) Open(ctx context.Context, partitions []int32, ids []string) (list []api.Alert, partial bool, err error) {
	late, err := a.lateTasks(partitions)
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return nil, false, err
	}
	list = append(a.missing(), late.held...)
	for _, id := range late.tasks {
		of, err := a.ofTask(id) // it may have ended since
		if err != nil {
			return nil, false, err
		}
		list = append(list, slices.DeleteFunc(of, func(x api.Alert) bool { return x.Kind == supervisor.AlertParked })...)
	}
	if partial = late.partial; len(list) > api.MostOpen {
		list, partial = list[:api.MostOpen], true
	}
	list, err = a.with(list, partitions, ids)
	return list, partial, err
}

// held returns the alerts of schedules and limits. It reads all rows of all limits.
func (a *alerts) held(partitions []int32) (list []api.Alert, err error) {
	for _, p := range partitions {
		blocked, err := a.blockedSchedules(p)
		if err != nil {
			return nil, err
		}
		waited, err := a.heldLimits(p)
		if err != nil {
			return nil, err
		}
		list = append(append(list, blocked...), waited...)
	}
	return list, nil
}

// with adds the alerts of ids that are about tasks of the partitions.
func (a *alerts) with(list []api.Alert, partitions []int32, ids []string) ([]api.Alert, error) {
	for _, id := range ids {
		one, err := a.one(partitions, id)
		if err != nil {
			return nil, err
		}
		for _, x := range one {
			if !slices.ContainsFunc(list, func(y api.Alert) bool { return x.ID == y.ID }) {
				list = append(list, x)
			}
		}
	}
	return list, nil
}

// one returns the alert with that ID if it is that of a task in one of the partitions, and open.
func (a *alerts) one(partitions []int32, id string) ([]api.Alert, error) {
	kind, task, ok := api.AlertSubject(id)
	if !ok || kind != supervisor.AlertParked && kind != supervisor.AlertDeadline && kind != supervisor.AlertSoftLimit || !slices.Contains(partitions, a.home(task)) {
		return nil, nil
	}
	of, err := a.ofTask(task)
	return slices.DeleteFunc(of, func(x api.Alert) bool { return x.ID != id }), err
}

// missing returns the operations that steps have been waiting for long enough to raise an alert.
func (a *alerts) missing() (list []api.Alert) {
	now := events.At(time.Now())
	for _, m := range a.liveness.missing() {
		if m.Behind || now.Sub(m.Since) < missingAfter {
			continue
		}
		x := api.Alert{Kind: supervisor.AlertMissing, Agent: m.Agent, Operation: m.Call().Verb(), Since: m.Since, Reason: "steps wait for the " + m.Call().String() + ": no live instance offers it"}
		list = append(list, x.Named(0))
	}
	return list
}

// blockedSchedules returns the schedules of a partition whose due times are passed over because a task has not ended.
func (a *alerts) blockedSchedules(partition int32) (list []api.Alert, err error) {
	for _, r := range a.ns.catalog.SchedulesOf(partition, a.ns.partitions) {
		if r.Body == nil {
			continue
		}
		s, err := a.store.Partition(partition).Schedule(r.Schedule)
		if err != nil {
			return nil, err
		}
		if s == nil || s.Paused != nil || s.InRow < events.ScheduleBlockedAfter || len(s.Running) == 0 {
			continue
		}
		x := api.Alert{
			Kind: supervisor.AlertScheduleBlocked, Schedule: s.Name, Task: s.Running[0].Task, Since: s.Running[0].At,
			Reason: passedOver(s.InRow, s.Running[0].Task),
		}
		list = append(list, x.Named(x.Since))
	}
	return list, nil
}

// heldLimits returns the limits of concurrency of a partition for which tasks wait while a holder has been parked for a while. The holder may
// be in a partition that this node does not know.
func (a *alerts) heldLimits(partition int32) (list []api.Alert, err error) {
	type waited struct {
		name    string
		holders []events.Link
		waiting int
	}
	var all []waited
	err = a.store.Partition(partition).EachLimit(func(l *events.Limit) {
		if l.IsNamed() || len(l.Waiting()) == 0 {
			return
		}
		w := waited{name: l.Name, waiting: len(l.Waiting())}
		for x := range l.Permits() {
			if x.Held() && x.EndsAt == 0 && len(w.holders) < mostHolders {
				w.holders = append(w.holders, x.Link)
			}
		}
		all = append(all, w)
	})
	for i := range all {
		var parked *events.Task
		for _, link := range all[i].holders {
			t, err := a.parkedHolder(link)
			if err != nil {
				return nil, err
			}
			if t != nil && (parked == nil || t.ParkedAt < parked.ParkedAt) {
				parked = t
			}
		}
		if parked != nil {
			list = append(list, heldBy(all[i].name, all[i].waiting, parked))
		}
	}
	return list, err
}

// parkedHolder returns the task of a link if it has been parked for so long that others wait in vain, as far as this node knows it.
func (a *alerts) parkedHolder(link events.Link) (*events.Task, error) {
	if !a.router.Route(a.home(link.Task)).Readable() {
		return nil, nil
	}
	t, ok, err := a.store.Get(a.home(link.Task), link.Task)
	if err != nil || !ok || t.Incarnation != link.Incarnation || t.State != events.TaskStateError || events.At(time.Now()).Sub(t.ParkedAt) < events.BlocksAfter {
		return nil, err
	}
	return t, nil
}

// Acknowledged implements api.Alerts.
func (a *alerts) Acknowledged() map[string]api.Acknowledgement {
	all := map[string]api.Acknowledgement{}
	for id, r := range a.ns.catalog.Acknowledged() {
		all[id] = api.Acknowledgement{By: r.By, Note: r.Note, At: r.At}
	}
	return all
}

// Acknowledge implements api.Alerts.
func (a *alerts) Acknowledge(ctx context.Context, x events.AlertAcknowledgement) (changed bool, err error) {
	if err := a.ns.catalog.upToNow(ctx); err != nil {
		return false, noAnswer(err)
	}
	if _, already := a.ns.catalog.Acknowledged()[x.Alert]; already != x.Over {
		return false, nil
	}
	r, err := scheduler.EncodeAcknowledgement(&x, events.Subject{ID: uuid.NewString(), Source: "/" + a.ns.name + "/alerts", Time: events.At(time.Now())})
	if err != nil {
		return false, err
	}
	_, err = a.ns.define(ctx, a.producer, "the acknowledgement of an alert", r)
	return err == nil, err
}

// Raised implements api.Alerts.
func (a *alerts) Raised(ctx context.Context) (start, end int64, err error) {
	of := kafka.Partitions{a.ns.topics.Alerts(): {0}}
	starts, err := a.ns.cluster.StartOffsets(ctx, of)
	if err != nil {
		return 0, 0, noAnswer(err)
	}
	ends, err := a.ns.cluster.EndOffsets(ctx, of)
	if err != nil {
		return 0, 0, noAnswer(err)
	}
	return starts[a.ns.topics.Alerts()][0], ends[a.ns.topics.Alerts()][0], nil
}

// ReadRaised implements api.Alerts.
func (a *alerts) ReadRaised(ctx context.Context, from, to int64) (list []events.Record, err error) {
	err = a.ns.cluster.ReadRange(ctx, a.ns.topics.Alerts(), 0, from, to, func(r events.Record) error {
		list = append(list, r)
		return nil
	})
	return list, noAnswer(err)
}
