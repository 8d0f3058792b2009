package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/dronedelivery"
	"github.com/sagalog/sagalog/scheduler/client"
)

// submitter is how submissions reach an engine. Several goroutines share it.
type submitter interface {
	// post sends a batch and returns the answers that arrived; they count even if there is an error.
	post(ctx context.Context, tasks []dronedelivery.Task) ([]answer, error)
	close()
}

// newSubmitter returns the submitter that the flags name.
func newSubmitter(ctx context.Context, f loadFlags) (submitter, error) {
	if len(f.brokers) > 0 {
		return newKafkaSubmitter(ctx, f)
	}
	return newHTTPSubmitter(f)
}

// kafkaSubmitter produces to the submissions topic, as a user's Go program does.
type kafkaSubmitter struct {
	flags  loadFlags
	client *client.Client
}

func newKafkaSubmitter(ctx context.Context, f loadFlags) (*kafkaSubmitter, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	c, err := client.KafkaWith(ctx, client.KafkaConfig{Brokers: f.brokers, Namespace: f.namespace})
	if err != nil {
		return nil, err
	}
	return &kafkaSubmitter{flags: f, client: c}, nil
}

func (w *kafkaSubmitter) close() { w.client.Close() }

func (w *kafkaSubmitter) post(ctx context.Context, tasks []dronedelivery.Task) ([]answer, error) {
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
	answers := make([]answer, 0, len(tasks))
	var errs []error
	for _, r := range w.client.SubmitAll(ctx, drafts) {
		switch {
		case r.Err == nil:
			answers = append(answers, answer{ID: r.ID, Status: []byte("202"), Offset: &r.Offset})
		case errors.Is(r.Err, client.ErrUnavailable), ctx.Err() != nil:
			errs = append(errs[:0], r.Err) // one stands for all: they fail together
		default:
			answers = append(answers, answer{ID: r.ID, Status: []byte("400"), Detail: r.Err.Error()})
		}
	}
	return answers, errors.Join(errs...)
}
