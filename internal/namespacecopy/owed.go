package namespacecopy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/supervisor"
)

// work collects what follows from the tasks, and sends it when their states are written.
type work struct {
	*copying
	of    map[*part]*supervisor.Copying
	sends []supervisor.Send
	bytes int
	// topics are the topics of agents that exist.
	topics map[string]bool
}

func (c *copying) newWork() (*work, error) {
	w := &work{copying: c, of: map[*part]*supervisor.Copying{}, topics: map[string]bool{}}
	for _, p := range c.from.parts {
		x, err := c.effectsOf(p)
		if err != nil {
			return nil, err
		}
		w.of[p] = x
	}
	return w, nil
}

func (c *copying) effectsOf(p *part) (*supervisor.Copying, error) {
	id, err := uuid.Parse(c.from.ns.ID)
	if err != nil {
		return nil, fmt.Errorf("the ID of namespace %s is not a UUID: %w", c.from.name, err)
	}
	cfg := supervisor.Config{
		//mutant:copy-keeps-the-id
		Partitions: c.Partitions, Node: events.CopyOwner, Namespace: c.To.Namespace, NamespaceID: id,
		Entropy: func() (b [16]byte) { return b }, // nothing is claimed
	}
	if c.keys != nil {
		cfg.Keys = c.keys
	}
	return supervisor.NewCopying(cfg, c.scheduler, p.state)
}

// take notes what follows from a task.
func (w *work) take(ctx context.Context, p *part, id string) error {
	t, err := p.state.Task(id)
	if err != nil {
		return err
	}
	defer p.state.Evict(id)
	if t.State.Ended() {
		return nil
	}
	w.result.Live++
	find := w.from.task
	if w.from.log != nil { // its facts say what is sent again
		find = nil
	}
	list, err := w.of[p].OfTask(t, func(path string, op events.Operation, number int) bool {
		return w.over(t, path, op, number)
	}, find)
	if err != nil {
		return err
	}
	return w.add(ctx, list)
}

func (w *work) add(ctx context.Context, list []supervisor.Send) error {
	for i := range list {
		w.bytes += list[i].Record.Size()
	}
	if w.sends = append(w.sends, list...); w.bytes < batchBytes {
		return nil
	}
	return w.flush(ctx)
}

// flush sends what was collected.
func (w *work) flush(ctx context.Context) error {
	records := make([]events.Record, len(w.sends))
	for i := range w.sends {
		y := &w.sends[i]
		if agent, ok := strings.CutPrefix(y.Topic, "work."); ok {
			if err := w.topicOf(ctx, agent); err != nil {
				return err
			}
			w.result.Work++
		} else {
			w.result.Sent++
		}
		records[i] = y.Record
		records[i].Topic = w.topicName(y.Topic)
	}
	w.sends, w.bytes = nil, 0
	if _, err := w.logs.Append(ctx, records...); err != nil {
		return fmt.Errorf("send what is under way: %w", err)
	}
	return nil
}

// topicOf makes the topic of an agent.
func (w *work) topicOf(ctx context.Context, agent string) error {
	if w.topics[agent] {
		return nil
	}
	w.topics[agent] = true
	return w.logs.EnsureWork(ctx, agent)
}

// topicName returns the full name of the topic of an effect.
func (c *copying) topicName(topic string) string {
	if full, ok := strings.CutPrefix(topic, supervisor.RepliesPrefix); ok {
		return full
	}
	if in, ok := strings.CutPrefix(topic, kafka.DeadPrefix); ok {
		return c.To.topics().DeadLetters(events.Input(in))
	}
	return c.To.Namespace + "." + topic
}

