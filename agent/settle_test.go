package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/agent/agenttest"
	"github.com/sagalog/sagalog/events"
)

type payError struct{ text string }

func (e *payError) Error() string { return e.text }

// panicky is an error of which one method panics.
type panicky string

func (p panicky) method(name string) {
	if string(p) == name {
		panic("in " + name)
	}
}

func (p panicky) Error() string { p.method("Error"); return "fine" }
func (p panicky) Is(error) bool { p.method("Is"); return false }
func (p panicky) As(any) bool   { p.method("As"); return false }
func (p panicky) Unwrap() error { p.method("Unwrap"); return nil }

// Each of these errors used to end the process, with all its agents.
func TestAnErrorThatCannotBeReadIsReported(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err           func() error
		code, message string
	}{
		"a nil pointer": {func() error { var e *payError; return e }, "nil_error",
			"a nil *agent_test.payError was returned as the error, which is not a nil error: return nil itself for success"},
		"a nil Failure": {func() error { var f *agent.Failure; return f }, "nil_error",
			"a nil *agent.Failure was returned as the error, which is not a nil error: return nil itself for success"},
		"a nil pointer that is permanent": {func() error { var e *payError; return agent.Permanent(e) }, "nil_error",
			"a nil *agent_test.payError was returned as the error, which is not a nil error: return nil itself for success"},
		"a nil Failure without effect": {func() error { var f *agent.Failure; return agent.NoEffect(f) }, "nil_error",
			"a nil *agent.Failure was returned as the error, which is not a nil error: return nil itself for success"},
		"Error":  {func() error { return panicky("Error") }, "panic", "a method of the error that was returned (agent_test.panicky) panicked: in Error"},
		"Is":     {func() error { return panicky("Is") }, "panic", "a method of the error that was returned (agent_test.panicky) panicked: in Is"},
		"As":     {func() error { return panicky("As") }, "panic", "a method of the error that was returned (agent_test.panicky) panicked: in As"},
		"Unwrap": {func() error { return panicky("Unwrap") }, "panic", "a method of the error that was returned (agent_test.panicky) panicked: in Unwrap"},
		"panic":  {func() error { panic(panicky("Error")) }, "panic", "panic: %!v(PANIC=Error method: in Error)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := agenttest.Start(t, handle(func(context.Context, parcel) (parcel, error) { return parcel{}, c.err() },
					agent.WithUndo(func(context.Context, agent.Undo[parcel, parcel]) error { return c.err() }),
					agent.WithRetry(agent.DefaultRetry), agent.WithBreaker(agent.Breaker{})))
				for _, r := range []events.Report{h.Do("package", parcel{}), h.Undo("package", parcel{}, nil)} {
					require.Equal(t, events.ClassInternal, r.Error.Class)
					require.Equal(t, events.EffectInDoubt, r.Effect)
					require.Equal(t, c.code, r.Error.Code)
					require.Equal(t, c.message, r.Error.Message)
				}
			})
		})
	}
}

func TestAnErrorWithoutATextIsNamedByItsType(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for want, err := range map[string]error{
			"the error has no text (*agent.Failure)": &agent.Failure{}, "the error has no text (*errors.errorString)": errors.New(""),
			"outer: ": fmt.Errorf("outer: %w", errors.New("")),
		} {
			r := agenttest.Start(t, handle(func(context.Context, parcel) (parcel, error) { return parcel{}, err })).Do("package", parcel{})
			require.Equal(t, events.ClassRetryable, r.Error.Class)
			require.Contains(t, want, r.Error.Message)
			require.NotEmpty(t, r.Error.Message)
		}
	})
}

// exits is an input and an output whose decoding and encoding end the goroutine.
type exits struct{}

func (*exits) UnmarshalJSON([]byte) error  { runtime.Goexit(); return nil }
func (exits) MarshalJSON() ([]byte, error) { runtime.Goexit(); return nil, nil }

