package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/sagalog/sagalog/scheduler"
)

// unserved finds the operations of agents that the current workflows call and that no live instance offers. It finds nothing while no node is
// alive, because nothing starts then, or if the brokers do not answer; other checks report that.
func (l *localCheck) unserved(ctx context.Context, cluster *kafka.Cluster) []doctor.Finding {
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
	if err != nil || len(nodesOf(live)) == 0 {
		return nil
	}
	called := map[events.Call][]string{}
	for _, v := range catalog.List() {
		d, err := scheduler.Complete(v.Body)
		if err != nil {
			continue // a newer version's
		}
		for i := range d.Steps {
			for _, c := range d.Steps[i].Calls() {
				if !slices.Contains(called[c], v.Workflow) {
					called[c] = append(called[c], v.Workflow)
				}
			}
		}
	}
	return unservedFinding(called, live)
}

// unservedFinding names the calls, each with the workflows that make it, that no live instance serves.
func unservedFinding(called map[events.Call][]string, live []events.Presence) []doctor.Finding {
	var list []string
	for _, c := range slices.SortedFunc(maps.Keys(called), events.Call.Compare) {
		if !slices.ContainsFunc(live, func(p events.Presence) bool { return p.Takes(c) }) {
			slices.Sort(called[c])
			list = append(list, fmt.Sprintf("%s (%s)", c, strings.Join(called[c], ", ")))
		}
	}
	if len(list) == 0 {
		return nil
	}
	if n := len(list) - listedTopics; n > 0 {
		list = append(list[:listedTopics], fmt.Sprintf("and %d more", n))
	}
	return []doctor.Finding{{Check: checkAgents, Status: doctor.StatusWarn,
		What:   "no live instance serves what workflows call: " + strings.Join(list, "; "),
		Remedy: "start an instance that offers it (`sagalog agents list` shows what each offers), or correct the name in the workflow: until then its steps wait"}}
}

// nodesOf returns the heartbeats that are those of nodes.
func nodesOf(live []events.Presence) (nodes []events.Presence) {
	for _, b := range live {
		if b.Kind == events.PresenceNode {
			nodes = append(nodes, b)
		}
	}
	return nodes
}
