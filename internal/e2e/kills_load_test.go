package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/dronedelivery"
	"github.com/stretchr/testify/require"
)

// killPrefix begins the IDs of the deliveries, and badPrefix the IDs of submissions that must become dead letters.
const (
	killPrefix = "k-"
	badPrefix  = "bad-"
)

// The ways to submit.
const (
	byHTTP      = "http"
	byKafka     = "kafka"
	misplaced   = "misplaced"
	byRepeat    = "repeat"
	bad         = "bad"
	conflicting = "conflict"
)

// sent is a line of submissions.jsonl. A submission's first line says that it is about to be sent. The second says that
// it was acknowledged, and where it is in the log.
type sent struct {
	Number int    `json:"number"`
	ID     string `json:"id"`
	Way    string `json:"way"`
	// To is the partition that a raw record is sent to.
	To     int32 `json:"to"`
	Acked  bool  `json:"acked,omitempty"`
	Offset int64 `json:"offset"`
}

// desk submits at a steady rate until it is closed. It repeats each submission until it is acknowledged, and lists the
// acknowledged ones. After an interruption, it begins with the submissions that have no answer.
type desk struct {
	t          *testing.T
	conn       *client
	partitions int32
	urls       []string
	rate       float64
	r          *rand.Rand

	stop chan struct{}
	done sync.WaitGroup
	// mu guards the fields below.
	mu     sync.Mutex
	file   *os.File
	next   int
	acked  []sent
	open   map[int]sent
	again  int
	faults []error
}

func openDesk(t *testing.T, path string) *desk {
	t.Helper()
	d := &desk{t: t, stop: make(chan struct{}), open: map[int]sent{}}
	if b, err := os.ReadFile(path); err == nil {
		lines := bufio.NewScanner(bytes.NewReader(b))
		for lines.Scan() {
			var s sent
			require.NoError(t, json.Unmarshal(lines.Bytes(), &s), path)
			d.next = max(d.next, s.Number)
			if s.Acked {
				d.acked = append(d.acked, s)
				delete(d.open, s.Number)
			} else {
				d.open[s.Number] = s
			}
		}
	}
	var err error
	d.file, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	t.Cleanup(d.close)
	return d
}

// run submits the submissions without an answer, and then new deliveries.
func (d *desk) run() {
	for _, s := range d.open {
		d.done.Go(func() { d.hand(s) })
	}
	ticks := time.NewTicker(time.Duration(float64(time.Second) / d.rate))
	defer ticks.Stop()
	for {
		select {
		case <-d.stop:
			return
		case <-ticks.C:
			d.submit("", 0)
		}
	}
}

// submit sends one more submission, in a random way if none is named. The channel is closed when the submission is
// acknowledged.
func (d *desk) submit(way string, to int32) (handed <-chan struct{}) {
	d.mu.Lock()
	d.next++
	s := sent{Number: d.next, ID: fmt.Sprint(killPrefix, d.next), Way: way, To: to}
	if way == "" {
		s.Way = d.draw()
	}
	switch home := events.Home(s.ID, d.partitions); {
	case s.Way == byKafka:
		s.To = home
	case s.Way == bad:
		s.ID = fmt.Sprint(badPrefix, d.next)
		s.To = events.Home(s.ID, d.partitions)
	case s.Way == misplaced && way != "":
		if s.To == home {
			s.Way = byKafka
		}
	case s.Way == misplaced:
		s.To = (home + 1 + d.r.Int32N(d.partitions-1)) % d.partitions
	case s.Way == byRepeat || s.Way == conflicting:
		first, ok := d.earlier()
		if !ok {
			s.Way = byHTTP
			break
		}
		s.ID, s.To = first.ID, events.Home(first.ID, d.partitions)
	}
	d.open[s.Number] = s
	d.write(s)
	d.mu.Unlock()
	over := make(chan struct{})
	d.done.Go(func() {
		defer close(over)
		d.hand(s)
	})
	return over
}

// earlier picks a random delivery that is already in its home partition, so that the new submission is a
// repeat.
func (d *desk) earlier() (sent, bool) {
	for range 10 {
		if len(d.acked) == 0 {
			break
		}
		if s := d.acked[d.r.IntN(len(d.acked))]; s.Way == byHTTP || s.Way == byKafka {
			return s, true
		}
	}
	return sent{}, false
}

