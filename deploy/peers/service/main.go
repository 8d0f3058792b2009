// The program service is what the steps of all engines call: PUT /STEP/TASK answers {"id": "STEP-TASK"}, at once or after --latency. It
// counts the calls by task and step, and GET /counts says what it was called for, so that a run can show that each step was really made.
package main

import (
	"encoding/json"
	"flag"
	"io"
	"log"
	"net/http"
	"sync"
	"time"

	"github.com/sagalog/sagalog/deploy/peers/steps"
)

// counts holds the calls of all tasks.
type counts struct {
	mu    sync.Mutex
	tasks map[string]*[5]int
}

func (c *counts) add(task string, step int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tasks[task]
	if t == nil {
		t = new([5]int)
		c.tasks[task] = t
	}
	t[step]++
}

// summary is the answer to GET /counts.
type summary struct {
	Tasks    int `json:"tasks"`    // of which any step was called
	Calls    int `json:"calls"`    // of all tasks
	Complete int `json:"complete"` // tasks of which each step was called
	Repeated int `json:"repeated"` // calls of a step that had been called before
}

func (c *counts) summary() summary {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := summary{Tasks: len(c.tasks)}
	for _, t := range c.tasks {
		all := true
		for _, n := range t {
			s.Calls += n
			s.Repeated += max(n-1, 0)
			all = all && n > 0
		}
		if all {
			s.Complete++
		}
	}
	return s
}

func main() {
	listen := flag.String("listen", "127.0.0.1:7000", "where it listens")
	latency := flag.Duration("latency", 0, "how long a call takes")
	flag.Parse()

	c := &counts{tasks: map[string]*[5]int{}}
	mux := http.NewServeMux()
	for i, step := range steps.Names {
		mux.HandleFunc("PUT /"+step+"/{task}", func(w http.ResponseWriter, r *http.Request) {
			task := r.PathValue("task")
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			c.add(task, i)
			if *latency > 0 {
				time.Sleep(*latency)
			}
			answer(w, steps.Made{ID: step + "-" + task})
		})
	}
	mux.HandleFunc("GET /counts", func(w http.ResponseWriter, _ *http.Request) { answer(w, c.summary()) })
	log.Fatal(http.ListenAndServe(*listen, mux))
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		log.Print(err) // the caller is gone
	}
}
