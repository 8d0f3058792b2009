package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/dronedelivery"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// aFew is the bound for "no task waits longer than a few seconds".
const aFew = 10 * time.Second

// Nodes join and leave under load, from one to four and back. Each change spreads the partitions evenly, no delivery
// waits longer than a few seconds, and nothing is lost. Then each node is restarted in turn.
func TestClusterScaling(t *testing.T) {
	besideOthers(t)
	// Nothing else is broken here, so every pause of a delivery is caused by nodes that join and leave.
	c := newCluster(t, kafkatest.Options{})
	nodes := []*member{c.up("n1"), c.node("n2"), c.node("n3"), c.node("n4")}
	c.even(patience)
	s := c.stream("s-", sized(*rateFlag, 20, 50))
	most := sized(0, 3, 4)
	for _, m := range nodes[1:most] {
		after(t, settleFor)
		m.start()
		c.even(patience)
	}
	// The oldest nodes leave first: their partitions are spread over the younger ones.
	for _, m := range nodes[:most-1] {
		after(t, settleFor)
		m.leave()
		c.even(patience)
	}
	after(t, settleFor)
	l := s.end()
	c.ended(l)
	scaled(c, c.agree(l))

	t.Log("a rolling restart of three nodes")
	for _, m := range nodes[:2] {
		m.start()
	}
	if last := nodes[2]; !last.running() {
		last.start()
	}
	for _, m := range nodes[3:] {
		if m.process != nil && m.running() {
			m.leave()
		}
	}
	c.even(patience)
	s = c.stream("r-", sized(*rateFlag, 20, 50))
	for _, m := range nodes[:3] {
		after(t, settleFor)
		m.leave()
		m.start()
		c.even(patience)
	}
	after(t, settleFor)
	l = s.end()
	c.ended(l)
	scaled(c, c.agree(l))
	c.same(l, nodes[:3]...)
	c.hashes()
}

// settleFor lets deliveries run between two changes.
const settleFor = 2 * time.Second

// scaled requires that no delivery waited longer than aFew.
func scaled(c *cluster, f findings) {
	c.t.Helper()
	c.t.Logf("changes of epoch: %s", f.Ownership.Gaps)
	for what, s := range map[string]spread{"for its acceptance": f.Waits.Accepted, "for its first step": f.Waits.Started, "between two facts": f.Waits.Silent} {
		promised(c.t, "the longest wait of a delivery "+what, time.Duration(s.Max)*time.Millisecond, aFew)
	}
	// A busy machine may cause some timeouts, since the shortest complete-by time is 5 s.
	if full {
		require.LessOrEqual(c.t, f.Log.Timeouts, f.Submitted/100, "attempts were lost in transit and timed out")
	}
	c.t.Logf("%d attempts of %d deliveries timed out", f.Log.Timeouts, f.Submitted)
}

// Agents run in separate processes, and one dies in the middle of its work. Another instance does the work with the
// same identifier.
func TestClusterAgentKilled(t *testing.T) {
	besideOthers(t)
	c := newCluster(t, kafkatest.Options{})
	one, two := c.up("n1", "owner", "api", "projector"), c.up("n2", "owner", "api", "projector")
	c.even(patience)
	agents := []*member{c.node("a1", "agent"), c.node("a2", "agent")}
	for _, a := range agents {
		a.start()
	}
	c.spread("drone", "a1", "a2")
	for round := range sized(0, 1, 5) {
		victim, other := agents[round%2], agents[(round+1)%2]
		agentDies(c, round, victim, other)
		victim.start()
		c.spread("drone", "a1", "a2")
	}
	c.same(&load{prefix: "a0-", count: agentTasks}, one, two)
	c.hashes()
}