// A function may call runtime.Goexit, mostly by FailNow in a test. The only worker used to be gone for good.
func TestTheWorkerOutlivesAFunctionThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := handle(func(_ context.Context, in parcel) (parcel, error) {
			if in.ID == "exit" {
				runtime.Goexit()
			}
			return in, nil
		}, agent.Concurrency(1), agent.WithRetry(agent.DefaultRetry), agent.WithBreaker(agent.Breaker{}), agent.WithUndo(func(context.Context, agent.Undo[parcel, parcel]) error {
			runtime.Goexit()
			return nil
		}))
		agent.Handle(r, "in", func(_ context.Context, in exits) (parcel, error) { return parcel{}, nil })
		agent.Handle(r, "out", func(_ context.Context, in parcel) (exits, error) { return exits{}, nil })
		h := agenttest.Start(t, r)
		for range 3 {
			for _, r := range []events.Report{
				h.Do("package", parcel{ID: "exit"}), h.Undo("package", parcel{}, nil), h.Do("in", parcel{}), h.Do("out", parcel{}),
			} {
				require.Equal(t, events.ClassInternal, r.Error.Class)
				require.Equal(t, events.EffectInDoubt, r.Effect)
				require.Equal(t, "goexit", r.Error.Code)
				require.Contains(t, r.Error.Message, "runtime.Goexit")
			}
			require.Equal(t, events.ResultCompleted, h.Do("package", parcel{ID: "p"}).Result)
		}
		wait(2 * time.Second)
		beats := h.Heartbeats()
		require.Equal(t, 0, beats[len(beats)-1].InFlight["package"])
		require.Equal(t, 1, beats[len(beats)-1].Capacity["package"])
		began := time.Now()
		require.NoError(t, h.Stop())
		require.Less(t, time.Since(began), time.Second, "no worker is waited for in vain")
		require.EqualValues(t, 9, h.Sources["package"].Committed()[0])
	})
}

// badKeys are keys of which one method panics, or returns a nil pointer as its error.
type badKeys struct{ open, seal, null bool }

func (k badKeys) Open(value []byte) ([]byte, error) {
	s, sealed := events.ParseSealed(value)
	switch {
	case k.open && k.null:
		var e *payError
		return nil, e
	case k.open:
		panic("no keys here")
	case sealed:
		return s.Text, nil
	}
	return value, nil
}

func (k badKeys) SealLike(_, value []byte) ([]byte, error) {
	if k.seal {
		panic("no keys here")
	}
	return value, nil
}

func TestKeysThatPanicAreReported(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keys   badKeys
		fail   error
		class  events.Class
		effect events.Effect
		text   string
	}{
		"open":            {badKeys{open: true}, nil, events.ClassInternal, events.EffectNone, "Keys.Open panicked: no keys here"},
		"open, nil error": {badKeys{open: true, null: true}, nil, events.ClassInternal, events.EffectNone, "a nil *agent_test.payError was returned as the error, which is not a nil error: return nil itself for success"},
		"seal an output":  {badKeys{seal: true}, nil, events.ClassInternal, events.EffectDoneUnknown, "Keys.SealLike panicked: no keys here"},
		"seal a failure":  {badKeys{seal: true}, agent.Permanent(errBoom), events.ClassPermanent, events.EffectInDoubt, "the message is left out: it cannot be sealed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := agenttest.Start(t, handle(func(ctx context.Context, in parcel) (parcel, error) {
					require.NoError(t, agent.Progress(ctx, "half"))
					return in, c.fail
				}), func(cfg *agent.Config) { cfg.Keys = c.keys })
				sealed := events.Sealed{Key: "k1", Text: []byte(`{"id":"p"}`)}
				w := h.Work("package", events.Do, json.RawMessage(sealed.Value()))
				w.Heartbeat = events.Duration(4 * time.Second)
				h.Send(w)
				r, ok := h.Await(w)
				require.True(t, ok)
				require.Equal(t, c.class, r.Error.Class)
				require.Equal(t, c.effect, r.Effect)
				require.Equal(t, c.text, r.Error.Message)
			})
		})
	}
}

func TestARawOutputThatIsNotJSONIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bad := func(context.Context, *events.Work, int) (json.RawMessage, error) { return json.RawMessage("{bad"), nil }
		empty := func(context.Context, *events.Work, int) (json.RawMessage, error) { return nil, nil }
		r := agent.NewRegistry()
		agent.HandleRaw(r, "bank", bad, agent.WithRawUndo(bad))
		agent.HandleRawOperation(r, "bank", "capture", bad)
		agent.HandleRaw(r, "empty", empty)
		h := agenttest.Start(t, r)
		for _, r := range []events.Report{h.Do("bank", 1), h.Do("bank/capture", 1), h.Undo("bank", 1, nil)} {
			require.Equal(t, events.ClassPermanent, r.Error.Class)
			require.Equal(t, events.EffectInDoubt, r.Effect)
			require.Equal(t, "output_encoding", r.Error.Code)
			require.Equal(t, "the output is not JSON", r.Error.Message)
		}
		require.Equal(t, events.ResultCompleted, h.Do("empty", 1).Result)
	})
}
