package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
)

// watcher follows the raw log of events by the rules of events/FORMAT.md, without any of the engine's code, so that a
// test can look into the log while it grows.
type watcher struct {
	conn  *kafka.Cluster
	parts []*watched
	// tasks holds each task's last fact.
	tasks map[string]string
}

// dump writes all records of the events log to a file, one JSON line each, so that a failure can be investigated after
// the brokers are gone.
func (w *watcher) dump(ctx context.Context, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	to := bufio.NewWriter(f)
	e := json.NewEncoder(to)
	for p := range w.parts {
		err = errors.Join(err, w.conn.ReadRange(ctx, topics.Events(), int32(p), 0, -1, func(r events.Record) error {
			headers := map[string]string{}
			for _, h := range r.Headers {
				headers[h.Key] = string(h.Value)
			}
			return e.Encode(map[string]any{"partition": p, "offset": r.Offset, "written": r.Timestamp, "key": string(r.Key), "headers": headers, "value": json.RawMessage(r.Value)})
		}))
	}
	return errors.Join(err, to.Flush(), f.Close())
}

// watched is the part of one partition that was read.
type watched struct {
	next int64
	// n and id identify the valid claim, and seq is the next sequence in its epoch.
	n      int
	id     string
	seq    int
	broken bool
	owner  string
	// at is the time in the latest fact.
	at string
	// past holds the epochs that have ended.
	past map[string]bool
	// late counts the records of an epoch that come after the next claim. void counts all records that a reader skips.
	late, void int
}

// look reads the records that have arrived since the last look.
func (w *watcher) look(ctx context.Context) error {
	if w.parts == nil {
		n, err := w.conn.Partitions(ctx, topics.Events())
		if err != nil {
			return err
		}
		for range n {
			w.parts = append(w.parts, &watched{past: map[string]bool{}})
		}
	}
	for p, part := range w.parts {
		err := w.conn.ReadRange(ctx, topics.Events(), int32(p), part.next, -1, func(r events.Record) error {
			part.next = r.Offset + 1
			if r.Control || !part.accepts(&r) {
				return nil
			}
			part.at = r.Header(events.HeaderTime)
			switch name := strings.TrimPrefix(r.Header(events.HeaderType), events.TypePrefix); {
			case r.Key == nil, name == string(events.NameInputRejected), name == string(events.NameInputForwarded):
			default: // a fact about a task, not only about an input that names one
				w.tasks[string(r.Key)] = name
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// accepts is the rule that decides whether a record is an accepted fact or void.
func (p *watched) accepts(r *events.Record) bool {
	if r.Header(events.HeaderType) == events.TypePrefix+string(events.NamePartitionClaimed) {
		var c struct{ ID, Prev, Owner string }
		if json.Unmarshal(r.Value, &c) != nil || c.Prev != p.id || c.ID == "" || c.ID == p.id {
			p.void++
			return false
		}
		if p.n > 0 {
			p.past[p.epoch()] = true
		}
		p.n, p.id, p.owner, p.seq, p.broken = p.n+1, c.ID, c.Owner, 0, false
		return true
	}
	_, at, _ := strings.Cut(r.Header(events.HeaderID), "/") // <partition>/<epoch>/<sequence>
	cut := max(strings.LastIndexByte(at, '/'), 0)
	epoch := at[:cut]
	seq, err := strconv.Atoi(strings.TrimPrefix(at[cut:], "/"))
	current := p.n > 0 && epoch == p.epoch()
	if current && err == nil && !p.broken && seq == p.seq {
		p.seq++
		return true
	}
	p.broken = p.broken || current && seq > p.seq
	p.void++
	if p.past[epoch] {
		p.late++
	}
	return false
}

func (p *watched) epoch() string { return fmt.Sprintf("%d-%s", p.n, p.id) }

// owners returns the owner of each partition according to its latest claim.
func (w *watcher) owners() map[int32]string {
	of := map[int32]string{}
	for p, part := range w.parts {
		of[int32(p)] = part.owner
	}
	return of
}

// epochs returns the epoch of each partition that a node owns.
func (w *watcher) epochs(owner string) map[int32]string {
	of := map[int32]string{}
	for p, part := range w.parts {
		if part.owner == owner {
			of[int32(p)] = part.epoch()
		}
	}
	return of
}

// late counts the void records that a deposed owner wrote after its successor's claim.
func (w *watcher) late() (n int) {
	for _, p := range w.parts {
		n += p.late
	}
	return n
}

// open returns some deliveries of a load that have not ended, with their last fact and home.
func (w *watcher) open(l *load) (list []string) {
	for i := 1; i <= l.count && len(list) < 20; i++ {
		last := w.tasks[l.id(i)]
		switch events.Name(last) {
		case events.NameTaskProcessed, events.NameTaskUndone, events.NameTaskParked:
			continue
		case "":
			last = "nothing"
		}
		home := events.Home(l.id(i), int32(len(w.parts)))
		list = append(list, fmt.Sprintf("%s: %s in partition %d of %s", l.id(i), last, home, w.parts[home].owner))
	}
	return list
}

// endedWith counts the tasks with a prefix that have ended or are parked.
func (w *watcher) endedWith(prefix string) (n int) {
	for task, last := range w.tasks {
		switch events.Name(last) {
		case events.NameTaskProcessed, events.NameTaskUndone, events.NameTaskParked:
			if strings.HasPrefix(task, prefix) {
				n++
			}
		}
	}
	return n
}
