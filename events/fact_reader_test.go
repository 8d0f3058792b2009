package events_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// A reused reader decodes each record as DecodeFact does, whatever it read before, and both lead to the same state.
func TestAReaderOfFactsReadsWhatDecodeFactReads(t *testing.T) {
	t.Parallel()
	var records []events.Record
	for _, f := range benchFacts() {
		r, err := events.EncodeFact(f, testPartition, testSource)
		require.NoError(t, err)
		bare := r
		bare.Value = []byte(`{}`)
		records = append(records, r, bare)
	}
	reader := events.NewState(testPartition, nil).Reader()
	for range 2 {
		for i := range records {
			want, err := events.DecodeFact(&records[i])
			require.NoError(t, err)
			got, err := reader.Decode(&records[i])
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
}
