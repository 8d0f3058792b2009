package supervisor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// sentLog counts the effects that it gets.
type sentLog struct {
	Log
	sent int
}

func (l *sentLog) Send(_ context.Context, list []Outgoing, _ func(int, error)) { l.sent += len(list) }

// The shell looks at the clock once more right before it sends: a process that was stopped since then takes its effects back.
func TestEffectsAreTakenBackAfterASleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &sentLog{}
		s := &Shell{cfg: ShellConfig{Now: time.Now, Log: log}, mailbox: newMailbox(), clock: NewClock(time.Now())}
		o, err := NewOwner(Config{Partitions: 1, Node: "n", Entropy: func() (b [16]byte) { return b }}, nil, nil)
		require.NoError(t, err)
		s.owner, s.ctx = o, t.Context()
		s.begin(7)
		effects := func() { s.sends = append(s.sends, Send{Generation: 7, ID: 1}, Send{Generation: 7, ID: 2}) }

		s.now()
		effects()
		time.Sleep(sleptAfter)
		s.sendAll()
		require.Equal(t, 2, log.sent, "a slow round is no sleep")

		s.now()
		effects()
		time.Sleep(sleptAfter + time.Millisecond)
		s.sendAll()
		require.Equal(t, 2, log.sent)
		require.Len(t, s.drain(), 1, "the next look at the clock comes at once")
		s.now()
		require.Empty(t, s.sends, "the owner has them again")

		effects()
		time.Sleep(sleptAfter + time.Millisecond)
		s.sendAll()
		require.Equal(t, 4, log.sent, "a machine on which each round takes that long sends in the end")
	})
}
