package api_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/stretchr/testify/require"
)

// One operation is one line, through a socket, checked and answered; the log is memory.
func BenchmarkBulkSubmission(b *testing.B) {
	url := apitest.New().Serve(b)
	body := &strings.Builder{}
	for i := range b.N {
		fmt.Fprintf(body, "{\"id\":\"t-%d\",\"workflow\":\"order\",\"input\":{\"item\":\"lamp\"}}\n", i)
	}
	b.ResetTimer()
	resp, err := http.Post(url+"/v1/tasks", "application/x-ndjson", strings.NewReader(body.String()))
	require.NoError(b, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(b, err)
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
}
