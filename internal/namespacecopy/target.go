package namespacecopy

import (
	"context"
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/internal/kafka"
)

// checkTarget refuses a place in which some topic holds records: it is a namespace, or half a copy.
func (c *copying) checkTarget(ctx context.Context) error {
	held, err := holding(ctx, c.To)
	if err != nil {
		return fmt.Errorf("look at the topics of %s: %w", c.To, err)
	}
	if len(held) > 0 {
		return fmt.Errorf("the topics %s of %s hold records: choose another --to-namespace, or delete them if they are half a copy: %s", strings.Join(held, ", "), c.To, deletion(c.To))
	}
	return nil
}

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
