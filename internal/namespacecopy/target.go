package namespacecopy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/scheduler"
)

// checkTarget refuses a place in which some topic holds records: it is a namespace, or half a copy.
func (c *copying) checkTarget(ctx context.Context) error {
	held, err := holding(ctx, c.To)
	if err != nil {
		return fmt.Errorf("look at the topics of %s: %w", c.To, err)
	}
	if len(held) > 0 {
		return c.occupied(ctx, held)
	}
	return nil
}

// occupied says what is in the target. It advises to delete only the remains of a copy that was interrupted, never a namespace that exists.
func (c *copying) occupied(ctx context.Context, held []string) error {
	there := source{name: c.To.String(), log: &c.To}
	half := false
	if slices.Contains(held, c.To.topics().Definitions()) {
		if err := there.readDefinitions(ctx); err != nil && there.catalog == nil {
			return fmt.Errorf("look at what is in %s: %w", c.To, err)
		}
		_, exists := there.catalog.Namespace()
		half = !exists && scheduler.CopyingOf(there.catalog) != nil
	}
	if half {
		return fmt.Errorf("%s is half a copy, in which nothing runs: choose another --to-namespace%s, or delete its topics: %s", c.To, c.freeName(ctx), deletion(c.To))
	}
	return fmt.Errorf("%s is in use: the topics %s hold records. Choose another --to-namespace%s", c.To, strings.Join(held, ", "), c.freeName(ctx))
}

// freeName suggests the name of a namespace whose topics hold no records; "" if it finds none.
func (c *copying) freeName(ctx context.Context) string {
	for n := 2; n <= mostNames; n++ {
		name := fmt.Sprintf("%s-%d", c.To.Namespace, n)
		if held, err := holding(ctx, Place{Cluster: c.To.Cluster, Namespace: name}); err == nil && len(held) == 0 {
			return ", such as " + name
		}
	}
	return ""
}

// mostNames bounds the names that are tried.
const mostNames = 9

// holding returns the topics of a namespace that hold records. Agents and nodes may have announced themselves already.
func holding(ctx context.Context, p Place) (held []string, err error) {
	var names []string
	for _, prefix := range []string{p.Namespace + ".", kafka.DeadPrefix + p.Namespace + "."} {
		list, err := p.Cluster.ListTopics(ctx, prefix)
		if err != nil {
			return nil, err
		}
		names = append(names, list...)
	}
	for _, name := range names {
		if name == p.topics().Presence() {
			continue
		}
		n, err := p.Cluster.Partitions(ctx, name)
		if err != nil {
			return nil, err
		}
		ends, err := p.Cluster.HighWatermarks(ctx, all(name, n))
		if err != nil {
			return nil, err
		}
		for _, end := range ends[name] {
			if end > 0 {
				held = append(held, name)
				break
			}
		}
	}
	return held, nil
}

// all names all partitions of a topic.
func all(topic string, n int32) kafka.Partitions {
	of := kafka.Partitions{}
	for p := range n {
		of[topic] = append(of[topic], p)
	}
	return of
}

// deletion is the command that deletes all topics of a namespace.
func deletion(p Place) string {
	quoted := strings.ReplaceAll(p.Namespace, ".", `\.`)
	return fmt.Sprintf("`%s --delete --topic '(dlq\\.)?%s\\..*'`", p.Cluster.Config().Script("kafka-topics.sh"), quoted)
}

// again says what to do after a copy that was interrupted.
func (c *copying) again(context.Context) string {
	text := fmt.Sprintf("delete its topics, %s, and copy again", deletion(c.To))
	if len(c.Checkpoints) == 0 {
		text += fmt.Sprintf("; or give the copy up: `sagalog namespace reopen --brokers %s --namespace %s`", strings.Join(c.From.Cluster.Brokers(), ","), c.From.Namespace)
	}
	return text
}
