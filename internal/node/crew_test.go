package node_test

import (
	"context"
	"sync"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/work"
	"github.com/stretchr/testify/require"
)

// crew is one process that runs the agents of the workflow order.
type crew struct {
	// act, if set, decides about each call; it may block until ctx ends. It is set before the crew starts.
	act func(ctx context.Context, a agent.Attempt) error

	// mu guards the fields below.
	mu    sync.Mutex
	calls []agent.Attempt

	cancel  context.CancelFunc
	ended   chan error
	cluster *kafka.Cluster
	net     *network
}

// inputKey is the key of the input of a call, in its context.
type inputKey struct{}

// outputKey is the key of the output of the do, in the context of an undo.
type outputKey struct{}

type input struct {
	ID string `json:"id"`
}

type output struct {
	Did string `json:"did"`
}

// agents are the kinds of agents that a crew has.
func (w *world) agents() []string {
	if w.kinds != nil {
		return w.kinds
	}
	return []string{"stock", "bank", "carrier", "mail"}
}

// hire starts a crew, which stops with the test.
func (w *world) hire(act func(ctx context.Context, a agent.Attempt) error, options ...agent.Option) *crew {
	w.t.Helper()
	c := &crew{act: act, ended: make(chan error, 1), net: w.way()}
	reg := agent.NewRegistry()
	undo := agent.WithUndo(func(ctx context.Context, u agent.Undo[input, output]) error {
		return c.called(context.WithValue(context.WithValue(ctx, inputKey{}, u.Input), outputKey{}, u.Output))
	})
	for _, name := range w.agents() {
		agent.Handle(reg, name, func(ctx context.Context, in input) (output, error) {
			a, _ := agent.FromContext(ctx)
			return output{a.Step}, c.called(context.WithValue(ctx, inputKey{}, in))
		}, append([]agent.Option{undo}, options...)...)
	}
	cc := w.broker.ClusterConfig()
	cc.Dialer = c.net.Dial
	cc.Logger = w.logs.logger()
	var err error
	c.cluster, err = kafka.Connect(cc)
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	conn, err := agent.Attach(ctx, work.Over(c.cluster), reg, agent.Config{Namespace: w.topics.Namespace, Keys: w.agentKeys(c.cluster), Log: w.logs.logger()})
	require.NoError(w.t, err)
	go func() { c.ended <- conn.Run(ctx) }()
	w.t.Cleanup(c.leave)
	return c
}

// announce sends the heartbeats of an idle instance of an agent until the test ends.
func (w *world) announce(name string) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			r := beatOf(w.t, instance("idle", map[string]int{name: 64}, nil))
			r.Topic = w.topics.Presence()
			_, _ = w.producer.ProduceSync(ctx, *r)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}()
	w.t.Cleanup(func() { cancel(); <-ended })
}

func (c *crew) called(ctx context.Context) error {
	a, _ := agent.FromContext(ctx)
	c.mu.Lock()
	c.calls = append(c.calls, a)
	c.mu.Unlock()
	if c.act == nil {
		return nil
	}
	return c.act(ctx, a)
}

// leave stops the crew, once.
func (c *crew) leave() {
	if c.cancel == nil {
		return
	}
	c.cancel()
	c.cancel = nil
	<-c.ended
	c.cluster.Close()
	c.net.cut()
}

// of returns the calls for one operation on a task's step, in order.
func (c *crew) of(task, step string, op events.Operation) []agent.Attempt {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []agent.Attempt
	for _, a := range c.calls {
		if a.Task == task && a.Step == step && a.Operation == op {
			list = append(list, a)
		}
	}
	return list
}

// all returns all calls.
func (c *crew) all() []agent.Attempt {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]agent.Attempt(nil), c.calls...)
}
