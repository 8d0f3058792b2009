package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/sagalog/sagalog/internal/orders"
	"github.com/sagalog/sagalog/scheduler/client"
)

const (
	// relayBatch bounds the submissions of one request.
	relayBatch = 500
	// relayEvery is how soon the relay tries again after a failure, and finds what another process left in the outbox.
	relayEvery = time.Second
)

// relay submits the orders of the outbox. Two relays on one database do no harm, since the engine drops duplicates.
type relay struct {
	store    *store
	producer *client.Client
	log      *slog.Logger
}

func (r *relay) run(ctx context.Context) error {
	ticks := time.NewTicker(relayEvery)
	defer ticks.Stop()
	for {
		if err := r.drain(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("orders stay in the outbox and are submitted later", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.store.placed:
		case <-ticks.C:
		}
	}
}

// drain submits until the outbox is empty or an order cannot be submitted now.
func (r *relay) drain(ctx context.Context) error {
	for {
		list, err := r.store.unsent(ctx, relayBatch)
		if err != nil || len(list) == 0 {
			return err
		}
		r.store.death.at(stepOutboxRead)
		if err := r.submit(ctx, list); err != nil {
			return err
		}
	}
}

func (r *relay) submit(ctx context.Context, list []order) error {
	submissions := make([]client.Submission, len(list))
	for i, o := range list {
		input, err := json.Marshal(map[string]any{"customer": o.Customer, "cents": o.Cents})
		if err != nil {
			return err
		}
		// The order's ID makes a repeat harmless. The content follows from the row alone, so a repeat has the same.
		submissions[i] = client.Submission{ID: o.ID, Workflow: orders.Name, Input: input}
	}
	var later []error
	for i, result := range r.producer.SubmitAll(ctx, submissions) {
		later = append(later, r.settle(ctx, list[i].ID, result.Err))
	}
	return errors.Join(later...)
}

// settle takes an order out of the outbox, unless it has to be submitted again.
func (r *relay) settle(ctx context.Context, id string, err error) error {
	switch {
	case err == nil:
		r.store.death.at(stepSubmitted)
		err = r.store.sent(ctx, id)
		r.store.death.at(stepRemoved)
		return err
	case errors.Is(err, client.ErrInvalid), errors.Is(err, client.ErrConflict), errors.Is(err, client.ErrTooLarge):
		// No repeat can help. (A workflow that the engine does not know yet may still be applied.)
		r.log.Error("the engine refuses an order", "order", id, "error", err)
		return r.store.reject(ctx, id, err.Error())
	}
	return err
}
