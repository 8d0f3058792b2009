package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// forgetful is a Scheduler of which nothing is asked.
type forgetful struct{ Scheduler }

func (forgetful) Reset() {}

// A loss is accepted while the owner, which asked for the acceptance before, is about to stop: nobody says so again afterwards.
func TestAnAcceptanceThatComesBeforeTheStopCounts(t *testing.T) {
	t.Parallel()
	stopped := func(accept ...int) (phase, error) {
		s := &Shell{cfg: ShellConfig{Now: time.Now, Logger: slog.New(slog.DiscardHandler)}, mailbox: newMailbox(), clock: NewClock(time.Now())}
		o, err := NewOwner(Config{Partitions: 1, Node: "n", Entropy: func() (b [16]byte) { return b }}, forgetful{}, nil)
		require.NoError(t, err)
		s.owner, s.ctx = o, t.Context()
		for turn := range 3 {
			for _, at := range accept {
				if at == turn {
					s.Accepted()
				}
			}
			for _, m := range s.drain() {
				m(1)
			}
			if turn == 1 {
				o.epoch.phase = phaseStopped
				s.stop(fmt.Errorf("partition 0: %w", ErrInputLost))
			}
		}
		_, err = s.Status()
		return o.epoch.phase, err
	}
	for turn := range 3 {
		p, err := stopped(turn)
		require.Equal(t, phaseOpening, p, turn)
		require.NoError(t, err)
	}
	p, err := stopped()
	require.Equal(t, phaseStopped, p)
	require.ErrorIs(t, err, ErrInputLost)
}

// Before a partition stops because an input lost records, the brokers are asked what was lost. Without an answer the partition stands
// still, and an operator must learn why.
func TestAQuestionWithoutAnAnswerIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, err := NewOwner(Config{Partitions: 1, Node: "n", Entropy: func() (b [16]byte) { return b }}, nil, nil)
		require.NoError(t, err)
		var lines strings.Builder
		s := &Shell{owner: o, cfg: ShellConfig{Logger: slog.New(slog.NewTextHandler(&lines, nil))}}
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
		defer cancel()
		require.EqualError(t, s.retry(ctx, "what was lost", func() error { return errors.New("definitions do not answer") }), "definitions do not answer")
		require.Equal(t, 3, strings.Count(lines.String(), `question="what was lost"`), lines.String())
		require.Contains(t, lines.String(), `error="definitions do not answer"`)
	})
}

// noDefinitions is a broker that does not answer for the topic of definitions.
type noDefinitions struct{ *sentLog }

func (noDefinitions) Catalog(context.Context) (Catalog, error) { return nil, errors.New("no leader") }

// Submissions wait for definitions as long as it takes, and nothing else says so.
func TestDefinitionsThatCannotBeReadAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, err := NewOwner(Config{Partitions: 1, Node: "n", Entropy: func() (b [16]byte) { return b }}, nil, nil)
		require.NoError(t, err)
		var lines strings.Builder
		s := &Shell{owner: o, ctx: t.Context(), cfg: ShellConfig{Log: noDefinitions{}, Logger: slog.New(slog.NewTextHandler(&lines, nil))}}
		s.begin(7)
		s.askCatalog(AskCatalog{7, 1})
		time.Sleep(150 * time.Second)
		s.gen.cancel()
		s.wg.Wait()
		require.Equal(t, 3, strings.Count(lines.String(), `question="the definitions for its submissions"`), lines.String())
	})
}
