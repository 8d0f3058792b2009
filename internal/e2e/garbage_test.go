package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// badKind is a kind of submission that must be refused.
type badKind struct {
	name string
	// reason is the reason in the dead letter, and status the HTTP status of the answer.
	reason string
	status int
	// early says that it is refused before its home partition is checked.
	early bool
	body  func(r *rand.Rand, i int) []byte
}

func badKinds() []badKind {
	return []badKind{
		{"garbage", events.RejectUnreadable, http.StatusBadRequest, true, garbage},
		{"workflow", events.RejectUnknownWorkflow, http.StatusNotFound, false, func(_ *rand.Rand, i int) []byte {
			return fmt.Appendf(nil, `{"workflow":"no-such-%d","input":{}}`, i)
		}},
		{"oversized", events.RejectTooLarge, http.StatusRequestEntityTooLarge, true, oversized},
		{"schema", events.RejectSchema, http.StatusUnprocessableEntity, false, func(_ *rand.Rand, i int) []byte {
			return fmt.Appendf(nil, `{"workflow":"drone-delivery","input":{"ownerId":%d,"packageInfo":{"size":"small"}}}`, i)
		}},
	}
}

// garbage is bytes that are not a JSON object.
func garbage(r *rand.Rand, i int) []byte {
	switch i % 4 {
	case 0:
		return delivery("x", i)[:1+r.IntN(40)] // cut off
	case 1:
		return []byte(`[{"workflow":"drone-delivery"}]`)
	case 2:
		return []byte("workflow: drone-delivery\x00\xff")
	}
	b := make([]byte, 1+r.IntN(300))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	b[0] = 0xff // so that it does not begin like a JSON object
	return b
}

// oversized is larger than the limit of a submission and smaller than the limit of the topic.
func oversized(_ *rand.Rand, i int) []byte {
	n := 512<<10 + 1
	if i%50 == 0 {
		n = 2<<20 - 4<<10
	}
	head := fmt.Sprintf(`{"workflow":"drone-delivery","input":{"ownerId":"%d`, i)
	return []byte(head + strings.Repeat("x", n-len(head)-3) + `"}}`)
}

func badID(k badKind, way string, i int) string { return fmt.Sprintf("bad-%s-%s-%d", way, k.name, i) }

// vandal sends submissions that must be refused.
type vandal struct {
	e      *engine
	client *client
	seed   uint64
}

// Each kind and way has a separate rand, so that they can run concurrently.
func (v *vandal) rand(k badKind, i int) *rand.Rand {
	return rand.New(rand.NewPCG(v.seed+uint64(i), uint64(len(k.name))))
}

// byKafka sends the submissions from first to last of a kind, each to a random partition, and calls sent after each
// one.
func (v *vandal) byKafka(ctx context.Context, k badKind, first, last int, sent func()) error {
	for i := first; i < last; i++ {
		r := v.rand(k, i)
		id := badID(k, "kafka", i)
		if err := v.client.send(ctx, submission(r.Int32N(8), id, k.body(r, i))); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		sent()
	}
	return nil
}

// byHTTP expects a problem document for each submission, and repeats a request only if there was no answer.
func (v *vandal) byHTTP(ctx context.Context, k badKind, first, last int, sent func()) error {
	for i := first; i < last; i++ {
		id, body := badID(k, "http", i), k.body(v.rand(k, i), i)
		for {
			status, answer, err := v.e.try("PUT", taskPath(id), body)
			if (err != nil || status >= 500) && ctx.Err() == nil {
				continue // the engine was killed
			}
			if err != nil {
				return err
			}
			var problem struct{ Type, Title, Detail string }
			want := k.status
			if body[0] == '[' {
				want = http.StatusUnprocessableEntity // it is valid JSON
			}
			if status != want || json.Unmarshal(answer, &problem) != nil || problem.Title == "" || problem.Type == "" {
				return fmt.Errorf("%s: status %d instead of %d: %.300s", id, status, want, answer)
			}
			break
		}
		sent()
	}
	return nil
}

// all sends a range of each kind both ways.
func (v *vandal) all(ctx context.Context, g *errgroup.Group, first, last int, sent func()) {
	for _, k := range badKinds() {
		g.Go(func() error { return v.byKafka(ctx, k, first, last, sent) })
		g.Go(func() error { return v.byHTTP(ctx, k, first, last, sent) })
	}
}

// latencies are the latencies of good submissions.
type latencies struct {
	mu        sync.Mutex
	ack, done []time.Duration
}

func (l *latencies) String() string {
	slices.Sort(l.ack)
	slices.Sort(l.done)
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + " ms" }
	return fmt.Sprintf("%d good ones: acknowledged p50 %s p99 %s, completed p50 %s p99 %s", len(l.ack),
		ms(percentile(l.ack, 0.5)), ms(percentile(l.ack, 0.99)), ms(percentile(l.done, 0.5)), ms(percentile(l.done, 0.99)))
}