// sendOwed sends what limits, schedules and held requests lead to, and what facts of the log may still owe.
func (c *copying) sendOwed(ctx context.Context) error {
	w, err := c.newWork()
	if err != nil {
		return err
	}
	for _, p := range c.from.parts {
		x := w.of[p]
		for l := range p.state.Limits.All() {
			if err := w.add(ctx, x.OfLimit(l)); err != nil {
				return err
			}
		}
		for _, name := range slices.Sorted(maps.Keys(p.state.Schedules)) {
			list, err := x.OfSchedule(p.state.Schedules[name], c.from.log == nil, c.from.task)
			if err != nil {
				return err
			}
			if err := w.add(ctx, list); err != nil {
				return err
			}
		}
		//mutant:held-request-is-sent-to-copy
		if err := c.sendHeld(ctx, w, p); err != nil {
			return err
		}
		//mutant:owed-effects-are-sent-to-copy
		if err := c.sendFacts(ctx, x, p); err != nil {
			return err
		}
	}
	if err := w.flush(ctx); err != nil {
		return err
	}
	c.say("%d requests for work, %d held requests and %d other records are sent again", c.result.Work, c.result.Held, c.result.Sent)
	return nil
}

// task returns a task of any partition, nil if none has it.
func (s *source) task(id string) (*events.Task, error) {
	p := s.parts[events.Home(id, s.ns.Partitions)]
	t, err := p.state.Task(id)
	p.state.Evict(id)
	return t, err
}

// sendHeld sends held requests again: they are held once more, and the time for it begins again.
func (c *copying) sendHeld(ctx context.Context, w *work, p *part) error {
	for _, h := range p.state.Held() {
		r, err := events.EncodeRequest(h.Request, events.Subject{ID: h.Request.ID, Source: sourceOf(c.To.Namespace), Time: events.At(c.made)})
		if err != nil {
			return err
		}
		r.Partition = events.Home(h.Request.Task, c.Partitions)
		c.result.Held, c.result.Sent = c.result.Held+1, c.result.Sent-1
		if err := w.add(ctx, []supervisor.Send{{Topic: string(events.Reports), Record: r}}); err != nil {
			return err
		}
	}
	return nil
}

// sendFacts sends the effects of the facts behind the watermark, which an owner would have sent again.
func (c *copying) sendFacts(ctx context.Context, x *supervisor.Copying, p *part) error {
	if c.from.log == nil {
		return nil
	}
	state := &p.state.Partition
	from := p.state.OffsetAfter(state.Watermark)
	for _, after := range state.Delayed {
		from = min(from, p.state.OffsetAfter(after))
	}
	return c.logs.Facts(ctx, p.number, from, p.state.Next, func(r events.Record) error {
		if !p.state.Accepted(r.Offset) {
			return nil
		}
		f, err := events.DecodeFact(&r)
		if err != nil {
			return err
		}
		list, err := x.OfFact(f, p.number)
		if err != nil {
			return err
		}
		for i := range list {
			if err := c.sendOne(ctx, x, &list[i]); err != nil {
				return fmt.Errorf("the effect of the fact at offset %d of topic %s partition %d: %w", r.Offset, c.From.topics().Events(), p.number, err)
			}
		}
		return nil
	})
}

// sendOne sends an effect of a fact, to the partition that it has in the copy.
func (c *copying) sendOne(ctx context.Context, x *supervisor.Copying, y *supervisor.Owed) error {
	if y.Input != "" {
		in, partition, offset, _ := y.Input.Input()
		input, err := c.logs.Input(ctx, in, partition, offset)
		if err != nil {
			return err
		}
		x.Complete(y, c.From.Namespace, &input)
	}
	r := y.Record
	switch y.Kind {
	case events.EffectForward:
		key, _, _ := addressee(&r)
		r.Partition = events.Home(key, c.Partitions)
	case events.EffectDeadLetter:
		r.Partition %= c.Partitions
	}
	r.Topic = c.topicName(y.Topic)
	if _, err := c.logs.Append(ctx, r); err != nil {
		if y.Kind != events.EffectReply { // the topics of replies are not ours: one may be missing on this cluster
			return err
		}
		c.result.Unsent = append(c.result.Unsent, fmt.Sprintf("%s: %s", r.Topic, err))
		return nil
	}
	c.result.Sent++
	return nil
}
