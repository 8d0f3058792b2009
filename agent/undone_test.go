package agent_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/agent/agenttest"
	"github.com/sagalog/sagalog/events"
)

// After a take-over the new owner sends the do of a running attempt again, and its undo: the agent may read both at once, in
// either order.
func TestADoWhoseUndoHasComeIsNotStarted(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][]events.Operation{
		"do first": {events.Do, events.Undo}, "undo first": {events.Undo, events.Do},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var dos, undos, others atomic.Int64
				free := make(chan struct{})
				h := agenttest.Start(t, handle(func(_ context.Context, in parcel) (parcel, error) {
					switch in.ID {
					case "blocks":
						<-free
					case "other":
						others.Add(1)
					default:
						dos.Add(1)
					}
					return in, nil
				}, agent.Concurrency(2), agent.WithUndo(func(context.Context, agent.Undo[parcel, parcel]) error {
					undos.Add(1)
					return nil
				})))
				for range 2 {
					h.Send(h.Work("package", events.Do, parcel{ID: "blocks"}))
				}
				synctest.Wait()
				one := h.Work("package", events.Do, parcel{ID: "one"})
				for _, op := range order {
					w := one
					w.Operation = op
					h.Send(w)
					synctest.Wait()
				}
				close(free)
				synctest.Wait()
				require.EqualValues(t, 1, undos.Load())
				require.Zero(t, dos.Load(), "the do runs beside its undo, or after it")
				// A later run of the task does the step, and so does a later task with the same ID.
				again := one
				again.Run = 2
				another := one
				another.Ticket = "another"
				for i, w := range []events.Work{again, another} {
					w.Input = h.Work("package", events.Do, parcel{ID: "other"}).Input
					h.Send(w)
					_, ok := h.Await(w)
					require.True(t, ok)
					require.EqualValues(t, i+1, others.Load())
				}
				wait(time.Second)
				require.EqualValues(t, 6, h.Sources["package"].Committed()[0], "the do is finished")
			})
		})
	}
}
