package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/dronedelivery"
	"github.com/sagalog/sagalog/scheduler/client"
)

// demo breaks and fixes the services of the example for the API.
type demo struct {
	services []string
	urls     map[string]string
}

// Services implements api.Demo.
func (d *demo) Services() []string { return slices.Clone(d.services) }

// Break implements api.Demo.
func (d *demo) Break(ctx context.Context, b api.Breakage) error {
	url, ok := d.urls[b.Service]
	if !ok {
		return fmt.Errorf("no service %q", b.Service)
	}
	return dronedelivery.Break(ctx, url, dronedelivery.Fault{Mode: dronedelivery.Mode(b.Mode), For: b.For})
}

// Fix implements api.Demo.
func (d *demo) Fix(ctx context.Context, service string) error {
	for name, url := range d.urls {
		if service == "" || service == name {
			if err := dronedelivery.Fix(ctx, url); err != nil {
				return err
			}
		}
	}
	return nil
}

// trickleEvery is the interval of the example's deliveries: short enough to watch, long enough to read.
const trickleEvery = 2 * time.Second

// trickle submits a delivery every trickleEvery through the API, as any producer would.
func trickle(ctx context.Context, to client.HTTPConfig, log *slog.Logger) error {
	producer, err := client.HTTPWith(to)
	if err != nil {
		return err
	}
	defer producer.Close()
	ticks := time.NewTicker(trickleEvery)
	defer ticks.Stop()
	run := time.Now().UTC().Format("150405")
	for i := 0; ; i++ {
		task := dronedelivery.Submission(i, uint64(time.Now().UnixNano()))
		input, err := events.Marshal(task.Input)
		if err != nil {
			return err
		}
		s := client.Submission{ID: fmt.Sprintf("demo-%s-%d", run, i), Workflow: task.Workflow, Input: input}
		if _, err := producer.Submit(ctx, s); err != nil && ctx.Err() == nil {
			log.Warn("the example's delivery was not submitted", "task", s.ID, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}
