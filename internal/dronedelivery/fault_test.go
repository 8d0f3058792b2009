package dronedelivery_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/internal/dronedelivery"
	"github.com/stretchr/testify/require"
)

// bubble runs the services in a synctest bubble: without a network and in virtual time.
type bubble struct {
	t     *testing.T
	fleet *dronedelivery.Fleet
}

func inBubble(t *testing.T, faults map[string][]dronedelivery.Fault, test func(b *bubble)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		fleet, err := dronedelivery.New(dronedelivery.Config{Dir: dir, Faults: faults})
		require.NoError(t, err)
		require.NoError(t, fleet.Listen())
		defer func() { require.NoError(t, fleet.Close()) }()
		test(&bubble{t, fleet})
	})
}

// do returns the answer to a call, and status 0 if its connection was cut without one.
func (b *bubble) do(ctx context.Context, c call) (status int, body string) {
	rec := httptest.NewRecorder()
	defer func() {
		if r := recover(); r != nil {
			err, ok := r.(error)
			if !ok || !errors.Is(err, http.ErrAbortHandler) {
				panic(r)
			}
			status = 0
		}
	}()
	req := httptest.NewRequestWithContext(ctx, c.method, c.path, strings.NewReader(c.body))
	req.Header.Set("Idempotency-Key", c.key)
	req.Header.Set("Sagalog-Task", c.task)
	req.Header.Set("Sagalog-Undoes", c.undoes)
	req.Header.Set("Sagalog-Attempt", fmt.Sprint(c.attempt))
	b.fleet.Handler(c.service).ServeHTTP(rec, req)
	return rec.Code, rec.Body.String()
}

// advance advances a bubble's virtual time.
func advance(d time.Duration) { <-time.After(d) }

func (b *bubble) ask(c call) int {
	status, _ := b.do(context.Background(), c)
	return status
}

func (b *bubble) ledger(service string) []dronedelivery.Line {
	_, body := b.do(context.Background(), call{service: service, method: "GET", path: "/ledger"})
	var lines []dronedelivery.Line
	for text := range strings.Lines(body) {
		var l dronedelivery.Line
		require.NoError(b.t, json.Unmarshal([]byte(text), &l))
		lines = append(lines, l)
	}
	return lines
}

func (b *bubble) control(method, path, body string) (int, string) {
	return b.do(context.Background(), call{service: "drone", method: method, path: path, body: body})
}

func TestAHangingServiceActsButNeverAnswers(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fault string
		end   func(b *bubble, leave func())
		after time.Duration
	}{
		"until the caller leaves":         {`{"mode":"hang"}`, func(_ *bubble, leave func()) { leave() }, 0},
		"until the fault is over":         {`{"mode":"hang","for":"20s"}`, func(*bubble, func()) {}, 20 * time.Second},
		"until it is fixed":               {`{"mode":"hang","for":"20s"}`, func(b *bubble, _ func()) { b.control("DELETE", "/fault", "") }, 0},
		"until another fault replaces it": {`{"mode":"hang"}`, func(b *bubble, _ func()) { b.control("PUT", "/fault", `{"mode":"hang","rate":0.1}`) }, 0},
		"until the service stops":         {`{"mode":"hang"}`, func(b *bubble, _ func()) { b.fleet.Stop() }, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, nil, func(b *bubble) {
				status, answer := b.control("PUT", "/fault", tt.fault)
				require.Equal(t, 200, status, answer)
				start := time.Now()
				ctx, leave := context.WithCancel(context.Background())
				defer leave()
				var wg sync.WaitGroup
				wg.Go(func() {
					status, _ := b.do(ctx, put("drone", "/api/drones/t1", "k1"))
					require.Zero(t, status)
				})
				synctest.Wait()

				lines := b.ledger("drone")
				require.Len(t, lines, 1)
				require.Zero(t, lines[0].Status)
				require.True(t, lines[0].Applied)
				require.Equal(t, dronedelivery.Hang, lines[0].Fault)

				tt.end(b, leave)
				wg.Wait()
				require.Equal(t, tt.after, time.Since(start))
			})
		})
	}
}

func TestTheNextAttemptGetsTheAnswerOfAHungCall(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.NoError(t, dronedelivery.Break(t.Context(), w.urls["drone"], dronedelivery.Fault{Mode: dronedelivery.Hang, For: 50 * time.Millisecond}))
	c := put("drone", "/api/drones/t1", "k1")
	res, err := w.request(t.Context(), c)
	if err == nil {
		// If the machine stalls for 50 ms, the fault is over before the call.
		require.NoError(t, res.Body.Close())
		t.Skip("the fault was over")
	}
	// The call is made once because the connection is new: on a reused one net/http repeats a request with an Idempotency-Key
	// by itself.
	require.Equal(t, []bool{true}, applied(w.ledger("drone")))
	w = w.again()
	c.attempt = 2
	status, body := w.do(c)
	require.Equal(t, 200, status)
	require.Contains(t, body, `"drone":"drone-`)
	require.Equal(t, []bool{true, false}, applied(w.ledger("drone")))
}

