package api_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/sagalog/sagalog/internal/proxy"
	"github.com/stretchr/testify/require"
)

// One operation is one line that is sent through a socket, checked and answered. The log is in memory.
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

// One operation is one read of a task, either at the node that owns it or through another node.
func BenchmarkRead(b *testing.B) {
	e := apitest.New()
	owner, asked := e.Share("owner"), e.Share("asked")
	ownerURL, stop := apitest.Start(b, owner.Config())
	defer stop()
	askedURL, stopAsked := apitest.Start(b, asked.Config())
	defer stopAsked()
	id := idIn(0, "t")
	owner.Direct(0, proxy.Route{Here: true})
	asked.Direct(0, proxy.Route{Node: "owner", Addr: strings.TrimPrefix(ownerURL, "http://")})
	defer http.DefaultClient.CloseIdleConnections()
	get := func(b *testing.B, method, url string) {
		r, err := http.NewRequest(method, url+path(id), strings.NewReader(good))
		require.NoError(b, err)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(b, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(b, err)
		resp.Body.Close()
		require.Less(b, resp.StatusCode, 300)
	}
	get(b, "PUT", ownerURL)
	for name, url := range map[string]string{"owner": ownerURL, "another": askedURL} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				get(b, "GET", url)
			}
		})
	}
}
