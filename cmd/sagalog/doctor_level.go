package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
)

const (
	checkLevel = "level"
	checkNodes = "nodes"
	// presenceTail is how many of the latest heartbeats are read: several seconds of them in a large cluster.
	presenceTail = 2000
	// heardWithin is how old the last heartbeat of a live node may be. Doctor looks once, by its machine's clock.
	heardWithin = 10 * time.Second
)

// level compares the level of the namespace with what this build and the live nodes understand. It finds nothing without a namespace,
// or if the brokers do not answer; other checks report that.
func (l *localCheck) level(ctx context.Context, cluster *kafka.Cluster) []doctor.Finding {
	if l.made == 0 || l.roles.agentOnly() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, definitionsWait)
	defer cancel()
	topics := kafka.Topics{Namespace: l.namespace}
	catalog, err := readCatalog(ctx, cluster, topics)
	if err != nil {
		return nil
	}
	live, err := l.heard(ctx, cluster, topics.Presence())
	if err != nil {
		return nil
	}
	return []doctor.Finding{levelFinding(catalog.Settings().Level, events.FormatVersion, nodesOf(live))}
}

// running says which nodes of the namespace are alive, and that nothing is decided if none is. It finds nothing without a namespace, or if the brokers
// do not answer; other checks report that.
func (l *localCheck) running(ctx context.Context, cluster *kafka.Cluster) ([]events.Presence, []doctor.Finding) {
	if l.made == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, definitionsWait)
	defer cancel()
	beats, err := l.beats(ctx, cluster, kafka.Topics{Namespace: l.namespace}.Presence())
	if err != nil {
		return nil, nil
	}
	live := heardLately(beats, l.now())
	nodes, keyless := nodesOf(live), keylessFindings(live)
	if len(nodes) == 0 {
		return nil, []doctor.Finding{l.silent(nodesOf(beats))}
	}
	var names []string
	for i := range nodes {
		names = append(names, nodes[i].Instance)
	}
	found := []doctor.Finding{{Check: checkNodes, Status: doctor.StatusOK, What: "alive: " + strings.Join(names, ", ")}}
	return nodes, slices.Concat(found, stoppedFindings(nodes), unownedFindings(l.made, nodes, nodesOf(beats)), keyless)
}

// keylessFindings are the agents that lack a key of the requests that they get.
func keylessFindings(live []events.Presence) (list []doctor.Finding) {
	for i := range live {
		for _, agent := range slices.Sorted(maps.Keys(live[i].MissingKeys)) {
			what := "lacks the key " + strings.Join(live[i].MissingKeys[agent], ", ")
			if slices.Contains(live[i].MissingKeys[agent], events.NoKeys) {
				what = "can open nothing: it has no key file, or cannot read the topic of keys"
			}
			list = append(list, doctor.Finding{Check: checkAgents, Status: doctor.StatusFail,
				What:   fmt.Sprintf("sealed requests for agent %s wait, because its instance %s %s", agent, live[i].Instance, what),
				Remedy: "copy the key file of the nodes to where that instance runs (--seal-key-file, or DialConfig.SealKeyFile); docs/encryption.md"})
		}
	}
	return list
}

// stoppedRemedies say what to do about a partition that has stopped, by the reason.
var stoppedRemedies = map[string]string{
	events.StoppedInputLost: "see docs/lost.md: restore the topic, or accept the loss with the command that the reason names",
	events.StoppedLog:       "see docs/lost.md: restore the topic of events from a copy",
	events.StoppedState:     "look at the disk of that node; another node can take the partition over",
	events.StoppedLevel:     "run a newer version of sagalog on that node",
	events.StoppedClosed:    "start nodes in the copy, or run `sagalog namespace reopen` if the copy was given up",
}

// stoppedFindings are the partitions that nodes say have stopped there.
func stoppedFindings(nodes []events.Presence) (list []doctor.Finding) {
	for i := range nodes {
		for _, x := range nodes[i].Stopped {
			list = append(list, doctor.Finding{Check: checkNodes, Status: doctor.StatusFail,
				What:   fmt.Sprintf("partition %d has stopped at node %s (%s), so nothing is decided in it: %s", x.Partition, nodes[i].Instance, x.Reason, x.Detail),
				Remedy: cmp.Or(stoppedRemedies[x.Reason], "remove the cause that the log of that node names, then restart the node")})
		}
	}
	return list
}

