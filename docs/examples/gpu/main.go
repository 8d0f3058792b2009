// Command gpu is the service of the example train-model. It accepts trainings, works on them one epoch at a time, and reports its progress
// to the callback of each call. A training that begins with the first epoch breaks after --break-after epochs, so that another attempt has
// to continue it.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:7200", "where the service listens (port 0 takes a free one)")
	g := &gpu{client: http.Client{Timeout: 5 * time.Second}, runs: map[string]context.CancelFunc{}}
	flag.DurationVar(&g.epoch, "epoch", time.Second, "how long an epoch takes")
	flag.IntVar(&g.epochs, "epochs", 12, "how many epochs a model needs")
	flag.IntVar(&g.breakAfter, "break-after", 8, "how many epochs the first attempt of a training does before it breaks")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := g.serve(ctx, *listen); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// progress says how far a training has come. The engine keeps it and gives it to the next attempt.
type progress struct {
	Run   string `json:"run"`
	Epoch int    `json:"epoch"`
}

type gpu struct {
	epoch              time.Duration
	epochs, breakAfter int
	client             http.Client

	work sync.WaitGroup
	mu   sync.Mutex
	// mu guards runs, which holds the trainings that are under way.
	runs map[string]context.CancelFunc
}

// serve takes calls until ctx ends, and returns when all trainings have stopped.
func (g *gpu) serve(ctx context.Context, addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Printf("GPU_URL=http://%s\n", l.Addr())
	mux := http.NewServeMux()
	mux.HandleFunc("POST /runs", func(w http.ResponseWriter, r *http.Request) { g.accept(ctx, w, r) })
	mux.HandleFunc("DELETE /runs/{run}", g.drop)
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	g.work.Go(func() {
		<-ctx.Done()
		_ = s.Shutdown(context.WithoutCancel(ctx)) // after this no call starts another training
	})
	err = s.Serve(l)
	g.work.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// accept starts a training, or continues one.
func (g *gpu) accept(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	var in struct {
		Dataset string    `json:"dataset"`
		From    *progress `json:"from"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&in); err != nil || in.Dataset == "" {
		http.Error(w, "the dataset is missing", http.StatusBadRequest)
		return
	}
	// The key is the same for all attempts of a step, so it names the training.
	at := cmp.Or(in.From, &progress{Run: r.Header.Get("Idempotency-Key")})
	if at.Epoch > 0 {
		fmt.Printf("%s: continues after epoch %d\n", in.Dataset, at.Epoch)
	}
	ctx, cancel := context.WithCancel(ctx)
	g.replace(at.Run, cancel)
	g.work.Go(func() {
		defer cancel()
		g.train(ctx, in.Dataset, *at, r.Header.Get("Sagalog-Callback"))
	})
	w.WriteHeader(http.StatusAccepted)
}

// drop removes what a training has left.
func (g *gpu) drop(w http.ResponseWriter, r *http.Request) {
	if !g.replace(r.PathValue("run"), nil) {
		http.Error(w, "no such training", http.StatusNotFound)
	}
}

// replace stops the training of an earlier call, and reports whether there was one. A nil cancel forgets it.
func (g *gpu) replace(run string, cancel context.CancelFunc) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	before, known := g.runs[run]
	if known {
		before()
	}
	if delete(g.runs, run); cancel != nil {
		g.runs[run] = cancel
	}
	return known
}

// train works on a training and reports each epoch and the outcome.
func (g *gpu) train(ctx context.Context, dataset string, at progress, callback string) {
	first := at.Epoch == 0
	for at.Epoch < g.epochs {
		if !wait(ctx, g.epoch) {
			return
		}
		if first && at.Epoch == g.breakAfter {
			fmt.Printf("%s: breaks\n", dataset)
			g.report(ctx, callback, map[string]any{"error": map[string]any{"message": "the GPU is too hot"}, "effect": "done_unknown"})
			return
		}
		at.Epoch++
		fmt.Printf("%s: epoch %d of %d\n", dataset, at.Epoch, g.epochs)
		g.report(ctx, callback, map[string]any{"progress": at})
	}
	g.report(ctx, callback, map[string]any{"output": map[string]any{"model": "models/" + at.Run, "epochs": at.Epoch}})
}

// report posts to the callback until the engine has taken the report, or says that it never will.
func (g *gpu) report(ctx context.Context, callback string, report map[string]any) {
	body, err := json.Marshal(report)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	for {
		answer, err := g.client.Post(callback, "application/json", bytes.NewReader(body))
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode < http.StatusInternalServerError && answer.StatusCode != http.StatusTooManyRequests {
				return
			}
		}
		if !wait(ctx, time.Second) {
			return
		}
	}
}

// wait returns false if ctx ends first.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
