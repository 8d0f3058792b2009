package node_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

func TestAStoppedPartitionNamesItsReason(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"":           nil,
		"input_lost": fmt.Errorf("partition 2: %w", supervisor.ErrInputLost),
		"log":        errors.Join(supervisor.ErrFold, errors.New("unknown kind")),
		"level":      errors.Join(supervisor.ErrFold, events.TooOld(2, 1)),
		"closed":     fmt.Errorf("partition 2: %w", supervisor.ErrClosed),
		"other":      errors.New("no space left on device"),
	} {
		require.Equal(t, want, node.StopReason(err))
	}
}