func TestASlowServiceActsEvenIfItsCallerHasGone(t *testing.T) {
	t.Parallel()
	faults := map[string][]dronedelivery.Fault{"drone": {{Mode: dronedelivery.Slow, Operation: "do"}}}
	inBubble(t, faults, func(b *bubble) {
		start := time.Now()
		require.Equal(t, 201, b.ask(put("drone", "/api/drones/t1", "k1")))
		require.Equal(t, 2*time.Second, time.Since(start))

		// The engine gives up on this call and undoes it. Only then does the call arrive.
		ctx, leave := context.WithTimeout(context.Background(), time.Second)
		defer leave()
		var wg sync.WaitGroup
		late := 0
		c := put("drone", "/api/drones/t2", "k2")
		wg.Go(func() { late, _ = b.do(ctx, c) })
		<-ctx.Done()
		require.Equal(t, 204, b.ask(call{service: "drone", method: "DELETE", path: c.path, key: "u2", undoes: c.key, task: c.task}))
		wg.Wait()
		require.Equal(t, 409, late)
		require.Equal(t, []bool{true, false, false}, applied(b.ledger("drone")))
	})
}

func TestASlowCallEndsWithItsService(t *testing.T) {
	t.Parallel()
	faults := map[string][]dronedelivery.Fault{"drone": {{Mode: dronedelivery.Slow, Delay: time.Minute}}}
	inBubble(t, faults, func(b *bubble) {
		start := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() { require.Zero(t, b.ask(put("drone", "/api/drones/t1", "k1"))) })
		synctest.Wait()
		b.fleet.Stop()
		wg.Wait()
		require.Zero(t, time.Since(start))
		require.Equal(t, []bool{false}, applied(b.ledger("drone")))
	})
}

func TestAFailingServiceChangesNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(b *bubble) {
		c := put("drone", "/api/drones/t1", "k1")
		b.control("PUT", "/fault", `{"mode":"fail","for":"20s","status":500}`)
		require.Equal(t, 500, b.ask(c))
		advance(20*time.Second - 1)
		require.Equal(t, 500, b.ask(c))
		require.Equal(t, 404, b.ask(call{service: "drone", method: "GET", path: c.path}), "faults do not affect reads")
		advance(1)
		require.Equal(t, 201, b.ask(c))
		require.Equal(t, []bool{false, false, false, true}, applied(b.ledger("drone")))
		require.Equal(t, dronedelivery.Fail, b.ledger("drone")[0].Fault)
	})
}

func TestARefusalIsForTheWholeTask(t *testing.T) {
	t.Parallel()
	faults := map[string][]dronedelivery.Fault{"drone": {{Mode: dronedelivery.Refuse, Rate: 0.5}}}
	inBubble(t, faults, func(b *bubble) {
		refused := 0
		for i := range 100 {
			c := put("drone", fmt.Sprintf("/api/drones/t%d", i), fmt.Sprint("first", i))
			c.task = fmt.Sprint("t", i)
			first := b.ask(c)
			c.attempt, c.key = 2, fmt.Sprint("second", i)
			if first == 422 {
				refused++
				require.Equal(t, 422, b.ask(c))
			} else {
				require.Equal(t, 200, b.ask(c))
			}
			c.method = "DELETE"
			require.Equal(t, 204, b.ask(c))
		}
		require.InDelta(t, 50, refused, 20)
	})
}

func TestARepeatedKeyIsAnsweredBeforeAnythingRefusesIt(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(b *bubble) {
		c := put("drone", "/api/drones/t1", "k1")
		require.Equal(t, 201, b.ask(c))
		b.control("PUT", "/fault", `{"mode":"refuse"}`)
		require.Equal(t, 200, b.ask(c), "a 422 would say that the first call had no effect")
		require.Equal(t, 422, b.ask(put("drone", "/api/drones/t2", "k2")))

		b.control("PUT", "/fault", `{"mode":"refuse","operation":"undo","status":403}`)
		c.method, c.key, c.undoes = "DELETE", "u1", "k1"
		require.Equal(t, 403, b.ask(c))
		b.control("DELETE", "/fault?mode=refuse", "")
		require.Equal(t, 204, b.ask(c))
		b.control("PUT", "/fault", `{"mode":"refuse","operation":"undo","status":403}`)
		require.Equal(t, 204, b.ask(c), "the undo stays in force")
	})
}