// good submits deliveries at a steady rate over HTTP, repeats those without an answer, and waits until all of them have
// ended.
func good(t *testing.T, e *engine, prefix string, n int, rate float64) *latencies {
	t.Helper()
	l := &latencies{}
	begun := make([]time.Time, n)
	ticks := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer ticks.Stop()
	var g errgroup.Group
	for i := range n {
		<-ticks.C
		begun[i] = time.Now()
		g.Go(func() error {
			id := prefix + strconv.Itoa(i)
			for t.Context().Err() == nil {
				status, b, err := e.try("PUT", taskPath(id), delivery(id, i))
				if err != nil || status >= 500 {
					continue // the engine was killed
				}
				if status != 202 && status != 200 {
					return fmt.Errorf("%s: status %d: %s", id, status, b)
				}
				l.mu.Lock()
				l.ack = append(l.ack, time.Since(begun[i]))
				l.mu.Unlock()
				return nil
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	for i := range n {
		got := e.settled(prefix + strconv.Itoa(i))
		require.Equal(t, "processed", got.State)
		l.done = append(l.done, got.EndedAt.Sub(begun[i]))
	}
	return l
}

// Bad submissions are refused once, with the reason, even if the engine is killed meanwhile. They hardly slow down the
// good ones.
func TestGarbageAmongGoodOnes(t *testing.T) {
	t.Parallel()
	work := workDir(t)
	f := startFleet(t, work)
	e := newEngineWith(t, work, f)
	e.start()
	c := e.cluster()
	v := &vandal{e: e, client: newClient(t, c), seed: seed(t)}
	n := sized(*garbageFlag, 24, 1000)
	goods, rate := sized(0, 60, 1500), sized(0.0, 30, 50)
	good(t, e, "warm-", 20, rate)

	t.Logf("without garbage: %s", good(t, e, "alone-", goods, rate))
	var g errgroup.Group
	v.all(t.Context(), &g, 0, n/2, func() {})
	begun := time.Now()
	among := good(t, e, "among-", goods, rate)
	require.NoError(t, g.Wait())
	t.Logf("with garbage (%d in %s): %s", n/2*8, time.Since(begun).Round(time.Millisecond), among)

	// The engine is killed in the middle of the other half.
	var sent atomic.Int64
	v.all(t.Context(), &g, n/2, n, func() { sent.Add(1) })
	middle := int64(n-n/2) * 8 / 2
	eventually(t, 10*patience, "half of it is sent", func() bool { return sent.Load() >= middle })
	e.kill()
	at := sent.Load()
	e.launch()
	good(t, e, "over-", 20, rate)
	require.NoError(t, g.Wait())
	e.ready()
	e.quiet(5 * patience)
	t.Logf("killed after %d of %d answers; %d records resent through Kafka", at, 2*middle, v.client.again.Load())
	deadLetters(t, e, n)
	e.stop()
}

// input is a bad record of the submissions topic.
type input struct {
	id        string
	value     []byte
	forwarded bool
	at        string
}

// deadLetters compares the dead letters with the submissions topic: there must be one for each bad record
// and no others.
func deadLetters(t *testing.T, e *engine, n int) {
	t.Helper()
	c := e.cluster()
	kinds := map[string]badKind{}
	for _, k := range badKinds() {
		kinds[k.name] = k
	}
	inputs := map[string]input{}
	byID := map[string][]input{}
	records(t, c, topics.Submissions(), func(r events.Record) {
		id := string(r.Key)
		require.False(t, strings.HasPrefix(id, "bad-http-"), "%s was refused over HTTP but is in the log", id)
		if !strings.HasPrefix(id, "bad-kafka-") {
			return
		}
		in := input{id: id, value: r.Value, forwarded: r.Header(events.HeaderForwardedFrom) != "", at: fmt.Sprintf("%d/%d", r.Partition, r.Offset)}
		k := kinds[strings.Split(id, "-")[2]]
		if events.Home(id, 8) != r.Partition && !k.early {
			return // sent to its home partition and judged there
		}
		inputs[in.at] = in
		byID[id] = append(byID[id], in)
	})
	letters, repeats, reasons := map[string]bool{}, 0, map[string]int{}
	records(t, c, topics.DeadSubmissions(), func(r events.Record) {
		at := r.Header("__dlq.errors.partition") + "/" + r.Header("__dlq.errors.offset")
		in, ok := inputs[at]
		require.True(t, ok, "a dead letter of %q at %s, which has no bad record", r.Key, at)
		reason := r.Header("__dlq.errors.reason")
		require.Equal(t, kinds[strings.Split(in.id, "-")[2]].reason, reason, in.id)
		require.Equal(t, in.id, string(r.Key))
		require.True(t, bytes.Equal(in.value, r.Value), "the bytes of %s differ", in.id)
		require.Equal(t, topics.Submissions(), r.Header("__dlq.errors.topic"))
		if letters[at] {
			repeats++
			return
		}
		letters[at] = true
		reasons[reason]++
	})
	for at, in := range inputs {
		require.True(t, letters[at], "%s at %s has no dead letter", in.id, at)
	}
	twice := 0
	for _, k := range badKinds() {
		for i := range n {
			got := byID[badID(k, "kafka", i)]
			require.NotEmpty(t, got, "%s is lost", badID(k, "kafka", i))
			twice += len(got) - 1
		}
	}
	t.Logf("%d of each of %d kinds by each of Kafka and HTTP: dead letters %v; %d inputs were stored twice by a client's resend, %d dead letters sent again", n, len(kinds), reasons, twice, repeats)
}
