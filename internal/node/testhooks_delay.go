//go:build sagalog_testhooks

package node

import (
	"os"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// delayVariable names a file: while it exists, this process delays its appends. With it, a test makes a decided batch
// land late, after the claim of the next owner, as a slow network would.
const delayVariable = "SAGALOG_TEST_HOLD_APPENDS"

// fileEvery is how often to look for the file, landWithin how long the last records of a closed producer may take to land.
const (
	fileEvery  = 10 * time.Millisecond
	landWithin = 5 * time.Second
)

func delayed(p supervisor.Producer) supervisor.Producer {
	file := os.Getenv(delayVariable)
	if file == "" {
		return p
	}
	h := &delayedProducer{Producer: p, file: file, work: make(chan func(), 1024)}
	go h.run()
	return h
}

// delayedProducer passes appends on in order, but none while the file exists.
type delayedProducer struct {
	supervisor.Producer
	file string
	work chan func()
}

func (h *delayedProducer) run() {
	for f := range h.work {
		for {
			if _, err := os.Stat(h.file); err != nil {
				break
			}
			time.Sleep(fileEvery)
		}
		f()
	}
}

// Append implements supervisor.Producer.
func (h *delayedProducer) Append(records []events.Record, done func([]int64, error)) {
	h.work <- func() { h.Producer.Append(records, done) }
}

// Close implements supervisor.Producer: delayed appends land first, like records in flight.
func (h *delayedProducer) Close() {
	h.work <- func() {
		time.AfterFunc(landWithin, h.Producer.Close)
	}
	close(h.work)
}
