package cli

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// Where a first try looks, `sagalog dev` is named, after the node that ought to run and as what it is.
func TestWhatStartsAnEmptyEngineIsNamedLast(t *testing.T) {
	t.Parallel()
	text := (&unreachable{DefaultAPI, errors.New("connection refused")}).Error()
	require.Regexp(t, "is its node running there.*`sagalog serve --brokers HOST:PORT`.*only to try Sagalog, `sagalog dev` starts an empty engine", text)
}
