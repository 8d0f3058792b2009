package main

import (
	"net/http"
	"path/filepath"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

func TestDoctorNamesOperationsThatNobodyServes(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	broker := kafkatest.StartBroker(t, embedded.Config{})
	at := place{dir: t.TempDir(), env: []string{"SAGALOG_BROKERS=" + broker.Addr(), "SAGALOG_NODE=n1", "SAGALOG_HTTP=" + freePort(t)}}
	write(t, filepath.Join(at.dir, "workflows", "pay.yaml"), "workflow: pay\nsteps:\n  hold: {agent: bank, operation: authorize, undo: {}}\n  charge: {needs: [hold], agent: bank, operation: capture}\n")
	write(t, filepath.Join(at.dir, "agents", "bank.yaml"), "agent: bank\nexec: {}\noperations:\n  authorize: {exec: {command: [/bin/sh, -c, \"true\"]}}\n")
	n := at.start(t, "serve", "--workflows", "workflows", "--agents", "agents")
	url := n.endpoints(filepath.Join(at.dir, "sagalog-data")).HTTP
	n.eventually("ready", func() bool { return get(t, url+"/readyz", nil) == http.StatusOK })
	n.eventually("the instance announces itself", func() bool {
		var doc struct {
			Agents []struct{ Operations []string }
		}
		return get(t, url+"/v1/agents", &doc) == http.StatusOK && len(doc.Agents) == 1 && len(doc.Agents[0].Operations) == 1
	})
	d := at.run(t, "doctor", "-o", "jsonl")
	require.Equal(t, 0, d.code())
	found := examined(t, d)[checkAgents][doctor.StatusWarn]
	require.Len(t, found, 1)
	require.Equal(t, "no live instance serves what workflows call: undo of agent bank, operation authorize (pay); do of agent bank, operation capture (pay)", found[0].What)
	require.Equal(t, 0, n.stop())
	require.Empty(t, examined(t, at.run(t, "doctor", "-o", "jsonl"))[checkAgents][doctor.StatusWarn], "no node is alive")
}

func TestAnInstanceServesWhatItsHeartbeatSays(t *testing.T) {
	t.Parallel()
	do, undo := []events.Operation{events.Do}, []events.Operation{events.Undo}
	busy, full := map[string]int{"bank": 4}, map[string]int{"bank": 0}
	for name, c := range map[string]struct {
		p      events.Presence
		serves []events.Call
	}{
		"all": {events.Presence{Capacity: busy}, []events.Call{{Operation: events.Do}, {Operation: events.Undo}}},
		"one": {events.Presence{Capacity: busy, Operations: map[string][]events.Operation{"bank": do}}, []events.Call{{Operation: events.Do}}},
		"names": {events.Presence{Capacity: busy, Functions: map[string]map[string][]events.Operation{"bank": {"capture": do, "hold": undo}}},
			[]events.Call{{Function: "capture", Operation: events.Do}, {Function: "hold", Operation: events.Undo}}},
		"nothing":     {events.Presence{Capacity: full}, nil},
		"its breaker": {events.Presence{Capacity: full, Health: map[string]string{"bank": events.Unhealthy}}, []events.Call{{Operation: events.Do}, {Operation: events.Undo}}},
		"another":     {events.Presence{Capacity: map[string]int{"post": 4}}, nil},
	} {
		c.p.Kind = events.PresenceAgent
		called := map[events.Call][]string{}
		for _, function := range []string{"", "capture", "hold"} {
			for _, op := range []events.Operation{events.Do, events.Undo} {
				called[events.Call{Agent: "bank", Function: function, Operation: op}] = []string{"w"}
			}
		}
		for _, served := range c.serves {
			served.Agent = "bank"
			delete(called, served)
			require.True(t, c.p.Takes(served), name)
		}
		for _, f := range unservedFinding(called, []events.Presence{c.p}) {
			for call := range called {
				require.Contains(t, f.What, call.String()+" (w)", name)
			}
		}
		for call := range called {
			require.False(t, c.p.Takes(call), "%s: %s", name, call)
		}
	}
}
