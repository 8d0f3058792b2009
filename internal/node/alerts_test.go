package node_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

// opened returns the open alerts of a node's partitions, without those of parked tasks that are not asked for.
func (w *world) opened(p *process, ids ...string) (list []api.Alert) {
	w.t.Helper()
	var all []int32
	for n := range w.parts {
		all = append(all, n)
	}
	list, partial, err := p.Alerts().Open(w.t.Context(), all, ids)
	require.NoError(w.t, err)
	require.False(w.t, partial)
	return list
}

// said returns each alert as KIND SUBJECT.
func said(list []api.Alert) (texts []string) {
	for _, a := range list {
		texts = append(texts, strings.Join(strings.Fields(a.Kind+" "+a.Task+" "+a.Step+" "+a.Schedule+" "+a.Limit+" "+a.Agent+" "+a.Operation), " "))
	}
	return texts
}

// All kinds of alerts that the state leads to are open while it is so, with IDs that stay, at the next node too; and the kinds are those of the owner.
func TestOpenAlertsFollowFromTheState(t *testing.T) {
	minutes(t)
	bubble(t, func(t *testing.T) {
		w := setup(t, 2)
		w.kinds = []string{"stock"}
		dir := t.TempDir()
		n := w.node(dir)
		for _, source := range []string{
			"workflow: late\ndeadline: 10m\nsteps:\n  turn: {agent: stock, pivot: true}\n  rest: {needs: [turn], wait: {signal: go}}\n",
			"workflow: slow\nremind_after: 20m\nsteps:\n  ask: {wait: {signal: go}, remind_after: 5m}\n",
			"workflow: lost\nsteps:\n  only: {agent: nobody, operation: pack}\n",
			"workflow: turns\nconcurrency: {key: \"${ input.key }\", max: 1}\nsteps:\n  only: {agent: stock, retry: {attempts: 1, then: park}}\n",
			"workflow: long\nsteps:\n  only: {sleep: 100h}\n",
		} {
			w.apply(n, source)
		}
		w.hire(func(_ context.Context, a agent.Attempt) error {
			if a.Workflow == "turns" {
				return errRefused
			}
			return nil
		})
		w.schedule(n, "often", "schedule: often\nworkflow: long\nevery: 1m\n")
		send := func(id, rest string) {
			w.produce(w.topics.Submissions(), -1, events.Record{Key: []byte(id), Value: []byte(`{"id":"` + id + `",` + rest + `}`)})
		}
		send("late-1", `"workflow":"late"`)
		send("slow-1", `"workflow":"slow"`)
		send("lost-1", `"workflow":"lost"`)
		send("turn 1/a", `"workflow":"turns","input":{"key":"k"}`)
		w.watch.state("turn 1/a", events.TaskStateError)
		send("turn-2", `"workflow":"turns","input":{"key":"k"}`)
		require.Empty(t, w.opened(n))
		<-time.After(6*time.Minute + time.Second)
		require.ElementsMatch(t, []string{
			"soft_limit_passed slow-1 ask", "agent_missing nobody do pack", "schedule_blocked " + w.running(n, "often") + " often",
		}, said(w.opened(n)))
		<-time.After(30 * time.Minute)
		before := w.opened(n)
		require.ElementsMatch(t, []string{
			"deadline_passed late-1", "soft_limit_passed slow-1", "soft_limit_passed slow-1 ask", "agent_missing nobody do pack",
			"schedule_blocked " + w.running(n, "often") + " often", "concurrency_blocked turn 1/a turns/k",
		}, said(before))
		kinds := map[string]string{}
		for _, a := range before {
			require.NotZero(t, a.Since, a.ID)
			require.NotEmpty(t, a.Reason, a.ID)
			kinds[a.Kind] = a.Command
		}
		require.Equal(t, map[string]string{
			supervisor.AlertDeadline: "sagalog task get late-1", supervisor.AlertSoftLimit: "sagalog task get slow-1", supervisor.AlertMissing: "sagalog agents list",
			supervisor.AlertScheduleBlocked: "sagalog schedule get often", supervisor.AlertBlocked: "sagalog limit get turns/k",
		}, kinds)
		parked := w.found("turn 1/a").ParkedAt
		id := (api.Alert{Kind: supervisor.AlertParked, Task: "turn 1/a"}).Named(parked).ID
		require.Len(t, w.opened(n, id), len(before)+1, "a parked task that is asked for")
		require.NoError(t, n.stop())
		n = w.node(dir)
		<-time.After(2 * time.Minute)
		require.ElementsMatch(t, idsOf(before), idsOf(w.opened(n)))

		w.request(events.RequestTerminate, "turn 1/a", "r-1")
		w.request(events.RequestTerminate, "slow-1", "r-2")
		w.request(events.RequestTerminate, "late-1", "r-3")
		<-time.After(time.Minute)
		require.NotContains(t, strings.Join(said(w.opened(n, id)), "\n"), "slow-1")
		require.NotContains(t, strings.Join(said(w.opened(n, id)), "\n"), "late-1")
		require.NotContains(t, strings.Join(said(w.opened(n, id)), "\n"), "turn 1/a")
	})
}

func idsOf(list []api.Alert) (ids []string) {
	for _, a := range list {
		ids = append(ids, a.ID)
	}
	return ids
}

// running returns the task of a schedule that has not ended.
func (w *world) running(p *process, name string) string {
	return w.scheduled(p, name, func(x *events.Schedule) bool { return len(x.Running) > 0 }).Running[0].Task
}

