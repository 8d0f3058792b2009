package supervisor

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// Thousands of attempts that time out together are not each looked for among all effects.
func TestManyTimeoutsLookAtTheEffectsOnce(t *testing.T) {
	t.Parallel()
	o, err := NewOwner(Config{Partitions: 1, Node: "n", Entropy: func() (b [16]byte) { return b }}, nil, nil)
	require.NoError(t, err)
	o.state = events.NewState(0, nil)
	x := o.outbox
	started := func(i int) *events.Fact {
		return &events.Fact{Task: fmt.Sprint(i), Sequence: uint64(i), Body: &events.StepStarted{Step: "s", Agent: "a", Attempt: 1}}
	}
	work := func() []*effect { return []*effect{{kind: events.EffectWork, topic: "work.a"}} }
	for i := range 10 {
		x.pass(started(i), int64(i), work())
	}
	at := func(i int) attempt { return attempt{fmt.Sprint(i), "s", events.Do, 1} }
	require.NotNil(t, x.request(at(0)))
	x.pass(started(10), 10, work())
	x.leave(at(3))
	require.Equal(t, 10, x.unsent())
	x.entries = nil // what is found from here on is found without looking at them
	require.NotNil(t, x.request(at(9)))
	require.NotNil(t, x.request(at(10)), "it came later")
	require.Nil(t, x.request(at(3)), "it has left")
	require.Nil(t, x.request(at(11)))
}
