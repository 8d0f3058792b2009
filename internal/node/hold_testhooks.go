//go:build sagalog_testhooks

package node

import (
	"os"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// holdVariable names a file: while it exists, appends are held back in this process. So a test makes a decided batch
// land late, behind the claim of the next owner, as a slow network would.
const holdVariable = "SAGALOG_TEST_HOLD_APPENDS"

// holdLook is how often the file is looked for, landWait how long a closed producer's last records may take to land.
const (
	holdLook = 10 * time.Millisecond
	landWait = 5 * time.Second
)

func held(p supervisor.Producer) supervisor.Producer {
	file := os.Getenv(holdVariable)
	if file == "" {
		return p
	}
	h := &holding{Producer: p, file: file, work: make(chan func(), 1024)}
	go h.run()
	return h
}

// holding passes appends on in their order, none while the file exists.
type holding struct {
	supervisor.Producer
	file string
	work chan func()
}

func (h *holding) run() {
	for f := range h.work {
		for {
			if _, err := os.Stat(h.file); err != nil {
				break
			}
			time.Sleep(holdLook)
		}
		f()
	}
}

// Append implements supervisor.Producer.
func (h *holding) Append(records []events.Record, done func([]int64, error)) {
	h.work <- func() { h.Producer.Append(records, done) }
}

// Close implements supervisor.Producer: what is held lands first, as records do that are in flight.
func (h *holding) Close() {
	h.work <- func() {
		time.AfterFunc(landWait, h.Producer.Close)
	}
	close(h.work)
}
