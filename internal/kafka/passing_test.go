package kafka_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"
	"testing"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
)

func TestAMovingLeaderOrAMissingBrokerPasses(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		kerr.NotLeaderForPartition, kerr.OffsetNotAvailable, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, &kafka.TimeoutError{Act: "x"},
		&kafka.CreateError{Err: kerr.InvalidReplicationFactor},
	} {
		require.True(t, kafka.IsPassing(fmt.Errorf("list offsets: %w", errors.Join(err))), err)
	}
	for _, err := range []error{
		nil, kerr.TopicAuthorizationFailed, kafka.ErrUnknownTopic, kerr.UnknownTopicOrPartition, errors.New("the state store is damaged"),
		&net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}, kerr.SaslAuthenticationFailed,
		&kafka.CreateError{Err: kerr.InvalidTopicException},
		&net.OpError{Op: "listen", Err: syscall.EADDRINUSE}, &fs.PathError{Op: "write", Path: "x", Err: syscall.EIO},
	} {
		require.False(t, kafka.IsPassing(err), err)
	}
}
