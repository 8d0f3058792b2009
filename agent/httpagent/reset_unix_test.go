//go:build unix

package httpagent_test

import (
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The kernel has accepted a request that the service has not read yet. The service gets the rest of it only if the connection is
// closed in the ordinary way.
func TestARequestThatIsGivenUpDoesNotArriveLater(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	raw, err := l.(*net.TCPListener).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
	}))
	require.NoError(t, err)
	h := bind(t, strings.Replace(oneTry, "concurrency: 8", "timeout: 2s", 1), "http://"+l.Addr().String())
	body := strings.Repeat("x", 200<<10)
	r := h.Do("package", map[string]any{"id": "1", "package": body})
	require.Equal(t, inDoubt, r.Effect)
	require.Contains(t, r.Error.Message, "no answer within 2s; the whole request had been sent")

	c, err := l.Accept()
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
	got, err := io.ReadAll(c)
	require.Less(t, len(got), len(body), "the request arrived after it was given up")
	require.ErrorIs(t, err, syscall.ECONNRESET)
}