func TestARateAlwaysChoosesTheSameCalls(t *testing.T) {
	t.Parallel()
	faults := map[string][]dronedelivery.Fault{"drone": {{Mode: dronedelivery.Fail, Rate: 0.1, Seed: 7}, {Mode: dronedelivery.Refuse, Rate: 0.1, Seed: 7}}}
	var runs [2][]int
	for i := range runs {
		inBubble(t, faults, func(b *bubble) {
			for n := range 2000 {
				c := put("drone", fmt.Sprint("/api/drones/t", n/2), fmt.Sprint("k", n/2))
				c.task, c.attempt = fmt.Sprint("t", n/2), 1+n%2
				runs[i] = append(runs[i], b.ask(c))
			}
		})
	}
	require.Equal(t, runs[0], runs[1])
	count, firstThenSecond := map[int]int{}, 0
	for n, status := range runs[0] {
		count[status]++
		if n%2 == 1 && status == 503 && runs[0][n-1] == 503 {
			firstThenSecond++
		}
	}
	require.InDelta(t, 200, count[503], 60)
	require.InDelta(t, 180, count[422], 60)
	require.InDelta(t, 10, firstThenSecond, 10, "each attempt is a new random choice")
}

func TestControlOfFaults(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(b *bubble) {
		for body, want := range map[string]int{
			`{"mode":"slow","for":"20s","rate":0.1,"delay":"2s","seed":1}`:     200,
			`{"mode":"fail","for":"20s","rate":0.1,"status":503,"seed":1}`:     200,
			`{"mode":"slow","for":"","rate":0,"status":0,"delay":"","seed":0}`: 200,
			`{"mode":"sulk"}`:                    422,
			`{"mode":"fail","rate":1.5}`:         422,
			`{"mode":"refuse","status":503}`:     422,
			`{"mode":"fail","delay":"2s"}`:       422,
			`{"mode":"slow","delay":"11m"}`:      422,
			`{"mode":"slow","operation":"redo"}`: 422,
			`{"mode":"fail","for":20}`:           400,
			`{"mode":"fail","for":"20"}`:         400,
			`{"mode":"fail","until":"20s"}`:      400,
			`{`:                                  400,
		} {
			status, answer := b.control("PUT", "/fault", body)
			require.Equal(t, want, status, "%s: %s", body, answer)
		}
		b.control("DELETE", "/fault", "")
		b.control("PUT", "/fault", `{"mode":"fail","for":"20s"}`)
		b.control("PUT", "/fault", `{"mode":"hang","rate":0.5}`)
		_, list := b.control("GET", "/fault", "")
		require.JSONEq(t, `{"faults":[{"fault":{"mode":"fail","for":"20s","rate":1,"status":503},"until":"2000-01-01T00:00:20.000Z"},
			{"fault":{"mode":"hang","rate":0.5}}]}`, list)
		_, ended := b.control("DELETE", "/fault?mode=fail", "")
		require.JSONEq(t, `{"ended":1}`, ended)
		advance(time.Hour)
		_, list = b.control("GET", "/fault", "")
		require.JSONEq(t, `{"faults":[{"fault":{"mode":"hang","rate":0.5}}]}`, list)
		require.Empty(t, b.ledger("drone"), "control requests are not calls")
	})
}

func TestACallThatCannotBeRecordedHasNoEffect(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fleet, err := dronedelivery.New(dronedelivery.Config{Dir: dir})
	require.NoError(t, err)
	require.NoError(t, fleet.Listen())
	h := fleet.Handler("drone")
	require.NoError(t, fleet.Close())
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest("PUT", "/api/drones/t1", nil))
	require.Equal(t, 500, rec.Code)
}

func TestOneOfManyAtOnceIsApplied(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			res, err := w.request(t.Context(), put("package", "/api/packages/t1", "k1"))
			if err == nil {
				err = res.Body.Close()
			}
			require.NoError(t, err)
		})
	}
	wg.Wait()
	count := 0
	for _, l := range w.ledger("package") {
		if l.Applied {
			count++
		}
	}
	require.Equal(t, 1, count)
}

func TestBreakAndFixReachAService(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.ErrorContains(t, dronedelivery.Break(t.Context(), w.urls["drone"], dronedelivery.Fault{Mode: "sulk"}), "sulk")
	require.NoError(t, dronedelivery.Break(t.Context(), w.urls["drone"], dronedelivery.Fault{Mode: dronedelivery.Fail, For: time.Minute}))
	status, _ := w.do(put("drone", "/api/drones/t1", "k1"))
	require.Equal(t, 503, status)
	require.NoError(t, dronedelivery.Fix(t.Context(), w.urls["drone"]))
	status, _ = w.do(put("drone", "/api/drones/t1", "k1"))
	require.Equal(t, 201, status)
	require.ErrorContains(t, dronedelivery.Fix(t.Context(), w.urls["drone"]+"/x"), "404")
}

func TestAForeignHostCannotBreakAService(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for host, want := range map[string]int{"evil.example": 421, "localhost:7104": 200} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, w.urls["drone"]+"/fault", strings.NewReader(`{"mode":"fail"}`))
		require.NoError(t, err)
		r.Host = host
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, want, resp.StatusCode, host)
	}
	http.DefaultClient.CloseIdleConnections()
}
