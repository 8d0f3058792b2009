package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/dronedelivery"
	"github.com/sagalog/sagalog/scheduler/client"
)

// way is how submissions reach an engine. Several goroutines share it.
type way interface {
	// post hands a batch in and returns as many fates as arrived; they count also with an error.
	post(ctx context.Context, tasks []dronedelivery.Task) ([]fate, error)
	close()
}

// newWay returns the way that the flags name.
func newWay(ctx context.Context, f loadFlags) (way, error) {
	if len(f.brokers) > 0 {
		return newKafkaWay(ctx, f)
	}
	return newHTTPWay(f)
}

// kafkaWay produces to the submissions topic, as a user's Go program does.
type kafkaWay struct {
	flags  loadFlags
	client *client.Client
}

func newKafkaWay(ctx context.Context, f loadFlags) (*kafkaWay, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	c, err := client.KafkaWith(ctx, client.KafkaConfig{Brokers: f.brokers, Namespace: f.namespace})
	if err != nil {
		return nil, err
	}
	return &kafkaWay{flags: f, client: c}, nil
}

func (w *kafkaWay) close() { w.client.Close() }

func (w *kafkaWay) post(ctx context.Context, tasks []dronedelivery.Task) ([]fate, error) {
	ctx, cancel := context.WithTimeout(ctx, w.flags.timeout)
	defer cancel()
	drafts := make([]client.Submission, len(tasks))
	for i, t := range tasks {
		input, err := events.Marshal(t.Input)
		if err != nil {
			return nil, fmt.Errorf("encode submission: %w", err)
		}
		drafts[i] = client.Submission{ID: t.ID, Workflow: t.Workflow, Input: input}
	}
	fates := make([]fate, 0, len(tasks))
	var errs []error
	for _, r := range w.client.SubmitAll(ctx, drafts) {
		switch {
		case r.Err == nil:
			fates = append(fates, fate{ID: r.ID, Status: []byte("202"), Offset: &r.Offset})
		case errors.Is(r.Err, client.ErrUnavailable), ctx.Err() != nil:
			errs = append(errs[:0], r.Err) // one stands for all: they fail together
		default:
			fates = append(fates, fate{ID: r.ID, Status: []byte("400"), Detail: r.Err.Error()})
		}
	}
	return fates, errors.Join(errs...)
}