// A look at late tasks and at limits holds for a while, whatever others ask meanwhile, and also if its asker does not wait for it.
func TestALookAtLateTasksIsNotWasted(t *testing.T) {
	minutes(t)
	bubble(t, func(t *testing.T) {
		w := setup(t, 2)
		w.kinds = []string{"stock"}
		n := w.node(t.TempDir())
		w.apply(n, "workflow: slow\nsteps:\n  ask: {wait: {signal: go}, remind_after: 5m}\n")
		w.apply(n, "workflow: turns\nconcurrency: {key: k, max: 1}\nsteps:\n  only: {agent: stock, retry: {attempts: 1, then: park}}\n")
		w.hire(func(context.Context, agent.Attempt) error { return errRefused })
		for _, id := range []string{"slow-1", "turns-1", "turns-2"} {
			workflow, _, _ := strings.Cut(id, "-")
			w.produce(w.topics.Submissions(), -1, events.Record{Key: []byte(id), Value: []byte(`{"id":"` + id + `","workflow":"` + workflow + `"}`)})
			if id == "turns-1" {
				w.watch.state(id, events.TaskStateError)
			}
		}
		begun, home := time.Now(), []int32{events.Home("slow-1", 2)}
		for i, after := range []time.Duration{5 * time.Minute, 15 * time.Minute} {
			<-time.After(time.Until(begun.Add(after - 2*time.Second)))
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			_, _, err := n.Alerts().Open(gone, []int32{0, 1}, nil)
			require.ErrorIs(t, err, context.Canceled)
			<-time.After(4 * time.Second)
			_, _, err = n.Alerts().Open(t.Context(), home, nil)
			require.NoError(t, err)
			require.Len(t, w.opened(n), i, "it is that of four seconds ago")
			<-time.After(2 * time.Second)
			require.Len(t, w.opened(n), i+1, said(w.opened(n)))
		}
	})
}

// An acknowledged alert stays acknowledged while its partition moves to another node and when nodes start again, and is forgotten when its cause is
// gone: that of a missing agent when the agent is back, that of a parked task some minutes after the task went on.
func TestAnAcknowledgementLastsAsLongAsItsAlert(t *testing.T) {
	minutes(t)
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		w.kinds = []string{"stock"}
		one := w.node(t.TempDir(), together)
		w.apply(one, "workflow: w\nsteps:\n  only: {agent: stock, retry: {attempts: 1, then: park}}\n")
		w.shared("node-1")
		w.produce(w.topics.Submissions(), -1, inOrder("t-1", "w"))
		<-time.After(time.Minute)
		list := w.opened(one)
		require.Equal(t, []string{"agent_missing stock do"}, said(list))
		acknowledge := func(p *process, id string) bool {
			changed, err := p.Alerts().Acknowledge(t.Context(), events.AlertAcknowledgement{Alert: id, By: "ada", Note: "on it"})
			require.NoError(t, err)
			return changed
		}
		require.True(t, acknowledge(one, list[0].ID))
		require.False(t, acknowledge(one, list[0].ID))
		two := w.node(t.TempDir(), together, func(c *node.Config) { c.Name = "node-2" })
		<-time.After(time.Minute)
		require.NoError(t, one.stop())
		<-time.After(2 * forgetAfter)
		require.Equal(t, idsOf(list), idsOf(w.opened(two)))
		require.Equal(t, "ada", two.Alerts().Acknowledged()[list[0].ID].By)

		crew := w.hire(func(context.Context, agent.Attempt) error { return errRefused })
		w.watch.state("t-1", events.TaskStateError)
		<-time.After(time.Minute)
		require.Empty(t, two.Alerts().Acknowledged(), "the agent is back")
		require.Empty(t, w.opened(two))
		parked := (api.Alert{Kind: supervisor.AlertParked, Task: "t-1"}).Named(w.found("t-1").ParkedAt).ID
		require.True(t, acknowledge(two, parked))
		<-time.After(2 * forgetAfter)
		require.Contains(t, two.Alerts().Acknowledged(), parked)
		crew.leave()
		w.request(events.RequestTerminate, "t-1", "r-1")
		<-time.After(2 * forgetAfter)
		require.Empty(t, two.Alerts().Acknowledged())
		require.Less(t, len(two.Alerts().Acknowledged()), scheduler.MaxAcknowledged)
	})
}

// An agent is back for a few seconds, at any moment between two looks at alerts, and is missing again: that is another alert, which nobody has acknowledged.
func TestAnAgentThatIsMissingAgainIsAnotherAlert(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		w.kinds = []string{"stock"}
		one := w.node(t.TempDir(), together)
		w.apply(one, "workflow: w\nsteps:\n  only: {agent: stock, retry: {attempts: 1, then: park}}\n")
		w.shared("node-1")
		for i, task := range ids("t", 4) {
			w.produce(w.topics.Submissions(), -1, inOrder(task, "w"))
			<-time.After(time.Minute + time.Duration(i)*2500*time.Millisecond)
			list := w.opened(one)
			require.Equal(t, []string{"agent_missing stock do"}, said(list))
			require.Empty(t, one.Alerts().Acknowledged())
			_, err := one.Alerts().Acknowledge(t.Context(), events.AlertAcknowledgement{Alert: list[0].ID, By: "ada"})
			require.NoError(t, err)
			<-time.After(15 * time.Second)
			require.Len(t, one.Alerts().Acknowledged(), 1)
			crew := w.hire(func(context.Context, agent.Attempt) error { return errRefused })
			w.watch.state(task, events.TaskStateError)
			<-time.After(time.Second)
			crew.leave()
			<-time.After(5 * time.Second) // until then it could get the next attempt
		}
	})
}

// forgetAfter is longer than an acknowledgement is kept when its alert is over.
const forgetAfter = 6 * time.Minute
