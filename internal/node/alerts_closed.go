package node

import (
	"context"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// forgetEvery is how often a node checks whether acknowledged alerts of its partitions are over.
const forgetEvery = 10 * time.Second

// closedAlerts is what a node knows about acknowledged alerts that are over. It is owned by forget.
type closedAlerts struct {
	// looked is when forget last looked at all of them.
	looked time.Time
	// over holds when forget first saw that an alert is not open.
	over map[string]time.Time
	// back holds the alerts about missing agents of which an instance was running since, with the offsets of their acknowledgements. Another node may
	// own the partition that removes these, and die before it does.
	back map[string]int64
}

// forget removes the acknowledgements of alerts that have not been open for a while. That of a missing agent is removed if an instance was
// running since, however briefly: if the agent is missing once more, that is another alert with the same ID.
func (a *alerts) forget(ctx context.Context) {
	acknowledged := a.ns.catalog.Acknowledged()
	a.noteBack(acknowledged)
	if time.Since(a.closed.looked) < forgetEvery {
		return
	}
	a.closed.looked = time.Now()
	over, err := a.overIDs(acknowledged)
	if err != nil {
		a.ns.log.Warn("cannot find out which acknowledged alerts are over; trying again", "error", err)
		return
	}
	for _, id := range over {
		if _, err := a.Acknowledge(ctx, events.AlertAcknowledgement{Alert: id, Over: true}); err != nil {
			if ctx.Err() == nil {
				a.ns.log.Warn("cannot remove the acknowledgement of an alert that is over; trying again", "alert", id, "error", err)
			}
			return // the others would wait for the brokers in vain too
		}
	}
}

// noteBack notes which alerts are about a missing agent that has a running instance.
func (a *alerts) noteBack(acknowledged map[string]scheduler.AcknowledgedRecord) {
	before := a.closed.back
	a.closed.back = map[string]int64{}
	var running map[string]bool
	for id, r := range acknowledged {
		if kind, _, _ := api.AlertSubject(id); kind != supervisor.AlertMissing {
			continue
		}
		if running == nil {
			running = a.backIDs()
		}
		if at, noted := before[id]; noted && at == r.Offset || running[id] {
			a.closed.back[id] = r.Offset
		}
	}
}

// overIDs returns the alerts whose acknowledgements this node is to remove.
func (a *alerts) overIDs(acknowledged map[string]scheduler.AcknowledgedRecord) (list []string, err error) {
	var ids []string
	mine := a.owners.owned()
	for id := range acknowledged {
		if slices.Contains(mine, a.homeOf(id)) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		a.closed.over = nil
		return nil, nil
	}
	open, err := a.held(mine)
	if err == nil {
		open, err = a.with(append(open, a.missing()...), mine, ids)
	}
	if err != nil {
		return nil, err
	}
	before := a.closed.over
	a.closed.over = map[string]time.Time{}
	for _, id := range ids {
		if _, back := a.closed.back[id]; back {
			list = append(list, id)
			continue
		}
		if slices.ContainsFunc(open, func(x api.Alert) bool { return x.ID == id }) {
			continue
		}
		since, known := before[id]
		if !known {
			since = time.Now()
		}
		if a.closed.over[id] = since; time.Since(since) >= forgetAfter {
			list = append(list, id)
		}
	}
	return list, nil
}

// homeOf returns the partition whose owner checks whether an alert is over.
func (a *alerts) homeOf(id string) int32 {
	switch kind, subject, _ := api.AlertSubject(id); kind {
	case supervisor.AlertMissing:
		return 0
	case supervisor.AlertScheduleBlocked:
		return events.Home(events.ScheduleKey(subject), a.ns.partitions)
	case supervisor.AlertBlocked:
		return events.Home(events.ConcurrencyPrefix+subject, a.ns.partitions)
	default:
		return a.home(subject)
	}
}

// backIDs returns the IDs that alerts about agents have which are running.
func (a *alerts) backIDs() map[string]bool {
	ids := map[string]bool{}
	offered := a.liveness.offers(a.ns.partitions)
	for name, o := range offered {
		for _, call := range callsOf(name, o) {
			if offered.offered(call) {
				ids[api.Alert{Kind: supervisor.AlertMissing, Agent: name, Operation: call.Verb()}.Named(0).ID] = true
			}
		}
	}
	return ids
}

// callsOf returns the operations that an agent may offer.
func callsOf(agent string, o offer) []events.Call {
	list := []events.Call{{Agent: agent, Operation: events.Do}, {Agent: agent, Operation: events.Undo}}
	for name := range o.Functions {
		list = append(list, events.Call{Agent: agent, Function: name, Operation: events.Do}, events.Call{Agent: agent, Function: name, Operation: events.Undo})
	}
	return list
}
