package main

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

const (
	// followEvery is how often the follower looks. A customer waits for longer.
	followEvery = 500 * time.Millisecond
	// followBatch bounds the tasks of one look. Those that were read longest ago come first.
	followBatch = 100
)

// follower asks the engine what became of the tasks of orders that have not ended, and updates the orders.
type follower struct {
	store *store
	tasks tasks
	log   *slog.Logger
	// after is the ID of the order that was read last.
	after string
}

func (f *follower) run(ctx context.Context) error {
	ticks := time.NewTicker(followEvery)
	defer ticks.Stop()
	for {
		if err := f.look(ctx); err != nil && ctx.Err() == nil {
			f.log.Warn("orders are updated later", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}

func (f *follower) look(ctx context.Context) error {
	list, err := f.store.live(ctx, f.after, followBatch)
	if err != nil {
		return err
	}
	f.after = ""
	if len(list) == followBatch {
		f.after = list[len(list)-1].ID
	}
	for _, o := range list {
		t, err := f.tasks.get(ctx, o.ID)
		if errors.Is(err, errNoTask) {
			continue
		}
		if err != nil {
			return err
		}
		f.store.death.at(stepStateRead)
		if err := f.store.follow(ctx, o, t); err != nil {
			return err
		}
	}
	return nil
}

// orderStates maps the states of a task to those of an order.
var orderStates = map[string]string{
	"pending": stateReceived, "processing": statePaying, "processed": statePaid,
	"undoing": statePaying, "undone": stateCancelled, "error": stateStuck, "terminated": stateAbandoned,
}

// live returns orders whose tasks may still move, by ID.
func (s *store) live(ctx context.Context, after string, limit int) ([]order, error) {
	return s.list(ctx, selectOrder+` WHERE state IN ('received', 'paying', 'stuck') AND id > ? ORDER BY id LIMIT ?`, after, limit)
}

// follow writes what became of the task of an order, if that is new.
func (s *store) follow(ctx context.Context, o order, t task) error {
	state, known := orderStates[t.ProcessState]
	reason := ""
	if state == stateStuck || state == stateCancelled {
		reason = t.Reason
	}
	if !known || o.State == state && o.Reason == reason {
		return nil
	}
	_, err := s.db.ExecContext(ctx, `UPDATE orders SET state = ?, reason = ?, receipt = ? WHERE id = ?`, state, reason, t.receipt, o.ID)
	s.death.at(stepStateWritten)
	return err
}
