package agenttest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/agent/agenttest"
	"github.com/sagalog/sagalog/events"
)

type parcel struct {
	Weight int `json:"weight"`
}

// courier is the agent of the examples: it refuses heavy parcels.
func courier() *agent.Registry {
	agents := agent.NewRegistry()
	agent.Handle(agents, "courier", func(_ context.Context, p parcel) (string, error) {
		if p.Weight > 30 {
			return "", agent.NoEffect(agent.Permanent(errors.New("too heavy")))
		}
		return "tag-1", nil
	}, agent.WithUndo(func(context.Context, agent.Undo[parcel, string]) error { return nil }))
	return agents
}

// collected is a test of an agent: what the engine would hear of each attempt.
func collected(t *testing.T) {
	h := agenttest.Start(t, courier())
	if r := h.Do("courier", parcel{Weight: 3}); r.Result != events.ResultCompleted || string(r.Output) != `"tag-1"` {
		t.Errorf("the parcel is not collected: %+v", r)
	}
	r := h.Do("courier", parcel{Weight: 31})
	if r.Result != events.ResultFailed || r.Error.Class != events.ClassPermanent || r.Effect != events.EffectNone {
		t.Errorf("a heavy parcel is not refused: %+v", r)
	}
	if r := h.Undo("courier", parcel{Weight: 3}, "tag-1"); r.Result != events.ResultCompleted {
		t.Errorf("the undo fails: %+v", r)
	}
}

func ExampleStart() {
	_ = collected // in your package this is a test function
}

// In a bubble, time passes only while everything waits, so that a test of a slow call takes no time.
func ExampleHarness_Do() {
	_ = func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			agents := agent.NewRegistry()
			agent.Handle(agents, "oven", func(ctx context.Context, _ any) (string, error) {
				select {
				case <-time.After(time.Hour):
					return "baked", nil
				case <-ctx.Done(): // its time is over
					return "", context.Cause(ctx)
				}
			})
			if r := agenttest.Start(t, agents).Do("oven", nil); r.Result == events.ResultCompleted {
				t.Errorf("the oven has %s, and says that it is done", agenttest.DefaultCompleteBy)
			}
		})
	}
}

func TestTheExampleIsATestThatPasses(t *testing.T) {
	t.Parallel()
	collected(t)
}
