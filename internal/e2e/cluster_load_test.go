package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// chunk is how long one process of a stream submits.
const chunk = 3 * time.Second

// stream submits at a steady rate until it is ended, by running one `dronedelivery load` after another. Each starts on
// schedule, whether or not the previous one has been answered.
type stream struct {
	t    *testing.T
	load load
	rate float64
	to   []string

	stop chan struct{}
	done sync.WaitGroup
	// mu guards the fields below.
	mu     sync.Mutex
	faults []error
	again  int
	slow   float64
	// chunks says how long the slowest acknowledgement of a chunk took, by the chunk's number.
	chunks map[int]time.Duration
}

// stream starts to submit to the given nodes in turn, or through Kafka if no node is given.
func (c *cluster) stream(prefix string, rate float64, nodes ...*member) *stream {
	c.t.Helper()
	if len(nodes) > 0 {
		return newStream(c.t, prefix, rate, "--api", urls(nodes), "--request-timeout", "3s")
	}
	return newStream(c.t, prefix, rate, "--brokers", c.brokers)
}

// newStream submits as the arguments of `dronedelivery load` say.
func newStream(t *testing.T, prefix string, rate float64, to ...string) *stream {
	t.Helper()
	s := &stream{t: t, load: load{prefix: prefix}, rate: rate, stop: make(chan struct{}), to: to, chunks: map[int]time.Duration{}}
	s.done.Go(s.run)
	t.Cleanup(s.wait)
	return s
}

// submitted is how many submissions are due so far.
func (s *stream) submitted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.load.count
}

// size is how many submissions a chunk has.
func (s *stream) size() int { return max(1, int(s.rate*chunk.Seconds())) }

// within says whether each submission of the chunk of the i-th one, counted from 1, was acknowledged within a time. The stream has ended.
func (s *stream) within(i int, d time.Duration) bool { return s.chunks[(i-1)/s.size()] < d }

// run starts a chunk whenever one is due.
func (s *stream) run() {
	size := s.size()
	ticks := time.NewTicker(time.Duration(float64(size) / s.rate * float64(time.Second)))
	defer ticks.Stop()
	for first := 1; ; first += size {
		s.mu.Lock()
		s.load.count += size
		s.mu.Unlock()
		s.done.Go(func() { s.submit(first, size) })
		select {
		case <-s.stop:
			return
		case <-ticks.C:
		}
	}
}

func (s *stream) submit(first, size int) {
	// This is not the test's context: a chunk that has begun must be acknowledged as a whole.
	cmd := exec.Command(program("dronedelivery"), append([]string{"load", "--quiet", "--count", strconv.Itoa(size), "--first", strconv.Itoa(first),
		"--rate", fmt.Sprint(s.rate), "--prefix", s.load.prefix, "--give-up", patience.String()}, s.to...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var r struct {
		Again int     `json:"sent_again"`
		Max   float64 `json:"ack_max_ms"`
	}
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.again += r.Again
	s.slow = max(s.slow, r.Max)
	s.chunks[(first-1)/size] = time.Duration(r.Max * float64(time.Millisecond))
	if err != nil {
		s.faults = append(s.faults, fmt.Errorf("submit %d from %d on: %w: %s", size, first, err, errs.String()))
	}
}

func (s *stream) wait() {
	select {
	case <-s.stop:
	default:
		close(s.stop)
	}
	s.done.Wait()
}

// end ends the stream and returns when all its submissions are acknowledged.
func (s *stream) end() *load {
	s.t.Helper()
	s.wait()
	require.Empty(s.t, s.faults)
	s.t.Logf("%d submissions acknowledged, %d sent again, %.1f/s; at most %.0f ms from due time to acknowledgement", s.load.count, s.again, s.rate, s.slow)
	return &s.load
}

// burst submits count deliveries as fast as the nodes accept them.
func (c *cluster) burst(prefix string, count int, nodes ...*member) *load {
	c.t.Helper()
	l := &load{count: count, prefix: prefix}
	l.process = start(c.t, command{name: "load-" + prefix, dir: c.work, program: program("dronedelivery"), args: []string{
		"load", "--quiet", "--count", strconv.Itoa(count), "--prefix", prefix, "--api", urls(nodes), "--request-timeout", "10s",
	}})
	return l
}
