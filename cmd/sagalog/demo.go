package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/dronedelivery"
)

// demo breaks and mends the services of the example for the API.
type demo struct{ urls map[string]string }

// Services implements api.Demo.
func (d *demo) Services() []string { return dronedelivery.Services() }

// Break implements api.Demo.
func (d *demo) Break(ctx context.Context, b api.Breakage) error {
	url, ok := d.urls[b.Service]
	if !ok {
		return fmt.Errorf("no service %q", b.Service)
	}
	return dronedelivery.Break(ctx, url, dronedelivery.Fault{Mode: dronedelivery.Mode(b.Mode), For: b.For})
}

// Mend implements api.Demo.
func (d *demo) Mend(ctx context.Context, service string) error {
	for name, url := range d.urls {
		if service == "" || service == name {
			if err := dronedelivery.Mend(ctx, url); err != nil {
				return err
			}
		}
	}
	return nil
}

// trickleEvery is the pace of the example's deliveries: quick enough to watch, slow enough to read.
const trickleEvery = 2 * time.Second

// trickle submits a delivery every now and then through the API, as any producer would.
func trickle(ctx context.Context, apiURL string, log *slog.Logger) error {
	ticks := time.NewTicker(trickleEvery)
	defer ticks.Stop()
	run := time.Now().UTC().Format("150405")
	for i := 0; ; i++ {
		task := dronedelivery.Submission(i, uint64(time.Now().UnixNano()))
		task.ID = fmt.Sprintf("demo-%s-%d", run, i)
		if err := submit(ctx, apiURL, task); err != nil && ctx.Err() == nil {
			log.Warn("the example's delivery was not submitted", "task", task.ID, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}

func submit(ctx context.Context, apiURL string, task dronedelivery.Task) error {
	body, err := events.Marshal(task)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, apiURL+"/v1/tasks", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 4<<10))
	if err != nil {
		return err
	}
	if res.StatusCode >= 300 {
		return fmt.Errorf("status %d: %s", res.StatusCode, answer)
	}
	return nil
}
