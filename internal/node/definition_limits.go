package node

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/scheduler"
)

// definitionLimits bound how much applying definitions leaves behind.
type definitionLimits struct {
	// topics bounds the work topics of the namespace: a definition that needs more could never run.
	topics int
	// bytes bounds the contents of all versions, which each node reads at its start.
	bytes int
	// versions bounds the number of versions: each apply copies the list of a workflow's versions.
	versions int
}

var defaultDefinitionLimits = definitionLimits{topics: MaxWorkTopics, bytes: scheduler.MaxBytes, versions: scheduler.MaxVersions}

// room returns the faults of a definition for which the namespace has no room, whose limits it does not have, or for which its level is too low.
func (d *definitions) room(ctx context.Context, src *scheduler.Source) (faults []api.Fault, err error) {
	if faults := d.permitted(src); len(faults) > 0 {
		return faults, nil
	}
	faults = d.unknownLimits(src)
	if f := d.roomInCatalog(src); f != nil {
		faults = append(faults, *f)
	}
	specs, err := d.work(src)
	if err != nil {
		return nil, err
	}
	there, err := d.ns.cluster.Describe(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	have, more := 0, []kafka.TopicSpec{}
	for name := range there {
		if strings.HasPrefix(name, d.ns.topics.Work("")) {
			have++
		}
	}
	for _, s := range specs {
		if !there.Has(s.Name) {
			more = append(more, s)
		}
	}
	if len(more) > 0 && have+len(more) > d.limits.topics {
		faults = append(faults, api.Fault{Pointer: "/steps", Message: fmt.Sprintf(
			"needs work topics for %d more agents, but the namespace has %d and may have %d; let steps share agents, or delete topics of agents that are gone, which `sagalog doctor` lists",
			len(more), have, d.limits.topics)})
	}
	if len(faults) > 0 {
		return faults, nil
	}
	return nil, d.refused(ctx, more)
}

func (d *definitions) roomInCatalog(src *scheduler.Source) *api.Fault {
	if _, known := d.ns.catalog.Catalog.ByHash(src.Workflow, src.Hash); known {
		return nil
	}
	versions, bytes := d.ns.catalog.Held()
	if versions < d.limits.versions && bytes+len(src.Body) <= d.limits.bytes {
		return nil
	}
	return &api.Fault{Message: fmt.Sprintf("the namespace has %d versions of workflows with %d bytes; it takes at most %d versions with %d bytes",
		versions, bytes, d.limits.versions, d.limits.bytes)}
}

// work returns the topics of the agents that the definition names.
func (d *definitions) work(src *scheduler.Source) ([]kafka.TopicSpec, error) {
	def, err := scheduler.Complete(src.Body)
	if err != nil {
		return nil, err
	}
	var specs []kafka.TopicSpec
	for _, a := range def.Agents() {
		specs = append(specs, d.ns.topics.WorkSpec(a, d.ns.partitions))
	}
	return specs, nil
}

// programBytes bounds the contents of the definitions whose programs are kept. A program takes about four times as much.
const programBytes = 32 << 20

// programs keeps compiled definitions by hash. A dropped one is compiled again on demand.
type programs struct {
	// mu guards the field below.
	mu     sync.Mutex
	recent recent[*scheduler.Program]
}

// find returns nil if the program is not kept.
func (c *programs) find(hash string) *scheduler.Program {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, _ := c.recent.find(hash)
	return p
}

func (c *programs) keep(hash string, p *scheduler.Program, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.recent.find(hash); known { // two asked for it at once
		return
	}
	c.recent.room = programBytes
	c.recent.keep(hash, p, bytes)
}
