package api

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestIdentifiersHaveTheirForm(t *testing.T) {
	t.Parallel()
	require.NotEqual(t, newID(), newID())
	require.Equal(t, uuid.Version(7), uuid.MustParse(newID()).Version())
}
