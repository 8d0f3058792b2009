package projector_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheStoreKnowsItsDisk(t *testing.T) {
	t.Parallel()
	s := setup(t)
	d, open := s.Disk()
	require.True(t, open)
	require.Positive(t, d.State)
	require.NoError(t, s.Close())
	_, open = s.Disk()
	require.False(t, open, "a store that is closed reads nothing")
}