// spread waits until each instance has partitions of an agent's work, and no partition has two instances.
func (c *cluster) spread(agent string, instances ...string) {
	c.t.Helper()
	eventually(c.t, patience, "the work is spread over "+fmt.Sprint(instances), func() bool {
		of := map[string][]int32{}
		total := 0
		for _, i := range c.alive("api")[0].agents() {
			if i.Agent == agent && slices.Contains(instances, i.Instance) {
				of[i.Instance] = i.Partitions
				total += len(i.Partitions)
			}
		}
		for _, name := range instances {
			if len(of[name]) == 0 {
				return false
			}
		}
		return total == len(c.log.parts)
	})
}

const (
	agentTasks = 24
	// droneTakes leaves a busy machine the time to see and kill an instance in the middle of its work, and with a session of 10 s
	// it stays below the drone step's complete-by time of 30 s. The calls that wait when the instance has died are answered at once.
	droneTakes = 10 * time.Second
	// reportIsJudged is how long it may take until a report that was sent becomes a fact.
	reportIsJudged = patience / 4
)

// agentDies kills an instance of agents while the drone's service is working for it.
func agentDies(c *cluster, round int, victim, other *member) {
	c.t.Helper()
	t, prefix := c.t, fmt.Sprintf("a%d-", round)
	c.fleet.broken(t, "drone", dronedelivery.Fault{Mode: dronedelivery.Slow, Delay: droneTakes})
	l := c.burst(prefix, agentTasks, c.alive("api")...)
	l.acknowledged(t, patience)
	node := c.alive("api")[0]
	var mine []int32
	eventually(t, patience, "the victim is in the middle of its work", func() bool {
		for _, i := range node.agents() {
			if i.Agent == "drone" && i.Instance == victim.name && i.InFlight > 0 {
				mine = i.Partitions
				return true
			}
		}
		return false
	})
	died := time.Now()
	victim.kill()
	c.fleet.fix(t, "drone") // calls that are waiting now are answered at once, but nobody reads the answers
	c.ended(l)
	f := c.agree(l)
	t.Logf("%d attempts timed out meanwhile", f.Log.Timeouts)

	took, twice := []time.Duration{}, 0
	for i := 1; i <= l.count; i++ {
		id := l.id(i)
		done := c.drone(node, id)
		calls := c.fleet.ledger(t, "drone", id)
		for _, call := range calls {
			require.Equal(t, calls[0].IdempotencyKey, call.IdempotencyKey, "%s: another identifier", id)
			require.Equal(t, 1, call.Attempt, "%s: another attempt", id)
		}
		if !slices.Contains(mine, events.Home(id, int32(len(c.log.parts)))) || done.started.After(died) || done.completed.Before(died) {
			continue
		}
		if done.instance == victim.name && done.completed.Before(died.Add(reportIsJudged)) {
			continue // it had just reported its result
		}
		require.Equal(t, other.name, done.instance, "%s was being worked on by %s when it died", id, victim.name)
		took = append(took, done.completed.Sub(died))
		if len(calls) > 1 {
			twice++
		}
	}
	require.NotEmpty(t, took, "no work was running in %s", victim.name)
	require.Positive(t, twice, "no call was repeated, so the kill interrupted none")
	slices.Sort(took)
	t.Logf("%s died with %d drones under way; %s did them, %d by a second call with the same identifier; from the kill to the fact p50 %s, most %s",
		victim.name, len(took), other.name, twice, percentile(took, 0.5).Round(time.Millisecond),
		percentile(took, 1).Round(time.Millisecond))
}

// droneDone describes how the drone step of a delivery was done.
type droneDone struct {
	instance           string
	started, completed time.Time
}

func (c *cluster) drone(m *member, id string) droneDone {
	c.t.Helper()
	var d droneDone
	for _, f := range m.history(id) {
		var b struct{ Step, Instance string }
		require.NoError(c.t, json.Unmarshal(f.Data, &b))
		switch {
		case b.Step != "drone":
		case f.Type == "StepStarted":
			d.started = f.Time
		case f.Type == "StepCompleted":
			d.completed, d.instance = f.Time, b.Instance
		}
	}
	return d
}
