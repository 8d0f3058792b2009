package httpagent

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The message of a failure becomes a fact, and whoever reads facts need not know where a name leads.
func TestNetworkErrorsNameNoAddress(t *testing.T) {
	t.Parallel()
	there := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 7101}
	refused := &os.SyscallError{Syscall: "connect", Err: syscall.ECONNREFUSED}
	for want, err := range map[string]error{
		"connection refused": &net.OpError{Op: "dial", Net: "tcp", Addr: there, Err: refused},
		"i/o timeout":        &net.OpError{Op: "read", Net: "tcp", Addr: there, Err: os.ErrDeadlineExceeded},
		"no such host": &net.OpError{Op: "dial", Net: "tcp",
			Err: &net.DNSError{Err: "no such host", Name: "drone", Server: "10.0.0.2:53", IsNotFound: true}},
		"the host could not be looked up in time": &net.DNSError{Err: "read udp 10.0.0.1:5->10.0.0.2:53: i/o timeout", IsTimeout: true},
		"the host could not be looked up":         &net.DNSError{Err: "server misbehaving", Server: "10.0.0.2:53"},
		"another":                                 errors.New("another"),
	} {
		require.Equal(t, want, withoutAddress(err))
	}
}
