package apitest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/proxy"
)

// Share is an Engine as one of several nodes knows it: only the partitions that are routed to that node. Reads of others return
// nothing, and are recorded as Misreads.
type Share struct {
	*Engine
	name string

	mu sync.Mutex
	// mu guards the fields below.
	routes   [Partitions]proxy.Route
	misreads []string
}

// Share returns the engine as the named node knows it: without partitions until they are routed to it.
func (e *Engine) Share(name string) *Share { return &Share{Engine: e, name: name} }

// Config returns the configuration of an API of that node.
func (s *Share) Config() api.Config {
	c := s.Engine.Config()
	c.Node, c.Acts, c.Nodes = s.name, Acts(s.name), Nodes(s.name)
	c.Tasks, c.Lists, c.Inputs, c.History, c.Rejections, c.Cluster, c.Stats = s, s, s, s, s, s, s
	return c
}

// Direct sets where a partition is for this node.
func (s *Share) Direct(partition int32, to proxy.Route) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.routes[partition] = to
}

// Misreads returns the reads of partitions that are not here.
func (s *Share) Misreads() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.misreads)
}

// has says whether a partition is here, and records a misread if it is not.
func (s *Share) has(what string, partition int32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.routes[partition].Readable() {
		s.misreads = append(s.misreads, fmt.Sprintf("%s of partition %d", what, partition))
	}
	return s.routes[partition].Readable()
}

// Route implements api.Cluster.
func (s *Share) Route(partition int32) proxy.Route {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.routes[partition]
}

// Owner implements api.Cluster.
func (s *Share) Owner(partition int32) string {
	if !s.has("owner", partition) {
		return ""
	}
	return s.name
}

// Partitions implements api.Cluster.
func (s *Share) Partitions(ctx context.Context) ([]api.Partition, error) {
	list, err := s.Engine.Partitions(ctx)
	for i := range list {
		list[i].Owner = s.name
		if !s.Route(list[i].Partition).Here {
			list[i] = api.Partition{Partition: list[i].Partition, EndOffset: list[i].EndOffset, Begins: list[i].Begins}
		}
	}
	return list, err
}

// Task implements api.Tasks.
func (s *Share) Task(ctx context.Context, id string) (*events.Task, error) {
	if !s.has("task", events.Home(id, Partitions)) {
		return nil, nil
	}
	return s.Engine.Task(ctx, id)
}

// List implements api.Lists.
func (s *Share) List(ctx context.Context, q api.Query) (api.Page, error) {
	if q.Partitions == nil {
		for p := range int32(Partitions) {
			q.Partitions = append(q.Partitions, p)
		}
	}
	for _, p := range q.Partitions {
		s.has("list", p)
	}
	return s.Engine.List(ctx, q)
}

// WaitPassed implements api.Inputs.
func (s *Share) WaitPassed(ctx context.Context, in events.Input, partition int32, offset int64) error {
	s.has("wait", partition)
	return s.Engine.WaitPassed(ctx, in, partition, offset)
}

// CatchUp implements api.Inputs.
func (s *Share) CatchUp(ctx context.Context, in events.Input, partition int32) error {
	s.has("wait", partition)
	return s.Engine.CatchUp(ctx, in, partition)
}

// History implements api.History.
func (s *Share) History(ctx context.Context, task string, from int64, limit int) ([]api.LoggedFact, error) {
	if !s.has("history", events.Home(task, Partitions)) {
		return nil, nil
	}
	return s.Engine.History(ctx, task, from, limit)
}