// silent says that no node is alive. Whether one is depends on this machine's clock, because the heartbeats carry the times of their senders: the
// finding names the latest time, so that a reader sees a clock that is wrong.
func (l *localCheck) silent(nodes []events.Presence) doctor.Finding {
	f := doctor.Finding{Check: checkNodes, Status: doctor.StatusWarn, What: "no node of namespace " + l.namespace + " is alive: nothing is decided, and inputs wait in their topics",
		Remedy: "start one: sagalog serve with these flags"}
	if len(nodes) == 0 {
		return f
	}
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b events.Presence) int { return cmp.Compare(b.SeenAt, a.SeenAt) })
	last, now := nodes[0], l.now()
	f.What = fmt.Sprintf("no node of namespace %s is alive, by the clock of this machine, which reads %s: the last heartbeat is that of node %s, whose clock read %s, %s earlier. If no node runs, nothing is decided, and inputs wait in their topics",
		l.namespace, now.UTC().Format(time.RFC3339), last.Instance, last.SeenAt, now.Sub(last.SeenAt.Time()).Round(time.Second))
	for _, x := range nodes[1:min(1+silentNamed, len(nodes))] {
		f.What += fmt.Sprintf("; node %s was heard at %s", x.Instance, x.SeenAt)
	}
	f.Remedy = "start them again with the flags and the data directories that they had, or another one: sagalog serve"
	f.Remedy += "; or, if a node runs, compare its clock and this machine's with a third one (NTP), and set the one that is wrong"
	return f
}

// heard returns the heartbeats of the nodes and of the instances of agents that are alive.
func (l *localCheck) heard(ctx context.Context, cluster *kafka.Cluster, topic string) ([]events.Presence, error) {
	beats, err := l.beats(ctx, cluster, topic)
	return heardLately(beats, l.now()), err
}

// heardLately returns the heartbeats whose times are not long ago.
func heardLately(beats []events.Presence, now time.Time) (live []events.Presence) {
	for _, b := range beats {
		if now.Sub(b.SeenAt.Time()) <= heardWithin {
			live = append(live, b)
		}
	}
	return live
}

// beats returns the latest heartbeat of each node and each instance of agents that has not said goodbye.
func (l *localCheck) beats(ctx context.Context, cluster *kafka.Cluster, topic string) (list []events.Presence, err error) {
	of := kafka.Partitions{topic: {0}}
	starts, err := cluster.StartOffsets(ctx, of)
	if err != nil {
		return nil, err
	}
	ends, err := cluster.EndOffsets(ctx, of)
	if err != nil {
		return nil, err
	}
	latest := map[string]events.Presence{}
	err = cluster.ReadRange(ctx, topic, 0, max(starts[topic][0], ends[topic][0]-presenceTail), ends[topic][0], func(r events.Record) error {
		delete(latest, string(r.Key))
		if b, err := events.DecodePresence(&r); err == nil && b.SeenAt != 0 { // a goodbye has no time
			latest[string(r.Key)] = b
		}
		return nil
	})
	for _, b := range latest {
		list = append(list, b)
	}
	slices.SortFunc(list, func(a, b events.Presence) int { return strings.Compare(a.Instance, b.Instance) })
	return list, err
}

// levelFinding judges the level of a namespace by the highest level that this build understands, and by those of the live nodes.
func levelFinding(level, build int, nodes []events.Presence) doctor.Finding {
	f := doctor.Finding{Check: checkLevel, Status: doctor.StatusWarn}
	var list, older []string
	for _, b := range nodes {
		understands := cmp.Or(b.Level, events.FirstLevel)
		list = append(list, fmt.Sprintf("%s %d", b.Instance, understands))
		if understands < build {
			older = append(older, b.Instance)
		}
	}
	f.What = fmt.Sprintf("the namespace has level %d, and this build understands %d", level, build)
	if len(list) > 0 {
		f.What += "; live nodes understand: " + strings.Join(list, ", ")
	}
	switch {
	case level > build:
		f.Status, f.Remedy = doctor.StatusFail, "run a newer version of sagalog: a node of this one owns no partition"
	case level == build:
		f.Status = doctor.StatusOK
	case len(older) > 0:
		f.Remedy = "upgrade " + strings.Join(older, ", ") + ", then run `sagalog namespace upgrade`"
	default:
		f.Remedy = "run `sagalog namespace upgrade`"
	}
	return f
}
