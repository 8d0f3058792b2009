package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/sagalog/sagalog/scheduler"
)

const (
	// definitionsWait bounds the reading of all definitions.
	definitionsWait = 15 * time.Second
	// listedTopics is how many topics a finding lists.
	listedTopics = 20
)

// readCatalog reads all definitions and settings. It skips what this build cannot read.
func readCatalog(ctx context.Context, cluster *kafka.Cluster, topics kafka.Topics) (*scheduler.Catalog, error) {
	start, err := cluster.StartOffset(ctx, topics.Definitions(), 0)
	if err != nil {
		return nil, err
	}
	catalog := scheduler.NewCatalog(nil)
	return catalog, cluster.ReadRange(ctx, topics.Definitions(), 0, start, -1, func(r events.Record) error {
		_ = catalog.Apply(&r)
		return nil
	})
}

// unnamed finds the work topics of agents that no version of a workflow names. It finds nothing if the brokers do not answer; other checks
// report that.
func (l *localCheck) unnamed(ctx context.Context, cluster *kafka.Cluster) []doctor.Finding {
	if l.made == 0 || l.roles.agentOnly() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, definitionsWait)
	defer cancel()
	topics := kafka.Topics{Namespace: l.namespace}
	list, err := cluster.ListTopics(ctx, topics.Work(""))
	if err != nil || len(list) == 0 {
		return nil
	}
	catalog, err := readCatalog(ctx, cluster, topics)
	if err != nil {
		return nil
	}
	for _, w := range catalog.List() {
		for _, v := range catalog.Versions(w.Workflow) {
			d, err := scheduler.Complete(v.Body)
			if err != nil {
				return nil // a newer version's: it may name any agent
			}
			agents := d.Agents()
			list = slices.DeleteFunc(list, func(topic string) bool {
				return slices.Contains(agents, strings.TrimPrefix(topic, topics.Work("")))
			})
		}
	}
	if len(list) == 0 {
		return nil
	}
	var names []string
	commands := ""
	for i, topic := range list {
		if i == listedTopics {
			names = append(names, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		names = append(names, topic)
		commands += fmt.Sprintf("\n  %s --delete --topic %s", cluster.Config().Script("kafka-topics.sh"), topic)
	}
	return []doctor.Finding{{Check: doctor.CheckTopics, Status: doctor.StatusWarn,
		What:   "no workflow names the agents of these work topics: " + strings.Join(names, ", "),
		Remedy: "stop the instances of these agents, and delete the topics:" + commands}}
}