func (d *desk) draw() string {
	switch n := d.r.IntN(100); {
	case n < 72:
		return byHTTP
	case n < 82:
		return byKafka
	case n < 87:
		return misplaced
	case n < 96:
		return byRepeat
	case n < 98:
		return bad
	}
	return conflicting
}

// number is the number in a delivery's ID, or 0 for any other ID.
func number(id string) (n int) {
	_, _ = fmt.Sscanf(id, killPrefix+"%d", &n)
	return n
}

// write writes a line to the list. The caller holds mu.
func (d *desk) write(s sent) {
	b, err := json.Marshal(s)
	if err == nil {
		_, err = d.file.Write(append(b, '\n'))
	}
	if err != nil {
		d.faults = append(d.faults, err)
	}
}

// hand sends a submission until it is acknowledged.
func (d *desk) hand(s sent) {
	ctx, cancel := context.WithTimeout(d.t.Context(), 2*patience)
	defer cancel()
	var err error
	switch s.Way {
	case byHTTP, byRepeat:
		s.To, s.Offset, err = d.put(ctx, s)
	default:
		s.Offset, err = d.produce(ctx, s)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.faults = append(d.faults, fmt.Errorf("%s by %s was not acknowledged: %w", s.ID, s.Way, err))
		return
	}
	s.Acked = true
	delete(d.open, s.Number)
	d.acked = append(d.acked, s)
	d.write(s)
}

// put submits to one node after another.
func (d *desk) put(ctx context.Context, s sent) (int32, int64, error) {
	body := delivery(s.ID, number(s.ID))
	for try := 0; ; try++ {
		e := &engine{endpoints: endpoints{HTTP: d.urls[(s.Number+try)%len(d.urls)]}}
		status, b, err := e.try("PUT", taskPath(s.ID), body)
		if err == nil && (status == 202 || status == 200) {
			var receipt struct {
				Partition int32
				Offset    *int64
			}
			if err := json.Unmarshal(b, &receipt); err != nil {
				return 0, 0, err
			}
			if receipt.Offset == nil { // the task already exists
				return receipt.Partition, -1, nil
			}
			return receipt.Partition, *receipt.Offset, nil
		}
		if err == nil && status < 500 {
			return 0, 0, fmt.Errorf("refused: %d %s", status, b)
		}
		if ctx.Err() != nil {
			return 0, 0, errors.Join(ctx.Err(), err)
		}
		d.retried()
		after(d.t, 100*time.Millisecond)
	}
}

func (d *desk) retried() {
	d.mu.Lock()
	d.again++
	d.mu.Unlock()
}

// produce submits as a plain Kafka client does.
func (d *desk) produce(ctx context.Context, s sent) (int64, error) {
	n := number(s.ID)
	body := []byte(nil)
	switch s.Way {
	case bad:
		body = [][]byte{[]byte(`{"workflow":"drone-delivery","input":17}`), []byte("\x00\xff{"), []byte(`{"workflow":"nobody-knows-it","input":{}}`)}[s.Number%3]
	case conflicting:
		t := dronedelivery.Submission(n+1_000_000, 1)
		t.ID = s.ID
		var err error
		if body, err = json.Marshal(t); err != nil {
			return 0, err
		}
	default:
		body = delivery(s.ID, n)
	}
	for {
		ctx, cancel := context.WithTimeout(ctx, patience)
		offsets, err := d.conn.p.ProduceSync(ctx, submission(s.To, s.ID, body))
		cancel()
		if err == nil {
			return offsets[0], nil
		}
		if ctx.Err() != nil {
			return 0, err
		}
		d.retried()
	}
}

// end stops the desk and returns when everything is acknowledged.
func (d *desk) end() []sent {
	d.t.Helper()
	d.close()
	require.Empty(d.t, d.faults)
	require.Empty(d.t, d.open)
	return d.acked
}

func (d *desk) close() {
	select {
	case <-d.stop:
	default:
		close(d.stop)
	}
	d.done.Wait()
}
