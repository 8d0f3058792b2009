package httpagent_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// A service carries out a request on a kept connection, and then its balancer breaks the connection. net/http sends the request
// again by itself, since it has an Idempotency-Key, and the service refuses the repeated key.
func TestARefusalOfASilentRepeatIsNotWithoutEffect(t *testing.T) {
	t.Parallel()
	for _, repeated := range []int{400, 403, 404, 409, 422, 429} {
		t.Run(strconv.Itoa(repeated), func(t *testing.T) {
			t.Parallel()
			var calls, effects atomic.Int64
			h := bind(t, oneTry, serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				switch calls.Add(1) {
				case 1: // the connection is kept
				case 2:
					effects.Add(1)
					c, _, _ := w.(http.Hijacker).Hijack()
					_ = c.Close()
				default:
					w.WriteHeader(repeated)
				}
			}))
			require.Equal(t, events.ResultCompleted, h.Do("package", anInput).Result)
			r := h.Do("package", anInput)
			require.EqualValues(t, 3, calls.Load(), "net/http repeated the request")
			require.EqualValues(t, 1, effects.Load())
			require.Equal(t, "http_"+strconv.Itoa(repeated), r.Error.Code)
			require.Equal(t, inDoubt, r.Effect)
		})
	}
}

func TestAnAttemptIsOneCallUnlessTheBindingAsksForMore(t *testing.T) {
	t.Parallel()
	for retry, want := range map[string]int64{
		"": 1, "retry: {tries: 2}": 2, "retry: {backoff: 1ms}": 3,
	} {
		t.Run(retry, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			h := bind(t, strings.Replace(packageBinding, "retry: {tries: 3, backoff: 1ms, max_backoff: 2ms}", retry, 1),
				serve(t, func(w http.ResponseWriter, _ *http.Request) {
					calls.Add(1)
					w.WriteHeader(http.StatusServiceUnavailable)
				}))
			r := h.Do("package", anInput)
			require.Equal(t, events.ClassRetryable, r.Error.Class)
			require.Equal(t, want, calls.Load())
		})
	}
}

// The service may still be working on the request whose connection broke when it has answered the one that net/http sent after it.
func TestASuccessOfASilentRepeatIsInDoubt(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	h := bind(t, oneTry, serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if calls.Add(1) == 2 {
			c, _, _ := w.(http.Hijacker).Hijack()
			_ = c.Close()
		}
	}))
	require.Empty(t, h.Do("package", anInput).Effect)
	r := h.Do("package", anInput)
	require.EqualValues(t, 3, calls.Load(), "net/http repeated the request")
	require.Equal(t, events.ResultCompleted, r.Result)
	require.Equal(t, inDoubt, r.Effect)
}
