package node

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/supervisor"
)

// A record is refused for good if the broker refuses it twice in a row. Its tries before that may have reached the topic, unless they never
// left.
func TestARefusalSaysIfAnEarlierTryWasUnanswered(t *testing.T) {
	t.Parallel()
	refusal, cut := errors.New("invalid record partitioning choice"), errors.New("the connection was cut")
	require.True(t, kafka.IsPermanent(refusal))
	for name, c := range map[string]struct {
		tries             []error
		final, unanswered bool
	}{
		"refused twice":               {[]error{refusal, refusal}, true, false},
		"refused once":                {[]error{refusal}, false, false},
		"refused, not in a row":       {[]error{refusal, cut, refusal}, false, false},
		"refused after no answer":     {[]error{cut, refusal, refusal}, true, true},
		"refused after a full buffer": {[]error{kafka.ErrBufferFull, refusal, refusal}, true, false},
	} {
		var s sending
		var err error
		for _, try := range c.tries {
			require.NoError(t, err, name)
			err = s.failed(try)
		}
		require.Equal(t, c.final, err != nil, name)
		require.Equal(t, c.unanswered, errors.Is(err, supervisor.ErrUnanswered), name)
	}
}
