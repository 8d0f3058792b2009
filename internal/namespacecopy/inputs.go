package namespacecopy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// attempt names an attempt of a task, or of an earlier task with its ID: they have other tickets. run is 0 in a report that does not name one.
type attempt struct {
	task, ticket, path string
	run                int
	op                 events.Operation
	number             int
}

// checkInputs refuses inputs that cannot be copied, before the namespace is closed.
func (c *copying) checkInputs(ctx context.Context, s *source) error {
	for _, in := range events.Inputs {
		topic := s.log.topics().Input(in)
		of := all(topic, s.ns.Partitions)
		starts, err := s.log.Cluster.StartOffsets(ctx, of)
		if err != nil {
			return err
		}
		stable, err := s.log.Cluster.EndOffsets(ctx, of)
		if err != nil {
			return err
		}
		ends, err := s.log.Cluster.HighWatermarks(ctx, of)
		if err != nil {
			return err
		}
		for _, p := range s.parts {
			next, start := p.state.Partition.Inputs[in].Next, starts[topic][p.number]
			switch {
			case start > next:
				return fmt.Errorf("topic %s partition %d lost the records %d to %d, which nobody has judged: start a node and give them up (`sagalog namespace accept-loss`), then copy",
					topic, p.number, next, start-1)
			case stable[topic][p.number] < ends[topic][p.number]:
				return fmt.Errorf("a transaction is open in topic %s partition %d from offset %d on: wait until its producer has ended it, or its timeout has passed", topic, p.number, stable[topic][p.number])
			}
		}
	}
	return nil
}

// writeInputs copies the inputs that nobody has judged to their new homes, in their order.
func (c *copying) writeInputs(ctx context.Context) error {
	if c.from.log == nil {
		return nil
	}
	for _, in := range events.Inputs {
		for _, p := range c.from.parts {
			if err := c.copyInput(ctx, in, p); err != nil {
				return fmt.Errorf("copy topic %s partition %d: %w", c.From.topics().Input(in), p.number, err)
			}
		}
	}
	c.say("%d inputs are copied that nobody had judged", c.result.Inputs)
	return nil
}

func (c *copying) copyInput(ctx context.Context, in events.Input, p *part) error {
	return c.logs.Unjudged(ctx, in, p.number, p.state.Partition.Inputs[in].Next, func(records []events.Record) error {
		return c.moveInputs(ctx, in, records)
	})
}

func (c *copying) moveInputs(ctx context.Context, in events.Input, records []events.Record) error {
	moved := make([]events.Record, 0, len(records))
	for i := range records {
		r := &records[i]
		if r.Control {
			continue
		}
		key, kind, body := addressee(r)
		if in == events.Reports && (kind == "" || kind == events.TypeReport) {
			c.note(key, body)
		}
		x := events.Record{Topic: c.To.topics().Input(in), Partition: r.Partition % c.Partitions, Key: r.Key, Value: r.Value, Headers: r.Headers}
		if key != "" {
			//mutant:unjudged-input-goes-home
			x.Partition = events.Home(key, c.Partitions)
		}
		moved = append(moved, x)
	}
	_, err := c.logs.Append(ctx, moved...)
	c.result.Inputs += int64(len(moved))
	return err
}

// addressee returns the key of the entity that an input is for, "" if it names none, and its type and data.
func addressee(r *events.Record) (key, kind string, data []byte) {
	e, data, err := events.Open(r)
	if err != nil {
		return string(r.Key), "", nil
	}
	if len(r.Key) > 0 {
		return string(r.Key), e.Type, data
	}
	var named struct{ ID, Task string }
	_ = json.Unmarshal(data, &named)
	return cmp.Or(e.Subject, named.Task, named.ID), e.Type, data
}

// over says whether a report says how a running attempt of the task ended.
func (c *copying) over(t *events.Task, path string, op events.Operation, number int) bool {
	a := attempt{t.ID, t.Incarnation, path, 0, op, number}
	if c.reported[a] {
		return true
	}
	a.run = events.RunOf(t.RunOf(path))
	return c.reported[a]
}

// note takes note of a report about the outcome of an attempt: that attempt is over, so its request is not sent again.
func (c *copying) note(task string, data []byte) {
	p, err := events.DecodeReport(data)
	//mutant:moved-report-ends-its-request
	if err == nil && p.Result != events.ResultProgress {
		c.reported[attempt{task, p.Ticket, p.Step, p.Run, p.Operation, p.Attempt}] = true
	}
}
