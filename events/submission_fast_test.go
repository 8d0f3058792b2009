package events_test

import (
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// If every submission took the slow path, only the time would show it.
func TestAUsualSubmissionTakesTheFastPath(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"workflow":"order","input":{"item":"lamp"}}`,
		`{"id":"order-1","workflow":"order","version":2,"input":{"a":[1,"x"]},"priority":-3,"labels":{"region":"north"},"deadline":"10m"}`,
		`{ "id" : "a\"b", "workflow" : "order", "deadline" : "2026-11-21T14:00:00Z" }`,
	} {
		slow, err := events.ParseSubmissionSlowly([]byte(text))
		require.NoError(t, err)
		require.Equal(t, slow, events.ReadSubmissionFast([]byte(text)))
	}
	for _, text := range []string{`{"id":"","workflow":"order"}`, `{"id":".","workflow":"order"}`, `{"workflow":"order","deadline":"soon"}`, `{"workflow":"order","deadline":""}`} {
		require.Nil(t, events.ReadSubmissionFast([]byte(text)), text)
	}
}
