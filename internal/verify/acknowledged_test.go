package verify_test

import (
	"strings"
	"testing"

	"github.com/sagalog/sagalog/internal/verify"
	"github.com/stretchr/testify/require"
)

func TestReadAcknowledged(t *testing.T) {
	list, err := verify.ReadAcknowledged(strings.NewReader(`k0
{"id":"k1","line":1,"partition":1,"status":200}
{"id":"k2","line":2,"partition":1,"offset":7,"status":202}
{"partition":0,"offset":0}
`))
	require.NoError(t, err)
	require.Equal(t, []verify.Acknowledged{{ID: "k0", Partition: -1}, {ID: "k1", Partition: -1}, {ID: "k2", Partition: 1, Offset: 7}, {}}, list)
	for _, line := range []string{`{"id":"k","offset":1}`, `{"partition":1}`, `{}`, `{half`} {
		_, err := verify.ReadAcknowledged(strings.NewReader(line))
		require.ErrorContains(t, err, "line 1", line)
	}
	list, err = verify.ReadAcknowledged(strings.NewReader("\n"))
	require.NoError(t, err)
	require.NotNil(t, list, "an empty list is not a missing one")
}
