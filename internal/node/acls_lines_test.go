package node_test

import (
	"context"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/acls"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/internal/pause"
)

// grant is a line as the test's administrator grants it.
func grant(l acls.Line, operations ...string) kafkatest.Grant {
	o := kafkatest.Grant{Literal: !l.Prefixed, Operations: operations}
	switch l.Resource {
	case acls.Topic:
		o.Topic = l.Name
	case acls.Group:
		o.Group = l.Name
	case acls.Cluster:
		o.Cluster = true
	}
	return o
}

// refusal matches the error that names a line.
func refusal(l acls.Line) *regexp.Regexp {
	name := regexp.QuoteMeta(l.Name)
	if l.Prefixed {
		name += `\S+`
	}
	switch {
	case l.Operation == acls.Create:
		return regexp.MustCompile("(?s)refuses to create the topic " + name + ": .*`sagalog generate acls --role")
	case l.Operation == acls.DescribeConfigs:
		return regexp.MustCompile("topic " + name + ": the list of settings is unreadable .*sagalog generate acls --role")
	case l.Resource == acls.Cluster:
		return regexp.MustCompile("may not " + l.Operation + " on the cluster .*`sagalog generate acls --role")
	}
	return regexp.MustCompile("may not " + l.Operation + " on the " + string(l.Resource) + " " + name + "[ ,].*`sagalog generate acls --role")
}

// ghosts sends one heartbeat of each of many instances, which then fall silent: a node hears only what is sent while it works, and when that begins
// is not known.
func (g *guarded) ghosts(t *testing.T) func(context.Context, *node.Node) {
	t.Helper()
	var beats []events.Record
	for i := range int(deniedWithin / time.Second) {
		beat := instance(fmt.Sprintf("ghost%d", i), map[string]int{"stock": 1}, nil)
		beat.Agents = []string{"stock"}
		r := beatOf(t, beat)
		r.Topic = g.topics.Presence()
		beats = append(beats, *r)
	}
	return func(ctx context.Context, _ *node.Node) {
		for _, r := range beats {
			if _, err := g.producer.ProduceSync(ctx, r); err != nil || !pause.For(ctx, time.Second) {
				return
			}
		}
	}
}
